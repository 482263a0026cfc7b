// Heads of anybody's weights.
import { headsPicture } from "./frame/js/asking.mjs";
import { showControls } from "./frame/js/controls.mjs";

export function render(lab) {
  const { layers, tokens } = lab.data, controls = showControls(lab), show = headsPicture(lab);
  lab.bar.hidden = layers.length === 1;
  return (state) => {
    controls(state);
    return show({ reading: { tokens, weights: layers[state.layer] }, place: state.word }, state);
  };
}
