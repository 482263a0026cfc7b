"""Controls of explorers, each form once: by a click where they stand, and by keys."""

import pytest

from attnlab.explorers import (
    BankExplorer,
    CostExplorer,
    CrossExplorer,
    MaskExplorer,
    OrderExplorer,
    RealHeadsExplorer,
    RotaryExplorer,
    RowExplorer,
    ScalingExplorer,
    SoftLookupExplorer,
)
from attnlab.explorers.scaling import DRAWS
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
        (ScalingExplorer, "button", "d_k = 1024", "Enter"),
        (ScalingExplorer, "button", "New draw", "Space"),
        (CostExplorer, "button", "Double n", "Space"),
        (RowExplorer, "button", "Next ▶", "Enter"),
        (RowExplorer, "button", "6 ÷ sum", "Enter"),
        (MaskExplorer, "radio", "none", "ArrowLeft"),
        (MaskExplorer, "button", "cat", "Space"),
        (CrossExplorer, "button", "where?", "Enter"),
        (RealHeadsExplorer, "button", "head 2", "Enter"),
        (OrderExplorer, "button", "Shuffle", "Enter"),
        (BankExplorer, "radio", "river", "ArrowRight"),
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
    assert button.get_attribute("aria-disabled") == "false"
    for _ in range(2):
        button.press("Enter")
    assert card.locator("output").inner_text() == "65536"
    assert button.get_attribute("aria-disabled") == "true"
    assert button.evaluate("e => e.getRootNode().activeElement === e")


def test_every_draw_is_reached_and_the_first_comes_again(open_card):
    card, seen = open_card(ScalingExplorer(ask=False)), []
    for _ in range(DRAWS + 1):
        seen.append(tuple(card.locator("td").all_inner_texts()))
        card.get_by_role("button", name="New draw").press("Enter")
    assert len({*seen}) == DRAWS
    assert seen[-1] == seen[0]


def test_a_control_is_there_where_it_means_something(open_card):
    """The width of the window; it is told beside its slider and in the code."""
    card = open_card(MaskExplorer(ask=False))
    window = card.get_by_role("slider", name="width of the window")
    assert window.is_hidden()
    card.get_by_role("radio", name="window").check()
    for width, words in ((1, "itself alone"), (3, "itself and 2 before")):
        window.fill(str(width - 1))
        assert words in card.locator(".bar").inner_text()
        assert f".tril().triu({1 - width}).bool()  # {words}" in card.locator("pre").text_content()


def test_cells_are_clicked_and_walked_with_arrows_and_put_back(open_card):
    card = open_card(MaskExplorer(ask=False))
    cells = card.locator("button.cell")
    cells.nth(1).click()
    assert "may attend" in cells.nth(1).get_attribute("aria-label")
    for key in ("ArrowDown", "ArrowDown", "ArrowLeft", "Enter"):
        card.page.keyboard.press(key)
    assert "blocked" in cells.nth(12).get_attribute("aria-label")
    assert "“sat”, key “The”: blocked" in card.locator(".detail").inner_text()
    assert card.locator("button.cell[tabindex='0']").count() == 1
    card.get_by_role("button", name="Reset").click()
    assert "blocked" in cells.nth(1).get_attribute("aria-label")


def test_a_cell_picks_its_row(open_card):
    card = open_card(CrossExplorer(ask=False))
    card.locator("button.cell").nth(6).click()  # the first of row 1
    assert card.locator(".say").inner_text().startswith("“doing what?” asks")
    for key in ("ArrowDown", "Enter"):
        card.page.keyboard.press(key)
    assert card.locator("button[aria-pressed=true]").inner_text() == "where?"
    assert card.locator("tr.picked th").all_inner_texts() == ["where?"] * 2


def test_pointing_at_a_curve_previews_and_a_click_keeps(open_card):
    card = open_card(ScalingExplorer(ask=False, d_k=1024))
    curve = card.locator("svg.pickable").first
    box = curve.bounding_box()

    def point(share):
        return {"x": box["width"] * share, "y": box["height"] / 2}

    def shown_and_kept():
        said = card.locator(".say").inner_text()
        return said.partition(",")[0], card.locator("output").inner_text()

    curve.hover(position=point(0.15))
    assert shown_and_kept() == ("d_k = 1", "1024")
    card.locator("h3").hover()
    assert shown_and_kept() == ("d_k = 1024", "1024")
    curve.click(position=point(0.15))
    card.locator("h3").hover()
    assert shown_and_kept() == ("d_k = 1", "1")
    curve.hover(position=point(0.8))
    card.get_by_role("slider").press("ArrowRight")  # the keyboard wins over a pointer at rest
    assert shown_and_kept() == ("d_k = 2", "2")


def test_pointing_at_a_map_previews_and_a_click_keeps(open_card):
    card = open_card(RealHeadsExplorer(ask=False))
    title, third = card.locator("h4.scaled"), card.locator(".map").nth(2)
    for act, head in ((third.hover, 2), (card.locator("h3").hover, 4), (third.click, 2)):
        act()
        assert title.inner_text().startswith(f"Head {head}")
    card.locator("h3").hover()
    assert title.inner_text().startswith("Head 2")


# --- predictions ----------------------------------------------------------------------------------


def test_a_prediction_comes_first(open_card):
    card = open_card(ScalingExplorer())
    gate, veiled = card.get_by_role("group", name="Predict first"), card.locator(".picture")
    assert veiled.evaluate("e => e.inert && getComputedStyle(e).filter !== 'none'")
    controls = card.locator(".bar, .picture").locator("button, input")
    resting = (
        "all => all.map(e => [e.ariaDisabled, e.matches(':disabled') || !!e.closest('[inert]')])"
    )
    assert {tuple(one) for one in controls.evaluate_all(resting)} == {("true", True)}
    assert barriers(card.page, ".attnlab-explorer") == []
    start = look(card)
    card.page.keyboard.press("Tab")
    for _ in range(12):  # no control of the veil is ever reached
        card.page.keyboard.press("ArrowRight")
        card.page.keyboard.press("Tab")
    assert look(card) == start
    gate.get_by_role("button", name="flatter").press("Enter")
    assert "You predicted: flatter" in gate.inner_text()
    assert gate.evaluate("gate => gate.contains(gate.getRootNode().activeElement)")
    assert not veiled.evaluate("e => e.inert || getComputedStyle(e).filter !== 'none'")
    assert {one for one, _ in controls.evaluate_all(resting)} == {None}


@pytest.mark.parametrize(
    ("kind", "guess", "before", "last"),
    [
        (CostExplorer, "4 times", [], ("button", "Double n")),
        (RowExplorer, "1.000", [("button", "4 exp")], ("button", "6 ÷ sum")),
        (RotaryExplorer, "all of them", [("radio", "1,000,000")], ("radio", "10")),
        (MaskExplorer, "“The” (row 0)", [("button", "cat")], ("button", "The")),
    ],
)
def test_a_prediction_is_settled_where_its_answer_is_seen(open_card, kind, guess, before, last):
    explorer = kind()
    card = open_card(explorer)
    gate = card.get_by_role("group", name="Predict first")
    asked = card.locator(".strips .cell").all_text_contents()
    assert asked.count("?") == card.locator(".cell.asked").count() == (kind is RowExplorer)
    assert kind is not RowExplorer or asked.index("?") == 20  # of row 6 the third
    gate.get_by_role("button", name=guess).press("Enter")
    for role, name in before:
        card.get_by_role(role, name=name, exact=True).click(force=True)
        assert f"You predicted: {guess}" in gate.inner_text()
    card.get_by_role(last[0], name=last[1], exact=True).click(force=True)
    right = explorer.prediction.options[explorer.prediction.right] == guess
    assert f"{'✓' if right else '✗'} You predicted {guess}." in gate.inner_text()
    assert gate.get_attribute("class") == f"gate {'right' if right else 'wrong'}"
    assert card.locator(".cell.asked").count() == 0
