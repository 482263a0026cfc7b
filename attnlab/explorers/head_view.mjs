// Heads of anybody's weights.
import { headsPicture } from "./frame/js/asking.mjs";
import { showControls } from "./frame/js/controls.mjs";

export function render(lab) {
  const { tokens, keys, packed } = lab.data, layers = unpacked(packed);
  const controls = showControls(lab), show = headsPicture(lab);
  lab.bar.hidden = packed.shape[0] === 1;
  return (state) => {
    controls(state);
    const reading = { tokens, keys: keys ?? tokens, weights: layers(state.layer) };
    return show({ reading, place: state.word }, state);
  };
}

/** Return what gives the weights of a layer: they come as bytes, and are unpacked when asked for. */
function unpacked({ shape: [, heads, L, S], bytes, scale, text }) {
  const raw = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0)), known = [];
  const levels = bytes === 2 ? new Uint16Array(raw.buffer) : raw, nan = 256 ** bytes - 1;
  const weight = (level) => level === nan ? NaN : Math.round(1e4 * scale * (level / (nan - 1)) ** 2) / 1e4;
  const row = (start) => Array.from(levels.subarray(start, start + S), weight);
  const map = (start) => Array.from({ length: L }, (_, i) => row(start + i * S));
  return (layer) => {
    known[layer] ??= Array.from({ length: heads }, (_, head) => map((layer * heads + head) * L * S));
    return known[layer];
  };
}
