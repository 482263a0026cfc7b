"""Measure what the project says about its own speed, next to torch: `make bench`.

Here is how much is measured, and the rows of the table: ours against something else, as a ratio.
"""

from __future__ import annotations

import os
import statistics
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.ticker import EngFormatter

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is imported

HEAD = f"{'ratio':>6}  {'spread':>6}  {'':54}{'ours':>9}   against"


class Plan(NamedTuple):
    """How much is measured."""

    sizes: list[int]  # of sequences, in tokens
    seconds: float  # for one row of the table
    learners: int = 30  # of the class


FULL = Plan([2**power for power in range(7, 15)], 4.0)
QUICK = Plan([128, 2048], 0.3)


class Row(NamedTuple):
    """What was measured of ours, and of something else to compare it with."""

    what: str
    ours: Sequence[float]
    theirs: Sequence[float]
    name: str  # of theirs
    unit: str = "s"

    def __str__(self) -> str:
        ours, theirs = statistics.median(self.ours), statistics.median(self.theirs)
        spread = range_of(self.ours) / ours + range_of(self.theirs) / theirs
        repeated = max(len(self.ours), len(self.theirs)) > 1
        shown = [EngFormatter(self.unit)(float(f"{value:.3g}")) for value in (ours, theirs)]
        return (
            f"{ours / theirs:6.2f}  {f'{spread:.0%}' if repeated else '':>6}  "
            f"{self.what:54}{shown[0]:>9}   {self.name} {shown[1]}"
        )


def range_of(values: Sequence[float]) -> float:
    """Return the interquartile range of some values."""
    return float(np.subtract(*np.percentile(values, [75, 25])))
