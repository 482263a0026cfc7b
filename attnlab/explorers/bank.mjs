// What "bank" means between other words, and whether attention selects or only mixes.
import { button, showControls } from "./frame/js/controls.mjs";
import { makeMovable } from "./frame/js/dragging.mjs";
import { html, setText, svg } from "./frame/js/drawing.mjs";
import { dot, isWithin, softmax } from "./frame/js/maths.mjs";
import { panelOf } from "./frame/js/panels.mjs";
import { fill } from "./frame/js/words.mjs";

/** "river" alone has been dragged down, but not to the middle. */
export function settled({ sentence, sharpness, moved }) {
  const [[word, x, y]] = moved.length === 1 ? moved : [[]];
  return sentence === "both" && sharpness >= 1 && word === "river" && x < -1.5 && y <= -1;
}

export const fits = {
  moved: (entries, { vectors, limits }) => entries.every(([word, ...place]) => place.length === 2
    && Object.hasOwn(vectors, word) && place.every((value, axis) => isWithin(value, limits[axis]))),
};

export function render(lab) {
  const { sentences, words: texts, panels: [panel] } = lab.data;
  const controls = showControls(lab), heading = html("h4", {});
  const ends = { attention: html("span", {}), average: html("span", {}) };
  const sum = html("p", { class: "detail" }), place = html("div", { class: "listening" });
  let picked = "bank", last, words, bars;
  const tellSum = () => setText(sum, sumOf(lab.data, last, picked));
  const plane = makePlane(lab, (word) => {
    picked = word;
    tellSum();
  });
  const back = button(lab, texts.back, () => {
    picked = "bank";
    lab.set({ moved: [] });
  });
  back.className = "plain";
  lab.bar.append(back);
  lab.picture.append(html("section", { class: "panel bank" }, heading, plane.element), place,
    html("section", { class: "panel ends" }, html("h4", {}, "where it ends up"),
      html("div", { class: "key" }, Object.entries(ends).map(([look, text]) =>
        html("span", {}, html("i", { class: look }), text))),
      html("h4", {}, "this word"), sum));
  const far = fill(texts.towards, { far: "0.00", side: "money" });
  lab.longest([fill(texts.ends, { here: far, names: "“river” and “loan”", most: "0.00",
    each: texts.each, verdict: fill(texts.verdicts.mixing, { there: far }) })]);

  return (state) => {
    if (words !== sentences[state.sentence]) {
      words = sentences[state.sentence];
      if (!words.includes(picked)) picked = "bank";
      heading.replaceChildren(...words.flatMap(
        (word) => [word === "bank" ? html("mark", {}, word) : word, " "]));
      bars = panelOf(lab, { ...panel, names: words });
      place.replaceChildren(bars.element);
    }
    last = attend(lab.data, words, state);
    controls(state);
    plane.show(last);
    const equal = words.map(() => 1 / words.length);
    bars.show({ weights: last.weights, outline: equal }, state);
    const [here, there] = [last.end, last.average].map(([x]) => where(lab.data, x));
    setText(ends.attention, fill(texts.attention, { where: here }));
    setText(ends.average, fill(texts.average, { count: words.length, where: there }));
    tellSum();
    return { say: say(lab.data, last), code: code(texts, last) };
  };
}

/** What torch computes in bank.py. */
function attend({ vectors }, words, { moved, sharpness }) {
  const elsewhere = Object.fromEntries(moved.map(([word, ...place]) => [word, place]));
  const places = words.map((word) => elsewhere[word] ?? vectors[word]);
  const bank = places[words.indexOf("bank")];
  const scores = places.map((place) => (dot(bank, place) / Math.SQRT2) * sharpness);
  const weights = softmax(scores);
  const along = (shares) => [0, 1].map((axis) => dot(shares, places.map((place) => place[axis])));
  const average = along(words.map(() => 1 / words.length));
  return { words, places, bank, scores, weights, end: along(weights), average, sharpness };
}

// --- the plane -------------------------------------------------------------------------------------

/** The plane with its movable words; `show(result)` puts everything in place. */
function makePlane(lab, onFocus) {
  const { vectors, limits, middle, pull, words: texts, edges: [wide, high] } = lab.data;
  const put = (element, [x, y]) => {
    element.style.left = `${50 + (50 * x) / wide}%`;
    element.style.top = `${50 - (50 * y) / high}%`;
  };
  const keep = (word, place) => {
    const [x, y] = place.map((value, axis) => {
      const limit = limits[axis];
      return Math.round(Math.min(limit, Math.max(-limit, value)) * 100) / 100;
    });
    const others = lab.state.moved.filter(([one]) => one !== word);
    lab.set({ moved: [...others, [word, x, y]].sort(([a], [b]) => (a < b ? -1 : 1)) });
  };
  const lines = svg("svg", { viewBox: `${-wide} ${-high} ${2 * wide} ${2 * high}`, "aria-hidden": "true" });
  const end = html("i", { class: "attention at" }), average = html("i", { class: "average at" });
  const layer = html("div", { class: "words" });
  const stripe = html("div", { class: "stripe", style: `width:${(100 * middle) / wide}%` });
  const element = html("div", { class: "plane", role: "group", "aria-label": texts.plane }, stripe,
    lines, texts.corners.map((text, i) => html("span", { class: `corner c${i}` }, text)),
    average, end, layer);
  let latest;
  const tokens = Object.fromEntries(Object.keys(vectors).map((word) => {
    const token = html("button", { type: "button", class: "token", "aria-label": word,
      "aria-roledescription": "movable word" }, html("i", { class: word === "bank" ? "ring" : "" }), word);
    lab.on(token, "focus", () => onFocus(word));
    makeMovable(lab, token, element, { size: [2 * wide, 2 * high], step: 0.25,
      place: () => latest.places[latest.words.indexOf(word)], onMove: (to) => keep(word, to) });
    return [word, token];
  }));
  const show = (result) => {
    const { words, places, weights, bank } = result;
    if (latest?.words !== words) layer.replaceChildren(...words.map((word) => tokens[word]));
    latest = result;
    words.forEach((word, i) => put(tokens[word], places[i]));
    put(end, result.end);
    put(average, result.average);
    const lineTo = (name, [x, y], width) => svg("line", { class: name, x1: x, y1: -y,
      x2: result.end[0], y2: -result.end[1], "stroke-width": width });
    lines.replaceChildren(...places.map((place, i) => lineTo("pull", place, pull * weights[i])),
      lineTo("path", bank, 3));
  };
  return { element, show };
}

// --- words -----------------------------------------------------------------------------------------

function say(data, { words, weights, end, average, sharpness }) {
  const { tie, words: texts } = data, here = where(data, end[0]);
  if (sharpness === 0) return fill(texts.flat, { here });
  const most = Math.max(...weights);
  const names = words.filter((_, i) => weights[i] > most - tie)
    .map((word) => fill(word === "bank" ? texts.itself : texts.word, { word }));
  const [side, control] = [end[0], average[0]].map((x) => sideOf(data, x));
  const verdict = side === control ? (side ? "mixing" : "undecided") : side ? "selecting" : "holding";
  return fill(texts.ends, { here, names: names.join(" and "), most: size(data, most),
    each: names.length > 1 ? texts.each : "",
    verdict: fill(texts.verdicts[verdict], { there: where(data, average[0]) }) });
}

function sideOf(data, x) {
  return Number(size(data, x)) < data.middle ? 0 : Math.sign(x);
}

function where(data, x) {
  const side = sideOf(data, x), { middle, towards } = data.words;
  return side ? fill(towards, { far: size(data, x), side: side > 0 ? "money" : "nature" }) : middle;
}

/** The size of a number; halves go up, as in bank.py. */
function size({ half }, value) {
  return (Math.abs(value) + half).toFixed(2);
}

/** How the weight of one word comes about. */
function sumOf({ words: texts }, { words, bank, places, scores, weights, sharpness }, word) {
  const i = words.indexOf(word), vector = (place) => `(${place.map(number).join(", ")})`;
  return fill(texts.sum, { word, bank: vector(bank), place: vector(places[i]), sharpness,
    product: number(dot(bank, places[i])), score: number(scores[i]), weight: weights[i].toFixed(2) });
}

function number(value) {
  return String(Number(value.toFixed(2))).replace("-", "−");
}

function code(texts, { words, places, sharpness }) {
  const decimals = (value) => value.toFixed(2).replace(/0$/, "");
  const rows = places.map((place) => `[${place.map(decimals).join(", ")}]`);
  return fill(texts.code, { rows: rows.join(", "), place: words.indexOf("bank"),
    words: words.join(", "), sharpness });
}
