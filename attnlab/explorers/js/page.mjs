// Explorers in a page without a kernel: find them, start them.
import { mount } from "./base.mjs";

/** A stand-in for the model of a widget: it remembers what is set, and nobody else hears it. */
export function loneModel({ state, data, answer }) {
  const values = { ...state, data, answer };
  return {
    alone: true,
    get: (name) => values[name],
    set: (name, value) => { values[name] = value; },
    save_changes: () => {},
    on: () => {},
    off: () => {},
  };
}

/** Start every explorer of the page whose module has arrived and that does not move yet. */
export function wake(modules) {
  for (const host of document.querySelectorAll(".attnlab-explorer")) {
    const explorer = modules[host.dataset.explorer];
    if (!explorer || host.shadowRoot) continue;
    const block = host.querySelector('script[type="application/json"]');
    if (!block) continue;  // a page that shows no scripts: the picture stays
    mount(explorer, loneModel(JSON.parse(block.textContent)), host);
  }
}
