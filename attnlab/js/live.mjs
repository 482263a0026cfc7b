// Controls around a picture that Python draws. What Python has drawn last is in `shown`: the places
// of the controls, a sentence, an error. `places` are those that the controls are set to.

const PATIENCE = 1500;  // ms until a silent kernel is spoken of
const SILENT = "Python has not drawn this yet. If the kernel is busy, wait; if it was restarted, run "
  + "this cell again.";
let groups = 0;

function render({ model, el }) {
  const image = make("img", { alt: model.get("alt") });
  const sentence = make("div", { role: "status" }), note = make("p", { role: "status" });
  const error = make("pre", { role: "alert" });
  const picture = make("div", { class: "attnlab-live-picture" }, image);
  const set = (name, place) => {
    model.set("places", { ...model.get("places"), [name]: place });
    model.save_changes();
    wait();
  };
  const stop = new AbortController();
  const controls = model.get("stops").map(({ name, kind, labels }) =>
    (kind === "slider" ? sliderOf : choiceOf)(name, labels, (place) => set(name, place)));
  const bar = make("div", { class: "attnlab-live-bar", role: "group", "aria-label": "Controls" },
    ...controls.map(({ element }) => element), projectorButton(stop.signal));
  image.style.width = `${model.get("width")}px`;
  el.classList.add("attnlab-live");
  el.replaceChildren(bar, sentence, note, error, picture);
  keepState(model);
  keepKeys(bar);

  let timer, address;
  const follow = () => {
    const places = model.get("places");
    controls.forEach(({ show }, i) => show(places[model.get("stops")[i].name]));
    wait();
  };
  const isLate = () => {
    const drawn = model.get("shown").places;
    return Object.entries(model.get("places")).some(([name, place]) => drawn[name] !== place);
  };
  /** Say so if the picture is not that of the controls for some time. */
  const wait = () => {
    clearTimeout(timer);
    const tell = (late) => {
      note.textContent = late ? SILENT : "";
      sentence.hidden = late || Boolean(model.get("shown").error);
      picture.classList.toggle("stale", late || Boolean(model.get("shown").error));
    };
    if (isLate()) timer = setTimeout(() => tell(isLate()), PATIENCE);
    else tell(false);
  };
  const draw = () => {
    const shown = model.get("shown");
    if (sentence.innerHTML !== shown.sentence) sentence.innerHTML = shown.sentence;
    error.textContent = shown.error;
    wait();
  };
  const drawPicture = () => {
    const old = address;
    address = URL.createObjectURL(new Blob([model.get("picture")], { type: "image/png" }));
    image.src = address;
    if (old) URL.revokeObjectURL(old);
  };
  const callbacks = { places: follow, shown: draw, picture: drawPicture };
  for (const [name, callback] of Object.entries(callbacks)) {
    callback();
    model.on(`change:${name}`, callback);
  }
  return () => {
    stop.abort();
    clearTimeout(timer);
    URL.revokeObjectURL(address);
    for (const [name, callback] of Object.entries(callbacks)) model.off(`change:${name}`, callback);
  };
}

/** A button that makes the page larger, and shows whether it is, until the signal comes. */
function projectorButton(signal) {
  const button = make("button", { type: "button", class: "projector" }, "Projector");
  const show = () => button.setAttribute("aria-pressed", isProjected());
  const watcher = new MutationObserver(show);
  watcher.observe(document.documentElement, { attributes: true });
  signal.addEventListener("abort", () => watcher.disconnect());
  button.addEventListener("click", project);
  show();
  return button;
}

function sliderOf(name, labels, onMove) {
  const width = Math.max(...labels.map((label) => label.length));
  const output = make("output", { style: `min-width:${width}ch` });
  const input = make("input", { type: "range", min: 0, max: labels.length - 1, "aria-label": name });
  const show = (place) => {
    input.value = place;
    output.textContent = labels[place];
    input.setAttribute("aria-valuetext", labels[place]);
  };
  input.addEventListener("input", () => {
    const place = Number(input.value);
    show(place);
    onMove(place);
  });
  return { element: make("label", {}, make("span", {}, name), input, output), show };
}

function choiceOf(name, labels, onPick) {
  groups += 1;
  const inputs = labels.map((label) => make("input", { type: "radio", name: `live-${groups}` }));
  inputs.forEach((input, i) => input.addEventListener("change", () => onPick(i)));
  const options = inputs.map((input, i) => make("label", {}, input, make("span", {}, labels[i])));
  const element = make("div", { role: "radiogroup", "aria-label": name },
    make("span", {}, name), ...options);
  return { element, show: (place) => { inputs[place].checked = true; } };
}

export default { render };
