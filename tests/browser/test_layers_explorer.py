"""LayersExplorer in a page without a kernel."""

import pytest
import torch

from attnlab.explorers import LayersExplorer
from attnlab.explorers.layers import CHOICES
from attnlab.pretrained import load_encoder

SWAM = CHOICES["swam"][0]
OWN = "the bat sat on the river bank with a nervous seal"
STATES = [
    LayersExplorer(ask=False, sentence=SWAM, word=8, layer=2),
    LayersExplorer(ask=False, sentence=OWN, word=7, head=7),
    LayersExplorer(),
]
LOOK_EVERYWHERE = """card => [...Array(7).keys()].map(layer => {
    const [slider, heads] = card.querySelectorAll('input[type=range]');
    const move = (one, place) => { one.value = place; one.dispatchEvent(new Event('input')); };
    move(slider, layer);
    return [0, 1, 8].map(head => {
        move(heads, head);
        return [...card.querySelectorAll('.arcs button')].map(word => {
            word.click();
            return [card.querySelector('.say').textContent, card.querySelector('pre').textContent];
        });
    });
})"""


@pytest.fixture(scope="module")
def cards(open_cards):
    """Return the cards of the states, in one page."""
    return open_cards(STATES)


@pytest.mark.parametrize("index", [0, 1])
def test_every_layer_and_word_is_told_as_in_python(open_cards, index):
    sentence = STATES[index].sentence
    explorer = LayersExplorer(ask=False, sentence=sentence)
    [card] = open_cards([explorer])
    names = {"load_encoder": load_encoder}
    for explorer.layer, heads in enumerate(card.evaluate(LOOK_EVERYWHERE)):
        for explorer.head, words in zip(("mean", 0, 7), heads, strict=True):
            for explorer.word, (said, _) in enumerate(words):
                assert said == explorer.say()
            exec(words[-1][1], names)  # the lines of PyTorch; the last one is an expression
            last = eval(words[-1][1].splitlines()[-1], names)
            wanted = explorer.result.weights if explorer.layer else names["vectors"][0, -1]
            torch.testing.assert_close(last, wanted, check_dtype=False)


CURVES = """card => [...card.querySelectorAll('polyline')].map(line =>
    line.getAttribute('points').split(' ').map(point => Number(point.split(',')[1])))"""


def test_bars_words_and_curves_are_those_of_the_result(open_cards):
    for card, explorer in zip(open_cards(STATES[:2]), STATES[:2], strict=True):
        result = explorer.result
        shown = [float(text) for text in card.locator(".rows .figure b").all_inner_texts()]
        torch.testing.assert_close(
            torch.tensor(shown), result.weights, atol=0.0051, rtol=0, check_dtype=False
        )
        assert card.locator(".arcs button").all_inner_texts() == list(result.tokens)
        first, *bounds = card.evaluate(CURVES)
        low, zero, _ = card.locator(".grid").evaluate_all("all => all.map(e => e.y1.baseVal.value)")
        shown = [(zero - y) / (low - zero) * 0.1 for y in first]
        torch.testing.assert_close(
            torch.tensor(shown), result.leans, atol=6e-4, rtol=0, check_dtype=False
        )
        assert all(above <= below for above, below in zip(*bounds, strict=True))
        names = card.locator(".legend span").all_inner_texts()
        assert names == ["this word", *(f"mean of {one}" for one in result.meanings)]


def test_a_word_without_labels_has_no_chart_and_comes_back(open_cards):
    [card] = open_cards(STATES[:1])
    card.get_by_role("button", name="swam (2)").click()
    assert card.locator("polyline").count() == 0
    assert card.get_by_text("There are some for bank, bat, cell,").is_visible()
    card.get_by_role("radio", name="mattress").check(force=True)
    assert card.locator(".legend span").all_inner_texts()[1:] == ["mean of season", "mean of coil"]
    assert "After layer 2, “spring” lies" in card.locator(".say").inner_text()


def test_a_click_on_the_curves_keeps_a_layer_and_settles_the_question(open_cards):
    [card] = open_cards(STATES[2:])
    gate = card.get_by_role("group", name="Predict first")
    gate.get_by_role("button", name="layer 6").press("Enter")
    chart = card.locator("svg.pickable")
    for stop in (1, 3):
        box = chart.bounding_box()
        across = (56 + (340 - 56 - 14) * stop / 6) / 340 * box["width"]
        chart.click(position={"x": across, "y": 80})
        assert f"After layer {stop}," in card.locator(".say").inner_text()
    assert "✗ You predicted layer 6." in gate.inner_text()
