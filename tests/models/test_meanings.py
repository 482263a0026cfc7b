"""The measures of lesson 14, against plain Python, and its sentences."""

import math

import pytest
import torch
from torch.testing import assert_close

from attnlab.models import meanings
from attnlab.models.pretrained import load_encoder

ENCODER = load_encoder()  # no test changes it
IS_FIRST = torch.tensor([True, False, True, True, False, False, True])


def numbers(count):
    return torch.randn(count, 3, 5, dtype=torch.float64)


def test_the_vectors_are_those_of_the_word_under_the_weights_given():
    sentences = ["we swam to the bank", "the bank lends money", "a bank of the river"]
    for edit in (None, lambda _, weights: 0 * weights):
        found = meanings.vectors_of(ENCODER, "bank", sentences, edit=edit)
        for one, sentence, place in zip(found, sentences, (5, 2, 2), strict=True):
            wanted = ENCODER.read(sentence, edit=edit).vectors[:, place]
            assert_close(one, wanted, rtol=0, atol=1e-4)


def plain_lean(vector, others, is_first):
    """Return the difference of two cosines, of lists of numbers."""
    cosines = []
    for first in (True, False):
        rows = [row for row, one in zip(others, is_first, strict=True) if one == first]
        mean = [sum(column) / len(rows) for column in zip(*rows, strict=True)]
        dot = sum(a * b for a, b in zip(vector, mean, strict=True))
        cosines.append(dot / math.hypot(*vector) / math.hypot(*mean))
    return cosines[0] - cosines[1]


def test_leans_are_those_of_plain_python():
    vectors, new = numbers(7), numbers(4)
    found = meanings.lean(new, vectors, IS_FIRST)
    assert found.shape == (4, 3)
    for layer in range(3):
        rows = vectors[:, layer].tolist()
        for i, row in enumerate(new[:, layer].tolist()):
            assert found[i, layer].item() == pytest.approx(plain_lean(row, rows, IS_FIRST.tolist()))
    assert_close(meanings.lean(new[1], vectors, IS_FIRST), found[1])


T, V, X = TypeError, ValueError, numbers(7)
CALLS = [
    (lambda: meanings.vectors_of(ENCODER, "bank", []), V, "at least one text, got none"),
    (lambda: meanings.vectors_of(ENCODER, "Bank", ["the bank"]), V, "'Bank' once .* got 0 in"),
    (lambda: meanings.vectors_of(ENCODER, "a", ["a a"]), V, "'a' once as a piece, got 2 in 'a a'"),
    (
        lambda: meanings.lean(X, X[0], IS_FIRST),
        V,
        r"others must have shape \(N, 7, E\).*vectors_of",
    ),
    (
        lambda: meanings.lean(X, X, IS_FIRST[:3]),
        V,
        r"bool of shape \(7,\), one for each",
    ),
    (lambda: meanings.lean(X, X, torch.arange(7) < 0), V, "at least once each, got 0 and 7"),
    (lambda: meanings.lean(X[..., :2], X, IS_FIRST), V, r"shape \(..., 3, 5\) as others have"),
]


@pytest.mark.parametrize(("call", "kind", "words"), CALLS)
def test_a_bad_call_says_what_is_wrong(call, kind, words):
    with pytest.raises(kind, match=words):
        call()
