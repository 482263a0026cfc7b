// An explorer that Python declares: controls, panels, and a frame for every state.
import { showControls } from "./controls.mjs";
import { showPanels } from "./panels.mjs";

export function render(lab) {
  const { parts, pool, frames, frame_values: values } = lab.data;
  const says = parts.indexOf("say");
  lab.longest(frames.map((frame) => pool[frame[says]]));
  const controls = showControls(lab), panels = showPanels(lab);
  return (state) => {
    const frame = frames[placeOf(values, state)];
    const seen = Object.fromEntries(parts.map((part, i) => [part, pool[frame[i]]]));
    controls(state);
    panels(seen, state);
    return seen;
  };
}

/** The place of a state among all states: those of the first value come first. */
function placeOf(values, state) {
  return Object.entries(values).reduce((place, [name, all]) => {
    const index = all.indexOf(state[name]);
    if (index < 0) throw new Error(`${name} = ${state[name]} is not one of its values.`);
    return place * all.length + index;
  }, 0);
}
