// What a reader has chosen, kept by the browser; in the head, so that nothing flickers.
"use strict";

const DARK = matchMedia("(prefers-color-scheme: dark)");

/** Return what is kept under a name, or null; a browser may refuse to keep anything. */
function recall(name) {
  try {
    return JSON.parse(localStorage.getItem(`attnlab.${name}`));
  } catch {
    return null;
  }
}

function keep(name, value) {
  try {
    localStorage.setItem(`attnlab.${name}`, JSON.stringify(value));
  } catch { /* the choice holds for this page */ }
}

/** Note the settings in attributes of the page, which its style and the explorers follow. */
function applySettings({ theme = recall("theme"), code = recall("code"),
  projector = recall("projector") } = {}) {
  const { dataset } = document.documentElement;
  dataset.theme = ["light", "dark"].includes(theme) ? theme : DARK.matches ? "dark" : "light";
  dataset.code = code === "hidden" ? "hidden" : "shown";
  dataset.projector = projector === "on" && !("slides" in dataset) ? "on" : "off";
}

DARK.addEventListener("change", () => applySettings());
addEventListener("storage", () => applySettings());  // changed on another page
applySettings();
