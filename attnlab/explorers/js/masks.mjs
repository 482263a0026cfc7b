// Explorer 7: masks, padding, and what blocked scores become.
import { button, chips, choice, slider } from "./base.mjs";
import { html, matrix, numbersOf, weightColours } from "./drawing.mjs";
import { allowedCells, maskedWeights } from "./maths.mjs";

export const title = "Who may look at whom?";
export const hint = "A row asks, a column is looked at. Click a cell to allow or to block it, "
  + "click a word to make it padding.";

const KINDS = [["none", "none"], ["causal", "causal"], ["window", "window"]];
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
  const kinds = choice(lab, { label: "mask", options: KINDS,
    onPick: (mask) => lab.set({ mask }) });
  const fills = choice(lab, { label: "blocked score", options: FILLS,
    onPick: (fill) => lab.set({ fill }) });
  const width = slider(lab, { label: "", name: "width of the window",
    stops: tokens.map((_, i) => i + 1), onMove: (window) => lab.set({ window }) });
  width.input.style.width = "130px";
  const reset = button(lab, "Reset", () => lab.set({ padding: [], toggled: [] }));
  kinds.element.append(width.element);
  lab.bar.append(kinds.element, fills.element);

  const words = chips(lab, { label: "padding", words: tokens,
    onToggle: (i) => lab.set({ padding: toggledIn(lab.state.padding, i).sort((a, b) => a - b) }) });
  reset.className = "plain";
  lab.bar.append(reset);
  const detail = html("p", { class: "detail" });
  let pointed = null;
  const grid = matrix(lab, {
    caption: "Attention weights: rows are queries, columns are keys", rows: tokens, columns: tokens,
    sums: "sum",
    onPick: (i, j) => lab.set({ toggled: toggledIn(lab.state.toggled, [i, j])
      .sort(([a, b], [c, d]) => a - c || b - d) }),
    onPoint: (i, j) => {
      pointed = i === undefined ? null : grid.cells[i][j];
      tell(detail, pointed);
    },
  });
  lab.picture.append(
    html("div", { class: "main", style: `max-width:${10.6 + 3.5 * tokens.length}em` },
      words.element, grid.element),
    html("div", { class: "side" }, html("h4", {}, "The same in PyTorch (True = may attend)"), lab.codeBox,
      html("h4", {}, "This cell"), detail, html("h4", {}, "How to read it"), reading()));

  return (state, answer) => {
    kinds.show(state.mask);
    fills.show(state.fill);
    width.show(Math.min(state.window, tokens.length));
    width.element.hidden = state.mask !== "window";
    words.show(state.padding);
    const shown = answer ? { ...state, ...answer.state } : state;
    const allowed = allowedCells(shown, tokens.length);
    const weights = answer ? numbersOf(answer.drawn.weights)
      : scores.map((row, i) => maskedWeights(row, allowed[i], shown.fill));
    const verdicts = weights.map((row, i) => judge(row, allowed[i]));
    grid.paint((i, j) => look(tokens, weights[i][j], allowed[i], i, j),
      verdicts.map(({ mark, note, good }) => [html("span", { class: good ? "fine" : "bad" }, mark),
        html("span", { class: "wide" }, ` ${note}`)]));
    tell(detail, pointed);
    const text = answer ? sayOfFunction(tokens, answer.name, verdicts) : say(tokens, allowed, shown);
    return { say: text, bad: verdicts.some(({ good }) => !good), code: code(shown, answer) };
  };
}

/** The list without the entry, or with it. */
function toggledIn(list, entry) {
  const others = list.filter((one) => String(one) !== String(entry));
  return others.length < list.length ? others : [...list, entry];
}

function look(tokens, weight, allowed, i, j) {
  const may = allowed[j];
  const visible = weight !== 0;
  const kind = Number.isNaN(weight) ? "nan" : may ? "" : visible ? "leak" : "blocked";
  const text = kind === "blocked" ? "" : undefined;
  const number = Number.isNaN(weight) ? "NaN, not a number" : weight.toFixed(2);
  return { weight, kind, text, label: `query “${tokens[i]}”, key “${tokens[j]}”: `
    + `${may ? "may attend" : "blocked"}, weight ${number}` };
}

/** What is right or wrong with a row of weights. */
function judge(row, allowed) {
  const sum = row.reduce((total, weight) => total + weight, 0);
  const empty = !allowed.includes(true);
  const leak = row.some((weight, j) => !allowed[j] && Math.abs(weight) > 1e-6);
  if (Number.isNaN(sum)) return { good: false, mark: "✗ NaN", note: "", problem: "is NaN" };
  const rounded = sum.toFixed(2);
  if (empty && !leak) return { good: true, mark: "○ 0", note: "no key", problem: "" };
  if (empty) {
    return { good: false, mark: `✗ ${rounded}`, note: "leaks",
      problem: "may attend to nothing and still gives weight" };
  }
  if (leak) {
    return { good: false, mark: `✗ ${rounded}`, note: "leaks",
      problem: "gives weight to blocked keys" };
  }
  if (Math.abs(sum - 1) > 0.005) {
    return { good: false, mark: `✗ ${rounded}`, note: "", problem: `adds up to ${rounded}` };
  }
  return { good: true, mark: "✓ 1", note: "", problem: "" };
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

function sayOfFunction(tokens, name, verdicts) {
  const problems = verdicts.flatMap(({ problem }, i) =>
    (problem ? [`**“${tokens[i]}” (row ${i})** ${problem}`] : []));
  const right = "every row is right, and no blocked key gets weight";
  return `Drawn by ${name}: ${problems.slice(0, 3).join("; ") || right}.`;
}

function code({ mask, window, padding, toggled, fill }, answer) {
  const makers = {
    none: "torch.ones(n, n).bool()",
    causal: "torch.ones(n, n).tril().bool()",
    window: `torch.ones(n, n).tril().triu(${1 - window}).bool()`,
  };
  const lines = [`mask = ${makers[mask]}`];
  if (padding.length) lines.push(`mask[:, [${padding.join(", ")}]] = False  # padding`);
  if (toggled.length) {
    const [rows, columns] = [0, 1].map((side) => toggled.map((pair) => pair[side]).join(", "));
    lines.push(`mask[[${rows}], [${columns}]] ^= True  # flipped by hand`);
  }
  if (answer) return [...lines, `weights = ${answer.name}(scores, mask)`].join("\n");
  const blocked = fill === "-1e9" ? "-1e9" : "-torch.inf";
  lines.push(`scores = scores.masked_fill(~mask, ${blocked})`, "weights = scores.softmax(dim=-1)");
  if (fill === "attnlab") {
    lines.push("weights = weights.masked_fill(~mask.any(-1, keepdim=True), 0)");
  }
  return lines.join("\n");
}

// --- small parts -----------------------------------------------------------------------------------

function tell(detail, cell) {
  const idle = "Point at a cell, or move there with the arrow keys.";
  const text = cell ? `${cell.getAttribute("aria-label")}.` : idle;
  detail.textContent = text[0].toUpperCase() + text.slice(1);
}

function reading() {
  const shades = [0.1, 0.5, 0.9].map((weight) => weightColours(weight).background);
  return html("div", { class: "key" },
    html("i", { style: `background:linear-gradient(90deg,${shades})` }),
    html("span", {}, "weight: the bluer, the more attention"),
    html("i", { class: "cell blocked" }), html("span", {}, "blocked: weight 0"),
    html("i", { class: "cell nan" }, "NaN"), html("span", {}, "not a number"),
    html("i", { class: "cell leak" }), html("span", {}, "blocked, and still has weight"));
}
