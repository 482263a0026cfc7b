"""Rotary positions: the browser says, draws and writes what torch computes."""

import pytest
import torch

from attnlab import rotate
from attnlab.explorers import RotaryExplorer
from tests.browser.pages import written

STATES = [
    {},
    {"query": 0, "key": 24, "base": 10.0},
    {"query": 24, "key": 0, "base": 1_000_000.0},
    {"query": 7, "key": 7, "base": 100.0},
]
ENDS = """circles => circles.map(circle => [circle.cx.baseVal.value / 50,
    -circle.cy.baseVal.value / 50])"""


@pytest.fixture(scope="module")
def cards(open_cards):
    """All states, and one that asks first."""
    return open_cards([*(RotaryExplorer(ask=False, **one) for one in STATES), RotaryExplorer()])


@pytest.mark.parametrize("index", range(len(STATES)))
def test_the_browser_says_draws_and_writes_what_torch_computes(cards, index):
    explorer, card = RotaryExplorer(ask=False, **STATES[index]), cards[index]
    result = explorer.result
    assert card.locator(".say").inner_text() == explorer.say()
    assert written(card, rotate=rotate)["score"].item() == pytest.approx(result.score, abs=1e-4)
    drawn = torch.tensor(card.locator(".turned .dot").evaluate_all(ENDS))  # query, key, query, ...
    wanted = torch.stack([result.query, result.key], dim=1).flatten(0, 1).float()
    torch.testing.assert_close(drawn, wanted, atol=1e-4, rtol=0)
    points = card.locator("polyline").get_attribute("points").split()
    heights = torch.tensor([float(point.split(",")[1]) for point in points])
    assert heights.argmin() == result.curve.argmax()  # up is small
    slope = torch.corrcoef(torch.stack([heights, result.curve.float()]))[0, 1]
    assert slope == pytest.approx(-1, abs=1e-5)


def test_positions_are_dragged_and_moved_together_as_far_as_they_go(cards):
    card = cards[0]
    query = card.get_by_role("slider", name="position of the query")
    score = written(card, rotate=rotate)["score"]
    for _ in range(3):
        card.get_by_role("button", name="on ▶").click()
    assert query.input_value() == "8"
    assert written(card, rotate=rotate)["score"] == pytest.approx(score.item(), abs=1e-5)
    for _ in range(9):
        card.get_by_role("button", name="◀ back").click()
    assert query.input_value() == "3"  # the key is at 0
    query.press("ArrowRight")
    assert "4 − 0 = 4" in card.locator(".say").inner_text()


def test_a_click_on_the_curve_keeps_its_distance(cards):
    card = cards[3]
    chart = card.locator(".pickable")
    chart.scroll_into_view_if_needed()
    box = chart.bounding_box()
    card.page.mouse.click(box["x"] + box["width"] - 2, box["y"] + box["height"] / 2)
    assert "24 − 0 = 24" in card.locator(".say").inner_text()
    card.page.mouse.move(0, 0)
    assert card.get_by_role("slider", name="position of the key").input_value() == "0"


def test_the_prediction_is_settled_where_both_bases_were_seen(cards):
    card = cards[-1]
    gate = card.get_by_role("group", name="Predict first")
    gate.get_by_role("button", name="all of them").click()
    card.locator("label", has_text="1,000,000").click()
    assert "✗" not in gate.inner_text()
    card.locator("label", has_text="10").first.click()
    assert "✗ You predicted all of them." in gate.inner_text()
