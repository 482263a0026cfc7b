"""The measures of lesson 14, against plain Python, and its sentences."""

import csv
import math
import re
from collections import Counter

import pytest
import torch

from attnlab import data_path
from attnlab.meanings import lean, leans, vectors_of, wilson_interval
from attnlab.pretrained import load_encoder

with data_path("two_meanings.csv").open(encoding="utf-8") as file:
    ROWS = list(csv.DictReader(file))


@pytest.fixture(scope="module")
def encoder():
    return load_encoder()


def plain_cosine(a, b):
    return sum(x * y for x, y in zip(a, b, strict=True)) / math.hypot(*a) / math.hypot(*b)


def plain_mean(rows):
    return [sum(column) / len(rows) for column in zip(*rows, strict=True)]


# --- vectors --------------------------------------------------------------------------------------


def test_the_vectors_are_those_of_the_word(encoder):
    sentences = ["we swam to the bank", "the bank lends money", "a bank of the river"]
    found = vectors_of(encoder, "bank", sentences)  # the first and the last have one length
    assert found.shape == (3, 7, 384)
    for one, sentence, place in zip(found, sentences, (5, 2, 2), strict=True):
        wanted = encoder.read(sentence).vectors[:, place]
        torch.testing.assert_close(one, wanted, rtol=0, atol=1e-4)


def test_other_weights_are_used(encoder):
    plain = vectors_of(encoder, "bank", ["we swam to the bank"])
    zeros = vectors_of(encoder, "bank", ["we swam to the bank"], edit=lambda _, w: 0 * w)
    assert torch.equal(plain[:, 0], zeros[:, 0])
    assert (plain[:, 1:] - zeros[:, 1:]).abs().amax(dim=-1).min() > 0.1


@pytest.mark.parametrize(
    ("word", "sentences", "sentence"),
    [
        ("bank", [], "sentences must hold at least one text, got none."),
        ("bank", ["a river"], "sentences must hold the word 'bank' once as a piece, got 0 in "),
        ("bank", ["bank to bank"], "sentences must hold the word 'bank' once as a piece, got 2 "),
        ("Bank", ["the bank"], "sentences must hold the word 'Bank' once as a piece, got 0 in "),
    ],
)
def test_wrong_words_and_sentences_are_one_sentence(encoder, word, sentences, sentence):
    with pytest.raises(ValueError, match="^" + re.escape(sentence)):
        vectors_of(encoder, word, sentences)


# --- which mean is nearer -------------------------------------------------------------------------


def random_case(seed, count=7):
    generator = torch.Generator().manual_seed(seed)
    vectors = torch.randn(count, 3, 5, generator=generator)
    return vectors, torch.tensor([True, False, True, True, False, False, True])


@pytest.mark.parametrize("seed", range(4))
def test_leans_are_those_of_plain_python(seed):
    vectors, is_first = random_case(seed)
    found = leans(vectors, is_first)
    for i, layer in [(0, 0), (1, 2), (6, 1)]:
        means = [
            plain_mean(
                [
                    vectors[j, layer].tolist()
                    for j in range(7)
                    if j != i and bool(is_first[j]) == first
                ]
            )
            for first in (True, False)
        ]
        cosines = [plain_cosine(vectors[i, layer].tolist(), mean) for mean in means]
        assert found[i, layer].item() == pytest.approx(cosines[0] - cosines[1], abs=1e-5)


def test_a_sentence_does_not_help_its_own_mean():
    vectors, is_first = random_case(0)
    moved = vectors.clone()
    moved[2] *= 5  # a longer vector with the same direction
    torch.testing.assert_close(leans(moved, is_first)[2], leans(vectors, is_first)[2])
    assert not torch.allclose(leans(moved, is_first)[0], leans(vectors, is_first)[0])


def test_the_two_meanings_can_change_places():
    vectors, is_first = random_case(1)
    torch.testing.assert_close(leans(vectors, ~is_first), -leans(vectors, is_first))
    new = torch.randn(4, 3, 5)
    torch.testing.assert_close(lean(new, vectors, ~is_first), -lean(new, vectors, is_first))


def test_one_new_sentence_and_several():
    vectors, is_first = random_case(2)
    new = torch.randn(4, 3, 5)
    assert lean(new, vectors, is_first).shape == (4, 3)
    torch.testing.assert_close(lean(new[1], vectors, is_first), lean(new, vectors, is_first)[1])


@pytest.mark.parametrize(("first", "sentence"), [(4, "got 4 and 0"), (1, "got 1 and 3")])
def test_each_meaning_is_needed_twice(first, sentence):
    with pytest.raises(ValueError, match=f"at least 2 times each, {sentence}"):
        leans(torch.ones(4, 3, 5), torch.arange(4) < first)


# --- the interval ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("correct", "total", "low", "high"),
    [
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ],
)
def test_the_interval_is_that_of_newcombe(correct, total, low, high):
    """Newcombe, Statistics in Medicine 17, 1998, table I, method 3."""
    assert wilson_interval(correct, total) == pytest.approx((low, high), abs=5e-5)


@pytest.mark.parametrize(("correct", "total"), [(0, 1), (3, 7), (35, 35), (33, 35)])
def test_its_ends_solve_the_equation_of_the_score_test(correct, total):
    share = correct / total
    for end in wilson_interval(correct, total):
        if 1e-9 < end < 1 - 1e-9:
            error = math.sqrt(end * (1 - end) / total)
            assert abs(share - end) / error == pytest.approx(1.959964, abs=1e-5)


def test_more_correct_than_there_are():
    with pytest.raises(ValueError, match="correct must be at most 5, got 6"):
        wilson_interval(6, 5)


# --- the sentences --------------------------------------------------------------------------------


def test_the_sentences_are_balanced_and_hold_their_word_once(encoder):
    counts = Counter((row["word"], row["meaning"], row["part"]) for row in ROWS)
    assert len(ROWS) == len({row["sentence"] for row in ROWS}) == 144
    assert Counter(counts.values()) == {6: 16, 3: 16}
    assert len({word for word, _, _ in counts}) == 8
    for row in ROWS:
        assert encoder.tokens(row["sentence"]).count(row["word"]) == 1


def test_no_other_word_is_in_more_than_three_sentences_of_a_meaning():
    common = set(
        "a an the of on in at to from for with out and it its his her he she we was is had".split()
    )
    words = Counter(
        (row["word"], row["meaning"], word)
        for row in ROWS
        for word in set(row["sentence"].split()) - common - {row["word"]}
    )
    assert max(words.values()) <= 2
