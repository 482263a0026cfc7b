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


def untransposed_if_square(matrix):
    return linear_with(matrix.T if matrix.shape[0] == matrix.shape[1] else matrix)


def by_product(query, key, new):
    """Solve new @ answer.T = query @ key.T, without A."""
    return (torch.linalg.pinv(new) @ query @ key.T).T


# --- a test for layers ----------------------------------------------------------------------------

X = torch.arange(1.0, 41.0).reshape(1, 5, 8) / 40


def apart(one, other, least=1e-5):
    return bool((one - other).abs().max() > least)


@torch.no_grad()
def layer_test(layer, changes=torch.clone):
    """Compare tokens 0 and 1, then token 0 before and after token 4 has changed."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(1, 5, 8, generator=generator)
    changed = changes(x)
    changed[0, 4] = torch.randn(8, generator=generator)
    before, after = layer(x)[0], layer(changed)[0]
    return apart(before[0], after[0]) and apart(before[0], before[1])


# --- all ------------------------------------------------------------------------------------------

test_accepts = accepts({
    "check_parameter_count": [12 * (7 + 7 + 5) + 7 + 7 + 5],
    "check_linear_from": [linear_with, lambda m: with_weight(m.T.clone(), m)],
    "check_fitting_keys": [
        by_product,
        lambda q, k, n: k @ torch.linalg.pinv(torch.linalg.pinv(q) @ n).T,
        lambda q, k, n: k @ torch.linalg.lstsq(n, q).solution.T,
    ],
    "check_layer_test": [layer_test],
})  # fmt: skip

test_names_the_mistake = names({
    "check_linear_from": {
        "An nn.Linear(5, 3) stores a weight of the shape (3, 5), but yours": (
            lambda m: with_weight(m, m)
        ),
        "the shape (5, 3) instead of (3, 5). nn.Linear stores": (
            lambda m: nn.Linear(*m.shape[::-1], bias=False)
        ),
        ("a matrix (4, 4)", "the layer is wrong. The weight of the"): untransposed_if_square,
        "wrap the numbers in nn.Parameter": lambda m: setattr(linear_with(m), "weight", m.T),
        "inside `with torch.no_grad():`": lambda m: linear_with(m).weight.copy_(m.T),
        "shares its memory": lambda m: with_weight(m.T, m),
    },
    "check_fitting_keys": {
        "what W_query gains, W_key must lose": lambda q, k, n: k / 2,
        "multiplied by a matrix (d_k, d_k)": lambda q, k, n: q @ k.T,
    },
    "check_layer_test": {
        "Is your threshold too strict": lambda layer: bool(layer(X).sum() > 1e9),
        "both names mean one tensor": lambda layer: layer_test(layer, changes=lambda x: x),
        "its own value. In that layer, no token receives": lambda layer: apart(*layer(X)[0, :2]),
        # it is curved, as attention is, and so is a small network for each token alone
        "a small network of its own": lambda layer: apart(layer(2 * X), 2 * layer(X)),
    },
})  # fmt: skip
