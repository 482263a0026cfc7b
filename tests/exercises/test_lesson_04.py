"""The checks of lesson 4: what they accept, and what they say of answers that are not slips."""

import math

import pytest
import torch

from attnlab.exercises import (
    check_contributions,
    check_darkest_range,
    check_lonely_weights,
    check_sharp_factor,
)
from tests.exercises.verdicts import accepts, names

LONELY = torch.tensor([0.0, 1, 0, 0]).exp() / (math.e + 3)


def by_taking_out(weights, value):
    """Return how far each output moves if the value of each key is set to 0 in turn."""
    moved = []
    for key in range(value.shape[-2]):
        without = value.clone()
        without[..., key, :] = 0
        moved.append((weights @ value - weights @ without).norm(dim=-1))
    return torch.stack(moved, dim=-1)


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


# --- all four -------------------------------------------------------------------------------------

test_accepts = accepts({
    check_lonely_weights: [LONELY.tolist(), lambda: LONELY.round(decimals=2)[None]],
    check_sharp_factor: [2.3, torch.tensor(2.2996), math.log(198) ** 0.5],
    check_contributions: [by_taking_out],
    check_darkest_range: [lambda s: torch.tensor([1 / s.shape[-1], 1 / s.sum(dim=-1).mean()])],
})  # fmt: skip

test_names_the_mistake = names({
    check_lonely_weights: {
        "Your function calls a softmax": lambda: torch.tensor([0.0, 1, 0, 0]).softmax(dim=-1),
        "but yours sum to 1.020": [0.18, 0.48, 0.18, 0.18],
        "What is the score of b with each key?": [0.1, 0.7, 0.1, 0.1],
    },
    check_sharp_factor: {
        "0.9898. That is too little": 2.295,
        "a smaller factor reaches": 2.304,
        "Your answer is -7. It should be a positive number.": -7,
    },
    check_contributions: {
        "over its features, the last axis": lambda weights, value: weights * value.norm(dim=-2),
        "axis of size 1 for the queries": lambda weights, value: weights * value.norm(dim=-1),
        "one number for each query and key": lambda weights, value: value.norm(dim=-1),
    },
    check_darkest_range: {
        "a tuple of length 3. Return two numbers, the lower": lambda shades: (0.1, 0.2, 0.3),
    },
})  # fmt: skip
