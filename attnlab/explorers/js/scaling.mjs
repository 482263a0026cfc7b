// Explorer 4: why the scores are divided by the square root of d_k.
import { button, sameInPyTorch, slider } from "./base.mjs";
import { chart, html, matrix, numbersOf } from "./drawing.mjs";

export const title = "Why divide by √dₖ ?";
export const hint = "Six tokens with random queries and keys. The slider only gives them more "
  + "features, d_k of them.";

const PRESETS = [1, 64, 1024];

export function prediction() {
  return {
    question: {
      ask: "without the division, more features per query and key make the attention weights …",
      then: "Now move d_k far to the right and look.",
    },
    options: ["sharper", "flatter", "no different"],
    right: 0,
    why: "Scores are sums of d_k products, so they spread like √d_k, and the softmax turns a wide "
      + "lead into a single winner. At d_k = 1024 most rows pass on less than a thousandth of the "
      + "mean gradient, and a few near ties a huge one.",
    settled: ({ d_k }) => d_k >= 256,
  };
}

export function render(lab) {
  const { tokens, stops, curves, sentences } = lab.data;
  const draws = lab.data.draws.map((draw) => draw.map(
    ({ raw, scaled, keys }) => ({ raw: numbersOf(raw), scaled: numbersOf(scaled), keys })));
  const length = slider(lab, { label: "d_k", name: "length of queries and keys, d_k", stops,
    onMove: (d_k) => lab.set({ d_k }) });
  const presets = PRESETS.map((d_k) => button(lab, `${d_k}`, () => lab.set({ d_k })));
  presets.forEach((preset, i) => preset.setAttribute("aria-label", `d_k = ${PRESETS[i]}`));
  const again = button(lab, "New random draw",
    () => lab.set({ seed: (lab.state.seed + 1) % draws.length }));
  lab.bar.append(length.element,
    html("div", { class: "control", role: "group", "aria-label": "values of d_k" }, presets), again);

  const raw = panel(lab, { name: "not scaled", formula: "softmax(QKᵀ)", role: "raw", tokens });
  const scaled = panel(lab, { name: "scaled", formula: "softmax(QKᵀ / √dₖ)", role: "scaled", tokens });
  const gradients = chart(lab, {
    stops,
    xlabel: "d_k",
    ylabel: "length of the gradient",
    y: axisFor(Object.values(curves).flat()),
    lines: [
      { name: "not scaled, mean", values: curves.raw_mean, role: "raw", dash: "dashed", dot: "triangle" },
      { name: "not scaled, median", values: curves.raw_median, role: "raw", dash: "solid", dot: "circle" },
      { name: "scaled, mean", values: curves.scaled_mean, role: "scaled", dash: "dashdot", dot: "diamond" },
      { name: "scaled, median", values: curves.scaled_median, role: "scaled", dash: "dotted", dot: "square" },
    ],
    onPreview: (i) => lab.preview(i === undefined ? {} : { d_k: stops[i] }),
    onPick: (i) => lab.set({ d_k: stops[i] }),
  });
  lab.picture.append(raw.element, scaled.element, html("div", { class: "panel" },
    html("h4", {}, "gradient of a query"),
    html("p", { class: "under" }, "400 queries with 16 keys each\npoint to look, click to stay"),
    gradients.element), sameInPyTorch(lab));

  return ({ d_k, seed }) => {
    const at = stops.indexOf(d_k);
    const { raw: rawWeights, scaled: scaledWeights, keys } = draws[seed][at];
    length.show(lab.state.d_k);  // what is kept, also while another stop is looked at
    raw.show(rawWeights, keys[0]);
    scaled.show(scaledWeights, keys[1]);
    gradients.mark(at, sentences[at]);
    return { say: bold(sentences[at]), bad: curves.raw_median[at] < curves.scaled_median[at] / 2,
      code: code(d_k) };
  };
}

function panel(lab, { name, formula, role, tokens }) {
  const grid = matrix(lab, { caption: `Attention weights, ${name}`, rows: tokens, columns: tokens,
    frame: role });
  const used = html("p", { class: "under" });
  const element = html("div", { class: "panel" }, html("h4", { class: role }, name), used,
    grid.element);
  const show = (weights, keys) => {
    used.textContent = `${formula}\na row uses ${keys.toFixed(1)} of ${tokens.length} keys`;
    grid.paint((i, j) => ({ weight: weights[i][j] }));
  };
  return { element, show };
}

/** A logarithmic axis over whole powers of ten. */
function axisFor(values) {
  const powers = values.map(Math.log10);
  const [low, high] = [Math.floor(Math.min(...powers)), Math.ceil(Math.max(...powers))];
  const ticks = Array.from({ length: high - low + 1 }, (_, i) => 10 ** (low + i));
  const text = (tick) => (tick < 0.001 ? tick.toExponential() : String(Number(tick.toPrecision(1))));
  return { low: 10 ** low, high: 10 ** high, log: true, ticks: ticks.map((tick) => [tick, text(tick)]) };
}

function bold(sentence) {
  return sentence.replace(/^d_k = \d+/, (start) => `**${start}**`);
}

function code(d_k) {
  return `query, key = query[:, :${d_k}], key[:, :${d_k}]\n`
    + "raw = (query @ key.T).softmax(dim=-1)\n"
    + `scaled = (query @ key.T / ${d_k} ** 0.5).softmax(dim=-1)`;
}
