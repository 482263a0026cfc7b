"""Train self-attention to recall numbers: makes recall_snapshots.csv and recall_race.csv.

Run by hand from the root of the project, about 140 seconds of one core:
``python data/make_recall.py``.

The task: four pairs, such as "cat 3", stand before four questions, such as "cat ?". The answer to a
question is the number of its name. A token is a row of 13 zeros and ones: 8 for the name, 5 for the
number. The model is one self-attention with three matrices and nothing else; its output are the
scores of the five numbers. Every batch is new. Another CPU or version of torch moves the numbers a
little.
"""

from __future__ import annotations

import csv
import math
from itertools import product
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

NAMES, NUMBERS, PAIRS = 8, 5, 4
FEATURES = NAMES + NUMBERS
BATCH = 32

SNAPSHOT_D_K, SNAPSHOT_RATE, SNAPSHOT_STEPS = 16, 0.01, range(0, 201, 10)

STARTS = ("linear", "positive", "wide")
RACE_D_KS = (16, 256)
RATES = (0.003, 0.01, 0.03)
SEEDS = range(5)
RACE_STEPS, EVERY, TEST_EXAMPLES = 400, 50, 500


def start_matrix(start: str, rows: int, columns: int) -> Tensor:
    """Return a trainable matrix: as nn.Linear starts, all positive, or wide.

    "wide": normal numbers that give the entries of queries and keys a variance of 1 for a pair
    (two features are 1) and of 0.5 for a question (one is).
    """
    if start == "linear":
        matrix = (2 * torch.rand(rows, columns) - 1) / math.sqrt(rows)
    elif start == "positive":
        matrix = torch.rand(rows, columns)
    else:
        matrix = torch.randn(rows, columns) / math.sqrt(2)
    return matrix.requires_grad_()


def make_matrices(start: str, d_k: int) -> list[Tensor]:
    """Return W_query, W_key (FEATURES, d_k) and W_value (FEATURES, NUMBERS).

    The start is that of W_query and W_key. W_value always starts as nn.Linear does: it makes no
    scores, and a large random one takes long to unlearn.
    """
    query, key = (start_matrix(start, FEATURES, d_k) for _ in range(2))
    return [query, key, start_matrix("linear", FEATURES, NUMBERS)]


def make_examples(count: int) -> tuple[Tensor, Tensor]:
    """Return tokens (count, 2 * PAIRS, FEATURES) and the answers (count, PAIRS)."""
    names = torch.rand(count, NAMES).argsort(dim=1)[:, :PAIRS]  # no name twice
    numbers = torch.randint(NUMBERS, (count, PAIRS))
    order = torch.rand(count, PAIRS).argsort(dim=1)
    name, number = F.one_hot(names, NAMES), F.one_hot(numbers, NUMBERS)
    asked = F.one_hot(names.gather(1, order), NAMES)
    pairs = torch.cat([name, number], dim=-1)
    questions = torch.cat([asked, torch.zeros_like(number)], dim=-1)
    return torch.cat([pairs, questions], dim=1).float(), numbers.gather(1, order)


def attend(matrices: list[Tensor], x: Tensor, divisor: float) -> Tensor:
    """Return the output (N, L, NUMBERS)."""
    query, key, value = (x @ matrix for matrix in matrices)
    return (query @ key.transpose(-2, -1) / divisor).softmax(dim=-1) @ value


def train_step(matrices: list[Tensor], optimizer: torch.optim.Optimizer, divisor: float) -> None:
    """Take one step on a new batch; only the questions count."""
    x, answer = make_examples(BATCH)
    guess = attend(matrices, x, divisor)[:, PAIRS:]
    loss = F.cross_entropy(guess.flatten(0, 1), answer.flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


@torch.no_grad()
def accuracy(matrices: list[Tensor], x: Tensor, answer: Tensor, divisor: float) -> float:
    """Return the share of questions that are answered right."""
    guess = attend(matrices, x, divisor)[:, PAIRS:].argmax(dim=-1)
    return (guess == answer).double().mean().item()


def snapshots() -> list[list[object]]:
    """Return one line per step, matrix and feature."""
    torch.manual_seed(0)
    matrices = make_matrices("linear", SNAPSHOT_D_K)
    optimizer = torch.optim.Adam(matrices, lr=SNAPSHOT_RATE)
    lines = []
    for step in range(SNAPSHOT_STEPS[-1] + 1):
        if step in SNAPSHOT_STEPS:
            for name, matrix in zip(("query", "key", "value"), matrices, strict=True):
                for feature, row in enumerate(matrix.tolist()):
                    lines.append([step, name, feature, *(f"{number:.4f}" for number in row)])
        train_step(matrices, optimizer, math.sqrt(SNAPSHOT_D_K))
    return lines


def race(start: str, d_k: int, scaled: bool, rate: float, seed: int) -> list[tuple[int, float]]:
    """Return (step, accuracy on new examples) for one training."""
    torch.manual_seed(seed)
    matrices, test = make_matrices(start, d_k), make_examples(TEST_EXAMPLES)
    optimizer, divisor = torch.optim.Adam(matrices, lr=rate), math.sqrt(d_k) if scaled else 1.0
    reports = [(0, accuracy(matrices, *test, divisor))]
    for step in range(1, RACE_STEPS + 1):
        train_step(matrices, optimizer, divisor)
        if step % EVERY == 0:
            reports.append((step, accuracy(matrices, *test, divisor)))
    return reports


def write(name: str, header: list[str], lines: list[list[object]]) -> None:
    """Write a table beside this script."""
    with Path(__file__).with_name(name).open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(lines)


def main() -> None:
    """Write both tables."""
    torch.set_num_threads(1)
    columns = [f"column_{column}" for column in range(SNAPSHOT_D_K)]
    padding = [""] * SNAPSHOT_D_K  # value rows are shorter
    lines = [(line + padding)[: 3 + SNAPSHOT_D_K] for line in snapshots()]
    write("recall_snapshots.csv", ["step", "matrix", "feature", *columns], lines)
    runs = product(STARTS, RACE_D_KS, (True, False), RATES, SEEDS)
    lines = [
        [start, d_k, int(scaled), rate, seed, step, f"{found:.3f}"]
        for start, d_k, scaled, rate, seed in runs
        for step, found in race(start, d_k, scaled, rate, seed)
    ]
    header = ["start", "d_k", "scaled", "learning_rate", "seed", "step", "accuracy"]
    write("recall_race.csv", header, lines)


if __name__ == "__main__":
    main()
