// What all widgets of attnlab share. This text stands in front of the script of each of them.

const WIDGET_VIEW = "application/vnd.jupyter.widget-view+json";
const WIDGET_STATE = "application/vnd.jupyter.widget-state+json";

/**
 * Store the widgets that a notebook shows in the notebook, whenever JupyterLab saves it, so that
 * they are there when it is opened again. JupyterLab's own setting for this is off.
 */
function keepState(model) {
  const manager = model.widget_manager, { context } = manager ?? {};
  if (!context?.saveState?.connect || !manager.get_state_sync) return;
  model.on("change", () => { context.model.dirty = true; });
  const kept = (globalThis.attnlabKept ??= new WeakSet());
  if (kept.has(manager)) return;
  kept.add(manager);
  context.saveState.connect((_, phase) => {
    if (phase !== "started") return;
    const before = context.model.getMetadata("widgets")?.[WIDGET_STATE]?.state;
    const now = stateOf(manager), all = { ...before, ...now.state }, state = {};
    const add = (id) => {
      if (!all[id] || state[id]) return;
      state[id] = all[id];
      for (const [, part] of JSON.stringify(all[id].state).matchAll(/IPY_MODEL_([\w-]+)/g)) add(part);
    };
    for (const cell of context.model.cells) {
      for (let i = 0; i < (cell.outputs?.length ?? 0); i += 1) {
        add(cell.outputs.get(i).data[WIDGET_VIEW]?.model_id);
      }
    }
    context.model.setMetadata("widgets", { [WIDGET_STATE]: { ...now, state } });
  });
}

/** The states of all widgets, also of those whose kernel is gone, which JupyterLab leaves out. */
function stateOf(manager) {
  const models = [...(manager._modelsSync?.values() ?? [])].filter((model) => !model.comm_live);
  models.forEach((model) => { model._comm_live = true; });
  try {
    return manager.get_state_sync({ drop_defaults: true });
  } finally {
    models.forEach((model) => { model._comm_live = false; });
  }
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
