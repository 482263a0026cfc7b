// What explorers share in which a token asks: its arcs, its row, the maps of all heads, the words.
import { followPointer } from "./controls.mjs";
import { html, setText, svg, weightColours } from "./drawing.mjs";
import { panelOf } from "./panels.mjs";
import { fill } from "./words.mjs";

const HEIGHT = 92, LINE = 16;  // of the arcs, in pixels; width of the arc of a weight of 1
const MANY = 30;  // words, upright: more of them do not share a line, they scroll

/**
 * Put the maps of all heads into the picture, and the weights of the token that asks in one of them;
 * returns show({reading, place}, state), which returns what is said and the lines of PyTorch. In
 * cross-attention a reading has `keys` beside its tokens, which ask.
 *
 * `text` is what shows the weights of the token that asks, if not a row of words, and what the maps
 * are then. `heard(row, place, state)` gives the name of a sentence, the weights that it is about
 * and that are drawn, and what else it tells.
 */
export function headsPicture(lab, text = asker(lab, lab.data.panels[1]), heard = hearAll) {
  const { words, panels } = lab.data, heads = panelOf(lab, panels[0]);
  const name = html("h4", { class: "scaled" }), rowName = html("h4");
  lab.picture.append(heads.element,
    html("div", { class: "one" }, name, text.arcs, text.rows ? [rowName, text.rows] : []));
  lab.scale([0, text.most ?? 1], "weight");

  return ({ reading: { tokens, keys = tokens, weights, code }, place }, state) => {
    const sent = weights[state.head][place];
    const row = sent.map((weight) => Math.round(1e4 * weight) / 1e4);  // as in Python
    const named = { ...state, place, asking: nameOf(lab.data, tokens, place), token: tokens[place] };
    const [sentence, drawn, told] = heard(row, place, state);
    heads.show(text.maps?.(weights, place) ?? { maps: weights, asks: place }, lab.state);
    setText(name, fill(words.head, named));
    setText(rowName, fill(words.row, named));
    text.paint(tokens, sent, place, keys, drawn);
    const own = keys === tokens ? place : -1;
    const sizes = { marked: share(lab.data, row[0] + row.at(-1)),
      equal: share(lab.data, 1 / row.length) };
    return { say: fill(words[row.some(Number.isNaN) ? "broken" : sentence],
      { ...named, ...topOf(lab.data, keys, drawn, own), ...sizes, ...told }),
    code: fill(words.code, { ...named, lines: code }) };
  };
}

const hearAll = (row) => [Math.max(...row) > 0 ? "say" : "nothing", row, {}];

/**
 * Tokens with their arcs, and the rows of `bars` (a panel); paint(tokens, row, place, keys, drawn)
 * shows the weights of the token that asks, for the keys or, without them, for the tokens
 * themselves. Arcs show other weights if they are given, and a gap stands before a second sentence.
 */
export function asker(lab, bars) {
  const arcs = makeArcs(lab), rows = html("div", { class: "rows" });
  let shown, parts;
  const build = (tokens, keys) => {
    const columns = keys.length > 14 && rows.clientWidth > 600 ? 3 : 2;
    const size = Math.ceil(keys.length / columns);
    parts = [...Array(columns).keys()].map((column) => {
      const ends = [column * size, (column + 1) * size];
      const { element, show } = panelOf(lab, { ...bars, names: keys.slice(...ends) });
      return { element, show: (row) => show({ weights: row.slice(...ends) }, lab.state) };
    });
    rows.replaceChildren(...parts.map(({ element }) => element));
    arcs.build(tokens, keys);
    shown = tokens;
  };
  const paint = (tokens, row, place, keys = tokens, drawn = row) => {
    if (shown !== tokens) build(tokens, keys);
    parts.forEach((part) => part.show(row));
    arcs.paint(drawn, place);
  };
  return { arcs: arcs.element, rows, paint };
}

/**
 * The sentence as a row of words; arcs lead from the one that asks, as wide as their weights. Other
 * words as keys stand in a row above it, and the arcs become lines from row to row.
 */
function makeArcs(lab) {
  const lines = svg("svg", { "aria-hidden": "true", height: HEIGHT });
  const text = html("div", { class: "text", role: "group", "aria-label": "The word that asks" });
  const above = html("div", { class: "text keys", "aria-hidden": "true" });
  const element = html("div", { class: "arcs" }, above, lines, text);
  followPointer(lab, text, "word");
  let words = [], heard = [], centres = null, ends = null, last = null, frame;
  const build = (tokens, keys) => {
    words = tokens.map((token, i) => html("button", { type: "button", "data-word": i,
      "aria-label": `${token} (${i})` }, token));
    text.replaceChildren(...words);
    if (lab.data.boundary) words[lab.data.boundary].before(html("i", { class: "boundary" }));
    above.hidden = keys === tokens;
    heard = above.hidden ? words : keys.map((key) => html("span", {}, key));
    if (!above.hidden) above.replaceChildren(...heard);
    centres = last = null;
  };
  const paint = (row, word) => {
    heard.forEach((one, i) => {
      const { background, color } = weightColours(row[i]);
      Object.assign(one.style, { background, color });
    });
    words.forEach((button, i) => button.setAttribute("aria-pressed", i === word));
    last = [row, word];
    if (!centres) measure();
    if (centres) lines.replaceChildren(...linesFrom(centres[word], row, ends, above.hidden));
  };
  const measure = () => {
    if (!text.clientWidth) return;
    const shown = above.hidden ? [text] : [above, text];
    shown.forEach((line) => {
      line.classList.remove("upright");
      line.style.minWidth = "";
    });
    const upright = shown.map((line) => line.classList.toggle("upright", line.scrollWidth > line.clientWidth));
    const most = Math.max(words.length, heard.length);
    const long = element.classList.toggle("long", upright.some(Boolean) && most > MANY);
    if (long) shown.forEach((line) => { line.style.minWidth = `${1.3 * most}em`; });
    lines.style.width = long ? `${text.offsetWidth}px` : "";
    [centres, ends] = [words, heard].map((all) => all.map((one) => one.offsetLeft + one.offsetWidth / 2));
    lines.setAttribute("viewBox", `0 0 ${text.clientWidth} ${HEIGHT}`);
  };
  const watcher = new ResizeObserver(() => {
    cancelAnimationFrame(frame);
    frame = requestAnimationFrame(() => {
      centres = null;
      if (last) paint(...last);
    });
  });
  watcher.observe(element);
  lab.signal.addEventListener("abort", () => watcher.disconnect());
  return { element, build, paint };
}

/** The arcs from a place to all ends; between two rows of words they are lines. */
function linesFrom(from, row, ends, isOneRow) {
  return row.flatMap((weight, i) => {
    if (!(weight >= 0.005)) return [];
    const d = isOneRow ? arc(from, ends[i])
      : `M${from},${HEIGHT}C${from},${HEIGHT / 2} ${ends[i]},${HEIGHT / 2} ${ends[i]},0`;
    return [svg("path", { class: "arc", d, "stroke-width": LINE * weight })];
  });
}

function arc(from, to) {
  if (from === to) {
    return `M${from - 4},${HEIGHT}C${from - 26},${HEIGHT - 44} ${from + 26},${HEIGHT - 44} ${from + 4},${HEIGHT}`;
  }
  const top = HEIGHT - Math.min(HEIGHT - 12, 22 + Math.abs(to - from) * 0.42) / 0.75;
  return `M${from},${HEIGHT}C${from},${top} ${to},${top} ${to},${HEIGHT}`;
}

// --- words -----------------------------------------------------------------------------------------

/** A weight as it stands in a sentence, rounded as in Python. */
export function share({ half, words }, weight) {
  const text = (weight + half).toFixed(2);
  return text === "0.00" ? words.little : text;
}

/** A token in quotes, with its place if it occurs several times. */
export function nameOf({ markers, words }, tokens, place) {
  const token = tokens[place];
  const name = markers.includes(token) ? token : fill(words.quoted, { token });
  const several = tokens.filter((one) => one === token).length > 1;
  return several ? fill(words.several, { name, place }) : name;
}

/** The words for what gets most of a row of weights, and for how much it gets. */
export function topOf(data, tokens, row, place, wordsOnly = false) {
  const { words, tie, many } = data, ends = wordsOnly ? 1 : 0;
  const part = row.slice(ends, row.length - ends), most = Math.max(...part);
  const low = most - Math.min(tie, most / 4);
  const top = part.flatMap((weight, i) => (weight > low || weight === most
    ? [i + ends === place ? words.itself : nameOf(data, tokens, i + ends)] : []));
  const kind = wordsOnly ? "words" : "tokens";
  const counted = fill(words.many, { count: top.length, total: part.length, kind });
  return { most: share(data, most), each: top.length > 1 ? words.each : "",
    top: top.length > many ? counted : top.join(" and ") };
}
