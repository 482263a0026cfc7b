"""The checks of lesson 6: what they reject and why, and what they accept."""

import pytest
import torch
from torch import nn

from attnlab import SelfAttention
from attnlab.exercises import (
    check_layer_test,
    check_linear_from,
    check_other_pair,
    check_parameter_count,
)
from tests.exercises.verdicts import accepted, refused

# --- counting -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (228, "a bias as well"),
        (156, "a projection each"),
        (144, "and each output a bias"),
        (273, "5 numbers, not 7"),
        (252, "and each output has a bias"),
        (2223, "share the matrices"),
        (264, "not to each input"),
        (231, "not one for all"),
        (100, "inputs times outputs"),
        (247.5, "inputs times outputs"),
    ],
)
def test_a_wrong_count_is_explained(said, words):
    refused(check_parameter_count, lambda: said, words)


@pytest.mark.parametrize("said", [247, 247.0, torch.tensor(247)])
def test_the_right_count_is_accepted(said):
    accepted(check_parameter_count, lambda: said)
    projections = [nn.Linear(12, outputs) for outputs in (7, 7, 5)]
    assert sum(p.numel() for one in projections for p in one.parameters()) == 247


# --- a linear layer of a matrix -------------------------------------------------------------------


def linear_with(matrix, bias=False):
    layer = nn.Linear(*matrix.shape, bias=bias)
    with torch.no_grad():
        layer.weight.copy_(matrix.T)
    return layer


def sharing(matrix):
    layer = nn.Linear(*matrix.shape, bias=False)
    layer.weight = nn.Parameter(matrix.T)
    return layer


def frozen(matrix):
    return linear_with(matrix).requires_grad_(False)


def only_square_wrong(matrix):
    layer = linear_with(matrix)
    if matrix.shape[0] == matrix.shape[1]:
        with torch.no_grad():
            layer.weight.copy_(matrix)
    return layer


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda m: linear_with(m, bias=True), "has a bias"),
        (lambda m: nn.Linear(*m.shape, bias=False), "does not hold the numbers"),
        (lambda m: linear_with(m.T), "must be (3, 5), got (5, 3)"),
        (only_square_wrong, "A square one raises no error"),
        (frozen, "requires_grad is False"),
        (sharing, "shares its memory"),
        (lambda m: m.T, "an nn.Linear is asked for"),
    ],
)
def test_a_wrong_linear_layer_is_refused(answer, words):
    refused(check_linear_from, answer, words)


def test_a_right_linear_layer_is_accepted():
    accepted(check_linear_from, linear_with)

    def by_parameter(matrix):
        layer = nn.Linear(*matrix.shape, bias=False)
        layer.weight = nn.Parameter(matrix.T.clone())
        return layer

    accepted(check_linear_from, by_parameter)


# --- another pair with the same scores ------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda q, k: (q, k), "W_query has not changed"),
        (lambda q, k: (2 * q, k), "W_key has not changed"),
        (lambda q, k: (2 * q, 2 * k), "must lose"),
        (lambda q, k: (k, q), "transposed"),
        (lambda q, k: (2 * q, -k / 2), "All signs are turned"),
        (lambda q, k: (q[:, :2], k[:, :2]), "must be (8, 4), got (8, 2)"),
        (lambda q, k: q, "two matrices"),
        (lambda q, k: (q * float("nan"), k), "NaN"),
    ],
)
def test_a_pair_with_other_scores_is_refused(answer, words):
    refused(check_other_pair, answer, words)


def rotated(query, key):
    turn, _ = torch.linalg.qr(torch.randn(query.shape[1], query.shape[1]))
    return query @ turn, key @ turn


@pytest.mark.parametrize(
    "answer",
    [
        lambda q, k: (-q, -k),
        lambda q, k: (2 * q, k / 2),
        lambda q, k: (q.flip(1), k.flip(1)),
        rotated,
    ],
)
def test_a_pair_with_the_same_scores_is_accepted(answer):
    accepted(check_other_pair, answer)


# --- a test for layers ----------------------------------------------------------------------------


ONE_TO_FORTY = torch.arange(1.0, 41.0).reshape(1, 5, 8) / 40


def output_of(layer, x):
    with torch.no_grad():
        return layer(x)


def same_word_twice(layer):
    """Whether a token's output changes with its neighbour, and differs from the neighbour's."""
    x = torch.randn(1, 5, 8)
    other = x.clone()
    other[0, 4] = torch.randn(8)
    before, after = output_of(layer, x), output_of(layer, other)
    moved = not torch.allclose(before[0, 0], after[0, 0], atol=1e-5)
    return moved and not torch.allclose(before[0, 0], before[0, 1], atol=1e-5)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda layer: True, "all three matrices are zero"),
        (lambda layer: False, "False for a working layer"),
        (lambda layer: layer(torch.zeros(2, 5, 8)).shape == (2, 5, 4), "all three"),
        (
            lambda layer: bool(output_of(layer, torch.randn(1, 5, 8)).any()),
            "the same average",
        ),
        (
            lambda layer: not torch.allclose(*output_of(layer, torch.randn(1, 2, 8))[0]),
            "sees no other",
        ),
        # curved in its input, as attention is: so is a small network for each token alone
        (
            lambda layer: (
                not torch.allclose(
                    output_of(layer, 2 * ONE_TO_FORTY),
                    2 * output_of(layer, ONE_TO_FORTY),
                    atol=1e-5,
                )
            ),
            "a small network of its own",
        ),
        (lambda layer: "yes", "True or False"),
    ],
)
def test_a_test_that_misses_a_broken_layer_is_refused(answer, words):
    refused(check_layer_test, answer, words)


def large_tokens(layer):
    """The two comparisons, with tokens so large that softmax picks one key."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(1, 5, 8, generator=generator) * 1000
    other = x.clone()
    other[0, 1] = torch.randn(8, generator=generator)
    before, after = output_of(layer, x)[0], output_of(layer, other)[0]
    moved = not torch.allclose(before[0], after[0], atol=1e-5)
    return moved and not torch.allclose(before[0], before[1], atol=1e-5)


def test_large_tokens_are_named_as_a_cause():
    refused(check_layer_test, large_tokens, "Threshold too strict, or tokens so large")


def listens_only_to_distant_words(layer):
    """Another right answer: it looks at all outputs, and changes the last token."""
    x = ONE_TO_FORTY.sin()
    other = torch.cat([x[:, :4], -x[:, 4:]], dim=1)
    before, after = output_of(layer, x)[0], output_of(layer, other)[0]
    return bool((before[:4] - after[:4]).abs().max() > 1e-4 and before.std(dim=0).max() > 1e-4)


def test_a_test_that_finds_all_is_accepted():
    accepted(check_layer_test, listens_only_to_distant_words)
    accepted(check_layer_test, same_word_twice)
    assert same_word_twice(lambda x: SelfAttention(8, 4)(x).output) in (True, False)
