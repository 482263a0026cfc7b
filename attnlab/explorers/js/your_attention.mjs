// The learner's attention draws a masked sentence; beside it is what the clinic checked.
import { html, numbersOf } from "./drawing.mjs";
import { codeOfMask, fitsMask, maskedSentence, sayOfFunction } from "./masked.mjs";
import { allowedCells, maskedWeights } from "./maths.mjs";
import { fill } from "./words.mjs";

export const fits = fitsMask;

export function render(lab) {
  const { tokens, words } = lab.data;
  const scores = numbersOf(lab.data.scores);
  const sentence = maskedSentence(lab);
  const list = html("ul", { class: "checks" });
  const maskless = html("p", { class: "note" }, words.maskless);
  let listed = null;
  sentence.main.prepend(maskless);
  sentence.main.append(sentence.detail);
  lab.picture.append(sentence.main, html("div", { class: "side kept" },
    html("h4", {}, "What the clinic checked"), list));

  return (state, answer) => {
    const { checks, count, takes_mask: takesMask, name, call } = lab.answer();
    if (listed !== JSON.stringify(checks)) list.replaceChildren(...itemsOf(checks, words.list));
    listed = JSON.stringify(checks);
    maskless.hidden = takesMask;
    const shown = answer ? { ...state, ...answer.state } : state;
    const allowed = allowedCells(takesMask ? shown : { ...shown, mask: "none", padding: [],
      toggled: [] }, tokens.length);
    const weights = answer ? numbersOf(answer.drawn.weights)
      : scores.map((row, i) => maskedWeights(row, allowed[i], "attnlab"));
    const rows = sentence.show(state, allowed, weights, takesMask);
    const drawn = sayOfFunction(lab.data, answer ? name : words.correct, rows);
    return {
      say: fill(words.clinic, { drawn, count }),
      bad: rows.some(({ good }) => !good) || checks.some(({ mark }) => mark === "no"),
      code: [...(takesMask ? codeOfMask(words, shown) : []), words.code.values, call].join("\n"),
    };
  };
}

function itemsOf(checks, { marks, spoken, see }) {
  return checks.map(({ mark, words, finding, lesson }) => html("li", { class: `is-${mark}` },
    html("i", { "aria-hidden": "true" }, marks[mark]),
    html("span", {}, words, html("span", { class: "unseen" }, `: ${spoken[mark]}`),
      finding ? html("small", {}, finding, lesson ? html("b", {}, fill(see, { lesson })) : "") : "")));
}
