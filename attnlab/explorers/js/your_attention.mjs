// Explorer 15: the learner's attention draws the masked sentence; beside it what the clinic checked.
import { html, numbersOf } from "./drawing.mjs";
import { codeOfMask, maskedSentence, sayOfFunction } from "./masked.mjs";
import { allowedCells, maskedWeights } from "./maths.mjs";

export const title = "Your attention";
export const hint = "Your function draws these weights: the values are unit vectors, which hand them "
  + "over. The list beside them is what the clinic checked.";

const CROSSES = ["none", "one", "more than one"];

export function prediction(_data, { name, checks }) {
  const { no } = countOf(checks);
  return {
    question: { ask: `the clinic checks ${name}. How many crosses?`, then: "" },
    options: CROSSES,
    right: Math.min(no, 2),
    why: `${name} has ${no === 1 ? "one cross" : no ? `${no} crosses` : "no cross"}.`,
    settled: () => true,
  };
}

export function render(lab) {
  const { tokens, marks } = lab.data;
  const scores = numbersOf(lab.data.scores);
  const sentence = maskedSentence(lab);
  const list = html("ul", { class: "checks" });
  const maskable = html("p", { class: "note" }, "This function has no argument for a mask.");
  let listed = null;
  sentence.main.prepend(maskable);
  sentence.main.append(html("h4", {}, "This cell"), sentence.detail);
  lab.picture.append(sentence.main,
    html("div", { class: "side kept" }, html("h4", {}, "What the clinic checked"), list,
      html("h4", {}, "How it was called"), lab.codeBox));

  return (state, answer) => {
    const { checks, takes_mask: takesMask, name } = lab.answer();
    if (String(listed) !== JSON.stringify(checks)) list.replaceChildren(...itemsOf(checks, marks));
    listed = JSON.stringify(checks);
    maskable.hidden = takesMask;
    const shown = answer ? { ...state, ...answer.state } : state;
    const allowed = allowedCells(takesMask ? shown : { ...shown, mask: "none", padding: [],
      toggled: [] }, tokens.length);
    const weights = answer ? numbersOf(answer.drawn.weights)
      : scores.map((row, i) => maskedWeights(row, allowed[i], "attnlab"));
    const verdicts = sentence.show(state, allowed, weights, takesMask);
    const author = answer ? name : "a right function";
    return { say: `${sayOfFunction(lab.data, author, verdicts)} The clinic: ${count(checks)}.`,
      bad: verdicts.some(({ good }) => !good) || countOf(checks).no > 0,
      code: code(lab.data.words, shown, takesMask, name) };
  };
}

function itemsOf(checks, marks) {
  const spoken = { yes: "holds", no: "fails", note: "a choice", open: "could not be checked" };
  return checks.map(({ mark, words, finding, lesson }) => html("li", { class: `is-${mark}` },
    html("i", { "aria-hidden": "true" }, marks[mark]),
    html("span", {}, words, html("span", { class: "unseen" }, `: ${spoken[mark]}`),
      finding ? html("small", {}, finding, lesson ? html("b", {}, ` See ${lesson}.`) : "") : "")));
}

// --- words: the same as in your_attention.py and _checklist.py -------------------------------------

function countOf(checks) {
  const counts = { yes: 0, no: 0, note: 0, open: 0 };
  for (const { mark } of checks) counts[mark] += 1;
  return counts;
}

function count(checks) {
  const { yes, no, note, open } = countOf(checks);
  const parts = [`**${yes} of ${checks.length} properties hold**`];
  if (no) parts.push(`**${no} fail${no === 1 ? "s" : ""}**`);
  if (note) parts.push(`${note} is a choice`);
  if (open) parts.push(`${open} could not be checked`);
  return parts.join(", ");
}

function code(words, state, takesMask, name) {
  const values = "value = torch.eye(n).expand(1, n, n)  # output = weights";
  if (!takesMask) return `${values}\nweights = ${name}(query, key, value)`;
  return [...codeOfMask(words, state), values,
    `weights = ${name}(query, key, value, mask.expand(1, n, n))`].join("\n");
}
