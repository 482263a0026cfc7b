// Explorers in a page without a kernel: find them, start them.
import { mount } from "./base.mjs";

/**
 * A stand-in for the model of a widget: it remembers what is set, and calls `onSave` after it.
 * `opened` leaves out the prediction, for a state that is shown on purpose.
 */
export function loneModel({ state, data, answer, opened = false }, onSave = () => {}) {
  const values = { ...state, data, answer };
  return {
    alone: true,
    opened,
    get: (name) => values[name],
    set: (name, value) => { values[name] = value; },
    save_changes: onSave,
    on: () => {},
    off: () => {},
  };
}

/**
 * Start every explorer of the page whose module has arrived and that does not move yet.
 *
 * Two events tell the page around it: "attnlab:start", whose listener may change what is stored
 * before it is shown and may later ask for a value, and "attnlab:moved", soon after a change.
 */
export function wake(modules) {
  for (const host of document.querySelectorAll(".attnlab-explorer")) {
    const explorer = modules[host.dataset.explorer];
    if (!explorer || host.shadowRoot) continue;
    const block = host.querySelector('script[type="application/json"]');
    if (!block) continue;  // a page that shows no scripts: the picture stays
    const tell = (name, detail) =>
      host.dispatchEvent(new CustomEvent(`attnlab:${name}`, { bubbles: true, detail }));
    const stored = JSON.parse(block.textContent);
    let model;
    tell("start", { explorer, stored, get: (name) => model.get(name) });
    model = loneModel(stored, () => tell("moved"));
    mount(explorer, model, host);
  }
}
