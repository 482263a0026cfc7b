// Explorer 10: where every number goes when features are split into heads.
import { choice } from "./controls.mjs";
import { html } from "./drawing.mjs";

export const title = "Split into heads, and back";
export const hint = "Every number is its own name: 210 is token 2, head 1, feature 0. Go through the "
  + "steps and watch where each one lands.";

const WAYS = [["right", "view + transpose"], ["short cut", "short cut"]];

export function prediction() {
  return {
    question: {
      ask: "4 tokens, 3 heads, 2 features each. x.view(3, 4, 2) has the right shape in one step. "
        + "Does it hold the same numbers as view, then transpose?",
      then: "Now take the short cut and look at the heads.",
    },
    options: ["yes, the same", "no, torch raises an error", "no, and no error"],
    right: 2,
    why: "view hands the numbers out in the order in which they lie in memory: eight to head 0, "
      + "eight to head 1, eight to head 2, whoever they belong to. 10 of 12 rows are wrong.",
    settled: ({ heads, way, step }) => heads === 3 && way === "short cut"
      && ["view", "transpose", "scores"].includes(step),
  };
}

export function render(lab) {
  const { heads, steps, names, frames, code } = lab.data;
  const counts = choice(lab, { label: "heads", options: heads.map((one) => [one, String(one)]),
    onPick: (one) => lab.set({ heads: one }) });
  const ways = choice(lab, { label: "way", options: WAYS, onPick: (way) => lab.set({ way }) });
  const stages = choice(lab, { label: "step", options: steps.map((step) => [step, step]),
    onPick: (step) => lab.set({ step }) });
  lab.bar.append(counts.element, ways.element, stages.element);

  const cells = names[heads[0]].map((name) => cellOf(name[0]));
  const tables = html("div", { class: "tables" });
  const shape = html("h4", {});
  const key = html("div", { class: "key" });
  lab.picture.append(html("style", {}, STYLE), html("div", { class: "main named" }, shape, tables),
    html("div", { class: "side" }, html("h4", {}, "The same in PyTorch"), lab.codeBox,
      html("h4", {}, "How to read it"), key));

  let drawn = "", moving = [];
  return (state) => {
    counts.show(state.heads);
    ways.show(state.way);
    stages.show(state.step);
    const place = `${state.heads} ${state.way}`;
    const frame = frames[place][state.step];
    const lines = code[place].slice(0, steps.indexOf(state.step) + 1);
    if (drawn !== `${place} ${state.step}`) {
      drawn = `${place} ${state.step}`;
      const before = cells.map(boxOf);  // nothing is written yet: the page need not lay out again
      moving.forEach((animation) => animation.cancel());
      names[state.heads].forEach((name, i) => { cells[i].firstChild.textContent = name; });
      const table = state.step === "scores" ? scoreTable : numberTable;
      tables.classList.toggle("six", frame.tables.length === 6);
      tables.style.setProperty("--few", inALine(frame.tables));
      tables.replaceChildren(...frame.tables.map((_, i) => table(frame, i, cells)));
      shape.textContent = heading(state, frame);
      key.replaceChildren(...reading(state.step));
      moving = glide(cells, before);
    }
    const bad = frame.wrong.flat(2).includes(true);
    return { say: frame.say, bad, code: lines.join("\n") };
  };
}

function cellOf(token, text = "") {
  return html("span", { class: `cell t${token}` }, html("b", {}, text));
}

/** One table of numbers: the cells move into it. */
function numberTable({ title: name, row, tables, wrong }, index, cells) {
  const rows = tables[index].map((places, i) => places.map((place) => {
    markWrong(cells[place], wrong[index][i]);
    return cells[place];
  }));
  const whole = tables.length === 1 && name !== "head";
  return tableOf(whole ? name : `${name} ${index}`, row, rows);
}

/** The scores of one head: which token each cell compares with which. */
function scoreTable({ title: name, row, tables, wrong }, index) {
  const rows = tables[index].map((pairs, i) => pairs.map(([query, key], j) => {
    const cell = cellOf(key, `${query}·${key}`);
    cell.classList.add("score");
    markWrong(cell, wrong[index][i][j]);
    return cell;
  }));
  return tableOf(`${name} ${index}`, row, rows, rows.map((_, j) => String(j)));
}

function tableOf(name, row, rows, columns = []) {
  const numbered = /\d$/.test(name);  // one of several
  const head = html("tr", {}, html("td", {}, html("span", { class: "wide" }, row)),
    columns.map((column) => html("th", { scope: "col" }, column)));
  return html("table", {}, html("caption", { class: numbered ? null : "unseen" }, name),
    html("thead", {}, head), html("tbody", {}, rows.map((cells, i) => html("tr", {},
      html("th", { scope: "row" }, html("span", { class: "unseen" }, `${row} `), String(i)),
      cells.map((cell) => html("td", {}, cell))))));
}

function markWrong(cell, wrong) {
  const mark = cell.querySelector("i");
  if (wrong && !mark) cell.append(html("i", {}, "✗"));
  if (!wrong) mark?.remove();
  cell.classList.toggle("wrong", wrong);
}

/** How many tables stand in a line of a narrow page. */
function inALine(tables) {
  const count = tables.length, columns = tables[0][0].length;
  if (columns === 6) return 1;
  return columns > 2 || (count === 4 && columns === 2) ? 2 : Math.min(count, count === 6 ? 3 : 4);
}

// --- moving ----------------------------------------------------------------------------------------

function boxOf(element) {
  const { left, top, width } = element.getBoundingClientRect();
  return width ? { left, top } : null;
}

/** Let every cell travel from where it was to where it is now; returns what moves. */
function glide(cells, before) {
  if (matchMedia("(prefers-reduced-motion: reduce)").matches) return [];
  const now = cells.map(boxOf);
  return cells.flatMap((cell, i) => {
    if (!before[i] || !now[i]) return [];
    const [x, y] = [before[i].left - now[i].left, before[i].top - now[i].top];
    return x || y ? [cell.animate([{ transform: `translate(${x}px, ${y}px)`, zIndex: 1 },
      { transform: "none", zIndex: 1 }], { duration: 700, easing: "ease-in-out" })] : [];
  });
}

// --- words -----------------------------------------------------------------------------------------

function heading({ heads, step }, { tables, title: name }) {
  const sizes = { x: "4, 6", merge: "4, 6", scores: `${heads}, 4, 4` };
  const size = sizes[step] ?? [tables.length, tables[0].length, tables[0][0].length].join(", ");
  const what = { x: "x", merge: "merged", scores: "scores" }[step] ?? (name === "token" ? "cut" : "heads");
  return `${what}: shape (${size})`;
}

function reading(step) {
  const swatch = (token) => html("i", { class: `t${token}` }, String(token));
  const sample = step === "scores" ? "score" : "number";
  return [
    html("span", { class: "swatches" }, [0, 1, 2, 3].map(swatch)),
    html("span", {}, step === "scores" ? "0·1: a row of token 0 with a row of token 1"
      : "colour and first digit: the token"),
    html("i", { class: "t0 wrong" }, "✗"),
    html("span", {}, `wrong: not the ${sample} that view and transpose put here`),
  ];
}

const STYLE = `
.main.named { flex: 3 1 48em; }
.named h4 { margin: 0 0 8px; font: 700 1.05em/1.4 var(--mono); }
.named ~ .side pre { font-size: 0.78em; }
.tables { display: flex; flex-wrap: wrap; gap: 16px 10px; align-items: flex-start;
  min-height: 13.5em; }
.tables.six { max-width: 47em; }
.tables table { width: auto; table-layout: auto; }
.tables caption { padding-bottom: 2px; font-weight: 680; }
.tables thead { font-size: 0.78em; color: var(--mute); }
.tables td:first-child { text-align: right; padding-right: 3px; }
.tables th { overflow: visible; }
.tables .cell { position: relative; width: 2.85em; height: 2.75em; aspect-ratio: auto;
  align-content: center; font-size: 1em; }
.tables .cell.score { width: 2.7em; font-size: 0.97em; }
.tables .cell b { font-weight: inherit; }
.card { --t0: #cfe3f5; --t1: #fbdcb8; --t2: #d3ebc9; --t3: #e7d3ee; }
.card.dark { --t0: #1d4267; --t1: #66400f; --t2: #28521f; --t3: #563463; }
.t0 { background: var(--t0); } .t1 { background: var(--t1); }
.t2 { background: var(--t2); } .t3 { background: var(--t3); }
.wrong { outline: 2px dashed var(--raw); outline-offset: -2px; }
.cell.wrong i { margin-top: 1px; font: 700 0.95em/1 var(--mono); }
.named ~ .side .key { grid-template-columns: auto 1fr; }
.swatches { display: flex; gap: 3px; }
.swatches i, .key .wrong { font-size: 0.82em; }
@container (max-width: 560px) {
  .bar > :last-child .choice span { padding: 6px 4.5px; }
  .tables { display: grid; grid-template-columns: repeat(var(--few), max-content);
    gap: 14px 8px; min-height: 0; }
  .tables .cell { width: 2.55em; } .tables .cell.score { width: 2.2em; }
}
`;
