// Full-text search without a server, by MiniSearch. It and the texts of all pages are a script beside
// the pages, which is loaded when somebody begins to search.

const LETTERS = /[\p{L}\p{N}_]+|∞/gu;
const SMALL = new Set(("a along an and are be by can do does gets gives how i in is it my of or that "
  + "the to we what when which why").split(" "));
const SAME = { inf: ["∞"], infinity: ["∞"], mha: ["multi", "head"], rotary: ["rope"],
  sqrt: ["square", "root"] };
const MOST_FOUND = 12;
const EXCERPT = 26;  // words

function plainWords(text) {
  const words = text.toLowerCase().match(LETTERS) ?? [];
  return words.map((word) => word.replaceAll("_", "")).flatMap((word) => SAME[word] ?? [word]);
}

/** Return a word as it is compared: "masks", "masked" and "masking" are one. */
function stem(word) {
  return word.replace(/^(.{3,}?)(ies|ing|ed|es|e|s|y)$/, "$1");
}

function stems(text) {
  return plainWords(text).map(stem);
}

/** Put the sections of all pages into an index; headings count more than what stands below them. */
function readIndex(pages) {
  const known = new Set(), counts = new Map(), sections = pages.flatMap(([page, parts]) =>
    parts.map(([place, heading, text, answers]) =>
      ({ page, place, heading, text, answers, title: parts[0][1] })));
  const keep = (word) => {
    known.add(word);
    return stem(word);
  };
  const index = new MiniSearch({ fields: ["heading", "text", "answers"], tokenize: plainWords,
    processTerm: keep, searchOptions: { boost: { heading: 4 }, processTerm: (word) => word } });
  index.addAll(sections.map((section, id) => ({ id, ...section })));
  for (const { heading, text, answers } of sections) {
    for (const word of new Set(stems(`${heading} ${text} ${answers}`))) {
      counts.set(word, (counts.get(word) ?? 0) + 1);
    }
  }
  const rarity = (word) => Math.log(1 + sections.length / (counts.get(word) ?? 1));
  return { sections, index, known, rarity };
}

/** Return the words of a question without the small ones, if others remain. */
function tellingWords(question) {
  const all = plainWords(question);
  const telling = all.filter((word) => !SMALL.has(word));
  return telling.length ? telling : all;
}

/** Return a word with two letters next to each other exchanged, for each two. */
function exchanged(word) {
  return [...word].slice(1).map((letter, i) => word.slice(0, i) + letter + word[i] + word.slice(i + 2));
}

/** Return two words as one, as in "flash attention", and what was meant by letters in another order. */
function meant(words, known) {
  const joined = words.slice(1).map((word, i) => words[i] + word);
  const errors = words.filter((word) => !known.has(word)).flatMap(exchanged);
  return [...joined, ...errors].filter((word) => known.has(word)).map(stem);
}

/** Return how much a section counts: much if its heading has what was asked, little in a list. */
function worthOf({ heading, page }, named) {
  const words = stems(heading).join(" ");
  if (words === named) return 3;
  if (page === "api.html") return 0.05;  // what lessons say comes first
  if (["Sources", "Next"].includes(heading)) return 0.2;
  if (heading.includes("★")) return 0.6;  // an exercise
  return named.includes(" ") && words.includes(named) ? 2 : 1;
}

/** Return the sections that fit a question best: those with its rare words come first. */
function find({ sections, index, known, rarity }, question) {
  const asked = question.map(stem), more = meant(question, known), named = asked.join(" ");
  const found = index.search(named, {
    tokenize: () => [...asked, ...more],
    prefix: (word) =>
      word === asked.at(-1) && (word.length > 3 || (word.length > 1 && !known.has(word))),
    fuzzy: (word, i) =>
      (i >= question.length || known.has(question[i]) || word.length < 4 ? false : 0.25),
    boostTerm: (word) => (more.includes(word) ? 4 : 1),
    boostDocument: (id) => worthOf(sections[id], named),
  });
  const spelled = question.filter((word) => known.has(word)).map(stem);
  const sum = (words) => words.reduce((total, word) => total + rarity(word), 1);
  return found
    .map(({ id, score, queryTerms }) =>
      [score * sum(spelled.filter((word) => queryTerms.includes(word))), sections[id]])
    .sort(([one], [other]) => other - one)
    .slice(0, MOST_FOUND).map(([, section]) => section);
}

/** Return the part of a text with most of the words that were asked for, and these marked. */
function excerpt(text, asked) {
  const pieces = text.split(/([\p{L}\p{N}_]+)/u);  // words have odd places
  const last = asked.at(-1);
  const hits = pieces.map((piece, i) => {
    const word = i % 2 ? stems(piece)[0] : "";
    return word && (asked.includes(word) || (last.length > 1 && word.startsWith(last)));
  });
  let best = 0, most = -1;
  for (let start = 0; start < pieces.length; start += 8) {
    const found = new Set(pieces.slice(start, start + 2 * EXCERPT)
      .filter((_, i) => hits[start + i]).map((piece) => stems(piece)[0])).size;
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
  const words = matchMedia("(max-width: 520px)").matches ? "Search" : "Search (Ctrl K)";
  const field = make("input", { type: "search", placeholder: words, spellcheck: "false",
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
      list.replaceChildren(...sections.map((section) => resultOf(section, asked.map(stem))));
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

offerSearch(document.querySelector(".home"));
