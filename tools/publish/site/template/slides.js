// Slides of a lesson: each in the largest type in which nothing of it is cut off; then start reveal.

const SIZES = [30, 28, 26, 24, 22, 20];  // px

function holds(box) {
  return box.scrollHeight <= box.clientHeight && box.scrollWidth <= box.clientWidth;
}

/** Lay a slide out in the largest type in which nothing is cut off: code over its output, or beside
 * it. Only an output whose lines are longer than a slide is broken.
 */
function fit(slide) {
  const boxes = [slide, ...slide.querySelectorAll(".body, .body > *, pre")];
  const fitsItself = slide.querySelector(".attnlab-explorer");  // by the size of its picture
  for (const layouts of [["rows", "columns"], ["broken"]]) {
    for (const size of SIZES) {
      slide.style.fontSize = `${size}px`;
      slide.style.setProperty("--zoom", size / 24);
      for (const layout of layouts) {
        slide.dataset.layout = layout;
        if (fitsItself || boxes.every(holds)) return;
      }
    }
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

/** C hides the code of all slides, and shows it again; slides of nothing but code are passed over. */
function hideCode() {
  const slides = document.querySelectorAll("section.slide"), { dataset } = document.documentElement;
  const goOn = () => Reveal.slide(Reveal.getIndices().h);
  Reveal.on("beforeslidechange", (event) => {
    const there = event.indexh, step = Math.sign(there - Reveal.getIndices().h) || 1;
    if (dataset.code !== "hidden" || !slides[there].matches(".code:not(:has(.output))")) return;
    event.preventDefault();
    Reveal.slide(there + step);
  });
  Reveal.addKeyBinding({ keyCode: 67, key: "C", description: "Hide code" }, () => {
    choose("code", dataset.code === "hidden" ? "shown" : "hidden");
    goOn();
  });
  goOn();
}

/** Put the page of `make poll` in the place of each question; two steps bring bars and answer. */
function poll() {
  const bodies = [...document.querySelectorAll("section.question .body")];
  const pages = bodies.map(() => make("iframe", { title: "Poll" }));
  bodies.forEach((body, number) => {
    const steps = [1, 2].map(() => make("span", { class: "fragment" }));
    body.replaceChildren(pages[number], ...steps);
  });
  Reveal.on("slidechanged", follow);
  Reveal.on("fragmentshown", follow);
  Reveal.on("fragmenthidden", follow);
  Reveal.on("ready", follow);

  function follow() {
    const body = Reveal.getCurrentSlide().querySelector(".body"), number = bodies.indexOf(body);
    if (number < 0) return;
    const step = body.querySelectorAll(".fragment.visible").length;
    pages[number].src = `teacher#${3 * number + step}`;
  }
}

async function start() {
  document.querySelectorAll(".slide a").forEach((link) => link.replaceWith(...link.childNodes));
  document.querySelectorAll(".notes details").forEach((fold) => { fold.open = true; });
  document.querySelectorAll(".slide section").forEach((part) => {  // would be slides for reveal
    part.replaceWith(make("div", { class: part.className }, ...part.childNodes));
  });
  await Promise.all([...document.images].map((image) => image.decode().catch(() => {})));
  document.querySelectorAll("section.slide").forEach(fit);
  if ("poll" in document.documentElement.dataset) poll();
  document.getElementById("deck").className = "reveal";  // which hides all but one slide
  addEventListener("keydown", turn, true);
  await Reveal.initialize({
    width: 1280, height: 720, margin: 0, minScale: 0.1, maxScale: 4, center: false, hash: true,
    transition: "none", slideNumber: "c/t", plugins: [RevealNotes],
  });
  hideCode();
}

start();
