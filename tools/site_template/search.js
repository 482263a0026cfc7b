// Full-text search without a server. The index is a script beside the pages, which is loaded when
// somebody begins to search.

const LETTERS = /[\p{L}\p{N}_]+/gu;
const SMALL = new Set(("a an and are be by can do does how i in is it of or that the to we what "
  + "when which why").split(" "));
const MOST_FOUND = 12;
const EXCERPT = 26;  // words

/** Return a word as it is compared: "Masks", "masked" and "masking" are one. */
function stem(word) {
  const plain = word.toLowerCase().replaceAll("_", "");
  return plain.replace(/^(.{3,}?)(ies|ing|ed|es|e|s|y)$/, "$1");
}

function stems(text) {
  return (text.match(LETTERS) ?? []).map(stem);
}

/** Return the sections of all pages, and how often each word is in each of them. */
function readIndex(pages) {
  const sections = pages.flatMap(([page, parts]) => parts.map(([place, heading, text]) =>
    ({ page, place, heading, text, title: parts[0][1], words: stems(heading).join(" "), size: 0 })));
  const words = new Map();
  const count = (section, text, weight) => {
    for (const word of stems(text)) {
      if (!words.has(word)) words.set(word, new Map());
      const counts = words.get(word);
      counts.set(section, (counts.get(section) ?? 0) + weight);
      section.size += 1;
    }
  };
  for (const section of sections) {
    count(section, section.text, 1);
    count(section, section.heading, 6);
  }
  return { sections, words, usual: sections.reduce((sum, { size }) => sum + size, 0) / sections.length };
}

/** Return the counts of a word in sections; those of all words that it begins if it is unfinished. */
function look(words, word, unfinished) {
  const counts = new Map(words.get(word));
  if (!unfinished || word.length < 2) return counts;
  for (const [known, places] of words) {
    if (known === word || !known.startsWith(word)) continue;
    places.forEach((count, section) => counts.set(section, (counts.get(section) ?? 0) + count / 2));
  }
  return counts;
}

/** Return the words of a question without the small ones, if others remain. */
function tellingWords(question) {
  const all = question.match(LETTERS) ?? [];
  const telling = all.filter((word) => !SMALL.has(word.toLowerCase()));
  return (telling.length ? telling : all).map(stem);
}

/** Return the sections that tell most of some words (Okapi BM25: rare words count most). */
function find({ sections, words, usual }, asked) {
  const scores = new Map();
  asked.forEach((word, i) => {
    const counts = look(words, word, i === asked.length - 1);
    const rarity = Math.log(1 + (sections.length - counts.size + 0.5) / (counts.size + 0.5));
    counts.forEach((count, section) => {
      const worth = (rarity * count) / (count + 1.2 * (0.25 + 0.75 * (section.size / usual)));
      scores.set(section, (scores.get(section) ?? 0) + worth);
    });
  });
  const named = asked.join(" ");  // the heading is just what was asked for
  const score = (section) => scores.get(section) * (section.words === named ? 3 : 1);
  return [...scores.keys()].sort((one, other) => score(other) - score(one)).slice(0, MOST_FOUND);
}

/** Return the part of a text with most of the words that were asked for, and these marked. */
function excerpt(text, asked) {
  const pieces = text.split(/([\p{L}\p{N}_]+)/u);  // words have odd places
  const last = asked.at(-1);
  const hits = pieces.map((piece, i) =>
    i % 2 && (asked.includes(stem(piece)) || (last.length > 1 && stem(piece).startsWith(last))));
  let best = 0, most = -1;
  for (let start = 0; start < pieces.length; start += 8) {
    const found = new Set(pieces.slice(start, start + 2 * EXCERPT)
      .filter((_, i) => hits[start + i]).map(stem)).size;
    if (found > most) [best, most] = [start, found];
  }
  const shown = pieces.slice(best, best + 2 * EXCERPT)
    .map((piece, i) => (hits[best + i] ? make("mark", {}, piece) : piece));
  return [best ? "… " : "", ...shown, best + 2 * EXCERPT < pieces.length ? " …" : ""];
}

function resultOf(section, asked) {
  const { page, place, heading, title, text } = section;
  const link = make("a", { href: `${page}#${encodeURIComponent(place)}` }, make("b", {}, heading));
  if (title !== heading) link.append(" ", make("small", {}, title));
  link.append(make("span", {}, ...excerpt(text, asked)));
  return make("li", {}, link);
}

let index = null;

/** Load the index, once, and return a promise of it. */
function loadIndex() {
  index ??= load("search_index.js").then(() => readIndex(SEARCH_INDEX));
  return index;
}

/** Put the field for the search into the head of the page; what is found hangs below it. */
function offerSearch(home) {
  const field = make("input", { type: "search", placeholder: "Search (Ctrl K)", spellcheck: "false",
    "aria-label": "Search all lessons", autocomplete: "off" });
  const status = make("p", { role: "status" }), list = make("ol", {});
  const found = make("div", { class: "found", hidden: "" }, status, list);
  const box = make("search", {}, field, found);
  const show = async () => {
    const question = field.value, asked = tellingWords(question);
    found.hidden = !asked.length;
    if (found.hidden) return;
    try {
      const sections = find(await loadIndex(), asked);
      if (question !== field.value) return;
      list.replaceChildren(...sections.map((section) => resultOf(section, asked)));
      status.textContent = sections.length ? `Best places: ${sections.length}`
        : "Nothing found. Try other words.";
    } catch {
      status.textContent = "The search needs the file search_index.js beside this page.";
    }
  };
  field.addEventListener("input", show);
  field.addEventListener("focus", () => { loadIndex().catch(() => {}); show(); });
  box.addEventListener("keydown", (event) => walk(event, field, found));
  box.addEventListener("focusout", ({ relatedTarget }) => {
    if (!box.contains(relatedTarget)) found.hidden = true;
  });
  list.addEventListener("click", () => { found.hidden = true; });
  addEventListener("keydown", (event) => {
    if (event.key !== "k" || !(event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    field.select();
  });
  home.after(box);
}

/** Arrow keys go through what was found, Enter in the field opens the first, Escape closes. */
function walk(event, field, found) {
  const stops = [field, ...found.querySelectorAll("a")];
  const at = stops.indexOf(document.activeElement);
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (event.key === "Escape" && !found.hidden) {
    field.focus();
    found.hidden = true;
  } else if (event.key === "Enter" && at === 0) {
    stops[1]?.click();
  } else if (step && !found.hidden) {
    stops[Math.min(Math.max(at + step, 0), stops.length - 1)].focus();
  } else {
    return;
  }
  event.preventDefault();
}

offerSearch(row.querySelector(".home"));
