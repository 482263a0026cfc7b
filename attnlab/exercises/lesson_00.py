"""The check of lesson 0: start here."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from attnlab.clinic import Evidence
from attnlab.exercises._answers import table
from attnlab.exercises._forms import Case, Opinion

ROWS = {
    (0.2, 0.3, 0.4999998): (
        True,
        "The row sums to 0.9999998. Floats are rounded, and softmax produces such rows too, so "
        "leave a small tolerance.",
    ),
    (1.0, 0.0): (True, "The row sums to 1, and a weight may be exactly 0."),
    (0.9, 0.4, 0.0): (False, "The row sums to 1.3, but weights sum to 1."),
    (0.2, 0.2): (False, "The row sums to 0.4, but weights sum to 1."),
    (0.5, 0.45): (
        False,
        "The row sums to 0.95. Rounding changes a sum by a millionth, not by a twentieth, so the "
        "tolerance must be smaller.",
    ),
    (0.8, 0.7, -0.5): (False, "The row sums to 1, but -0.5 is negative, and no weight may be."),
    (0.75, -0.25): (
        False,
        "The row sums to 0.5, but weights sum to 1. Sum the entries as they are, without `abs`.",
    ),
    (1.0, -0.2): (
        False,
        "The row sums to 0.8, and -0.2 is negative. Look at the entries as they are, without "
        "`clamp` or `relu`.",
    ),
}


def positive(row: Tensor) -> bool:
    """Return whether no entry is negative."""
    return bool((row >= 0).all())


def judged(_case: Case, said: dict[str, bool | None]) -> Evidence:
    """Return all rows, with the truth and what was said of them."""
    opinions = [math.nan if one is None else one for one in said.values()]
    rows = {
        str([*row]): [sum(row), truth, opinion]
        for (row, (truth, _)), opinion in zip(ROWS.items(), opinions, strict=True)
    }
    return table(
        "All rows that were tried (1 = True, 0 = False):", rows, ("sum", "correct", "yours")
    )


@Opinion(
    answer="A function of a row, shape (S,), that returns a bool.",
    see="attnlab.attention_weights : makes such rows.",
    slips={
        "It also accepts the row [0.2, 0.2], which sums to 0.4. Both conditions must hold, so join "
        "them with `and`.": lambda row: positive(row) or abs(row.sum() - 1) < 1e-5,
        "It returns False for every row that was tried.": lambda row: False,
        "It also accepts the row [0.2, 0.2], which sums to 0.4. The sum may be too small as well "
        "as too large, so take `abs` of its difference from 1.": (
            lambda row: positive(row) and row.sum() - 1 < 1e-5
        ),
        "A sum above 1 is wrong as well.": lambda row: positive(row) and 1 - row.sum() < 1e-5,
    },
    evidence=judged,
    verified="The function accepts both test rows that could be weights and rejects the six that "
    "could not.",
)
def check_is_distribution() -> Iterator[Case]:
    """Check a function that says whether a row holds attention weights.

    Verified: True for two rows of weights, False for six others.
    """
    for row, (truth, hint) in ROWS.items():
        yield Case(f"the row {[*row]}", (torch.tensor(row, dtype=torch.float32),), truth, hint)
