"""Train a small look-up model with three divisors and write its accuracies to scaling_race.csv.

Run by hand, about four minutes on one core:  python data/make_scaling_race.py

The task: 8 pairs (name, number) are shown and one of the names is asked for; the answer is its
number. Every batch is new. The model is one attention layer with one query per example. Only the
divisor of the scores, the learning rate and the seed differ between runs. Another CPU or version of
torch moves the accuracies a little.
"""

from __future__ import annotations

import csv
import math
from itertools import product
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

NAMES, NUMBERS, PAIRS = 32, 16, 8  # answering at random is right in 1 of 16 cases
D_MODEL, D_K = 64, 256
BATCH, TEST_EXAMPLES = 32, 1000
REPORTS = (*range(50, 401, 50), 800, 1200, 1600)  # after so many steps

DIVISORS = {"raw": 1.0, "sqrt(d_k)": math.sqrt(D_K), "d_k": float(D_K)}
LEARNING_RATES = (3e-4, 1e-3, 3e-3, 1e-2, 3e-2)
SEEDS = range(4)


def make_weights() -> dict[str, Tensor]:
    """Return random parameters that keep vectors of variance 1 at variance 1."""

    def linear(n_in: int, n_out: int) -> Tensor:
        return torch.randn(n_in, n_out) / math.sqrt(n_in)

    weights = {
        "name": torch.randn(NAMES, D_MODEL),
        "number": torch.randn(NUMBERS, D_MODEL),
        "query": linear(D_MODEL, D_K),
        "key": linear(D_MODEL, D_K),
        "value": linear(D_MODEL, D_MODEL),
        "answer": linear(D_MODEL, NUMBERS),
    }
    return {name: weight.requires_grad_() for name, weight in weights.items()}


def make_examples(count: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the names and numbers shown, (count, PAIRS), the name asked for and the answer."""
    names = torch.rand(count, NAMES).argsort(dim=1)[:, :PAIRS]  # no name twice
    numbers = torch.randint(NUMBERS, (count, PAIRS))
    row, asked = torch.arange(count), torch.randint(PAIRS, (count,))
    return names, numbers, names[row, asked], numbers[row, asked]


def predict(weights: dict[str, Tensor], examples: tuple[Tensor, ...], divisor: float) -> Tensor:
    """Return the logits of the answer, (N, NUMBERS)."""
    names, numbers, asked, _ = examples
    pairs = (weights["name"][names] + weights["number"][numbers]) / math.sqrt(2)  # (N, S, E)
    query = weights["name"][asked][:, None] @ weights["query"]  # (N, 1, D_K)
    key, value = pairs @ weights["key"], pairs @ weights["value"]
    attention = (query @ key.mT / divisor).softmax(dim=-1)  # (N, 1, S)
    return (attention @ value)[:, 0] @ weights["answer"]


def train(divisor: float, learning_rate: float, seed: int) -> list[float]:
    """Return the accuracy on new examples after each step of REPORTS."""
    torch.manual_seed(seed)
    weights, test = make_weights(), make_examples(TEST_EXAMPLES)
    optimizer = torch.optim.Adam(weights.values(), lr=learning_rate)
    accuracies = []
    for step in range(1, REPORTS[-1] + 1):
        examples = make_examples(BATCH)
        loss = F.cross_entropy(predict(weights, examples, divisor), examples[-1])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step in REPORTS:
            with torch.no_grad():
                right = predict(weights, test, divisor).argmax(dim=-1) == test[-1]
            accuracies.append(right.double().mean().item())
    return accuracies


def main() -> None:
    """Train every combination and write one line for each of its reports."""
    torch.set_num_threads(1)
    header = ["divisor", "learning_rate", "seed", "step", "accuracy"]
    with Path(__file__).with_name("scaling_race.csv").open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        for divisor, rate, seed in product(DIVISORS, LEARNING_RATES, SEEDS):
            accuracies = train(DIVISORS[divisor], rate, seed)
            for step, accuracy in zip(REPORTS, accuracies, strict=True):
                writer.writerow([divisor, rate, seed, step, f"{accuracy:.3f}"])


if __name__ == "__main__":
    main()
