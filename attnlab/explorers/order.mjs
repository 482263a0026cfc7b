// Without positions, attention treats a sentence as a bag of words.
import { button, showControls } from "./frame/js/controls.mjs";
import { html } from "./frame/js/drawing.mjs";
import { dot, isPlace, softmax } from "./frame/js/maths.mjs";
import { showPanels } from "./frame/js/panels.mjs";
import { fill } from "./frame/js/words.mjs";

const isElsewhere = (word, place) => word !== place;

export function settled({ order, positions }) {
  return !positions && order.some(isElsewhere);
}

export const fits = {
  order: (words, { tokens }) => words.length === tokens.length
    && words.every((one) => isPlace(one, tokens)) && new Set(words).size === words.length,
};

export function render(lab) {
  const { tokens, shuffles, words } = lab.data;
  lab.bar.append(button(lab, "Shuffle", () => {
    const now = shuffles.findIndex((one) => String(one) === String(lab.state.order));
    lab.set({ order: shuffles[(now + 1) % shuffles.length] });
  }));
  const controls = showControls(lab), row = makeRow(lab);
  lab.picture.append(row.element);
  const panels = showPanels(lab);
  lab.longest([words.unmoved, words.moved]);

  return (state) => {
    const { before, after, moved } = attend(lab.data, state);
    controls(state);
    row.show(state.order);
    const sums = moved.map((far) => (far ? [fill(words.other, { far: far.toFixed(2) }), false]
      : [words.same, true]));
    panels({ before: { cells: before },
      after: { cells: after, rows: state.order.map((word) => tokens[word]), sums } }, state);
    return { say: say(lab.data, state, moved), code: code(words, state) };
  };
}

/** What torch computes in order.py: outputs before and after, and how far each has moved. */
function attend({ vectors, placed, same }, { order, positions }) {
  const rows = (words) =>
    words.map((word, place) => (positions ? placed[word][place] : vectors[word]));
  const outputs = (x) => x.map((query) => {
    const weights = softmax(x.map((key) => dot(query, key) / Math.sqrt(query.length)));
    return query.map((_, axis) => dot(weights, x.map((value) => value[axis])));
  });
  const before = outputs(rows(vectors.map((_, i) => i)));
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
  const element = html("div", { class: "chips ordered", role: "group", "aria-label": "sentence" });
  let shown = "";
  const show = (order) => {
    if (shown === String(order)) return;
    shown = String(order);
    element.replaceChildren(html("span", { class: "label" }, "sentence"),
      ...order.map((word) => buttons[word]));
    order.forEach((word, place) =>
      buttons[word].classList.toggle("elsewhere", isElsewhere(word, place)));
  };
  return { element, show };
}

function say({ tokens, words }, { order, positions }, moved) {
  if (!order.some(isElsewhere)) return words.written;
  if (!positions) return words.unmoved;
  const far = Math.max(...moved), most = moved.findIndex((one) => one > far - 1e-6);
  return fill(words.moved, { changed: moved.filter((one) => one).length,
    word: tokens[order[most]], far: far.toFixed(2) });
}

function code(words, { order, positions }) {
  const { written, shuffled } = words.inputs, list = { order: order.join(", ") };
  return fill(words.code, { ...list, written: written[Number(positions)],
    shuffled: fill(shuffled[Number(positions)], list) });
}
