// Twelve heads of a trained layer read a sentence, chosen or typed.
import { headsPicture } from "./frame/js/asking.mjs";
import { fitsSentence, sentences } from "./frame/js/sentences.mjs";

export const fits = fitsSentence;

export function render(lab) {
  const find = sentences(lab, "real_heads"), show = headsPicture(lab);
  return (state) => show(find(state), state);
}
