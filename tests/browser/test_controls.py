"""Controls of explorers, each form once: by a click where they stand, and by keys."""

import pytest

from attnlab.explorers import (
    CostExplorer,
    MaskExplorer,
    RealHeadsExplorer,
    RotaryExplorer,
    RowExplorer,
    ScalingExplorer,
    SoftLookupExplorer,
)
from tests.browser.pages import barriers


@pytest.fixture
def open_card(open_cards):
    """Open one explorer in a page of its own; return its card."""
    return lambda explorer: open_cards([explorer])[0]


def look(card):
    """Return what a card shows and says."""
    return card.locator(".picture").inner_html() + card.locator(".say").inner_html()


@pytest.mark.parametrize(
    ("kind", "role", "name", "key"),
    [
        (ScalingExplorer, "slider", None, "ArrowRight"),
        (CostExplorer, "button", "n = 65536", "Enter"),
        (ScalingExplorer, "radio", "32", "ArrowRight"),
        (RowExplorer, "button", "Next ▶", "Enter"),
        (MaskExplorer, "radio", "none", "ArrowRight"),
        (MaskExplorer, "slider", None, "ArrowLeft"),
        (RealHeadsExplorer, "button", "head 2", "Enter"),
        (SoftLookupExplorer, "button", "zero", "Enter"),
    ],
)
def test_a_control_moves_the_picture_by_keys_and_by_mouse(open_card, kind, role, name, key):
    card = open_card(kind(ask=False))
    control, start = card.get_by_role(role, name=name, exact=True).first, look(card)
    control.focus()
    card.page.keyboard.press(key)
    assert look(card) != start
    card = open_card(kind(ask=False))
    box = control.bounding_box()
    share = 0.8 if role == "slider" else 0.5
    control.click(position={"x": box["width"] * share, "y": box["height"] / 2}, force=True)
    assert look(card) != start


def test_a_button_of_steps_rests_at_the_end_and_keeps_the_focus(open_card):
    card = open_card(CostExplorer(ask=False, n=32768))
    button = card.get_by_role("button", name="Double n")
    for _ in range(2):
        button.press("Enter")
    assert card.locator("output").inner_text() == "65536"
    assert button.get_attribute("aria-disabled") == "true"
    assert button.evaluate("e => e.getRootNode().activeElement === e")


def test_cells_are_clicked_and_walked_with_arrows_and_put_back(open_card):
    card = open_card(MaskExplorer(ask=False, padding=0, mask="causal", fill="0 after"))
    cells, lit = card.locator("button.cell"), card.locator("input:checked")
    cells.nth(1).click()
    assert "may attend" in cells.nth(1).get_attribute("aria-label")
    assert "“The” now sees the later word “cat”." in card.locator(".say").inner_text()
    assert lit.evaluate_all("all => all.map(one => one.value)") == ["0 after"]  # no mask by name
    for key in ("ArrowDown", "ArrowDown", "ArrowLeft", "Enter"):
        card.page.keyboard.press(key)
    assert "blocked" in cells.nth(12).get_attribute("aria-label")
    assert "“sat”, key “The”: blocked" in card.locator(".detail").inner_text()
    assert card.locator("button.cell[tabindex='0']").count() == 1
    card.get_by_role("radio", name="both").check()  # begins without cells flipped by hand
    assert "blocked" in cells.nth(1).get_attribute("aria-label")
    card.get_by_role("radio", name="score 0").check()
    card.get_by_role("slider").press("End")
    card.get_by_role("button", name="Reset").click()  # the state of the call
    assert lit.evaluate_all("all => all.map(one => one.value)") == ["causal", "0 after"]
    assert card.get_by_role("slider").get_attribute("aria-valuetext") == "0"


def test_pointing_previews_and_a_click_keeps(open_card):
    card = open_card(ScalingExplorer(ask=False, d_k=1024))
    curve, title, said = (card.locator(name) for name in ("svg.pickable", "h3", ".say"))
    place = {"x": 0.15 * curve.last.bounding_box()["width"], "y": 20}
    wanted = ((curve.last.hover, "d_k = 4,"), (title.hover, "d_k = 1,024,"))
    for act, words in (*wanted, (curve.last.click, "d_k = 4,"), (title.hover, "d_k = 4,")):
        act(**({"position": place} if act != title.hover else {}))
        assert said.inner_text().startswith(words)
    card = open_card(RealHeadsExplorer(ask=False))
    third = card.locator(".map").nth(2)
    for act, head in ((third.hover, 2), (title.hover, 4), (third.click, 2), (title.hover, 2)):
        act()
        assert card.locator("h4.scaled").inner_text().startswith(f"Head {head}")


def test_a_prediction_comes_first(open_card):
    card = open_card(ScalingExplorer())
    gate, veiled = card.get_by_role("group", name="Predict first"), card.locator(".picture")
    assert veiled.evaluate("e => e.inert && getComputedStyle(e).filter !== 'none'")
    assert barriers(card.page, ".attnlab-explorer") == []
    start = look(card)
    card.page.keyboard.press("Tab")
    for _ in range(12):  # no control of the veil is ever reached
        card.page.keyboard.press("ArrowRight")
        card.page.keyboard.press("Tab")
    assert look(card) == start
    gate.get_by_role("button", name="only d_k").press("Enter")
    assert "You predicted: only d_k" in gate.inner_text()
    assert gate.evaluate("gate => gate.contains(gate.getRootNode().activeElement)")
    assert not veiled.evaluate("e => e.inert || getComputedStyle(e).filter !== 'none'")


@pytest.mark.parametrize(
    ("kind", "guess", "before", "last"),
    [
        (RowExplorer, "1.000", ("button", "4 exp"), ("button", "6 ÷ sum")),
        (RotaryExplorer, "all of them", ("radio", "1,000,000"), ("radio", "10")),
        (
            MaskExplorer,
            "score −∞, then weight 0",
            ("radio", "weight 0"),
            ("radio", "score −∞, then weight 0"),
        ),
    ],
)
def test_a_prediction_is_settled_where_its_answer_is_seen(open_card, kind, guess, before, last):
    explorer = kind()
    card = open_card(explorer)
    gate = card.get_by_role("group", name="Predict first")
    assert card.locator(".cell.asked").count() == (kind is RowExplorer)
    gate.get_by_role("button", name=guess).press("Enter")
    for (role, name), settled in ((before, False), (last, True)):
        assert f"You predicted: {guess}" in gate.inner_text()
        card.get_by_role(role, name=name, exact=True).click(force=True)
        assert (f"You predicted {guess}." in gate.inner_text()) == settled
    right = explorer.prediction.options[explorer.prediction.right] == guess
    assert gate.get_attribute("class") == f"gate {'right' if right else 'wrong'}"
    assert card.locator(".cell.asked").count() == 0
