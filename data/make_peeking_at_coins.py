"""Train the coin guesser of lesson 03 from many starts: makes peeking_at_coins.csv.

Run by hand, about four minutes on one core:  python data/make_peeking_at_coins.py

The model and its training are those of the lesson. Each start is trained on a fair coin and on a
sticky one, without a mask and with a causal mask, and measured on 40,000 new rows of tosses: in one
pass with the whole row in sight, as in training, and from the earlier tosses alone, as in use.
"""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

STARTS, STEPS, ROWS, NEW_ROWS = 24, 200, 128, 40_000
COLUMNS = "coin,causal,seed,loss_in_sight,right_in_sight,loss_in_use,right_in_use".split(",")


class Guesser(torch.nn.Module):
    """One layer of attention that guesses, for each toss, the next one."""

    def __init__(self, causal: bool, width: int = 32) -> None:
        super().__init__()
        self.causal = causal
        self.side = torch.nn.Linear(1, width)
        self.place = torch.nn.Parameter(torch.randn(6, width))
        self.qkv = torch.nn.Linear(width, 3 * width)
        self.out = torch.nn.Linear(width, 1)

    def forward(self, tosses: Tensor) -> Tensor:
        """Return the guesses (..., L, 1) of tosses (..., L, 1): above 0 means heads."""
        x = self.side(tosses) + self.place[: tosses.shape[-2]]
        query, key, value = self.qkv(x).chunk(3, dim=-1)
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=self.causal)
        return self.out(x + mixed)


def fair(rows: int) -> Tensor:
    """Return rows of seven tosses, 1 for heads: (rows, 7, 1)."""
    return torch.randint(2, (rows, 7, 1)).float()


def sticky(rows: int) -> Tensor:
    """Return tosses that repeat the one before eight times out of ten."""
    tosses = fair(rows)
    for t in range(1, 7):
        same = torch.rand(rows, 1) < 0.8
        tosses[:, t] = torch.where(same, tosses[:, t - 1], 1 - tosses[:, t - 1])
    return tosses


def train(toss: Callable[[int], Tensor], causal: bool) -> Guesser:
    """Return a trained model."""
    model = Guesser(causal)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(STEPS):
        tosses = toss(ROWS)
        loss = F.binary_cross_entropy_with_logits(model(tosses[:, :-1]), tosses[:, 1:])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model.requires_grad_(False)


def measured(guesses: Tensor, answers: Tensor) -> tuple[str, str]:
    """Return the loss and the share of correct guesses."""
    loss = F.binary_cross_entropy_with_logits(guesses, answers)
    right = ((guesses > 0) == (answers > 0)).float().mean()
    return f"{loss:.3f}", f"{right:.3f}"


def main() -> None:
    """Train all models and write the table."""
    torch.set_num_threads(1)
    rows = []
    for toss in (fair, sticky):
        for causal in (False, True):
            for seed in range(STARTS):
                torch.manual_seed(seed)
                model = train(toss, causal)
                tosses = toss(NEW_ROWS)
                inputs, answers = tosses[:, :-1], tosses[:, 1:]
                in_use = [model(inputs[:, :t])[:, -1] for t in range(1, 7)]
                found = measured(model(inputs), answers)
                found += measured(torch.stack(in_use, dim=1), answers)
                rows.append([toss.__name__, int(causal), seed, *found])
    path = Path(__file__).with_name("peeking_at_coins.csv")
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows([COLUMNS, *rows])


if __name__ == "__main__":
    main()
