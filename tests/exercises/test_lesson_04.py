"""The checks of lesson 4: what they accept, and what they say of answers that are not slips."""

import math

import torch

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


test_accepts = accepts({
    "check_lonely_weights": [LONELY.tolist(), lambda: LONELY.round(decimals=2)[None]],
    "check_sharp_factor": [2.3, torch.tensor(2.2996), math.log(198) ** 0.5],
    "check_contributions": [
        by_taking_out,
        lambda weights, value: by_taking_out(weights, value).numpy(),
    ],
    "check_darkest_range": [lambda s: torch.tensor([1 / s.shape[-1], 1 / s.sum(dim=-1).mean()])],
})  # fmt: skip

test_names_the_mistake = names({
    "check_lonely_weights": {
        "Your function calls a softmax": lambda: torch.tensor([0.0, 1, 0, 0]).softmax(dim=-1),
        "but yours sum to 1.020": [0.18, 0.48, 0.18, 0.18],
        "Give the row of b alone": [LONELY.tolist()] * 4,
    },
    "check_sharp_factor": {
        "0.98979. That is too little": 2.295,
        "0.98997. That is too little": 2.299,
        "a smaller factor reaches": 2.304,
        "about what three a’s need": 2.39,
    },
    "check_contributions": {
        "axis of size 1 for the queries": lambda weights, value: weights * value.norm(dim=-1),
        "one number for each query and key": lambda weights, value: value.norm(dim=-1),
        "Return the contributions, as a tensor": lambda weights, value: (weights, value),
    },
    "check_darkest_range": {
        "a tuple of length 3. Return two numbers, the lower": lambda shades: (0.1, 0.2, 0.3),
    },
})  # fmt: skip
