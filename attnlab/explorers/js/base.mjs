// What every explorer stands on: the card, the controls, the prediction, the way to the kernel.
//
// A module of an explorer exports
//   title, hint          texts over the picture
//   prediction(data, answer)  {question, options, right, why, settled(state)}: asked first
//   render(lab)          builds controls into lab.bar and a picture into lab.picture, and returns
//                        draw(state, answer) -> {say, bad, code}, called after every change
// and changes the state by lab.set({name: value}). `answer` is what the learner's function gave
// for answer.state, or null if there is no such function here. A page without Python may know more
// of them: answer.others, for further states.
import { codeLines } from "./code.mjs";
import { html, setText } from "./drawing.mjs";
import { STYLE } from "./style.mjs";

const PATIENCE = 2500;  // ms until a silent kernel is spoken of

/** Put an explorer into an element; returns a function that takes it out and forgets it. */
export function mount(explorer, model, host) {
  const stop = new AbortController();
  const root = host.shadowRoot ?? host.attachShadow({ mode: "open" });
  const card = html("div", { class: "card", role: "group", "aria-label": explorer.title });
  root.replaceChildren(html("style", {}, STYLE), card);
  const lab = new Lab(explorer, model, card, stop.signal);
  try {
    lab.start();
  } catch (error) {
    stop.abort();
    const text = `This explorer cannot show its state: ${error.message}`;
    card.replaceChildren(html("p", { class: "error", role: "alert" }, text), html("slot"));
    console.warn("attnlab:", error);
  }
  return () => {
    stop.abort();
    root.replaceChildren();
  };
}

class Lab {
  constructor(explorer, model, card, signal) {
    Object.assign(this, { explorer, model, card, signal });
    this.data = model.get("data");
    this.state = this.read();
    this.bar = html("div", { class: "bar", role: "group", "aria-label": "Controls" });
    this.picture = html("div", { class: "picture" });
    this.codeBox = html("pre", {});
    this.sayLine = html("p", { class: "say", role: "status" });
    this.note = html("p", { class: "note", hidden: "" });
    this.error = html("p", { class: "error", role: "alert", hidden: "" });
  }

  start() {
    const { card, explorer } = this;
    card.classList.toggle("large", this.state.large);
    card.append(html("h3", {}, explorer.title), html("p", { class: "hint" }, explorer.hint),
      this.error, this.bar, this.picture, this.sayLine, this.note);
    this.on(card, "keydown", keepKey);
    followTheme(this);
    this.drawState = explorer.render(this);
    this.gate = this.state.ask && explorer.prediction ? makeGate(this) : null;
    this.listen();
    this.draw();
  }

  /** Listen to an event until the explorer is taken away. */
  on(target, type, handler) {
    target.addEventListener(type, handler, { signal: this.signal });
  }

  read() {
    return Object.fromEntries(this.data.state.map((name) => [name, this.model.get(name)]));
  }

  /** Change values of the state, tell the kernel and draw. */
  set(changes) {
    this.previewed = null;
    this.state = { ...this.state, ...changes };
    this.setting = true;
    try {
      for (const [name, value] of Object.entries(changes)) this.model.set(name, value);
    } finally {
      this.setting = false;
    }
    this.model.save_changes();
    this.draw();
  }

  /** Follow what others set, the kernel or another view: any number of values, one picture. */
  listen() {
    let waiting = false;
    const follow = () => {
      if (waiting || this.setting) return;
      waiting = true;
      queueMicrotask(() => {
        waiting = false;
        if (this.signal.aborted) return;
        this.state = this.read();
        this.draw();
      });
    };
    const names = [...this.data.state, "answer"].map((name) => `change:${name}`);
    names.forEach((name) => this.model.on(name, follow));
    this.signal.addEventListener("abort", () => {
      names.forEach((name) => this.model.off(name, follow));
      clearTimeout(this.timer);
    });
  }

  /** Show a state that is not kept, or with nothing the one that is. */
  preview(changes) {
    this.previewed = changes;
    this.draw();
  }

  isDark() {
    return this.card.classList.contains("dark");
  }

  /** What the learner's function gave: for this state, if that is known. */
  answer() {
    const last = this.model.get("answer");
    if (!last?.others || same(last.state, this.state)) return last;
    const other = last.others.find(({ state }) => same(state, this.state));
    return other ? { ...last, ...other } : last;
  }

  draw() {
    const answer = this.answer();
    const fresh = answer && same(answer.state, this.state);
    const used = answer?.drawn && (fresh || !this.model.alone) ? answer : null;
    const { say, bad, code } = this.drawState({ ...this.state, ...this.previewed }, used);
    if (say !== this.said) this.sayLine.replaceChildren(...rich(say));
    this.sayLine.classList.toggle("bad", Boolean(bad));
    if (code !== this.coded) this.codeBox.replaceChildren(...codeLines(code));
    [this.said, this.coded] = [say, code];
    this.card.classList.toggle("large", this.state.large);
    this.showAnswer(answer, fresh);
    this.gate?.look(this.state);
  }

  showAnswer(answer, fresh) {
    const failed = Boolean(answer?.error) && !(this.model.alone && !fresh && answer.drawn);
    const stale = (late) => this.picture.classList.toggle("stale", failed || late);
    this.error.hidden = !failed;
    this.sayLine.hidden = failed;
    if (failed) this.error.textContent = `${answer.name} failed. ${answer.error}`;
    clearTimeout(this.timer);
    this.note.hidden = true;
    stale(false);
    if (!answer || fresh || failed) return;
    if (this.model.alone) {
      this.tell(`Without Python, the browser draws this: run the cell and ${answer.name} does.`);
    } else {
      this.timer = setTimeout(() => {
        stale(true);
        this.tell("Python has not answered yet: the kernel may be busy, or was restarted.");
      }, PATIENCE);
    }
  }

  tell(text) {
    this.note.textContent = text;
    this.note.hidden = false;
  }
}

/** JupyterLab would take arrows, and letters as commands; Escape, Tab and Ctrl keys are its own. */
function keepKey(event) {
  const passes = ["Escape", "Tab"].includes(event.key) || event.ctrlKey || event.metaKey;
  if (!passes) event.stopPropagation();
}

function same(one, other) {
  const text = (state) => JSON.stringify(Object.entries(state ?? {}).sort());
  return text(one) === text(other);
}

/** Words between two stars are bold. */
function rich(text) {
  return text.split("**").map((part, i) => (i % 2 ? html("b", {}, part) : part));
}

// --- theme -----------------------------------------------------------------------------------------

function followTheme(lab) {
  const look = () => {
    const dark = isDarkBehind(lab.card.getRootNode().host);
    const changed = dark !== lab.isDark();
    lab.card.classList.toggle("dark", dark);
    if (changed && lab.drawState) lab.draw();
  };
  look();
  const watcher = new MutationObserver(() => requestAnimationFrame(look));
  for (const element of [document.documentElement, document.body]) {
    watcher.observe(element, { attributes: true });
  }
  requestAnimationFrame(look);  // a widget is put into the page after it is made
  lab.signal.addEventListener("abort", () => watcher.disconnect());
}

function isDarkBehind(element) {
  for (let one = element; one; one = one.parentElement ?? one.getRootNode().host) {
    const parts = getComputedStyle(one).backgroundColor.match(/[\d.]+/g)?.map(Number) ?? [];
    const [red, green, blue, alpha = 1] = parts;
    if (parts.length >= 3 && alpha > 0.5) return red + green + blue < 330;
  }
  return false;
}

// --- controls --------------------------------------------------------------------------------------

/** A slider over listed stops; `show(value)` moves it. */
export function slider(lab, { label, name, stops, text = String, onMove }) {
  const output = html("output");
  const input = html("input", { type: "range", min: 0, max: stops.length - 1, step: 1,
    "aria-label": name });
  const show = (value) => {
    input.value = stops.indexOf(value);
    setText(output, text(value));
    input.setAttribute("aria-valuetext", text(value));
  };
  lab.on(input, "input", () => onMove(stops[Number(input.value)]));
  return { element: html("label", { class: "control slider" }, label, input, output), input, show };
}

/** The lines of PyTorch with their heading, in the last row of a picture. */
export function sameInPyTorch(lab) {
  return html("div", { class: "below" }, html("h4", {}, "The same in PyTorch"), lab.codeBox);
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

/** A button. */
export function button(lab, text, onClick) {
  const element = html("button", { type: "button" }, text);
  lab.on(element, "click", onClick);
  return element;
}

/** A row of words that can be switched on, each for itself; `show(positions)` says which are. */
export function chips(lab, { label, words, onToggle }) {
  const buttons = words.map((word, i) => button(lab, word, () => onToggle(i)));
  const show = (on) => buttons.forEach((one, i) => one.setAttribute("aria-pressed", on.includes(i)));
  const element = html("div", { class: "chips", role: "group", "aria-label": label },
    html("span", { class: "label" }, label), buttons);
  return { element, show };
}

// --- predict first ---------------------------------------------------------------------------------

function makeGate(lab) {
  const { question, options, right, why, settled } = lab.explorer.prediction(lab.data, lab.answer());
  const veiled = [lab.bar, lab.picture, lab.sayLine];
  const box = html("div", { class: "gate", role: "group", "aria-label": "Predict first" });
  let picked = null;
  const veil = (on) => veiled.forEach((element) => {
    element.classList.toggle("veiled", on);
    element.inert = on;
  });
  const pick = (i) => {
    picked = i;
    veil(false);
    box.replaceChildren(html("p", { tabindex: -1 }, i < 0 ? "Skipped. Try it."
      : rich(`You predicted: **${options[i]}**. ${question.then}`)));
    box.firstChild.focus();
    lab.draw();
  };
  const skip = button(lab, "skip", () => pick(-1));
  skip.className = "plain";
  box.append(html("p", {}, html("b", {}, "Predict first: "), question.ask),
    ...options.map((option, i) => button(lab, option, () => pick(i))), skip);
  lab.error.before(box);
  veil(true);
  const look = (state) => {
    if (picked === null || picked < 0 || !settled(state)) return;
    const good = picked === right;
    box.classList.add(good ? "right" : "wrong");
    const verdict = `You predicted **${options[picked]}**.`;
    const focused = box.contains(box.getRootNode().activeElement);
    box.replaceChildren(html("p", { tabindex: -1 }, good ? "✓ " : "✗ ", ...rich(`${verdict} ${why}`)));
    if (focused) box.firstChild.focus();
    picked = -1;
  };
  return { look };
}
