// What every explorer stands on: the card, the prediction, the theme, the way to the kernel.
//
// A module of an explorer exports
//   render(lab)          puts controls into lab.bar and a picture into lab.picture, and returns
//                        draw(state, answer) -> {say, bad, code}, called after every change
//   settled(state)       whether the answer to the question can be seen, where the conditions that
//                        Python declares do not say enough (optional)
//   fits                 for each part of the state that has no control, fits[name](value, data):
//                        whether a value from elsewhere, such as an address, can be shown; what it
//                        throws means no
// and changes the state by lab.set({name: value}). Heading, question, words and numbers are in
// lab.data. `answer` is what the learner's function gave for answer.state, or null if there is no
// such function here.
import { button, meets } from "./controls.mjs";
import { codeLines, html, markup, rich, weightColours } from "./drawing.mjs";
import { adopt, isProjected, keepInSight, project } from "./projector.mjs";
import { STYLE } from "./style.mjs";
import { linkWords } from "./quoted.mjs";

const DIMMED = 300;  // ms until a picture is dimmed that is no longer that of the state
export const PATIENCE = 2500;  // ms until a silent kernel is spoken of
export const SILENT = "Python has not answered yet: the kernel may be busy. "
  + "If none runs, or it was restarted, run this cell again.";
const SHEET = new CSSStyleSheet();
SHEET.replaceSync(STYLE);

/** Put an explorer into an element; returns a function that takes it out and forgets it. */
export function mount(explorer, model, host) {
  const stop = new AbortController();
  const root = host.shadowRoot ?? host.attachShadow({ mode: "open" });
  const card = html("div", { class: "card", role: "group" });
  root.adoptedStyleSheets = [SHEET];
  adopt(host);
  root.replaceChildren(card);
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
    Object.assign(this, { explorer, model, card, signal, host: card.getRootNode().host });
    this.data = model.get("data");
    this.state = this.read();
    this.bar = html("div", { class: "bar", role: "group", "aria-label": "Controls" });
    this.words = html("span");
    this.sayLine = html("p", { class: "say", role: "status" }, this.words);
    this.picture = html("div", { class: "picture" });
    this.codeBox = html("pre", {});
    this.code = html("details", {}, html("summary", {}, this.data.code_title), this.codeBox);
    this.scales = html("div", { class: "scales" });
    this.projector = button(this, "Projector", project);
    this.projector.className = "projector keep";
    this.note = html("p", { class: "note", hidden: "" });
    this.error = html("p", { class: "error", role: "alert", hidden: "" });
  }

  start() {
    const { card, explorer } = this, { title, hint } = this.data;
    card.setAttribute("aria-label", title || "Live figure");
    const heading = title ? [html("h3", {}, title), html("p", { class: "hint" }, hint)] : [];
    card.append(...heading, this.error, this.bar, this.sayLine, this.picture, html("div", { class: "foot" }, this.code, this.scales), this.projector);
    this.on(card, "keydown", keepKey);
    this.on(this.code, "toggle", () => this.showCode());
    this.keepRoom();
    this.fit = keepInSight(this);
    followPage(this);
    this.drawState = explorer.render(this);
    this.bar.append(this.note);  // which stays in sight
    this.code.append(this.codeBox);
    const { question } = this.data;
    const asks = this.state.ask && question && !this.model.opened;
    this.gate = asks ? makeGate(this, question) : null;
    this.listen();
    this.draw();
  }

  /** Keep room for the longest of some sentences, so that the picture below does not move. */
  longest(sentences) {
    const [first] = [...sentences].sort((one, other) => other.length - one.length);
    this.sayLine.dataset.longest = first.replaceAll("**", "");
  }

  /**
   * Let the line of words grow and never shrink while it is as wide as it is: what lies below must
   * not move back and forth under a pointer that looks at one word after the other.
   */
  keepRoom() {
    let width;
    const watcher = new ResizeObserver(() => {
      const { style, offsetWidth, offsetHeight } = this.sayLine;
      const em = parseFloat(getComputedStyle(this.sayLine).fontSize);
      style.minHeight = offsetWidth === width ? `${offsetHeight / em}em` : "";
      width = offsetWidth;
    });
    watcher.observe(this.sayLine);
    this.signal.addEventListener("abort", () => watcher.disconnect());
  }

  /** State what the palest and the darkest colour of cells mean. */
  scale([low, high], measure) {
    const ends = [low, high].map((end) => html("b", {}, String(end).replace("-", "−")));
    const shades = [0, 0.25, 0.5, 0.75, 1].map((weight) => weightColours(weight).background);
    const ramp = html("i", { style: `background:linear-gradient(90deg,${shades})` });
    const line = html("span", { class: "scale" }, `${measure} `, ends[0], ramp, ends[1]);
    if (![...this.scales.children].some((one) => one.textContent === line.textContent)) {
      this.scales.append(line);
    }
  }

  /** Listen to an event until the explorer is taken away. */
  on(target, type, handler) {
    target.addEventListener(type, handler, { signal: this.signal });
  }

  read() {
    return Object.fromEntries(this.data.state.map((name) => [name, this.model.get(name)]));
  }

  /** Change values of the state, draw, and tell the kernel once the picture is painted. */
  set(changes) {
    this.previewed = null;
    this.state = { ...this.state, ...changes };
    this.setting = true;
    try {
      for (const [name, value] of Object.entries(changes)) this.model.set(name, value);
    } finally {
      this.setting = false;
    }
    this.saveSoon();
    this.draw();
  }

  saveSoon() {
    if (this.saving) return;
    this.saving = true;
    requestAnimationFrame(() => setTimeout(() => {
      this.saving = false;
      this.model.save_changes();
    }));
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
      clearTimeout(this.dimmer);
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

  draw() {
    const answer = this.model.get("answer");
    const fresh = answer && same(answer.state, this.state);
    const used = answer?.drawn && (fresh || !this.model.alone) ? answer : null;
    const { say, bad, code } = this.drawState({ ...this.state, ...this.previewed }, used);
    if (say !== this.said) {
      this.words.replaceChildren(...(this.data.markup ? markup : rich)(say));
      this.unlink?.();
      this.unlink = linkWords(this.words, this.picture, this.card);
    }
    this.sayLine.classList.toggle("bad", Boolean(bad));
    if (code !== this.coded) this.showCode(code);
    this.said = say;
    this.resize();
    this.showAnswer(answer, fresh);
    this.gate?.look(this.state);
  }

  /** Let the style sheet know where the card is: on a projector, on a slide. */
  resize() {
    const { classList } = this.host;
    classList.toggle("large", this.state.large || isProjected());
    classList.toggle("slide", "slides" in document.documentElement.dataset);
    this.fit();
  }

  /** Write the lines of PyTorch; in a box that is folded away nothing has to be laid out. */
  showCode(code = this.coded) {
    this.coded = code;
    this.code.hidden = !code;
    this.codeBox.replaceChildren(...(this.code.open ? codeLines(code) : [code]));
  }

  showAnswer(answer, fresh) {
    const failed = Boolean(answer?.error) && !(this.model.alone && !fresh && answer.drawn);
    const waits = answer && !fresh && !failed && !this.model.alone;
    const stale = (yes) => this.picture.classList.toggle("stale", yes);
    this.error.hidden = !failed;
    this.sayLine.hidden = failed || !this.said;
    if (failed) this.error.textContent = `${answer.name} failed. ${answer.error}`;
    clearTimeout(this.timer);
    this.note.hidden = true;
    if (waits) {
      this.dimmer ??= setTimeout(() => stale(true), DIMMED);
      this.timer = setTimeout(() => {
        this.sayLine.hidden = true;
        this.tell(SILENT);
      }, PATIENCE);
      return;
    }
    clearTimeout(this.dimmer);
    this.dimmer = null;
    const old = answer && !fresh && !failed, known = !this.data.panels.length || this.data.frames;
    stale(failed || (old && !known));
    if (old) {
      this.tell(known ? `Without Python, the browser draws this: run the cell and ${answer.name} does.`
        : `Only Python can ask ${answer.name}: run the cell.`);
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

// --- theme and size --------------------------------------------------------------------------------

function followPage(lab) {
  const look = () => {
    const dark = isDarkBehind(lab.host);
    const changed = dark !== lab.isDark();
    lab.card.classList.toggle("dark", dark);
    lab.resize();
    lab.projector.setAttribute("aria-pressed", isProjected());
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

// --- predict first ---------------------------------------------------------------------------------

function makeGate(lab, { ask, then, options, right, why, settled }) {
  const veiled = [lab.bar, lab.sayLine, lab.picture];
  const box = html("div", { class: "gate", role: "group", "aria-label": "Predict first",
    "data-options": options.join("  ·  ") });
  let picked = null;
  const controls = () => veiled.flatMap((element) =>
    [...element.querySelectorAll("button, input, [role=slider]")]);
  const rest = () => controls().forEach((one) => one.setAttribute("aria-disabled", true));
  const veil = (on) => {
    lab.card.classList.toggle("asking", on);
    veiled.forEach((element) => { element.inert = on; });
    if (on) rest();
    else for (const one of controls()) one.removeAttribute("aria-disabled");
  };
  const pick = (i) => {
    picked = i;
    veil(false);
    box.replaceChildren(html("p", { tabindex: -1 }, i < 0 ? "Skipped. Try it."
      : rich(`You predicted: **${options[i]}**. ${then}`)));
    box.firstChild.focus();
    lab.draw();
  };
  const skip = button(lab, "skip", () => pick(-1));
  skip.className = "plain";
  box.append(html("p", {}, html("b", {}, "Predict first: "), ask),
    html("div", {}, options.map((option, i) => button(lab, option, () => pick(i))), skip));
  lab.error.before(box);
  veil(true);
  const waiting = new Set(settled);
  const isSettled = (state) => {
    if (lab.explorer.settled) return lab.explorer.settled(state);
    waiting.forEach((condition) => { if (meets(state, condition)) waiting.delete(condition); });
    return waiting.size === 0;
  };
  const look = (state) => {
    if (picked === null) rest();  // also what has been drawn anew
    if (picked === null || picked < 0 || !isSettled(state)) return;
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
