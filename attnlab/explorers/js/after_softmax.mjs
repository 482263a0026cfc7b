// Explorer 8: block before the softmax or after it, with minus infinity or with 0.
import { button, choice, slider } from "./controls.mjs";
import { html, matrix, numbersOf, weightColours } from "./drawing.mjs";

export const title = "Block before the softmax, or after?";
export const hint = "Five tokens with random scores, the last two are padding. Choose a rule, then "
  + "change what <pad> scores.";

const RULES = [["no mask", "no mask"], ["before: -inf", "−∞ before"], ["before: 0", "0 before"],
  ["after: 0", "0 after"]];
const PRESETS = [-4, 0, 6];
const HATCH = "repeating-linear-gradient(45deg, var(--raw) 0 5px, var(--warm) 5px 9px)";

const signed = (value) => (value > 0 ? `+${value}` : String(value).replace("-", "−"));

export function prediction({ tokens, lifts, frames, spoken_of: row }) {
  const [none, , zero, late] = RULES.map(([rule]) => frames[rule][lifts.indexOf(0)]);
  return {
    question: {
      ask: `which rule leaves most of the weight of “${tokens[row]}” on <pad>?`,
      then: "Now try all four rules.",
    },
    options: ["no mask", "−∞ before the softmax", "0 before", "0 after"],
    right: 2,
    why: `With 0 before the softmax “${tokens[row]}” leaves ${zero.padding[row].toFixed(3)} on `
      + `<pad>, without a mask ${none.padding[row].toFixed(3)}: 0 is a score like any other, and `
      + `e⁰ = 1. With −∞ it leaves nothing. With 0 after the softmax nothing either, but its row `
      + `adds up to ${late.sums[row].toFixed(3)}.`,
    settled: ({ rule, lift }) => rule === "before: 0" && lift === 0,
  };
}

export function render(lab) {
  const { tokens, words, lifts, frames } = lab.data;
  const rules = choice(lab, { label: "rule", options: RULES, onPick: (rule) => lab.set({ rule }) });
  const lift = slider(lab, { label: "add to <pad>", name: "added to the scores of <pad>",
    stops: lifts, text: signed, onMove: (value) => lab.set({ lift: value }) });
  lift.input.style.width = "96px";  // six stops
  lift.element.lastChild.style.minWidth = "2.4ch";
  lab.bar.classList.add("dense");
  const presets = PRESETS.map((value) => {
    const preset = button(lab, signed(value), () => lab.set({ lift: value }));
    preset.setAttribute("aria-label", `add ${signed(value)}`);
    return preset;
  });
  lab.bar.append(rules.element, lift.element, html("div",
    { class: "control", role: "group", "aria-label": "added to the scores of <pad>" }, presets));

  const grid = matrix(lab, { caption: "Attention weights: rows are queries, columns are keys",
    rows: tokens, columns: tokens, sums: "sum" });
  const shares = shareBars(tokens);
  lab.picture.append(
    html("div", { class: "main", style: `max-width:${10.6 + 3.5 * tokens.length}em` },
      html("h4", { style: "margin:0 0 6px;font-size:1.1em" }, "Weights"), grid.element),
    html("div", { class: "side" }, html("h4", {}, "Where the weight of each row goes"),
      shares.element, html("h4", {}, "The same in PyTorch (True = may attend)"), lab.codeBox,
      reading()));
  for (const head of lab.picture.querySelectorAll("th:not(.raw)")) {
    if (head.textContent === "<pad>") head.style.cssText = "font-size:0.74em;overflow:visible;"
      + "padding:0 2px 0 0;letter-spacing:-0.02em";  // a long name, to be read whole
  }

  return ({ rule, lift: added }) => {
    const { weights, padding, ...frame } = frames[rule][lifts.indexOf(added)];
    rules.show(rule);
    lift.show(added);
    const rows = numbersOf(weights);
    grid.paint((i, j) => look(rows[i][j], j >= words), frame.sums.map(verdict));
    shares.show(frame.words, padding);
    return { say: frame.say.replace(/^[^:,]+/, "**$&**"), bad: rule !== "before: -inf",
      code: frame.code };
  };
}

function look(weight, isPadding) {
  if (!isPadding) return { weight };
  return weight === 0 ? { weight, kind: "blocked", text: "0" } : { weight, kind: "leak" };
}

function verdict(sum) {
  const good = Math.abs(sum - 1) < 0.005;
  return [html("span", { class: good ? "fine" : "bad" }, good ? "✓ 1" : `✗ ${sum.toFixed(3)}`)];
}

/** One bar for every row, full at 1: what goes to words, what to padding, and both as numbers. */
function shareBars(tokens) {
  const rows = tokens.map(() => {
    const part = (paint) => html("i", { style: `display:block;height:100%;background:${paint}` });
    return { word: part("var(--scaled)"), pad: part(HATCH), toWords: html("td"), toPad: html("td") };
  });
  const track = ({ word, pad }) => html("td", {}, html("div", { "aria-hidden": "true",
    style: "display:flex;height:26px;border:1.5px solid var(--edge);border-radius:4px;"
      + "overflow:hidden" }, word, pad));
  const head = (text, role) => html("th", { scope: "col", class: role, style: "width:4.3em" }, text);
  const element = html("table", { style: "border-spacing:6px 5px" },
    html("caption", { class: "unseen" }, "Sum of the weights of each row, on words and on padding"),
    html("thead", {}, html("tr", {}, html("td", { class: "word" }),
      html("td", {}), head("words", "scaled"), head("<pad>", "raw"))),
    html("tbody", {}, rows.map((row, i) => html("tr", {},
      html("th", { scope: "row" }, tokens[i]), track(row), row.toWords, row.toPad))));
  const show = (words, padding) => rows.forEach(({ word, pad, toWords, toPad }, i) => {
    word.style.width = `${100 * words[i]}%`;
    pad.style.width = `${100 * padding[i]}%`;
    toWords.textContent = words[i].toFixed(3);
    toPad.replaceChildren(html("span", { class: padding[i] ? "bad" : "" }, padding[i].toFixed(3)));
  });
  return { element, show };
}

function reading() {
  const shades = [0.1, 0.5, 0.9].map((weight) => weightColours(weight).background);
  return html("div", { class: "key", style: "margin-top:10px" },
    html("i", { style: `background:linear-gradient(90deg,${shades})` }),
    html("span", {}, "weight: the stronger the colour, the more"),
    html("i", { class: "cell blocked" }), html("span", {}, "padding without weight"),
    html("i", { class: "cell leak" }), html("span", {}, "padding that takes weight"));
}
