"""The checks of lesson 4: what they reject and why, and what they accept."""

import math

import pytest
import torch
from torch import nn

from attnlab.exercises import (
    check_lonely_weights,
    check_recovered_weights,
    check_sequence_first,
    check_sharp_factor,
)

CHECKS = (
    check_lonely_weights,
    check_sharp_factor,
    check_recovered_weights,
    check_sequence_first,
)
E = math.e


def refused(check, answer, *words):
    """Assert that a check refuses an answer and names why."""
    verdict = check(answer)
    assert verdict.done
    assert not verdict.ok, repr(verdict)
    for word in words:
        assert word in verdict.message
    assert "Not yet right" in verdict._repr_html_()


def accepted(check, answer):
    verdict = check(answer)
    assert verdict.ok, repr(verdict)
    assert "\n" not in verdict.message


@pytest.mark.parametrize("check", CHECKS)
def test_a_stub_is_not_done_yet(check):
    def stub(*_inputs):
        """Return nothing yet."""

    for answer in (stub, None, ...):
        verdict = check(answer)
        assert not verdict.done
        assert not verdict.ok


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize(
    "value", ["a text", [], {}, torch.zeros(3, 2), float("nan"), (1, 2, 3)]
)
def test_whatever_comes_a_check_answers_in_words(check, value):
    refused(check, lambda *_inputs: value)


@pytest.mark.parametrize("check", CHECKS)
def test_an_error_is_told(check):
    def raising(*_inputs):
        raise ValueError("no idea")

    refused(check, raising, "no idea")


# --- one odd token among four ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        ([0, 1, 0, 0], "A score of 0 is not a weight of 0"),
        ([0, 2, 0, 0], "raw scores"),
        ([1, E, 1, 1], "divide by their sum"),
        ([0.096, 0.711, 0.096, 0.096], "the root of 4 features"),
        ([0.297, 0.109, 0.297, 0.297], "the query b"),
        ([0.212, 0.576, 0.212, 0.212], "One more a"),
        ([0.25] * 4, "uniform row"),
        ([0.2, 0.2, 0.2, 0.2], "sum to 1, yours to 0.800"),
        ([0.1, 0.7, 0.1, 0.1], "The weights differ"),
        ([0.2, 0.6, 0.2], "yours has (3,)"),
        ([float("inf"), 0, 0, 0], "NaN or infinity"),
    ],
)
def test_lonely_weights_names_the_mistake(weights, words):
    refused(check_lonely_weights, lambda: weights, words)


def test_lonely_weights_wants_no_softmax():
    def answer():
        return torch.tensor([0.0, 1, 0, 0]).softmax(dim=-1)

    refused(check_lonely_weights, answer, "softmax made them")


@pytest.mark.parametrize(
    "answer", [[1 / (E + 3), E / (E + 3), 1 / (E + 3), 1 / (E + 3)]]
)
def test_lonely_weights_accepts(answer):
    accepted(check_lonely_weights, answer)
    accepted(check_lonely_weights, lambda: torch.tensor(answer).round(decimals=2))


# --- a factor for the features --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("factor", "words"),
    [
        (5.29, "the square of the factor"),
        (1.626, "root of 4 features"),
        (2.0, "too little"),
        (10, "a smaller factor"),
        (-2.3, "positive factor"),
        (0, "positive factor"),
        ([2.3, 2.3], "One number"),
    ],
)
def test_sharp_factor_names_the_mistake(factor, words):
    refused(check_sharp_factor, lambda: factor, words)


@pytest.mark.parametrize("factor", [2.3, 2.28, torch.tensor(2.2996), [2.33]])
def test_sharp_factor_accepts(factor):
    accepted(check_sharp_factor, lambda: factor)
    accepted(check_sharp_factor, factor)


# --- weights of a function that hides them --------------------------------------------------------


def recovered(attention, query, key):
    S = key.shape[-2]
    return attention(query, key, torch.eye(S).expand(*key.shape[:-2], S, S))


def without_leading_dimensions(attention, query, key):
    return attention(query, key, torch.eye(key.shape[-2], dtype=key.dtype))


def basis_by_basis(attention, query, key):
    columns = torch.eye(key.shape[-2])
    shape = (*key.shape[:-1], 1)
    return torch.cat(
        [attention(query, key, e[:, None].expand(shape)) for e in columns],
        dim=-1,
    )


@pytest.mark.parametrize(
    "answer", [recovered, without_leading_dimensions, basis_by_basis]
)
def test_recovered_weights_accepts(answer):
    accepted(check_recovered_weights, answer)


def own_softmax(_attention, query, key):
    return (query @ key.mT / query.shape[-1] ** 0.5).softmax(dim=-1)


def as_many_as_queries(attention, query, key):
    L = query.shape[-2]
    return attention(query, key, torch.eye(L).expand(*key.shape[:-2], L, L))


def as_many_as_features(attention, query, key):
    return attention(query, key, torch.eye(key.shape[-1]))


def all_ones(attention, query, key):
    return attention(query, key, torch.ones(*key.shape[:-1], key.shape[-2]))


def transposed(attention, query, key):
    return recovered(attention, query, key).mT


def keys_as_values(attention, query, key):
    return attention(query, key, key)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (own_softmax, "Ask the given function"),
        (as_many_as_queries, "one row per key"),
        (as_many_as_features, "one row per key"),
        (all_ones, "not the weights"),
        (transposed, "not the weights"),
        (keys_as_values, "not the weights"),
        (
            lambda attention, query, key: attention(query, key, key[..., :1]),
            "One column per key",
        ),
        (lambda attention, query, key: [1.0], "a list instead of a tensor"),
    ],
)
def test_recovered_weights_names_the_mistake(answer, words):
    refused(check_recovered_weights, answer, words)


# --- a layer that reads words first ---------------------------------------------------------------


def turned(layer, x):
    x = x.transpose(0, 1)
    output, weights = layer(x, x, x)
    return output.transpose(0, 1), weights


def one_by_one(layer, x):
    parts = [layer(one[:, None], one[:, None], one[:, None]) for one in x]
    return (
        torch.stack([output[:, 0] for output, _ in parts]),
        torch.cat([weights for _, weights in parts]),
    )


@pytest.mark.parametrize("answer", [turned, one_by_one])
def test_sequence_first_accepts(answer):
    accepted(check_sequence_first, answer)


def as_it_is(layer, x):
    return layer(x, x, x)


def not_turned_back(layer, x):
    return as_it_is(layer, x.transpose(0, 1))


def cut(layer, x):
    z = x.reshape(x.shape[1], x.shape[0], -1)
    output, weights = as_it_is(layer, z)
    return output.reshape(x.shape), weights


def cut_back(layer, x):
    output, weights = not_turned_back(layer, x)
    return output.reshape(x.shape), weights


def weights_turned(layer, x):
    output, weights = turned(layer, x)
    return output, weights.transpose(0, 1)


def weights_flipped(layer, x):
    output, weights = turned(layer, x)
    return output, weights.mT


def output_alone(layer, x):
    return turned(layer, x)[0]


def layer_switched(layer, x):
    layer.batch_first = True
    return layer(x, x, x)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (as_it_is, "Change sentence 0, and sentence 1 moves"),
        (not_turned_back, "Turn the output back"),
        (cut, "reshape deals the words out"),
        (cut_back, "cut, not turned back"),
        (weights_turned, "the batch in front"),
        (weights_flipped, "as they come"),
        (output_alone, "Return two things"),
        (layer_switched, "Turn the data, not the layer"),
        (lambda layer, x: (x, x), "wrong numbers"),
        (lambda layer, x: (x, None), "One of the two is None"),
    ],
)
def test_sequence_first_names_the_mistake(answer, words):
    refused(check_sequence_first, answer, words)


def test_the_layer_of_the_check_is_torch_s_own():
    seen = []

    def answer(layer, x):
        seen.append(layer)
        return turned(layer, x)

    accepted(check_sequence_first, answer)
    assert all(isinstance(layer, nn.MultiheadAttention) for layer in seen)
