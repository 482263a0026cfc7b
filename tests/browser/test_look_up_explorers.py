"""Soft look-up: the browser says, shows and writes what torch computes."""

import re

import pytest
import torch

from attnlab.explorers import SoftLookupExplorer
from attnlab.explorers.look_up import KEYS
from tests.browser.pages import written

LOOK_UPS = [
    SoftLookupExplorer(ask=False),
    SoftLookupExplorer(ask=False, query=(-0.7071, 0.7071)),
    SoftLookupExplorer(ask=False, query=(0, 0)),
    SoftLookupExplorer(ask=False, query=(-1.5, 1.5), temperature=0.05),
    SoftLookupExplorer(ask=False, query=(0.4, -1.35), temperature=0.2),
    SoftLookupExplorer(ask=False, query=(1.5, -1.5), temperature=5),
    SoftLookupExplorer(ask=False, query=(-0.1, 1.1), temperature=0.2),
]


@pytest.fixture(scope="module")
def cards(open_cards):
    """All of them, and one that asks first."""
    return open_cards([*LOOK_UPS, SoftLookupExplorer()])


@pytest.mark.parametrize("index", range(len(LOOK_UPS)))
def test_the_browser_says_shows_and_writes_what_torch_computes(cards, index):
    explorer, card = LOOK_UPS[index], cards[index]
    weights = explorer.result.weights.float()
    assert card.locator(".say").inner_text() == explorer.say()
    shown = [float(text) for text in card.locator(".bars .figure b").all_inner_texts()]
    lengths = card.locator(".fill").evaluate_all("all => all.map(e => parseFloat(e.style.width))")
    torch.testing.assert_close(torch.tensor(shown), weights, atol=5.1e-5, rtol=0)
    lengths = torch.tensor(lengths[: len(shown)]) / 100
    torch.testing.assert_close(lengths, weights, atol=5.1e-5, rtol=0)  # sent with four digits
    names = written(card)
    torch.testing.assert_close(names["weights"], weights, atol=1e-5, rtol=0)
    assert names["output"].item() == pytest.approx(explorer.result.output, abs=1e-4)
    assert f"Output {explorer.result.output:.2f} legs" in card.inner_html()


def test_the_query_is_dragged_clicked_and_walked(cards):
    card = cards[0]
    page, handle = card.page, card.get_by_role("slider", name="query", exact=True)
    handle.scroll_into_view_if_needed()
    box, plane = handle.bounding_box(), card.locator(".field").bounding_box()
    assert min(box["width"], box["height"]) >= 44

    def place():
        return tuple(round(x, 4) for x in written(card)["query"].tolist())

    def pixel(x, y):
        unit = plane["width"] * 105 / 360
        left = plane["x"] + plane["width"] / 2 + x * unit
        return left, plane["y"] + plane["height"] / 2 - y * unit

    page.mouse.move(*pixel(0.866, 0.5))
    page.mouse.down()
    page.mouse.move(*pixel(-0.5, 0.5), steps=4)
    assert place() == (-0.5, 0.5)
    page.mouse.move(*pixel(-9, 9), steps=2)  # it stays on the plane
    page.mouse.up()
    assert place() == (-1.5, 1.5)
    page.mouse.move(*pixel(0, 0))
    assert place() == (-1.5, 1.5)  # it was let go
    page.mouse.click(*pixel(1, -1))
    assert place() == (1, -1)
    for key in ("ArrowLeft", "ArrowUp", "ArrowUp", "ArrowRight", "ArrowRight", "ArrowDown"):
        handle.press(key)
    assert place() == (1.1, -0.9)
    assert handle.get_attribute("aria-valuetext") == "right 1.10, up −0.90"
    card.get_by_role("button", name="kitten").click()
    assert card.locator(".say").inner_text() == LOOK_UPS[0].say()


def test_the_query_goes_to_the_edge_by_home_and_end_and_the_page_stays(cards):
    handle = cards[1].get_by_role("slider", name="query", exact=True)
    handle.focus()
    scrolled = "window.scrollY"
    before = cards[1].page.evaluate(scrolled)
    values = []
    for key in ("End", "PageUp", "Home", "PageDown", "PageDown"):
        handle.press(key)
        values.append(written(cards[1])["query"].tolist())
    expected = [(1.5, 0.7), (1.5, 1.2), (-1.5, 1.2), (-1.5, 0.7), (-1.5, 0.2)]
    torch.testing.assert_close(torch.tensor(values), torch.tensor(expected))
    assert cards[1].page.evaluate(scrolled) == before
    cards[1].get_by_role("button", name="between bird and spider").click()


BALLS = """card => [...card.querySelectorAll('.ball')].map(ball => {
    const {x, width, height} = ball.getBBox();
    return [x + width / 2, width, height, getComputedStyle(ball).stroke];
})"""


@pytest.mark.parametrize("index", range(len(LOOK_UPS)))
def test_the_area_of_a_ball_is_its_weight(cards, index):
    """Width times height of what is drawn, without an edge that would change it."""
    weights = LOOK_UPS[index].result.weights.float()
    balls = cards[index].evaluate(BALLS)
    areas = torch.tensor([width * height for _, width, height, _ in balls])
    torch.testing.assert_close(areas / (2 * 28) ** 2, weights, atol=1e-6, rtol=1e-4)
    assert {stroke for *_, stroke in balls} == {"none"}
    cat, bird, spider = (across for across, *_ in balls)
    assert spider - cat == pytest.approx(2 * (cat - bird))  # 8, 4 and 2 legs
    mark = cards[index].locator(".balance .raw").get_attribute("transform")
    at = float(re.match(r"translate\(([\d.]+),", mark)[1])
    output = LOOK_UPS[index].result.output
    assert (at - bird) / (spider - bird) == pytest.approx((output - 2) / 6, abs=1e-6)
    number = cards[index].locator(".balance .name")
    assert float(number.get_attribute("x")) == pytest.approx(at)
    assert number.text_content() == f"{output:.2f}"


ARROWS = """lines => lines.map(line => [line.x2.baseVal.value / 105, -line.y2.baseVal.value / 105,
    parseFloat(getComputedStyle(line).strokeWidth)])"""
NAMES = "texts => texts.map(({x, y}) => [x.baseVal[0].value / 105, -y.baseVal[0].value / 105])"


@pytest.mark.parametrize("index", range(len(LOOK_UPS)))
def test_arrows_point_to_the_keys_and_to_the_query(cards, index):
    """They end in the heads of the arrows; those of the keys are as wide as their weights say."""
    explorer, field = LOOK_UPS[index], cards[index].locator(".field")
    *keys, stem = field.locator("line:not(.grid)").evaluate_all(ARROWS)
    weights = explorer.result.weights.tolist()
    wanted = [[0.86 * x, 0.86 * y, 3 + 10 * w] for (x, y), w in zip(KEYS, weights, strict=True)]
    torch.testing.assert_close(torch.tensor(keys), torch.tensor(wanted), atol=1e-4, rtol=0)
    assert stem[:2] == pytest.approx(explorer.query, abs=1e-4)
    for (x, y), (right, up) in zip(KEYS, field.locator("> text").evaluate_all(NAMES), strict=True):
        assert x * right + y * up > 1  # the name stands beyond the end


def test_a_finger_drags_the_query_and_scrolls_beside_it(cards):
    touch = "e => getComputedStyle(e).touchAction"
    assert cards[0].locator(".handle").evaluate(touch) == "none"
    assert cards[0].locator(".field").evaluate(touch) == "pan-y"


def test_the_prediction_is_settled_where_the_answer_is_seen(cards):
    look_up = cards[-1]
    gate = look_up.get_by_role("group", name="Predict first")
    gate.get_by_role("button", name="exactly 5").click()
    look_up.get_by_role("button", name="zero").click()
    assert "✗" not in gate.inner_text()
    look_up.get_by_role("button", name="between bird and spider").click()
    assert "✗ You predicted exactly 5." in gate.inner_text()
