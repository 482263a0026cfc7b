// Explorer 14: memory and FLOPs of one attention layer over the number of tokens.
import { button, choice, sameInPyTorch, slider } from "./controls.mjs";
import { chart, html, svg } from "./drawing.mjs";

export const title = "What do twice as many tokens cost?";
export const hint = "One attention layer, one sentence of n tokens, forward. Counted, not timed. "
  + "Point at a curve to look, click to stay.";

const PRESETS = [512, 4096, 65536];
const COSTS = ["attention weights", "Q, K and V", "FLOPs: attention", "FLOPs: projections"];
const KIB = 1024;
const labelOf = (n) => (n === 16384 ? "" : n);  // no room beside 65536

export function prediction() {
  let first = null;
  return {
    question: {
      ask: "twice as many tokens: how much more memory do the attention weights take?",
      then: "Now press “Double n”.",
    },
    options: ["2 times", "4 times", "8 times"],
    right: 1,
    why: "The weights are a table of n rows and n columns, and there are twice as many of both. "
      + "Q, K and V only double: they have one row for every token.",
    settled: ({ n }) => {
      first ??= n;
      return n !== first;
    },
  };
}

export function render(lab) {
  const { stops, heads, dtypes, frames, d_model } = lab.data;
  const tokens = slider(lab, { label: "n", name: "number of tokens, n", stops,
    onMove: (n) => lab.set({ n }) });
  tokens.input.style.width = "190px";
  const double = button(lab, "Double n",
    () => lab.set({ n: Math.min(2 * lab.state.n, stops.at(-1)) }));
  const presets = PRESETS.map((n) => button(lab, `${n}`, () => lab.set({ n })));
  presets.forEach((preset, i) => preset.setAttribute("aria-label", `n = ${PRESETS[i]}`));
  const headChoice = choice(lab, { label: "heads", options: heads.map((h) => [h, String(h)]),
    onPick: (value) => lab.set({ heads: value }) });
  const dtypeChoice = choice(lab, { label: "numbers", options: dtypes.map((name) => [name, name]),
    onPick: (dtype) => lab.set({ dtype }) });
  lab.bar.append(tokens.element,
    html("div", { class: "control", role: "group", "aria-label": "values of n" }, double, presets),
    headChoice.element, dtypeChoice.element);

  const curve = (part, list) => list.map(({ costs }) => costs[part]);
  const drawn = (list, names, places, y) => chart(lab, { stops: stops.map(labelOf), xlabel: "tokens n", y,
    lines: [
      { name: names[0], values: curve(places[0], list), role: "raw", dash: "dashed", dot: "triangle" },
      { name: names[1], values: curve(places[1], list), role: "scaled", dash: "solid", dot: "circle" },
    ],
    onPreview: (i) => lab.preview(i === undefined ? {} : { n: stops[i] }),
    onPick: (i) => lab.set({ n: stops[i] }) });
  const memories = new Map();  // one chart for every number of heads and dtype, made when needed
  const memoryOf = ({ heads: count, dtype }) => {
    const name = `${count} ${dtype}`;
    if (!memories.has(name)) {
      memories.set(name, drawn(frames[dtype][count], COSTS, [0, 1], BYTES));
    }
    return memories.get(name);
  };
  const all = frames[dtypes[0]][heads[0]];  // FLOPs depend on neither
  const flops = drawn(all, ["attention", "projections"], [2, 3], flopAxis(curve(2, all)));
  const memoryPlace = html("div");
  const memoryNote = html("p", { class: "under" });
  const twice = doubling();
  lab.picture.append(
    html("div", { class: "panel" }, html("h4", {}, "n doubled"), twice.element),
    html("div", { class: "panel" }, html("h4", {}, "memory"), memoryNote, memoryPlace),
    html("div", { class: "panel" }, html("h4", {}, "FLOPs of the matrix products"),
      html("p", { class: "under" }, `d_model = ${d_model}: the lines cross\nat n = 2 d_model = `
        + `${2 * d_model}`), flops.element),
    sameInPyTorch(lab));

  return (state) => {
    const at = stops.indexOf(state.n);
    const frame = frames[state.dtype][state.heads][at];
    tokens.show(lab.state.n);
    const atEnd = lab.state.n === stops.at(-1);
    double.setAttribute("aria-disabled", atEnd);  // and not disabled: it would lose the focus
    double.style.opacity = atEnd ? 0.55 : 1;
    headChoice.show(state.heads);
    dtypeChoice.show(state.dtype);
    const memory = memoryOf(state);
    if (memoryPlace.firstChild !== memory.element) memoryPlace.replaceChildren(memory.element);
    memory.mark(at, frame.say);
    flops.mark(at, frame.say);
    memoryNote.textContent = `${state.heads} × n × n weights of ${state.dtype}\n1 MiB is `
      + "1024 × 1024 bytes";
    twice.show(state.n, frame.table);
    return { say: frame.say.replace(/^n = \d+/, "**$&**"), bad: false, code: frame.code };
  };
}

const BYTES = { low: KIB, high: KIB ** 4, log: true,
  ticks: ["1 KiB", "1 MiB", "1 GiB", "1 TiB"].map((text, i) => [KIB ** (i + 1), text]) };

function flopAxis(values) {
  return { low: 1e6, high: 10 ** Math.ceil(Math.log10(Math.max(...values))), log: true,
    ticks: [[1e6, "1 M"], [1e9, "1 G"], [1e12, "1 T"]] };
}

// --- n and 2 n -------------------------------------------------------------------------------------

const TILE = 78;

/** A table of weights and one of twice the side, and what becomes of every cost. */
function doubling() {
  const tiles = [[8, 44], [124, 4], [124, 86], [206, 4], [206, 86]];
  const sizes = tiles.map(([x, y]) => svg("text",
    { x: x + TILE / 2, y: y + TILE / 2 + 5, "text-anchor": "middle", "font-weight": 680 }));
  const names = [[8 + TILE / 2, 186], [124 + TILE + 2, 186]].map(([x, y]) =>
    svg("text", { x, y, "text-anchor": "middle" }));
  const arrow = svg("text", { x: 105, y: 90, "text-anchor": "middle" }, "→");
  const picture = svg("svg", { viewBox: "0 0 292 196", role: "img" },
    tiles.map(([x, y]) => svg("rect", { x, y, width: TILE, height: TILE, rx: 6,
      style: "fill:var(--warm);stroke:var(--raw);stroke-width:2" })), sizes, names, arrow);
  const cells = COSTS.map(() => [0, 1, 2].map(() => html("td")));
  const heads = [html("th", { scope: "col" }), html("th", { scope: "col" })];
  const widths = "font-size:0.92em;border-spacing:2px 5px";
  const element = html("div", {}, picture, html("table", { style: widths },
    html("caption", { class: "unseen" }, "Costs at n and at twice n"),
    html("thead", {}, html("tr", {}, html("td", { style: "width:36%;text-align:left" }, "n"), heads,
      html("th", { scope: "col", style: "width:13%" }, html("span", { class: "unseen" }, "growth")))),
    html("tbody", {}, COSTS.map((name, i) => html("tr", {},
      html("th", { scope: "row", style: "text-align:left;white-space:normal" }, name), cells[i])))));
  const show = (n, table) => {
    sizes.forEach((size) => { size.textContent = table[0][0]; });
    [n, 2 * n].forEach((count, i) => {
      names[i].textContent = `n = ${count}`;
      heads[i].textContent = String(count);
    });
    table.forEach(([before, after, more], i) => {
      cells[i][0].textContent = before;
      cells[i][1].textContent = after;
      cells[i][2].replaceChildren(html("b", { class: more > 2 ? "raw" : "scaled" }, `× ${more}`));
    });
    picture.setAttribute("aria-label", `A square of ${table[0][0]}, and four of them: `
      + `${table[0][1]}.`);
  };
  return { element, show };
}
