"""The checks of lesson 4: what they accept, and what they say of answers that are not slips."""

import copy
import math

import pytest
import torch
from torch import nn

from attnlab.exercises import (
    check_contributions,
    check_darkest_range,
    check_lonely_weights,
    check_recovered_weights,
    check_sequence_first,
    check_sharp_factor,
)
from tests.exercises.verdicts import accepts, names, refused

LONELY = torch.tensor([0.0, 1, 0, 0]).exp() / (math.e + 3)


def recovered(attention, query, key, **dtype):
    return attention(query, key, torch.eye(key.shape[-2], **dtype).expand(*key.shape[:-2], -1, -1))


def in_its_dtype(attention, query, key):
    return recovered(attention, query, key, dtype=key.dtype)


def basis_by_basis(attention, query, key):
    columns = torch.eye(key.shape[-2], dtype=key.dtype)
    shape = (*key.shape[:-1], 1)
    return torch.cat([attention(query, key, e[:, None].expand(shape)) for e in columns], dim=-1)


def normed(attention, query, key):
    weights = in_its_dtype(attention, query, key)
    return weights / weights.sum(dim=-1, keepdim=True)


def unpacked(attention, query, key):
    _output, weights = attention(query, key, key)
    return weights


def by_taking_out(weights, value):
    """Return how far each output moves if the value of each key is set to 0 in turn."""
    moved = []
    for key in range(value.shape[-2]):
        without = value.clone()
        without[..., key, :] = 0
        moved.append((weights @ value - weights @ without).norm(dim=-1))
    return torch.stack(moved, dim=-1)


# --- a layer that reads words first ---------------------------------------------------------------


def turned(layer, x):
    x = x.transpose(0, 1)
    output, weights = layer(x, x, x)
    return output.transpose(0, 1), weights


def one_by_one(layer, x):
    outputs, weights = zip(*(layer(*3 * [one[:, None]]) for one in x), strict=True)
    return torch.cat(outputs, dim=1).transpose(0, 1), torch.cat(weights)


def switched(layer, x):
    layer.batch_first = True
    return layer(x, x, x)


def rebuilt(layer, x):
    twin = nn.MultiheadAttention(x.shape[-1], layer.num_heads, batch_first=True).eval()
    twin.load_state_dict(layer.state_dict())
    return twin(x, x, x)


def with_layer(before=lambda layer: None, after=lambda layer: None, call=turned):
    def answer(layer, x):
        before(layer)
        result = call(layer, x)
        after(layer)
        return result

    return answer


def test_layers_can_be_built_again_after_the_check():
    refused(check_sequence_first, rebuilt, "builds another layer")
    assert nn.MultiheadAttention(4, 2).num_heads == 2


# --- what a fitted picture still tells ------------------------------------------------------------


@pytest.mark.parametrize("size", [(3, 4), (5, 5), (2, 8)])
def test_both_ends_of_the_darkest_weight_are_reached_and_no_weight_lies_beyond(size):
    weights = torch.randn(size, dtype=torch.float64).softmax(dim=-1)
    shades = (weights - weights.min()) / (weights.max() - weights.min())
    least, greatest = 1 / size[1], 1 / shades[0].sum()
    assert least < weights.max() < greatest
    for white in torch.linspace(0, least, 9):  # every white end gives a table with these shades
        dark = white + (1 - size[1] * white) / shades[0].sum()
        table = white + shades * (dark - white)
        torch.testing.assert_close(table.sum(dim=-1), torch.ones(size[0], dtype=torch.float64))
        assert least - 1e-9 <= dark <= greatest + 1e-9


# --- all six --------------------------------------------------------------------------------------

test_accepts = accepts({
    check_lonely_weights: [LONELY.tolist(), lambda: LONELY.round(decimals=2)[None]],
    check_sharp_factor: [2.3, torch.tensor(2.2996), math.log(198) ** 0.5],
    check_contributions: [by_taking_out],
    check_darkest_range: [lambda s: torch.tensor([1 / s.shape[-1], 1 / s.sum(dim=-1).mean()])],
    check_recovered_weights: [
        basis_by_basis,
    ],
    check_sequence_first: [turned, one_by_one],
})  # fmt: skip

test_names_the_mistake = names({
    check_lonely_weights: {
        "softmax made them": lambda: torch.tensor([0.0, 1, 0, 0]).softmax(dim=-1),
        "sum to 1, yours to 1.020": [0.18, 0.48, 0.18, 0.18],
        "The weights differ": [0.1, 0.7, 0.1, 0.1],
    },
    check_sharp_factor: {
        "0.9898. That is too little": 2.295,
        "a smaller factor reaches": 2.304,
        "does the same as 7": -7,
        "positive factor": 0,
    },
    check_contributions: {
        "One number for each query and key": lambda weights, value: value.norm(dim=-1),
    },
    check_darkest_range: {"yours has shape (3,)": lambda shades: (0.1, 0.2, 0.3)},
    check_recovered_weights: {
        "the leading dimensions of the key": (
            lambda attention, query, key: attention(query, key, torch.eye(key.shape[-1]))
        ),
        "a query that may look at no key": normed,
        ("plain attention in torch.float64", "the key, and its dtype"): recovered,
        "must be torch.float64, got torch.float32": (
            lambda attention, query, key: recovered(attention, query.float(), key.float())
        ),
        "The function returns one tensor": unpacked,
    },
    check_sequence_first: {
        "Return two things": lambda layer, x: turned(layer, x)[0],
        "It switches the layer to batch_first": switched,
        "Turn the data, not the layer": (
            with_layer(call=switched, after=lambda layer: setattr(layer, "batch_first", False))
        ),
        "It builds another layer": with_layer(before=lambda layer: layer, call=rebuilt),
        "It does not call the layer": lambda layer, x: switched(copy.deepcopy(layer), x),
        "to training mode": with_layer(after=nn.Module.train),
        "training mode": with_layer(before=nn.Module.train, after=nn.Module.eval),
        "its numbers are not": lambda layer, x: (layer(x, x, x)[0] + 1, x),
    },
})  # fmt: skip
