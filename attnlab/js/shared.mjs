// What all widgets of attnlab share. This text stands in front of the script of each of them.

const WIDGET_VIEW = "application/vnd.jupyter.widget-view+json";
const WIDGET_STATE = "application/vnd.jupyter.widget-state+json";

/**
 * Store the widgets that a notebook shows in the notebook, whenever JupyterLab saves it, so that
 * they are there when it is opened again. JupyterLab's own setting for this is off.
 */
function keepState(manager) {
  const { context } = manager ?? {};
  if (!context?.saveState?.connect || !manager.get_state_sync) return;
  const kept = (globalThis.attnlabKept ??= new WeakSet());
  if (kept.has(manager)) return;
  kept.add(manager);
  context.saveState.connect((_, phase) => {
    if (phase !== "started") return;
    const all = manager.get_state_sync({ drop_defaults: true }), state = {};
    const add = (id) => {
      if (!all.state[id] || state[id]) return;
      state[id] = all.state[id];
      const parts = JSON.stringify(state[id].state).matchAll(/IPY_MODEL_([\w-]+)/g);
      for (const [, part] of parts) add(part);
    };
    for (const cell of context.model.cells) {
      for (let i = 0; i < (cell.outputs?.length ?? 0); i += 1) {
        add(cell.outputs.get(i).data[WIDGET_VIEW]?.model_id);
      }
    }
    context.model.setMetadata("widgets", { [WIDGET_STATE]: { ...all, state } });
  });
}

/** JupyterLab would take letters as commands; Escape, Tab and Ctrl keys are its own. */
function keepKeys(element) {
  element.addEventListener("keydown", (event) => {
    const passes = ["Escape", "Tab"].includes(event.key) || event.ctrlKey || event.metaKey;
    if (!passes) event.stopPropagation();
  });
}

function make(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

/** An element whose text is HTML that Python has escaped where it has to be. */
function rich(tag, html, attributes = {}) {
  const element = make(tag, attributes);
  element.innerHTML = html;
  return element;
}

/** Typeset the formulas of an element, where the page has something that can. */
function typeset(manager, element) {
  if (!element.textContent.includes("$")) return;
  const typesetter = (manager?._rendermime ?? manager?.rendermime)?.latexTypesetter;
  if (typesetter) typesetter.typeset(element);
  else globalThis.MathJax?.typesetPromise?.([element]);
}
