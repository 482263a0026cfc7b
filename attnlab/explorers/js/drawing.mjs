// Elements, colours, matrices and charts.

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

// --- colours ---------------------------------------------------------------------------------------

const RAMPS = {
  light: [[255, 255, 255], [222, 235, 247], [158, 202, 225], [66, 146, 198], [8, 81, 156],
    [8, 48, 107]],
  dark: [[24, 32, 41], [25, 53, 80], [28, 84, 130], [52, 126, 184], [121, 183, 228],
    [222, 240, 255]],
};

/** Red, green and blue, each up to 255, for a weight between 0 and 1. */
export function shadeOf(weight, dark = false) {
  const ramp = RAMPS[dark ? "dark" : "light"];
  const place = Math.min(1, Math.max(0, weight || 0)) * (ramp.length - 1);
  const below = Math.min(ramp.length - 2, Math.floor(place));
  return ramp[below].map(
    (part, i) => Math.round(part + (place - below) * (ramp[below + 1][i] - part)));
}

/** Background and ink for a weight between 0 and 1; the ink is read at 4.5 : 1 or better. */
export function weightColours(weight, dark = false) {
  const mixed = shadeOf(weight, dark);
  return { background: `rgb(${mixed})`, color: luminance(mixed) > 0.179 ? "#000" : "#fff" };
}

/** The relative luminance of a colour, by which contrast is measured. */
export function luminance(colour) {
  const [red, green, blue] = colour.map((part) => {
    const share = part / 255;
    return share <= 0.03928 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

// --- numbers ---------------------------------------------------------------------------------------

/** A weight in a cell: two decimals, no leading zero. */
export function weightText(weight) {
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
 * Returns the element and `paint(look, sums)`: `look(i, j)` gives `{weight, text, kind, label}`.
 */
export function matrix(lab, { caption, rows, columns, frame, sums, onPick, onPoint }) {
  const cells = rows.map(() => columns.map(() => html(onPick ? "button" : "span",
    { class: "cell", type: onPick ? "button" : null, tabindex: onPick ? -1 : null })));
  const notes = rows.map(() => html("td", { class: "sum" })), said = [];
  const head = html("tr", {}, html("td", { class: "word" }),
    columns.map((word) => html("th", { scope: "col", title: word }, word)),
    sums ? html("th", { scope: "col", class: "sum" }, sums) : []);
  const body = rows.map((word, i) => html("tr", {}, html("th", { scope: "row", title: word }, word),
    cells[i].map((cell) => html("td", {}, cell)), sums ? notes[i] : []));
  const element = html("table", { class: frame ? `box ${frame}` : null },
    html("caption", { class: "unseen" }, caption), html("thead", {}, head),
    html("tbody", {}, body));
  if (onPick) makePickable(lab, element, cells, onPick);
  if (onPoint) makePointable(lab, element, cells, onPoint);
  const paint = (look, verdicts = []) => {
    cells.forEach((row, i) => row.forEach((cell, j) => paintCell(lab, cell, look(i, j))));
    verdicts.forEach((verdict, i) => {
      const text = verdict.map((part) => part.outerHTML).join();
      if (text !== said[i]) notes[i].replaceChildren(...verdict);
      said[i] = text;
    });
  };
  return { element, cells, paint };
}

function paintCell(lab, cell, { weight, text = weightText(weight), kind = "", label }) {
  const look = `${weight} ${text} ${kind} ${label} ${lab.isDark()}`;
  if (look === cell.look) return;
  cell.look = look;
  const { background, color } = weightColours(weight, lab.isDark());
  const coloured = kind === "" || kind === "leak";
  cell.className = `cell ${kind} ${text === "0" ? "zero" : ""}`;
  cell.style.backgroundColor = coloured ? background : "";
  cell.style.color = coloured ? color : "";
  setText(cell, text);
  if (label) cell.setAttribute("aria-label", label);
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

const WIDTH = 310, HEIGHT = 262, LEFT = 46, RIGHT = 14, TOP = 10, BOTTOM = 48;
const DASHES = { solid: "none", dashed: "9 6", dotted: "0.5 7", dashdot: "12 6 0.5 6" };

/**
 * Curves over a list of stops, equally spaced; a marker shows where the reader stands.
 *
 * `lines` are `{name, values, role, dash, dot}`; `y` is `{low, high, ticks, log}`. `onPreview(index)`
 * is told the stop under the pointer, or nothing at the end, `onPick(index)` the one clicked.
 * One stop in `every` is named below the axis; `ylabel` stands above it.
 * Returns the element and `mark(index)`.
 */
export function chart(lab, { stops, xlabel, ylabel, y, lines, every = 2, onPreview, onPick }) {
  const top = ylabel ? TOP + 22 : TOP;
  const across = (i) => LEFT + ((WIDTH - LEFT - RIGHT) * i) / (stops.length - 1);
  const scale = y.log ? Math.log10 : (value) => value;
  const share = (value) => (scale(value) - scale(y.low)) / (scale(y.high) - scale(y.low));
  const up = (value) => HEIGHT - BOTTOM - (HEIGHT - top - BOTTOM) * Math.min(1, Math.max(0, share(value)));
  const now = svg("line", { class: "now", y1: top, y2: HEIGHT - BOTTOM });
  const dots = lines.map((line) => svg("path", { class: `dot ${line.role}`, d: DOTS[line.dot] }));
  const picture = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", class: "pickable" },
    y.ticks.map(([value, text]) => [
      svg("line", { class: "grid", x1: LEFT, x2: WIDTH - RIGHT, y1: up(value), y2: up(value) }),
      svg("text", { x: LEFT - 8, y: up(value) + 5, "text-anchor": "end" }, text)]).flat(),
    stops.map((stop, i) => (i % every ? [] : svg("text",
      { x: across(i), y: HEIGHT - BOTTOM + 21, "text-anchor": "middle" }, String(stop)))),
    svg("text", { x: (LEFT + WIDTH - RIGHT) / 2, y: HEIGHT - 6, "text-anchor": "middle" }, xlabel),
    ylabel ? svg("text", { x: 0, y: TOP + 3 }, ylabel) : [],
    now,
    lines.map((line) => svg("polyline", { class: `line ${line.role}`,
      "stroke-dasharray": DASHES[line.dash],
      points: line.values.map((value, i) => `${across(i)},${up(value)}`).join(" ") })),
    dots);
  if (onPick) {
    const stopAt = (event) => {
      const box = picture.getBoundingClientRect();
      const x = ((event.clientX - box.left) / box.width) * WIDTH;
      const place = ((x - LEFT) / (WIDTH - LEFT - RIGHT)) * (stops.length - 1);
      return Math.min(stops.length - 1, Math.max(0, Math.round(place)));
    };
    lab.on(picture, "pointermove", (event) => onPreview(stopAt(event)));
    lab.on(picture, "pointerleave", () => onPreview());
    lab.on(picture, "click", (event) => onPick(stopAt(event)));
  }
  const mark = (index, label) => {
    change(now, { x1: across(index), x2: across(index) });
    dots.forEach((dot, i) => change(dot,
      { transform: `translate(${across(index)},${up(lines[i].values[index])})` }));
    change(picture, { "aria-label": label });
  };
  return { element: html("div", {}, picture, legend(lines)), picture, mark };
}

const DOTS = {
  circle: "M-6.5,0a6.5,6.5 0 1,0 13,0a6.5,6.5 0 1,0 -13,0Z",
  square: "M-6,-6H6V6H-6Z",
  triangle: "M0,-8L7.5,6H-7.5Z",
  diamond: "M0,-8.5L8.5,0L0,8.5L-8.5,0Z",
};

function legend(lines) {
  return html("div", { class: "legend" }, lines.map((line) => [
    svg("svg", { viewBox: "0 0 40 18", "aria-hidden": "true" },
      svg("path", { class: `line ${line.role}`, d: "M1,9H39",
        "stroke-dasharray": DASHES[line.dash] }),
      svg("path", { class: `dot ${line.role}`, d: DOTS[line.dot], transform: "translate(20,9)" })),
    html("span", {}, line.name)]).flat());
}

// --- bars ------------------------------------------------------------------------------------------

/**
 * Weights as bars from 0 to 1, a row for each key; `columns` are [head, texts] of further columns.
 *
 * Returns the element, the cells of the further columns and `show(weights, outlines, marks)`:
 * `outlines` are other weights, drawn dashed, `marks` words shown after the numbers (if `marked`).
 */
export function bars({ caption, names, columns = [], digits = 2, marked = false }) {
  const fills = names.map(() => html("i", { class: "fill" }));
  const dashed = names.map(() => html("i", { class: "outline", hidden: "" }));
  const figures = names.map(() => [html("b", {}), html("span", {})]);
  const further = columns.map(([, texts]) => texts.map((text) => html("td", { class: "few" }, text)));
  const head = html("tr", {}, html("th", { scope: "col" }, "key"),
    columns.map(([text]) => html("th", { scope: "col", class: "few" }, text)),
    html("th", { scope: "col", class: "length", colspan: 2 }, "weight"));
  const rows = names.map((name, i) => html("tr", {}, html("th", { scope: "row", title: name }, name),
    further.map((cells) => cells[i]),
    html("td", {}, html("div", { class: "track" }, fills[i], dashed[i])),
    html("td", { class: "figure" }, figures[i])));
  const widths = html("colgroup", {}, html("col", { class: "name" }),
    columns.map(() => html("col", { class: "few" })), html("col"),
    html("col", { class: marked ? "figure marked" : "figure" }));
  const element = html("table", { class: "bars" }, html("caption", { class: "unseen" }, caption),
    widths, html("thead", {}, head), html("tbody", {}, rows));
  const show = (weights, outlines = [], marks = []) => weights.forEach((weight, i) => {
    fills[i].style.width = `${100 * weight}%`;
    dashed[i].style.width = `${100 * (outlines[i] ?? 0)}%`;
    dashed[i].hidden = outlines[i] === undefined;
    setText(figures[i][0], weight.toFixed(digits));
    setText(figures[i][1], marks[i] ? ` ${marks[i]}` : "");
  });
  return { element, further, show };
}
