"""YourAttentionExplorer in a page without a kernel: it draws and says what Python stored."""

import math

import pytest
import torch

from attnlab.explorers import YourAttentionExplorer
from tests.browser.pages import shown_weights


def late_mask(query, key, value, mask):
    if not mask.any(dim=-1).all():
        raise ValueError("a row sees nothing")
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])
    return (scores.softmax(dim=-1) * mask) @ value


def wrong_axis(query, key, value):
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])
    return scores.softmax(dim=1) @ value


@pytest.fixture(scope="module")
def explorers():
    return [YourAttentionExplorer(late_mask), YourAttentionExplorer(wrong_axis, ask=False)]


@pytest.fixture
def cards(open_cards, explorers):
    return open_cards(explorers)


def word(card, text):
    return card.get_by_role("button", name=text, exact=True)


def assert_shows(card, explorer):
    """Fail unless the card shows and says what Python does."""
    assert card.locator(".say").inner_text() == explorer.say()
    wanted = explorer._shown().weights.flatten()
    torch.testing.assert_close(shown_weights(card), wanted, atol=0.0051, rtol=0)
    assert card.locator("pre").last.text_content().endswith(f"\n{explorer.answer['call']}")
    lines = card.locator(".checks li").evaluate_all(
        "all => all.map(li => [li.querySelector('i').textContent,"
        " li.querySelector('span').firstChild.textContent,"
        " li.querySelector('small')?.textContent ?? ''])"
    )
    marks = explorer.data["words"]["list"]["marks"]
    assert lines == [[marks[one.mark], one.words, one.told()] for one in explorer.checks]


def test_the_count_of_crosses_is_asked_first_and_the_list_is_shown(cards, explorers):
    card = cards[0]
    gate = card.get_by_role("group", name="Predict first")
    assert card.locator(".checks").evaluate("list => list.closest('[inert]') !== null")
    gate.get_by_role("button", name="none").press("Enter")
    assert gate.inner_text() == "✗ You predicted none. late_mask has one cross."
    assert gate.evaluate("gate => gate.contains(gate.getRootNode().activeElement)")
    assert_shows(card, explorers[0])
    failed = card.locator(".checks li.is-no")
    assert "fails" in failed.inner_text()
    assert "See lesson 3." in failed.inner_text()


def test_what_the_function_gave_is_known_for_single_paddings_and_not_beyond(cards, explorers):
    card, explorer = cards[0], explorers[0]
    card.get_by_role("button", name="skip").click()
    for mask, padding in (("none", 1), ("window", 3)):
        card.get_by_role("radio", name=mask).check()
        word(card, explorer.tokens[padding]).click()
        with explorer.hold_trait_notifications():
            explorer.mask, explorer.padding = mask, [padding]
        assert_shows(card, explorer)
        assert card.locator(".note:visible").count() == 0
        word(card, "Reset").click()
    explorer.mask, explorer.padding = "causal", []
    card.locator("button.cell").nth(1).click()
    assert "the browser draws this" in card.locator(".note:visible").inner_text()
    assert card.locator(".say").inner_text().startswith("Drawn by a correct function: every row")


def test_an_error_is_shown_with_its_line_and_the_list_stays(cards):
    card = cards[0]
    card.get_by_role("button", name="skip").click()
    word(card, "The").click()
    error = card.get_by_role("alert")
    assert "late_mask failed. ValueError: a row sees nothing" in error.inner_text()
    assert 'raise ValueError("a row sees nothing")' in error.inner_text()
    card.page.wait_for_timeout(350)  # it fades
    opacity = "element => getComputedStyle(element).opacity"
    faded = [card.locator(one).evaluate(opacity) for one in ("table", ".chips", ".kept")]
    assert faded == ["0.25", "1", "1"]
    word(card, "The").click()
    assert error.is_hidden()
    assert card.locator(".picture.stale").count() == 0


def test_a_function_without_a_mask_has_no_controls_of_masks(cards, explorers):
    card = cards[1]
    assert_shows(card, explorers[1])
    assert card.locator(".bar:visible, .chips:visible").count() == 0
    card.locator("button.cell").nth(3).press("Enter")
    assert card.get_by_text("no argument for a mask").is_visible()
    assert "torch.ones" not in card.locator("pre").text_content()
    assert_shows(card, explorers[1])
    assert card.locator(".note:visible").count() == 1  # nothing was set
