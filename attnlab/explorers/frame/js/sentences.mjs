// What explorers share in which a sentence is chosen or typed.
import { PATIENCE, SILENT } from "./base.mjs";
import { choice } from "./controls.mjs";
import { html, setText } from "./drawing.mjs";
import { isPlace } from "./maths.mjs";
import { fill } from "./words.mjs";

/** What has no control and may come from elsewhere: a sentence that can be read, and a place. */
export const fitsSentence = {
  sentence: (text, { readings }) => readings.some(({ sentence }) => sentence === text)
    || (Boolean(globalThis.attnlabReaders) && typeof text === "string" && text.trim() !== ""),
  word: (place, { longest }) => isPlace(place, { length: longest }),
};

/**
 * Put the controls of the sentence into the bar; returns find(state), which gives the reading in
 * force and the place of the token that asks.
 *
 * A page without Python may bring globalThis.attnlabReaders: by the `kind` of explorer a `note`, and
 * `read(text, tell)`, which returns a promise of a reading and tells how far it is.
 */
export function sentences(lab, kind) {
  const { words } = lab.data, { alone } = lab.model;
  const reader = alone ? globalThis.attnlabReaders?.[kind] : null;
  const note = html("p", { class: "note few", role: "status" }, reader?.note ?? words.few);
  const pieces = html("p", { class: "note few", role: "status", hidden: "" });
  let shown;
  const placeIn = ({ tokens }, place) => (place < tokens.length ? place : tokens.length - 2);
  const accept = (reading) => {
    const isNew = reading.sentence !== lab.state.sentence;  // else it stood in the address
    const word = placeOf(shown.tokens[placeIn(shown, lab.state.word)], reading);
    lab.model.set("reading", reading);
    lab.set({ sentence: reading.sentence, ...(isNew ? { word } : {}) });
  };
  const report = (text) => setText(note, text);
  const ask = (tell) => (reader ? askPage(reader, { accept, report, tell }) : askPython(lab, tell));
  const box = alone && !reader ? null : makeBox(lab, ask);
  const choices = makeChoices(lab, box ? words.or : words.alone, () => box?.tell(""));
  lab.bar.classList.add("sentences");
  lab.bar.append(...(box ? [box.element] : []), choices.element, ...(box ? [box.problem] : []),
    ...(alone ? [note] : []), pieces);
  const find = (state) => {
    const known = [...lab.data.readings, lab.model.get("reading") ?? {}];
    const reading = known.find(({ sentence }) => sentence === state.sentence) ?? shown ?? known[0];
    shown = reading;
    choices.show(state.sentence);
    box?.show(state.sentence);
    const unknown = inPieces(reading.tokens);
    pieces.hidden = !unknown.length;
    setText(pieces, fill(words.pieces, { words: unknown.join(", ") }));
    return { reading, place: placeIn(reading, state.word) };
  };
  const { sentence } = lab.state;
  if (reader && !lab.data.readings.some((known) => known.sentence === sentence)) box.read(sentence);
  return find;
}

/**
 * Where a token is first in another sentence, or else where its last word begins; a place of which
 * meanings are known goes before.
 */
function placeOf(asking, { tokens, known = {} }) {
  const place = tokens.indexOf(asking), [told] = Object.keys(known);
  if (told && !(place in known)) return Number(told);
  if (place >= 0) return place;
  const last = tokens.slice(0, -1).findLastIndex((token) => /^[\p{L}\p{N}]/u.test(token));
  return last >= 0 ? last : tokens.length - 2;
}

/** Words that the model does not know, with dots between their pieces. */
const inPieces = (tokens) => tokens.join(" ").replaceAll(" ##", "·").split(" ")
  .filter((word) => word.includes("·") || word === "[UNK]");

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

/** Return what hands a text to Python, which answers by `problem` or `reading`. */
export function askPython(lab, tell) {
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
