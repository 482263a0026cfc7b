// Things that are dragged over a plane.

/**
 * Let an element be dragged over a plane by mouse and finger, and moved by keys: arrows go a step,
 * Page Up and Page Down five steps, Home and End to the left and right edge.
 *
 * `size` is how wide and high the plane is in its own units, upwards is more; `place()` says where
 * the element is, `onMove([x, y])` where it shall be, which may lie outside the plane.
 */
export function makeMovable(lab, element, plane, { size, step, place, onMove }) {
  const keys = { ArrowRight: [step, 0], ArrowLeft: [-step, 0], ArrowUp: [0, step],
    ArrowDown: [0, -step], PageUp: [0, 5 * step], PageDown: [0, -5 * step], Home: [-size[0], 0],
    End: [size[0], 0] };
  let grip = null;
  element.style.touchAction = "none";
  lab.on(element, "pointerdown", (event) => {
    element.setPointerCapture(event.pointerId);
    element.focus();
    grip = { across: event.clientX, down: event.clientY, from: place() };
  });
  lab.on(element, "pointermove", (event) => {
    if (!grip) return;
    const box = plane.getBoundingClientRect();
    onMove([grip.from[0] + (size[0] * (event.clientX - grip.across)) / box.width,
      grip.from[1] - (size[1] * (event.clientY - grip.down)) / box.height]);
  });
  for (const end of ["pointerup", "pointercancel", "lostpointercapture"]) {
    lab.on(element, end, () => { grip = null; });
  }
  lab.on(element, "keydown", (event) => {
    if (!keys[event.key]) return;
    event.preventDefault();
    onMove(place().map((value, axis) => value + keys[event.key][axis]));
  });
}
