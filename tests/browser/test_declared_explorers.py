"""Explorers that Python declares: the browser shows what each frame holds, in size and colour."""

import itertools
import json
import re

import pytest
import torch

from attnlab import explorers, palette
from attnlab.explorers import (
    AfterSoftmaxExplorer,
    CacheExplorer,
    CostExplorer,
    CrossExplorer,
    DivisorsExplorer,
    HeadsExplorer,
    ManyHeadsExplorer,
    PeekExplorer,
    RowExplorer,
    ScalingExplorer,
    TemperatureExplorer,
)
from attnlab.explorers._controls import Choice, Slider, controls_of
from attnlab.explorers.row import WEIGHTS_STEP
from attnlab.explorers.scaling import DRAWS

STATES = [
    ScalingExplorer(ask=False, d_k=1024, seed=1),
    DivisorsExplorer(ask=False, divisor="d_k", d_k=1),
    TemperatureExplorer(ask=False, tau=0.1),
    TemperatureExplorer(ask=False, tau=6.3),
    AfterSoftmaxExplorer(ask=False, rule="before: 0"),
    AfterSoftmaxExplorer(ask=False, rule="after: 0", lift=6),
    CacheExplorer(ask=False, step=4),
    CacheExplorer(ask=False, cache=True, step=6),
    CostExplorer(ask=False, n=64, heads=1, dtype="float16"),
    CostExplorer(4096, ask=False, n=65536, heads=32),
    PeekExplorer(ask=False, step=0),
    PeekExplorer(ask=False, causal=False, step=50),
    ManyHeadsExplorer(ask=False, heads=6, shown=5),
    HeadsExplorer(ask=False, heads=2, way="short cut", step="view"),
    HeadsExplorer(ask=False, heads=6, way="short cut", step="scores"),
    CrossExplorer(ask=False),
    CrossExplorer(ask=False, asking="words", word="mat"),
    RowExplorer(ask=False, step=7, query="is", mask="causal"),
    RowExplorer(ask=False, step=3, query="He", mask="causal"),
]
ASKING = [AfterSoftmaxExplorer(lift=2), CostExplorer(), PeekExplorer(), TemperatureExplorer()]
ASKING += [HeadsExplorer(step="view"), ManyHeadsExplorer(), RowExplorer()]
ALL = [*STATES, *ASKING]
SHADES = "cells => cells.map(cell => cell.style.backgroundColor)"


@pytest.fixture(scope="module")
def cards(open_cards):
    """Return a function from an explorer to its card, in one page without a kernel."""
    found = open_cards(ALL)
    return lambda explorer: found[ALL.index(explorer)]


def panels_of(explorer):
    """Return the panels of an explorer as its frame changes them, with the values of the frame."""
    frame = explorer.frame_now()
    columns = [getattr(panel, "panels", (panel,)) for panel in explorer.panels]
    pairs = ((panel, frame.get(panel.key, {})) for panel in itertools.chain(*columns))
    return [(panel.at(values), values) for panel, values in pairs]


def test_every_declared_explorer_is_here():
    kinds = {name: getattr(explorers, name) for name in explorers.__all__ if name != "Explorer"}
    declared = {name for name, kind in kinds.items() if kind.module == "declared"}
    assert {type(explorer).__name__ for explorer in STATES} >= declared


# --- each kind of panel ---------------------------------------------------------------------------


def numbers_of(text):
    return [int(number) for number in re.findall(r"\d+", text)]


def check_heatmap(shown, panel, values):
    """Hold the cells of a table against a matrix: numbers, colours, hatches."""
    cells = torch.as_tensor(values["cells"]).flatten().tolist()
    looks = list(itertools.chain(*values.get("looks", [[""] * len(cells)])))
    texts = list(itertools.chain(*values.get("texts", [[None] * len(cells)])))
    found = shown.locator("td .cell").evaluate_all(
        "all => all.map(e => [e.textContent, e.className, e.style.backgroundColor, e.ariaLabel])"
    )
    assert len(found) == len(cells)
    low, high = panel.scale
    for (text, kind, colour, spoken), value, look, written in zip(
        found, cells, looks, texts, strict=True
    ):
        if spoken:
            assert float(spoken.partition("weight ")[2]) == pytest.approx(value, abs=0.0051)
        assert set(look.split()) <= set(kind.split())
        if written is not None:
            assert text == written
        elif look != "blocked":
            assert float(text) == pytest.approx(value, abs=0.0051)
        if look in ("", "leak") and panel.measure:
            place = (value - low) / (high - low)
            near = [palette.shade(place + step) for step in (-0.006, 0, 0.006)]
            ends = zip(*near, strict=True)
            part = zip(numbers_of(colour), ends, strict=True)
            assert all(min(end) - 2 <= one <= max(end) + 2 for one, end in part), (value, colour)
    sums = shown.locator("td.sum").all_inner_texts()
    assert sums == [text for text, _ in values.get("sums", [])]
    assert shown.locator("td.sum .bad").count() == sum(not ok for _, ok in values.get("sums", []))


def check_bars(shown, panel, values):
    """Hold the lengths of the bars against the weights."""
    parts = {"fill": "weights", "rest": "rest", "outline": "outline"}
    for name, key in parts.items():
        widths = shown.locator(f"table .{name}").evaluate_all(
            "all => all.map(e => e.getBoundingClientRect().width"
            " / e.parentElement.getBoundingClientRect().width)"
        )
        wanted = torch.as_tensor(values.get(key, torch.zeros(len(panel.names)))).tolist()
        close = 0.02 if name == "outline" else 0.001  # a border of 2.5 pixels
        assert widths == pytest.approx(wanted, abs=close), name
    if "rest" in values:
        gaps = shown.locator("table .track").evaluate_all(
            "all => all.map(({children: [fill, rest]}) =>"
            " rest.getBoundingClientRect().left - fill.getBoundingClientRect().right)"
        )
        assert [gap for gap, share in zip(gaps, values["rest"], strict=True) if share] == (
            pytest.approx([0] * int((values["rest"] > 0).sum()), abs=1)
        )
    texts = shown.locator(".figure b").all_inner_texts()
    weights = torch.as_tensor(values["weights"]).tolist()
    assert texts == [f"{weight:.{panel.digits}f}" for weight in weights]
    marks = [text.strip() for text in shown.locator(".figure span").all_inner_texts()]
    assert marks == list(values.get("marks", [""] * len(weights)))
    names = [name for name in (panel.filled, panel.hatched, panel.outlined) if name]
    assert shown.locator(".legend span").all_inner_texts() == names


def check_curves(shown, panel, values, explorer):
    """Hold the places of lines and marks in a chart against its numbers."""
    at = list(panel.stops).index(getattr(explorer, panel.over))
    lines = values.get("values") or [line.values for line in panel.lines]
    drawn = shown.locator("svg.pickable").evaluate(
        """svg => {
            const numbers = text => text.match(/-?[\\d.]+/g).map(Number);
            const grid = [...svg.querySelectorAll('.grid')].map(line => line.y1.baseVal.value);
            const of = (kind, name) => [...svg.querySelectorAll(kind)].map(
                e => [e.getAttribute('class'), ...numbers(e.getAttribute(name))]);
            const texts = [...svg.querySelectorAll('text')].map(text => [text.textContent,
                Number(text.getAttribute('x')), Number(text.getAttribute('y'))]);
            const now = svg.querySelector('.now').x1.baseVal.value;
            return [grid, of('.line', 'points'), of('.dot', 'transform'), texts, now];
        }"""
    )
    grid, curves, dots, texts, now = drawn
    scale = torch.log10 if panel.y.log else torch.clone
    ticks = scale(torch.tensor([tick for tick, _ in panel.y.labelled()], dtype=torch.float64))
    slope = (grid[-1] - grid[0]) / (ticks[-1] - ticks[0])
    for line, (look, *points), (_, *dot), declared in zip(
        lines, curves, dots, panel.lines, strict=True
    ):
        heights = grid[0] + slope * (scale(torch.tensor(line, dtype=torch.float64)) - ticks[0])
        assert points[1::2] == pytest.approx(heights.tolist(), abs=0.6)
        assert dot == pytest.approx(points[2 * at : 2 * at + 2], abs=0.01)
        assert (panel.role or declared.role) in look
    pale = ["pale" in look for look, *_ in curves]
    current = values.get("current")
    assert pale == [current not in (None, i) for i in range(len(lines))]
    assert now == curves[0][1::2][at]
    places = curves[0][1::2]
    assert [(text, y - 5) for text, _, y in texts[: len(grid)]] == [
        (text, pytest.approx(height))
        for (_, text), height in zip(panel.y.labelled(), grid, strict=True)
    ]
    labels = [(text, x) for text, x in zip(panel.describe()["labels"], places, strict=True) if text]
    assert [(text, x) for text, x, _ in texts[len(grid) :][: len(labels)]] == labels
    dashes = shown.locator("polyline, .legend .line").evaluate_all(
        "all => all.map(e => e.getAttribute('stroke-dasharray'))"
    )
    assert ["solid" if dash == "none" else "broken" for dash in dashes] == 2 * [
        "solid" if line.dash == "solid" else "broken" for line in panel.lines
    ]
    read_out = shown.locator("svg.pickable").get_attribute("aria-label")
    told = [float(one.rpartition(" ")[2]) for one in read_out.split("; ")]
    assert told == pytest.approx([line[at] for line in lines], rel=0.006)


def check_table(shown, _panel, values):
    """Hold the words of a table against the frame."""
    rows = [values["head"], *values["body"]]
    wanted = [[one[0] if isinstance(one, tuple) else one for one in row] for row in rows]
    found = shown.locator("tr").evaluate_all(
        "rows => rows.map(row => [...row.children].map(cell => cell.innerText.trim()))"
    )
    assert found == [[text.replace("**", "") for text in row] for row in wanted]
    looks = [[one[1] if isinstance(one, tuple) else "" for one in row] for row in rows]
    assert looks == shown.locator("tr").evaluate_all(
        "rows => rows.map(row => [...row.children].map(cell => cell.className))"
    )


def check_controls(card, explorer):
    """Hold what is switched on, and where sliders stand, against the state."""
    controls = controls_of(type(explorer)).values()
    choices = [getattr(explorer, one.name) for one in controls if isinstance(one, Choice)]
    checked = card.locator("input:checked").evaluate_all("all => all.map(one => one.value)")
    assert checked == [one if isinstance(one, str) else json.dumps(one) for one in choices]
    sliders = [one for one in controls if isinstance(one, Slider)]
    stops = [str(one.values.index(getattr(explorer, one.name))) for one in sliders]
    ranges = card.locator("input[type=range]").evaluate_all("all => all.map(one => one.value)")
    assert ranges == stops


@pytest.mark.parametrize("explorer", STATES, ids=repr)
def test_the_browser_shows_what_the_frame_holds(cards, explorer):
    card = cards(explorer)
    assert card.locator(".say").inner_text() == explorer.say()
    assert card.locator("pre").last.text_content() == explorer.frame_now()["code"]
    assert card.locator(".say.bad").count() == explorer.frame_now()["bad"]
    check_controls(card, explorer)
    sections = card.locator("section").all()
    for shown, (panel, values) in zip(sections, panels_of(explorer), strict=True):
        if panel.title:
            assert shown.locator("h4").inner_text() == panel.title
            assert shown.locator("h4").get_attribute("class") == panel.role
        if panel.kind == "heatmap":
            check_heatmap(shown, panel, values)
        elif panel.kind == "bars":
            check_bars(shown, panel, values)
        elif panel.kind == "curves":
            check_curves(shown, panel, values, explorer)
        elif panel.kind == "table":
            check_table(shown, panel, values)


# --- panels of a single explorer ------------------------------------------------------------------


def explorers_of(kind):
    return [explorer for explorer in STATES if isinstance(explorer, kind)]


def test_maps_have_a_pixel_for_every_weight(cards):
    (explorer,) = explorers_of(ManyHeadsExplorer)
    pixels = (
        cards(explorer)
        .locator("canvas")
        .evaluate_all(
            """all => all.map(canvas => [...canvas.getContext('2d')
            .getImageData(0, 0, canvas.width, canvas.height).data].filter((_, i) => i % 4 === 0))"""
        )
    )
    reds = [
        [palette.shade(w)[0] for w in one.flatten().tolist()] for one in explorer.result.weights
    ]
    assert len(pixels) == 6
    for found, wanted in zip(pixels, reds, strict=True):
        assert found == pytest.approx(wanted, abs=2)
    pressed = cards(explorer).locator(".map").evaluate_all("all => all.map(e => e.ariaPressed)")
    assert pressed == ["false"] * 5 + ["true"]
    slices = cards(explorer).locator(".strip span")
    assert slices.all_text_contents() == ["01", "23", "45", "67", "89", "1011"]
    looks = slices.evaluate_all("all => all.map(e => e.className)")
    assert looks == [""] * 5 + ["on"]


@pytest.mark.parametrize("explorer", explorers_of(HeadsExplorer), ids=repr)
def test_tables_hold_named_cells_of_their_tokens(cards, explorer):
    shown = explorer.frame_now()["tables"]
    found = (
        cards(explorer)
        .locator(".tables .cell")
        .evaluate_all(
            "all => all.map(e => [e.firstChild.textContent, e.className, e.lastChild.textContent])"
        )
    )
    texts = torch.tensor(range(len(found))).view(torch.as_tensor(shown["tokens"]).shape)
    for index, token, wrong in zip(
        texts.flatten(), shown["tokens"].flatten(), shown["wrong"].flatten(), strict=True
    ):
        text, look, mark = found[index]
        table, row, column = (texts == index).nonzero()[0]
        assert text == shown["texts"][table][row][column]
        assert f"t{token}" in look.split()
        assert ("wrong" in look) == (mark == "✗") == bool(wrong)


@pytest.mark.parametrize("explorer", explorers_of(RowExplorer), ids=repr)
def test_strips_are_filled_as_far_as_the_steps_are_taken(cards, explorer):
    rows = explorer.frame_now()["strips"]["rows"]
    found = (
        cards(explorer)
        .locator(".strips tbody tr")
        .evaluate_all(
            "rows => rows.map(row => [...row.querySelectorAll('.cell')].map(e => e.textContent))"
        )
    )
    blank = [[*row["cells"], row["sum"]] for row in rows]
    for texts, row, wanted in zip(found, rows, blank, strict=True):
        assert texts == (wanted if row["step"] <= explorer.step else [""] * len(wanted))
    current = cards(explorer).locator("[aria-current=step]").inner_text()
    assert current.startswith(f"{explorer.step} ")
    later = cards(explorer).locator(".strips button.later").all_inner_texts()
    assert [int(text[0]) for text in later] == [*range(explorer.step + 1, 8)]
    colours = cards(explorer).locator(".strips .cell").evaluate_all(SHADES)
    weights = explorer.result.weights.tolist() if explorer.step >= WEIGHTS_STEP else []
    wanted = [f"rgb{palette.shade(round(weight, 2))}" for weight in weights]
    assert [colour for colour in colours if colour] == wanted


@pytest.mark.parametrize("explorer", explorers_of(CostExplorer), ids=repr)
def test_squares_name_their_size(cards, explorer):
    texts = cards(explorer).locator(".squares text").all_text_contents()
    tile = explorer.frame_now()["squares"]["tile"]
    assert texts[:10] == tile.split() * 5
    assert texts[10:12] == [f"n = {explorer.n}", f"n = {2 * explorer.n}"]
    boxes = (
        cards(explorer)
        .locator(".squares rect")
        .evaluate_all(
            "all => all.map(({x, y, width}) => [x, y, width].map(one => one.baseVal.value))"
        )
    )
    (_, _, size), (left, top, _), *_ = boxes
    assert [width for _, _, width in boxes] == [size] * 5
    step = boxes[4][0] - left
    assert boxes[1:] == [[left + i, top + j, size] for i in (0, step) for j in (0, step)]
    assert size < step < 1.1 * size


# --- controls and predictions ---------------------------------------------------------------------


def test_predictions_are_settled_by_the_state_they_ask_about(cards):
    acts = {
        "AfterSoftmaxExplorer": (
            "no mask",
            [("radio", "0 before")],
            ("button", "add to <pad> = 0"),
        ),
        "CostExplorer": ("4 times", [], ("button", "Double n")),
        "PeekExplorer": ("close to it", [], ("radio", "none")),
        "TemperatureExplorer": ("never", [("button", "near 0: 0.1")], ("button", "large: 10")),
        "HeadsExplorer": ("yes, the same", [("radio", "2")], ("radio", "3")),
        "ManyHeadsExplorer": ("stays the same", [("radio", "6")], ("radio", "12")),
        "RowExplorer": ("1.000", [("button", "4 exp")], ("button", "6 ÷ sum")),
    }
    cells = cards(ASKING[-1]).locator(".strips .cell").all_text_contents()
    assert [place for place, text in enumerate(cells) if text == "?"] == [20]  # of row 6 the third
    for explorer in ASKING:
        guess, before, last = acts[type(explorer).__name__]
        card = cards(explorer)
        gate = card.get_by_role("group", name="Predict first")
        gate.get_by_role("button", name=guess).press("Enter")
        assert f"You predicted: {guess}" in gate.inner_text()
        if isinstance(explorer, HeadsExplorer):
            card.get_by_role("radio", name="short cut").check()
        for role, name in before:
            card.get_by_role(role, name=name, exact=True).click(force=True)
            if not isinstance(explorer, HeadsExplorer):
                assert "You predicted: " in gate.inner_text()
        card.get_by_role(*last[:1], name=last[1], exact=True).click(force=True)
        good = guess == explorer.prediction.options[explorer.prediction.right]
        assert f"{'✓' if good else '✗'} You predicted {guess}." in gate.inner_text()
        assert gate.get_attribute("class") == f"gate {'right' if good else 'wrong'}"
    row = cards(ASKING[-1])
    assert row.locator(".strips .cell.asked").count() == 0


def test_a_button_of_steps_stops_at_the_end_and_keeps_the_focus(cards):
    card = cards(explorers_of(CostExplorer)[0])
    button = card.get_by_role("button", name="Double n")
    button.focus()
    for _ in range(12):
        card.page.keyboard.press("Enter")
    assert card.locator("output").inner_text() == "65536"
    assert button.get_attribute("aria-disabled") == "true"
    assert button.evaluate("e => e.getRootNode().activeElement === e")
    card.locator("input[type=range]").fill("0")  # as it was


def test_every_draw_is_reached_and_the_first_comes_again(cards):
    card = cards(explorers_of(ScalingExplorer)[0])
    before, seen = card.locator("td").all_inner_texts(), []
    for _ in range(DRAWS):
        card.get_by_role("button", name="New random draw").click(force=True)
        seen.append(tuple(card.locator("td").all_inner_texts()))
    assert len(set(seen)) == DRAWS
    assert seen[-1] == tuple(before)


def test_a_map_is_previewed_under_the_pointer_and_kept_by_a_click(cards):
    card = cards(ASKING[5])
    title = card.locator("section").nth(1).locator("h4")
    card.locator(".map").nth(2).hover()
    assert title.inner_text().startswith("head 2")
    card.locator("h3").hover()
    assert title.inner_text().startswith("head 0")
    card.locator(".map").nth(2).click()
    card.locator("h3").hover()
    assert title.inner_text().startswith("head 2")
