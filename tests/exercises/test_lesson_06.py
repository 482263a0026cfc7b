"""The checks of lesson 6: what they accept, and what they say of answers that are not slips."""

import torch
from torch import nn

from tests.exercises.verdicts import accepts, names


def linear_with(matrix, bias=False):
    layer = nn.Linear(*matrix.shape, bias=bias)
    with torch.no_grad():
        layer.weight.copy_(matrix.T)
    return layer


def with_weight(weight, matrix):
    layer = nn.Linear(*matrix.shape, bias=False)
    layer.weight = nn.Parameter(weight)
    return layer


# --- the same scores ------------------------------------------------------------------------------


def on_tokens(query, key, other_query, other_key, count=300):
    """Compare the scores of random tokens."""
    tokens = torch.randn(count, len(query), generator=torch.Generator().manual_seed(0))
    one = (tokens @ query) @ (tokens @ key).T / query.shape[1] ** 0.5
    other = (tokens @ other_query) @ (tokens @ other_key).T / other_query.shape[1] ** 0.5
    return bool((one - other).abs().max() < 1e-2)


def compared(same):
    """Return a function that compares what decides the scores of each layer: (d_in, d_in)."""

    def function(*layers):
        query, key, other_query, other_key = layers
        pairs = (query, key), (other_query, other_key)
        return bool(same(*(q @ k.T / q.shape[1] ** 0.5 for q, k in pairs)))

    return function


def by_part(index):
    return compared(lambda one, other: torch.allclose(one[index], other[index], atol=1e-3))


# --- all ------------------------------------------------------------------------------------------

test_accepts = accepts({
    "check_linear_from": [linear_with, lambda m: with_weight(m.T.clone(), m)],
    "check_same_scores": [on_tokens],
})  # fmt: skip

test_names_the_mistake = names({
    "check_linear_from": {
        "An nn.Linear(5, 3) stores a weight of the shape (3, 5), but yours": (
            lambda m: with_weight(m, m)
        ),
        "the shape (5, 3) instead of (3, 5). nn.Linear stores": (
            lambda m: nn.Linear(*m.shape[::-1], bias=False)
        ),
        "wrap the numbers in nn.Parameter": lambda m: setattr(linear_with(m), "weight", m.T),
        "inside `with torch.no_grad():`": lambda m: linear_with(m).weight.copy_(m.T),
        "The layer shares": lambda m: with_weight(m.T, m),
        "shares its memory": lambda m: with_weight(m.T.contiguous(), m),
        "It must hold the transposed": lambda m: with_weight(m.clone().view(m.shape[::-1]), m),
    },
    "check_same_scores": {
        "The product is twice as large, and so is": lambda q, k, other_q, other_k: (
            torch.allclose(q @ k.T, other_q @ other_k.T, atol=1e-3)
        ),
        "The swap transposes the scores": compared(
            lambda one, other: abs(one.norm() - other.norm()) < 0.01
        ),
        "Compare the largest difference": compared(
            lambda one, other: (one - other).abs().max() < 0.05
        ),
        "Compare the products, with a tolerance": lambda q, k, other_q, other_k: torch.equal(
            q @ k.T, other_q @ other_k.T
        ),
        "shows in a single row of the product": by_part(-1),
        "shows in a single column of the product": by_part((slice(None), -1)),
        "The weights of single features are the same": compared(
            lambda one, other: torch.allclose(one.softmax(-1), other.softmax(-1), atol=1e-4)
        ),
        "in which one entry of W_query is changed": lambda *layers: on_tokens(
            *(matrix * (torch.arange(8) < 7)[:, None] for matrix in layers)
        ),
    },
})  # fmt: skip
