"""LookingBackExplorer in a page without a kernel."""

import pytest

from attnlab.explorers import LookingBackExplorer
from attnlab.explorers.looking_back import TEXT

STATES = [
    LookingBackExplorer(ask=False),
    LookingBackExplorer(ask=False, place=20, step=40),
    LookingBackExplorer(),
]


@pytest.fixture(scope="module")
def cards(open_cards):
    """Return the cards of the states, in one page."""
    return open_cards(STATES)


@pytest.mark.parametrize("index", [0, 1])
def test_lines_and_frames_are_those_of_the_result(cards, index):
    card, explorer = cards[index], STATES[index]
    assert card.locator(".say").inner_text() == explorer.say()
    result = explorer.result
    rows = card.locator(".crossing svg").all()
    for row, start, weights in zip(
        rows, (explorer.place, result.target), (result.second, result.first), strict=True
    ):
        found = row.locator("line").evaluate_all(
            "all => all.map(e => ['x1', 'x2', 'stroke-width'].map(n => +e.getAttribute(n)))"
        )
        shown = [(to, round(w, 3)) for to, w in enumerate(weights.tolist()) if round(w, 3) >= 0.005]
        assert [end for _, end, _ in found] == pytest.approx(
            [100 * (to + 0.5) / 22 for to, _ in shown]
        )
        assert [width for *_, width in found] == pytest.approx([18 * w for _, w in shown])
        begins = [100 * (start + 0.5) / 22] * len(found)
        assert [begin for begin, *_ in found] == pytest.approx(begins)
    framed = card.locator(".crossing span").evaluate_all(
        "all => all.flatMap((e, i) => e.style.boxShadow ? [i % 22] : [])"
    )
    assert framed == [result.target, result.source]
    assert card.bounding_box()["height"] <= 620


def test_a_click_picks_a_letter_and_the_slider_moves_the_training(cards):
    card = cards[0]
    card.get_by_role("button", name="A at 14", exact=True).click()
    assert card.locator(".say").inner_text() == LookingBackExplorer(ask=False, place=14).say()
    card.get_by_role("button", name="step = 40").click()
    expected = LookingBackExplorer(ask=False, place=14, step=40)
    assert card.locator(".say").inner_text() == expected.say()
    pressed = card.locator(".crossing button").evaluate_all("all => all.map(e => e.ariaPressed)")
    assert [place for place, one in enumerate(pressed) if one == "true"] == [14]
    assert card.locator(".crossing button").all_inner_texts() == list(TEXT)


def test_the_question_is_settled_at_steps_40_and_60(cards):
    card = cards[2]
    gate = card.get_by_role("group", name="Predict first")
    gate.get_by_role("button", name="layer 1").press("Enter")
    card.get_by_role("button", name="step = 40").click(force=True)
    assert "You predicted: layer 1" in gate.inner_text()
    card.get_by_role("button", name="step = 60").click(force=True)
    assert "✗ You predicted layer 1." in gate.inner_text()
