"""Explorers around words: the browser says, shows and moves what torch computes."""

import re

import pytest
import torch
import torch.nn.functional as F

from attnlab.data import load_table
from attnlab.explorers import BankExplorer, CrossExplorer, OrderExplorer
from attnlab.explorers.bank import MIDDLE, _where
from attnlab.explorers.cross import OUTPUTS
from attnlab.palette import shade, to_hex
from tests.browser.pages import shades, written

# The ends of lines and their widths; the shades of cells.
LINES = """lines => lines.map(line => [line.x1.baseVal.value, line.x2.baseVal.value,
    parseFloat(getComputedStyle(line).strokeWidth),
    line.y1.baseVal.value, line.y2.baseVal.value])"""
PLACES = "marks => marks.map(mark => [mark.style.left, mark.style.top].map(parseFloat))"
ELSEWHERE = """buttons => buttons.flatMap((button, place) =>
    button.classList.contains('elsewhere') ? [place] : [])"""
SHADES = "cells => cells.map(cell => getComputedStyle(cell).backgroundColor)"


SUNK = [("river", -3, -2.4)]
BANKS = [
    {"sentence": "river"},
    {},
    {"moved": SUNK},
    {"moved": SUNK, "sharpness": 0},
    {"sentence": "loan", "sharpness": 4, "moved": [("bank", -3.5, 2.5), ("loan", 0.37, -1.11)]},
    {"sentence": "river", "sharpness": 8, "moved": [("bank", 0, 2.5)]},
]


# --- bank -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def banks(open_cards):
    explorers = [BankExplorer(ask=False, **state) for state in BANKS]
    return list(zip(explorers, open_cards(explorers), strict=True))


@pytest.mark.parametrize("index", range(len(BANKS)))
def test_bank_says_shows_and_writes_what_torch_computes(banks, index):
    explorer, card = banks[index]
    result = explorer.result
    assert card.locator(".say").inner_text() == explorer.say()
    shown = [float(text) for text in card.locator(".bars .figure b").all_inner_texts()]
    torch.testing.assert_close(torch.tensor(shown), result.weights.float(), atol=0.0051, rtol=0)
    names = written(card)
    for name in ("weights", "output", "average"):
        wanted = getattr(result, name).float()
        torch.testing.assert_close(names[name], wanted, atol=1e-5, rtol=0)
    marks = card.locator(".token, i.at").evaluate_all(PLACES)
    points = torch.stack([result.average, result.output, *result.vectors])
    places = points * torch.tensor([12.5, -50 / 3]) + 50
    torch.testing.assert_close(torch.tensor(marks).double(), places, atol=1e-3, rtol=0)
    *pulls, path = card.locator(".plane line").evaluate_all(LINES)
    (right, up), bank = result.output.tolist(), result.vectors[result.words.index("bank")].tolist()
    wanted = [
        [x, right, 20 * weight, -y, -up]
        for (x, y), weight in zip(result.vectors.tolist(), result.weights.tolist(), strict=True)
    ]
    torch.testing.assert_close(torch.tensor(pulls), torch.tensor(wanted), atol=1e-3, rtol=0)
    assert [*path[:2], *path[3:]] == pytest.approx([bank[0], right, -bank[1], -up], abs=1e-3)
    assert card.locator(".stripe").get_attribute("style") == f"width:{100 * MIDDLE / 4:g}%"
    assert card.locator("mark").all_inner_texts() == ["bank"]
    ends = card.locator(".ends .key > span").all_inner_texts()
    told = [_where(end[0].item()) for end in (result.output, result.average)]
    assert [text.rpartition(": ")[2] for text in ends] == told
    said = float(card.locator(".detail").inner_text().rpartition("weight ")[2].rstrip("."))
    assert said == pytest.approx(result.weights[result.words.index("bank")].item(), abs=0.0051)
    outlines = card.locator(".track .outline").evaluate_all(
        "all => all.map(one => one.style.width)"
    )
    assert [float(width.rstrip("%")) for width in outlines[: len(pulls)]] == pytest.approx(
        [100 / len(pulls)] * len(pulls), rel=1e-4
    )


def test_words_are_dragged_and_walked_and_put_back(banks):
    _, card = banks[1]
    page, say = card.page, card.locator(".say")
    start = say.inner_text()
    river = card.get_by_role("button", name="river", exact=True)
    river.scroll_into_view_if_needed()
    box = river.bounding_box()
    assert min(box["width"], box["height"]) >= 44
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.mouse.down()
    page.mouse.move(box["x"] + 30, box["y"] + 150, steps=3)
    page.mouse.move(box["x"] - 900, box["y"] + 900, steps=3)  # it stays on the plane
    page.mouse.up()
    assert place_of(card, "river") == (-3.5, -2.5)
    assert "They select" in say.inner_text()
    page.mouse.move(box["x"], box["y"])
    assert place_of(card, "river") == (-3.5, -2.5)  # it was let go
    for key in ("ArrowRight", "ArrowDown", "ArrowUp"):
        river.press(key)
    assert place_of(card, "river") == (-3.25, -2.25)
    river.press("Home")
    assert place_of(card, "river") == (-3.5, -2.25)
    river.press("ArrowRight")
    assert "score −2.23" in card.locator(".detail").inner_text()
    card.get_by_role("button", name="Put words back").click()
    assert say.inner_text() == start


def place_of(card, word):
    """Return where a word is, as the lines of PyTorch have it."""
    lines = card.locator("pre").text_content()
    words = re.search(r"# (.*)", lines)[1].split(", ")
    rows = re.findall(r"\[(-?[\d.]+), (-?[\d.]+)\]", lines)
    return tuple(float(number) for number in rows[words.index(word)])


# --- order ----------------------------------------------------------------------------------------

WRITTEN = (0, 1, 2, 3, 4, 5)
ORDERS = [
    {"order": WRITTEN},
    {"order": WRITTEN, "positions": True},
    {"order": (4, 5, 2, 3, 0, 1)},
    {"order": (4, 5, 2, 3, 0, 1), "positions": True},
    {"order": (4, 1, 2, 3, 0, 5), "positions": True},
]


@pytest.fixture(scope="module")
def orders(open_cards):
    explorers = [OrderExplorer(ask=False, **state) for state in ORDERS]
    return list(zip(explorers, open_cards(explorers), strict=True))


@pytest.mark.parametrize("index", range(len(ORDERS)))
def test_order_says_shows_and_writes_what_torch_computes(orders, index):
    explorer, card = orders[index]
    result = explorer.result
    assert card.locator(".say").inner_text() == explorer.say()
    texts = card.locator(".cell").all_inner_texts()
    shown = torch.tensor([float(text.replace("−", "-")) for text in texts]).view(2, 6, 5)
    wanted = torch.stack([result.before, result.after]).float()
    torch.testing.assert_close(shown, wanted, atol=0.0051, rtol=0)
    colours = card.locator(".cell").evaluate_all(SHADES)
    wanted = shades(torch.stack([result.before, result.after]), -0.8, 1.6)
    assert colours == [f"rgb{colour}" for colour in wanted]
    assert card.locator(".scale").all_inner_texts() == ["output −0.81.6"]
    ramp = card.locator(".scale i").get_attribute("style")
    assert f"(90deg,{to_hex(shade(0))}," in ramp
    assert f",{to_hex(shade(1))})" in ramp
    sums = card.locator("td.sum").all_inner_texts()
    far = [float(text.removeprefix("≠ ").replace("= ", "")) for text in sums]
    torch.testing.assert_close(torch.tensor(far), result.moved.float(), atol=0.0051, rtol=0)
    assert ["= 0" in text for text in sums] == (result.moved < 1e-4).tolist()
    names = card.locator("tbody th").all_inner_texts()[6:]
    assert names == [explorer.data["tokens"][word] for word in explorer.order]
    moved = [place for place, word in enumerate(explorer.order) if word != place]
    assert card.locator(".ordered button").evaluate_all(ELSEWHERE) == moved
    torch.manual_seed(0)
    x = load_table("the_cat_sat_on_the_mat.csv").values
    names = written(card, F=F, x=x, position=0.5 * torch.randn(6, 5))
    torch.testing.assert_close(names["change"], result.moved.float(), atol=1e-5, rtol=0)


def test_words_change_places_by_click_and_by_arrows(orders):
    _, card = orders[0]
    words = card.get_by_role("group", name="sentence").locator("button")
    words.nth(1).click()
    assert words.all_inner_texts() == ["The", "sat", "cat", "on", "the", "mat"]
    for key in (*["ArrowRight"] * 4, "Enter"):  # “cat” keeps focus
        card.page.keyboard.press(key)
    assert words.all_inner_texts() == ["The", "sat", "on", "the", "cat", "mat"]
    card.get_by_role("button", name="mat", exact=True).press("ArrowRight")  # nothing to the right
    assert words.nth(5).inner_text() == "mat"
    assert "no output has changed" in card.locator(".say").inner_text()


# --- cross ----------------------------------------------------------------------------------------

CROSSES = [{}, {"question": "where?"}, {"asking": "words", "word": "The"}, {"asking": "words"}]


@pytest.fixture(scope="module")
def crosses(open_cards):
    explorers = [CrossExplorer(ask=False, **state) for state in CROSSES]
    return list(zip(explorers, open_cards(explorers), strict=True))


@pytest.mark.parametrize("index", range(len(CROSSES)))
def test_a_line_is_as_wide_as_its_weight(crosses, index):
    """The tables are those of any declared explorer."""
    explorer, card = crosses[index]
    result = explorer.result
    row, rows = result.weights[result.picked], len(result.queries)
    assert card.locator("tr.picked th").all_inner_texts() == [result.queries[result.picked]] * 2
    from_ = 100 * (result.picked + 0.5) / rows
    wanted = [[from_, 100 * (j + 0.5) / len(row), 30 * weight] for j, weight in enumerate(row)]
    lines = [line[:3] for line in card.locator(".pull").evaluate_all(LINES)]
    torch.testing.assert_close(torch.tensor(lines), torch.tensor(wanted), atol=0.02, rtol=0)
    stated = card.locator(".scale").all_inner_texts()
    assert stated == ["weight 01", f"output 0{OUTPUTS[1]}"]


def test_a_cell_picks_its_row(crosses):
    _, card = crosses[0]
    card.locator("button.cell").nth(6).click()  # the first of row 1
    assert card.locator(".say").inner_text().startswith("“doing what?” asks")
    card.page.keyboard.press("ArrowDown")
    card.page.keyboard.press("Enter")
    assert card.locator("button[aria-pressed=true]").inner_text() == "where?"
