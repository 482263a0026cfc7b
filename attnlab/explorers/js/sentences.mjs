// What explorers share in which a sentence is chosen or typed: controls, the sentence with its arcs.
import { PATIENCE, SILENT } from "./base.mjs";
import { choice, followPointer } from "./controls.mjs";
import { html, setText, svg, weightColours } from "./drawing.mjs";
import { isPlace } from "./maths.mjs";
import { panelOf } from "./panels.mjs";
import { fill } from "./words.mjs";

const HEIGHT = 92, LINE = 16;  // of the arcs, in pixels; width of the arc of a weight of 1

/** What has no control and may come from elsewhere: a sentence that can be read, and a place. */
export const fitsSentence = {
  sentence: (text, { readings }) => readings.some(({ sentence }) => sentence === text)
    || (Boolean(globalThis.attnlabReaders) && typeof text === "string" && text.trim() !== ""),
  word: (place, { longest }) => isPlace(place, { length: longest }),
};

/**
 * Put the controls of the sentence into the bar; returns the sentence with its arcs, the rows of
 * `bars` (a panel), `find(state)`, which gives the reading in force and the place of the token that
 * asks, and `paint(row, place)`, which shows the weights of that token.
 *
 * A page without Python may bring globalThis.attnlabReaders: by the `kind` of explorer a `note`, and
 * `read(text, tell)`, which returns a promise of a reading and tells how far it is.
 */
export function sentences(lab, bars, kind) {
  const { words } = lab.data, { alone } = lab.model;
  const reader = alone ? globalThis.attnlabReaders?.[kind] : null;
  const note = html("p", { class: "note few", role: "status" }, reader?.note ?? words.few);
  let shown, parts;
  const placeIn = ({ tokens }, place) => (place < tokens.length ? place : tokens.length - 2);
  const accept = (reading) => {
    const isNew = reading.sentence !== lab.state.sentence;  // else it stood in the address
    const word = reading.tokens.indexOf(shown.tokens[placeIn(shown, lab.state.word)]);
    lab.model.set("reading", reading);
    lab.set({ sentence: reading.sentence, ...(isNew && word >= 0 ? { word } : {}) });
  };
  const report = (text) => setText(note, text);
  const ask = (tell) => (reader ? askPage(reader, { accept, report, tell }) : askPython(lab, tell));
  const box = alone && !reader ? null : makeBox(lab, ask);
  const choices = makeChoices(lab, box ? words.or : words.alone, () => box?.tell(""));
  lab.bar.classList.add("sentences");
  lab.bar.append(...(box ? [box.element] : []), choices.element, ...(box ? [box.problem] : []),
    ...(alone ? [note] : []));
  const arcs = makeArcs(lab), rows = html("div", { class: "rows" });
  const find = (state) => {
    const known = [...lab.data.readings, lab.model.get("reading") ?? {}];
    const reading = known.find(({ sentence }) => sentence === state.sentence) ?? shown ?? known[0];
    const { tokens } = reading;
    if (shown !== reading) {
      const columns = tokens.length > 14 && rows.clientWidth > 600 ? 3 : 2;
      const size = Math.ceil(tokens.length / columns);
      parts = [...Array(columns).keys()].map((column) => {
        const ends = [column * size, (column + 1) * size];
        const { element, show } = panelOf(lab, { ...bars, names: tokens.slice(...ends) });
        return { element, show: (row) => show({ weights: row.slice(...ends) }, state) };
      });
      rows.replaceChildren(...parts.map(({ element }) => element));
      arcs.build(tokens);
    }
    shown = reading;
    choices.show(state.sentence);
    box?.show(state.sentence);
    return { reading, place: placeIn(reading, state.word) };
  };
  const paint = (row, place) => {
    parts.forEach((part) => part.show(row));
    arcs.paint(row, place);
  };
  const { sentence } = lab.state;
  if (reader && !lab.data.readings.some((known) => known.sentence === sentence)) box.read(sentence);
  return { arcs: arcs.element, rows, find, paint };
}

// --- sentences -------------------------------------------------------------------------------------

/** Sentences computed beforehand. */
function makeChoices(lab, label, onPick) {
  const { readings } = lab.data, named = readings.filter(({ name }) => name);
  const pick = (sentence) => {
    lab.model.set("problem", "");
    onPick();
    lab.set({ sentence, word: named.find((one) => one.sentence === sentence).word });
  };
  return choice(lab, { label, onPick: pick,
    options: named.map(({ sentence, name }) => [sentence, name]) });
}

/** A box for a sentence; `ask(tell)` returns what hands a text to a reader, and tells problems. */
function makeBox(lab, ask) {
  const { words } = lab.data;
  const input = html("input", { type: "text", "aria-label": words.box, spellcheck: "false",
    autocomplete: "off" });
  const problem = html("p", { class: "error problem", role: "alert", hidden: "" });
  const element = html("form", { class: "control own" }, input, html("button", {}, words.read));
  let shown;
  const tell = (text) => {
    problem.textContent = text;
    problem.hidden = !text;
  };
  const read = ask(tell);
  lab.on(element, "submit", (event) => {
    event.preventDefault();
    const text = input.value.trim();
    if (text) read(text);
    else tell(words.empty);
  });
  lab.on(input, "input", () => tell(""));
  const show = (sentence) => {
    if (shown !== sentence) input.value = sentence;
    shown = sentence;
  };
  return { element, problem, read, show, tell };
}

/** Return what hands a text to Python. */
function askPython(lab, tell) {
  const { model } = lab;
  let timer;
  const answered = () => {
    if (model.get("typed")) return;
    clearTimeout(timer);
    tell(model.get("problem"));
    lab.draw();
  };
  const heard = ["change:typed", "change:problem", "change:reading"];
  heard.forEach((name) => model.on(name, answered));
  lab.signal.addEventListener("abort", () => {
    heard.forEach((name) => model.off(name, answered));
    clearTimeout(timer);
  });
  return (text) => {
    model.set("typed", text);
    model.save_changes();
    clearTimeout(timer);
    timer = setTimeout(() => tell(SILENT), PATIENCE);
  };
}

/** Return what hands a text to the page; if several wait, only the last one is shown. */
function askPage({ note, read }, { accept, report, tell }) {
  let latest;
  return async (text) => {
    latest = text;
    const ifLatest = (act) => (value) => { if (latest === text) act(value); };
    tell("");
    await read(text, ifLatest(report)).then(ifLatest(accept), ifLatest((error) => tell(error.message)));
    ifLatest(report)(note);
  };
}

// --- arcs ------------------------------------------------------------------------------------------

/** The sentence as a row of words; arcs lead from the one that asks, as wide as their weights. */
function makeArcs(lab) {
  const lines = svg("svg", { "aria-hidden": "true", height: HEIGHT });
  const text = html("div", { class: "text", role: "group", "aria-label": "The word that asks" });
  const element = html("div", { class: "arcs" }, lines, text);
  followPointer(lab, text, "word");
  let words = [], centres = null, last = null, frame;
  const build = (tokens) => {
    words = tokens.map((token, i) => html("button", { type: "button", "data-word": i,
      "aria-label": `${token} (${i})` }, token));
    text.replaceChildren(...words);
    text.classList.remove("upright");
    centres = last = null;
  };
  const paint = (row, word) => {
    words.forEach((button, i) => {
      const { background, color } = weightColours(row[i]);
      Object.assign(button.style, { background, color });
      button.setAttribute("aria-pressed", i === word);
    });
    last = [row, word];
    if (!centres) measure();
    if (centres) lines.replaceChildren(...arcsFrom(word, row, centres));
  };
  const measure = () => {
    if (!text.clientWidth) return;
    text.classList.remove("upright");
    text.classList.toggle("upright", text.scrollWidth > text.clientWidth);
    centres = words.map((button) => button.offsetLeft + button.offsetWidth / 2);
    lines.setAttribute("viewBox", `0 0 ${text.clientWidth} ${HEIGHT}`);
  };
  const watcher = new ResizeObserver(() => {
    cancelAnimationFrame(frame);
    frame = requestAnimationFrame(() => {
      centres = null;
      if (last) paint(...last);
    });
  });
  watcher.observe(element);
  lab.signal.addEventListener("abort", () => watcher.disconnect());
  return { element, build, paint };
}

function arcsFrom(word, row, centres) {
  const from = centres[word];
  return row.flatMap((weight, i) => {
    if (weight < 0.005) return [];
    const [to, high] = [centres[i], Math.min(HEIGHT - 12, 22 + Math.abs(centres[i] - from) * 0.42)];
    const top = HEIGHT - high / 0.75;
    const path = i === word ? `M${from - 4},${HEIGHT}C${from - 26},${HEIGHT - 44} ${from + 26},${HEIGHT - 44} ${from + 4},${HEIGHT}`
      : `M${from},${HEIGHT}C${from},${top} ${to},${top} ${to},${HEIGHT}`;
    return [svg("path", { class: "arc", d: path, "stroke-width": LINE * weight })];
  });
}

// --- words -----------------------------------------------------------------------------------------

/** A number with two decimals, rounded as in Python. */
export const decimals = ({ half }, value) => (value + half).toFixed(2);

/** A token in quotes, with its place if it occurs several times. */
export function nameOf({ markers, words }, tokens, place) {
  const token = tokens[place];
  const name = markers.includes(token) ? token : fill(words.quoted, { token });
  const several = tokens.filter((one) => one === token).length > 1;
  return several ? fill(words.several, { name, place }) : name;
}

/** The words for what gets most of a row of weights, and for how much it gets. */
export function topOf(data, tokens, row, place, wordsOnly = false) {
  const { words, tie, many } = data, ends = wordsOnly ? 1 : 0;
  const part = row.slice(ends, row.length - ends), most = Math.max(...part);
  const top = part.flatMap((weight, i) => (weight > most - tie
    ? [i + ends === place ? words.itself : nameOf(data, tokens, i + ends)] : []));
  return { most: decimals(data, most), each: top.length > 1 ? words.each : "",
    top: wordsOnly && top.length > many ? fill(words.many, { count: top.length }) : top.join(" and ") };
}
