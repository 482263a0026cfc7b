// The words that a sentence quotes, and the rows, columns and tokens of the picture that bear them.
import { markAt, relate, textsIn } from "../../../display/pointing.mjs";

const QUOTED = /“([^”]+)”(?: (?:\(row |at )(\d+))?/g;
const QUERIES = ".arcs .text:not(.keys) > button, table:not(.bars) th[scope=row]";
const KEYS = ".arcs .keys > *, table:not(.bars) th[scope=col]";

/**
 * Mark the words that a sentence quotes if the picture has them; returns a function that ends it.
 * The first word of a sentence asks, and each further one is a key if the picture has such keys.
 */
export function linkWords(sentence, picture, card) {
  const texts = textsIn(sentence), text = sentence.textContent, found = new Map();
  for (const { 1: word, 2: place, index } of [...text.matchAll(QUOTED)].reverse()) {
    const asks = place || !/“(?:[^.]|\.\d)*$/.test(text.slice(0, index));
    const named = () => {
      const [first, second] = asks ? [QUERIES, KEYS] : [KEYS, QUERIES];
      const wanted = bearers(picture, first, word, place);
      return wanted.length ? wanted : bearers(picture, second, word, place);
    };
    const mark = named().length
      && markAt(texts, index, word.length + 2, "outlined in the picture");
    if (mark) found.set(mark, () => named().map(boxOf));
  }
  return relate(found, card);
}

/** The elements that bear a word; in a table or row of words that has several, it is not clear which. */
function bearers(picture, selector, word, place) {
  const all = [...picture.querySelectorAll(selector)];
  const parts = new Set(all.map((one) => one.closest("table, .text")));
  return [...parts].flatMap((part) => {
    const same = all.filter((one) => part.contains(one))
      .filter((one, i) => one.textContent === word && (!place || i === Number(place)));
    return same.length === 1 ? same : [];
  });
}

/** Where a token, a row or a column is on the screen. */
function boxOf(element) {
  const { left, top, width, height } = (element.scope === "row" ? element.parentNode : element)
    .getBoundingClientRect();
  const below = element.scope === "col" ? element.closest("table").getBoundingClientRect().bottom : 0;
  return { left, top, width, height: below ? below - top : height };
}
