"""LayersExplorer: weights and leans are those of the whole model, and what is said is true."""

import csv
import itertools
import json
import re
from functools import cache

import pytest
import torch

from attnlab import data_path
from attnlab.explorers import LayersExplorer
from attnlab.explorers.layers import CHOICES, code
from attnlab.meanings import lean, leans, vectors_of
from attnlab.pretrained import load_encoder
from tests.explorers.common import ExplorerTests, assert_same, at

OWN = "the bat sat on the river bank with a nervous seal"
SENTENCES = [sentence for sentence, _ in CHOICES.values()]
ENCODER = cache(load_encoder)
READ = cache(lambda sentence: ENCODER().read(sentence))


@cache
def rows_of(word):
    """Return sentences and meanings that a word may be compared with."""
    name = "bank_sentences.csv" if word == "bank" else "two_meanings.csv"
    with data_path(name).open(newline="", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row.get("word", "bank") == word]
    rows = [row for row in rows if row.get("part", "open") == "open"]
    return [row["sentence"] for row in rows], [row["meaning"] for row in rows]


@cache
def vectors(word):
    return vectors_of(ENCODER(), word, rows_of(word)[0])


def lean_of(word, sentence):
    """Return the lean of a word that stands once in a sentence."""
    sentences, meanings = rows_of(word)
    is_first = torch.tensor([meaning == meanings[0] for meaning in meanings])
    if sentence in sentences:
        return leans(vectors(word), is_first)[sentences.index(sentence)]
    return lean(vectors_of(ENCODER(), word, [sentence])[0], vectors(word), is_first)


class TestLayers(ExplorerTests):
    kind = LayersExplorer
    states = [
        {"sentence": sentence, "word": word, "layer": layer, "head": head}
        for sentence in (*SENTENCES, OWN)
        for word, layer, head in itertools.product(range(9), (0, 1, 4, 6), ("mean", 0, 7))
    ]

    def expected(self, explorer):
        tokens, _, weights = READ(explorer.sentence)
        token = tokens[explorer.picked]
        row = torch.zeros(len(tokens))
        if explorer.layer:
            maps = weights[explorer.layer - 1, :, explorer.picked]
            row = maps.mean(dim=0) if explorer.head == "mean" else maps[explorer.head]
        known = rows_of(token)[0]
        assert list(explorer.result.tokens) == tokens
        assert explorer.result.meanings == tuple(dict.fromkeys(rows_of(token)[1]))
        nothing = torch.full((7,), torch.nan)
        return {"weights": row, "leans": lean_of(token, explorer.sentence) if known else nothing}

    def check_words(self, explorer, said, result):
        token, layer = result.tokens[explorer.picked], explorer.layer
        first, second = said.split(". ", maxsplit=1)
        if result.meanings:
            when = f"After layer {layer}" if layer else "Before the first layer"
            found = re.fullmatch(
                rf"{when}, “{token}”.* lies (nearer to|about as near to) (\w+) (than|as) to (\w+) "
                r"\(lean (−?\d\.\d{3})\)",
                first,
            )
            here = result.leans[layer].item()
            assert float(found[5].replace("−", "-")) == pytest.approx(here, abs=5.1e-4)
            if found[1] == "nearer to":
                assert (found[2], found[4]) == result.meanings[:: 1 if here > 0 else -1]
            else:
                assert (found[2], found[4]) == result.meanings
            assert (found[1] == "nearer to") == (round(abs(here), 3) >= 0.005)
        else:
            assert first == f"No labelled sentences show two meanings of “{token}”"
        if not layer:
            assert second == "It has not attended to any word yet."
            return
        top, most, where, marked = re.fullmatch(
            r"Among the words, it attends most to (.+) \((\d\.\d\d)(?: each)?, (.+)\); "
            r"\[CLS\] and \[SEP\] get (\d\.\d\d)\.",
            second,
        ).groups()
        row = result.weights
        assert float(most) == pytest.approx(row[1:-1].max().item(), abs=0.0051)
        assert float(marked) == pytest.approx((row[0] + row[-1]).item(), abs=0.0101)
        mean = explorer.head == "mean"
        assert where == ("mean of the heads" if mean else f"head {explorer.head}")
        best = row[1:-1].argmax().item() + 1
        name = "itself" if best == explorer.picked else result.tokens[best]
        assert name in top or re.fullmatch(r"\d+ words", top)


def test_a_meaning_is_compared_without_the_sentence_itself_and_without_the_set_aside():
    with data_path("two_meanings.csv").open(newline="", encoding="utf-8") as file:
        aside = next(row for row in csv.DictReader(file) if row["part"] == "aside")
    for sentence, word in (("we swam to the bank", "bank"), (aside["sentence"], aside["word"])):
        explorer = at(LayersExplorer, sentence=sentence)
        explorer.word = explorer.result.tokens.index(word)
        assert_same(explorer.result.leans, lean_of(word, sentence), explorer)


def test_the_question_is_answered_by_the_model():
    sentence, word = CHOICES["robbed"]
    tokens, _, weights = READ(sentence)
    rows = weights.mean(dim=1)[:, tokens.index(word)]  # (6, L)
    robbed = rows[:, tokens.index("robbed")]
    question = at(LayersExplorer).prediction
    assert at(LayersExplorer).sentence == sentence
    assert sentence in question.ask
    assert question.options[question.right] == f"layer {robbed.argmax() + 1}"
    assert (
        f"gets {robbed[0]:.2f}, and in no later layer more than {robbed[1:].max():.2f}"
        in question.why
    )
    assert rows[1:5, 0].min() > 0.5


@pytest.mark.parametrize("sentence", [SENTENCES[0], OWN])
def test_the_lines_of_pytorch_give_vectors_and_weights(sentence):
    names = {"load_encoder": ENCODER}
    lines = code(sentence, len(READ(sentence).tokens))
    exec(lines, names)
    wanted = tuple(names["vectors"].shape), tuple(names["weights"].shape)
    assert f"vectors.shape, weights.shape  # {wanted[0]}, {wanted[1]}" in lines
    torch.testing.assert_close(names["weights"], READ(sentence).weights)


def test_the_browser_gets_every_choice_in_percent_and_little_else():
    explorer = at(LayersExplorer)
    for reading, (sentence, word) in zip(explorer.data["readings"], CHOICES.values(), strict=True):
        tokens, _, weights = READ(sentence)
        sent = torch.tensor(reading["maps"]) / 100  # (6, 13, L, L)
        torch.testing.assert_close(sent[:, 1:], weights, atol=0.00501, rtol=0)
        torch.testing.assert_close(sent[:, 0], weights.mean(dim=1), atol=0.00501, rtol=0)
        assert tokens[reading["word"]] == word
        known = reading["known"][str(reading["word"])]
        assert known["names"] == tuple(dict.fromkeys(rows_of(word)[1]))
        curve = torch.tensor(known["curves"][0])
        torch.testing.assert_close(curve, lean_of(word, sentence), atol=5.1e-4, rtol=0)
        assert all(one > 0 > other for one, other in zip(*known["curves"][1:], strict=True))
    assert len(json.dumps(explorer.data, separators=(",", ":"))) < 125_000


def test_a_typed_sentence_is_read_by_all_layers():
    explorer = LayersExplorer()
    explorer.typed = f"  {OWN} "
    assert (explorer.sentence, explorer.typed, explorer.problem) == (OWN, "", "")
    assert explorer.result.tokens[explorer.word] == "bank"
    assert {explorer.reading["tokens"][int(place)] for place in explorer.reading["known"]} == {
        "bat",
        "bank",
        "seal",
    }
    explorer.typed = "bank " * 23
    assert "at most 22 word pieces" in explorer.problem


def test_the_still_picture_shows_the_row_and_three_curves():
    explorer = at(LayersExplorer, head=3)
    bars, curves = explorer.figure().axes
    widths = torch.tensor([bar.get_width() for bar in bars.patches])
    torch.testing.assert_close(widths, explorer.result.weights, check_dtype=False)
    assert_same(curves.lines[0].get_ydata(), explorer.result.leans, explorer)
    labels = [line.get_label() for line in curves.lines[:3]]
    assert labels == ["this word", "mean of river", "mean of money"]
    unknown = at(LayersExplorer, word=1).figure().axes[1]
    assert unknown.get_title(loc="left") == "No labelled meanings"
