"""What `make bench` measures with: pairs in turns, medians, quartiles and a table."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import NamedTuple

MOST_ROUNDS, FEWEST_ROUNDS = 101, 3
SHORTEST = 2e-3  # seconds: what takes less is repeated within a round

Function = Callable[[], object]


class Result(NamedTuple):
    """One line of the table: ours against something else."""

    what: str
    size: str
    ratio: float  # median over the rounds
    low: float  # lower and upper quartile over the rounds
    high: float
    ours: str
    theirs: str
    rounds: int


def summarise(pairs: list[tuple[float, float]]) -> tuple[float, float, float]:
    """Return the median and both quartiles of ours / theirs, round by round."""
    ratios = [ours / theirs for ours, theirs in pairs]
    if len(ratios) == 1:
        return ratios[0], ratios[0], ratios[0]
    low, median, high = statistics.quantiles(ratios, n=4, method="inclusive")
    return median, low, high


def in_turns(
    ours: Function, theirs: Function, rounds: int, measure: Callable[[Function], float]
) -> list[tuple[float, float]]:
    """Return what both cost in every round; who comes first changes from round to round."""
    pairs = []
    for number in range(rounds):
        if number % 2:
            pairs.append((measure(ours), measure(theirs)))
        else:
            other = measure(theirs)
            pairs.append((measure(ours), other))
    return pairs


def seconds(function: Function, repeats: int = 1) -> float:
    """Return the processor time of one call: other programs on the machine do not count."""
    start = time.process_time()
    for _ in range(repeats):
        function()
    return (time.process_time() - start) / repeats


def compare(
    what: str, size: str, ours: Function, theirs: Function, budget: float, name: str = "torch"
) -> Result:
    """Time two functions in turns for about ``budget`` seconds, in three rounds at least."""
    both = seconds(ours) + seconds(theirs)  # the first call warms up
    repeats = max(1, round(2 * SHORTEST / max(both, 1e-6)))
    fitting = int(budget / (both * repeats))
    rounds = min(MOST_ROUNDS, max(FEWEST_ROUNDS, fitting))
    pairs = in_turns(ours, theirs, rounds, lambda function: seconds(function, repeats))
    return result(what, size, pairs, as_time, name)


def result(
    what: str,
    size: str,
    pairs: list[tuple[float, float]],
    show: Callable[[float], str],
    name: str,
) -> Result:
    """Return the line for some pairs; ``show`` writes a median with its unit."""
    ours, theirs = (statistics.median(side) for side in zip(*pairs, strict=True))
    ratios = summarise(pairs)
    return Result(what, size, *ratios, show(ours), f"{name} {show(theirs)}", len(pairs))


def as_time(value: float) -> str:
    """Return seconds with three digits and a unit that fits."""
    for unit, factor in (("s", 1.0), ("ms", 1e3)):
        if value * factor >= 1:
            return f"{value * factor:.3g} {unit}"
    return f"{value * 1e6:.3g} us"


def as_megabytes(value: float) -> str:
    """Return bytes in megabytes."""
    return f"{value / 1e6:.1f} MB"


HEAD = f"{'ratio':>6}  {'quartiles':<11}  {'':40}{'':>10}  {'ours':>9}   against"


def line(measured: Result) -> str:
    """Return a result as a line of the table, the ratio first."""
    several = measured.rounds > 1
    spread = f"{measured.low:.2f}-{measured.high:.2f}" if several else ""
    rounds = f"{measured.rounds} rounds" if several else "once"
    return (
        f"{measured.ratio:6.2f}  {spread:<11}  {measured.what:40}{measured.size:>10}  "
        f"{measured.ours:>9}   {measured.theirs} ({rounds})"
    )
