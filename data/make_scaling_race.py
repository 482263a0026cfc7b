"""Train the phone books of lesson 2 at many learning rates and write scaling_race.csv.

Run by hand, about three minutes on one core:  python data/make_scaling_race.py

The task: a book shows 8 pairs (name, number), or 4, or 32, and its first name asks for its number.
Only two matrices learn, those that make queries and keys from the vectors of the names. Divisor,
head size, number of entries, learning rate and optimizer differ between runs; each accuracy is the
mean of five models after ten steps. All is computed in float64, so that another computer finds the
same numbers. The functions are those of the lesson, with the number of entries as a parameter.
"""

from __future__ import annotations

import csv
import math
from itertools import product
from pathlib import Path

import torch
from torch import Generator, Tensor

NAMES, WIDTH, NUMBERS = 32, 64, 16
STEPS, BOOKS, NEW_BOOKS, MODELS = 10, 32, 500, 5

DIVISORS = {"1": lambda d_k: 1.0, "sqrt(d_k)": math.sqrt, "d_k": float}
HEAD_SIZES = (4, 16, 64, 256, 1024)
RUNS = {  # optimizer: its class, its learning rates, numbers of entries
    "SGD": (torch.optim.SGD, [2.0**power for power in range(-5, 10, 2)], (4, 8, 32)),
    "Adam": (torch.optim.Adam, [2.0**power for power in range(-11, -1)], (8,)),
}

names = torch.randn(NAMES, WIDTH, dtype=torch.float64, generator=Generator().manual_seed(0))


def phone_books(n: int, entries: int, generator: Generator) -> tuple[Tensor, Tensor]:
    """Return who stands in each book, (n, entries), and their numbers, (n, entries, 16)."""
    who = torch.rand(n, NAMES, generator=generator).argsort(dim=-1)[:, :entries]  # no name twice
    number = torch.randint(NUMBERS, (n, entries), generator=generator)
    return who, torch.eye(NUMBERS).double()[number]


def look_up(w: Tensor, divisor: float, who: Tensor, number: Tensor) -> Tensor:
    """Return what the first name of each book finds, (n, 16)."""
    query, key = names @ w
    scores = query @ key.mT / divisor
    weights = scores[who[:, :1], who].softmax(dim=-1)
    return (weights[:, :, None] * number).sum(dim=1)


def accuracy(optimizer: str, entries: int, d_k: int, divisor: float, rate: float) -> float:
    """Return the share of right answers of five models."""
    right = []
    for seed in range(MODELS):
        generator = Generator().manual_seed(seed)
        w = torch.randn(2, WIDTH, d_k, dtype=torch.float64, generator=generator)
        w = (w / math.sqrt(WIDTH)).requires_grad_()
        steps = RUNS[optimizer][0]([w], lr=rate)
        for _ in range(STEPS):
            who, number = phone_books(BOOKS, entries, generator)
            error = look_up(w, divisor, who, number) - number[:, 0]
            steps.zero_grad()
            error.square().sum(dim=-1).mean().backward()
            steps.step()
        who, number = phone_books(NEW_BOOKS, entries, generator)
        answer = look_up(w.detach(), divisor, who, number).argmax(dim=-1)
        right.append(answer == number[:, 0].argmax(dim=-1))
    return torch.cat(right).double().mean().item()


def main() -> None:
    """Train every combination and write one line for each."""
    torch.set_num_threads(1)
    header = ["optimizer", "entries", "d_k", "divisor", "learning_rate", "accuracy"]
    with Path(__file__).with_name("scaling_race.csv").open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        for optimizer, (_, rates, sizes_of_books) in RUNS.items():
            for entries, d_k, name, rate in product(sizes_of_books, HEAD_SIZES, DIVISORS, rates):
                found = accuracy(optimizer, entries, d_k, DIVISORS[name](d_k), rate)
                writer.writerow([optimizer, entries, d_k, name, rate, f"{found:.4f}"])


if __name__ == "__main__":
    main()
