// Explorer 5: what other divisors than the square root of d_k do to the weights.
import { button, choice, sameInPyTorch, slider } from "./base.mjs";
import { chart, html, matrix, numbersOf, setText } from "./drawing.mjs";

export const title = "Divide by what?";
export const hint = "Random queries and keys (mean 0, variance 1). The layer stays d_model = 512 "
  + "wide and has 512 / d_k heads.";

const PRESETS = [8, 64, 512];
const LOOKS = {  // as in the figures of matplotlib
  "1": { role: "raw", dash: "dashed", dot: "square" },
  "sqrt(d_k)": { role: "scaled", dash: "solid", dot: "circle" },
  d_k: { role: "third", dash: "dashdot", dot: "triangle" },
  "sqrt(d_model)": { role: "fourth", dash: "dotted", dot: "diamond" },
};

export function prediction() {
  return {
    question: {
      ask: "without a divisor one key takes nearly all, and √d_k mends it. What if we divide by "
        + "d_k itself, and d_k is large?",
      then: "Now choose the divisor d_k, at d_k = 64 or more.",
    },
    options: ["one key again", "all keys alike", "the same as √d_k"],
    right: 1,
    why: "The variance falls to 1/d_k, all scores are nearly equal, and the output is nearly a "
      + "plain average: wrong the other way.",
    settled: ({ divisor, d_k }) => divisor === "d_k" && d_k >= 64,
  };
}

export function render(lab) {
  const { tokens, stops, divisors, labels, keys, curves, frames } = lab.data;
  const kinds = choice(lab, { label: "divide by",
    options: divisors.map((name) => [name, labels[name]]),
    onPick: (divisor) => lab.set({ divisor }) });
  const length = slider(lab, { label: "d_k", name: "length of queries and keys, d_k", stops,
    onMove: (d_k) => lab.set({ d_k }) });
  length.input.classList.add("narrow");
  lab.bar.classList.add("dense");
  const presets = PRESETS.map((d_k) => button(lab, `${d_k}`, () => lab.set({ d_k })));
  presets.forEach((preset, i) => preset.setAttribute("aria-label", `d_k = ${PRESETS[i]}`));
  lab.bar.append(kinds.element, length.element,
    html("div", { class: "control", role: "group", "aria-label": "values of d_k" }, presets));

  const linesOf = (values) => divisors.map((name) =>
    ({ name: `divided by ${labels[name]}`, values: values[name], ...LOOKS[name] }));
  const follow = {
    stops,
    xlabel: "d_k",
    onPreview: (i) => lab.preview(i === undefined ? {} : { d_k: stops[i] }),
    onPick: (i) => lab.set({ d_k: stops[i] }),
  };
  const variance = chart(lab, { ...follow, lines: linesOf(curves.variance),
    y: { low: 0.001, high: 1000, log: true,
      ticks: [0.001, 0.01, 0.1, 1, 10, 100, 1000].map((tick) => [tick, String(tick)]) } });
  const used = chart(lab, { ...follow, lines: linesOf(curves.keys),
    y: { low: 0, high: keys, ticks: [0, 4, 8, 12, 16].map((tick) => [tick, String(tick)]) } });
  const grid = matrix(lab, { caption: "Attention weights of six random tokens", rows: tokens,
    columns: tokens, frame: "scaled" });
  const name = html("h4"), under = html("p", { class: "under" });
  lab.picture.append(html("style", {}, STYLE),
    html("div", { class: "panel" }, name, under, grid.element),
    panel("variance of the scores", "400 queries\npoint to look, click to stay", variance),
    panel(`effective keys of ${keys}`, "the same queries\n16: all alike, 1: a single winner", used),
    sameInPyTorch(lab));

  return ({ divisor, d_k }) => {
    const at = stops.indexOf(d_k), { role } = LOOKS[divisor];
    const { number, weights, variance: spread, verdict, say, code } = frames[divisor][at];
    const good = verdict === "near 1", shown = numbersOf(weights);
    kinds.show(divisor);
    length.show(lab.state.d_k);  // what is kept, also while another stop is looked at
    lab.picture.dataset.divisor = role;
    grid.element.className = `box ${role}`;
    grid.paint((i, j) => ({ weight: shown[i][j] }));
    name.className = role;
    setText(name, `divided by ${labels[divisor]}`);
    const found = `${good ? "✓" : "✗"} ${verdict}`.replaceAll(" ", "\u00a0");  // in one line
    setText(under, `softmax(QKᵀ / ${number})\n400 queries: variance ${spread}, ${found}`);
    variance.mark(at, `Variance of the scores over d_k. ${say}`);
    used.mark(at, `Effective keys over d_k. ${say}`);
    return { say: say.replace(/^d_k = \d+/, (start) => `**${start}**`), bad: !good, code };
  };
}

function panel(heading, words, { element }) {
  return html("div", { class: "panel" }, html("h4", {}, heading),
    html("p", { class: "under" }, words), element);
}

const STYLE = `
.third { color: var(--good); } .fourth { color: #7b3f98; } .dark .fourth { color: #d3a4ea; }
.picture[data-divisor] svg .line, .picture[data-divisor] svg .dot { opacity: 0.55; }
.picture .legend .line, .picture .legend .dot { opacity: 1 !important; }
[data-divisor=raw] .raw, [data-divisor=scaled] .scaled, [data-divisor=third] .third,
[data-divisor=fourth] .fourth { opacity: 1 !important; }
`;
