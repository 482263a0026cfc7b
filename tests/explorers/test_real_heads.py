"""RealHeadsExplorer: weights are those of the trained layer, and what is said is true."""

import json
import re
from functools import cache

import pytest
import torch

from attnlab.explorers import RealHeadsExplorer
from attnlab.explorers._sentences import LONGEST
from attnlab.explorers.real_heads import CHOICES, code
from attnlab.pretrained import load_layer
from tests.explorers.common import ExplorerTests, at
from tools.compare_outputs import JSON_BLOCK

OWN = "the old man read the letter and his wife listened to the music"
SENTENCES = [sentence for sentence, _ in CHOICES.values()]
LAYER = cache(load_layer)


@cache
def torchs_weights(sentence):
    """Return the weights as torch's own module computes them."""
    x = LAYER().embed(LAYER().tokens(sentence))
    return LAYER().attention.to_torch().eval()(x, x, x, average_attn_weights=False)[1][0]


class TestRealHeads(ExplorerTests):
    """Every head and word of every sentence."""

    kind = RealHeadsExplorer
    states = [
        {"sentence": sentence, "head": head, "word": word}
        for sentence in (*SENTENCES, OWN)
        for head in range(12)
        for word in range(len(sentence.split()) + 2)
    ]

    def test_the_result_is_what_torch_gives(self):
        for sentence in (*SENTENCES, OWN):
            result = at(RealHeadsExplorer, sentence=sentence).result
            assert list(result.tokens) == LAYER().tokens(sentence)
            wanted = torchs_weights(sentence)
            torch.testing.assert_close(result.weights, wanted, atol=2e-6, rtol=0)

    def check_words(self, explorer, said, result):
        tokens, row = result.tokens, result.weights[explorer.head, explorer.picked]
        head, asking, top, most, sinks, equal = re.fullmatch(
            r"In head (\d+), (.+) attends most to (.+) \((\d\.\d\d)(?: each)?\)\. "
            r"\[CLS\] and \[SEP\] together get (\d\.\d\d); "
            r"uniform attention gives each (\d\.\d\d)\.",
            said,
        ).groups()
        assert int(head) == explorer.head
        assert tokens[explorer.picked] in asking
        wanted = [row.max().item(), (row[0] + row[-1]).item(), 1 / len(tokens)]
        assert [float(most), float(sinks), float(equal)] == pytest.approx(wanted, abs=0.0051)
        best = row.argmax().item()
        name = "itself" if best == explorer.picked else tokens[best]
        assert name in top
        if tokens.count(name) > 1:
            assert f"“{name}” at {best}" in top
        assert top.count(" and ") == (row > row.max() - 0.005).sum() - 1


def test_to_change_a_result_changes_nothing():
    explorer = RealHeadsExplorer()
    explorer.result.weights.zero_()
    assert explorer.result.weights.sum().item() == pytest.approx(120, abs=1e-3)


@pytest.mark.parametrize("sentence", [SENTENCES[0], SENTENCES[-1], OWN])
def test_the_lines_of_pytorch_give_the_weights(sentence):
    names = {"load_layer": LAYER}
    tokens, weights = at(RealHeadsExplorer, sentence=sentence).result
    lines = code(sentence, len(tokens))
    exec(lines, names)
    torch.testing.assert_close(names["weights"][0], weights, atol=1e-6, rtol=0)
    assert f"weights.shape  # {tuple(names['weights'].shape)}" in lines


def test_the_browser_gets_every_choice_and_little_else():
    explorer = RealHeadsExplorer()
    for reading, (sentence, word) in zip(explorer.data["readings"], CHOICES.values(), strict=True):
        result = at(RealHeadsExplorer, sentence=sentence).result
        sent = torch.tensor(reading["weights"])
        torch.testing.assert_close(sent, result.weights, atol=6e-5, rtol=0)
        assert reading["tokens"] == list(result.tokens)
        assert reading["tokens"][reading["word"]] == word
    assert len(json.dumps(explorer.data)) < 120_000


def test_a_page_holds_the_sentence_in_force():
    explorer = RealHeadsExplorer(sentence=OWN)
    assert stored_sentences(explorer) == [*SENTENCES, OWN]
    explorer.sentence = SENTENCES[1]
    assert stored_sentences(explorer) == SENTENCES


def stored_sentences(explorer):
    """Return the sentences whose weights are in a page."""
    ((_, block, _),) = JSON_BLOCK.findall(explorer.to_html(library=False))
    return [one["sentence"] for one in json.loads(block)["data"]["readings"]]


# --- what is typed --------------------------------------------------------------------------------


def test_a_typed_sentence_is_read_and_the_word_that_asks_kept():
    explorer = RealHeadsExplorer()
    explorer.typed = "  the bank gave   him a loan "
    assert (explorer.sentence, explorer.typed) == ("the bank gave him a loan", "")
    assert explorer.result.tokens[explorer.word] == "bank"
    assert explorer.reading["sentence"] == explorer.sentence
    sent = torch.tensor(explorer.reading["weights"])
    torch.testing.assert_close(sent, explorer.result.weights, atol=6e-5, rtol=0)


@pytest.mark.parametrize(
    ("asking", "typed", "expected"),
    [
        ("bank", "The Bank of England", "bank"),
        ("bank", "a bank is not a bank", "bank"),
        ("bank", "he ate bread", "bread"),  # the last word, where there is no fifth
        ("[SEP]", "he ate bread", "[SEP]"),
        ("sat", "she swam in the river", "swam"),  # the place stays
    ],
)
def test_the_word_that_asks_is_kept_or_the_nearest_one(asking, typed, expected):
    explorer = at(RealHeadsExplorer)
    explorer.word = explorer.result.tokens.index(asking)
    explorer.typed = typed
    tokens = explorer.result.tokens
    assert tokens[explorer.word] == tokens[explorer.picked] == expected
    assert explorer.word == tokens.index(expected)  # its first place


HOSTILE = {
    "   ": "text must hold at least one word",
    "\x00": "text must hold at least one word",
    "bank " * 23: "at most 22 word pieces to be drawn side by side, got 23",
    "bank " * 1000: "at most 510 word pieces, got 1000",
    "b" * 100_000: "at most 5,000 characters, got 100,000",
    "\ud800": "half a character",
}


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_what_cannot_be_read_gets_a_sentence_and_changes_nothing(text):
    explorer = at(RealHeadsExplorer, sentence=OWN)
    before = (explorer.state(), explorer.reading)
    for _ in range(2):  # typing it again is answered again
        explorer.typed = text
        assert HOSTILE[text] in explorer.problem
        assert len(explorer.problem) < 200
        assert explorer.typed == ""
        assert (explorer.state(), explorer.reading) == before
    explorer.typed = "the bank gave him a loan"
    assert explorer.problem == ""
    assert explorer.sentence == "the bank gave him a loan"
    with pytest.raises(ValueError, match=re.escape(HOSTILE[text])):
        RealHeadsExplorer(sentence=text)


def test_the_longest_sentence_can_be_drawn():
    explorer = at(RealHeadsExplorer, sentence="bank " * (LONGEST - 2), word=LONGEST - 1)
    assert explorer.picked == len(explorer.result.tokens) - 1 == LONGEST - 1
    assert len(explorer.figure().axes[0].images) == 12


def test_the_still_picture_shows_every_head_and_the_row():
    explorer = at(RealHeadsExplorer, head=10)
    maps, row = explorer.figure().axes
    assert [text.get_text() for text in maps.texts][9:] == ["head 9", "▸ head 10", "head 11"]
    shown = torch.stack([torch.as_tensor(image.get_array().data) for image in maps.images])
    torch.testing.assert_close(shown, explorer.result.weights)
    widths = torch.tensor([bar.get_width() for bar in row.patches])
    torch.testing.assert_close(widths, explorer.result.weights[10, 5], check_dtype=False)
    assert row.get_title(loc="left") == "Head 10: what “bank” attends to"


def test_the_question_counts_the_heads_of_the_first_sentence():
    tokens, weights = LAYER().tokens(SENTENCES[0]), torchs_weights(SENTENCES[0])
    best = [tokens[i] for i in weights[:, tokens.index("bank")].argmax(dim=-1).tolist()]
    question = RealHeadsExplorer().prediction
    assert f"it is {best.count('river')}: head 4 and head 10." in question.why
    assert f"In {best.count('[CLS]') + best.count('[SEP]')} heads" in question.why
    assert question.right == 0
    assert best.count("river") <= 2
