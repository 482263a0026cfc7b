// Explorer 11: the same features cut into more heads, and what that costs.
import { choice, sameInPyTorch } from "./controls.mjs";
import { html, matrix, svg, weightColours } from "./drawing.mjs";

export const title = "How many heads?";
export const hint = "Six words with twelve features of query and key each, random numbers here, cut "
  + "into more and more heads.";

export function prediction() {
  return {
    question: {
      ask: "keep the 12 features and go from 1 head to 12. The number of parameters …",
      then: "Now take 12 heads and look at the costs.",
    },
    options: ["grows twelvefold", "stays the same", "shrinks to a twelfth"],
    right: 1,
    why: "The matrices that make query, key and value stay 12 × 12; each head gets a thinner slice "
      + "of what they make. What grows is the number of attention weights: one map per head.",
    settled: ({ heads }) => heads === 12,
  };
}

export function render(lab) {
  const { tokens, embed_dim: width, stops, frames } = lab.data;
  const counts = choice(lab, { label: "heads", options: stops.map((one) => [one, String(one)]),
    onPick: (heads) => lab.set({ heads }) });
  lab.bar.append(counts.element);

  const small = html("div", { class: "minis", role: "group", "aria-label": "All heads" });
  const large = matrix(lab, { caption: "Attention weights of the head that is drawn large",
    rows: tokens, columns: tokens, frame: "scaled" });
  const name = html("h4", { class: "scaled" });
  const slice = html("p", { class: "under" });
  const strip = html("div", { class: "strip", "aria-hidden": "true" });
  const costs = html("table", { class: "costs" });
  lab.picture.append(html("style", {}, STYLE),
    html("div", { class: "panel" }, html("h4", {}, "All heads"),
      html("p", { class: "under" }, "the darker, the more attention\npoint to look, click to keep"),
      small),
    html("div", { class: "panel" }, name, slice, large.element),
    html("div", { class: "panel prices" }, html("h4", {}, "What it costs"),
      html("p", { class: "under" }, "six words, one layer: four matrices\nof 12 × 12, with biases"), costs,
      html("h4", {}, "Who gets which feature"), strip),
    sameInPyTorch(lab));
  followPointer(lab, small);

  let drawn = "";
  return (state) => {
    const frame = frames[stops.indexOf(state.heads)];
    const shown = Math.min(state.shown, frame.heads - 1);
    const kept = Math.min(lab.state.shown, frame.heads - 1);
    counts.show(state.heads);
    if (drawn !== `${frame.heads} ${lab.isDark()}`) {
      drawn = `${frame.heads} ${lab.isDark()}`;
      small.replaceChildren(...frame.weights.map((weights, head) => mini(lab, weights, head)));
      costs.replaceChildren(...priceList(frames[0], frame));
    }
    [...small.children].forEach((one, head) => one.setAttribute("aria-pressed", head === kept));
    name.textContent = `head ${shown} of ${frame.heads}`;
    slice.textContent = sliceText(shown, frame);
    large.paint((i, j) => ({ weight: frame.weights[shown][i][j] }));
    strip.replaceChildren(...slices(width, frame, shown));
    return { say: `${frame.say} ${frame.orders[shown]}`, bad: false, code: frame.code };
  };
}

/** A small map of one head: a button. */
function mini(lab, weights, head) {
  const squares = weights.flatMap((row, i) => row.map((weight, j) => svg("rect",
    { x: j, y: i, width: 0.94, height: 0.94, fill: weightColours(weight).background })));
  const picture = svg("svg", { viewBox: `0 0 ${weights.length} ${weights.length}`,
    "aria-hidden": "true" }, squares);
  return html("button", { type: "button", class: "mini", "data-head": head }, picture,
    html("span", {}, `head ${head}`));
}

/** Pointing at a small map shows it large, a click keeps it there; so do focus and Enter. */
function followPointer(lab, small) {
  const headOf = (event) => event.target.closest("button")?.dataset.head;
  const look = (event) => {
    const head = headOf(event);
    if (head !== undefined) lab.preview({ shown: Number(head) });
  };
  lab.on(small, "pointerover", look);
  lab.on(small, "focusin", look);
  lab.on(small, "pointerleave", () => lab.preview({}));
  lab.on(small, "focusout", () => lab.preview({}));
  lab.on(small, "click", (event) => {
    const head = headOf(event);
    if (head !== undefined) lab.set({ shown: Number(head) });
  });
}

// --- costs -----------------------------------------------------------------------------------------

const PRICES = [
  ["parameters", (frame) => frame.cost.parameters],
  ["FLOPs of the products", (frame) => frame.cost.flops],
  ["attention weights", (frame) => frame.cost.weights],
  ["their memory, bytes", (frame) => frame.cost.weight_bytes],
  ["features of a head", (frame) => frame.head_dim],
];

function priceList(one, many) {
  const heading = ["1 head", many.heads === 1 ? "now" : `${many.heads} heads`, ""];
  const rows = PRICES.map(([what, read]) => {
    const [before, now] = [read(one), read(many)];
    const change = now === before ? "same" : now > before ? `× ${now / before}` : `÷ ${before / now}`;
    return html("tr", { class: now === before ? null : "changed" },
      html("th", { scope: "row" }, what),
      [before, now].map((value) => html("td", {}, value.toLocaleString("en"))),
      html("td", {}, change));
  });
  return [html("thead", {}, html("tr", {}, html("td"),
    heading.map((text) => (text ? html("th", { scope: "col" }, text) : html("td"))))),
  html("tbody", {}, rows)];
}

function sliceText(head, { heads, head_dim: features }) {
  const [first, last] = [head * features, (head + 1) * features - 1];
  const which = features === 1 ? `feature ${first}` : `features ${first} to ${last}`;
  return `reads ${heads > 1 ? "only " : ""}${which} of query and key\nrows are queries, columns keys`;
}

/** The features of a token as a strip, cut into the slices of the heads. */
function slices(width, { heads, head_dim: features }, shown) {
  return Array.from({ length: heads }, (_, head) => html("span",
    { class: head === shown ? "on" : null, style: `flex:${features}` },
    Array.from({ length: features }, (_, i) => html("i", {}, String(head * features + i)))));
}

const STYLE = `
.prices { flex: 1.6 1 20em; }
.minis { display: grid; grid-template-columns: repeat(4, 1fr); gap: 8px; }
.mini { min-width: 0; padding: 5px 2px 3px; border-radius: 8px; font-size: 0.76em; }
.mini[aria-pressed=true] { color: var(--scaled); border-color: var(--scaled);
  box-shadow: 0 0 0 1.5px var(--scaled); }
.mini svg { padding: 0 4px; }
.mini span { display: block; margin-top: 3px; white-space: nowrap; }
.mini[aria-pressed=true] span { text-decoration: underline 2px; }
.costs { table-layout: auto; border-spacing: 0; margin: 0 0 18px; font-size: 0.95em; }
.panel .costs th { padding: 5px 0; font-size: 1em; white-space: normal; text-align: left; }
.panel .costs thead th { text-align: right; white-space: nowrap; padding-left: 10px; }
.costs td { padding: 5px 0 5px 9px; text-align: right; white-space: nowrap;
  border-top: 1px solid var(--line); }
.costs tbody th { border-top: 1px solid var(--line); font-weight: 400; }
.costs thead td { border: 0; }
.costs tbody td { font-family: var(--mono); font-weight: 600; }
.costs .changed td:last-child { color: var(--raw); }
.strip { display: flex; gap: 6px; margin-top: 8px; }
.strip span { display: flex; gap: 1px; min-width: 0; border-radius: 4px; }
.strip i { flex: 1; min-width: 0; padding: 6px 0; background: var(--soft); color: var(--mute);
  font: 600 0.69em/1 var(--mono); text-align: center; }
.strip .on { outline: 2.5px solid var(--scaled); outline-offset: 1px; }
.strip .on i { background: var(--scaled); color: var(--on); }
`;
