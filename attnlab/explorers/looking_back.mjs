// Two looks of a model with two layers, in three rows of letters; the rest is declared.
import { showControls } from "./frame/js/controls.mjs";
import { html, svg } from "./frame/js/drawing.mjs";

const HEIGHT = 78, WIDEST = 18; // of the lines, in pixels

export function render(lab) {
  const { parts, pool, frames, frame_values: values } = lab.data;
  const says = parts.indexOf("say");
  lab.longest(frames.map((frame) => pool[frame[says]]));
  const controls = showControls(lab), rows = makeRows(lab);
  lab.picture.append(rows.element);
  return (state) => {
    const partner = values.partner.indexOf(state.partner) * values.position.length;
    const frame = frames[partner + values.position.indexOf(state.position)];
    const seen = Object.fromEntries(parts.map((part, i) => [part, pool[frame[i]]]));
    controls(state);
    rows.show(seen.looks, state.position);
    return seen;
  };
}

/** Three rows of the text: one to choose from, and two that are looked at. */
function makeRows(lab) {
  const { letters, rows: names } = lab.data;
  const rowOf = (cell, look) => html("div", { class: "text", ...look }, letters.map(cell));
  const askers = rowOf((letter, i) => html("button", { type: "button", class: "keep",
    style: "padding:5px 0;min-width:0;width:94%", "aria-label": `${letter} at ${i}` }, letter),
  { role: "group", "aria-label": "The letter from which to guess" });
  const [middle, below] = [0, 1].map(() => rowOf((letter) =>
    html("span", { style: "padding:1px 0;width:94%;text-align:center;border-radius:6px" }, letter)));
  const lines = [0, 1].map(() => svg("svg", { viewBox: "0 0 100 100", preserveAspectRatio: "none",
    "aria-hidden": "true", style: `height:${HEIGHT}px;width:100%;display:block` }));
  const line = (text, side) => html("p", { style: `text-align:${side}` }, text);
  const element = html("section", { class: "panel", style: "--grow:2.2;flex-basis:24em" },
    html("div", { class: "crossing" }, line(names[0], "left"), askers, lines[0], line(names[1], "right"), middle,
      lines[1], line(names[2], "right"), below));
  [...askers.children].forEach((one, position) => lab.on(one, "click", () => lab.set({ position })));

  const x = (position) => (100 * (position + 0.5)) / letters.length;
  const look = (picture, from, weights) => picture.replaceChildren(...weights.flatMap((weight, to) =>
    (weight < 0.005 ? [] : [svg("line", { class: "pull", x1: x(from), y1: 0, x2: x(to), y2: 100,
      "stroke-width": WIDEST * weight })])));
  const frame = (row, position) => [...row.children].forEach((one, i) => {
    one.style.boxShadow = i === position ? "0 0 0 2.5px var(--raw)" : "";
  });
  const show = ({ second, target, written, first, source }, position) => {
    [...askers.children].forEach((one, i) => one.setAttribute("aria-pressed", i === position));
    look(lines[0], position, second);
    look(lines[1], written, first);
    frame(middle, target);
    frame(below, source);
  };
  return { element, show };
}
