// Explorer 12: without positions, attention takes a sentence for a bag of words.
import { button, choice } from "./controls.mjs";
import { html, matrix, setText } from "./drawing.mjs";
import { dot, softmax } from "./maths.mjs";

export const title = "Does the order of the words count?";
export const hint = "Self-attention on one sentence, before and after a shuffle. Click a word to let it "
  + "change places with the next one; the arrow keys move it too.";

export function prediction({ tokens }) {
  return {
    question: {
      ask: `“${tokens.join(" ")}” is shuffled; no positions, no mask. For which words is the `
        + "output another vector?",
      then: "Now shuffle the words and look.",
    },
    options: ["for none", "for those in another place", "for all"],
    right: 0,
    why: "Every word asks the same words and averages the same values, so each output moves along "
      + "with its word. Now switch the positions on.",
    settled: ({ order, positions }) => !positions && order.some((word, place) => word !== place),
  };
}

export function render(lab) {
  const { tokens, features, shuffles } = lab.data;
  const written = tokens.map((_, i) => i);
  const positions = choice(lab, { label: "positions", options: [[false, "off"], [true, "on"]],
    onPick: (value) => lab.set({ positions: value }) });
  const shuffle = button(lab, "Shuffle", () => {
    const now = shuffles.findIndex((one) => String(one) === String(lab.state.order));
    lab.set({ order: shuffles[(now + 1) % shuffles.length] });
  });
  const back = button(lab, "As written", () => lab.set({ order: written }));
  lab.bar.append(html("div", { class: "control" }, shuffle, back), positions.element);

  const row = makeRow(lab);
  const before = panel(lab, { name: "Output before", tokens, features });
  const after = panel(lab, { name: "Output after", tokens, features, sums: "moved" });
  lab.picture.append(html("div", { style: "flex:1 1 100%" }, row.element), before.element,
    after.element, html("div", { class: "side" }, html("h4", {}, "The same in PyTorch"), lab.codeBox),
    html("div", { class: "side" }, html("h4", {}, "How to read it"), reading()));

  return (state) => {
    const { order } = state;
    positions.show(state.positions);
    row.show(order);
    const result = attend(lab.data, state);
    before.show(tokens, result.before);
    after.show(order.map((word) => tokens[word]), result.after, result.moved);
    return { say: say(lab.data, state, result.moved), bad: false, code: code(state) };
  };
}

/** What torch computes in order.py: outputs before and after, and how far each has moved. */
function attend({ words, placed, same }, { order, positions }) {
  const rows = (words_) => words_.map((word, place) => (positions ? placed[word][place] : words[word]));
  const outputs = (x) => x.map((query) => {
    const weights = softmax(x.map((key) => dot(query, key) / Math.sqrt(query.length)));
    return query.map((_, axis) => dot(weights, x.map((value) => value[axis])));
  });
  const before = outputs(rows(words.map((_, i) => i)));
  const after = outputs(rows(order));
  const moved = after.map((output, place) => {
    const difference = output.map((value, axis) => value - before[order[place]][axis]);
    return Math.sqrt(dot(difference, difference));
  });
  return { before, after, moved: moved.map((far) => (far > same ? far : 0)) };
}

/** The words of the sentence, each a button that changes places with its neighbour. */
function makeRow(lab) {
  const { tokens } = lab.data;
  const swap = (place, other) => {
    if (other < 0 || other >= tokens.length) return;
    const order = [...lab.state.order];
    [order[place], order[other]] = [order[other], order[place]];
    lab.set({ order });
    buttons[order[other]].focus();
  };
  const placeOf = (word) => lab.state.order.indexOf(word);
  const buttons = tokens.map((token, word) => button(lab, token, () => {
    const place = placeOf(word);
    swap(place, place === tokens.length - 1 ? place - 1 : place + 1);
  }));
  buttons.forEach((one, word) => lab.on(one, "keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    swap(placeOf(word), placeOf(word) + step);
  }));
  const list = html("div", { class: "chips", role: "group", "aria-label": "sentence" });
  let shown = "";
  const show = (order) => {
    if (shown === String(order)) return;
    shown = String(order);
    list.replaceChildren(html("span", { class: "label" }, "sentence"),
      ...order.map((word) => buttons[word]));
    buttons.forEach((one, word) => {
      one.style.color = order[word] === word ? "" : "var(--raw)";
      one.style.borderStyle = order[word] === word ? "" : "dashed";
    });
  };
  return { element: list, show };
}

// --- outputs ---------------------------------------------------------------------------------------

/** A table of outputs, a row for each word; with `sums`, how far each has moved. */
function panel(lab, { name, tokens, features, sums }) {
  const grid = matrix(lab, { caption: name, rows: tokens, columns: features, sums });
  const names = [...grid.element.querySelectorAll("tbody th")];
  const [low, high] = lab.data.range;
  const element = html("div", { class: `panel flat ${sums ? "wider" : ""}` }, html("h4", {}, name),
    grid.element);
  const show = (words, outputs, moved) => {
    words.forEach((word, i) => setText(names[i], word));
    grid.paint((i, j) => ({ weight: (outputs[i][j] - low) / (high - low),
      text: outputs[i][j].toFixed(2).replace("-", "−") }), moved?.map(verdict));
  };
  return { element, show };
}

function verdict(far) {
  return [far ? html("span", { class: "bad" }, `≠ ${far.toFixed(2)}`)
    : html("span", { class: "fine" }, "= 0")];
}

function reading() {
  return html("p", { class: "detail" }, "A row is the output of one word, a column a feature; the "
    + "colour follows the number. “= 0”: the output of the word is the same vector as before, wherever "
    + "the word stands now.");
}

// --- words: the same as in order.py ----------------------------------------------------------------

function say({ tokens }, { order, positions }, moved) {
  if (order.every((word, place) => word === place)) {
    return "The words stand as written, so before and after are the same. Shuffle them.";
  }
  if (!positions) {
    return "Another order, and **no output has changed**: each moved along with its word. "
      + "Without positions, attention takes the sentence for a bag of words.";
  }
  const most = Math.max(...moved);
  const changed = moved.filter((far) => far).length;
  return `With positions, **${changed} of ${tokens.length} outputs have changed**, that of `
    + `“${tokens[order[moved.findIndex((far) => far > most - 1e-6)]]}” most, by ${most.toFixed(2)}. Now the order counts.`;
}

function code({ order, positions }) {
  const [written, shuffled] = positions
    ? ["x + position", `x[[${order.join(", ")}]] + position`] : ["x", `x[[${order.join(", ")}]]`];
  return `y, z = ${written}, ${shuffled}\n`
    + "before = F.scaled_dot_product_attention(y, y, y)\n"
    + "after = F.scaled_dot_product_attention(z, z, z)\n"
    + `moved = (after - before[[${order.join(", ")}]]).norm(dim=-1)`;
}
