// Twelve heads of a trained layer read a sentence, chosen or typed.
import { html, setText } from "./drawing.mjs";
import { panelOf } from "./panels.mjs";
import { decimals, fitsSentence, nameOf, sentences, topOf } from "./sentences.mjs";
import { fill } from "./words.mjs";

export const fits = fitsSentence;

export function render(lab) {
  const { words, panels: [maps, bars] } = lab.data;
  const text = sentences(lab, bars, "real_heads"), heads = panelOf(lab, maps);
  const name = html("h4", { class: "scaled" }), rowName = html("h4");
  lab.picture.append(heads.element,
    html("div", { class: "one" }, name, text.arcs, rowName, text.rows));
  lab.scale([0, 1], "weight");

  return (state) => {
    const { reading: { tokens, weights, code }, place } = text.find(state);
    const row = weights[state.head][place], asking = nameOf(lab.data, tokens, place);
    const named = { head: state.head, place, asking, token: tokens[place] };
    heads.show({ maps: weights, asks: place }, state);
    setText(name, fill(words.head, named));
    setText(rowName, fill(words.row, named));
    text.paint(row, place);
    const sizes = { marked: decimals(lab.data, row[0] + row.at(-1)),
      equal: decimals(lab.data, 1 / row.length) };
    return { say: fill(words.say, { ...named, ...topOf(lab.data, tokens, row, place), ...sizes }),
      code: fill(words.code, { ...named, lines: code }) };
  };
}
