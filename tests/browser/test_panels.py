"""Panels that Python declares, each form once: the browser shows what a frame holds."""

import itertools
import json

import pytest
import torch

from attnlab.explorers import (
    CacheExplorer,
    CostExplorer,
    DealExplorer,
    RowExplorer,
    ScalingExplorer,
)
from attnlab.explorers.frame.controls import Choice, Slider, controls_of
from tests.browser.pages import read

STATES = [
    ScalingExplorer(ask=False, d_k=1024),
    ScalingExplorer(ask=False, d_k=64, rate=32.0, entries=32),
    CacheExplorer(ask=False, cache=True, step=6),
    CostExplorer(ask=False, n=64, heads=1, dtype="float16"),
    DealExplorer(ask=False, split="cut", heads=4),
    RowExplorer(ask=False, step=3, query="He", mask="causal"),
]


def numbers(values):
    return torch.as_tensor(values, dtype=torch.float64).flatten().tolist()


# --- each kind of panel ---------------------------------------------------------------------------


DARKNESS = """e => getComputedStyle(e).backgroundColor.match(/\\d+/g)
    .reduce((sum, part) => sum - part, 0)"""


def check_heatmap(shown, panel, values, _explorer):
    cells = numbers(values["cells"])
    looks = list(itertools.chain(*values.get("looks", [[""] * len(cells)])))
    texts = list(itertools.chain(*values.get("texts", [[None] * len(cells)])))
    found = read(shown.locator("td .cell"), "e => [e.textContent, e.className, e.ariaLabel]")
    for (text, kind, spoken), value, look, written in zip(found, cells, looks, texts, strict=True):
        told = [text] if written is None and look != "blocked" else []
        told += [spoken.partition("weight ")[2]] if spoken else []
        assert [float(one) for one in told] == pytest.approx([value] * len(told), abs=0.0051)
        assert written in (None, text)
        assert {*look.split()} <= {*kind.split()}
    if panel.measure:  # the larger, the darker
        each = zip(cells, read(shown.locator("td .cell"), DARKNESS), looks, strict=True)
        order = [dark for _, dark, look in sorted(each) if look in ("", "leak")]
        assert order == sorted(order)


def check_bars(shown, panel, values, _explorer):
    share = "e => e.getBoundingClientRect().width / e.parentElement.getBoundingClientRect().width"
    weights = numbers(values["weights"])
    assert read(shown.locator("table .fill"), share) == pytest.approx(weights, abs=0.001)
    outline = numbers(values.get("outline", torch.zeros(len(panel.names))))
    assert read(shown.locator("table .outline"), share) == pytest.approx(outline, abs=0.02)
    texts = [f"{weight:.{panel.digits}f}" for weight in weights]
    assert shown.locator(".figure b").all_inner_texts() == texts


CHART = """svg => {
    const lines = [...svg.querySelectorAll('.line')].map(
        line => line.getAttribute('points').match(/-?[\\d.]+/g).map(Number));
    return {lines, now: svg.querySelector('.now').x1.baseVal.value,
        grid: [...svg.querySelectorAll('.grid')].map(line => line.y1.baseVal.value)};
}"""


def check_curves(shown, panel, values, explorer):
    drawn = shown.locator("svg.pickable").evaluate(CHART)
    lines = values.get("values") or [line.values for line in panel.lines]
    at, grid, ticks = panel.stops.index(getattr(explorer, panel.over)), drawn["grid"], panel.y
    scale = torch.log10 if ticks.log else torch.clone
    first, *_, last = (scale(torch.tensor(float(tick))) for tick, _ in ticks.labelled())
    for line, points in zip(lines, drawn["lines"], strict=True):
        share = (scale(torch.tensor(line, dtype=torch.float64)) - first) / (last - first)
        heights = grid[0] + (grid[-1] - grid[0]) * share
        assert points[1::2] == pytest.approx(heights.tolist(), abs=0.6)
        assert drawn["now"] == pytest.approx(points[2 * at], abs=0.01)
    read_out = shown.locator("svg.pickable").get_attribute("aria-label")
    told = [float(one.rpartition(" ")[2]) for one in read_out.split("; ")]
    assert told == pytest.approx([line[at] for line in lines], rel=0.006)


def check_crowds(shown, panel, values, _explorer):
    """A dot for each query, whose area is the length of its gradient."""
    radii = numbers(read(shown.locator("circle"), "dot => dot.r.baseVal.value"))
    areas = [9 * length / panel.loud for length in numbers(values["lengths"])]
    assert [radius**2 for radius in radii] == pytest.approx(areas, rel=1e-3, abs=1e-6)
    names = [line.name for line in panel.lines]
    assert shown.locator(".legend").all_inner_texts() == names
    labels = read(shown.locator(".crowd"), "crowd => crowd.ariaLabel")
    assert labels == [f"{one}: {told}" for one, told in zip(names, values["told"], strict=True)]


def check_table(shown, _panel, values, _explorer):
    rows = [
        [one if isinstance(one, tuple) else (one, "") for one in row]
        for row in (values["head"], *values["body"])
    ]
    found = read(
        shown.locator("tr"), "row => [...row.children].map(e => [e.innerText.trim(), e.className])"
    )
    assert found == [[[text.replace("**", ""), look] for text, look in row] for row in rows]


def check_squares(shown, _panel, values, explorer):
    """One square of n by n, and four of twice as many tokens."""
    texts = shown.locator(".squares text").all_text_contents()
    assert texts[:10] == values["tile"].split() * 5
    assert texts[10:12] == [f"n = {explorer.n}", f"n = {2 * explorer.n}"]


def check_deal(shown, _panel, values, _explorer):
    """The deck, the cards in the hands, and whose averages each token gets, over which tokens."""
    assert shown.locator(".deck .cell").all_text_contents() == values["deck"]
    hands = [values["deck"][int(card)] for card in numbers(values["hands"])]
    asked = list(itertools.chain(*values["asked"]))
    heard = torch.as_tensor(values["heard"]).flatten(0, 1).tolist()
    marks = [*numbers(values["wrong_hands"]), *numbers(values["wrong_output"])]
    found = read(
        shown.locator(".hands .cell"),
        """e => [e.querySelector('b').textContent, e.querySelectorAll('.cross').length,
            [...e.querySelectorAll('.heard i')].map(i => i.className === 'yes')]""",
    )
    wanted = zip([*hands, *asked], marks, [*[[]] * len(hands), *heard], strict=True)
    assert found == [[text, mark, ears] for text, mark, ears in wanted]


def check_strips(shown, _panel, values, explorer):
    """They are filled as far as the steps are taken."""
    rows = "row => [...row.querySelectorAll('.cell')].map(e => e.textContent)"
    found = read(shown.locator("tbody tr"), rows)
    for texts, row in zip(found, values["rows"], strict=True):
        wanted = [*row["cells"], row["sum"]]
        assert texts == (wanted if row["step"] <= explorer.step else [""] * len(wanted))
    assert shown.locator("[aria-current=step]").inner_text().startswith(f"{explorer.step} ")


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
