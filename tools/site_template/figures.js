// Live figures without a kernel: every picture lies in the page.
function make(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

/** Give a live figure its controls; the JSON after it holds every picture. */
function move(box) {
  const block = box.nextElementSibling;
  if (!block?.matches("script[type='application/json']")) return;
  const { controls, pictures, sentences, frames } = JSON.parse(block.textContent);
  const image = box.querySelector("img"), places = controls.map(({ at }) => at);
  const words = make("div", { role: "status" });
  box.querySelector("[role=status]")?.remove();
  box.lastElementChild.replaceWith(words);  // what to do in JupyterLab
  const show = () => {
    const frame = controls.reduce((sum, { stops }, i) => sum * stops.length + places[i], 0);
    image.src = `data:image/png;base64,${pictures[frames[frame][0]]}`;
    words.innerHTML = sentences[frames[frame][1]];
    words.firstElementChild?.removeAttribute("role");
  };
  const elements = controls.map((control, i) => {
    const set = (place) => { places[i] = place; show(); };
    return (control.kind === "slider" ? sliderOf : choiceOf)(control, set);
  });
  image.before(make("div", { class: "live-controls", role: "group", "aria-label": "Controls" }, ...elements));
  show();
}

function sliderOf({ name, stops, at }, set) {
  const output = make("output", {});
  const input = make("input", { type: "range", min: 0, max: stops.length - 1, step: 1, value: at });
  const announce = () => {
    output.textContent = stops[input.value];
    input.setAttribute("aria-valuetext", stops[input.value]);
  };
  input.addEventListener("input", () => { announce(); set(Number(input.value)); });
  announce();
  return make("label", {}, `${name} `, input, output);
}

let groups = 0;

function choiceOf({ name, stops, at }, set) {
  groups += 1;
  const labels = stops.map((stop, i) => {
    const input = make("input", { type: "radio", name: `choice-${groups}` });
    input.checked = i === at;
    input.addEventListener("change", () => set(i));
    return make("label", {}, input, make("span", {}, stop));
  });
  return make("fieldset", {}, make("legend", {}, name), ...labels);
}

document.querySelectorAll(".attnlab-live-stored").forEach(move);
