// A question, buttons, and after the answer what it is worth and why: in Jupyter, and on the site.
// All texts come from Python as HTML, so that a question can also be answered without a kernel.

function render({ model, el }) {
  const manager = model.widget_manager, asked = model.get("asked");
  const outcome = make("div", { role: "status" });
  const bar = make("div", { class: "attnlab-predict-bar", role: "group", "aria-label": "Answers" });
  const buttons = asked.options.map(({ text }, i) => {
    const button = rich("button", text, { type: "button" });
    button.addEventListener("click", () => commit(i));
    return button;
  });
  const say = (said) => {
    model.set("said", said);
    model.save_changes();
  };
  const commit = (option) => { if (!model.get("said")) say({ option }); };
  const again = make("button", { type: "button", class: "again" }, "Answer again");
  again.addEventListener("click", () => {
    say(null);
    buttons[0].focus();
  });
  bar.append(...buttons);
  el.classList.add("attnlab-predict");
  el.replaceChildren(make("p", { class: "attnlab-predict-kind" }, "Predict"),
    rich("p", asked.question), asked.ask ? bar : "", outcome);
  keepState(model);
  keepKeys(bar);
  const draw = () => {
    const said = model.get("said");
    if (said) open(asked.key);
    if (said || !asked.ask) {
      outcome.replaceChildren(...(said ? verdict(asked.options, buttons, said.option) : []),
        rich("p", asked.explanation), said ? again : "");
      typeset(manager, outcome);
    } else {
      outcome.replaceChildren();
      buttons.forEach(clear);
    }
  };
  draw();
  requestAnimationFrame(() => {  // a widget is put into the page after it is made
    [...el.children].forEach((one) => typeset(manager, one));
    draw();
    if (manager?.context) followNotebook(manager.context.model.cells, el.closest(".jp-Notebook"));
  });
  model.on("change:said", draw);
  return () => model.off("change:said", draw);
}

/** Unfold the outputs and the paragraphs that tell this answer, and ask for no prediction any more. */
function open(key) {
  for (const fold of document.getElementsByClassName("attnlab-answer")) {
    if (!fold.classList.contains(key)) continue;
    fold.open = true;
    fold.querySelector("summary").textContent = "The answer";
  }
}

/** Take the marks from a button. */
function clear(button) {
  for (const name of ["aria-disabled", "aria-pressed", "data-mark"]) button.removeAttribute(name);
  button.classList.remove("right", "wrong");
}

/** Mark the option that was chosen and the correct one; return what is said about it. */
function verdict(options, buttons, chosen) {
  buttons.forEach((button, i) => {
    const { correct } = options[i];
    button.setAttribute("aria-disabled", "true");
    button.setAttribute("aria-pressed", i === chosen);
    if (correct) button.classList.add("right");
    else if (i === chosen) button.classList.add("wrong");
    if (correct || i === chosen) button.dataset.mark = correct ? "✓ " : "✗ ";
  });
  const { correct, feedback, text } = options[chosen];
  const word = make("b", { class: correct ? "right" : "wrong" },
    correct ? "✓ Correct." : "✗ Not quite.");
  return [make("p", {}, word, " You said: ", rich("b", text)),
    ...(feedback ? [rich("p", feedback)] : [])];
}

export default { render };
