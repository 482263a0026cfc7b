"""The checks of lesson 2: what they accept, and what they say of answers that are not slips."""

import torch
import torch.nn.functional as F

from tests.exercises.verdicts import accepts, names

MEAN, VARIANCE = 350.0, 100 * 35 / 12


def size(x):
    return x.square().mean(dim=-1, keepdim=True).sqrt()


def normed(query, key):
    return (query / size(query)) @ (key / size(key)).mT / query.shape[-1] ** 0.5


test_accepts = accepts({
    "check_always_true": [lambda: " b ", "B"],
    "check_hundred_dice": [
        lambda c: (torch.tensor(MEAN / c), torch.tensor(VARIANCE) / c**2),
    ],
    "check_good_factor": [lambda: 10 / 1160**0.25, 1.75, lambda: torch.tensor([1.7])],
    "check_normed_scores": [
        lambda q, k: F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).mT * q.shape[-1] ** 0.5,
        lambda q, k: normed(q.double(), k.double()),
    ],
})  # fmt: skip

test_names_the_mistake = names({
    "check_always_true": {'It should be "A", "B", "C" or "D"': "AB"},
    "check_hundred_dice": {
        "Add up the means": lambda c: (300.0 / c, VARIANCE / c**2),
        "a number. Return two numbers, the mean": lambda c: MEAN / c,
    },
    "check_good_factor": {"1160, which is too large.": 10, "too small": 0},
    "check_normed_scores": {
        "needs keepdim=True": lambda q, k: normed(q / q.square().mean(dim=-1).sqrt(), k),
        "Swap the last two": lambda q, k: q @ k.T,
        "shape (2, 7, 5) instead of (2, 5, 7). Count": lambda q, k: normed(k, q),
        "the square root of a negative number": lambda q, k: normed(q, k).sub(9).sqrt(),
    },
})  # fmt: skip
