// Numbers in the text below a figure that stand in a cell of one of its heatmaps.
import { markAt, relate, textsIn } from "./pointing.mjs";

const BUNDLE = "application/vnd.attnlab+json";
const NUMBER = /(?<![\w.,])[−-]?\d*\.\d+(?![\w%]|[.,]\d)/g;
const SENTENCES = new Intl.Segmenter("en", { granularity: "sentence" });
const TEXTS = ".prose, .jp-RenderedMarkdown", FIGURES = "figure[data-number]";
const PARTS = `h1, h2, h3, h4, ${FIGURES}, :is(${TEXTS}) :is(p, li:not(:has(p)))`;
const plain = (number) => number.replace("-", "−").replace(/^(−?)\./, "$10.");
const followed = new WeakSet();  // notebooks

/**
 * Mark the numbers of a page, up to the next heading or figure; `maps` are those of the figures by
 * their numbers, as stored. Where two cells could be meant, there is no mark. Returns a function
 * that takes the marks away.
 */
export function linkNumbers(page, maps) {
  const ends = [];
  let figure;
  for (const part of page.querySelectorAll(PARTS)) {
    const here = maps[figure?.dataset.number];
    if (!part.matches("p, li")) figure = part;
    else if (here) ends.push(markNumbers(part, figure, here));
  }
  return () => ends.forEach((end) => end());
}

/** In JupyterLab: mark the numbers of a notebook, and anew whenever texts or figures are drawn. */
export function followNotebook(cells, notebook) {
  if (!notebook || followed.has(notebook)) return;
  followed.add(notebook);
  let unlink = () => {}, waiting;
  const link = () => {
    const told = [...cells].flatMap(({ outputs }) => Array.from({ length: outputs?.length ?? 0 },
      (_, i) => outputs.get(i).data[BUNDLE])).flatMap((facts) => facts?.shown ?? facts ?? []);
    unlink();
    unlink = linkNumbers(notebook, Object.fromEntries(told.map(({ number, maps }) => [number, maps])));
    watcher.takeRecords();
  };
  const isNew = (node) => node.matches?.(FIGURES) || node.querySelector?.(`${TEXTS}, ${FIGURES}`);
  const watcher = new MutationObserver((records) => {
    if (!records.some(({ target, addedNodes }) =>
      target.matches(TEXTS) || [...addedNodes].some(isNew))) return;
    clearTimeout(waiting);
    waiting = setTimeout(link, 300);
  });
  watcher.observe(notebook, { childList: true, subtree: true });
  link();
}

/** Mark the numbers of a paragraph, the last one first; a sentence names rows and columns. */
function markNumbers(paragraph, figure, maps) {
  const texts = textsIn(paragraph), found = new Map();
  const text = paragraph.textContent.replaceAll("\n", " ");
  for (const { segment, index } of [...SENTENCES.segment(text)].reverse()) {
    const inside = texts.filter(({ start }) => start >= index && start < index + segment.length);
    const names = namesIn(segment, inside, maps);
    for (const { 0: number, index: place } of [...segment.matchAll(NUMBER)].reverse()) {
      const cell = cellOf(plain(number), maps, names);
      const mark = cell && markAt(texts, index + place, number.length,
        `row ${cell.row}, column ${cell.column} of Figure ${figure.dataset.number}`);
      if (!mark) continue;
      found.set(mark, () => [boxOf(figure.querySelector("img"), cell.box)]);
      mark.setAttribute("role", "button");
      mark.addEventListener("click", () => figure.scrollIntoView({ block: "nearest" }));
      mark.addEventListener("keydown", (event) => {
        if (!["Enter", " "].includes(event.key)) return;
        event.preventDefault();
        event.stopPropagation();  // JupyterLab would edit the cell
        mark.click();
      });
    }
  }
  return relate(found, figure);
}

/** The names in a sentence that may be those of rows and columns, in their order. */
function namesIn(sentence, texts, maps) {
  const quoted = [...sentence.matchAll(/“([^”]+)”/g)].map(([, name]) => name);
  const set = texts.map(({ node }) => node).filter((node) => node.parentNode.matches("code, em"));
  const long = maps.flatMap(({ rows, columns }) => [...rows, ...columns])
    .filter((name) => name.includes(" ") && sentence.includes(name));
  return [...quoted, ...set.map(({ data }) => data), ...long].filter((name) => /\D/.test(name))
    .sort((one, other) => sentence.indexOf(one) - sentence.indexOf(other));
}

/**
 * The one cell that a number can mean: both its row and its column are named, or at least one of
 * them. If several have both, the row is what is named first.
 */
function cellOf(number, maps, names) {
  const cells = maps.flatMap((map) => map.rows.flatMap((row, i) => map.columns.flatMap((column, j) => {
    if (plain(map.texts[i][j]) !== number) return [];
    const [left, top, width, height] = map.box;
    const [wide, high] = [width / map.columns.length, height / map.rows.length];
    return [{ row: row || i, column: column || j, box: [left + j * wide, top + i * high, wide, high],
      named: names.includes(row) + names.includes(column),
      isFirst: row === names.find((name) => map.rows.includes(name)) }];
  })));
  const most = Math.max(...cells.map(({ named }) => named));
  const best = cells.filter(({ named }) => named === most);
  const first = best.filter(({ isFirst }) => isFirst);
  const [cell, ...others] = most === 2 && first.length ? first : best;
  return most && !others.length ? cell : null;
}

/** Where a part of a picture is on the screen; a projector may leave its element some room. */
function boxOf(picture, [left, top, width, height]) {
  const { x, y } = picture.getBoundingClientRect(), pad = parseFloat(getComputedStyle(picture).padding);
  const [roomWide, roomHigh] = [picture.clientWidth - 2 * pad, picture.clientHeight - 2 * pad];
  const { naturalWidth, naturalHeight } = picture;
  const scale = Math.min(roomWide / naturalWidth, roomHigh / naturalHeight);
  const [wide, high] = [scale * naturalWidth, scale * naturalHeight];
  return { left: x + pad + wide * left, top: y + pad + (roomHigh - high) / 2 + high * top,
    width: wide * width, height: high * height };
}
