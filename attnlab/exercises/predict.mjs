// A question, buttons or a box for a number, and after the answer what it is worth and why.
// All texts come from Python as HTML, so that a question can also be answered without a kernel.

const NO_NUMBER = "Write a number, such as 0.25.";

function render({ model, el }) {
  const manager = model.widget_manager, asked = model.get("asked");
  const outcome = make("div", { role: "status" });
  const bar = make("div", { class: "attnlab-predict-bar", role: "group", "aria-label": "Answers" });
  const commit = (said) => {
    if (model.get("said")) return;
    model.set("said", said);
    model.save_changes();
  };
  const show = (asked.options ? optionsOf : numberOf)(asked, bar, outcome, commit);
  el.classList.add("attnlab-predict");
  el.replaceChildren(make("p", { class: "attnlab-predict-kind" }, "Predict"),
    rich("p", asked.question), asked.ask ? bar : "", outcome);
  keepState(model);
  keepKeys(bar);
  const draw = () => {
    const said = model.get("said");
    if (said) open(asked.key);
    if (said || !asked.ask) {
      outcome.replaceChildren(...(said ? verdict(show(said)) : []), rich("p", asked.explanation));
      typeset(manager, outcome);
    }
  };
  draw();
  requestAnimationFrame(() => {  // a widget is put into the page after it is made
    [...el.children].forEach((one) => typeset(manager, one));
    draw();
  });
  model.on("change:said", draw);
  return () => model.off("change:said", draw);
}

/** Unfold the outputs that show this answer. */
function open(key) {
  for (const fold of document.querySelectorAll("details.attnlab-answer")) {
    if (fold.dataset.key === key) fold.open = true;
  }
}

function verdict({ good, said, feedback }) {
  const word = make("b", { class: good ? "right" : "wrong" }, good ? "✓ Correct." : "✗ Not quite.");
  return [make("p", {}, word, " You said ", rich("b", said), "."),
    ...(feedback ? [rich("p", feedback)] : [])];
}

/** Put a button for each option into the bar; returns what shows an answer and judges it. */
function optionsOf({ options }, bar, _outcome, commit) {
  const buttons = options.map(({ text }, i) => {
    const button = rich("button", text, { type: "button" });
    button.addEventListener("click", () => commit({ option: i }));
    return button;
  });
  bar.append(...buttons);
  return ({ option: chosen }) => {
    buttons.forEach((button, i) => {
      const { correct } = options[i];
      button.setAttribute("aria-disabled", "true");
      button.setAttribute("aria-pressed", i === chosen);
      if (correct) button.classList.add("right");
      else if (i === chosen) button.classList.add("wrong");
      if (correct || i === chosen) button.dataset.mark = correct ? "✓ " : "✗ ";
    });
    const { correct, feedback, text } = options[chosen];
    return { good: correct, said: text, feedback };
  };
}

/** Put a box for a number into the bar; returns what shows an answer and judges it. */
function numberOf({ number }, bar, outcome, commit) {
  const box = make("input", { type: "text", autocomplete: "off" });
  const button = make("button", { type: "button" }, "Commit");
  const read = () => {
    const written = box.value.trim(), value = readNumber(written);
    if (value === null) outcome.replaceChildren(make("p", {}, NO_NUMBER));
    else commit({ written, value });
  };
  box.addEventListener("keydown", (event) => { if (event.key === "Enter") read(); });
  button.addEventListener("click", read);
  bar.append(rich("label", `${number.unit} `), button);
  bar.firstChild.append(box);
  return ({ written, value }) => {
    box.value = written;
    box.readOnly = true;
    button.setAttribute("aria-disabled", "true");
    return { ...judge(number, value), said: written };
  };
}

function judge({ value: correct, tolerance, feedback, low, high, slips }, value) {
  const near = (other, by) => Math.abs(value - other) <= by + 1e-9 * Math.abs(other);
  if (near(correct, tolerance)) return { good: true, feedback };
  const slip = slips.find((one) => near(one.value, one.tolerance));
  return { good: false, feedback: slip ? slip.feedback : value < correct ? low : high };
}

/** The number that a text stands for, also 1/3; null if it is not one. */
function readNumber(text) {
  const parts = text.split("/").map((part) => (part.trim() ? Number(part) : NaN));
  const value = parts.length === 2 ? parts[0] / parts[1] : parts.length === 1 ? parts[0] : NaN;
  return Number.isFinite(value) ? value : null;
}

export default { render };
