// Panels: the parts of a picture, as Python declares them in _panels.py.
import { bars, chart, html, matrix, numbersOf, rich, setText } from "./drawing.mjs";
import { SPECIAL } from "./special.mjs";

/**
 * Make a panel of a declaration; returns its element and show(values, state), which draws what a
 * frame holds for it. Values may replace heading, line below it and colour.
 */
export function panelOf(lab, panel) {
  const { element: inside, show } = MAKERS[panel.kind](lab, panel);
  const title = html("h4", {}), under = html("p", { class: "under" });
  const element = html("section", { class: `panel panel-${panel.kind}`, style: `--grow:${panel.grow}` },
    title, under, inside);
  let drawn = null, last;
  const draw = (values, state) => {
    if (values === drawn && last === state[panel.over]) return;
    [drawn, last] = [values, state[panel.over]];
    const looks = { ...panel, ...values };
    setText(title, looks.title);
    setText(under, looks.under);
    title.hidden = !looks.title;
    under.hidden = !looks.under;
    title.className = looks.role;
    show(looks, state);
  };
  return { element, show: draw };
}

/** Put the declared panels into the picture; returns show(frame, state). */
export function showPanels(lab) {
  const made = [];
  const elementOf = (panel) => {
    if (panel.kind === "column") {
      return html("div", { class: "column", style: `--grow:${panel.grow}` },
        panel.panels.map(elementOf));
    }
    const { element, show } = panelOf(lab, panel);
    made.push([panel.key, show]);
    return element;
  };
  lab.picture.append(...lab.data.panels.map(elementOf));
  return (frame, state) => made.forEach(([key, show]) => show(frame[key], state));
}

const MAKERS = {
  heatmap: (lab, { caption, scale, measure }) => {
    const element = html("div"), grids = {};
    if (measure) lab.scale(scale, measure);
    const show = ({ rows, columns, cells, looks: kinds, texts, role }) => {
      const numbers = numbersOf(cells), size = [rows.length, columns.length];
      const grid = grids[size] ??= matrix(lab, { caption, rows, columns });
      if (grid.element.parentNode !== element) element.replaceChildren(grid.element);
      const [side, top] = [rows, columns].map((names) => Math.max(...names.map((one) => one.length)));
      element.style.setProperty("--names", `${Math.max(2.9, 1.2 + 0.62 * side)}em`);
      element.style.setProperty("--cells", `${columns.length * Math.max(3.6, 0.8 + 0.62 * top)}em`);
      element.style.setProperty("--columns", columns.length);
      const written = texts?.flat().map((text) => text.length) ?? [measure === "output" ? 5 : 3];
      element.style.setProperty("--chars", Math.max(2, ...written));
      element.classList.toggle("long", top > 4);
      element.classList.toggle("many", columns.length > 8);
      grid.element.className = role ? `box ${role}` : "";
      grid.name(rows, columns);
      const write = (number) => number.toFixed(2).replace("-", "−");
      grid.paint((i, j) => ({ weight: numbers[i][j], scale, kind: kinds?.[i][j] ?? "",
        text: texts?.[i][j] ?? (measure === "output" ? write(numbers[i][j]) : undefined) }));
    };
    return { element, show };
  },
  curves: (lab, panel) => {
    const { over, stops } = panel;
    const curve = chart(lab, {
      ...panel,
      onPreview: (i) => lab.preview(i === undefined ? {} : { [over]: stops[i] }),
      onPick: (i) => lab.set({ [over]: stops[i] }),
    });
    const show = ({ title, values, current, role, lines, xlabel }, state) => {
      const at = stops.indexOf(state[over]);
      const numbers = lines.map((line, i) =>
        `${line.name} ${Number((values?.[i] ?? line.values)[at].toPrecision(3))}`);
      curve.show({ at, values, current, role,
        label: `${title}, at ${xlabel} ${stops[at]}: ${numbers.join("; ")}` });
    };
    return { element: curve.element, show };
  },
  bars: (lab, panel) => {
    const table = bars({ ...panel, columns: Object.entries(panel.columns) });
    const names = [["fill", "filled"], ["outline", "outlined"]]
      .filter(([, name]) => panel[name]).map(([look, name]) => [name, html("span"),
        html("div", { class: "track sample", "aria-hidden": "true" },
          html("i", { class: look, style: "width:100%" }))]);
    const legend = html("div", { class: "legend" },
      names.map(([, text, look]) => html("div", {}, look, text)));
    const show = (looks) => {
      table.show(looks.weights, looks);
      Object.values(looks.columns).forEach((texts, i) => texts.forEach((text, j) =>
        setText(table.further[i][j], text)));
      names.forEach(([name, text]) => setText(text, looks[name]));
    };
    return { element: html("div", {}, table.element, legend), show };
  },
  table: (lab, { caption }) => {
    const element = html("table", { class: "words" });
    const cell = (tag, scope) => (text) => {
      const [words, role] = Array.isArray(text) ? text : [text, null];
      const [first, ...small] = words.split("\n");
      return html(words ? tag : "td", { class: role, scope: words ? scope : null }, rich(first),
        small.map((line) => html("small", {}, line)));
    };
    const show = ({ head, body }) => element.replaceChildren(
      html("caption", { class: "unseen" }, caption),
      html("thead", {}, html("tr", {}, head.map(cell("th", "col")))),
      html("tbody", {}, body.map(([first, ...rest]) => html("tr", {}, cell("th", "row")(first),
        rest.map(cell("td", null))))));
    return { element, show };
  },
  picture: (lab, { alt, width }) => {
    const element = html("img", { alt, style: `width:${width}px`, tabindex: 0 });  // it may scroll
    return { element, show: ({ png }) => { element.src = `data:image/png;base64,${png}`; } };
  },
  key: (lab, { entries }) => ({ element: keyOf(entries), show: () => {} }),
  ...SPECIAL,
};

/** What the looks of cells mean: pairs of a look and its words. */
export function keyOf(entries) {
  return html("div", { class: "key" }, entries.map(([look, words]) => html("span", {},
    html("i", { class: `cell ${look}`, "aria-hidden": "true" }, look === "nan" ? "NaN" : ""), words)));
}
