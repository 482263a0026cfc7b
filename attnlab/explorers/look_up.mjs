// A soft look-up: a query between keys gets a weighted average of their values.
import { button, showControls } from "./frame/js/controls.mjs";
import { makeMovable } from "./frame/js/dragging.mjs";
import { change, html, svg } from "./frame/js/drawing.mjs";
import { dot, isWithin, softmax } from "./frame/js/maths.mjs";
import { panelOf } from "./frame/js/panels.mjs";
import { fill } from "./frame/js/words.mjs";

const SIDE = 360, UNIT = 105, KEY_STEP = 0.1;  // of the plane: its picture, one key press
const BALL = 28;  // radius of a ball of weight 1

export function settled({ query: [right, up], temperature }) {
  return temperature >= 0.5 && up >= 0.3 && Math.abs(right + up) < 0.01;
}

export const fits = {
  query: (place, { limit }) => place.length === 2 && place.every((one) => isWithin(one, limit)),
};

export function render(lab) {
  const { keys, values, words, places } = lab.data;
  const controls = showControls(lab), plane = makePlane(lab), line = balance(lab.data);
  const bars = panelOf(lab, lab.data.panels[0]);
  lab.bar.append(html("div", { class: "control", role: "group", "aria-label": "places of the query" },
    html("span", { class: "label" }, "query"),
    places.map(([text, query]) => button(lab, text, () => lab.set({ query })))));
  lab.picture.append(
    html("section", { class: "panel arrows" }, html("h4", {}, "keys and query"), plane.element),
    html("div", { class: "found" }, bars.element, html("section", { class: "panel" },
      html("h4", {}, "output"), html("p", { class: "under" },
        "The area of each ball shows a weight. The balls balance at ▲."), line.element)));
  lab.longest(["alone", "exactly", "between"].map((kind) => say(lab.data, [0, 0, 0], 0, kind)));

  return (state) => {
    const scores = keys.map((key) => dot(state.query, key) / state.temperature);
    const weights = softmax(scores), output = dot(weights, values);
    controls(state);
    plane.show(state.query, weights);
    bars.show({ weights, columns: { legs: values.map(String), score: scores.map(signed) } }, state);
    line.show(weights, output);
    const [right, up] = state.query.map(decimal);
    return { say: say(lab.data, weights, output, verdict(weights)),
      code: fill(words.code, { right, up, temperature: state.temperature }) };
  };
}

function say({ names, values, words, digits }, weights, output, kind) {
  const texts = written(weights, values, output, digits);
  const terms = texts.map((weight, i) => fill(words.term, { weight, legs: values[i] }));
  const [name, least] = [Math.max, Math.min].map((end) => names[weights.indexOf(end(...weights))]);
  return fill(words.say, { terms: terms.join(" + "), output: output.toFixed(2),
    verdict: fill(words[kind], { name, least }) });
}

/** Weights with so many decimals that their average rounds to the output, as in look_up.py. */
function written(weights, values, output, digits) {
  const texts = weights.map((weight) => weight.toFixed(digits));
  const agrees = dot(texts.map(Number), values).toFixed(2) === output.toFixed(2);
  return agrees || digits === 11 ? texts : written(weights, values, output, digits + 1);
}

/** What kind of average weights make, as in look_up.py. */
function verdict(weights) {
  const largest = Math.max(...weights), smallest = Math.min(...weights);
  const spread = largest - smallest;
  if (largest >= 0.99) return "alone";
  if (spread < 0.01) return spread ? "nearly" : "exactly";
  return smallest < 0.01 ? "two" : "between";
}

const rounded = (value) => Math.round(value * 1e4) / 1e4 + 0;
const signed = (value) => (Math.abs(value) < 0.005 ? "0.00"
  : value.toFixed(Math.abs(value) < 9.995 ? 2 : 1).replace("-", "−"));
const decimal = (value) => (Number.isInteger(value) ? value.toFixed(1) : String(value));

// --- the plane -------------------------------------------------------------------------------------

/** Keys as arrows from the middle; the query is dragged, moved by keys, or set by a click. */
function makePlane(lab) {
  const { names, keys, values, limit, words } = lab.data;
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
  const snap = (value) => Math.round(Math.min(limit, Math.max(-limit, value)) * 20) / 20;
  const move = (place) => lab.set({ query: place.map((one) => rounded(snap(one))) });
  makeMovable(lab, handle, element, { size: [SIDE / UNIT, SIDE / UNIT], step: KEY_STEP,
    place: () => lab.state.query, onMove: move });
  moveByClick(lab, element, handle, move);
  const show = ([x, y], weights) => {
    change(stem, { x2: x * UNIT, y2: -y * UNIT });
    handle.setAttribute("transform", `translate(${x * UNIT},${-y * UNIT})`);
    arrows.forEach(({ shaft }, i) => shaft.setAttribute("stroke-width", 3 + 10 * weights[i]));
    change(handle, { "aria-valuenow": x,
      "aria-valuetext": fill(words.place, { right: signed(x), up: signed(y) }) });
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

/** A click that was not a drag brings the query there; a finger elsewhere still scrolls the page. */
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

// --- the output ------------------------------------------------------------------------------------

/** The values on a line, each a ball whose area is its weight; the output is where they balance. */
function balance({ names, values, words }) {
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const across = (legs) => 44 + (252 * (legs - low)) / (high - low);
  const balls = values.map((legs) => svg("circle", { class: "ball", cx: across(legs), cy: 30 }));
  const mark = svg("path", { class: "dot raw", d: "M0,0L11,19H-11Z" });
  const text = svg("text", { y: 72, "text-anchor": "middle", class: "name" });
  const element = svg("svg", { viewBox: "0 0 340 104", role: "img", class: "balance" },
    svg("line", { class: "now", x1: 0, x2: 340, y1: 30, y2: 30 }),
    svg("line", { class: "hull", x1: across(low), x2: across(high), y1: 30, y2: 30 }),
    balls, mark, text,
    values.map((legs, i) => svg("text",
      { x: across(legs), y: 98, "text-anchor": "middle" }, `${legs} ${names[i]}`)));
  const show = (weights, output) => {
    balls.forEach((ball, i) => change(ball, { r: BALL * Math.sqrt(weights[i]) }));
    mark.setAttribute("transform", `translate(${across(output)},35)`);
    text.setAttribute("x", across(output));
    text.textContent = output.toFixed(2);
    change(element, { "aria-label": fill(words.output, { output: output.toFixed(2) }) });
  };
  return { element, show };
}
