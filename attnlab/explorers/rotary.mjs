// Rotary positions: a query and a key, turned by their positions, pair by pair.
import { button, showControls } from "./frame/js/controls.mjs";
import { chart, change, html, setText, svg } from "./frame/js/drawing.mjs";
import { dot } from "./frame/js/maths.mjs";
import { fill } from "./frame/js/words.mjs";

const UNIT = 50;  // length 1 in the picture of a plane

export function render(lab) {
  const { data } = lab, { places, words, panels: [panel] } = data;
  const controls = showControls(lab);
  const within = (place) => place >= 0 && place < places.length;
  const moveBoth = (by) => {
    const next = { query: lab.state.query + by, key: lab.state.key + by };
    if (Object.values(next).every(within)) lab.set(next);
  };
  lab.bar.append(html("div", { class: "control", role: "group", "aria-label": "both positions" },
    html("span", { class: "label" }, "both"),
    button(lab, "◀ back", () => moveBoth(-1)), button(lab, "on ▶", () => moveBoth(1))));
  const planes = data.speeds[0].map((_, i) => makePlane(data, i));
  const at = (i) => placesAt(lab.state, panel.stops[i], places.length);
  const curve = chart(lab, { ...panel,
    onPreview: (i) => lab.preview(i === undefined ? {} : at(i)), onPick: (i) => lab.set(at(i)) });
  lab.picture.append(
    html("section", { class: "panel", style: "--grow:1.4" }, html("h4", {}, "query and key, turned"),
      html("div", { class: "turns" }, planes.map(({ element }) => element))),
    html("section", { class: "panel", style: "--grow:1" }, html("h4", {}, panel.title),
      curve.element));
  lab.longest([fill(words.say, { query: 24, key: 24, offset: "−24", score: "−0.00",
    pairs: fill(words.several, { count: 25 }) })]);
  let drawn, values;

  return (state) => {
    const speeds = data.speeds[data.bases.indexOf(state.base)];
    if (drawn !== state.base) {
      [drawn, values] = [state.base, [panel.stops.map((far) => scoreAt(data, speeds, far, 0))]];
    }
    const offset = state.query - state.key, score = scoreAt(data, speeds, state.query, state.key);
    controls(state);
    planes.forEach((plane, i) => plane.show(speeds[i], state));
    curve.show({ at: panel.stops.indexOf(offset), values,
      label: `${panel.title}, at offset ${offset}: ${score.toFixed(2)}` });
    return { say: say(data, state, score), code: fill(words.code, { ...state,
      pairs: speeds.length, features: 2 * speeds.length, places: places.length,
      base: state.base.toFixed(1) }) };
  };
}

/** The positions nearest to those of a state that have an offset. */
function placesAt({ key }, offset, count) {
  const moved = Math.min(count - 1 - Math.max(0, offset), Math.max(key, -Math.min(0, offset)));
  return { query: moved + offset, key: moved };
}

const turned = ([x, y], angle) => [x * Math.cos(angle) - y * Math.sin(angle),
  x * Math.sin(angle) + y * Math.cos(angle)];

/** The two numbers of one pair, turned. */
const pairAt = (vector, i, angle) => turned(vector.slice(2 * i, 2 * i + 2), angle);

function scoreAt({ vectors }, speeds, query, key) {
  return speeds.reduce((sum, speed, i) => sum + dot(pairAt(vectors.query, i, speed * query),
    pairAt(vectors.key, i, speed * key)), 0);
}

function say({ words, places }, { query, key }, score) {
  const offset = query - key, count = places.length - Math.abs(offset);
  const pairs = fill(words[count > 1 ? "several" : "alone"], { count });
  return fill(words.say, { query, key, offset: signed(offset, 0), score: signed(score, 2), pairs });
}

const signed = (number, digits) => {
  const text = number.toFixed(digits);
  return Number(text) ? text.replace("-", "−") : text.replace("-", "");
};

/** One pair of features: the arrow of the query and, dashed, that of the key. */
function makePlane({ vectors, side, words }, i) {
  const half = side * UNIT;
  const arrows = [["query", "raw", null], ["key", "scaled", "7 5"]].map(([name, role, dashes]) => {
    const line = svg("line", { class: `line ${role}`, "stroke-dasharray": dashes });
    const end = svg("circle", { class: `dot ${role}`, r: 6 });
    return { name, line, end };
  });
  const picture = svg("svg", { viewBox: `${-half} ${-half} ${2 * half} ${2 * half}`, role: "img",
    class: "field" },
  svg("rect", { x: -half, y: -half, width: 2 * half, height: 2 * half, rx: 8 }),
  svg("line", { class: "grid", x1: -half, x2: half }),
  svg("line", { class: "grid", y1: -half, y2: half }),
  arrows.map(({ line, end }) => [line, end]).flat());
  const caption = html("figcaption", {});
  const show = (speed, state) => {
    arrows.forEach(({ name, line, end }) => {
      const [x, y] = pairAt(vectors[name], i, speed * state[name]);
      change(line, { x2: x * UNIT, y2: -y * UNIT });
      change(end, { cx: x * UNIT, cy: -y * UNIT });
    });
    const [query, key] = [state.query, state.key].map((place) => (place * speed).toFixed(2));
    change(picture, { "aria-label": fill(words.plane, { pair: i, query, key }) });
    setText(caption, `pair ${i}: ${Number(speed.toPrecision(2))} a step`);
  };
  return { element: html("figure", {}, picture, caption), show };
}
