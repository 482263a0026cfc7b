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
  for (const layouts of [["rows", "columns"], ["broken"]]) {
    for (const size of SIZES) {
      slide.style.fontSize = `${size}px`;
      slide.style.setProperty("--zoom", size / 24);
      for (const layout of layouts) {
        slide.dataset.layout = layout;
        if (boxes.every(holds)) return;
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

async function start() {
  document.querySelectorAll(".slide a").forEach((link) => link.replaceWith(...link.childNodes));
  document.querySelectorAll(".notes details").forEach((fold) => { fold.open = true; });
  document.querySelectorAll(".slide section").forEach((part) => {  // would be slides for reveal
    part.replaceWith(make("div", { class: part.className }, ...part.childNodes));
  });
  await Promise.all([...document.images].map((image) => image.decode().catch(() => {})));
  document.querySelectorAll("section.slide").forEach(fit);
  document.getElementById("deck").className = "reveal";  // which hides all but one slide
  addEventListener("keydown", turn, true);
  await Reveal.initialize({
    width: 1280, height: 720, margin: 0, minScale: 0.1, maxScale: 4, center: false, hash: true,
    transition: "none", slideNumber: "c/t", plugins: [RevealNotes],
  });
}

start();
