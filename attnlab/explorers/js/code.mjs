// Lines of code in a narrow box: a line goes on below, indented, and never breaks inside a word.
import { html } from "./drawing.mjs";

/** The lines of a text, each an element; in their text nothing is added and nothing left out. */
export function codeLines(text) {
  return text.split(/(?<=\n)/).map((line) => html("span", { class: "row" },
    line.split(/(\s+)/).map((word) => (/\S-\S|^-\S/.test(word) ? html("span", { class: "whole" }, word) : word))));
}
