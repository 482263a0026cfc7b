"""The phone books of lesson 2, whose first name asks for its number, and two matrices that learn.

`data/make_scaling_race.py` trains them with three divisors, and the explorer with the learner's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache

import torch
from torch import Generator, Tensor

NAMES, WIDTH, NUMBERS = 32, 64, 16
STEPS, BOOKS, NEW_BOOKS, MODELS = 10, 32, 500, 5


@cache
def vectors() -> Tensor:
    """Return a vector for each name, (32, 64)."""
    return torch.randn(NAMES, WIDTH, dtype=torch.float64, generator=Generator().manual_seed(0))


def start(d_k: int, generator: Generator) -> Tensor:
    """Return the matrices that make queries and keys, untrained, (2, 64, d_k)."""
    return torch.randn(2, WIDTH, d_k, dtype=torch.float64, generator=generator) / math.sqrt(WIDTH)


def phone_books(n: int, entries: int, generator: Generator) -> tuple[Tensor, Tensor]:
    """Return who stands in each book, (n, entries), and their numbers, (n, entries, 16)."""
    who = torch.rand(n, NAMES, generator=generator).argsort(dim=-1)[:, :entries]  # no name twice
    number = torch.randint(NUMBERS, (n, entries), generator=generator)
    return who, torch.eye(NUMBERS).double()[number]


def look_up(w: Tensor, divisor: float, who: Tensor, number: Tensor) -> Tensor:
    """Return what the first name of each book finds, (..., M, n, 16); a model has books of its own.

    ``w`` is (..., M, 2, 64, d_k), ``who`` (M, n, entries) and ``number`` (M, n, entries, 16).
    """
    query, key = (vectors() @ w).unbind(dim=-3)
    scores = query @ key.mT / divisor  # (..., M, 32, 32)
    model = torch.arange(len(who))[:, None, None]
    weights = scores[..., model, who[..., :1], who].softmax(dim=-1)
    return (weights[..., None] * number).sum(dim=-2)


def accuracies(
    entries: int,
    d_k: int,
    divisor: float,
    rates: Sequence[float],
    make_optimizer: Callable[..., torch.optim.Optimizer] = torch.optim.SGD,
) -> list[float]:
    """Return, for each learning rate, the share of right answers of five models after ten steps."""
    generators = [Generator().manual_seed(seed) for seed in range(MODELS)]
    first = torch.stack([start(d_k, generator) for generator in generators])

    def books(n: int) -> tuple[Tensor, Tensor]:
        each = [phone_books(n, entries, generator) for generator in generators]
        who, number = zip(*each, strict=True)
        return torch.stack(who), torch.stack(number)

    models = [first.clone().requires_grad_() for _ in rates]
    groups = zip(models, rates, strict=True)
    optimizer = make_optimizer([{"params": [w], "lr": rate} for w, rate in groups])
    for _ in range(STEPS):
        who, number = books(BOOKS)
        error = look_up(torch.stack(models), divisor, who, number) - number[..., 0, :]
        optimizer.zero_grad()
        error.square().sum(dim=-1).mean(dim=-1).sum().backward()
        optimizer.step()
    who, number = books(NEW_BOOKS)
    answer = look_up(torch.stack(models).detach(), divisor, who, number).argmax(dim=-1)
    right = answer == number[..., 0, :].argmax(dim=-1)
    return right.double().mean(dim=(-2, -1)).tolist()
