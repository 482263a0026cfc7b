// Make slides of a lesson: put its blocks on slides, as many as there is room for, then start reveal.

const HEIGHT = 720, FULL = 560;  // px: of a slide, and how far down further text may reach
const SIZES = [30, 28, 26, 24, 22, 20];  // px: of the text; the first at which all of it fits
const HEADING = "h1, h2, h3";
const ALONE = "figure, .attnlab-explorer, .attnlab-live-stored, .shown > img";

/** Yield what is on slides, in order; a fold is opened under a heading of its own. */
function* blocksOf(part) {
  if (part.matches("script, style")) return;
  if (part.matches("details")) {
    const [summary, ...inside] = part.children;
    yield make("h3", { class: "fold" }, ...summary.childNodes);
    for (const one of inside) yield* blocksOf(one);
  } else if (part.matches(".attnlab-predict-stored")) {
    part.querySelector("b").remove();
    part.querySelector("ul").classList.add("options");
    yield make("h3", { class: "fold" }, "Predict");
    for (const one of [...part.children]) yield* blocksOf(one);
  } else if (part.matches(".cell, .shown, .scroll:has(> .scroll)")) {
    for (const one of [...part.children]) yield* blocksOf(one);
  } else if (part.matches("ul, ol") && !part.matches(".options")) {
    for (const [i, item] of [...part.children].entries()) {
      const list = part.cloneNode();
      list.start = i + 1;
      list.append(item);
      yield list;
    }
  } else {
    yield part;
  }
}

class Deck {
  constructor() {
    this.slides = make("div", { class: "slides" });
  }

  /** Take a heading for the slides that follow: of a part, of a section in it, or of a fold. */
  title(heading) {
    this.heading = heading;
    this.slide = null;
    if (!heading.matches(".fold")) this.section = heading;
    if (!heading.matches("h1, h2")) return;
    this.stack = make("section", {});
    this.slides.append(this.stack);
    this.begin();
  }

  /** Leave a fold, if this is one: what follows belongs to the section again. */
  leave() {
    if (this.heading !== this.section) {
      this.heading = this.section;
      this.slide = null;
    }
  }

  /** Begin a slide with some blocks. */
  begin(...blocks) {
    this.slide = make("section", { class: "slide" }, this.heading.cloneNode(true), ...blocks);
    this.stack.append(this.slide);
  }

  /** Add a block to the slide, or to the next one if this is full. */
  add(block) {
    if (!this.slide) this.begin();
    const last = this.slide.lastElementChild;
    if (last.matches(ALONE) || (block.matches(ALONE) && !last.matches(HEADING))) this.begin();
    this.slide.append(block);
    if (last.matches(HEADING) || block.matches(ALONE)) return;
    if (bottomOf(block) - topOf(this.slide) <= FULL) return;
    const announces = last.textContent.trim().endsWith(":") && this.slide.children.length > 3;
    this.begin(...(announces ? [last, block] : [block]));
  }
}

function bottomOf(element) {
  return element.getBoundingClientRect().bottom;
}

function topOf(element) {
  return element.getBoundingClientRect().top;
}

/** Write a slide in the first size in which nothing is cut off. */
function fit(slide) {
  for (const size of SIZES) {
    slide.style.fontSize = `${size}px`;
    slide.style.setProperty("--zoom", size / 24);
    if (slide.scrollHeight <= slide.clientHeight && slide.scrollWidth <= slide.clientWidth) return;
  }
}

/** Presenters turn the page, also while an explorer or a slider has the keyboard. */
function turn(event) {
  const step = { PageDown: "next", PageUp: "prev" }[event.key];
  if (!step) return;
  event.preventDefault();
  event.stopPropagation();
  Reveal[step]();
}

async function start() {
  const lesson = document.getElementById("lesson"), deck = new Deck();
  const notes = lesson.querySelector("aside.notes");
  lesson.querySelectorAll("a").forEach((link) => link.replaceWith(...link.childNodes));
  lesson.querySelectorAll("section").forEach((section) => {  // which would be slides for reveal
    section.replaceWith(make("div", { class: section.className }, ...section.childNodes));
  });
  lesson.querySelectorAll(".cell:has(details.attnlab-answer)").forEach((cell) => {
    cell.querySelector("summary").after(...cell.querySelectorAll(":scope > .highlight"));
  });
  await Promise.all([...document.images].map((image) => image.decode().catch(() => {})));
  lesson.before(deck.slides);
  notes.remove();
  notes.querySelectorAll("details").forEach((fold) => { fold.open = true; });
  for (const part of [...lesson.children]) {
    deck.leave();
    for (const block of blocksOf(part)) {
      if (block.matches(HEADING)) deck.title(block);
      else deck.add(block);
    }
  }
  deck.slides.querySelectorAll("section.slide").forEach(fit);
  deck.slides.querySelector("section.slide").append(notes);
  const host = make("div", { class: "reveal" });
  deck.slides.replaceWith(host);
  host.append(deck.slides);
  document.querySelectorAll("style:not(head style)").forEach((style) => document.head.append(style));
  lesson.remove();
  addEventListener("keydown", turn, true);
  await Reveal.initialize({
    width: 1280, height: HEIGHT, margin: 0, minScale: 0.1, maxScale: 4, center: false, hash: true,
    transition: "none", slideNumber: "c/t", plugins: [RevealNotes],
  });
}

start();
