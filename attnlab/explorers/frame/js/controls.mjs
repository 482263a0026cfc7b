// Controls: made from the declarations of Python, or by hand where a module needs its own.
import { html, setText } from "./drawing.mjs";

/** A button. */
export function button(lab, text, onClick) {
  const element = html("button", { type: "button" }, text);
  lab.on(element, "click", onClick);
  return element;
}

/** A slider over listed stops; `show(value)` moves it. */
export function slider(lab, { label, name, stops, texts, text = String, width, onMove }) {
  const write = (value) => texts?.[stops.indexOf(value)] ?? text(value);
  const longest = Math.max(...stops.map((stop) => write(stop).length));
  const output = longest > 6 ? html("output", { class: "words" })
    : html("output", { style: `min-width:${longest}ch` });
  const input = html("input", { type: "range", min: 0, max: stops.length - 1, step: 1,
    "aria-label": name, style: width ? `width:${width}px` : null });
  const show = (value) => {
    input.value = stops.indexOf(value);
    setText(output, write(value));
    input.setAttribute("aria-valuetext", write(value));
  };
  lab.on(input, "input", () => onMove(stops[Number(input.value)]));
  return { element: html("label", { class: "control slider" }, label, input, output), input, show };
}

let groups = 0;

/** A row of choices, one of which is on; `options` are [value, text]. */
export function choice(lab, { label, options, onPick }) {
  groups += 1;
  const inputs = options.map(([value]) =>
    html("input", { type: "radio", name: `choice-${groups}`, value: String(value) }));
  const labels = inputs.map((input, i) =>
    html("label", {}, input, html("span", {}, options[i][1])));
  inputs.forEach((input, i) => lab.on(input, "change", () => onPick(options[i][0])));
  const show = (value) => inputs.forEach((input, i) => { input.checked = options[i][0] === value; });
  const element = html("div", { class: "control", role: "radiogroup", "aria-label": label },
    html("span", { class: "label" }, label), html("div", { class: "choice" }, labels));
  return { element, show };
}

/** A row of words that can be switched on, each for itself; `show(positions)` says which are. */
export function chips(lab, { label, words, onToggle }) {
  const buttons = words.map((word, i) => button(lab, word, () => onToggle(i)));
  const show = (on) => buttons.forEach((one, i) => one.setAttribute("aria-pressed", on.includes(i)));
  const element = html("div", { class: "chips", role: "group", "aria-label": label },
    html("span", { class: "label" }, label), buttons);
  return { element, show };
}

// --- declared in Python ----------------------------------------------------------------------------

const MAKERS = {
  slider: (lab, { name, values, label, spoken, presets, forward, sets, ...looks }) => {
    const set = (value) => lab.set({ ...sets, [name]: value });
    const knob = slider(lab, { label, name: spoken, stops: values, onMove: set, ...looks });
    const named = presets.map(([value, text]) => {
      const preset = button(lab, text, () => set(value));
      if (text === looks.texts[values.indexOf(value)]) {
        preset.setAttribute("aria-label", `${label} = ${text}`);
      }
      return preset;
    });
    const on = forward ? stepButton(lab, forward, name, values, 1) : null;
    const further = [...(on ? [on.element] : []), ...named];
    return {
      elements: [knob.element, ...(further.length ? [html("div",
        { class: "control", role: "group", "aria-label": `values of ${label}` }, further)] : [])],
      show: () => {
        knob.show(lab.state[name]);  // what is kept, also while another stop is looked at
        on?.show();
      },
    };
  },
  choice: (lab, { name, values, texts, label, sets }) => {
    const row = choice(lab, { label, options: values.map((value, i) => [value, texts[i]]),
      onPick: (value) => lab.set({ ...sets, [name]: value }) });
    return { elements: [row.element], show: (state) => row.show(state[name]) };
  },
  steps: (lab, { name, values, label }) => {
    const pair = [["◀ Back", -1], ["Next ▶", 1]].map(([text, by]) =>
      stepButton(lab, text, name, values, by));
    return {
      elements: [html("div", { class: "control", role: "group", "aria-label": label },
        pair.map(({ element }) => element))],
      show: () => pair.forEach((one) => one.show()),
    };
  },
  reset: (lab, { text }) => {
    const element = button(lab, text, () => lab.set(lab.data.call));
    element.className = "plain";
    return { elements: [element], show: () => {} };
  },
};

/** A button that moves a state by one of its values, and rests at the end. */
function stepButton(lab, text, name, values, by) {
  const next = () => values[values.indexOf(lab.state[name]) + by];
  const element = button(lab, text, () => { if (next() !== undefined) lab.set({ [name]: next() }); });
  // not disabled at the end: it would lose the focus
  const show = () => element.setAttribute("aria-disabled", next() === undefined);
  return { element, show };
}

const indexIn = (values, value) =>
  values.findIndex((one) => JSON.stringify(one) === JSON.stringify(value));

/** Put the declared controls into the bar; returns show(state). */
export function showControls(lab) {
  const made = lab.data.controls.filter(({ kind }) => kind).map((control) => {
    const { elements, show } = MAKERS[control.kind](lab, control);
    lab.bar.append(...elements);
    return { show, elements, when: control.when };
  });
  return (state) => made.forEach(({ show, elements, when }) => {
    show(state);
    if (when) elements.forEach((one) => { one.hidden = !meets(state, when); });
  });
}

/** Whether a state has the values that a condition names. */
export function meets(state, condition) {
  return Object.entries(condition).every(([name, values]) => indexIn(values, state[name]) >= 0);
}

/**
 * Pointing at a button of an element previews the value of its data-NAME, a click keeps it; so do
 * focus and Enter.
 */
export function followPointer(lab, element, name) {
  const follow = (event, change) => {
    const value = event.target.closest("button")?.dataset[name];
    if (value !== undefined) change({ [name]: Number(value) });
  };
  const preview = (event) => follow(event, (values) => lab.preview(values));
  lab.on(element, "pointerover", preview);
  lab.on(element, "focusin", preview);
  lab.on(element, "pointerleave", () => lab.preview({}));
  lab.on(element, "focusout", () => lab.preview({}));
  lab.on(element, "click", (event) => follow(event, (values) => lab.set(values)));
}
