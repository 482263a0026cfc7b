"""Measure what the project says about its own speed, next to torch: `make bench`.

Here is how much is measured, and the rows of the table: ours against something else, as a ratio.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is imported

from torch.utils.benchmark import Measurement, TaskSpec, Timer

HEAD = f"{'ratio':>6}  {'spread':>6}  {'':44}{'':>10}  {'ours':>9}   against"


class Plan(NamedTuple):
    """How much is measured."""

    sizes: list[int]  # of sequences for the tiled kernel, in tokens
    all_gradients: bool
    plain_sizes: list[int]
    seconds: float  # for one row of the table
    imports: int
    lessons: int | None  # how many; all if None
    live: bool
    kernels: int  # of a class; 0 leaves it out


LENGTHS = [2**power for power in range(7, 15)]
FULL = Plan(LENGTHS, True, [10, 128, 512, 2048], 4.0, 9, None, True, 30)
QUICK = Plan([128, 2048], False, [10, 512], 0.3, 3, 1, False, 0)


class Row(NamedTuple):
    """A measurement of ours, and another to compare it with."""

    what: str
    size: int | None  # tokens
    ours: Measurement
    theirs: Measurement
    name: str  # of theirs
    unit: str = "s"

    def __str__(self) -> str:
        both = (self.ours, self.theirs)
        spread = sum(one.iqr / one.median for one in both)  # interquartile ranges
        repeated = any(len(one.times) > 1 for one in both)
        ours, theirs = (with_unit(one.median, self.unit) for one in both)
        size = f"N = {self.size}" if self.size else ""
        return (
            f"{self.ours.median / self.theirs.median:6.2f}  "
            f"{f'{spread:.0%}' if repeated else '':>6}  "
            f"{self.what:44}{size:>10}  {ours:>9}   {self.name} {theirs}"
        )


def with_unit(value: float, unit: str) -> str:
    """Return seconds (s) or bytes (B) with three digits and a prefix that fits."""
    prefixes = {"": 1.0, "m": 1e-3, "u": 1e-6} if unit == "s" else {"M": 1e6}
    fitting = [prefix for prefix, size in prefixes.items() if value >= size]
    prefix = (fitting or [*prefixes][-1:])[0]
    return f"{value / prefixes[prefix]:.3g} {prefix}{unit}"


def processor_time(call: Callable[[], object], seconds: float) -> Measurement:
    """Call a function for some seconds; other programs do not disturb what is measured."""
    timer = Timer("call()", globals={"call": call}, timer=time.process_time)
    return timer.blocked_autorange(min_run_time=seconds)


def measured(values: Sequence[float]) -> Measurement:
    """Return values that were measured otherwise."""
    return Measurement(1, list(values), TaskSpec("", ""))
