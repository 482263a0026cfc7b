"""Train the phone books of lesson 2 at many learning rates and write scaling_race.csv.

Run by hand, about three minutes on one core:  python data/make_scaling_race.py

The task: a book shows 8 pairs (name, number), or 4, or 32, and its first name asks for its number.
Only two matrices learn, those that make queries and keys from the vectors of the names. Divisor,
head size, number of entries, learning rate and optimizer differ between runs; each accuracy is the
mean of five models after ten steps. All is computed in float64, so that another computer finds the
same numbers. The functions are those of `attnlab/explorers/phone_books.py`.
"""

from __future__ import annotations

import csv
import math
from itertools import product
from pathlib import Path

import torch

from attnlab.explorers.phone_books import accuracies

DIVISORS = {"1": lambda d_k: 1.0, "sqrt(d_k)": math.sqrt, "d_k": float}
HEAD_SIZES = (4, 16, 64, 256, 1024)
RUNS = {  # optimizer: its class, its learning rates, numbers of entries
    "SGD": (torch.optim.SGD, [2.0**power for power in range(-5, 10, 2)], (4, 8, 32)),
    "Adam": (torch.optim.Adam, [2.0**power for power in range(-11, -1)], (8,)),
}


def main() -> None:
    """Train every combination and write one line for each."""
    torch.set_num_threads(1)
    header = ["optimizer", "entries", "d_k", "divisor", "learning_rate", "accuracy"]
    with Path(__file__).with_name("scaling_race.csv").open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        for optimizer, (make_optimizer, rates, sizes_of_books) in RUNS.items():
            for entries, d_k, name in product(sizes_of_books, HEAD_SIZES, DIVISORS):
                found = accuracies(entries, d_k, DIVISORS[name](d_k), rates, make_optimizer)
                for rate, share in zip(rates, found, strict=True):
                    writer.writerow([optimizer, entries, d_k, name, rate, f"{share:.4f}"])


if __name__ == "__main__":
    main()
