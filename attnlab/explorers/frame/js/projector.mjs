// A page made larger for a projector, by a button of any explorer or live figure; and explorers that
// are in sight as a whole there and on slides.

// What is JupyterLab's own, and the widgets that are no explorers. A bar of controls sticks to the
// window, and not to a box around an output, which does not scroll.
const AROUND = new CSSStyleSheet();
AROUND.replaceSync(`[data-projector=on] { --jp-content-font-size1: 20px; --jp-code-font-size: 18px; }
[data-projector=on] .attnlab-predict { zoom: 1.25; }
.jp-CodeCell:not(.jp-mod-outputsScrolled)
  :is(.jp-OutputArea, .jp-OutputArea-child, .jp-OutputArea-output):has(.attnlab-moves) { overflow: clip; }`);

/** Style what is around an explorer. */
export function adopt(host) {
  host.classList.add("attnlab-moves");
  if (document.adoptedStyleSheets.includes(AROUND)) return;
  document.adoptedStyleSheets = [...document.adoptedStyleSheets, AROUND];
}

export function isProjected() {
  return document.documentElement.dataset.projector === "on";
}

/** Make everything on the page larger, or as it was. */
export function project() {
  document.documentElement.dataset.projector = isProjected() ? "off" : "on";
}

// of a card on a projector, of the picture on a slide
const SIZES = { large: [1.75, 1.65, 1.55, 1.45, 1.35, 1.25, 1.15, 1.05, 1],
  slide: [1, 0.95, 0.9, 0.85, 0.8] };

/**
 * Keep controls and picture in sight together, in the largest size at which they are; returns what
 * looks again. In the same window, before an answer and after it, they only become smaller: what is
 * pointed at must not jump.
 */
export function keepInSight({ host, card, sayLine, picture, signal }) {
  let sizes, place;
  const isOut = () => {
    const slide = host.closest("section.slide");
    if (slide) return slide.scrollHeight > slide.clientHeight;
    const [top, bottom] = [card.getBoundingClientRect().top, picture.getBoundingClientRect().bottom];
    return bottom - top > heightAround(host);
  };
  const look = () => {
    const kind = Object.keys(SIZES).findLast((one) => host.classList.contains(one));
    const now = [kind, innerWidth, innerHeight, card.className].join();
    if (now !== place) sizes = SIZES[kind] ?? [""];
    place = now;
    const part = kind === "slide" ? picture : host;
    part.style.zoom = sizes[0];
    while (sizes.length > 1 && isOut()) {
      sizes = sizes.slice(1);
      part.style.zoom = sizes[0];
    }
  };
  const watcher = new ResizeObserver(look);
  for (const one of [card, sayLine]) watcher.observe(one);
  signal.addEventListener("abort", () => watcher.disconnect());
  return look;
}

/** The height in which an explorer is seen; a frame of a page is as high as what it holds. */
function heightAround(host) {
  const panel = host.closest(".jp-WindowedPanel-outer");
  return panel?.clientHeight ?? (self === top ? innerHeight : screen.availHeight);
}
