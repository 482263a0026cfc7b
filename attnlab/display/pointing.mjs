// Text and picture that know each other: what a text names is outlined in the picture, and back.
// Boxes are {left, top, width, height} on the screen, as getBoundingClientRect gives them.

const LOOK = new CSSStyleSheet();
LOOK.replaceSync(`
  .attnlab-named { border-radius: 3px; text-decoration: underline dotted 1px;
    text-underline-offset: 0.22em; }
  .attnlab-named:is(:hover, :focus, .lit) {
    background: color-mix(in srgb, var(--focus, #d98200) 30%, transparent); }
  .attnlab-outline { position: absolute; pointer-events: none; border-radius: 3px;
    outline: 3px solid var(--focus, #d98200); box-shadow: 0 0 0 4px var(--ink, black); }
  figure:has(> .attnlab-outline) { position: relative; }
  @media print { .attnlab-named { text-decoration: none; } .attnlab-outline { display: none; } }`);

/**
 * Let marks and what they speak of light each other up, by pointer and by focus.
 *
 * `boxesOf` is a Map from each mark to a function that returns the boxes it speaks of; they are
 * drawn over `host`, which is positioned. Returns a function that takes the marks away.
 */
export function relate(boxesOf, host) {
  const stop = new AbortController(), root = host.getRootNode();
  const on = (target, names, work) => names.forEach((name) =>
    target.addEventListener(name, work, { signal: stop.signal }));
  let frames = [];
  const hide = () => frames.forEach((frame) => frame.remove());
  const show = (boxes) => {
    hide();
    const origin = host.getBoundingClientRect();
    frames = boxes.map(({ left, top, width, height }) => {
      const frame = document.createElement("span");
      frame.className = "attnlab-outline";
      const style = { left: left - origin.left - host.clientLeft, width,
        top: top - origin.top - host.clientTop, height };
      for (const [name, pixels] of Object.entries(style)) frame.style[name] = `${pixels}px`;
      host.append(frame);
      return frame;
    });
  };
  const light = (x, y) => boxesOf.forEach((boxes, mark) => {
    const isIn = ({ left, top, width, height }) =>
      x > left && x < left + width && y > top && y < top + height;
    mark.classList.toggle("lit", boxes().some(isIn));
  });
  boxesOf.forEach((boxes, mark) => {
    on(mark, ["pointerenter", "focus"], () => show(boxes()));
    on(mark, ["pointerleave"], () => { if (!mark.matches(":focus")) hide(); });
    on(mark, ["blur"], hide);
  });
  on(host, ["pointermove"], ({ clientX, clientY }) => light(clientX, clientY));
  on(host, ["focusin"], ({ target }) => {
    const { left, top, width, height } = target.getBoundingClientRect();
    light(left + width / 2, top + height / 2);
  });
  on(host, ["pointerleave", "focusout"], () => light(-1, -1));
  if (!root.adoptedStyleSheets.includes(LOOK)) root.adoptedStyleSheets.push(LOOK);
  return () => {
    hide();
    stop.abort();
    boxesOf.forEach((_, mark) => mark.replaceWith(...mark.childNodes));
  };
}

/**
 * Put a part of the text of an element into a mark, which the keyboard reaches, and return it, unless
 * the part reaches into another node, or it is code, a link or a formula; `about` says what is meant.
 */
export function markAt(texts, from, length, about) {
  const { node, start, end } = texts.findLast((text) => text.start <= from);
  if (from + length > end || node.parentNode.closest("a, code, math, .attnlab-named")) return null;
  const range = document.createRange(), mark = document.createElement("span");
  range.setStart(node, from - start);
  range.setEnd(node, from - start + length);
  range.surroundContents(mark);
  mark.className = "attnlab-named";
  mark.tabIndex = 0;
  mark.title = about;
  return mark;
}

/** The text nodes in an element, each with where it starts and ends in the text of all of them. */
export function textsIn(element) {
  const walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT), texts = [];
  for (let start = 0; walker.nextNode();) {
    const node = walker.currentNode, end = start + node.length;
    texts.push({ node, start, end });
    start = end;
  }
  return texts;
}
