// What explorers share in which a token asks: its arcs, its row, the maps of all heads, the words.
import { followPointer } from "./controls.mjs";
import { html, setText, svg, weightColours } from "./drawing.mjs";
import { panelOf } from "./panels.mjs";
import { fill } from "./words.mjs";

const HEIGHT = 92, LINE = 16;  // of the arcs, in pixels; width of the arc of a weight of 1
const MANY = 30;  // words, upright: more of them do not share a line, they scroll

/**
 * Put the maps of all heads into the picture, and the weights of the token that asks in one of them;
 * returns show({reading, place}, state), which returns what is said and the lines of PyTorch.
 */
export function headsPicture(lab) {
  const { words, panels: [maps, bars] } = lab.data;
  const text = asker(lab, bars), heads = panelOf(lab, maps);
  const name = html("h4", { class: "scaled" }), rowName = html("h4");
  lab.picture.append(heads.element,
    html("div", { class: "one" }, name, text.arcs, rowName, text.rows));
  lab.scale([0, 1], "weight");

  return ({ reading: { tokens, weights, code }, place }, { layer, head }) => {
    const row = weights[head][place];
    const named = { layer, head, place, asking: nameOf(lab.data, tokens, place), token: tokens[place] };
    heads.show({ maps: weights, asks: place }, lab.state);
    setText(name, fill(words.head, named));
    setText(rowName, fill(words.row, named));
    text.paint(tokens, row, place);
    const sizes = { marked: decimals(lab.data, row[0] + row.at(-1)),
      equal: decimals(lab.data, 1 / row.length) };
    return { say: fill(words.say, { ...named, ...topOf(lab.data, tokens, row, place), ...sizes }),
      code: fill(words.code, { ...named, lines: code }) };
  };
}

/**
 * Tokens with their arcs, and the rows of `bars` (a panel); paint(tokens, row, place) shows the
 * weights of the token that asks.
 */
export function asker(lab, bars) {
  const arcs = makeArcs(lab), rows = html("div", { class: "rows" });
  let shown, parts;
  const build = (tokens) => {
    const columns = tokens.length > 14 && rows.clientWidth > 600 ? 3 : 2;
    const size = Math.ceil(tokens.length / columns);
    parts = [...Array(columns).keys()].map((column) => {
      const ends = [column * size, (column + 1) * size];
      const { element, show } = panelOf(lab, { ...bars, names: tokens.slice(...ends) });
      return { element, show: (row) => show({ weights: row.slice(...ends) }, lab.state) };
    });
    rows.replaceChildren(...parts.map(({ element }) => element));
    arcs.build(tokens);
    shown = tokens;
  };
  const paint = (tokens, row, place) => {
    if (shown !== tokens) build(tokens);
    parts.forEach((part) => part.show(row));
    arcs.paint(row, place);
  };
  return { arcs: arcs.element, rows, paint };
}

/** The sentence as a row of words; arcs lead from the one that asks, as wide as their weights. */
function makeArcs(lab) {
  const lines = svg("svg", { "aria-hidden": "true", height: HEIGHT });
  const text = html("div", { class: "text", role: "group", "aria-label": "The word that asks" });
  const element = html("div", { class: "arcs" }, lines, text);
  followPointer(lab, text, "word");
  let words = [], centres = null, last = null, frame;
  const build = (tokens) => {
    words = tokens.map((token, i) => html("button", { type: "button", "data-word": i,
      "aria-label": `${token} (${i})` }, token));
    text.replaceChildren(...words);
    text.classList.remove("upright");
    centres = last = null;
  };
  const paint = (row, word) => {
    words.forEach((button, i) => {
      const { background, color } = weightColours(row[i]);
      Object.assign(button.style, { background, color });
      button.setAttribute("aria-pressed", i === word);
    });
    last = [row, word];
    if (!centres) measure();
    if (centres) lines.replaceChildren(...arcsFrom(word, row, centres));
  };
  const measure = () => {
    if (!text.clientWidth) return;
    text.classList.remove("upright");
    text.style.minWidth = "";
    const upright = text.classList.toggle("upright", text.scrollWidth > text.clientWidth);
    const long = element.classList.toggle("long", upright && words.length > MANY);
    if (long) text.style.minWidth = `${1.3 * words.length}em`;
    lines.style.width = long ? `${text.offsetWidth}px` : "";
    centres = words.map((button) => button.offsetLeft + button.offsetWidth / 2);
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

function arcsFrom(word, row, centres) {
  const from = centres[word];
  return row.flatMap((weight, i) => {
    if (weight < 0.005) return [];
    const [to, high] = [centres[i], Math.min(HEIGHT - 12, 22 + Math.abs(centres[i] - from) * 0.42)];
    const top = HEIGHT - high / 0.75;
    const path = i === word ? `M${from - 4},${HEIGHT}C${from - 26},${HEIGHT - 44} ${from + 26},${HEIGHT - 44} ${from + 4},${HEIGHT}`
      : `M${from},${HEIGHT}C${from},${top} ${to},${top} ${to},${HEIGHT}`;
    return [svg("path", { class: "arc", d: path, "stroke-width": LINE * weight })];
  });
}

// --- words -----------------------------------------------------------------------------------------

/** A number with two decimals, rounded as in Python. */
export const decimals = ({ half }, value) => (value + half).toFixed(2);

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
  const top = part.flatMap((weight, i) => (weight > most - tie
    ? [i + ends === place ? words.itself : nameOf(data, tokens, i + ends)] : []));
  return { most: decimals(data, most), each: top.length > 1 ? words.each : "",
    top: wordsOnly && top.length > many ? fill(words.many, { count: top.length }) : top.join(" and ") };
}
