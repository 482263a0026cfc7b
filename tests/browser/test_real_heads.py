"""RealHeadsExplorer in a page without a kernel."""

import os

import pytest

from attnlab.explorers import RealHeadsExplorer, _page
from attnlab.explorers.real_heads import CHOICES, LONGEST
from attnlab.pretrained import load_layer
from tools._browser import NO_BROWSER, find_browser

pytestmark = pytest.mark.browser
if find_browser() is None and os.environ.get("CI") != "true":  # in CI each test fails without
    pytest.skip(NO_BROWSER, allow_module_level=True)

LOOK_EVERYWHERE = """card => [...card.querySelectorAll('.map')].map(map => {
    map.click();
    return [...card.querySelectorAll('.arcs button')].map(word => {
        word.click();
        return [card.querySelector('.say').textContent, card.querySelector('pre').textContent];
    });
})"""


@pytest.mark.parametrize("sentence", [CHOICES["it, animal"][0], "the cat sat on the mat"])
def test_every_head_and_word_is_told_as_in_python(open_cards, sentence):
    explorer = RealHeadsExplorer(ask=False, sentence=sentence)
    [card] = open_cards([explorer])
    told = card.evaluate(LOOK_EVERYWHERE)
    assert card.locator("input[type=text]").count() == 0
    assert card.get_by_text("Other sentences need a running notebook.").is_visible()
    names = {"load_layer": load_layer}
    exec(told[-1][0][1], names)  # the lines of PyTorch
    assert names["weights"].shape[1:] == (12, len(told[0]), len(told[0]))
    for explorer.head, rows in enumerate(told):
        for explorer.word, (said, code) in enumerate(rows):
            assert said == explorer.say()
            assert f"weights[0, {explorer.head}, {explorer.word}]" in code


# The colours at the middle of every square of the twelve maps, and those of the weights.
COLOURS = """async ([card, key, heads]) => {
    const {weightColours} = attnlabModules[key];
    const shown = [...card.querySelectorAll('.map canvas')].map(canvas => {
        const pen = canvas.getContext('2d'), size = heads[0].length;
        const middle = place => Math.floor((place + 0.5) * canvas.width / size);
        return heads[0].map((_, i) => heads[0].map((_, j) =>
            `rgb(${[...pen.getImageData(middle(j), middle(i), 1, 1).data].slice(0, 3)})`));
    });
    return [shown, heads.map(rows => rows.map(row => row.map(w => weightColours(w).background)))];
}"""


@pytest.mark.parametrize("words", [3, LONGEST - 2])
def test_the_maps_show_the_weights(open_cards, words):
    sentence = " ".join((["bank", "river"] * words)[:words])
    explorer = RealHeadsExplorer(ask=False, sentence=sentence)
    assert len(explorer.result.tokens) == words + 2
    [card] = open_cards([explorer])
    heads = explorer.reading["weights"]
    shown, wanted = card.page.evaluate(
        COLOURS, [card.element_handle(), _page.key_of("drawing"), heads]
    )
    assert shown == wanted
    assert len({str(one) for one in shown}) > 1
