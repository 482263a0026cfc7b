"""The check of lesson 0: what it accepts, and what it says of wrong answers that are not slips."""

import torch
import torch.nn.functional as F

from tests.exercises.verdicts import accepts, names


def by_hand(query, x):
    powers = torch.tensor([float(row @ query / len(query) ** 0.5) for row in x]).exp()
    return sum(power * row for power, row in zip(powers / powers.sum(), x, strict=True))


test_accepts = accepts({
    "check_new_vector": [
        by_hand,
        lambda query, x: F.scaled_dot_product_attention(query[None], x, x)[0],
        lambda query, x: (query @ x.mT / x.shape[-1] ** 0.5).softmax(-1) @ x,
    ]
})  # fmt: skip

test_names_the_mistake = names({
    "check_new_vector": {
        ("x (7, 5)", "has the shape (7,) instead of (5,). You returned one number for each word"): (
            lambda query, x: (x @ query / len(query) ** 0.5).softmax(-1)
        ),
        ("x (3, 11)", "divided, but not by the square root"): (
            lambda query, x: (x @ query / 5**0.5).softmax(-1) @ x
        ),
        "is `weights @ x`": lambda query, x: (x @ query).softmax(0) * x,
        "a single vector": lambda query, x: F.scaled_dot_product_attention(query[None], x, x),
        "One of three steps is wrong": lambda query, x: x.amax(dim=0),
    }
})  # fmt: skip
