// Explorer 13: cross-attention, where one text asks and another one is looked at.
import { button, choice } from "./controls.mjs";
import { html, matrix, svg } from "./drawing.mjs";

export const title = "Who asks, and who is looked at?";
export const hint = "Queries come from one text, keys and values from another. Pick who asks; the "
  + "wider a line, the more attention.";

export function prediction() {
  return {
    question: {
      ask: "three questions ask six words. What shape has the table of weights, and what sums to 1?",
      then: "Look at the table.",
    },
    options: ["(3, 6), each column", "(3, 6), each row", "(6, 3), each row", "(6, 6)"],
    right: 1,
    why: "A row is one query, and a query shares its attention among the keys. In cross-attention "
      + "the table has no reason to be square. Now let the words ask.",
    settled: () => true,
  };
}

export function render(lab) {
  const asking = choice(lab, { label: "queries are the",
    options: [["questions", "questions"], ["words", "words"]],
    onPick: (value) => lab.set({ asking: value }) });
  lab.bar.append(asking.element);
  const sides = { questions: makeSide(lab, "questions", "question"),
    words: makeSide(lab, "words", "word") };
  const place = html("div", { style: "display:contents" });
  const lines = html("div", { class: "lines" }, html("h4", {}, "The same in PyTorch"), lab.codeBox);
  lab.picture.append(place);
  let shown;
  return (state) => {
    asking.show(state.asking);
    const side = sides[state.asking];
    if (shown !== side) {
      side.texts.append(lines);
      place.replaceChildren(side.texts, side.tables);
    }
    shown = side;
    return { bad: false, ...side.show(state) };
  };
}

/** One way to ask: the two texts with lines between them, weights and outputs. */
function makeSide(lab, asking, name) {
  const { features } = lab.data;
  const { queries, keys, weights, output, says } = lab.data[asking];
  const pick = (i) => lab.set({ [name]: queries[i] });
  const askers = queries.map((query, i) => button(lab, query, () => pick(i)));
  askers.forEach((one) => { one.className = "keep"; });
  const lines = svg("svg", { viewBox: "0 0 100 100", preserveAspectRatio: "none",
    "aria-hidden": "true" });
  const texts = html("div", { class: "main crossing" }, html("div", { class: "net" },
    html("h4", {}, "asks: query"),
    html("div", { class: "text", role: "group", "aria-label": "Who asks" }, askers), lines,
    html("div", { class: "text" }, keys.map((key) => html("span", {}, key))),
    html("h4", {}, "is looked at: key and value")));
  const largest = Math.max(...output.flat());
  const size = (rows) => `(${queries.length}, ${rows})`;
  const table = matrix(lab, { caption: "Weights: rows ask, columns are looked at", rows: queries,
    columns: keys, sums: "sum", onPick: pick });
  const outputs = matrix(lab, { caption: "Outputs, one per query", rows: queries, columns: features });
  const tables = html("div", { class: "side flat crossed" },
    html("h4", {}, `Weights ${size(keys.length)}`), table.element,
    html("h4", {}, `Output ${size(features.length)}: one per query`), outputs.element);

  const show = (state) => {
    const row = queries.indexOf(state[name]);
    askers.forEach((one, i) => one.setAttribute("aria-pressed", i === row));
    lines.replaceChildren(...weights[row].map((weight, j) => svg("line", { class: "pull",
      x1: middle(row, queries), y1: 0, x2: middle(j, keys), y2: 100, "stroke-width": 0.6 + 26 * weight })));
    table.paint((i, j) => ({ weight: weights[i][j], label: `query “${queries[i]}”, key “${keys[j]}”: `
      + `weight ${weights[i][j].toFixed(2)}` }), queries.map(() => [html("span", { class: "fine" }, "✓ 1")]));
    outputs.paint((i, j) => ({ weight: output[i][j] / largest, text: output[i][j].toFixed(2) }));
    for (const { element } of [table, outputs]) mark(element, row, queries);
    return { say: bold(says[row]), code: code(asking, row, queries, keys) };
  };
  return { texts, tables, show };
}

function middle(i, words) {
  return (100 * (i + 0.5)) / words.length;
}

/** Frame a row of a table and put a triangle before its name. */
function mark(element, row, names) {
  element.querySelectorAll("tbody tr").forEach((line, i) => {
    line.classList.toggle("picked", i === row);
    line.firstChild.textContent = i === row ? `▸ ${names[i]}` : names[i];
  });
}

function bold(sentence) {
  return sentence.replace(/(every row adds up to 1)/, "**$1**");
}

function code(asking, row, queries, keys) {
  const [query, key] = asking === "questions" ? ["question_x", "x"] : ["x", "question_x"];
  return `query, key = ${query}, ${key}  # (${queries.length}, 5), (${keys.length}, 5)\n`
    + `weights = (query @ key.T / 5 ** 0.5).softmax(dim=-1)  # (${queries.length}, ${keys.length})\n`
    + `output = weights @ key  # (${queries.length}, 5)\n`
    + `weights[${row}], output[${row}]  # ${queries[row]}`;
}
