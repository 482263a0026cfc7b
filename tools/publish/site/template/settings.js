// What a reader has chosen, kept by the browser; in the head, so that nothing flickers.
"use strict";

const DARK = matchMedia("(prefers-color-scheme: dark)");
const refused = {};  // what the browser would not keep holds for this page

/** Return what is kept under a name, or null. */
function recall(name) {
  try {
    return refused[name] ?? JSON.parse(localStorage.getItem(`attnlab.${name}`));
  } catch {
    return null;
  }
}

function keep(name, value) {
  try {
    localStorage.setItem(`attnlab.${name}`, JSON.stringify(value));
  } catch {
    refused[name] = value;
  }
}

/** Note the settings in attributes of the page, which its style and the explorers follow. */
function applySettings() {
  const { dataset } = document.documentElement, theme = recall("theme");
  dataset.theme = ["light", "dark"].includes(theme) ? theme : DARK.matches ? "dark" : "light";
  dataset.code = recall("code") === "hidden" ? "hidden" : "shown";
  dataset.projector = recall("projector") === "on" && !("slides" in dataset) ? "on" : "off";
}

/** Change a setting of all pages. */
function choose(name, value) {
  keep(name, value);
  applySettings();
}

DARK.addEventListener("change", applySettings);
addEventListener("storage", applySettings);  // changed on another page
applySettings();

/** An element with attributes and children. */
function make(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}
