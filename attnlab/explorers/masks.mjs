// A mask whose cells can be clicked, its weights, and what each output depends on.
import { showControls } from "./frame/js/controls.mjs";
import { html, matrix, numbersOf } from "./frame/js/drawing.mjs";
import { allowedCells, blockedRow, influenceMap, isPlace, scoresOf } from "./frame/js/maths.mjs";
import { keyOf } from "./frame/js/panels.mjs";
import { fill, listed } from "./frame/js/words.mjs";

export const fits = {
  toggled: (cells, { sentence }) => cells.every((cell) => cell.length === 2
    && cell.every((one) => isPlace(one, sentence))),
};

export function render(lab) {
  const { data } = lab, { sentence, words } = data;
  const x = numbersOf(data.x), controls = showControls(lab);
  const detail = html("p", { class: "detail" });
  let pointed = null;
  const grids = words.captions.map((caption, panel) => matrix(lab, {
    caption, rows: sentence, columns: sentence, sums: panel === 1 ? "sum" : null,
    onPick: panel === 0 ? (i, j) => lab.set({ toggled: toggledIn(lab.state.toggled, [i, j])
      .sort(([a, b], [c, d]) => a - c || b - d) }) : undefined,
    onPoint: (i, j) => {
      pointed = i === undefined ? null : [i, j];
      tell();
    },
  }));
  const tell = () => {
    const text = pointed ? `${labels(...pointed)}.` : words.idle;
    detail.textContent = text[0].toUpperCase() + text.slice(1);
  };
  let labels;
  lab.scale([0, 1], "weight");
  lab.scale([0, data.strong], "influence");
  lab.picture.classList.add("masks");
  lab.picture.append(...grids.map(({ element }, panel) => html("section", { class: "panel" },
    html("h4", {}, words.panels[panel]), element)),
  html("div", { class: "side" }, lab.bar.querySelector(".plain"), keyOf(words.key), detail));
  const { leak, who, map } = words;
  const leaks = fill(leak[1], { cells: 18 }), name = fill(words.row, { token: data.pad, row: 0 });
  lab.longest([fill(words.nan, { who: fill(who[1], { rows: "0, 2 and 4" }), others: words.others }),
    fill(words.erased, { leaks }) + fill(words.short, { row: name, kept: "0.00" }),
    fill(words.both, { map: map[1] })]);

  return (state, answer) => {
    const shown = answer ? { ...state, ...answer.state } : state;
    const drawn = compute(x, shown, answer);
    const tokens = [...Array(shown.padding).fill(data.pad), ...sentence].slice(0, sentence.length);
    const facts = { ...drawn, state: shown, tokens, data };
    facts.opened = openedCells(facts);
    const { allowed, weights, influence, scores } = drawn;
    labels = (i, j) => fill(words.cell, {
      query: tokens[i], key: tokens[j], may: allowed[i][j] ? "may attend" : "blocked",
      score: number(scores[i][j]), weight: number(weights[i][j]), influence: number(influence[i][j]) });
    // by hand the mask is none of those on the buttons
    controls({ ...state, mask: state.toggled.length ? "" : state.mask });
    const heads = tokens.map((token) => token.replace(/[<>]/g, ""));  // narrow
    grids.forEach((grid) => grid.name(tokens, heads));
    const byHand = (i, j) => facts.opened.some(([query, key]) => query === i && key === j);
    grids[0].paint((i, j) => ({ text: "", label: labels(i, j),
      kind: `${allowed[i][j] ? "allowed" : "blocked"} ${byHand(i, j) ? "leak" : ""}` }));
    grids[1].paint((i, j) => cellOf(weights[i][j], lookOf(weights[i][j], allowed[i][j], data)), weights.map((row, i) => {
      const wrong = problemOf(row, allowed[i], data);
      return [html("span", { class: wrong ? "bad" : "fine" }, number(sum(row)))];
    }));
    grids[2].paint((i, j) => {
      const look = lookOf(influence[i][j], (allowed[i][j] && !byHand(i, j)) || i === j, data);
      const none = Math.abs(influence[i][j]) <= data.seen;
      return { ...cellOf(influence[i][j], none ? "blocked" : look), scale: [0, data.strong] };
    });
    tell();
    return { ...sayOf(facts, answer), code: codeOf(facts, answer) };
  };
}

/** What is drawn: by the rule of the state, or by the learner's function. */
function compute(x, state, answer) {
  const vectors = [...Array(state.padding).fill(x[0].map(() => 0)), ...x].slice(0, x.length);
  const allowed = allowedCells(state, x.length), scores = scoresOf(vectors);
  if (answer) {
    const { weights, influence } = answer.drawn;
    return { allowed, scores, weights: numbersOf(weights), influence: numbersOf(influence) };
  }
  const weights = scores.map((row, i) => blockedRow(row, allowed[i], state.fill));
  return { allowed, scores, weights, influence: influenceMap(vectors, allowed, state.fill) };
}

/** The list without the entry, or with it. */
function toggledIn(list, entry) {
  const others = list.filter((one) => String(one) !== String(entry));
  return others.length < list.length ? others : [...list, entry];
}

/** A cell; a number that is not below 1 has one digit less, as there is no room. */
function cellOf(weight, kind) {
  const text = weight > 1.005 ? weight.toFixed(1) : undefined;
  return { weight, kind, text: kind === "blocked" ? "" : text };
}

function lookOf(number, open, { seen }) {
  if (Number.isNaN(number)) return "nan";
  if (open) return "";
  return Math.abs(number) > seen ? "leak" : "blocked";
}

// --- facts -----------------------------------------------------------------------------------------

const sum = (row) => row.reduce((total, one) => total + one, 0);

/** Cells opened by hand, in which a later token or padding is seen. */
const openedCells = ({ state, allowed }) => state.toggled.filter(([i, j]) => allowed[i][j]);

/** What cannot be right about a row of weights; the same as _problem in masks.py. */
function problemOf(row, allowed, { seen }) {
  const total = sum(row), open = allowed.includes(true);
  if (Number.isNaN(total)) return "nan";
  if (row.some((weight, j) => !allowed[j] && Math.abs(weight) > seen)) return open ? "leaks" : "empty leaks";
  return open && Math.abs(total - 1) > 0.005 ? "sum" : "";
}

/** How many blocked cells have an influence; a token is its own query, whatever the mask says. */
function leaksIn({ allowed, influence, data }) {
  return influence.flatMap((row, i) => row.filter((one, j) =>
    i !== j && !allowed[i][j] && one > data.seen)).length;
}

// --- words -----------------------------------------------------------------------------------------

const number = (value) =>
  (Number.isNaN(value) ? "NaN" : (value + 1e-9).toFixed(2).replace("-", "−"));
const percent = ({ half }, share) => (100 * (share + half)).toFixed(0);

function sayOf(facts, answer) {
  const { opened, data: { words, pad }, tokens, state } = facts;
  const told = answer ? sayOfFunction(facts, answer.name) : sayOfRule(facts);
  if (!opened.length) return told;
  const [[query, key], ...more] = opened;
  const isLater = state.mask !== "padding" && key > query;
  const kind = isLater ? (tokens[key] === pad ? "token" : "word") : "padding";
  const what = fill(words.seen[kind], { key: tokens[key] });
  const first = fill(words.opened, { query: tokens[query], what });
  const others = more.length ? fill(words.more[Number(more.length > 1)], { cells: more.length }) : "";
  return { say: `${first}${others} ${told.say}`, bad: true };
}

function sayOfRule(facts) {
  const { allowed, weights, influence, state, data } = facts, { words } = data;
  const cells = leaksIn(facts), leaks = leakOf(words, cells);
  const empty = allowed.flatMap((row, i) => (row.includes(true) ? [] : [i]));
  if (!allowed.flat().includes(false)) {
    return { say: words.all + sayPadding(facts), bad: false };
  }
  if (state.fill === "0") {
    const kept = weights.map((row, i) => sum(row.filter((_, j) => !allowed[i][j])));
    const some = kept.filter((_, i) => !empty.includes(i));
    const most = percent(data, Math.max(...(some.length ? some : kept)));
    return { say: fill(words.glass, { most, leaks }), bad: true };
  }
  if (state.fill === "0 after") {
    const text = fill(words[cells ? "erased" : "erased alone"], { leaks });
    return { say: text + sayShort(facts, empty), bad: true };
  }
  const itself = influence.some((row, i) => !allowed[i][i] && row[i] > data.seen);
  const map = words.map[Number(itself)];
  if (!empty.length) return { say: fill(words.right, { map }) + sayPadding(facts), bad: false };
  const all = empty.length === allowed.length;
  const who = fill(words.who[all ? 2 : Math.min(empty.length, 2) - 1], { rows: rowsOf(words, empty) });
  const others = all ? "" : words.others;
  if (["-inf", "divide again"].includes(state.fill)) {
    return { say: fill(words.nan, { who, others }), bad: true };
  }
  if (state.fill === "-1e9") return { say: fill(words.average, { who, others }), bad: true };
  return { say: fill(words.both, { map }), bad: false };
}

/** How much the last word gives to padding, if anything. */
function sayPadding({ weights, state, tokens, data }) {
  const taken = sum(weights.at(-1).slice(0, state.padding));
  return taken ? fill(data.words.taken, { share: percent(data, taken), word: tokens.at(-1) }) : "";
}

/** Which row with an open cell adds up to least. */
function sayShort({ weights, tokens, data }, empty) {
  const rows = weights.map((_, i) => i).filter((i) => !empty.includes(i));
  if (!rows.length) return "";
  const totals = rows.map((i) => sum(weights[i])), kept = Math.min(...totals);
  const row = rows[totals.findIndex((one) => one < kept + data.half)];
  return fill(data.words.short, { row: nameOf(data, tokens, row), kept: number(kept) });
}

/** What the weights of a function look like. */
function sayOfFunction(facts, name) {
  const { allowed, weights, influence, tokens, data } = facts, { words } = data;
  const told = weights.flatMap((row, i) => {
    const what = problemOf(row, allowed[i], data);
    return what ? [`${nameOf(data, tokens, i)} ${fill(words.problems[what], { sum: number(sum(row)) })}`] : [];
  }).slice(0, 2);
  const cells = leaksIn(facts);
  if (influence.flat().some(Number.isNaN)) told.push(words["nan influence"]);
  else if (cells) told.push(leakOf(words, cells));
  return { say: fill(words.drawn, { name, what: told.join("; ") || words.good }), bad: told.length > 0 };
}

const nameOf = ({ words }, tokens, row) => fill(words.row, { token: tokens[row], row });

const leakOf = (words, cells) =>
  (cells ? fill(words.leak[Math.min(cells, 2) - 1], { cells }) : words["no leak"]);

function rowsOf(words, rows) {
  const [first, last] = [rows[0], rows.at(-1)];
  return rows.length > 2 && last - first === rows.length - 1
    ? fill(words.range, { first, last }) : listed(rows.map(String));
}

/** The same in PyTorch. */
function codeOf({ state, tokens, data }, answer) {
  const { code } = data.words, { padding } = state, size = tokens.length;
  const mask = fill(code[state.mask], { padding });
  const lines = [fill(code.start, { padding, words: size - padding, sentence: tokens.join(" "), mask })];
  if (state.toggled.length) {
    const [rows, columns] = [0, 1].map((side) => state.toggled.map((pair) => pair[side]).join(", "));
    lines.push(fill(code.toggled, { rows, columns }));
  }
  lines.push("", answer ? fill(code.function, answer) : code.rules[state.fill], code.end);
  return lines.join("\n");
}
