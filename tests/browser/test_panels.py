"""Panels that Python declares: the browser shows what a frame holds, in words, size and colour."""

import itertools
import json
import re

import pytest
import torch

from attnlab.explorers import (
    CacheExplorer,
    CostExplorer,
    CrossExplorer,
    HeadsExplorer,
    PeekExplorer,
    RowExplorer,
    ScalingExplorer,
)
from attnlab.explorers._controls import Choice, Slider, controls_of
from attnlab.explorers.row import WEIGHTS_STEP
from attnlab.palette import shade

STATES = [
    ScalingExplorer(ask=False, d_k=1024, seed=1),
    ScalingExplorer(ask=False, d_k=64, divisor="d_k"),
    CacheExplorer(ask=False, cache=True, step=6),
    CostExplorer(ask=False, n=64, heads=1, dtype="float16"),
    PeekExplorer(ask=False, causal=False, step=50),
    HeadsExplorer(ask=False, heads=2, way="shortcut", step="view"),
    CrossExplorer(ask=False, asking="words", word="mat"),
    RowExplorer(ask=False, step=7, query="is", mask="causal"),
    RowExplorer(ask=False, step=3, query="He", mask="causal"),
]


def numbers(values):
    return torch.as_tensor(values, dtype=torch.float64).flatten().tolist()


def near(colour, value, scale):
    """Return whether a colour is that of a value, or of one beside it: 0.6 % of the scale away."""
    place = (value - scale[0]) / (scale[1] - scale[0])
    some = zip(*(shade(place + step) for step in (-0.006, 0, 0.006)), strict=True)
    parts = map(int, re.findall(r"\d+", colour))
    return all(min(one) - 2 <= part <= max(one) + 2 for part, one in zip(parts, some, strict=True))


# --- each kind of panel ---------------------------------------------------------------------------


def check_heatmap(shown, panel, values, _explorer):
    cells = numbers(values["cells"])
    looks = list(itertools.chain(*values.get("looks", [[""] * len(cells)])))
    texts = list(itertools.chain(*values.get("texts", [[None] * len(cells)])))
    found = shown.locator("td .cell").evaluate_all(
        "all => all.map(e => [e.textContent, e.className, e.style.backgroundColor, e.ariaLabel])"
    )
    cases = zip(found, cells, looks, texts, strict=True)
    for (text, kind, colour, spoken), value, look, written in cases:
        told = [text] if written is None and look != "blocked" else []
        told += [spoken.partition("weight ")[2]] if spoken else []
        assert [float(one) for one in told] == pytest.approx([value] * len(told), abs=0.0051)
        assert written in (None, text)
        assert {*look.split()} <= {*kind.split()}
        assert look not in ("", "leak") or not panel.measure or near(colour, value, panel.scale)
    sums = values.get("sums", [])
    assert shown.locator("td.sum").all_inner_texts() == [text for text, _ in sums]
    assert shown.locator("td.sum .bad").count() == sum(not right for _, right in sums)


SHARES = """all => all.map(e =>
    e.getBoundingClientRect().width / e.parentElement.getBoundingClientRect().width)"""


def check_bars(shown, panel, values, _explorer):
    for name, key in {"fill": "weights", "outline": "outline"}.items():
        wanted = numbers(values.get(key, torch.zeros(len(panel.names))))
        close = 0.02 if name == "outline" else 0.001  # a border of 2.5 pixels
        assert shown.locator(f"table .{name}").evaluate_all(SHARES) == pytest.approx(
            wanted, abs=close
        )
    texts = [f"{weight:.{panel.digits}f}" for weight in numbers(values["weights"])]
    assert shown.locator(".figure b").all_inner_texts() == texts
    names = [name for name in (panel.filled, panel.outlined) if name]
    assert shown.locator(".legend span").all_inner_texts() == names


CHART = """svg => {
    const numbers = text => text.match(/-?[\\d.]+/g).map(Number);
    const of = (kind, name) => [...svg.querySelectorAll(kind)].map(
        e => [e.getAttribute('class'), ...numbers(e.getAttribute(name))]);
    return {lines: of('.line', 'points'), dots: of('.dot', 'transform'),
        grid: [...svg.querySelectorAll('.grid')].map(line => line.y1.baseVal.value),
        now: svg.querySelector('.now').x1.baseVal.value,
        texts: [...svg.querySelectorAll('text')].map(text => [text.textContent,
            Number(text.getAttribute('x')), Number(text.getAttribute('y'))])};
}"""


def check_curves(shown, panel, values, explorer):
    drawn = shown.locator("svg.pickable").evaluate(CHART)
    lines = values.get("values") or [line.values for line in panel.lines]
    at, grid = panel.stops.index(getattr(explorer, panel.over)), drawn["grid"]
    ticks, texts = panel.y.labelled(), drawn["texts"]
    scale = torch.log10 if panel.y.log else torch.clone
    first, last = (scale(torch.tensor(float(tick))) for tick, _ in (ticks[0], ticks[-1]))
    current = values.get("current")
    for place, (line, (look, *points), (_, *dot), declared) in enumerate(
        zip(lines, drawn["lines"], drawn["dots"], panel.lines, strict=True)
    ):
        share = (scale(torch.tensor(line, dtype=torch.float64)) - first) / (last - first)
        heights = grid[0] + (grid[-1] - grid[0]) * share
        assert points[1::2] == pytest.approx(heights.tolist(), abs=0.6)
        assert dot == pytest.approx(points[2 * at : 2 * at + 2], abs=0.01)
        assert (panel.role or declared.role) in look
        assert ("pale" in look) == (current not in (None, place))
    across = drawn["lines"][0][1::2]
    assert drawn["now"] == across[at]
    below = [(text, x) for text, x in zip(panel.describe()["labels"], across, strict=True) if text]
    beside, further = texts[: len(grid)], texts[len(grid) :][: len(below)]
    assert [text for text, _, _ in beside] == [text for _, text in ticks]
    assert [y - 5 for _, _, y in beside] == pytest.approx(grid)
    assert [(text, x) for text, x, _ in further] == below
    dashes = shown.locator("polyline, .legend .line").evaluate_all(
        "all => all.map(e => e.getAttribute('stroke-dasharray') === 'none')"
    )
    assert dashes == 2 * [line.dash == "solid" for line in panel.lines]
    read_out = shown.locator("svg.pickable").get_attribute("aria-label")
    told = [float(one.rpartition(" ")[2]) for one in read_out.split("; ")]
    assert told == pytest.approx([line[at] for line in lines], rel=0.006)


def check_table(shown, _panel, values, _explorer):
    rows = [
        [one if isinstance(one, tuple) else (one, "") for one in row]
        for row in (values["head"], *values["body"])
    ]
    found = shown.locator("tr").evaluate_all(
        "rows => rows.map(row => [...row.children].map(e => [e.innerText.trim(), e.className]))"
    )
    assert found == [[[text.replace("**", ""), look] for text, look in row] for row in rows]


def check_squares(shown, _panel, values, explorer):
    """Five squares of a size: n by n, and the four times as many of twice as many tokens."""
    texts = shown.locator(".squares text").all_text_contents()
    assert texts[:10] == values["tile"].split() * 5
    assert texts[10:12] == [f"n = {explorer.n}", f"n = {2 * explorer.n}"]
    places = shown.locator("rect").evaluate_all(
        "all => all.map(({x, y, width}) => [x, y, width].map(one => one.baseVal.value))"
    )
    (_, _, size), (left, top, _), *_, (right, _, _) = places
    steps = (0, right - left)
    assert places[1:] == [[left + i, top + j, size] for i in steps for j in steps]
    assert size < right - left < 1.1 * size


def check_tables(shown, _panel, values, _explorer):
    found = shown.locator(".cell").evaluate_all(
        "all => all.map(e => [e.firstChild, e.lastChild].map(one => one.textContent)"
        ".concat(e.className.trim()))"
    )
    texts = [text for table in values["texts"] for row in table for text in row]
    each = zip(texts, numbers(values["tokens"]), numbers(values["wrong"]), strict=True)
    assert found == [
        [text, "✗" * bool(wrong), f"cell t{token:.0f}{' wrong' * bool(wrong)}"]
        for text, token, wrong in each
    ]


def check_strips(shown, _panel, values, explorer):
    """They are filled as far as the steps are taken."""
    found = shown.locator("tbody tr").evaluate_all(
        "rows => rows.map(row => [...row.querySelectorAll('.cell')].map(e => e.textContent))"
    )
    for texts, row in zip(found, values["rows"], strict=True):
        wanted = [*row["cells"], row["sum"]]
        assert texts == (wanted if row["step"] <= explorer.step else [""] * len(wanted))
    assert shown.locator("[aria-current=step]").inner_text().startswith(f"{explorer.step} ")
    later = shown.locator("button.later").all_inner_texts()
    assert [int(text[0]) for text in later] == [*range(explorer.step + 1, 8)]
    colours = shown.locator(".cell").evaluate_all("all => all.map(e => e.style.backgroundColor)")
    weights = explorer.result.weights.tolist() if explorer.step >= WEIGHTS_STEP else []
    wanted = [f"rgb{shade(round(weight, 2))}" for weight in weights]
    assert [colour for colour in colours if colour] == wanted


def check_crossing(shown, _panel, values, explorer):
    """A line to each key, as wide as its weight."""
    lines = shown.locator(".pull").evaluate_all(
        """all => all.map(line => [line.x1.baseVal.value, line.x2.baseVal.value,
            parseFloat(getComputedStyle(line).strokeWidth)])"""
    )
    result = explorer.result
    row, start = result.weights[result.picked], 100 * (result.picked + 0.5) / len(result.queries)
    wanted = [[start, 100 * (j + 0.5) / len(row), 30 * weight] for j, weight in enumerate(row)]
    torch.testing.assert_close(torch.tensor(lines), torch.tensor(wanted), atol=0.02, rtol=0)
    assert shown.locator("[aria-pressed=true]").inner_text() == result.queries[result.picked]


CHECKS = {
    name.removeprefix("check_"): check for name, check in globals().items() if "check_" in name
}


# --- each explorer --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def cards(open_cards):
    """The cards of the states, in one page without a kernel."""
    return open_cards(STATES)


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


def panels_of(explorer):
    """Return the panels of an explorer as its frame changes them, with the values of the frame."""
    frame = explorer.frame_now()
    columns = [getattr(panel, "panels", (panel,)) for panel in explorer.panels]
    pairs = ((panel, frame.get(panel.key, {})) for panel in itertools.chain(*columns))
    return [(panel.at(values), values) for panel, values in pairs]


@pytest.mark.parametrize("place", range(len(STATES)), ids=lambda place: repr(STATES[place]))
def test_the_browser_shows_what_the_frame_holds(cards, place):
    explorer, card = STATES[place], cards[place]
    frame = explorer.frame_now()
    assert card.locator(".say").inner_text() == explorer.say()
    assert card.locator("pre").last.text_content() == frame["code"]
    assert card.locator(".say.bad").count() == frame["bad"]
    check_controls(card, explorer)
    sections = card.locator("section").all()
    for shown, (panel, values) in zip(sections, panels_of(explorer), strict=True):
        if panel.title:
            assert shown.locator("h4").inner_text() == panel.title
            assert shown.locator("h4").get_attribute("class") == panel.role
        if panel.kind in CHECKS:
            CHECKS[panel.kind](shown, panel, values, explorer)
