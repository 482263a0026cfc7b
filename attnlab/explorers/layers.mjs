// Six layers of a trained model read a sentence: where a word lies, and what it attends to.
import { asker, nameOf, share, topOf } from "./frame/js/asking.mjs";
import { showControls } from "./frame/js/controls.mjs";
import { html, setText } from "./frame/js/drawing.mjs";
import { panelOf } from "./frame/js/panels.mjs";
import { fitsSentence, sentences } from "./frame/js/sentences.mjs";
import { fill } from "./frame/js/words.mjs";

export const fits = fitsSentence;

export function render(lab) {
  const { words, panels: [bars, curves] } = lab.data;
  const find = sentences(lab, "layers"), text = asker(lab, bars), controls = showControls(lab), charts = {};
  const name = html("h4", { class: "scaled" }), side = html("div", { class: "lean" });
  lab.picture.append(html("div", { class: "one" }, name, text.arcs, text.rows), side);
  lab.scale([0, 1], "weight");
  lab.bar.querySelectorAll(".note").forEach((note) => { note.style.order = 1; });  // after the sliders
  const chartOf = (names) => charts[names] ??= panelOf(lab, { ...curves,
    lines: curves.lines.map((line, i) => ({ ...line,
      name: i ? fill(words.line, { meaning: names[i - 1] }) : line.name })) });

  return (state) => {
    const { reading: { tokens, maps, known, code }, place } = find(state);
    const { layer, head } = state, below = Math.max(layer - 1, 0), meaning = known[place];
    const named = { asking: nameOf(lab.data, tokens, place), layer, head, place, below,
      token: fill(words.quoted, { token: tokens[place] }) };
    const row = maps[below][head === "mean" ? 0 : head + 1][place].map((weight) => weight / 100);
    const kind = layer === 0 ? "first" : head === "mean" ? "mean" : "head";
    controls(state);
    setText(name, fill(words.heading[Number(layer > 0)], named));
    text.paint(tokens, layer ? row : row.map(() => 0), place);
    if (meaning) {
      const { names, curves: values } = meaning, chart = chartOf(names);
      chart.show({ title: fill(words.curve, named), values,
        under: fill(words.ends, { near: names[0], far: names[1] }) }, state);
      if (side.firstChild !== chart.element) side.replaceChildren(chart.element);
    } else side.replaceChildren(html("p", { class: "note" },
      `${fill(words.unknown, named)} ${words.others}`));
    const where = fill(words[kind], named), attends = layer ? fill(words.attends, { where,
      ...topOf(lab.data, tokens, row, place, true),
      marked: share(lab.data, row[0] + row.at(-1)) }) : where;
    return { say: `${lies(lab.data, meaning, named)} ${attends}`,
      code: fill(words.code, { lines: code, row: fill(words.rows[kind], named) }) };
  };
}

/** Which meaning a word lies nearer to. */
function lies({ words, close }, meaning, named) {
  if (!meaning) return fill(words.unknown, named);
  const { names, curves: [leans] } = meaning, lean = leans[named.layer];
  const alike = Math.abs(lean) < close;
  const [near, far] = alike || lean > 0 ? names : [names[1], names[0]];
  const when = fill(words.when[Number(named.layer > 0)], named);
  return fill(words[alike ? "alike" : "nearer"],
    { ...named, when, near, far, lean: lean.toFixed(3).replace("-", "−") });
}
