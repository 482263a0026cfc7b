// A page made larger for a projector, by a button of any explorer or live figure.

// what is JupyterLab's own, and the widgets that are no explorers
const PROJECTED = new CSSStyleSheet();
PROJECTED.replaceSync(`[data-projector=on] { --jp-content-font-size1: 20px; --jp-code-font-size: 18px; }
[data-projector=on] .attnlab-predict { zoom: 1.25; }`);

export function isProjected() {
  return document.documentElement.dataset.projector === "on";
}

/** Make everything on the page larger, or as it was. */
export function project() {
  document.documentElement.dataset.projector = isProjected() ? "off" : "on";
  if (document.adoptedStyleSheets.includes(PROJECTED)) return;
  document.adoptedStyleSheets = [...document.adoptedStyleSheets, PROJECTED];
}
