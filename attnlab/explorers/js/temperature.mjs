// Explorer 3: what a temperature does to one row of weights, and what it leaves alone.
import { button, slider } from "./base.mjs";
import { bars, chart, html, numbersOf } from "./drawing.mjs";
import { softmax } from "./maths.mjs";

export const title = "What does a temperature change?";
export const hint = "One query and five keys. All scores are divided by a temperature τ, attention’s "
  + "own is √dₖ; then the softmax makes weights of them.";

export function prediction({ stops }) {
  const [lowest, highest] = [stops[0], stops.at(-1)];
  const seen = new Set();
  return {
    question: {
      ask: `τ runs from ${lowest} to ${highest}. Does another key ever become the winner?`,
      then: `Now take τ to both ends, ${lowest} and ${highest}, and look.`,
    },
    options: ["yes, at a low τ", "yes, at a high τ", "never"],
    right: 2,
    why: "Key 0 wins throughout. Dividing all scores by the same positive number keeps their "
      + "order, and so does the softmax: only the contrast changes.",
    settled: ({ tau }) => {
      seen.add(tau);
      return seen.has(lowest) && seen.has(highest);
    },
  };
}

export function render(lab) {
  const { keys, stops, sentences, used, d_k } = lab.data;
  const scores = numbersOf(lab.data.scores);
  const undivided = softmax(scores);
  const knob = slider(lab, { label: "τ", name: "temperature τ", stops,
    onMove: (tau) => lab.set({ tau }) });
  const presets = [[stops[0], `near 0: ${stops[0]}`], [1, "1"],
    [Math.sqrt(d_k), `√dₖ = √${d_k} = ${Math.sqrt(d_k)}`], [stops.at(-1), `large: ${stops.at(-1)}`]];
  lab.bar.append(knob.element,
    html("div", { class: "control", role: "group", "aria-label": "values of τ" },
      presets.map(([tau, text]) => button(lab, text, () => lab.set({ tau })))));

  const row = bars({ caption: "Scores and attention weights of one query", names: keys, marked: true,
    columns: [["score", scores.map((score) => String(score).replace("-", "−"))]] });
  const curve = chart(lab, {
    stops,
    every: 5,
    xlabel: "τ, logarithmic",
    y: { low: 1, high: keys.length, ticks: keys.map((_, i) => [i + 1, String(i + 1)]) },
    lines: [{ name: "effective keys", values: used, role: "scaled", dash: "solid", dot: "circle" }],
    onPreview: (i) => lab.preview(i === undefined ? {} : { tau: stops[i] }),
    onPick: (i) => lab.set({ tau: stops[i] }),
  });
  const divided = html("span", {});
  lab.picture.append(
    html("div", { class: "side", style: "flex-grow:1.6" }, html("h4", {}, `weights of one query with dₖ = ${d_k} features`),
      row.element, reading(divided), html("h4", {}, "The same in PyTorch"), lab.codeBox),
    html("div", { class: "panel" }, html("h4", {}, `how many of ${keys.length} keys it uses`),
      html("p", { class: "under" }, "1: one key has it all, 5: all share alike\n"
        + "point to look, click to stay"), curve.element));

  return ({ tau }) => {
    const at = stops.indexOf(tau);
    if (at < 0) throw new Error(`τ = ${tau} is no stop of the slider.`);
    const weights = softmax(scores.map((score) => score / tau));
    const winner = weights.indexOf(Math.max(...weights));
    knob.show(lab.state.tau);  // what is kept, also while another stop is looked at
    row.show(weights, undivided, weights.map((_, i) => (i === winner ? "wins" : "")));
    divided.textContent = `scores divided by ${tau}`;
    curve.mark(at, sentences[at]);
    return { say: bold(sentences[at]), code: code(scores, tau) };
  };
}

function reading(divided) {
  const sample = (name) => html("div", { class: "track", "aria-hidden": "true", style: "height:16px" },
    html("i", { class: name, style: "width:100%" }));
  return html("div", { class: "legend" }, sample("fill"), divided,
    sample("outline"), html("span", {}, "not divided: τ = 1"));
}

function bold(sentence) {
  return sentence.replace(/^(τ = [\d.]+): (.*?) wins/, "**$1: $2 wins**");
}

function code(scores, tau) {
  return `scores = torch.tensor([${scores.join(", ")}])\n`
    + `weights = (scores / ${tau}).softmax(dim=-1)\n`
    + "entropy = torch.special.entr(weights).sum()\n"
    + "used = entropy.exp()  # effective keys";
}
