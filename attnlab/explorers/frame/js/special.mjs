// Panels that a single explorer has. What a frame holds for each is named by its show function.
import { button, followPointer } from "./controls.mjs";
import { change, codeLines, html, legend, paintMap, setText, svg, weightColours } from "./drawing.mjs";

export const SPECIAL = {
  /** For each line a crowd of dots, as large as the `lengths` of a frame, and a text, `told`. */
  crowds: (lab, { lines, across, loud }) => {
    const pictures = lines.map(({ role }) => svg("svg", { role: "img", class: `crowd ${role}` }));
    const texts = lines.map(() => html("p", { class: "under" }));
    const names = legend(lines);
    const element = html("div", { class: "crowds" }, lines.map((_, i) =>
      html("div", {}, html("div", { class: "legend" }, names[i]), texts[i], pictures[i])));
    let drawn;
    const dotsOf = (lengths) => lengths.map((length, n) => svg("circle",
      { cx: 10 * (n % across) + 5, cy: 10 * Math.floor(n / across) + 5,
        r: 3 * Math.sqrt(length / loud) }));
    const show = ({ lengths, told }) => {
      if (drawn === lengths) return;
      drawn = lengths;
      pictures.forEach((picture, i) => {
        change(picture, { viewBox: `0 0 ${10 * across} ${(10 * lengths[i].length) / across}`,
          "aria-label": `${lines[i].name}: ${told[i]}` });
        picture.replaceChildren(...dotsOf(lengths[i]));
        setText(texts[i], told[i]);
      });
    };
    return { element, show };
  },

  /** n x n weights, and the four times as many of twice the tokens. */
  squares: () => {
    const side = 54, tiles = [[4, 30], [118, 2], [118, 59], [175, 2], [175, 59]];
    const texts = tiles.flatMap(([x, y]) => [-3, 14].map((down) => svg("text",
      { x: x + side / 2, y: y + side / 2 + down, "text-anchor": "middle" })));  // number and unit
    const names = [[4 + side / 2, 130], [118 + side, 130]].map(([x, y]) =>
      svg("text", { x, y, "text-anchor": "middle" }));
    const picture = svg("svg", { viewBox: "0 0 240 134", role: "img", class: "squares" },
      tiles.map(([x, y]) => svg("rect", { x, y, width: side, height: side, rx: 5 })), texts, names,
      svg("text", { x: 88, y: 62, "text-anchor": "middle" }, "→"));
    const show = ({ n, tile, label }) => {
      texts.forEach((text, i) => { text.textContent = tile.split(" ")[i % 2]; });
      names.forEach((name, i) => { name.textContent = `n = ${n * (i + 1)}`; });
      picture.setAttribute("aria-label", label);
    };
    return { element: picture, show };
  },

  /** Small maps of all heads, with a mark at the row that asks. */
  maps: (lab, { over }) => {
    const element = html("div", { class: "maps", role: "group", "aria-label": "All heads" });
    followPointer(lab, element, over);
    let drawn;
    const mapOf = (head) => html("button", { type: "button", class: "map", [`data-${over}`]: head },
      html("span", { class: "square" }, html("i", { "aria-hidden": "true" }),
        html("canvas", { "aria-hidden": "true" })), html("span", {}, `head ${head}`));
    const show = ({ maps, asks }, state) => {
      if (drawn?.length !== maps.length) element.replaceChildren(...maps.map((_, i) => mapOf(i)));
      element.style.setProperty("--across", Math.min(4, maps.length));
      if (drawn !== maps) {
        element.querySelectorAll("canvas").forEach((canvas, i) => paintMap(canvas, maps[i]));
      }
      drawn = maps;
      const kept = Math.min(lab.state[over], maps.length - 1);
      [...element.children].forEach((one, head) => {
        const mark = one.querySelector("i");
        one.setAttribute("aria-pressed", head === kept);
        mark.hidden = asks === undefined;
        mark.style.top = `${(100 * (asks + 0.5)) / maps[head].length}%`;
      });
    };
    return { element, show };
  },

  /** A row of attention: a strip of cells for each step, filled as far as the steps are taken. */
  strips: (lab, { over, steps, columns }) => {
    const buttons = steps.map((name, i) =>
      button(lab, `${i + 1} ${name}`, () => lab.set({ [over]: i + 1 })));
    const body = html("tbody", {});
    lab.scale([0, 1], "weight");
    let lines = null;
    const build = (rows) => {
      lines = rows.map(({ step, cells }, place) => {
        const boxes = cells.map(() => html("span")), total = html("span");
        const alike = rows.filter((row) => row.step === step);
        const head = alike[0] === rows[place] ? html("th", { scope: "row", rowspan: alike.length },
          buttons[step - 1], alike.length > 1
            ? html("small", {}, "f0 to f3: the sum is the output") : []) : [];
        const element = html("tr", {}, head, boxes.map((box) =>
          html("td", { colspan: columns.length / cells.length }, box)), html("td", {}, total));
        return { element, boxes, total };
      });
      body.replaceChildren(...lines.map(({ element }) => element));
    };
    const show = ({ rows, asked }, state) => {
      if (!lines) build(rows);
      buttons.forEach((one, i) => {
        one.classList.toggle("later", i + 1 > state[over]);
        one.setAttribute("aria-current", i + 1 === state[over] ? "step" : "false");
      });
      rows.forEach(({ step, cells, looks, weights, sum }, place) => {
        const { element, boxes, total } = lines[place], reached = step <= state[over];
        element.classList.toggle("current", step === state[over]);
        boxes.forEach((box, i) => {
          const hidden = lab.state.ask && asked?.step === step && asked.key === i ? "asked" : "later";
          const colours = reached && weights ? weightColours(weights[i]) : {};
          box.className = `cell ${reached ? looks[i] : hidden}`;
          setText(box, reached ? cells[i] : hidden === "asked" ? "?" : "");
          box.style.background = colours.background ?? "";
          box.style.color = colours.color ?? "";
        });
        total.className = `cell total ${sum ? (reached ? "" : "later") : "none"}`;
        setText(total, reached ? sum : "");
      });
    };
    const head = html("tr", {}, html("td", { class: "word" }),
      [...columns, "sum"].map((name) => html("th", { scope: "col" }, name)));
    return { element: html("table", { class: "strips" },
      html("caption", { class: "unseen" }, "One row of attention: steps down, keys across"),
      html("thead", {}, head), body), show };
  },

  /** Lines of a calculation, or of what is printed. */
  lines: () => {
    const element = html("pre", {});
    const show = ({ lines }) => {
      element.hidden = !lines.length;
      element.replaceChildren(...codeLines(lines.join("\n")));
    };
    return { element, show };
  },

  /**
   * Cards of a split and a merge: the deck in the order of memory, the hands of the heads, and whose
   * averages each token gets. `deck` holds names, `hands` places in it: a card travels between hands.
   */
  deal: () => {
    const deck = html("div", { class: "deck" }), cards = new Map();
    const tables = html("div", { class: "hands" });
    const element = html("div", { class: "deal" },
      html("h5", {}, "x in memory, token by token"), deck, tables);
    let moving = [], dealt = "";
    const mark = (wrong) => (wrong ? html("i", { class: "cross" }, "✗") : []);
    const strip = (heard) => html("span", { class: "heard", "aria-hidden": "true" },
      heard.map((yes) => html("i", { class: yes ? "yes" : null })));
    const show = ({ tokens, deck: names, hands, wrong_hands: lost, asked, heard, wrong_output: wrong,
      parts }) => {
      if (dealt !== String(names)) {
        deck.replaceChildren(...names.map((name) => html("span", { class: "cell" }, name)));
        cards.clear();
      }
      dealt = String(names);
      const before = new Map([...cards.values()].map((card) => [card, boxOf(card)]));
      moving.forEach((animation) => animation.cancel());
      const inHand = (place, gone) => {
        const card = cards.get(place) ?? html("span", { class: "cell" });
        cards.set(place, card);
        card.replaceChildren(html("b", {}, names[place]), ...[mark(gone)].flat());
        return card;
      };
      const average = (asker, ears, bad) => html("span", { class: "cell" }, html("b", {}, asker),
        mark(bad), strip(ears),
        html("span", { class: "unseen" }, ` over ${ears.filter(Boolean).length} of ${ears.length}`));
      tables.replaceChildren(
        tableOf("In the heads, by place", tokens.map((_, i) => String(i)),
          hands.map((row, h) => [`head ${h}`, row.map((place, i) => inHand(place, lost[h][i]))])),
        tableOf("Output: whose averages, over which tokens", tokens, asked.map((row, h) =>
          [parts[h], row.map((asker, i) => average(asker, heard[h][i], wrong[h][i]))])));
      moving = glide(before);
    };
    return { element, show };
  },
};

function tableOf(caption, columns, rows) {
  return html("table", {}, html("caption", {}, caption),
    html("thead", {}, html("tr", {}, html("td", {}),
      columns.map((column) => html("th", { scope: "col" }, column)))),
    html("tbody", {}, rows.map(([name, cells]) => html("tr", {}, html("th", { scope: "row" }, name),
      cells.map((cell) => html("td", {}, cell))))));
}

function boxOf(element) {
  const { left, top, width } = element.getBoundingClientRect();
  return width ? { left, top, zoom: width / element.offsetWidth } : null;
}

/** Let every cell travel from where it was to where it is now; returns what moves. */
function glide(before) {
  if (matchMedia("(prefers-reduced-motion: reduce)").matches) return [];
  const moves = [...before].map(([cell, from]) => [cell, from, boxOf(cell)]);
  return moves.flatMap(([cell, from, to]) => {
    const [x, y] = from && to
      ? [from.left - to.left, from.top - to.top].map((far) => far / to.zoom) : [0, 0];
    return x || y ? [cell.animate([{ transform: `translate(${x}px, ${y}px)`, zIndex: 1 },
      { transform: "none", zIndex: 1 }], { duration: 700, easing: "ease-in-out" })] : [];
  });
}
