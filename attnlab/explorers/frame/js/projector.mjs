// A page made larger for a projector, by a button of any explorer or live figure.

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
