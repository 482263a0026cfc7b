"""Sentences that are typed: read, refused with a sentence, sent and stored."""

import json

import pytest
import torch

from attnlab.explorers import LayersExplorer, RealHeadsExplorer
from tests.explorers.common import at

OWN = "the bat sat on the river bank with a nervous seal"


TYPED = [  # the word that asks, what is typed, and the word that asks now
    ("bank", "  The Bank   of England ", "bank"),
    ("bank", "a bank is not a bank", "bank"),
    ("bank", "he ate bread", "bread"),  # else the last word
    ("[SEP]", "he ate bread", "[SEP]"),
    ("sat", "she swam in the lagoon at night!", "night"),
    ("sat", "er saß auf der Matte", "matt"),  # its first piece
    ("sat", "?!", "!"),
]


@pytest.mark.parametrize("kind", [RealHeadsExplorer, LayersExplorer])
def test_a_typed_sentence_is_read_and_the_word_that_asks_kept(kind):
    for asking, typed, expected in TYPED:
        explorer = at(kind, sentence="she sat on the bank of the river")
        explorer.word = explorer.result.tokens.index(asking)
        explorer.typed = typed
        tokens = list(explorer.result.tokens)
        assert (explorer.sentence, explorer.typed) == (" ".join(typed.split()), "")
        assert explorer.word == explorer.picked == tokens.index(expected)
        assert explorer.reading["tokens"] == tokens


def test_a_word_whose_meanings_are_known_asks_in_a_typed_sentence():
    explorer = at(LayersExplorer, sentence="she sat on the bank of the river")
    for asking, expected in (("the", "bat"), ("bank", "bat")):
        explorer.word = explorer.result.tokens.index(asking)
        explorer.typed = "the bat flew out of the cave at night"
        assert explorer.result.tokens[explorer.picked] == expected
        explorer.sentence = "she sat on the bank of the river"


def test_what_cannot_be_read_gets_a_sentence_and_changes_nothing():
    explorer = at(RealHeadsExplorer, sentence=OWN)
    before = (explorer.state(), explorer.reading)
    for text, problem in {
        "   ": "text must hold at least one word",
        "bank " * 23: "at most 22 word pieces to be drawn side by side, got 23",
        "b" * 100_000: "at most 5,000 characters, got 100,000",
        "\ud800": "contains half of one",
    }.items():
        explorer.typed = text
        assert problem in explorer.problem
        assert len(explorer.problem) < 200
        assert (explorer.typed, explorer.state(), explorer.reading) == ("", *before)
    explorer.typed = "the bank gave him a loan"
    assert explorer.problem == ""


@pytest.mark.parametrize("kind", [RealHeadsExplorer, LayersExplorer])
def test_a_page_holds_every_choice_and_the_sentence_in_force(kind):
    explorer = at(kind, sentence=OWN)
    stored = [one["sentence"] for one in explorer.data_to_store()["readings"]]
    assert stored == [*(sentence for sentence, _ in kind.choices.values()), OWN]
    assert f'"sentence":"{OWN}","tokens"' in explorer.to_html(library=False)
    assert len(json.dumps(explorer.data, separators=(",", ":"))) < 125_000
    explorer.sentence = stored[0]
    assert len(explorer.data_to_store()["readings"]) == len(stored) - 1


def test_to_change_a_result_changes_nothing():
    explorer = RealHeadsExplorer()
    explorer.result.weights.zero_()
    assert torch.allclose(explorer.result.weights.sum(-1), torch.ones(1))
