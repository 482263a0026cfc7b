// Heads of anybody's weights: of one kind of attention or of several, of two sentences, of patches.
import { asker, headsPicture, share } from "./frame/js/asking.mjs";
import { followPointer, showControls } from "./frame/js/controls.mjs";
import { change, html, matrix, weightColours } from "./frame/js/drawing.mjs";
import { fill } from "./frame/js/words.mjs";

const NUMBERED = 144;  // patches at most whose weights are written on them
const MANY = 16;  // of more rows or columns, every fifth is numbered

export function render(lab) {
  const { kinds, boundary, grid, panels } = lab.data, layers = {};
  const controls = showControls(lab);
  const text = grid ? patches(lab, kinds[""].tokens) : asker(lab, panels[1]);
  const show = headsPicture(lab, text, boundary ? twoSentences(lab.data) : undefined);
  lab.bar.hidden = !lab.bar.children.length;
  return (state) => {
    const { tokens, keys, weights, code } = kinds[state.attention];
    const [layer, head, place] = ["layer", "head", "word"].map((name, i) =>
      Math.min(state[name], weights.shape[i] - 1));
    const unpack = layers[state.attention] ??= unpacked(weights);
    controls({ ...state, layer });
    const slice = sliceOf(state.arcs, place, boundary);
    const reading = { tokens, keys: keys ?? tokens, weights: unpack(layer),
      code: fill(code, { layer, head, place, slice }) };
    return show({ reading, place }, { ...state, layer, head });
  };
}

/** Return what gives the weights of a layer: they come as bytes, and are unpacked when asked for. */
function unpacked({ shape: [, heads, L, S], bytes, scale, text }) {
  const letters = atob(text), known = [];  // of millions, Uint8Array.from() takes half a second
  const raw = new Uint8Array(letters.length).map((_, i) => letters.charCodeAt(i));
  const levels = bytes === 2 ? new Uint16Array(raw.buffer) : raw, nan = 256 ** bytes - 1;
  const weights = new Float64Array(nan + 1).map((_, level) =>
    (level === nan ? NaN : scale * (level / (nan - 1)) ** 2));
  const row = (start) => Array.from({ length: S }, (_, j) => weights[levels[start + j]]);
  const map = (start) => Array.from({ length: L }, (_, i) => row(start + i * S));
  return (layer) => {
    known[layer] ??= Array.from({ length: heads }, (_, head) => map((layer * heads + head) * L * S));
    return known[layer];
  };
}

// --- two sentences ---------------------------------------------------------------------------------

/** What is said of two sentences: of what goes across, or of the side that is asked for. */
function twoSentences(data) {
  return (row, place, { arcs }) => {
    const isFirst = (i) => i < data.boundary;
    const isMeant = (i) => (isFirst(i) === isFirst(place)) === (arcs === "within");
    const side = row.map((weight, i) => (isMeant(i) ? weight : 0)), sum = side.reduce((all, one) => all + one);
    const told = { side: data.words[arcs], sum: share(data, sum) };
    const drawn = arcs === "all" ? row : side, found = Math.max(...drawn) > 0;
    const names = arcs === "all" ? ["nothing", "both"] : ["none", "side"];
    return [names[Number(found)], drawn, told];
  };
}

/** The part of a row that is asked for, as it is written. */
function sliceOf(arcs, place, boundary) {
  if (!boundary || arcs === "all") return "";
  return (place < boundary) === (arcs === "within") ? `, :${boundary}` : `, ${boundary}:`;
}

// --- patches ---------------------------------------------------------------------------------------

/** A picture of patches, coloured by what the one that asks gives them, below tokens before them. */
function patches(lab, tokens) {
  const [rows, columns] = lab.data.grid, first = tokens.length - rows * columns;
  const places = (count) => [...Array(count).keys()].map(String);
  const table = matrix(lab, { caption: lab.data.words.patches, rows: places(rows),
    columns: places(columns), onPick: () => {} });  // arrow keys; followPointer does the rest
  const before = tokens.slice(0, first).map((token) => html("button", { type: "button" }, token));
  const buttons = [...before, ...table.cells.flat()];
  buttons.forEach((one, i) => { one.dataset.word = i; });
  const many = Math.max(rows, columns) > MANY ? "many" : "";
  const arcs = html("div", { class: `arcs patches ${many}`, style: `--rows:${rows};--columns:${columns}` },
    html("div", { class: "text" }, before), table.element);
  followPointer(lab, arcs, "word");
  const told = (row, i) => `${tokens[i]}: ${row[i].toFixed(3)}`;
  const paint = (_, row, place) => {
    const scale = [0, Math.max(...row.slice(first)) || 1];
    before.forEach((one, i) => {
      Object.assign(one.style, weightColours(row[i], scale));
      change(one, { "aria-label": told(row, i) });
    });
    table.paint((i, j) => {
      const at = first + i * columns + j, weight = row[at];
      return { weight, scale, kind: Number.isNaN(weight) ? "nan" : "", label: told(row, at),
        ...(rows * columns > NUMBERED ? { text: "" } : {}) };
    });
    buttons.forEach((one, i) => change(one, { "aria-pressed": i === place }));
  };
  const maps = (weights, place) => ({ maps: relative(weights, place, first, columns), under: lab.data.words.darkest });
  return { arcs, paint, maps, most: "largest" };
}

/** What the token that asks gives to each patch, for all heads: 1 is the largest weight of a head. */
function relative(weights, place, first, columns) {
  return weights.map((rows) => {
    const row = rows[place].slice(first), most = Math.max(...row) || 1;
    return Array.from({ length: row.length / columns }, (_, i) =>
      row.slice(i * columns, (i + 1) * columns).map((weight) => weight / most));
  });
}
