"""Train the layers of lesson 7 from many starts: two_animals.csv and scrambled_pairs.csv.

Run by hand, about eight minutes on one core:

    python data/make_two_animals.py

two_animals.csv: for each of twelve random starts, the shares of 20,000 new lists in which layers
name the numbers of both animals after 800 steps: a layer without a split (`no_split`), the same
layer, frozen, with a new last step that is trained alone (`matrix`, `mlp`), and layers with two
heads, correct (`version_a`) and with a wrong split and a wrong merge (`version_b`).

scrambled_pairs.csv: a split reshapes the features of the tokens (L, H * d) to one of the six orders
of L, H and d, and permutes them to (H, L, d); a merge does the same backwards. For each of the 36
pairs and three random starts, a layer with two heads is trained once to copy lists of eight digits
(300 steps) and once to name the numbers of two animals (800 steps). The shares of 20,000 new lists
that it then gets right are noted.

All is computed in float64, so that other processors give the same numbers.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from itertools import permutations, product
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnlab.models.two_animals import two_animals

ORDERS = ["".join(order) for order in permutations("LHd")]
STARTS, PAIR_STARTS = 12, 3
HEADS, WIDTH = 2, 32
HERE = Path(__file__).parent
UNCHANGED = nn.Identity()

Task = Callable[[int, torch.Generator], tuple[Tensor, Tensor]]
Read = Callable[[Tensor], Tensor]


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

    def __init__(
        self,
        split: Callable[[Tensor], Tensor] = UNCHANGED,
        merge: Callable[[Tensor], Tensor] = UNCHANGED,
    ) -> None:
        super().__init__()
        self.split, self.merge = split, merge
        self.q_proj = nn.Linear(WIDTH, WIDTH, bias=False)
        self.k_proj = nn.Linear(WIDTH, WIDTH, bias=False)
        self.v_proj = nn.Linear(WIDTH, WIDTH, bias=False)
        self.out_proj = nn.Linear(WIDTH, WIDTH, bias=False)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return the output (N, L, E) and the weights (N, H, L, L)."""
        query, key, value = map(self.split, (self.q_proj(x), self.k_proj(x), self.v_proj(x)))
        weights = (query @ key.mT / query.shape[-1] ** 0.5).softmax(dim=-1)
        return self.out_proj(self.merge(weights @ value)), weights


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


def train(
    layer: Attention, task: Task = two_animals, read: Read = at_the_question, steps: int = 800
) -> Attention:
    """Train a layer on the same lists as every other one."""
    generator = torch.Generator().manual_seed(0)
    optimizer = torch.optim.Adam(layer.parameters(), lr=0.02)
    for _ in range(steps):
        tokens, answers = task(32, generator)
        loss = F.cross_entropy(read(layer(tokens)[0]).flatten(0, 1), answers.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return layer


@torch.no_grad()
def share_correct(
    layer: Attention, task: Task = two_animals, read: Read = at_the_question
) -> float:
    """Return the share of new lists for which all guesses are right."""
    generator, correct = torch.Generator().manual_seed(1), []
    for _ in range(10):
        tokens, answers = task(2000, generator)
        correct.append(read(layer(tokens)[0]).argmax(dim=-1) == answers)
    return torch.cat(correct).all(dim=-1).double().mean().item()


def fresh(start: int, *parts: object) -> Attention:
    """Return a layer with the random numbers of a start."""
    torch.manual_seed(start)
    return Attention(*parts)


def from_one_start(start: int) -> list[float]:
    """Return a row of two_animals.csv."""
    one = train(fresh(start))
    torch.manual_seed(start)
    last_steps = (
        nn.Linear(WIDTH, WIDTH),
        nn.Sequential(nn.Linear(WIDTH, 128), nn.ReLU(), nn.Linear(128, WIDTH)),
    )
    read = []
    for last_step in last_steps:
        frozen = deepcopy(one).requires_grad_(False)
        frozen.out_proj = last_step
        read.append(share_correct(train(frozen)))
    version_a = train(fresh(start, split_by("LHd"), merge_by("LHd")))
    version_b = train(fresh(start, split_by("HLd"), merge_by("HLd")))
    heads = [share_correct(version_a), share_correct(version_b)]
    return [share_correct(one), *read, *heads]


def from_one_pair(split: str, merge: str, start: int) -> list[float]:
    """Return the numbers of a row of scrambled_pairs.csv."""
    pair = split_by(split), merge_by(merge)
    copying = train(fresh(start, *pair), copy_digits, at_each_token, 300)
    animals = train(fresh(start, *pair))
    return [share_correct(copying, copy_digits, at_each_token), share_correct(animals)]


def write(name: str, head: str, rows: Iterable[Sequence[object]]) -> None:
    """Write a table of names and shares."""
    with (HERE / name).open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(head.split())
        for row in rows:
            table.writerow([f"{one:.4f}" if isinstance(one, float) else one for one in row])
            file.flush()


def main() -> None:
    """Train all layers and write both tables."""
    torch.set_default_dtype(torch.float64)
    torch.set_num_threads(1)
    starts = ([start, *from_one_start(start)] for start in range(STARTS))
    columns = "start no_split matrix mlp version_a version_b"
    write("two_animals.csv", columns, starts)
    pairs = product(ORDERS, ORDERS, range(PAIR_STARTS))
    write(
        "scrambled_pairs.csv",
        "split merge start copies two_animals",
        ([*pair, *from_one_pair(*pair)] for pair in pairs),
    )


if __name__ == "__main__":
    main()
