// An explorer that Python declares: controls, panels, and a frame for every state. Without frames, a
// frame is what Python has drawn at this state.
import { showControls } from "./controls.mjs";
import { showPanels } from "./panels.mjs";

export function render(lab) {
  const { parts, pool, frames, frame_values: values, markup } = lab.data;
  if (frames && !markup) lab.longest(frames.map((frame) => pool[frame[parts.indexOf("say")]]));
  const frameAt = (state) => Object.fromEntries(
    frames[placeOf(values, state)].map((place, i) => [parts[i], pool[place]]));
  const controls = showControls(lab), panels = showPanels(lab);
  return (state, answer) => {
    const frame = frames ? frameAt(state) : (answer ?? lab.model.get("answer")).drawn;
    controls(state);
    panels(frame, state);
    return frame;
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
