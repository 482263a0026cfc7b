"""The checks of lesson 4: what they reject and why, and what they accept."""

import copy
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
from tests.exercises.verdicts import accepted, refused

E = math.e

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
        ([0.18, 0.48, 0.18, 0.18], "sum to 1, yours to 1.020"),
        ([0.1, 0.7, 0.1, 0.1], "The weights differ"),
        ([0.2, 0.6, 0.2], "yours has (3,)"),
        ([[0.17, 0.48], [0.17, 0.17]], "yours has (2, 2)"),
        ([float("inf"), 0, 0, 0], "NaN or infinity"),
    ],
)
def test_lonely_weights_names_the_mistake(weights, words):
    refused(check_lonely_weights, lambda: weights, words)


def test_lonely_weights_wants_no_softmax():
    def answer():
        return torch.tensor([0.0, 1, 0, 0]).softmax(dim=-1)

    refused(check_lonely_weights, answer, "softmax made them")


@pytest.mark.parametrize("answer", [[1 / (E + 3), E / (E + 3), 1 / (E + 3), 1 / (E + 3)]])
def test_lonely_weights_accepts(answer):
    accepted(check_lonely_weights, answer)
    accepted(check_lonely_weights, lambda: torch.tensor(answer).round(decimals=2))
    accepted(check_lonely_weights, lambda: torch.tensor([answer]))  # (1, 4)


# --- a factor for the features --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("factor", "words"),
    [
        (5.29, "the square of the factor"),
        (1.626, "root of 4 features"),
        (2.0, "too little"),
        (2.25, "0.9875: too little"),
        (2.28, "too little"),
        (2.29, "0.9896: too little"),
        (2.295, "0.9898: too little"),
        (2.304, "a smaller factor"),
        (math.sqrt(math.log(99)), "two strangers share the row"),
        (2.33, "a smaller factor"),
        (10, "a smaller factor"),
        (-2.3, "Query and key flip together"),
        (-7, "does the same as 7"),
        (0, "positive factor"),
        ([2.3, 2.3], "One number"),
    ],
)
def test_sharp_factor_names_the_mistake(factor, words):
    refused(check_sharp_factor, lambda: factor, words)


@pytest.mark.parametrize("factor", [2.3, 2.2996, torch.tensor(2.2996), [2.3], math.log(198) ** 0.5])
def test_sharp_factor_accepts(factor):
    accepted(check_sharp_factor, lambda: factor)
    accepted(check_sharp_factor, factor)


# --- weights of a function that hides them --------------------------------------------------------


def recovered(attention, query, key):
    S = key.shape[-2]
    return attention(query, key, torch.eye(S, dtype=key.dtype).expand(*key.shape[:-2], S, S))


def without_leading_dimensions(attention, query, key):
    return attention(query, key, torch.eye(key.shape[-2], dtype=key.dtype))


def basis_by_basis(attention, query, key):
    columns = torch.eye(key.shape[-2], dtype=key.dtype)
    shape = (*key.shape[:-1], 1)
    return torch.cat(
        [attention(query, key, e[:, None].expand(shape)) for e in columns],
        dim=-1,
    )


def as_wide_as_the_query(attention, query, key):
    S, E = key.shape[-2:]
    value = torch.eye(S, S + E, dtype=key.dtype).expand(*key.shape[:-2], S, S + E)
    return attention(query, key, value)[..., :S]


@pytest.mark.parametrize(
    "answer", [recovered, without_leading_dimensions, basis_by_basis, as_wide_as_the_query]
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


def always_float32(attention, query, key):
    return attention(query, key, torch.eye(key.shape[-2]))


def cast_to_float32(attention, query, key):
    return recovered(attention, query.float(), key.float())


def transposed(attention, query, key):
    return recovered(attention, query, key).mT


def keys_as_values(attention, query, key):
    return attention(query, key, key)


def one_column_of_ones(attention, query, key):
    return attention(query, key, torch.ones(*key.shape[:-1], 1))


def normed(attention, query, key):
    weights = recovered(attention, query, key)
    return weights / weights.sum(dim=-1, keepdim=True)


def one_axis_too_many(attention, query, key):
    return attention(query, key, torch.eye(key.shape[-2])[None])


def without_return(attention, query, key):
    recovered(attention, query, key)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (own_softmax, "Ask the given function"),
        (as_many_as_queries, "one row per key"),
        (as_many_as_features, "one row per key"),
        (all_ones, "row sums"),
        (one_column_of_ones, "row sums"),
        (normed, "a query that may look at no key"),
        (always_float32, "the dtype of the key, torch.float64"),
        (cast_to_float32, "must be torch.float64, got torch.float32"),
        (one_axis_too_many, "one axis too many"),
        (without_return, "is a `return` missing"),
        (transposed, "must be (5, 7), got (7, 5)"),
        (keys_as_values, "averages of the keys"),
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


def rebuilt(layer, x):
    twin = nn.MultiheadAttention(x.shape[-1], layer.num_heads, batch_first=True).eval()
    twin.load_state_dict(layer.state_dict())
    return twin(x, x, x)


def rebuilt_beside_a_call(layer, x):
    as_it_is(layer, x)
    return rebuilt(layer, x)


def rebuilt_by_type(layer, x):
    twin = type(layer)(x.shape[-1], layer.num_heads, batch_first=True).eval()
    twin.load_state_dict(layer.state_dict())
    return twin(x, x, x)


def copied(layer, x):
    return layer_switched(copy.deepcopy(layer), x)


def switched_and_back(layer, x):
    result = layer_switched(layer, x)
    layer.batch_first = False
    return result


def left_in_training(layer, x):
    result = turned(layer, x)
    layer.train()
    return result


def in_training(layer, x):
    layer.train()
    result = turned(layer, x)
    layer.eval()
    return result


def call_without_return(layer, x):
    turned(layer, x)


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
        (rebuilt, "builds another layer"),
        (rebuilt_beside_a_call, "builds another layer"),
        (rebuilt_by_type, "builds another layer"),
        (copied, "does not call the layer"),
        (switched_and_back, "Turn the data, not the layer"),
        (left_in_training, "training mode"),
        (in_training, "training mode"),
        (call_without_return, "is a `return` missing"),
        (lambda layer, x: (x, x), "does not call the layer"),
        (lambda layer, x: (layer(x, x, x)[0] + 1, x), "wrong numbers"),
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


def test_layers_can_be_built_again_after_the_check():
    refused(check_sequence_first, rebuilt, "builds another layer")
    assert nn.MultiheadAttention(4, 2).num_heads == 2
