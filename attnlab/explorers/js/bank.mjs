// Explorer 2: what "bank" means between other words, and whether attention selects or only mixes.
import { button, choice, slider } from "./controls.mjs";
import { makeMovable } from "./dragging.mjs";
import { bars, html, svg } from "./drawing.mjs";
import { dot, softmax } from "./maths.mjs";

export const title = "What does “bank” mean here?";
export const hint = "Each word has one place in all sentences. “bank” asks its sentence, and ends at "
  + "the weighted average. Drag any word, or move it with the arrow keys.";

const SENTENCES = [["river", "river"], ["loan", "loan"], ["both", "river and loan"]];
const PRESETS = [0, 1, 8];

export function prediction() {
  return {
    question: {
      ask: "“this bank by the river gave a loan”: river and loan in one sentence. "
        + "Where does “bank” end?",
      then: "Now choose “river and loan” and look.",
    },
    options: ["with nature", "with money", "undecided"],
    right: 2,
    why: "Both words get the same weight, so neither wins. Now drag one of them down to the "
      + "filler words, and then to the other side: what does the plain average do?",
    settled: ({ sentence }) => sentence === "both",
  };
}

export function render(lab) {
  const { sentences, stops } = lab.data;
  const which = choice(lab, { label: "sentence", options: SENTENCES,
    onPick: (sentence) => lab.set({ sentence }) });
  const sharp = slider(lab, { label: "sharpness", name: "sharpness of the weights",
    stops, onMove: (sharpness) => lab.set({ sharpness }) });
  sharp.input.style.width = "170px";
  const presets = PRESETS.map((sharpness) => button(lab, `${sharpness}`, () => lab.set({ sharpness })));
  presets.forEach((preset, i) => preset.setAttribute("aria-label", `sharpness ${PRESETS[i]}`));
  let picked = "bank", last, words, table;
  const back = button(lab, "Put words back", () => {
    picked = "bank";
    lab.set({ moved: [] });
  });
  back.className = "plain";
  lab.bar.append(which.element, sharp.element,
    html("div", { class: "control", role: "group", "aria-label": "values of sharpness" }, presets),
    back);

  const heading = html("h4", { style: "margin:0" });
  const listening = html("div", {}), sum = html("p", { class: "detail" });
  const ends = { attention: html("span", {}), average: html("span", {}) };
  const plane = makePlane(lab, (word) => {
    picked = word;
    sum.textContent = tellSum(last, picked);
  });
  lab.picture.append(
    html("div", { class: "main" }, heading, plane.element, html("div", { class: "key" },
      html("i", { class: "end" }), ends.attention, html("i", { class: "average" }), ends.average)),
    html("div", { class: "side" }, html("h4", {}, "How much “bank” listens to each word"), listening,
      html("h4", {}, "This word"), sum, html("h4", {}, "The same in PyTorch"), lab.codeBox));

  return (state) => {
    which.show(state.sentence);
    sharp.show(state.sharpness);
    if (words !== sentences[state.sentence]) {
      words = sentences[state.sentence];
      if (!words.includes(picked)) picked = "bank";
      heading.replaceChildren(...words.flatMap(
        (word) => [word === "bank" ? html("mark", {}, word) : word, " "]));
      table = bars({ caption: "Weights of the query “bank”", names: words });
      table.element.querySelector("col.name").style.width = "5.2em";
      listening.replaceChildren(table.element);
    }
    last = attend(lab.data, words, state);
    plane.show(last);
    table.show(last.weights, words.map(() => 1 / words.length));
    ends.attention.textContent = `“bank” after attention: ${where(lab.data, last.end[0])}`;
    ends.average.textContent = `plain average, every weight 1/${words.length} (dashed): `
      + where(lab.data, last.average[0]);
    sum.textContent = tellSum(last, picked);
    return { say: say(lab.data, last), bad: false, code: code(last) };
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
  const [wide, high] = lab.data.edges;
  const put = (element, [x, y]) => {
    element.style.left = `${50 + (50 * x) / wide}%`;
    element.style.top = `${50 - (50 * y) / high}%`;
  };
  const keep = (word, place) => {
    const [x, y] = place.map((value, axis) => {
      const limit = lab.data.limits[axis];
      return Math.round(Math.min(limit, Math.max(-limit, value)) * 100) / 100;
    });
    const others = lab.state.moved.filter(([one]) => one !== word);
    lab.set({ moved: [...others, [word, x, y]].sort(([a], [b]) => (a < b ? -1 : 1)) });
  };
  const lines = svg("svg", { viewBox: `${-wide} ${-high} ${2 * wide} ${2 * high}`, "aria-hidden": "true" });
  const end = html("i", { class: "end at" }), average = html("i", { class: "average at" });
  const layer = html("div", { class: "words" });
  const element = html("div", { class: "plane", role: "group", "aria-label": "Plane from nature, left, "
    + "to money, right; filler words below" },
  html("div", { class: "stripe", style: `width:${(100 * lab.data.middle) / wide}%` }), lines,
  ["← nature", "undecided", "money →", "filler ↓"].map((text, i) => html("span", { class: `corner c${i}` }, text)),
  average, end, layer);
  let latest;
  const tokens = Object.fromEntries(Object.keys(lab.data.vectors).map((word) => {
    const token = html("button", { type: "button", class: "token", "aria-label": word,
      "aria-roledescription": "movable word" }, html("i", { class: word === "bank" ? "ring" : "" }), word);
    lab.on(token, "focus", () => onFocus(word));
    makeMovable(lab, token, element, { size: [2 * wide, 2 * high], step: 0.25,
      place: () => latest.places[latest.words.indexOf(word)], onMove: (to) => keep(word, to) });
    return [word, token];
  }));
  const show = (result) => {
    if (latest?.words !== result.words) layer.replaceChildren(...result.words.map((word) => tokens[word]));
    latest = result;
    result.words.forEach((word, i) => put(tokens[word], result.places[i]));
    put(end, result.end);
    put(average, result.average);
    const pulls = result.places.map(([x, y], i) => svg("line", { class: "pull", x1: x, y1: -y,
      x2: result.end[0], y2: -result.end[1], "stroke-width": 0.6 + 20 * result.weights[i] }));
    lines.replaceChildren(...pulls, svg("line", { class: "path", x1: result.bank[0], y1: -result.bank[1],
      x2: result.end[0], y2: -result.end[1] }));
  };
  return { element, show };
}

// --- words: the same as in bank.py -----------------------------------------------------------------

const VERDICTS = {
  undecided: " too: **undecided**.",
  mixing: ", the same side: **mixing is enough for that**, it takes no selecting.",
  selecting: ": mixing alone does not decide this, the weights do. **They select.**",
  holding: ": it is the weights that keep “bank” undecided.",
};

function say(data, { words, weights, end, average, sharpness }) {
  const here = where(data, end[0]);
  if (sharpness === 0) {
    return "Sharpness 0: all weights are equal, and attention is the plain average. “bank” ends "
      + `**${here}**; nothing is selected.`;
  }
  const most = Math.max(...weights);
  const names = words.filter((_, i) => weights[i] > most - data.tie)
    .map((word) => (word === "bank" ? "itself" : `“${word}”`));
  const each = names.length > 1 ? " each" : "";
  const [side, control] = [end[0], average[0]].map((x) => sideOf(data, x));
  const verdict = side === control ? (side ? "mixing" : "undecided") : side ? "selecting" : "holding";
  return `“bank” ends **${here}**; it listens most to ${names.join(" and ")} (${rounded(most)}${each}). `
    + `The plain average ends ${where(data, average[0])}${VERDICTS[verdict]}`;
}

function sideOf({ middle }, x) {
  return Number(rounded(x)) < middle ? 0 : Math.sign(x);
}

function where(data, x) {
  const side = sideOf(data, x);
  return side ? `${rounded(x)} towards ${side > 0 ? "money" : "nature"}` : "in the middle";
}

/** The size of a number; halves go up, as in bank.py. */
function rounded(value) {
  return (Math.abs(value) + 1e-9).toFixed(2);
}

/** How the weight of one word comes about. */
function tellSum({ words, bank, places, scores, weights, sharpness }, word) {
  const i = words.indexOf(word);
  const numbers = (place) => `(${place.map(number).join(", ")})`;
  return `“bank” · “${word}” = ${numbers(bank)} · ${numbers(places[i])} = ${number(dot(bank, places[i]))}; `
    + `divided by √2, times ${sharpness}: score ${number(scores[i])}, weight ${weights[i].toFixed(2)}.`;
}

function number(value) {
  return String(Number(value.toFixed(2))).replace("-", "−");
}

function code({ words, places, sharpness }) {
  const rows = places.map((place) => `[${place.map((value) => value.toFixed(2).replace(/0$/, "")).join(", ")}]`);
  return `x = torch.tensor([${rows.join(", ")}])\n`
    + `bank = x[${words.indexOf("bank")}]  # ${words.join(", ")}\n`
    + `weights = (${sharpness} * (x @ bank) / 2 ** 0.5).softmax(dim=-1)\n`
    + "output, average = weights @ x, x.mean(dim=0)";
}
