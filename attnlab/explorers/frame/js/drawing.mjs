// Elements, colours, matrices, charts and bars.
import { CROSSED, SHADES } from "./style.mjs";

/** An HTML element with attributes (null and false are left out) and children. */
export function html(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** The same for SVG. */
export function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== false) element.setAttribute(name, value);
  }
  element.append(...children.flat());
  return element;
}

/** Set several attributes of an element, those that change. */
export function change(element, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    if (element.getAttribute(name) !== String(value)) element.setAttribute(name, value);
  }
}

/** Set the text of an element that holds nothing else, unless it has it already. */
export function setText(element, text) {
  const node = element.firstChild;
  if (!node) element.textContent = text;
  else if (node.nodeValue !== text) node.nodeValue = text;
}

/** What HTML holds that the author of a page has written. */
export function markup(text) {
  const holder = html("template");
  holder.innerHTML = text;
  return [...holder.content.childNodes];
}

/** Words between two stars are bold. */
export function rich(text) {
  return text.split("**").map((part, i) => (i % 2 ? html("b", {}, part) : part));
}

/**
 * The lines of a code, each an element: a long one goes on below, indented, and never breaks inside
 * a word. To the text nothing is added and nothing left out.
 */
export function codeLines(text) {
  return text.split(/(?<=\n)/).map((line) => html("span", { class: "row" },
    line.split(/(\s+)/).map((word) =>
      (/\S-\S|^-\S/.test(word) ? html("span", { class: "whole" }, word) : word))));
}

// --- colours ---------------------------------------------------------------------------------------

/** Background and ink for a weight between 0 and 1, or for its place on another scale. */
export function weightColours(weight, scale) {
  const [background, color] = SHADES[shadeOf(weight, scale)];
  return { background, color };
}

function shadeOf(weight, [low, high] = [0, 1]) {
  const place = Math.round((100 * ((weight || 0) - low)) / (high - low));
  return Math.min(100, Math.max(0, place));
}

const pixel = (colour) => [...[1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16)), 255];
const PIXELS = SHADES.map(([background]) => pixel(background)), NAN = [PIXELS[0], pixel(CROSSED)];

/** Draw weights on a canvas, a pixel for each, and NaN in orange dots; the page stretches it. */
export function paintMap(canvas, weights) {
  const [rows, columns] = [weights.length, weights[0].length];
  const picture = new ImageData(columns, rows);
  weights.flat().forEach((weight, i) => {
    picture.data.set(Number.isNaN(weight) ? NAN[i % 2] : PIXELS[shadeOf(weight)], 4 * i);
  });
  if (canvas.width !== columns || canvas.height !== rows) Object.assign(canvas, { width: columns, height: rows });
  canvas.getContext("2d", { willReadFrequently: true }).putImageData(picture, 0, 0);
}

// --- numbers ---------------------------------------------------------------------------------------

/** A weight in a cell: two decimals, no leading zero. */
function weightText(weight) {
  if (Number.isNaN(weight)) return "NaN";
  if (Math.abs(weight) < 0.005) return "0";
  if (weight >= 0.995 && weight < 1.005) return "1";
  return weight.toFixed(2).replace(/^0/, "");
}

/** Numbers that came as JSON: "NaN", "Infinity" and "-Infinity" are words there. */
export function numbersOf(values) {
  return Array.isArray(values) ? values.map(numbersOf) : Number(values);
}

// --- matrices --------------------------------------------------------------------------------------

/**
 * A table of cells, queries down and keys across.
 *
 * With `onPick(i, j)` every cell is a button: arrow keys move between them, Enter and Space pick.
 * `onPoint(i, j)` is told which cell is pointed at, or nothing at the end. `sums` adds a column.
 * Returns the element, `name(rows, columns)`, which writes other names, and `paint(look, sums)`:
 * `look(i, j)` gives `{weight, text, kind, label, scale}`.
 */
export function matrix(lab, { caption, rows, columns, frame, sums, onPick, onPoint }) {
  const cells = rows.map(() => columns.map(() => html(onPick ? "button" : "span",
    { class: "cell", type: onPick ? "button" : null, tabindex: onPick ? -1 : null })));
  const notes = rows.map(() => html("td", { class: "sum" })), said = [];
  const tops = columns.map(() => html("th", { scope: "col" }));
  const sides = rows.map(() => html("th", { scope: "row" }));
  const head = html("tr", {}, html("td", { class: "word" }), tops,
    sums ? html("th", { scope: "col", class: "sum" }, sums) : []);
  const body = rows.map((_, i) => html("tr", {}, sides[i],
    cells[i].map((cell) => html("td", {}, cell)), sums ? notes[i] : []));
  const element = html("table", { class: frame ? `box ${frame}` : null },
    html("caption", { class: "unseen" }, caption), html("thead", {}, head),
    html("tbody", {}, body));
  if (onPick) makePickable(lab, element, cells, onPick);
  if (onPoint) makePointable(lab, element, cells, onPoint);
  const name = (...names) => [sides, tops].forEach((all, side) => all.forEach((one, i) => {
    change(one, { title: names[side][i] });
    setText(one, names[side][i]);
  }));
  name(rows, columns);
  const paint = (look, verdicts = []) => {
    cells.forEach((row, i) => row.forEach((cell, j) => paintCell(cell, look(i, j))));
    verdicts.forEach((verdict, i) => {
      const text = verdict.map((part) => part.outerHTML).join();
      if (text !== said[i]) notes[i].replaceChildren(...verdict);
      said[i] = text;
    });
  };
  return { element, cells, name, paint };
}

function paintCell(cell, { weight, scale, text = weightText(weight), kind = "", label }) {
  const coloured = kind === "" || kind === "leak";
  const { background, color } = coloured && weight !== undefined ? weightColours(weight, scale)
    : { background: "", color: "" };
  const look = `cell ${kind} ${text === "0" ? "zero" : ""}`;
  if (cell.className !== look) cell.className = look;
  if (cell.shade !== background) {
    cell.style.backgroundColor = cell.shade = background;
    cell.style.color = color;
  }
  setText(cell, text);
  if (label) change(cell, { "aria-label": label });
}

function placeOf(cells, target) {
  const row = cells.findIndex((one) => one.includes(target));
  return row < 0 ? null : [row, cells[row].indexOf(target)];
}

function makePickable(lab, element, cells, onPick) {
  const moves = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0] };
  cells[0][0].tabIndex = 0;
  lab.on(element, "click", (event) => {
    const place = placeOf(cells, event.target);
    if (place) onPick(...place);
  });
  lab.on(element, "keydown", (event) => {
    const place = placeOf(cells, event.target);
    if (!place || !moves[event.key]) return;
    event.preventDefault();
    const [down, right] = moves[event.key];
    const row = cells[Math.min(cells.length - 1, Math.max(0, place[0] + down))];
    row[Math.min(row.length - 1, Math.max(0, place[1] + right))].focus();
  });
  lab.on(element, "focusin", (event) => {
    if (!placeOf(cells, event.target)) return;
    cells.flat().forEach((cell) => { cell.tabIndex = cell === event.target ? 0 : -1; });
  });
}

function makePointable(lab, element, cells, onPoint) {
  const tell = (event) => { const place = placeOf(cells, event.target); if (place) onPoint(...place); };
  lab.on(element, "pointerover", tell);
  lab.on(element, "focusin", tell);
  lab.on(element, "pointerleave", () => onPoint());
}

// --- charts ----------------------------------------------------------------------------------------

const WIDTH = 340, HEIGHT = 208, LEFT = 56, RIGHT = 14, TOP = 8, BOTTOM = 46;
const DASHES = { solid: "none", dashed: "9 6", dotted: "0.5 7", dashdot: "12 6 0.5 6" };

/**
 * Curves over a list of stops, equally spaced; a marker shows where the reader stands.
 *
 * `lines` are `{name, values, role, dash, dot}`; `y` is `{low, high, ticks, log}`; `labels` stand
 * below the axis, `ylabel` above it; the names of lines that are `keyed` stand below all. `onPreview(index)` gets the stop under the pointer, or nothing
 * at the end, `onPick(index)` the one clicked. Returns the element and `show({at, values, current,
 * role, label})`: `values` and `role` replace those of the lines, lines other than `current` are
 * pale.
 */
export function chart(lab, { stops, xlabel, ylabel, y, lines, onPreview, onPick,
  labels, keyed = true }) {
  const top = ylabel ? TOP + 22 : TOP;
  const across = (i) => LEFT + ((WIDTH - LEFT - RIGHT) * i) / (stops.length - 1);
  const scale = y.log ? Math.log10 : (value) => value;
  const share = (value) => (scale(value) - scale(y.low)) / (scale(y.high) - scale(y.low));
  const up = (value) => HEIGHT - BOTTOM - (HEIGHT - top - BOTTOM) * Math.min(1, Math.max(0, share(value)));
  const now = svg("line", { class: "now", y1: top, y2: HEIGHT - BOTTOM });
  const curves = lines.map((line) => svg("polyline", { "stroke-dasharray": DASHES[line.dash] }));
  const dots = lines.map((line) => svg("path", { d: DOTS[line.dot] }));
  const picture = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", class: "pickable" },
    y.ticks.map(([value, text]) => [
      svg("line", { class: "grid", x1: LEFT, x2: WIDTH - RIGHT, y1: up(value), y2: up(value) }),
      svg("text", { x: LEFT - 8, y: up(value) + 5, "text-anchor": "end" }, text)]).flat(),
    labels.map((text, i) => (text ? svg("text",
      { x: across(i), y: HEIGHT - BOTTOM + 20, "text-anchor": "middle" }, text) : [])).flat(),
    svg("text", { x: (LEFT + WIDTH - RIGHT) / 2, y: HEIGHT - 6, "text-anchor": "middle" }, xlabel),
    ylabel ? svg("text", { x: 0, y: TOP + 6 }, ylabel) : [],
    now, curves, dots);
  const stopAt = (event) => {
    const box = picture.getBoundingClientRect();
    const x = ((event.clientX - box.left) / box.width) * WIDTH;
    const place = ((x - LEFT) / (WIDTH - LEFT - RIGHT)) * (stops.length - 1);
    return Math.min(stops.length - 1, Math.max(0, Math.round(place)));
  };
  lab.on(picture, "pointermove", (event) => onPreview(stopAt(event)));
  lab.on(picture, "pointerleave", () => onPreview());
  lab.on(picture, "click", (event) => onPick(stopAt(event)));

  const names = html("div", { class: "legend" });
  let drawn, coloured, named = null;
  const show = ({ at, values, current, role, label }) => {
    const shown = values ?? lines.map((line) => line.values);
    if (drawn !== values || !coloured) {
      curves.forEach((curve, i) => change(curve,
        { points: shown[i].map((value, j) => `${across(j)},${up(value)}`).join(" ") }));
    }
    if (coloured !== `${role} ${current}`) {
      const roles = lines.map((line) => role || line.role);
      const look = (i) => `${roles[i]} ${current === undefined || current === i ? "" : "pale"}`;
      curves.forEach((curve, i) => change(curve, { class: `line ${look(i)}` }));
      dots.forEach((dot, i) => change(dot, { class: `dot ${look(i)}` }));
      if (keyed && named !== role) names.replaceChildren(...legend(lines, roles));
      named = role;
    }
    [drawn, coloured] = [values, `${role} ${current}`];
    change(now, { x1: across(at), x2: across(at) });
    dots.forEach((dot, i) => change(dot,
      { transform: `translate(${across(at)},${up(shown[i][at])})` }));
    change(picture, { "aria-label": label });
  };
  return { element: html("div", {}, picture, names), show };
}

const DOTS = {
  circle: "M-6.5,0a6.5,6.5 0 1,0 13,0a6.5,6.5 0 1,0 -13,0Z",
  square: "M-6,-6H6V6H-6Z",
  triangle: "M0,-8L7.5,6H-7.5Z",
  diamond: "M0,-8.5L8.5,0L0,8.5L-8.5,0Z",
};

/** The names of lines, each with a piece of its line. */
export function legend(lines, roles = lines.map((line) => line.role)) {
  return lines.map((line, i) => html("span", {},
    svg("svg", { viewBox: "0 0 40 18", "aria-hidden": "true" },
      svg("path", { class: `line ${roles[i]}`, d: "M1,9H39",
        "stroke-dasharray": DASHES[line.dash] }),
      svg("path", { class: `dot ${roles[i]}`, d: DOTS[line.dot], transform: "translate(20,9)" })),
    line.name));
}

// --- bars ------------------------------------------------------------------------------------------

/**
 * Weights as bars from 0 to 1, a row for each key; `columns` are [head, texts] of further columns.
 *
 * Returns the element, the cells of the further columns and `show(weights, {outline})`: `outline`
 * are other weights, drawn dashed.
 */
export function bars({ caption, names, head = "key", columns = [], digits = 2 }) {
  const parts = names.map(() => ["fill", "outline"].map((name) => html("i", { class: name })));
  const figures = names.map(() => html("b", {}));
  const further = columns.map(([, texts]) => texts.map((text) => html("td", { class: "few" }, text)));
  const heads = html("tr", {}, html("th", { scope: "col" }, head),
    columns.map(([text]) => html("th", { scope: "col", class: "few" }, text)),
    html("th", { scope: "col", class: "length", colspan: 2 }, "weight"));
  const rows = names.map((name, i) => html("tr", {}, html("th", { scope: "row", title: name }, name),
    further.map((cells) => cells[i]),
    html("td", {}, html("div", { class: "track" }, parts[i])),
    html("td", { class: "figure" }, figures[i])));
  const widths = html("colgroup", {}, html("col", { class: "name" }),
    columns.map(() => html("col", { class: "few" })), html("col"),
    html("col", { class: "figure" }));
  const element = html("table", { class: "bars" }, html("caption", { class: "unseen" }, caption),
    widths, html("thead", {}, heads), html("tbody", {}, rows));
  const show = (weights, { outline } = {}) => weights.forEach((weight, i) => {
    const [fill, dashed] = parts[i];
    fill.style.width = `${100 * (weight || 0)}%`;  // no bar for NaN
    dashed.style.width = `${100 * (outline?.[i] ?? 0)}%`;
    dashed.hidden = !outline;
    setText(figures[i], weight.toFixed(digits));
  });
  return { element, further, show };
}
