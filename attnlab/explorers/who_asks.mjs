// Any word asks in the place of "bank": does it prefer water words or money words?
import { button, followPointer, showControls } from "./frame/js/controls.mjs";
import { html, setText, svg } from "./frame/js/drawing.mjs";
import { askPython } from "./frame/js/sentences.mjs";
import { fill } from "./frame/js/words.mjs";

const HEADS = 12, SENTENCES = 32;
const WIDTH = 420, LINE = 128, STEP = 13, HIGH = 116;  // of the scale, its line, a dot, the histogram

export const fits = { word: (word, { names }) => names.split(" ").includes(word) };

export function render(lab) {
  const { cases, words: texts } = lab.data;
  const find = asker(lab), controls = showControls(lab);
  const scale = makeScale(lab), pairs = makePairs(lab), read = html("p", { class: "detail" });
  lab.picture.append(html("section", { class: "panel scale-of-head" }, scale.element, read),
    pairs.element);
  const longest = { river: 16, money: 16, head: 11, word: "businessman" };
  lab.longest([fill(texts.say, { ...longest, all: fill(texts.alls.smaller, { gap: "0.0" }),
    side: fill(texts.sides.between, { total: 32 }) })]);

  return (state) => {
    const { word, head, sentence } = state, wins = find(word)[head];
    const count = (isRiver) => wins.filter((won, i) => won && cases[i].is_river === isRiver).length;
    const river = count(true), money = count(false), total = river + money;
    const shown = cases[sentence], winner = wins[sentence] ? shown.water : shown.money;
    controls(state);
    scale.show(head, word, total);
    pairs.show(wins, sentence);
    read.replaceChildren(...shown.sentence.split(/\b(bank)\b/).map((part) =>
      (part === "bank" ? html("mark", {}, word) : part)), `: ${fill(texts.gets, { winner })}`);
    return { say: fill(texts.say, { head, word, river, money, all: lab.data.alls[head],
      side: sideOf(lab.data, head, total) }),
    code: fill(texts.code, { ...shown, word, head }) };
  };
}

/** Which group of words the one that asks is like. */
function sideOf({ limits, words: { sides, apart } }, head, total) {
  if (!limits[head]) return apart;
  const [low, high] = limits[head];
  return fill(sides[total > high ? "water" : total > low ? "between" : "money"], { total });
}

// --- the word --------------------------------------------------------------------------------------

/** Put the box for a word into the bar; returns find(word), its wins as 12 lists of 32. */
function asker(lab) {
  const { data, model } = lab, { words: texts, presets } = data;
  const rows = new Map(data.names.split(" ").map((name, row) => [name, row]));
  const bytes = Uint8Array.from(atob(data.wins), (letter) => letter.charCodeAt(0));
  const input = html("input", { type: "text", "aria-label": texts.box, spellcheck: "false",
    autocomplete: "off" });
  const problem = html("p", { class: "error problem", role: "alert", hidden: "" });
  const form = html("form", { class: "control who" }, html("span", { class: "label" }, texts.label),
    input, html("button", {}, texts.ask));
  const tell = (text) => {
    problem.textContent = text;
    problem.hidden = !text;
  };
  const typed = model.alone ? null : askPython(lab, tell);
  const take = (word) => {
    tell("");
    model.set("problem", "");
    lab.set({ word });
  };
  lab.on(form, "submit", (event) => {
    event.preventDefault();
    const word = input.value.trim().toLowerCase();
    if (rows.has(word)) take(word);
    else if (!word) tell(texts.empty);
    else if (typed) typed(word);
    else tell(fill(texts.unknown, { word, count: rows.size.toLocaleString("en") }));
  });
  lab.on(input, "input", () => tell(""));
  const few = presets.map((word) => button(lab, word, () => take(word)));
  lab.bar.append(form, html("div", { class: "control", role: "group", "aria-label": texts.presets },
    few), problem);
  const stored = (row) => Array.from({ length: HEADS }, (_, head) =>
    Array.from({ length: SENTENCES }, (_, i) =>
      (bytes[4 * (row * HEADS + head) + (i >> 3)] >> (7 - (i & 7))) & 1));
  let last, kept;
  return (word) => {
    if (word === last) return kept;
    const own = [model.get("reading"), data.own].find((one) => one?.word === word);
    const wins = rows.has(word) ? stored(rows.get(word)) : own?.wins;
    if (!wins) return kept ?? stored(0);  // Python has not sent them yet
    input.value = word;
    [last, kept] = [word, wins];
    return kept;
  };
}

// --- the scale of a head ---------------------------------------------------------------------------

/** A line from 0 to 32 wins: both groups as dots, common words behind them, a mark for the asker. */
function makeScale({ data: { common, rulers, words: texts } }) {
  const across = (count) => 14 + ((WIDTH - 28) * count) / SENTENCES;
  const bars = common[0].map((_, count) => svg("rect", { class: "common", x: across(count) - 5.5,
    width: 11 }));
  const dots = rulers[0].map((_, i) => svg("circle", { r: 6, class: i < 12 ? "water" : "money" }));
  const mark = svg("path", { class: "mark", d: "M0,-9L9,0L0,9L-9,0Z" });
  const name = svg("text", { class: "name", "text-anchor": "middle", y: LINE + 60 });
  const picture = svg("svg", { viewBox: `0 0 ${WIDTH} ${LINE + 66}`, role: "img" }, bars,
    svg("line", { class: "grid", x1: 8, x2: WIDTH - 8, y1: LINE, y2: LINE }),
    [0, 8, 16, 24, 32].map((count) => svg("text",
      { x: across(count), y: LINE + 17, "text-anchor": "middle" }, String(count))),
    dots, mark, name);
  const heading = html("h4");
  const key = html("div", { class: "key" }, Object.entries(texts.key).map(([look, text]) =>
    html("span", {}, html("i", { class: look }), text)));
  let drawn;
  const show = (head, word, total) => {
    const text = fill(texts.scale, { head, word, total });
    setText(heading, text);
    picture.setAttribute("aria-label", text);
    if (head !== drawn) {
      const most = Math.max(...common[head]), seen = {};
      const counts = rulers[head].map((count) => rulers[head].filter((one) => one === count).length);
      const step = Math.min(STEP, LINE / Math.max(...counts));  // a high pile stays below the heading
      bars.forEach((bar, count) => {
        const height = (HIGH * common[head][count]) / most;
        bar.setAttribute("y", LINE - height);
        bar.setAttribute("height", height);
      });
      dots.forEach((dot, i) => {
        const count = rulers[head][i];
        seen[count] = (seen[count] ?? 0) + 1;
        dot.setAttribute("cx", across(count));
        dot.setAttribute("cy", LINE + 5 - step * seen[count]);
      });
    }
    drawn = head;
    mark.setAttribute("transform", `translate(${across(total)},${LINE + 34})`);
    setText(name, `“${word}”`);
    const half = 4.6 * (word.length + 2);
    name.setAttribute("x", Math.min(WIDTH - half, Math.max(half, across(total))));
  };
  return { element: html("div", {}, heading, picture, key), show };
}

// --- the sentences ---------------------------------------------------------------------------------

/** A button for each sentence, with its water word on the left and its money word on the right. */
function makePairs(lab) {
  const { cases, words: texts } = lab.data;
  const buttons = cases.map(({ water, money }, i) => html("button", { type: "button",
    "data-sentence": i }, html("span", {}, water), html("span", {}, money)));
  const element = html("div", { class: "groups" }, [true, false].map((isRiver, i) =>
    html("section", {}, html("h4", {}, texts.meant[i]), html("div", { class: "pairs" },
      buttons.filter((_, place) => cases[place].is_river === isRiver)))));
  followPointer(lab, element, "sentence");
  const show = (wins, sentence) => buttons.forEach((one, i) => {
    const { water, money } = cases[i], winner = wins[i] ? water : money;
    one.firstChild.className = wins[i] ? "water won" : "water";
    one.lastChild.className = wins[i] ? "money" : "money won";
    one.setAttribute("aria-pressed", i === sentence);
    one.setAttribute("aria-label", fill(texts.pair, { water, money, winner }));
  });
  return { element, show };
}
