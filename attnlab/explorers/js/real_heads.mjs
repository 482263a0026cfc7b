// Twelve heads of a trained layer read a sentence, chosen or typed.
import { PATIENCE, SILENT } from "./base.mjs";
import { choice, followPointer } from "./controls.mjs";
import { html, setText, svg, weightColours } from "./drawing.mjs";
import { panelOf } from "./panels.mjs";
import { fill } from "./words.mjs";

const HEIGHT = 92, LINE = 16;  // of the arcs, in pixels; width of the arc of a weight of 1

export function render(lab) {
  const { words, panels: [maps, bars] } = lab.data;
  const box = lab.model.alone ? null : makeBox(lab);
  const choices = makeChoices(lab, () => box?.tell(""));
  lab.bar.classList.add("sentences");
  lab.bar.append(...(box ? [box.element] : []), choices.element,
    box ? box.problem : html("p", { class: "note few" }, words.few));
  const heads = panelOf(lab, maps), arcs = makeArcs(lab);
  const name = html("h4", { class: "scaled" }), rowName = html("h4");
  const rows = html("div", { class: "rows" });
  lab.picture.append(heads.element,
    html("div", { class: "one" }, name, arcs.element, rowName, rows));
  lab.scale([0, 1], "weight");

  let shown, parts;
  return (state) => {
    const reading = find(lab, state.sentence) ?? shown;
    const { tokens, weights } = reading;
    const place = state.word < tokens.length ? state.word : tokens.length - 2;
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
    const row = weights[state.head][place], asking = nameOf(lab.data, tokens, place);
    const named = { head: state.head, place, asking, token: tokens[place] };
    heads.show({ maps: weights, asks: place }, state);
    parts.forEach((part) => part.show(row));
    setText(name, fill(words.head, named));
    setText(rowName, fill(words.row, named));
    arcs.paint(row, place);
    return { say: say(lab.data, tokens, row, named),
      code: fill(words.code, { ...named, lines: reading.code }) };
  };
}

function find(lab, sentence) {
  const known = [...lab.data.readings, lab.model.get("reading") ?? {}];
  return known.find((reading) => reading.sentence === sentence);
}

// --- sentences -------------------------------------------------------------------------------------

/** Sentences computed beforehand. */
function makeChoices(lab, onPick) {
  const { readings, words } = lab.data, named = readings.filter(({ name }) => name);
  const pick = (sentence) => {
    lab.model.set("problem", "");
    onPick();
    lab.set({ sentence, word: named.find((one) => one.sentence === sentence).word });
  };
  return choice(lab, { label: lab.model.alone ? words.alone : words.or, onPick: pick,
    options: named.map(({ sentence, name }) => [sentence, name]) });
}

/** A box for a sentence that Python reads. */
function makeBox(lab) {
  const { model } = lab, { words } = lab.data;
  const input = html("input", { type: "text", "aria-label": words.box, spellcheck: "false",
    autocomplete: "off" });
  const problem = html("p", { class: "error problem", role: "alert", hidden: "" });
  const element = html("form", { class: "control own" }, input, html("button", {}, words.read));
  let timer, shown;
  const tell = (text) => {
    problem.textContent = text;
    problem.hidden = !text;
  };
  lab.on(element, "submit", (event) => {
    event.preventDefault();
    const text = input.value.trim();
    if (!text) return tell(words.empty);
    model.set("typed", text);
    model.save_changes();
    clearTimeout(timer);
    timer = setTimeout(() => tell(SILENT), PATIENCE);
  });
  lab.on(input, "input", () => tell(""));
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
  const show = (sentence) => {
    if (shown !== sentence) input.value = sentence;
    shown = sentence;
  };
  return { element, problem, show, tell };
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

function nameOf({ markers, words }, tokens, place) {
  const token = tokens[place];
  const name = markers.includes(token) ? token : fill(words.quoted, { token });
  const several = tokens.filter((one) => one === token).length > 1;
  return several ? fill(words.several, { name, place }) : name;
}

function say(data, tokens, row, { head, place, asking }) {
  const { words, tie, half } = data, decimals = (value) => (value + half).toFixed(2);
  const most = Math.max(...row);
  const top = row.flatMap((weight, i) => (weight > most - tie
    ? [i === place ? words.itself : nameOf(data, tokens, i)] : []));
  return fill(words.say, { head, asking, top: top.join(" and "), most: decimals(most),
    each: top.length > 1 ? words.each : "", marked: decimals(row[0] + row.at(-1)),
    equal: decimals(1 / row.length) });
}
