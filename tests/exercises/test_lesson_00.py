"""The check of lesson 0: what it accepts, and what it says of wrong answers that are not slips."""

import pytest
import torch
import torch.nn.functional as F

from attnlab.exercises import check_new_vector
from tests.exercises.verdicts import accepts, names


def by_hand(query, x):
    powers = [float(row @ query / len(query) ** 0.5) for row in x]
    powers = torch.tensor(powers).exp()
    return sum(power * row for power, row in zip(powers / powers.sum(), x, strict=True))


test_accepts = accepts({
    check_new_vector: [
        by_hand,
        lambda query, x: F.scaled_dot_product_attention(query[None], x, x)[0],
        lambda query, x: (query @ x.mT / x.shape[-1] ** 0.5).softmax(-1) @ x,
    ]
})  # fmt: skip

test_names_the_mistake = names({
    check_new_vector: {
        "has the shape (7,), but it should have the shape (5,). You returned one number": (
            lambda query, x: (x @ query / len(query) ** 0.5).softmax(-1)
        ),
        ("x (7, 5)", "is wrong. The scores are not divided"): (
            lambda query, x: (x @ query).softmax(-1) @ x
        ),
        ("x (3, 11)", "divided, but not by the square root"): (
            lambda query, x: (x @ query / 5**0.5).softmax(-1) @ x
        ),
        "is `weights @ x`": lambda query, x: (x @ query).softmax(0) * x,
        "a single vector": lambda query, x: F.scaled_dot_product_attention(query[None], x, x),
        "do not sum to 1": (
            lambda query, x: ((x @ query[:, None]).softmax(-1) * x).sum(dim=0)
        ),
        "One of three steps is wrong": lambda query, x: x.amax(dim=0),
    }
})  # fmt: skip


@pytest.mark.parametrize("seed", range(4))
def test_the_right_answer_is_attention(seed):
    generator = torch.Generator().manual_seed(seed)
    query, x = (torch.randn(size, generator=generator).double() for size in ((5,), (7, 5)))
    right = check_new_vector.form.right(query, x)
    torch.testing.assert_close(right, F.scaled_dot_product_attention(query[None], x, x)[0])
