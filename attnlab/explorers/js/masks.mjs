// Masks, padding, and what blocked scores become.
import { html, numbersOf } from "./drawing.mjs";
import { codeOfMask, fitsMask, maskedSentence, nameOfRow, sayOfFunction } from "./masked.mjs";
import { allowedCells, maskedWeights } from "./maths.mjs";
import { fill, listed } from "./words.mjs";

export function settled({ mask, padding }) {
  return mask === "causal" && padding.includes(0);
}

export const fits = fitsMask;

export function render(lab) {
  const { tokens, words } = lab.data;
  const scores = numbersOf(lab.data.scores);
  const sentence = maskedSentence(lab);
  lab.picture.append(sentence.main, html("div", { class: "side" }, html("h4", {}, "This cell"),
    sentence.detail, html("h4", {}, "How to read it"), sentence.key));

  lab.longest(Object.values(words["what happens"]).map((what) =>
    fill(words.empty, { names: nameOfRow(lab.data, 0), what })));

  return (state, answer) => {
    const shown = answer ? { ...state, ...answer.state } : state;
    const allowed = allowedCells(shown, tokens.length);
    const weights = answer ? numbersOf(answer.drawn.weights)
      : scores.map((row, i) => maskedWeights(row, allowed[i], shown.fill));
    const rows = sentence.show(state, allowed, weights);
    const last = fill(words.code[answer ? "function" : shown.fill], answer ?? {});
    return {
      say: answer ? sayOfFunction(lab.data, answer.name, rows) : say(lab.data, allowed, shown.fill),
      bad: rows.some(({ good }) => !good),
      code: [...codeOfMask(words, shown), last].join("\n"),
    };
  };
}

function say(data, allowed, rule) {
  const { words } = data;
  const empty = allowed.flatMap((row, i) => (row.includes(true) ? [] : [i]));
  if (!empty.length) return words.full;
  const names = empty.length === allowed.length ? words.every
    : listed(empty.map((row) => nameOfRow(data, row)));
  return fill(words.empty, { names, what: words["what happens"][rule] });
}
