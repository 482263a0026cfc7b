"""RealHeadsExplorer in a page without a kernel."""

import pytest
import torch

from attnlab.explorers import RealHeadsExplorer
from attnlab.explorers._sentences import LONGEST
from attnlab.explorers.real_heads import CHOICES
from attnlab.pretrained import load_layer
from tests.browser.pages import pieces_of, shades

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


MAPS = """card => [...card.querySelectorAll('.map canvas')].map(canvas => {
    const {width} = canvas;
    return [width, ...canvas.getContext('2d').getImageData(0, 0, width, width).data];
})"""
MARKS = "card => [...card.querySelectorAll('.map i')].map(mark => parseFloat(mark.style.top))"
ARCS = """card => [...card.querySelectorAll('.arc')].map(arc => [
    arc.getPointAtLength(0).x, arc.getPointAtLength(arc.getTotalLength()).x,
    parseFloat(getComputedStyle(arc).strokeWidth)])"""
WORDS = """card => [...card.querySelectorAll('.arcs button')].map(word =>
    [word.offsetLeft + word.offsetWidth / 2, getComputedStyle(word).backgroundColor])"""


@pytest.mark.parametrize("words", [3, LONGEST - 2])
def test_the_maps_show_the_weights(open_cards, words):
    sentence = " ".join((["bank", "river"] * words)[:words])
    explorer = RealHeadsExplorer(ask=False, sentence=sentence)
    assert len(explorer.result.tokens) == words + 2
    [card] = open_cards([explorer])
    for weights, (size, *pixels) in zip(explorer.result.weights, card.evaluate(MAPS), strict=True):
        assert size == words + 2
        shown = torch.tensor(pixels).view(size * size, 4)
        assert shown.tolist() == [[*colour, 255] for colour in shades(sent(weights))]
    marks = card.evaluate(MARKS)
    assert marks == pytest.approx([100 * (explorer.picked + 0.5) / (words + 2)] * 12, abs=1e-3)


def sent(weights):
    """Return weights as the browser gets them."""
    return (weights.double() * 1e4).round() / 1e4


@pytest.mark.parametrize("word", [5, 1])
def test_arcs_bars_and_words_show_the_row(open_cards, word):
    explorer = RealHeadsExplorer(ask=False, head=4, word=word)
    [card] = open_cards([explorer])
    row = sent(explorer.result.weights[4, word])
    words = card.evaluate(WORDS)
    centres = [centre for centre, _ in words]
    assert [colour for _, colour in words] == [f"rgb{colour}" for colour in shades(row)]
    others = [i for i, weight in enumerate(row.tolist()) if weight >= 0.005]
    arcs = card.evaluate(ARCS)
    for i, (start, end, width) in zip(others, arcs, strict=True):
        beside = 4 if i == word else 0  # an arc to itself begins and ends beside the middle
        assert [start, end] == pytest.approx([centres[word] - beside, centres[i] + beside], abs=0.6)
        assert width == pytest.approx(16 * row[i].item(), abs=1e-3)
    names = card.locator(".rows th[scope=row]").all_inner_texts()
    assert names == list(explorer.result.tokens)
    shown = [float(text) for text in card.locator(".rows .figure b").all_inner_texts()]
    torch.testing.assert_close(torch.tensor(shown).double(), row, atol=0.0051, rtol=0)
    widths = card.locator(".rows .fill").evaluate_all(
        "all => all.map(e => parseFloat(e.style.width))"
    )
    torch.testing.assert_close(torch.tensor(widths).double() / 100, row, atol=1e-5, rtol=0)
    assert card.locator(".scale").all_inner_texts() == ["weight 01"]
    titles = card.locator(".one h4").all_inner_texts()[:2]
    assert [title.partition(":")[0] for title in titles] == ["Head 4", f"Row {word} of head 4"]


def test_a_sentence_with_fewer_words_is_asked_by_its_last_word(open_cards):
    explorer = RealHeadsExplorer(ask=False, sentence="she ate bread", word=9)
    [card] = open_cards([explorer])
    assert card.locator(".arcs button[aria-pressed=true]").inner_text() == "bread"
    assert card.locator(".say").inner_text() == explorer.say()


READER = """<script>
    globalThis.asked = [];
    const read = (text, tell) => new Promise((done, fail) => asked.push({text, tell, done, fail}));
    globalThis.attnlabReaders = {real_heads: {note: "The note.", read}};
</script>"""


def test_a_page_that_reads_sentences_is_asked_and_its_last_answer_is_shown(tab, tmp_path):
    page = tab.show(tmp_path, READER, *pieces_of([RealHeadsExplorer(ask=False)]))
    card, box = page.locator(".card"), page.get_by_label("A sentence of your own")
    note, problem = card.locator(".few"), card.locator(".problem")
    sentences = ["she ate bread", "the river bank broke"]
    for sentence in sentences:
        box.fill(sentence)
        box.press("Enter")
    readings = [RealHeadsExplorer.told(sentence) for sentence in sentences]
    page.evaluate("asked[0].tell('late'); asked[1].tell('Half of it is here.')")
    assert note.inner_text() == "Half of it is here."
    page.evaluate("readings => asked.forEach(({done}, i) => done(readings[1 - i]))", readings[::-1])
    assert card.locator(".arcs button").all_inner_texts() == readings[1]["tokens"]
    assert card.locator(".arcs button[aria-pressed=true]").inner_text() == "bank"
    assert note.inner_text() == "The note."
    box.press("Enter")
    page.evaluate("asked[2].fail(new Error('No such word.'))")
    assert problem.inner_text() == "No such word."
    card.get_by_role("radio", name="bat, cave").check(force=True)
    assert problem.is_hidden()
    assert (
        card.locator(".say").inner_text()
        == RealHeadsExplorer(sentence=CHOICES["bat, cave"][0], word=2).say()
    )
