"""Train layers with every way to split and to merge: scrambled_pairs.csv.

Run by hand, about five minutes on one core:

    python data/make_scrambled_pairs.py

A split reshapes the features of the tokens (L, H * d) to one of the six orders of L, H and d, and
permutes them to (H, L, d); a merge does the same backwards. For each of the 36 pairs and three
random starts, a layer with two heads is trained as in lesson 7, once to copy lists of eight digits
(300 steps) and once to name the numbers of two animals (400 steps). The shares of 2,000 new lists
that it then gets right are noted. All is computed in float64, so that other processors give the
same numbers.
"""

from __future__ import annotations

import csv
from collections.abc import Callable
from itertools import permutations, product
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnlab.models.two_animals import two_animals

ORDERS = ["".join(order) for order in permutations("LHd")]
STARTS = 3
HEADS, WIDTH = 2, 32
HERE = Path(__file__).parent

Task = Callable[[int, torch.Generator], tuple[Tensor, Tensor]]


def split_by(order: str) -> Callable[[Tensor], Tensor]:
    """Return a split that reshapes to an order and permutes to (H, L, d)."""
    places = [1 + order.index(axis) for axis in "HLd"]

    def split(x: Tensor) -> Tensor:
        sizes = {"L": x.shape[1], "H": HEADS, "d": x.shape[2] // HEADS}
        return x.reshape(len(x), *(sizes[axis] for axis in order)).permute(0, *places)

    return split


def merge_by(order: str) -> Callable[[Tensor], Tensor]:
    """Return a merge that permutes to an order and reshapes to (L, H * d)."""
    places = [1 + "HLd".index(axis) for axis in order]
    return lambda heads: heads.permute(0, *places).reshape(len(heads), heads.shape[2], -1)


class Attention(nn.Module):
    """The layer of lesson 7."""

    def __init__(self, split: Callable[[Tensor], Tensor], merge: Callable[[Tensor], Tensor]):
        super().__init__()
        self.split, self.merge = split, merge
        self.q_proj = nn.Linear(WIDTH, WIDTH, bias=False)
        self.k_proj = nn.Linear(WIDTH, WIDTH, bias=False)
        self.v_proj = nn.Linear(WIDTH, WIDTH, bias=False)
        self.out_proj = nn.Linear(WIDTH, WIDTH, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Return the output (N, L, E)."""
        projected = (self.q_proj(x), self.k_proj(x), self.v_proj(x))
        answers = F.scaled_dot_product_attention(*map(self.split, projected))
        return self.out_proj(self.merge(answers))


def copy_digits(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Return lists of eight digits (N, 8, 32), and the digits (N, 8)."""
    digits = torch.randint(8, (count, 8), generator=generator)
    position, rest = torch.eye(8).expand(count, 8, 8), torch.zeros(count, 8, 16)
    return torch.cat([F.one_hot(digits, 8), position, rest], dim=-1), digits


def at_each_token(output: Tensor) -> Tensor:
    """Return what is read as eight guesses (N, 8, 8)."""
    return output[:, :, :8]


def at_the_question(output: Tensor) -> Tensor:
    """Return what is read as two guesses (N, 2, 8)."""
    return output[:, -1, :16].unflatten(-1, (2, 8))


def learned(layer: Attention, task: Task, read: Callable[[Tensor], Tensor], steps: int) -> float:
    """Train a layer, and return the share of new lists for which all its guesses are right."""
    generator = torch.Generator().manual_seed(0)
    optimizer = torch.optim.Adam(layer.parameters(), lr=0.02)
    for _ in range(steps):
        tokens, answers = task(32, generator)
        loss = F.cross_entropy(read(layer(tokens)).flatten(0, 1), answers.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    tokens, answers = task(2000, torch.Generator().manual_seed(1))
    with torch.no_grad():
        return (read(layer(tokens)).argmax(dim=-1) == answers).all(dim=-1).double().mean().item()


def main() -> None:
    """Train all pairs and write the table."""
    torch.set_default_dtype(torch.float64)
    torch.set_num_threads(1)
    with (HERE / "scrambled_pairs.csv").open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(["split", "merge", "start", "copies", "two_animals"])
        for split, merge, start in product(ORDERS, ORDERS, range(STARTS)):
            shares = []
            for task, read, steps in (
                (copy_digits, at_each_token, 300),
                (two_animals, at_the_question, 400),
            ):
                torch.manual_seed(start)
                layer = Attention(split_by(split), merge_by(merge))
                shares.append(f"{learned(layer, task, read, steps):.4f}")
            table.writerow([split, merge, start, *shares])
            file.flush()


if __name__ == "__main__":
    main()
