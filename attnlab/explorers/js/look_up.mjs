// Explorer 1: a soft look-up: a query between keys gets a weighted average of their values.
import { button, sameInPyTorch, slider } from "./controls.mjs";
import { makeMovable } from "./dragging.mjs";
import { bars, change, html, numbersOf, svg } from "./drawing.mjs";
import { dot, softmax } from "./maths.mjs";

export const title = "What comes out of a soft look-up?";
export const hint = "Drag the query q, or move it with the arrow keys. Each key is an animal, its "
  + "value a number of legs.";

const SIDE = 360, UNIT = 105, KEY_STEP = 0.1;  // of the plane: its picture, one key press
const PRESETS = [["kitten", ({ kitten }) => kitten],
  ["between bird and snake", () => [-Math.SQRT1_2, Math.SQRT1_2].map(rounded)], ["zero", () => [0, 0]]];

export function prediction() {
  return {
    question: {
      ask: "the query points exactly between bird (2 legs) and snake (0 legs). What comes out?",
      then: "Now bring the query there, at temperature 1: drag it, or use the button.",
    },
    options: ["2 or 0", "exactly 1", "more than 1", "an error"],
    right: 2,
    why: "Bird and snake get the same weight, but cat, which has 4 legs, still gets some and pulls "
      + "the average up. Softmax gives no key exactly nothing; a small temperature or a long query "
      + "only makes it very little.",
    settled: ({ query: [right, up], temperature }) =>
      temperature >= 0.5 && up >= 0.3 && Math.abs(right + up) < 0.01,
  };
}

export function render(lab) {
  const { names, keys, values, stops } = lab.data;
  const plane = makePlane(lab);
  const knob = slider(lab, { label: "temperature", name: "temperature", stops,
    onMove: (temperature) => lab.set({ temperature }) });
  knob.input.classList.add("narrow");
  const presets = PRESETS.map(([text, at]) => button(lab, text, () => lab.set({ query: at(lab.data) })));
  lab.bar.append(knob.element, html("div", { class: "control", role: "group",
    "aria-label": "places of the query" }, html("span", { class: "label" }, "query"), presets));
  const table = bars({ caption: "Values, scores and weights of the keys", names, digits: 3,
    columns: [["legs", values.map(String)], ["score", values.map(() => "")]] });
  const line = balance(lab.data);
  lab.picture.append(
    html("div", { class: "panel", style: "max-width:22em" }, html("h4", {}, "keys and query"), plane.element),
    html("div", { class: "side", style: "flex-grow:1.6" }, html("h4", {}, "weights"), table.element,
      html("h4", {}, "output"),
      html("p", { style: "margin:2px 0 8px" },
        "A ball is as large as its weight. ▲ is where they balance."), line.element),
    sameInPyTorch(lab));

  return ({ query, temperature }) => {
    if (!stops.includes(temperature)) throw new Error(`temperature ${temperature} is no stop.`);
    const scores = keys.map((key) => dot(query, key) / temperature);
    const weights = softmax(scores);
    const output = dot(weights, values);
    knob.show(temperature);
    plane.show(query, weights);
    table.show(weights);
    scores.forEach((score, i) => { table.further[1][i].textContent = signed(score); });
    line.show(weights, output);
    return { say: say(lab.data, weights, output), code: code(lab.data, query, temperature) };
  };
}

// --- the plane -------------------------------------------------------------------------------------

/** Keys as arrows from the middle; the query is dragged, moved with arrow keys, or set by a click. */
function makePlane(lab) {
  const { names, keys, values, limit } = lab.data;
  const half = SIDE / 2;
  const arrows = keys.map(([x, y]) => arrow(x * UNIT, -y * UNIT));
  const stem = svg("line", { class: "line raw" });
  const handle = svg("g", { class: "handle", role: "slider", tabindex: 0, "aria-label": "query",
    "aria-valuemin": -limit, "aria-valuemax": limit },
  svg("circle", { r: 28, class: "target" }), svg("circle", { r: 15, class: "dot raw" }),
  svg("text", { y: 5, "text-anchor": "middle" }, "q"));
  const element = svg("svg", { viewBox: `${-half} ${-half} ${SIDE} ${SIDE}`, class: "field pickable" },
    svg("rect", { x: -half, y: -half, width: SIDE, height: SIDE, rx: 10 }),
    svg("line", { class: "grid", x1: -half, x2: half }),
    svg("line", { class: "grid", y1: -half, y2: half }),
    arrows.flatMap(({ all }) => all), keys.map((key, i) => nameOfKey(key, names[i], values[i])),
    stem, handle);
  const move = (place) => {
    lab.set({ query: place.map((one) => rounded(Math.min(limit, Math.max(-limit, snap(one))))) });
  };
  makeMovable(lab, handle, element, { size: [SIDE / UNIT, SIDE / UNIT], step: KEY_STEP,
    place: () => lab.state.query, onMove: move });
  moveByClick(lab, element, handle, move);
  const show = ([x, y], weights) => {
    change(stem, { x2: x * UNIT, y2: -y * UNIT });
    handle.setAttribute("transform", `translate(${x * UNIT},${-y * UNIT})`);
    arrows.forEach(({ shaft }, i) => shaft.setAttribute("stroke-width", 3 + 10 * weights[i]));
    change(handle, { "aria-valuenow": x, "aria-valuetext": `right ${signed(x)}, up ${signed(y)}` });
  };
  return { element, show };
}

function arrow(x, y) {
  const turn = (Math.atan2(y, x) * 180) / Math.PI;
  const shaft = svg("line", { class: "shaft scaled", x2: 0.86 * x, y2: 0.86 * y });
  const head = svg("path", { class: "dot scaled", d: "M2,0L-21,-11V11Z",
    transform: `translate(${x},${y}) rotate(${turn})` });
  return { shaft, all: [shaft, head] };
}

function nameOfKey([x, y], name, legs) {
  const left = 1.12 * x * UNIT;
  const anchor = x ? (x > 0 ? "start" : "end") : "middle";
  return svg("text", { x: left, y: -1.38 * y * UNIT - 3, "text-anchor": anchor },
    svg("tspan", { class: "name" }, name), svg("tspan", { x: left, dy: 18 }, `${legs} legs`));
}

/** A click that was no drag brings the query there; a finger elsewhere still scrolls the page. */
function moveByClick(lab, element, handle, move) {
  let before = null;
  lab.on(element, "pointerdown", () => { before = lab.state.query; });
  lab.on(element, "click", (event) => {
    if (lab.state.query !== before) return;
    const box = element.getBoundingClientRect();
    const across = (event.clientX - box.left) / box.width - 0.5;
    const down = (event.clientY - box.top) / box.height - 0.5;
    move([(across * SIDE) / UNIT, (-down * SIDE) / UNIT]);
    handle.focus();
  });
}

const snap = (value) => Math.round(value * 20) / 20;
const rounded = (value) => Math.round(value * 1e4) / 1e4 + 0;
const signed = (value) => (Math.abs(value) < 0.005 ? "0.00"
  : value.toFixed(Math.abs(value) < 9.995 ? 2 : 1).replace("-", "−"));

// --- the output ------------------------------------------------------------------------------------

/** The values on a line, as heavy as their weights, and the output, the point where they balance. */
function balance({ names, values }) {
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const across = (legs) => 44 + (252 * (legs - low)) / (high - low);
  const balls = values.map((legs) => svg("circle", { class: "dot scaled", cx: across(legs), cy: 30 }));
  const mark = svg("path", { class: "dot raw", d: "M0,0L11,19H-11Z" });
  const text = svg("text", { y: 72, "text-anchor": "middle", class: "name" });
  const picture = svg("svg", { viewBox: "0 0 340 114", role: "img", class: "balance" },
    svg("line", { class: "now", x1: 0, x2: 340, y1: 30, y2: 30 }),
    svg("line", { class: "hull", x1: across(low), x2: across(high), y1: 30, y2: 30 }),
    balls, mark, text,
    values.map((legs, i) => svg("text",
      { x: across(legs), y: 102, "text-anchor": "middle" }, `${legs} ${names[i]}`)));
  const show = (weights, output) => {
    balls.forEach((ball, i) => ball.setAttribute("r", 3 + 22 * Math.sqrt(weights[i])));
    mark.setAttribute("transform", `translate(${across(output)},35)`);
    text.setAttribute("x", across(output));
    text.textContent = output.toFixed(3);
    picture.setAttribute("aria-label", `Output ${output.toFixed(3)} legs, between ${low} and ${high}`);
  };
  return { element: picture, show };
}

// --- words: the same as in look_up.py --------------------------------------------------------------

function say({ names, values }, weights, output) {
  const terms = weights.map((weight, i) => `${weight.toFixed(3)} · ${values[i]}`).join(" + ");
  return `${terms} ≈ **${output.toFixed(3)}** legs: ${verdict(names, values, weights)}.`;
}

function verdict(names, values, weights) {
  const largest = Math.max(...weights);
  const best = names[weights.indexOf(largest)];
  if (largest >= 0.99) return `nearly the value of ${best} alone, as in a hard look-up`;
  const spread = largest - Math.min(...weights);
  if (spread < 0.01) return `${spread ? "nearly" : "exactly"} the plain average of all values`;
  return `an average, so never below ${Math.min(...values)} and never above ${Math.max(...values)}`;
}

/** A number as Python writes a float. */
function decimal(value) {
  return Number.isInteger(value) ? value.toFixed(1) : String(value);
}

function code({ names, keys, values }, query, temperature) {
  const rows = (list) => `[${list.map((row) => `[${row.join(", ")}]`).join(", ")}]`;
  return `# ${names.join(", ")}: directions and legs\n`
    + `key = torch.tensor(${rows(keys.map((key) => key.map(decimal)))})\n`
    + `value = torch.tensor(${rows(values.map((legs) => [decimal(legs)]))})\n`
    + `query = torch.tensor([${query.map(decimal).join(", ")}])\n`
    + `weights = (key @ query / ${temperature}).softmax(dim=-1)\n`
    + "output = weights @ value";
}
