// Explorer 9: two losses of a model that was trained with or without a causal mask.
import { button, choice, sameInPyTorch, slider } from "./controls.mjs";
import { chart, html, matrix } from "./drawing.mjs";

export const title = "Does peeking at the future pay?";
export const hint = "A model learns to guess the next word of a made-up language. With the mask a "
  + "word sees itself and what came before; without it, the word to be guessed, too.";

const MODELS = [[false, "none"], [true, "causal"]];
const PRESETS = [0, 50, 300];
const GIVEN = ["the whole sentence", "the words so far"];

export function prediction() {
  return {
    question: {
      ask: "a model is trained without the mask, and then has to guess from the words so far. "
        + "Its loss ends …",
      then: "Now take the mask away.",
    },
    options: ["below that of the causal model", "close to it", "far above it"],
    right: 2,
    why: "It learned to copy the next word, which lay open to it in training. In use the next word "
      + "is not there, and it has learned little else.",
    settled: ({ causal, step }) => !causal && step >= 200,
  };
}

export function render(lab) {
  const { steps, models, best, guessing } = lab.data;
  const masks = choice(lab, { label: "mask in training", options: MODELS,
    onPick: (causal) => lab.set({ causal }) });
  const time = slider(lab, { label: "step", name: "step of the training", stops: steps,
    onMove: (step) => lab.set({ step }) });
  time.input.classList.add("narrow");
  const presets = PRESETS.map((step) => button(lab, `${step}`, () => lab.set({ step })));
  presets.forEach((preset, i) => preset.setAttribute("aria-label", `step ${PRESETS[i]}`));
  lab.bar.append(masks.element, time.element,
    html("div", { class: "control", role: "group", "aria-label": "steps" }, presets));

  const sight = sightOf(lab);
  const board = scoreboard();
  const charts = new Map(MODELS.map(([causal]) => [causal, curves(lab, causal)]));
  const place = html("div");
  const name = html("h4");
  lab.picture.append(
    html("div", { class: "panel" }, html("h4", {}, "what a word may look at"),
      html("p", { class: "under" }, "in training; the word of a row has to\nguess the one marked “next”"),
      sight.element),
    html("div", { class: "panel" }, name,
      html("p", { class: "under" }, `best possible on average ${best.toFixed(2)}\nguessing at `
        + `random ${guessing.toFixed(2)}`), place),
    html("div", { class: "panel" }, html("h4", {}, "loss at this step"),
      html("p", { class: "under" }, "mean of four runs, and their range\n✓ the lower one"),
      board.element),
    sameInPyTorch(lab));

  return ({ causal, step }) => {
    const at = steps.indexOf(step);
    const chosen = models[causal ? "causal" : "unmasked"];
    const drawn = charts.get(causal);
    masks.show(causal);
    time.show(lab.state.step);
    name.textContent = causal ? "causal, both alike" : "no mask";
    name.className = causal ? "scaled" : "raw";
    if (place.firstChild !== drawn.element) place.replaceChildren(drawn.element);
    drawn.mark(at, chosen.say[at]);
    sight.show(causal);
    board.show(models, at, causal);
    return { say: chosen.say[at].replace(/^[^,]+/, "**$&**"), bad: !causal, code: code(causal) };
  };
}

function curves(lab, causal) {
  const { steps, models, best, guessing, top } = lab.data;
  const [whole, soFar] = models[causal ? "causal" : "unmasked"].mean;
  const role = causal ? "scaled" : "raw";
  return chart(lab, {
    stops: steps.map((step) => (step % 100 ? "" : step)),
    xlabel: "training step",
    ylabel: "loss",
    y: { low: 0, high: top, ticks: [[0, "0"], [best, "best"], [guessing, "guess"], [top, `${top}`]] },
    lines: [
      { name: "given the words so far", values: soFar, role, dash: "solid", dot: "square" },
      { name: "given the whole sentence", values: whole, role, dash: "dotted", dot: "circle" },
    ],
    onPreview: (i) => lab.preview(i === undefined ? {} : { step: steps[i] }),
    onPick: (i) => lab.set({ step: steps[i] }),
  });
}

/** Who may look at whom, and where in the sentence the word stands that has to be guessed. */
function sightOf(lab) {
  const places = ["1st", "2nd", "3rd", "4th", "5th"];
  const grid = matrix(lab, { caption: "Which word may look at which while the model is trained",
    rows: places, columns: places });
  const show = (causal) => grid.paint((i, j) => {
    const next = j === i + 1;
    if (causal && j > i) return { kind: "blocked", text: next ? "next" : "" };
    return { weight: 0.2, kind: next ? "leak" : "", text: next ? "next" : "✓" };
  });
  const key = html("div", { class: "key" },
    html("i", { class: "cell leak" }), html("span", {}, "the word to be guessed lies open"),
    html("i", { class: "cell blocked" }), html("span", {}, "blocked"));
  return { element: html("div", {}, grid.element, key), show };
}

/** Two losses of two models; in each row the lower one is marked. */
function scoreboard() {
  const cells = GIVEN.map(() => MODELS.map(() => html("td",
    { style: "padding:10px 0;border:2px solid transparent;border-radius:7px" })));
  const heads = [["no mask", "raw"], ["causal", "scaled"]].map(([text, role]) =>
    html("th", { scope: "col" }, html("span", { class: role }, text)));
  const element = html("table", {}, html("caption", { class: "unseen" }, "Losses at this step"),
    html("thead", {}, html("tr", {}, html("td", { style: "width:31%" }), heads)),
    html("tbody", {}, GIVEN.map((given, i) => html("tr", {},
      html("th", { scope: "row", style: "white-space:normal;text-align:left;padding:0" }, `given ${given}`),
      cells[i]))));
  const show = ({ unmasked, causal: masked }, at, causal) => cells.forEach((row, i) => {
    const both = [unmasked, masked].map(({ mean }) => mean[i][at].toFixed(2));
    [unmasked, masked].forEach(({ low, high }, j) => {
      const wins = Number(both[j]) < Number(both[1 - j]);
      const range = `${low[i][at].toFixed(2)} to ${high[i][at].toFixed(2)}`;
      row[j].replaceChildren(
        html("b", { class: wins ? "fine" : "", style: "font:700 1.2em/1.2 var(--mono);white-space:nowrap" },
          `${wins ? "✓ " : ""}${both[j]}`),
        html("div", { style: "font-size:0.8em;color:var(--mute)" }, range));
      row[j].style.borderColor = (j === 1) === causal ? "var(--edge)" : "transparent";
    });
  });
  return { element, show };
}

function code(causal) {
  return `output = SelfAttention(32, 32)(x, is_causal=${causal ? "True" : "False"}).output\n`
    + "# given the whole sentence: every next word at once, as in training\n"
    + "loss = F.cross_entropy(model(words[:, :-1]).flatten(0, 1), words[:, 1:].flatten())\n"
    + "# given the words so far: word t, from those before it and no more\n"
    + "loss = F.cross_entropy(model(words[:, :t])[:, -1], words[:, t])";
}
