"""The check for the exercise of lesson 0: start here."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from attnlab.clinic import Evidence
from attnlab.exercises._answers import Answer, Right, Wrong, judge, table
from attnlab.exercises._verdict import Verdict
from attnlab.exercises._yes_no import opinions


def check_is_distribution(answer: object) -> Verdict:
    """Check a function that tells whether a row holds attention weights.

    Verified: True for two rows of weights, False for four others.

    Parameters
    ----------
    answer : callable
        A function of a row, shape (S,), that returns a bool.

    Returns
    -------
    Verdict
        Never an error.

    See Also
    --------
    attnlab.attention_weights : makes such rows.
    """
    return judge(answer, _is_distribution)


@dataclass(frozen=True)
class _Row:
    entries: tuple[float, ...]
    right: bool
    why: str  # follows after what was said of it

    @property
    def tensor(self) -> Tensor:
        return torch.tensor(self.entries, dtype=torch.float32)

    def __str__(self) -> str:
        return f"the row {[*self.entries]}"


ROUNDED = _Row(
    (0.2, 0.3, 0.4999998),
    True,
    "It sums to 0.9999998. Floats are rounded, and softmax gives such rows too: leave a tolerance.",
)
WITH_ZERO = _Row((1.0, 0.0), True, "It sums to 1, and a weight may be exactly 0.")
SCORES = _Row((0.9, 0.4, 0.0), False, "It sums to 1.3: these are scores.")
SHORT = _Row((0.2, 0.2), False, "It sums to 0.4.")
NEARLY = _Row(
    (0.5, 0.45),
    False,
    "It sums to 0.95. Rounding moves a sum by a millionth, not by a twentieth: narrow the "
    "tolerance.",
)
NEGATIVE = _Row(
    (1.5, -0.5), False, "It sums to 1, but -0.5 is negative: every entry must be at least 0."
)
ROWS = (ROUNDED, WITH_ZERO, SCORES, SHORT, NEARLY, NEGATIVE)


def _is_distribution(answer: Answer) -> Right:
    try:
        told = opinions(answer, {str(row): row.tensor for row in ROWS})
    except Wrong as wrong:
        rows_of_truths = "ambiguous" in wrong.message or "the shape (3,)" in wrong.message
        hint = " `.all()` makes one truth of a row of them." if rows_of_truths else ""
        raise Wrong(f"{wrong.message}{hint}") from None
    said = {row: told[str(row)] for row in ROWS}
    wrong_about = [row for row in ROWS if said[row] != row.right]
    if wrong_about:
        raise Wrong(_misjudged(said, wrong_about[0]), _judged(said))
    return Right("Two rows of weights and four other rows are told apart.")


def _misjudged(said: dict[_Row, bool | None], first: _Row) -> str:
    """Name the mistake behind wrong answers; ``first`` is the first row with one."""
    answers = set(said.values())
    if answers == {True}:
        return (
            f"It says True of every row, also of {[*SHORT.entries]}, which sums to 0.4. Both "
            "conditions must hold: join them by `and`."
        )
    if answers == {False}:
        return (
            f"It says False of every row, also of {[*WITH_ZERO.entries]}: these sum to 1, and 0 is "
            "not negative."
        )
    if None in answers:
        row = next(row for row in ROWS if said[row] is None)
        return f"Of {row} it returns None: return {row.right}, also where no `if` holds."
    if said[SHORT] and not said[SCORES]:
        return (
            f"It says True of {SHORT}, shape (2,), which sums to 0.4. The difference to 1 may have "
            "either sign: take `abs` of it."
        )
    if said[SCORES] and not said[SHORT]:
        return (
            f"It says True of {SCORES}, shape (3,), which sums to 1.3. Sums above 1 are wrong as "
            "well."
        )
    shape = f"shape ({len(first.entries)},)"
    return f"It says {said[first]} of {first}, {shape}. {first.why}"


def _judged(said: dict[_Row, bool | None]) -> Evidence:
    rows = {
        str([*row.entries]): [
            sum(row.entries),
            row.right,
            math.nan if said[row] is None else said[row],
        ]
        for row in ROWS
    }
    return table("Six rows; 1 = True, 0 = False:", rows, ("its sum", "right", "yours"))
