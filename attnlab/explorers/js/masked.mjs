// A sentence under a mask: its controls, the grid of its weights, and what is wrong with a row.
import { button, chips, choice, slider } from "./base.mjs";
import { html, matrix, setText, weightColours } from "./drawing.mjs";

const KINDS = [["none", "none"], ["causal", "causal"], ["window", "window"]];

/**
 * The controls of a mask (in lab.bar, with `further` among them) and the grid of weights.
 *
 * Returns the elements `words`, `grid` and `detail`, and `show(state, allowed, weights)`, which
 * returns what is right or wrong with every row.
 */
export function maskedSentence(lab, further = []) {
  const { tokens } = lab.data;
  const kinds = choice(lab, { label: "mask", options: KINDS, onPick: (mask) => lab.set({ mask }) });
  const width = slider(lab, { label: "", name: "width of the window",
    stops: tokens.map((_, i) => i + 1), onMove: (window) => lab.set({ window }) });
  width.input.style.width = "130px";
  width.element.lastChild.style.minWidth = "2ch";
  const reach = html("span", {});
  kinds.element.append(width.element, reach);
  const reset = button(lab, "Reset", () => lab.set({ padding: [], toggled: [] }));
  reset.className = "plain";
  lab.bar.append(kinds.element, ...further, reset);
  const words = chips(lab, { label: "padding", words: tokens,
    onToggle: (i) => lab.set({ padding: toggledIn(lab.state.padding, i).sort((a, b) => a - b) }) });
  const detail = html("p", { class: "detail" });
  let pointed = null, pickable = true;
  const grid = matrix(lab, {
    caption: "Attention weights: rows are queries, columns are keys", rows: tokens, columns: tokens,
    sums: "sum",
    onPick: (i, j) => {
      if (!pickable) return;
      lab.set({ toggled: toggledIn(lab.state.toggled, [i, j])
        .sort(([a, b], [c, d]) => a - c || b - d) });
    },
    onPoint: (i, j) => {
      pointed = i === undefined ? null : grid.cells[i][j];
      tell(detail, pointed);
    },
  });
  const show = (state, allowed, weights, maskable = true) => {
    pickable = maskable;
    lab.bar.hidden = words.element.hidden = !maskable;
    kinds.show(state.mask);
    width.show(Math.min(state.window, tokens.length));
    width.element.hidden = reach.hidden = state.mask !== "window";
    setText(reach, reachOf(state.window));
    words.show(state.padding);
    const verdicts = weights.map((row, i) => judge(row, allowed[i]));
    grid.paint((i, j) => look(tokens, weights[i][j], allowed[i], i, j),
      verdicts.map(({ mark, note, good }) => [html("span", { class: good ? "fine" : "bad" }, mark),
        html("span", { class: "wide" }, ` ${note}`)]));
    tell(detail, pointed);
    return verdicts;
  };
  const main = html("div", { class: "main", style: `max-width:${10.6 + 3.5 * tokens.length}em` },
    words.element, grid.element);
  return { main, detail, show };
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

function tell(detail, cell) {
  const idle = "Point at a cell, or move there with the arrow keys.";
  const text = cell ? `${cell.getAttribute("aria-label")}.` : idle;
  detail.textContent = text[0].toUpperCase() + text.slice(1);
}

// --- words: the same as in _masked.py --------------------------------------------------------------

export function sayOfFunction(tokens, name, verdicts) {
  const problems = verdicts.flatMap(({ problem }, i) =>
    (problem ? [`**“${tokens[i]}” (row ${i})** ${problem}`] : []));
  const right = "every row is right, and no blocked key gets weight";
  return `Drawn by ${name}: ${problems.slice(0, 3).join("; ") || right}.`;
}

/** What a query sees through the window, which is causal. */
function reachOf(window) {
  return window === 1 ? "itself alone" : `itself and ${window - 1} before`;
}

/** The lines of PyTorch that make the mask. */
export function codeOfMask({ mask, window, padding, toggled }) {
  const makers = {
    none: "torch.ones(n, n).bool()",
    causal: "torch.ones(n, n).tril().bool()",
    window: `torch.ones(n, n).tril().triu(${1 - window}).bool()  # ${reachOf(window)}`,
  };
  const lines = [`mask = ${makers[mask]}`];
  if (padding.length) lines.push(`mask[:, [${padding.join(", ")}]] = False  # padding`);
  if (toggled.length) {
    const [rows, columns] = [0, 1].map((side) => toggled.map((pair) => pair[side]).join(", "));
    lines.push(`mask[[${rows}], [${columns}]] ^= True  # flipped by hand`);
  }
  return lines;
}

/** What the looks of a cell mean. */
export function reading() {
  const shades = [0.1, 0.5, 0.9].map((weight) => weightColours(weight).background);
  return html("div", { class: "key" },
    html("i", { style: `background:linear-gradient(90deg,${shades})` }),
    html("span", {}, "weight: the stronger the colour, the more"),
    html("i", { class: "cell blocked" }), html("span", {}, "blocked: weight 0"),
    html("i", { class: "cell nan" }, "NaN"), html("span", {}, "not a number"),
    html("i", { class: "cell leak" }), html("span", {}, "blocked, and still has weight"));
}
