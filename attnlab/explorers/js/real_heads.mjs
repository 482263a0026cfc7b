// Explorer 16: twelve heads of a trained layer read a sentence, chosen or typed.
import { button, choice } from "./controls.mjs";
import { bars, html, setText, shadeOf, svg, weightColours } from "./drawing.mjs";

export const title = "Twelve real heads";
export const hint = "The first attention layer of a trained model. Pick a sentence, a head and the "
  + "word that asks: point to look, click to keep.";

const PATIENCE = 2500;  // ms until a silent kernel is spoken of
const HALF = 1e-9;  // added before rounding: halves go up, in Python as here
const HEIGHT = 118;  // of the arcs, pixels
const MAP = 144;  // a side of a small map, pixels
const LONGEST = 24;  // tokens; the same as in real_heads.py

export function prediction({ readings: [{ sentence, tokens, weights, word }] }) {
  const most = weights.map((map) => tokens[map[word].indexOf(Math.max(...map[word]))]);
  const fit = most.flatMap((token, head) => (token === "river" ? [head] : []));
  const marked = most.filter((token) => token === tokens[0] || token === tokens.at(-1)).length;
  let first = null;
  return {
    question: {
      ask: `twelve heads read “${sentence}”. In how many of them does “bank” look most at “river”?`,
      then: "Now keep another head, and look through all of them.",
    },
    options: ["at most 2", "3 to 9", "10 or more"],
    right: fit.length <= 2 ? 0 : fit.length <= 9 ? 1 : 2,
    why: `In “${sentence}” it is ${fit.length}: head ${fit.join(" and head ")}. In ${marked} heads “bank” `
      + `looks most at ${tokens[0]} or ${tokens.at(-1)}, which are no words.`,
    settled: ({ head }) => {
      first ??= head;
      return head !== first;
    },
  };
}

export function render(lab) {
  const box = lab.model.alone ? null : makeBox(lab);
  const choices = makeChoices(lab, () => box?.tell(""));
  lab.bar.append(...(box ? [box.element] : []), choices.element, box ? box.problem
    : html("p", { class: "note few" }, "Other sentences need a running notebook."));
  const maps = makeMaps(lab), arcs = makeArcs(lab);
  const name = html("h4", { class: "scaled" }), rowName = html("h4"), respelled = html("p", { class: "note" });
  const rows = html("div");
  lab.picture.append(html("style", {}, STYLE), html("div", { class: "real" },
    html("div", { class: "heads" }, html("h4", {}, "All heads"),
      html("p", { class: "under" }, "the darker, the more attention; ▸ the row that asks"), maps.element),
    html("div", { class: "one" }, name, arcs.element, respelled, rowName, rows),
    html("div", { class: "code" }, html("h4", {}, "The same in PyTorch"), lab.codeBox)));

  let table, shown;
  return (state) => {
    const reading = find(lab, state.sentence) ?? shown;
    const { tokens, weights } = reading;
    const word = Math.min(state.word, tokens.length - 1);
    if (shown !== reading) {
      table = bars({ caption: "Weights of the word that asks", names: tokens });
      rows.replaceChildren(table.element);
      arcs.build(tokens);
      respelled.textContent = reading.respelled;
    }
    shown = reading;
    choices.show(state.sentence);
    box?.show(state.sentence);
    maps.paint(weights, lab.state.head, word);
    const row = weights[state.head][word];
    table.show(row);
    setText(name, `Head ${state.head}: where ${quoted(tokens, word)} looks`);
    setText(rowName, `Row ${word} of head ${state.head}`);
    arcs.paint(row, word);  // it measures, so it comes last
    const code = `${reading.code}\nweights[0, ${state.head}, ${word}]  # head ${state.head}, ${tokens[word]}`;
    return { say: say(lab.data, tokens, row, state.head, word), bad: false, code };
  };
}

function find(lab, sentence) {
  const known = [...lab.data.readings, lab.model.get("reading") ?? {}];
  return known.find((reading) => reading.sentence === sentence);
}

// --- sentences -------------------------------------------------------------------------------------

/** Sentences computed beforehand. */
function makeChoices(lab, onPick) {
  const { readings } = lab.data;
  const named = readings.filter(({ name }) => name);
  const pick = (sentence) => {
    lab.model.set("problem", "");
    onPick();
    lab.set({ sentence, word: named.find((one) => one.sentence === sentence).word });
  };
  return choice(lab, { label: lab.model.alone ? "sentence with" : "or a sentence with", onPick: pick,
    options: named.map(({ sentence, name }) => [sentence, name]) });
}

/** A box for a sentence that Python reads. */
function makeBox(lab) {
  const { model } = lab;
  const input = html("input", { type: "text", "aria-label": "A sentence of your own", spellcheck: "false",
    autocomplete: "off" });
  const problem = html("p", { class: "error problem", role: "alert", hidden: "" });
  const element = html("form", { class: "control own" }, input, html("button", {}, "Read"));
  let timer, shown;
  const tell = (text) => {
    problem.textContent = text;
    problem.hidden = !text;
  };
  lab.on(element, "submit", (event) => {
    event.preventDefault();
    const text = input.value.trim().split(/\s+/).join(" ");
    if (!text) return tell("Type a sentence first.");
    if (find(lab, text)) {
      model.set("problem", "");
      tell("");
      return lab.set({ sentence: text });
    }
    model.set("typed", text);
    model.save_changes();
    clearTimeout(timer);
    timer = setTimeout(() => tell("Python has not answered yet: the kernel may be busy, or was "
      + "restarted."), PATIENCE);
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

// --- small maps ------------------------------------------------------------------------------------

function makeMaps(lab) {
  const maps = Array.from({ length: 12 }, (_, head) => {
    const canvas = html("canvas", { width: MAP, height: MAP }), mark = html("i");
    const element = html("button", { type: "button", class: "map", "data-head": head },
      html("span", { class: "square", "aria-hidden": "true" }, mark, canvas), html("span", {}, `head ${head}`));
    return { element, canvas, mark };
  });
  const element = html("div", { class: "maps", role: "group", "aria-label": "All heads" },
    maps.map((map) => map.element));
  followPointer(lab, element, "head");
  const small = penOf(new OffscreenCanvas(LONGEST, LONGEST));
  let drawn, dark;
  const paint = (weights, kept, word) => {
    if (drawn !== weights || dark !== lab.isDark()) {
      maps.forEach(({ canvas }, head) => fillMap(small, canvas, weights[head]));
    }
    [drawn, dark] = [weights, lab.isDark()];
    maps.forEach((map, head) => {
      map.element.setAttribute("aria-pressed", head === kept);
      map.mark.style.top = `${(100 * (word + 0.5)) / weights[head].length}%`;
    });
  };
  return { element, paint };
}

/** Draw a weight as a pixel of a small canvas and stretch that over one that keeps its size. */
function fillMap(small, canvas, weights, dark) {
  const size = weights.length, picture = new ImageData(size, size);
  weights.flat().forEach((weight, i) => {
    picture.data.set([...shadeOf(weight, dark), 255], 4 * i);  // 255: nothing shines through
  });
  small.putImageData(picture, 0, 0);
  const pen = penOf(canvas);
  pen.imageSmoothingEnabled = false;
  pen.drawImage(small.canvas, 0, 0, size, size, 0, 0, canvas.width, canvas.height);
}

function penOf(canvas) {
  return canvas.getContext("2d", { willReadFrequently: true });  // not by way of the GPU
}

/** Pointing at a button previews what it stands for, a click keeps it; so do focus and Enter. */
function followPointer(lab, element, name) {
  const valueOf = (event) => event.target.closest("button")?.dataset[name];
  const look = (event) => {
    const value = valueOf(event);
    if (value !== undefined) lab.preview({ [name]: Number(value) });
  };
  lab.on(element, "pointerover", look);
  lab.on(element, "focusin", look);
  lab.on(element, "pointerleave", () => lab.preview({}));
  lab.on(element, "focusout", () => lab.preview({}));
  lab.on(element, "click", (event) => {
    const value = valueOf(event);
    if (value !== undefined) lab.set({ [name]: Number(value) });
  });
}

// --- arcs ------------------------------------------------------------------------------------------

/** The sentence as a row of words; arcs lead from the one that asks. */
function makeArcs(lab) {
  const lines = svg("svg", { "aria-hidden": "true", height: HEIGHT });
  const text = html("div", { class: "text", role: "group", "aria-label": "The word that asks" });
  const element = html("div", { class: "arcs" }, lines, text);
  followPointer(lab, text, "word");
  let words = [], last = null, frame;
  const build = (tokens) => {
    words = tokens.map((token, i) => html("button", { type: "button", "data-word": i,
      "aria-label": `${token} (${i})` }, token));
    text.replaceChildren(...words);
    last = null;
  };
  const paint = (row, word) => {
    words.forEach((button, i) => {
      const { background, color } = weightColours(row[i]);
      Object.assign(button.style, { background, color });
      button.setAttribute("aria-pressed", i === word);
    });
    last = [row, word];
    place();
  };
  const place = () => {
    if (!last || !text.clientWidth) return;
    text.classList.remove("upright");
    text.classList.toggle("upright", text.scrollWidth > text.clientWidth);
    const centres = words.map((button) => button.offsetLeft + button.offsetWidth / 2);
    lines.setAttribute("viewBox", `0 0 ${text.clientWidth} ${HEIGHT}`);
    lines.replaceChildren(...arcsFrom(last[1], last[0], centres));
  };
  const watcher = new ResizeObserver(() => {
    cancelAnimationFrame(frame);
    frame = requestAnimationFrame(place);
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
    return [svg("path", { class: "arc", d: path, "stroke-width": 0.8 + 15 * weight })];
  });
}

// --- words: the same as in real_heads.py -----------------------------------------------------------

function quoted(tokens, place) {
  const token = tokens[place];
  const name = token === tokens[0] || token === tokens.at(-1) ? token : `“${token}”`;
  return tokens.filter((one) => one === token).length > 1 ? `${name} at ${place}` : name;
}

function say({ first, last, tie }, tokens, row, head, word) {
  const two = (value) => (value + HALF).toFixed(2);
  const most = Math.max(...row);
  const top = row.flatMap((weight, i) => (weight > most - tie
    ? [i === word ? "itself" : quoted(tokens, i)] : []));
  return `In head ${head}, ${quoted(tokens, word)} looks most at **${top.join(" and ")}** (${two(most)}`
    + `${top.length > 1 ? " each" : ""}). ${first} and ${last} together get ${two(row[0] + row.at(-1))}; `
    + `equal shares would be ${two(1 / row.length)} each.`;
}

const STYLE = `
.real { flex: 1; min-width: 0; display: grid; gap: 16px 26px; grid-template: "heads one" auto
  "code one" 1fr / minmax(0, 1fr) minmax(0, 1.6fr); }
.real .heads { grid-area: heads; } .real .one { grid-area: one; } .real .code { grid-area: code; }
.real h4 { margin: 0; font-size: 1.1em; font-weight: 680; } .one > * + h4 { margin-top: 16px; }
.heads .under { margin: 0 0 8px; color: var(--mute); font-size: 0.92em; }
.own { flex: 1 1 100%; flex-wrap: nowrap; }
.own input { flex: 1 1 auto; min-width: 0; min-height: 38px; padding: 6px 12px; font: inherit;
  border: 1.5px solid var(--edge); border-radius: 8px; color: var(--ink); background: var(--paper); }
.bar .problem { flex: 1 1 100%; margin: 0; } .bar .few { margin: 0; }
.maps { display: grid; grid-template-columns: repeat(4, 1fr); gap: 8px; }
.map { min-width: 0; padding: 5px 5px 3px; border-radius: 8px; font-size: 0.8em; }
.map .square { position: relative; display: block; padding-left: 11px; }
.map canvas { display: block; width: 100%; aspect-ratio: 1; image-rendering: pixelated;
  border: 1px solid var(--line); }
.map i::before { content: "▸"; }
.map i { position: absolute; left: 0; transform: translateY(-50%); color: var(--raw);
  font: 700 12px/1 var(--mono); }
.map > span:last-child { display: block; margin-top: 3px; white-space: nowrap; }
.map[aria-pressed=true] { color: var(--scaled); border-color: var(--scaled);
  box-shadow: 0 0 0 1.5px var(--scaled); }
.map[aria-pressed=true] > span:last-child { text-decoration: underline 2px; }
.arcs { margin-top: 4px; } .arcs svg { height: ${HEIGHT}px; overflow: hidden; }
.arcs .arc { fill: none; stroke: var(--scaled); opacity: 0.62; }
.arcs .text { position: relative; display: flex; justify-content: space-between; gap: 2px; padding: 3px; }
.arcs button { flex: none; padding: 6px 7px; border-color: var(--line); }
.arcs button[aria-pressed=true] { border-color: var(--raw); box-shadow: 0 0 0 2.5px var(--raw); }
.arcs .upright { gap: 1px; }
.arcs .upright button { flex: 1 1 0; min-width: 0; padding: 7px 0; font-size: 0.9em;
  writing-mode: vertical-rl; display: grid; justify-items: start; align-items: center; }
.one .track { height: 17px; } .one .bars { border-spacing: 0 4px; max-width: none; }
.one .bars .name { width: 6.4em; }
@container (max-width: 900px) {
  .map { padding: 5px 2px 3px; font-size: 0.77em; }
}
@container (max-width: 1010px) { .large .maps { grid-template-columns: repeat(3, 1fr); } }
@container (max-width: 820px) {
  .real { grid-template: "heads" "one" "code" / minmax(0, 1fr); }
  .maps { grid-template-columns: repeat(6, 1fr); }
}
@container (max-width: 480px) { .maps { grid-template-columns: repeat(4, 1fr); } }
`;
