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
        "The row sums to 0.9999998. Floats are rounded, and softmax gives such rows too: leave a "
        "tolerance.",
    ),
    (1.0, 0.0): (True, "The row sums to 1, and a weight may be exactly 0."),
    (0.9, 0.4, 0.0): (False, "The row sums to 1.3, and weights sum to 1."),
    (0.2, 0.2): (False, "The row sums to 0.4, and weights sum to 1."),
    (0.5, 0.45): (
        False,
        "The row sums to 0.95. Rounding changes a sum by a millionth, not by a twentieth: narrow "
        "the tolerance.",
    ),
    (0.8, 0.7, -0.5): (
        False,
        "The row sums to 1, but -0.5 is negative: every entry must be at least 0.",
    ),
    (0.75, -0.25): (
        False,
        "The row sums to 0.5, and weights sum to 1. Sum the entries as they are, without `abs`.",
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
    return table("Seven rows; 1 = True, 0 = False:", rows, ("its sum", "correct", "yours"))


@Opinion(
    answer="A function of a row, shape (S,), that returns a bool.",
    see="attnlab.attention_weights : makes such rows.",
    slips={
        "It says True of every row, even of [0.2, 0.2], which sums to 0.4. Both conditions must "
        "hold: join them with `and`.": lambda row: positive(row) or abs(row.sum() - 1) < 1e-5,
        "It says False of every row, even of [1.0, 0.0], which sums to 1 and has no negative "
        "entry.": (lambda row: False),
        "The row [0.2, 0.2], which sums to 0.4, passes as well. The difference to 1 may have "
        "either sign: take `abs` of it.": lambda row: positive(row) and row.sum() - 1 < 1e-5,
        "Sums above 1 are wrong as well.": lambda row: positive(row) and 1 - row.sum() < 1e-5,
    },
    evidence=judged,
    verified="The function accepts both test rows that could be weights and rejects the five that "
    "could not.",
)
def check_is_distribution() -> Iterator[Case]:
    """Check a function that says whether a row holds attention weights.

    Verified: True for two rows of weights, False for five others.
    """
    for row, (truth, hint) in ROWS.items():
        name = f"the row {[*row]}, shape ({len(row)},)"
        yield Case(name, (torch.tensor(row, dtype=torch.float32),), truth, hint)
