// Explorer 6: one row of attention by hand, from the dot products to the output.
import { button, choice } from "./controls.mjs";
import { html, weightColours } from "./drawing.mjs";

export const title = "One row by hand";
export const hint = "One query, three keys, four features. Take a step, work it out on paper, "
  + "compare. All numbers are rounded to three decimals.";

export function prediction({ asked }) {
  return {
    question: {
      ask: asked.ask,
      then: `Now step on to the weights: query “${asked.query}”, mask “none”.`,
    },
    options: asked.options,
    right: 1,
    why: asked.why,
    settled: (state) => state.step >= asked.step && isAsked(asked, state),
  };
}

export function render(lab) {
  const { tokens, values, steps, masks, frames, asked } = lab.data;
  const go = (step) => lab.set({ step: Math.min(steps.length, Math.max(1, step)) });
  const back = button(lab, "◀ Back", () => go(lab.state.step - 1));
  const next = button(lab, "Next ▶", () => go(lab.state.step + 1));
  const queries = choice(lab, { label: "query", options: pairs(tokens),
    onPick: (query) => lab.set({ query }) });
  const kinds = choice(lab, { label: "mask", options: pairs(masks),
    onPick: (mask) => lab.set({ mask }) });
  lab.bar.append(html("div", { class: "control", role: "group", "aria-label": "step" }, back, next),
    queries.element, kinds.element);

  const strips = stripsOf(lab, { tokens, steps, go, shaded: asked.step,
    rows: frames[masks[0]][tokens[0]].rows });
  const inputs = inputTable(tokens, values);
  const named = html("h4");
  const hand = html("pre", { class: "hand" });
  lab.picture.append(html("style", {}, STYLE),
    html("div", { class: "main" }, strips.element),
    html("div", { class: "side steps" },
      html("h4", {}, "query = key = value"), inputs.element,
      named, hand, html("h4", {}, "The same in PyTorch (True = may attend)"), lab.codeBox));

  return (state) => {
    const frame = frames[state.mask][state.query];
    queries.show(state.query);
    kinds.show(state.mask);
    back.setAttribute("aria-disabled", state.step === 1);
    next.setAttribute("aria-disabled", state.step === steps.length);
    inputs.show(state.query);
    const blank = state.ask && isAsked(asked, state) ? asked : {};
    strips.show(frame, state.step, blank);
    named.textContent = `Step ${state.step} of ${steps.length}, by hand`;
    hand.textContent = frame.hand[state.step - 1].join("\n");
    return { say: frame.say[state.step - 1], bad: false,
      code: frame.code.slice(0, state.step).join("\n") };
  };
}

const pairs = (words) => words.map((word) => [word, word]);

function isAsked(asked, { query, mask }) {
  return query === asked.query && mask === "none";
}

/** The row of attention: a strip of cells for each step, filled as far as the steps are taken. */
function stripsOf(lab, { tokens, steps, go, shaded, rows }) {
  const names = steps.map((name, i) => button(lab, `${i + 1} ${name}`, () => go(i + 1)));
  const lines = rows.map(({ step, cells }, place) => {
    const boxes = cells.map(() => html("span"));
    const total = html("span", { class: "cell total" });
    const first = rows.findIndex((row) => row.step === step) === place;
    const height = rows.filter((row) => row.step === step).length;
    const element = html("tr", {},
      first ? html("th", { scope: "row", rowspan: height }, names[step - 1],
        height > 1 ? html("small", {}, "f0 to f3: the sum is the output") : []) : [],
      boxes.map((box) => html("td", { colspan: tokens.length / cells.length }, box)),
      html("td", {}, total));
    return { element, boxes, total };
  });
  const head = html("tr", {}, html("td", { class: "word" }),
    tokens.map((token) => html("th", { scope: "col" }, token)), html("th", { scope: "col" }, "sum"));
  const element = html("table", { class: "strips" },
    html("caption", { class: "unseen" }, "One row of attention: steps down, keys across"),
    html("thead", {}, head), html("tbody", {}, lines.map((line) => line.element)));

  const show = (frame, step, blank) => {
    names.forEach((name, i) => {
      name.classList.toggle("later", i + 1 > step);
      name.setAttribute("aria-current", i + 1 === step ? "step" : "false");
    });
    frame.rows.forEach((row, place) => {
      const { element: line, boxes, total } = lines[place];
      const reached = row.step <= step;
      line.classList.toggle("current", row.step === step);
      boxes.forEach((box, j) => paint(lab, box, reached ? row.cells[j] : null, {
        weight: row.step === shaded ? frame.weights[j] : null,
        asked: row.step === blank.step && j === blank.key }));
      total.className = `cell total ${row.sum === "" ? "none" : reached ? "" : "later"}`;
      total.textContent = reached ? row.sum : "";
    });
  };
  return { element, show };
}

/** A number in its cell, or an empty cell; weights are coloured, the cell asked for has a "?". */
function paint(lab, box, text, { weight, asked }) {
  const empty = asked ? "asked" : "later";
  const colours = text !== null && weight !== null ? weightColours(weight) : {};
  box.className = `cell ${text === null ? empty : text === "−∞" ? "blocked" : ""}`;
  box.textContent = text ?? (asked ? "?" : "");
  box.style.backgroundColor = colours.background ?? "";
  box.style.color = colours.color ?? "";
}

/** The numbers that everything starts from, with a mark at the token that asks. */
function inputTable(tokens, values) {
  const marks = tokens.map(() => html("td", { class: "mark" }));
  const rows = tokens.map((token, i) => html("tr", {}, html("th", { scope: "row" }, token),
    values[i].map((value) => html("td", {}, html("span", { class: "cell" }, value.toFixed(1)))),
    marks[i]));
  const head = html("tr", {}, html("td", { class: "word" }),
    values[0].map((_, feature) => html("th", { scope: "col" }, `f${feature}`)),
    html("td", { class: "mark" }));
  const element = html("table", { class: "inputs" },
    html("caption", { class: "unseen" }, "Four features of each token"),
    html("thead", {}, head), html("tbody", {}, rows));
  const show = (query) => tokens.forEach((token, i) => {
    rows[i].classList.toggle("current", token === query);
    marks[i].textContent = token === query ? "◀ query" : "";
  });
  return { element, show };
}

const STYLE = `
.picture .main { flex: 1 1 21.6em; } .large .picture .main { flex-basis: 26em; } .picture .steps { flex: 0.2 1 29.5em; }
.strips, .inputs { table-layout: fixed; }
.strips { max-width: 40em; }
.strips .word { width: 7.2em; } .inputs .word { width: 5.8em; } .inputs .mark { width: 5.4em; }
.inputs { max-width: 27em; margin-bottom: 4px; }
.inputs .mark { text-align: left; padding-left: 8px; font-weight: 620; white-space: nowrap; }
.strips .cell, .inputs .cell { aspect-ratio: auto; min-height: 38px; background: var(--soft);
  white-space: nowrap; }
.inputs .cell { min-height: 30px; }
.inputs .current .cell { box-shadow: inset 0 0 0 2px var(--ink); }
.strips th[scope=row] { padding: 0 4px 0 0; vertical-align: top; }
.strips th button { width: 100%; text-align: left; padding: 6px 8px; white-space: nowrap; }
.large .strips thead th { font-size: 0.87em; }
.strips small { display: block; margin: 6px 0 0 9px; font-weight: 400; white-space: normal;
  text-align: left; color: var(--mute); }
.strips button.later { font-weight: 400; border-style: dashed; }
.strips button[aria-current=step] { color: var(--on); background: var(--scaled);
  border-color: var(--scaled); }
.strips .current .cell { box-shadow: inset 0 0 0 2px var(--scaled); }
.strips .cell.total { font-weight: 750; } .strips .cell.none { visibility: hidden; }
.strips .cell.blocked { background: repeating-linear-gradient(45deg,
  var(--hatch) 0 5px, var(--hatched) 5px 10px); color: var(--ink); }
.strips .cell.later { background: none; box-shadow: inset 0 0 0 1px var(--line); }
.strips .cell.asked { background: var(--warm); box-shadow: inset 0 0 0 2px var(--raw);
  color: var(--raw); }
[aria-disabled=true] { opacity: 0.5; cursor: default; }
.side .hand { margin-bottom: 0; min-height: 8em; }
@container (max-width: 1010px) { .strips thead th { font-size: 0.85em; letter-spacing: -0.02em; } }
@container (max-width: 980px) {
  .strips thead th { font-size: 0.73em; }
  .picture .steps { flex-basis: 26.2em; } .steps .hand { padding: 9px 10px; font-size: 0.75em; }
  .strips .word { width: 5.6em; } .strips th button { padding: 6px 4px; } .strips td[colspan="3"] .cell { font-size: 0.8em; }
}
@container (max-width: 560px) {
  .strips .word { width: 5.5em; } .strips th button { padding: 6px 5px; font-size: 0.93em; }
  .strips thead th { font-size: 0.8em; letter-spacing: -0.03em; overflow: visible; } .strips small { margin-left: 5px; }
  .strips td[colspan="3"] .cell { font-size: 0.8em; }
  .side .hand { min-height: 9.6em; }
}
`;
