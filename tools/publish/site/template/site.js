// Small conveniences: without them every page can still be read, and its folds still open.

/** Load a script beside the page; from a folder, a page may read no other file. */
function load(file) {
  return new Promise((resolve, reject) => {
    const script = make("script", { src: file });
    script.addEventListener("load", resolve);
    script.addEventListener("error", reject);
    document.head.append(script);
  });
}

/** Ask a prediction with the script that asks it in JupyterLab; its answers are kept here. */
function ask({ box, asked }) {
  const before = asked.options.findIndex(({ text }) => text === answersOf(lesson)[asked.key]);
  const values = { asked, said: before < 0 ? null : { option: before } };
  let draw;
  askHere({
    el: box,
    model: {
      get: (name) => values[name],
      set: (name, value) => { values[name] = value; },
      save_changes: () => {
        draw();
        if (values.said) keepAnswer(asked.key, asked.options[values.said.option].text);
      },
      on: (_, work) => { draw = work; },
      off: () => {},
    },
  });
}

/** Repeat the answers at the end of the page, where paper has them; a hand-out asks first. */
function offerAnswersOnPaper() {
  if (!predictions.length) return;
  const answers = predictions.map(({ asked: { options, explanation } }) => {
    const item = make("li", {});
    item.innerHTML = options.filter(({ correct, feedback }) => correct || feedback)
      .map(({ correct, text, feedback }) => `<p>${correct ? "✓" : "✗"} <b>${text}</b> ${feedback}</p>`)
      .join("") + `<p>${explanation}</p>`;
    return item;
  });
  document.querySelector("main").append(make("section", { class: "answers" },
    make("h2", {}, "Answers to the predictions"), make("ol", {}, ...answers)));
}

// --- answers that are kept: if the words of an option change, its question is asked again ---------

const { lesson } = document.body.dataset;

function answersOf(name) {
  return recall("answers")?.[name] ?? {};
}

/** Keep an answer, and forget those to questions that this lesson no longer asks. */
function keepAnswer(key, option) {
  const answers = Object.entries({ ...answersOf(lesson), [key]: option })
    .filter(([name]) => predictions.some(({ asked }) => asked.key === name));
  keep("answers", { ...recall("answers"), [lesson]: Object.fromEntries(answers) });
  showProgress();
}

/** Say how many predictions of a lesson, or on the index of all, are answered. */
function showProgress() {
  let sum = 0;
  const tell = (place, count) => {
    place.textContent = `${count} of ${place.dataset.asked} predictions answered`;
  };
  for (const place of document.querySelectorAll(".progress[data-lesson]")) {
    const count = Object.keys(answersOf(place.dataset.lesson)).length;
    sum += count;
    tell(place, count);
  }
  const total = document.querySelector(".progress:not([data-lesson])");
  if (!total) return;
  tell(total, sum);
  if (sum) total.append(" ", toolButton("Forget my answers", forgetAnswers));
}

addEventListener("storage", showProgress);  // answered on another page

function forgetAnswers() {
  keep("answers", {});
  showProgress();
}

function toolButton(text, work) {
  const button = make("button", { type: "button", class: "tool" }, text);
  button.addEventListener("click", () => work(button));
  return button;
}

/** One button that unfolds and folds all in the lesson but the answers of open predictions. */
function offerUnfolding(row) {
  const folds = [...document.querySelectorAll("main details:not(.contents)")];
  if (!folds.length) return;
  row.append(toolButton("Unfold all", (button) => {
    const answered = Object.keys(answersOf(lesson));
    const ready = folds.filter((fold) => !fold.matches(".attnlab-answer")
      || answered.some((key) => fold.classList.contains(key)));
    const open = ready.some((fold) => !fold.open);
    ready.forEach((fold) => { fold.open = open; });
    button.textContent = open ? "Fold all" : "Unfold all";
  }));
}

/** One button that hides all code, in all lessons, and shows it again. */
function offerHiding(row) {
  if (!document.querySelector(".cell")) return;
  const isHidden = () => document.documentElement.dataset.code === "hidden";
  const words = () => (isHidden() ? "Show code" : "Hide code");
  row.append(toolButton(words(), (button) => {
    choose("code", isHidden() ? "shown" : "hidden");
    button.textContent = words();
  }));
}

function offerThemes(row) {
  const names = ["system", "light", "dark"];
  const select = make("select", { class: "tool", "aria-label": "Theme" },
    ...names.map((name) => make("option", { value: name }, `Theme: ${name}`)));
  select.value = names.includes(recall("theme")) ? recall("theme") : "system";
  select.addEventListener("change", () => choose("theme", select.value));
  row.append(select);
}

/** One button that makes all of a page larger, and its lines heavier, for a projector. */
function offerProjector(row) {
  const isOn = () => document.documentElement.dataset.projector === "on";
  const button = toolButton("Projector", () => {
    choose("projector", isOn() ? "off" : "on");
    button.setAttribute("aria-pressed", isOn());
  });
  button.setAttribute("aria-pressed", isOn());
  row.append(button);
}

function offerNotebook(place) {
  const button = toolButton("Download this notebook", async () => {
    try {
      await load(`${lesson}.ipynb.js`);
    } catch {
      button.textContent = "The notebook is not beside this page";
    }
  });
  place?.append(button);
}

/** Two buttons that print the lesson: with all that is folded, or as a sheet to work on. */
function offerPrinting(place) {
  if (!predictions.length) return;
  const folds = [...document.querySelectorAll("main details:not(.source)")];
  const print = (what) => {
    const before = folds.map(({ open }) => open);
    folds.forEach((fold) => { fold.open = what === "all"; });
    document.documentElement.dataset.print = what;
    addEventListener("afterprint", () => {
      folds.forEach((fold, i) => { fold.open = before[i]; });
      delete document.documentElement.dataset.print;
    }, { once: true });
    window.print();
  };
  place.append(toolButton("Print with answers", () => print("all")),
    toolButton("Print without answers", () => print("sheet")));
}

/** Let figures be opened as large as their digits need; a click or Escape closes the view. */
function offerEnlarging(pictures) {
  const view = make("dialog", { class: "large", "aria-label": "Enlarged figure" });
  const bar = make("p", {}, toolButton("Close", () => {}));
  view.addEventListener("click", () => view.close());  // the focus goes back by itself
  document.body.append(view);
  for (const picture of pictures) {
    const open = () => {
      const { src, alt, naturalWidth } = picture;
      view.replaceChildren(bar, make("img", { src, alt, style: `max-width: ${naturalWidth}px` }));
      view.showModal();
    };
    Object.assign(picture, { tabIndex: 0, role: "button", title: "Enlarge" });
    picture.addEventListener("click", open);
    picture.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      open();
    });
  }
}

/** Hand a notebook to the reader; the file that holds it calls this. */
function saveNotebook(text) {
  const address = URL.createObjectURL(new Blob([text], { type: "application/x-ipynb+json" }));
  make("a", { href: address, download: `${lesson}.ipynb` }).click();
  setTimeout(() => URL.revokeObjectURL(address), 60000);
}

/** A button that copies a text; `instead` says what to do without a clipboard. */
function copyButton(words, text, instead) {
  const button = toolButton(words, async () => {
    try {
      await navigator.clipboard.writeText(text());
      button.textContent = "Copied";
    } catch {
      button.textContent = instead();
    }
    setTimeout(() => { button.textContent = words; }, 3000);
  });
  button.setAttribute("aria-live", "polite");
  return button;
}

/** Give the code of a cell a button that copies it. */
function offerCopy(box) {
  const code = box.querySelector("pre");
  const button = copyButton("Copy", () => code.textContent.trimEnd(), () => {
    getSelection().selectAllChildren(code);
    return "Press Ctrl+C";
  });
  button.classList.add("copy");
  box.append(button);
}

/** Give an explorer a button that copies a link to what it shows. */
function offerLink({ target }, number) {
  const button = copyButton("Copy a link to this view", () => linkTo(number), () => {
    history.replaceState(null, "", linkTo(number));
    return "The link is in the address bar";
  });
  target.after(make("p", { class: "share" }, button));
}

// --- words of the glossary --------------------------------------------------------------------------

/** Show what a word means while its link is pointed at or has the focus; Escape puts it away. */
function offerMeanings(links) {
  const box = make("div", { class: "meaning", role: "tooltip", hidden: "" });
  let leaving;
  const show = (link, meaning, pointed) => {
    clearTimeout(leaving);
    box.replaceChildren(...meaning.cloneNode(true).childNodes);
    box.hidden = false;
    const lines = [...link.getClientRects()], room = document.documentElement.clientWidth;
    const line = lines.find(({ bottom }) => pointed < bottom) ?? lines[0];
    const above = line.bottom + box.offsetHeight > innerHeight - 8;
    box.style.left = `${Math.max(8, Math.min(line.left, room - box.offsetWidth - 8))}px`;
    box.style.top = `${scrollY + (above ? line.top - box.offsetHeight : line.bottom)}px`;
  };
  const hide = () => {
    clearTimeout(leaving);
    box.hidden = true;
  };
  const leave = () => { leaving = setTimeout(hide, 250); };  // time to reach the box
  for (const link of links) {
    const meaning = document.getElementById(`meaning-${placeOf(link)}`);
    if (!meaning) continue;
    link.setAttribute("aria-describedby", meaning.id);
    link.addEventListener("pointerenter", ({ pointerType, clientY }) => {
      if (pointerType !== "touch") show(link, meaning, clientY);
    });
    link.addEventListener("pointerleave", leave);
    link.addEventListener("focus", () => show(link, meaning));
    link.addEventListener("blur", hide);
  }
  box.addEventListener("pointerenter", () => clearTimeout(leaving));
  box.addEventListener("pointerleave", leave);
  addEventListener("keydown", ({ key }) => { if (key === "Escape") hide(); });
  document.body.append(box);
}

function placeOf(link) {
  return decodeURIComponent(link.hash.slice(1));
}

/** Let a word's link to the glossary say where it stands, for the link that leads back. */
function noteWay(link, i) {
  const place = make("span", { id: `word-${i + 1}` });  // the link itself would take the focus
  link.before(place);
  link.search = new URLSearchParams({ from: lesson, at: place.id });
}

/** Put a link back to the lesson below the word of the glossary that was followed from there. */
function offerWayBack() {
  const way = new URLSearchParams(location.search);
  const from = [...document.querySelectorAll("aside.contents ol > li > a")]
    .find((link) => link.getAttribute("href") === `${way.get("from")}.html`);
  if (lesson !== "glossary" || !from) return;
  const back = make("p", {}, make("a", { href: `${way.get("from")}.html#${way.get("at")}` },
    `← Back to ${from.textContent}`));
  const put = () => document.getElementById(placeOf(location))?.after(back);
  addEventListener("hashchange", put);  // from one word to another
  put();
}

/** Mark, in the table of contents, the section that is being read. */
function followReading(aside) {
  if (!aside) return;
  const links = [...aside.querySelectorAll("ul a")];
  const headings = links.map((link) => document.getElementById(placeOf(link)));
  const mark = () => {
    const passed = headings.findLastIndex((heading) => heading.getBoundingClientRect().top < 120);
    if (links[passed]?.hasAttribute("aria-current")) return;
    links.forEach((link, i) => {
      if (i === passed) link.setAttribute("aria-current", "true");
      else link.removeAttribute("aria-current");
    });
    keepInSight(aside, links[passed] ?? aside.querySelector("[aria-current=page]"));
  };
  addEventListener("scroll", mark, { passive: true });  // comes once for each picture
  mark();
}

/** Scroll a box, and not the page, until a part of it is well in sight. */
function keepInSight(box, part) {
  const { top, bottom, height } = box.getBoundingClientRect();
  const place = part.getBoundingClientRect();
  if (place.top < top + 40 || place.bottom > bottom - 40) {
    box.scrollTop += place.top - top - height / 3;
  }
}

/** Let the keyboard reach what must be scrolled sideways. */
function letScroll() {
  const places = [...document.querySelectorAll("pre, .scroll, .shown")];
  const wide = places.map((place) => place.scrollWidth > place.clientWidth);
  places.forEach((place, i) => {
    if (wide[i]) place.tabIndex = 0;
    else place.removeAttribute("tabindex");
  });
}

/** Return a place for buttons in the head of the page; on a phone, one button opens it. */
function placeForTools() {
  const tools = make("div", { class: "tools", id: "tools" });
  const menu = toolButton("View", () => {
    menu.setAttribute("aria-expanded", tools.classList.toggle("open"));
  });
  menu.classList.add("menu");
  menu.setAttribute("aria-expanded", "false");
  menu.setAttribute("aria-controls", "tools");
  document.querySelector(".top .row").append(menu, tools);
  return tools;
}

/** Keep which lesson of the series is being read; the index offers to go on with it. */
function followLessons() {
  const begin = document.querySelector(".begin");
  if (/^\d/.test(lesson)) keep("reading", lesson);
  const link = document.querySelector(`.cards a[href="${recall("reading")}.html"]`);
  if (!begin || !link) return;
  const number = link.closest("li").querySelector(".number").textContent;
  begin.href = link.href;
  begin.textContent = `Continue with lesson ${number}`;
}

const row = placeForTools();
followLessons();
const predictions = [...document.querySelectorAll(".attnlab-predict-stored")].map((box) =>
  ({ box, asked: JSON.parse(box.nextElementSibling.textContent) }));
offerAnswersOnPaper();
predictions.forEach(ask);
showProgress();
document.querySelectorAll(":is(.cell, details) > .highlight").forEach(offerCopy);
explorers.forEach(offerLink);
const words = [...document.querySelectorAll("main a[href^='glossary.html#']")];
words.forEach(noteWay);
offerMeanings(words);
offerWayBack();
offerHiding(row);
offerUnfolding(row);
offerThemes(row);
offerProjector(row);
offerNotebook(document.querySelector(".download"));
offerPrinting(document.querySelector(".download"));
offerEnlarging([...document.querySelectorAll("main :is(figure img, .shown > img)"),
  ...[...explorers.values()].flatMap(({ target }) => [...target.shadowRoot.querySelectorAll("img")])]);
followReading(document.querySelector("aside.contents"));
letScroll();
addEventListener("resize", letScroll);
document.addEventListener("toggle", letScroll, true);
