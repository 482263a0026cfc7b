// Masks, padding, and what becomes of keys that are blocked.
import { chips, showControls } from "./frame/js/controls.mjs";
import { html, matrix, numbersOf, rich } from "./frame/js/drawing.mjs";
import { allowedCells, isPlace, maskedRow } from "./frame/js/maths.mjs";
import { keyOf } from "./frame/js/panels.mjs";
import { fill, listed } from "./frame/js/words.mjs";

export function settled({ mask, padding }) {
  return mask === "causal" && padding.includes(0);
}

export const fits = {
  padding: (places, { tokens }) => places.every((one) => isPlace(one, tokens)),
  toggled: (cells, { tokens }) => cells.every((cell) => cell.length === 2
    && cell.every((one) => isPlace(one, tokens))),
};

export function render(lab) {
  const { tokens, words } = lab.data;
  const scores = numbersOf(lab.data.scores), controls = showControls(lab);
  const padding = chips(lab, { label: "padding", words: tokens,
    onToggle: (i) => lab.set({ padding: toggledIn(lab.state.padding, i).sort((a, b) => a - b) }) });
  const detail = html("p", { class: "detail" }), rowName = html("h4");
  let pointed = null, asking = Math.floor((tokens.length - 1) / 2), rows;
  const grid = matrix(lab, {
    caption: "Attention weights: rows are queries, columns are keys", rows: tokens, columns: tokens,
    sums: "sum",
    onPick: (i, j) => lab.set({ toggled: toggledIn(lab.state.toggled, [i, j])
      .sort(([a, b], [c, d]) => a - c || b - d) }),
    onPoint: (i, j) => {
      pointed = i === undefined ? null : grid.cells[i][j];
      asking = i ?? asking;
      tellRow();
    },
  });
  const strip = matrix(lab, { caption: words.strip, rows: words.steps, columns: tokens });
  const tellRow = () => {
    tell(detail, pointed, words);
    rowName.replaceChildren(...rich(nameOfRow(lab.data, asking)));
    const { steps, allowed } = rows[asking];
    strip.paint((i, j) => stepLook(i, steps[i]?.[j], allowed[j]));
  };
  lab.scale([0, 1], "weight");
  const names = Math.min(6, Math.max(3.4, 1 + 0.6 * Math.max(...tokens.map((one) => one.length))));
  const style = `--names:${names}em;max-width:${7.2 + names + 3.5 * tokens.length}em`;
  lab.picture.append(
    html("div", { class: "main", style },
      padding.element, grid.element),
    html("div", { class: "side" }, rowName, strip.element, detail, keyOf(words.key)));
  const row = nameOfRow(lab.data, 0);
  lab.longest([...Object.values(words.harm).map((text) => fill(text, { row, lost: 0, kept: 0 })),
    ...Object.values(words["what happens"]).map((what) => fill(words.empty, { names: row, what }))]);

  return (state, answer) => {
    const shown = answer ? { ...state, ...answer.state } : state;
    const allowed = allowedCells(shown, tokens.length);
    const computed = scores.map((row, i) => maskedRow(row, allowed[i], shown.fill));
    const weights = answer ? numbersOf(answer.drawn.weights) : computed.map((row) => row.weights);
    rows = weights.map((row, i) => ({ ...judge(row, allowed[i]), allowed: allowed[i],
      steps: answer ? [scores[i], null, null, row] : [scores[i], computed[i].into, computed[i].out, row] }));
    controls(state);
    padding.show(state.padding);
    grid.paint((i, j) => look(lab.data, {
      i, j, may: allowed[i][j], score: scores[i][j], weight: weights[i][j], rule: answer ? "" : shown.fill,
    }), rows.map((row) => {
      const [mark, note] = words.marks[row.problem].map((text) => fill(text, row));
      return [html("span", { class: row.good ? "fine" : "bad" }, mark),
        html("span", { class: "wide" }, ` ${note}`)];
    }));
    tellRow();
    const last = fill(words.code[answer ? "function" : shown.fill], answer ?? {});
    return {
      say: answer ? sayOfFunction(lab.data, answer.name, rows)
        : say(lab.data, allowed, weights, shown.fill),
      bad: rows.some(({ good }) => !good),
      code: [...codeOfMask(words, shown), last].join("\n"),
    };
  };
}

/** The list without the entry, or with it. */
function toggledIn(list, entry) {
  const others = list.filter((one) => String(one) !== String(entry));
  return others.length < list.length ? others : [...list, entry];
}

function look({ tokens, words }, { i, j, may, score, weight, rule }) {
  const isNaN = Number.isNaN(weight), written = score.toFixed(2).replace("-", "−");
  const kind = isNaN ? "nan" : may ? "" : weight ? "leak" : "blocked";
  return { weight, kind, text: kind === "blocked" ? "" : undefined, label: fill(words.cell, {
    query: tokens[i], key: tokens[j], may: may ? "may attend" : "blocked",
    score: may || !rule ? written : fill(words.becomes[rule], { score: written }),
    weight: isNaN ? "NaN, not a number" : weight.toFixed(2) }) };
}

/** A number on the way from scores (0) into the softmax (1), out of it (2) and to the weights (3). */
function stepLook(step, number, may) {
  if (number === undefined) return { text: "", kind: "none" };
  if (step > 1) {
    const kind = Number.isNaN(number) ? "nan" : may ? "" : number ? "leak" : "blocked";
    return { weight: number, kind };
  }
  const text = Math.abs(number) < 100 ? number.toFixed(2) : number < -1e9 ? "∞" : "1e9";
  const sign = number < 0 ? "−" : "";
  return { text: sign + text.replace("-", ""), kind: may ? "none" : "blocked" };
}

/** What is right or wrong with a row of weights; the same as _problem in masks.py. */
function judge(row, allowed) {
  const total = row.reduce((sum, weight) => sum + weight, 0);
  const leaks = row.some((weight, j) => !allowed[j] && Math.abs(weight) > 1e-6);
  const judged = (problem) =>
    ({ problem, good: ["", "empty"].includes(problem), sum: total.toFixed(2) });
  if (Number.isNaN(total)) return judged("nan");
  if (!allowed.includes(true)) return judged(leaks ? "empty leaks" : "empty");
  if (leaks) return judged("leaks");
  return judged(Math.abs(total - 1) > 0.005 ? "sum" : "");
}

function tell(detail, cell, { idle }) {
  const text = cell ? `${cell.getAttribute("aria-label")}.` : idle;
  detail.textContent = text[0].toUpperCase() + text.slice(1);
}

// --- words -----------------------------------------------------------------------------------------

/** A row by its token and its number. */
function nameOfRow({ tokens, words }, row) {
  return fill(words.row, { token: tokens[row], row });
}

function say(data, allowed, weights, rule) {
  const { words } = data;
  if (words.harm[rule] && allowed.flat().includes(false)) {
    const kept = weights.map((row, i) => row.reduce((sum, w, j) => sum + (allowed[i][j] ? w : 0), 0));
    const least = Math.min(...kept), row = nameOfRow(data, kept.indexOf(least));
    return fill(words.harm[rule], { row, kept: least.toFixed(2), lost: (1 - least).toFixed(2) });
  }
  const empty = allowed.flatMap((row, i) => (row.includes(true) ? [] : [i]));
  if (!empty.length) return words.full;
  const names = empty.length === allowed.length ? words.every
    : listed(empty.map((row) => nameOfRow(data, row)));
  return fill(words.empty, { names, what: words["what happens"][rule] });
}

/** What the weights of a function look like, row by row. */
function sayOfFunction(data, name, rows) {
  const { problems, right, drawn } = data.words;
  const found = rows.flatMap((row, i) => (row.problem in problems
    ? [`${nameOfRow(data, i)} ${fill(problems[row.problem], row)}`] : []));
  return fill(drawn, { name, what: found.slice(0, 3).join("; ") || right });
}

/** The lines of PyTorch that make the mask. */
function codeOfMask({ code, reach }, { mask, window, padding, toggled }) {
  const lines = [fill(code[mask], { first: 1 - window, reach: reach[window - 1] })];
  if (padding.length) lines.push(fill(code.padding, { padding: padding.join(", ") }));
  if (toggled.length) {
    const [rows, columns] = [0, 1].map((side) => toggled.map((pair) => pair[side]).join(", "));
    lines.push(fill(code.toggled, { rows, columns }));
  }
  return lines;
}
