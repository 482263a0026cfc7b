"""Explorers with a script of their own: what it computes, draws and writes is what torch computes.

Each of their scripts does some mathematics in the browser, so each has a test here.
"""

import itertools
import random

import pytest
import torch
import torch.nn.functional as F

from attnlab import rotate
from attnlab.attention import attention_weights
from attnlab.display.table import load_table
from attnlab.explorers import (
    LayersExplorer,
    MaskExplorer,
    RealHeadsExplorer,
    RotaryExplorer,
    SoftLookupExplorer,
    WhoAsksExplorer,
)
from attnlab.explorers.layers import CHOICES
from attnlab.explorers.look_up import KEYS
from attnlab.explorers.masks import FILLS, KINDS, X
from attnlab.explorers.who_asks import cases, counts
from attnlab.models.pretrained import load_encoder, load_layer
from tests.browser.pages import close, read, shades, written
from tests.explorers.test_head_view import EXTREME, view_of


def open_each(open_cards, made):
    """Open explorers in one page; return pairs of an explorer and its card."""
    return list(zip(made, open_cards(made), strict=True))


def figures(card):
    """Return the numbers beside the bars."""
    return [float(text) for text in card.locator(".figure b").all_inner_texts()]


# The ends of a line, upwards being more, and its width.
LINE = """e => [...['x1', 'y1', 'x2', 'y2'].map((name, i) =>
    (i % 2 ? -1 : 1) * e[name].baseVal.value), parseFloat(getComputedStyle(e).strokeWidth)]"""


# --- masks ----------------------------------------------------------------------------------------


def mine(scores, mask):
    """Return what a learner's own function may give."""
    return attention_weights(scores, attn_mask=mask)


MASKS = [
    {},
    {"fill": "0 after"},
    {"fill": "0", "padding": 1},
    {"fill": "-1e9", "mask": "causal", "toggled": [(0, 0), (2, 4)]},
    {"fill": "-inf and 0", "padding": 2, "toggled": [(0, 3), (5, 5)]},
    {"fill": "divide again", "padding": 0},
    {"mask": "none", "padding": 5},
    {"function": mine},
]


def drawn_masks():
    """Yield states of all kinds by chance."""
    rng = random.Random(1)
    for _ in range(60):
        flipped = range(rng.choice([0, 0, 3, 12]))
        yield {
            "mask": rng.choice(KINDS),
            "fill": rng.choice([*FILLS]),
            "padding": rng.randrange(6),
            "toggled": [(rng.randrange(6), rng.randrange(6)) for _ in flipped],
        }


def test_masks(open_cards):
    """Three grids: a look tells a blocked cell, a leak and NaN apart; numbers are read out."""
    made = [MaskExplorer(ask=False, **state) for state in (*MASKS, *drawn_masks())]
    for explorer, card in open_each(open_cards, made):
        shown, tokens = explorer._shown(), explorer.tokens
        assert card.locator(".say").inner_text() == explorer.say()
        looks = read(
            card.locator("td .cell"),
            "e => [...e.classList].filter(x => x != 'cell' && x != 'zero')",
        )
        by_hand = {(i, j) for i, j in explorer.toggled if shown.mask[i, j]}
        for i, j in itertools.product(range(6), range(6)):
            may, place = bool(shown.mask[i, j]), 6 * i + j
            assert looks[place] == ["allowed" if may else "blocked"] + ["leak"] * (
                (i, j) in by_hand
            )
            for panel, values in ((1, shown.weights), (2, shown.influence)):
                number = values[i, j]
                wanted = ["leak"] * (number.abs() > 1e-6) if not may else []
                if panel == 2:
                    wanted = ["leak"] if (i, j) in by_hand else wanted
                    wanted = [] if i == j else wanted
                    wanted = ["blocked"] if number.abs() <= 1e-6 else wanted
                elif not may and not wanted:
                    wanted = ["blocked"]
                wanted = ["nan"] if number.isnan() else wanted
                assert looks[36 * panel + place] == wanted, (explorer, panel, i, j)
        labels = card.locator("button.cell").evaluate_all("all => all.map(cell => cell.ariaLabel)")
        told = [[text.split()[-1] for text in one.split(", ")[1:]] for one in labels]
        for column, values in ((2, shown.weights), (3, shown.influence)):
            close([float(one[column]) for one in told], values.flatten(), 0.0051)
        assert labels[4].startswith(f"query “{tokens[0]}”, key “{tokens[4]}”: ")
        sums = card.locator("td.sum").all_inner_texts()
        close([float(one) for one in sums], shown.weights.sum(dim=-1), 0.0051)
        names = written(card, x=X, mine=mine)
        assert torch.equal(names["mask"], shown.mask)
        close(names["weights"], shown.weights, 1e-6)
        close(names["influence"], shown.influence, 1e-5)


def test_a_function_that_is_not_here_leaves_the_drawing_to_the_browser(open_cards):
    [card] = open_cards(
        [MaskExplorer(function=lambda s, mask: attention_weights(s, attn_mask=mask))]
    )
    assert card.locator(".gate").count() == 0
    cell = card.locator("button.cell").first
    for hidden in (False, True):
        cell.click()
        assert card.locator(".note").is_hidden() == hidden


# --- what all of them say and write ---------------------------------------------------------------

STATES = [
    SoftLookupExplorer(ask=False, query=(0, 0)),
    SoftLookupExplorer(ask=False, query=(0.4, -1.35), temperature=0.2),
    SoftLookupExplorer(ask=False, query=(-0.7071, 0.7071), temperature=0.1),
    RotaryExplorer(ask=False, query=0, key=24, base=10.0),
    RotaryExplorer(ask=False, query=24, key=0, base=1_000_000.0),
]
WRITTEN = {  # names of the lines of PyTorch, and of the parts of a result that they compute
    "look_up": {"weights": "weights", "output": "output"},
    "rotary": {"score": "score"},
}


def test_words_code_and_numbers_are_those_of_torch(open_cards):
    for explorer, card in open_each(open_cards, STATES):
        assert card.locator(".say").inner_text() == explorer.say()
        torch.manual_seed(0)
        given = {"rotate": rotate, "F": F, "position": 0.5 * torch.randn(6, 5)}
        given["x"] = load_table("the_cat_sat_on_the_mat.csv").values
        names, result = written(card, **given), explorer.result
        for ours, theirs in WRITTEN[explorer.module].items():
            close(names[ours].squeeze(), getattr(result, theirs), 1e-4)
        if bars := figures(card):
            close(bars, result.weights, 0.0051)


# --- what each of them draws ----------------------------------------------------------------------


def test_arrows_and_balls_of_a_look_up(open_cards):
    explorer = SoftLookupExplorer(ask=False, query=(0.4, -1.35), temperature=0.2)
    [card] = open_cards([explorer])
    weights = explorer.result.weights
    *keys, stem = torch.tensor(read(card.locator(".field line:not(.grid)"), LINE))
    wanted = [[0.86 * x, 0.86 * y, 3 + 10 * w] for (x, y), w in zip(KEYS, weights, strict=True)]
    close(torch.stack(keys)[:, 2:] / torch.tensor([105, 105, 1]), wanted, 1e-4)
    close(stem[2:4] / 105, explorer.query, 1e-4)
    balls = read(card.locator(".ball"), "e => [e.cx.baseVal.value, e.r.baseVal.value]")
    close([(radius / 28) ** 2 for _, radius in balls], weights, 1e-4)  # the area


def test_the_query_is_dragged_and_walked(open_cards):
    [card] = open_cards([SoftLookupExplorer(ask=False)])
    page, handle = card.page, card.get_by_role("slider", name="query", exact=True)
    plane = card.locator(".field").bounding_box()

    def place():
        return tuple(round(x, 4) for x in written(card)["query"].tolist())

    def pixel(x, y):
        unit = plane["width"] * 105 / 360
        left, top = plane["x"] + plane["width"] / 2, plane["y"] + plane["height"] / 2
        return left + x * unit, top - y * unit

    page.mouse.move(*pixel(0.866, 0.5))
    page.mouse.down()
    page.mouse.move(*pixel(-0.5, 0.5), steps=2)
    assert place() == (-0.5, 0.5)
    page.mouse.move(*pixel(-9, 9))  # it stays on the plane
    page.mouse.up()
    page.mouse.move(*pixel(0, 0))  # it was let go
    assert place() == (-1.5, 1.5)
    keys = {"ArrowRight": (-1.4, 1.5), "ArrowDown": (-1.4, 1.4), "End": (1.5, 1.4)}
    for key, wanted in (keys | {"PageDown": (1.5, 0.9)}).items():
        handle.press(key)
        assert place() == wanted, key
    assert handle.get_attribute("aria-valuetext") == "right 1.50, up 0.90"


WON = """e => [e.closest('button').dataset.sentence, e.textContent]"""


def test_no_pile_of_those_who_ask_reaches_into_the_heading(open_cards):
    for card in open_cards([WhoAsksExplorer(ask=False, head=head) for head in range(12)]):
        assert min(read(card.locator("circle"), "e => e.cy.baseVal.value")) >= 5


def test_who_asks(open_cards):
    explorer = WhoAsksExplorer(ask=False, word="tide", head=4, sentence=20)
    [card] = open_cards([explorer])
    assert card.locator(".say").inner_text() == explorer.say()
    shown = dict(read(card.locator(".pairs .won"), WON))
    wins = explorer.result.wins.tolist()
    pairs = [one.water if won else one.money for one, won in zip(cases(), wins, strict=True)]
    assert shown == {str(i): word for i, word in enumerate(pairs)}
    total = explorer.result.river + explorer.result.money
    place = card.locator(".mark").evaluate("e => e.transform.baseVal[0].matrix.e")
    assert place == pytest.approx(14 + 392 * total / 32)
    rulers = read(card.locator("circle"), "e => e.cx.baseVal.value")
    close(torch.tensor(rulers), 14 + 392 * counts()[1][4] / 32, 1e-3)
    layer = load_layer()
    names, case = written(card, load_layer=lambda: layer), cases()[20]
    water, money = (names["row"][names["tokens"].index(one)] for one in (case.water, case.money))
    assert bool(water > money) == wins[20]


def test_another_word_is_typed(open_cards):
    [card] = open_cards([WhoAsksExplorer(ask=False)])
    box, said = card.get_by_role("textbox", name="The word that asks"), card.locator(".say")

    def ask(word):
        box.fill(word)
        box.press("Enter")

    ask(" Ocean ")
    assert said.inner_text() == WhoAsksExplorer(ask=False, word="ocean").say()
    card.get_by_role("slider", name="head").press("ArrowRight")
    assert said.inner_text() == WhoAsksExplorer(ask=False, word="ocean", head=9).say()
    for word, problem in (("", "Type a word first"), ("penguin", "“penguin” is none of them")):
        ask(word)
        assert problem in card.get_by_role("alert").inner_text()
        assert said.inner_text() == WhoAsksExplorer(ask=False, word="ocean", head=9).say()
    card.get_by_role("button", name="chair").click()
    assert card.locator(".problem").is_hidden()
    card.locator(".pairs button").nth(3).focus()  # to look is to point, a click keeps
    won = WhoAsksExplorer(ask=False, word="chair", head=9).result.wins[3]
    told = f"camped on the chair upstream: “{cases()[3][2 if won else 3]}” gets more."
    assert told in card.locator(".detail").inner_text()


def test_planes_of_rotary(open_cards):
    explorer = RotaryExplorer(ask=False, query=24, key=3, base=100.0)
    [card] = open_cards([explorer])
    result = explorer.result
    ends = read(card.locator(".turns .dot"), "e => [e.cx.baseVal.value, -e.cy.baseVal.value]")
    pairs = torch.stack([result.query, result.key], dim=1)  # a plane for each pair
    close(torch.tensor(ends) / 50, pairs.flatten(0, 1), 1e-4)


# --- trained models read a sentence ---------------------------------------------------------------

SWAM = CHOICES["swam"][0]
ARC = """e => [e.getPointAtLength(0).x, e.getPointAtLength(e.getTotalLength()).x,
    parseFloat(getComputedStyle(e).strokeWidth)]"""
# What is said and written for every word that can be picked.
TELL_WORDS = """card => [...card.querySelectorAll('.arcs button')].map(word => {
    word.click();
    return [card.querySelector('.say').textContent, card.querySelector('pre').textContent];
})"""


def sent(weights):
    """Return weights as the browser gets them."""
    return (weights.double() * 1e4).round() / 1e4


def test_real_heads(open_cards):
    word = 5
    explorer = RealHeadsExplorer(ask=False, head=4, word=word)
    [card] = open_cards([explorer])
    row, maps = sent(explorer.result.weights[4, word]), sent(explorer.result.weights)
    close(figures(card), row, 0.0051)
    middle = "e => [e.offsetLeft + e.offsetWidth / 2, getComputedStyle(e).backgroundColor]"
    centres, colours = zip(*read(card.locator(".arcs button"), middle), strict=True)
    assert [*colours] == [f"rgb{colour}" for colour in shades(row)]
    drawn = [(centres[i], w) for i, w in enumerate(row.tolist()) if w >= 0.005 and i != word]
    arcs = [one for one in read(card.locator(".arc"), ARC) if abs(one[1] - one[0]) > 9]
    close(arcs, [[centres[word], end, 16 * w] for end, w in drawn], 0.6)
    pixels = "e => [...e.getContext('2d').getImageData(0, 0, e.width, e.width).data]"
    for found, weights in zip(read(card.locator(".map canvas"), pixels), maps, strict=True):
        assert found == [part for colour in shades(weights) for part in (*colour, 255)]
    told = card.evaluate(TELL_WORDS)
    names = {"load_layer": load_layer}
    exec(told[0][1], names)  # the lines of PyTorch
    close(names["weights"][0, 4], explorer.result.weights[4], 1e-6)
    for explorer.word, (said, code) in enumerate(told):
        assert said == explorer.say()
        assert f"weights[0, 4, {explorer.word}]" in code


def test_heads_of_extreme_weights(open_cards):
    for view, card in open_each(open_cards, [view_of(weights) for weights in EXTREME.values()]):
        assert card.locator(".say").inner_text() == view.say()


def test_words_that_the_model_does_not_know_are_named(open_cards):
    german, english = "Die Katze saß auf der Matte 我喜", "the cat sat on the mattress"
    for sentence, words in ((german, " katz·e, sa·ß, matt·e, [UNK]."), (english, "")):
        [card] = open_cards([RealHeadsExplorer(ask=False, sentence=sentence)])
        told = " | ".join(card.locator(".bar .note:visible").all_inner_texts())
        assert told.endswith(words)
        assert ("The model has learned from English." in told) == bool(words)


def test_layers(open_cards):
    explorer = LayersExplorer(ask=False, sentence=SWAM)
    [card] = open_cards([explorer])
    names = {"load_encoder": load_encoder}
    sliders = card.locator("input[type=range]")
    for explorer.layer, explorer.head, place in ((0, "mean", 0), (3, 7, 8)):
        for slider, stop in zip(sliders.all(), (explorer.layer, place), strict=True):
            slider.fill(str(stop))
        told = card.evaluate(TELL_WORDS)
        for explorer.word, (said, _) in enumerate(told):
            assert said == explorer.say()
        exec(told[-1][1], names)  # the last line is an expression
        last = eval(told[-1][1].splitlines()[-1], names)
        wanted = explorer.result.weights if explorer.layer else names["vectors"][0, -1]
        close(last, wanted, 1e-5)
    card.locator(".arcs button").nth(8).press("Enter")
    explorer.word = 8
    close(figures(card), explorer.result.weights, 0.0051)
    card.get_by_role("button", name="swam (2)").press("Enter")  # without labels there is no chart
    assert card.locator("polyline").count() == 0


@pytest.mark.parametrize("width", [390, 700])
def test_what_is_hovered_stays_under_the_pointer(open_cards, width):
    [card] = open_cards([LayersExplorer(ask=False, sentence=SWAM, layer=3, word=5)])
    card.page.set_viewport_size({"width": width, "height": 900})
    heights = []
    for word in card.locator(".arcs button").all():
        word.hover()
        heights.append(card.locator(".say").evaluate("e => e.offsetHeight"))
    assert heights == sorted(heights)  # words that shrink would draw up what lies below them
