// Explorer 7: masks, padding, and what blocked scores become.
import { choice } from "./base.mjs";
import { html, numbersOf } from "./drawing.mjs";
import { codeOfMask, maskedSentence, reading, sayOfFunction } from "./masked.mjs";
import { allowedCells, maskedWeights } from "./maths.mjs";

export const title = "Who may look at whom?";
export const hint = "A row asks, a column is looked at. Click a cell to allow or to block it, "
  + "click a word to make it padding.";

const FILLS = [["-inf", "−∞"], ["-1e9", "−1e9"], ["attnlab", "attnlab’s rule"]];

export function prediction({ tokens }) {
  const first = `“${tokens[0]}” (row 0)`;
  return {
    question: {
      ask: `the mask is causal, and “${tokens[0]}” becomes padding. Which row sees nothing?`,
      then: `Now make “${tokens[0]}” padding under the causal mask.`,
    },
    options: ["no row", first, "every row"],
    right: 1,
    why: `Row 0 may look at itself alone, and now not even there. All later rows still see `
      + "themselves.",
    settled: ({ mask, padding }) => mask === "causal" && padding.includes(0),
  };
}

export function render(lab) {
  const { tokens } = lab.data;
  const scores = numbersOf(lab.data.scores);
  const fills = choice(lab, { label: "blocked score", options: FILLS,
    onPick: (fill) => lab.set({ fill }) });
  const sentence = maskedSentence(lab, [fills.element]);
  lab.picture.append(
    sentence.main,
    html("div", { class: "side" }, html("h4", {}, "The same in PyTorch (True = may attend)"), lab.codeBox,
      html("h4", {}, "This cell"), sentence.detail, html("h4", {}, "How to read it"), reading()));

  return (state, answer) => {
    fills.show(state.fill);
    const shown = answer ? { ...state, ...answer.state } : state;
    const allowed = allowedCells(shown, tokens.length);
    const weights = answer ? numbersOf(answer.drawn.weights)
      : scores.map((row, i) => maskedWeights(row, allowed[i], shown.fill));
    const verdicts = sentence.show(state, allowed, weights);
    const text = answer ? sayOfFunction(tokens, answer.name, verdicts) : say(tokens, allowed, shown);
    return { say: text, bad: verdicts.some(({ good }) => !good), code: code(shown, answer) };
  };
}

// --- words: the same as in masks.py ----------------------------------------------------------------

const WHAT_HAPPENS = {
  "-inf": "A softmax over −∞ alone is 0/0: **NaN**, and it spreads to all that is computed from it.",
  "-1e9": "All scores are equal, so **each key gets the same weight**, blocked or not: a wrong "
    + "answer without an error.",
  attnlab: "The weights are set to **0**, and so is the output, as scaled_dot_product_attention "
    + "does.",
};

function say(tokens, allowed, { fill }) {
  const empty = allowed.flatMap((row, i) => (row.includes(true) ? [] : [i]));
  if (!empty.length) {
    return "Every query may attend to at least one key, and every row of weights adds up to 1.";
  }
  const names = empty.map((i) => `**“${tokens[i]}” (row ${i})**`).join(" and ");
  return `${names} may attend to nothing. ${WHAT_HAPPENS[fill]}`;
}

function code(state, answer) {
  const lines = codeOfMask(state);
  if (answer) return [...lines, `weights = ${answer.name}(scores, mask)`].join("\n");
  const blocked = state.fill === "-1e9" ? "-1e9" : "-torch.inf";
  lines.push(`scores = scores.masked_fill(~mask, ${blocked})`, "weights = scores.softmax(dim=-1)");
  if (state.fill === "attnlab") {
    lines.push("weights = weights.masked_fill(~mask.any(-1, keepdim=True), 0)");
  }
  return lines.join("\n");
}
