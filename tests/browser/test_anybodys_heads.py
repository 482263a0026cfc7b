"""HeadView beside Python: several kinds of attention, two sentences, patches."""

import pytest
import torch

from attnlab.explorers import HeadView
from tests.browser.pages import barriers, close, read, shades
from tests.explorers.test_head_view import GIVEN, KINDS, L, drawn

HOST = ".attnlab-explorer"


def same_as(card, view):
    """Fail unless a card says what Python does, and its line of PyTorch is a row of the head."""
    assert card.locator(".say").inner_text() == view.say()


def test_kinds_of_attention_are_switched_by_keyboard(open_cards, tab):
    view = HeadView(KINDS, word=4, layer=3)
    [card] = open_cards([view])
    kind, layers = (card.get_by_role("radiogroup", name=name) for name in ("attention", "layer"))
    kind.get_by_role("radio").first.focus()
    for view.attention in KINDS:
        same_as(card, view)
        _, _, weights, (layer, _, place) = view.shown()
        assert layers.get_by_role("radio").count() == len(view.result.weights)
        assert layers.locator("input:checked").input_value() == str(layer)
        assert card.locator(".map").count() == len(weights)
        assert card.locator(".arc").count() == (weights[0, place] >= 0.005).sum()
        assert barriers(card.page, HOST) == []
        card.page.keyboard.press("ArrowRight")
    assert tab.problems == []


def test_arcs_of_two_sentences_stay_within_or_go_across(open_cards, tab):
    view = HeadView(GIVEN, [*"abcde"], boundary="b", layer=1, head=2)
    [card] = open_cards([view])
    parts = "e => [...e.children].map(one => one.textContent || one.className)"
    assert card.locator(".arcs .text:not(.keys)").evaluate(parts) == [*"ab", "boundary", *"cde"]
    arcs = card.get_by_role("radiogroup", name="arcs")
    card.locator("summary").click()
    for view.arcs in ("all", "within", "across"):
        arcs.get_by_role("radio", name=view.arcs).check()
        for view.word in range(L):
            card.locator(".arcs button").nth(view.word).click()
            same_as(card, view)
            row, is_own = GIVEN[1, 2, view.word], (torch.arange(L) < 2) == (view.word < 2)
            side = {"all": is_own | True, "within": is_own, "across": ~is_own}[view.arcs]
            assert card.locator(".arc").count() == (row[side] >= 0.005).sum()
            code = card.locator("pre").inner_text()
            close(eval(code, {"weights": GIVEN}), row[side], 1e-9)
            close([float(one) for one in card.locator(".figure b").all_inner_texts()], row, 0.0051)
    assert barriers(card.page, HOST) == []
    assert tab.problems == []


@pytest.mark.parametrize(("rows", "columns"), [(3, 4), (13, 20)])
def test_patches_are_a_picture_that_arrow_keys_cross(open_cards, tab, rows, columns):
    weights = drawn(5, 1, 3, rows * columns + 1, rows * columns + 1)
    weights[0, 1, 2] = torch.nan
    view = HeadView(weights, ["[CLS]"], grid=(rows, columns), head=2, word=0)
    [card] = open_cards([view])
    same_as(card, view)
    cells = card.locator(".patches .cell")
    colour = "e => getComputedStyle(e).backgroundColor"
    cells.nth(columns + 1).click()
    view.word = columns + 2
    same_as(card, view)
    assert cells.nth(columns + 1).get_attribute("aria-pressed") == "true"
    row = weights[0, 2, view.word]
    patches = row[1:] / row[1:].max()
    assert read(cells, colour) == [f"rgb{one}" for one in shades(patches)]
    assert cells.nth(5).get_attribute("aria-label") == f"patch {divmod(5, columns)}: {row[6]:.3f}"
    assert all(cells.all_inner_texts()) == (rows * columns <= 144)
    pixels = "e => [e.width, e.height, ...e.getContext('2d').getImageData(0, 0, e.width, 1).data]"
    first = [part for one in shades(patches[:columns]) for part in (*one, 255)]
    assert card.locator(".map canvas").nth(2).evaluate(pixels) == [columns, rows, *first]
    card.page.keyboard.press("ArrowUp")  # a look, which ends with the focus
    view.word = 2
    same_as(card, view)
    card.page.keyboard.press("Enter")
    card.get_by_role("button", name="head 1").press("Enter")
    view.head = 1
    same_as(card, view)
    assert "nan" in cells.first.get_attribute("class")
    card.get_by_role("button", name="[CLS]").press("Enter")
    view.word = 0
    same_as(card, view)
    assert barriers(card.page, HOST) == []
    assert tab.problems == []


# Of a card: what reaches beyond it, and how far a patch is from a square.
BEYOND = """card => [...card.querySelectorAll('.picture *, .bar *')].filter(one =>
    one.getBoundingClientRect().right > card.getBoundingClientRect().right).length"""
SQUARE = "e => Math.abs(e.offsetWidth - e.offsetHeight)"


@pytest.mark.parametrize("width", [1366, 1024, 577, 390])
def test_pictures_of_patches_and_kinds_fit(open_cards, width):
    vit = HeadView(drawn(6, 2, 12, 197, 197), ["[CLS]"], grid=(14, 14))
    cards = open_cards([vit, HeadView(KINDS, attention="cross")])
    cards[0].page.set_viewport_size({"width": width, "height": 768})
    assert [card.evaluate(BEYOND) for card in cards] == [0, 0]
    assert max(read(cards[0].locator(".patches .cell"), SQUARE)) <= 1
