"""Why the scores are divided by the square root of d_k, and not by something else."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from numbers import Real
from typing import NamedTuple

import torch
from matplotlib.axes import Axes
from torch import Generator, Tensor

from attnlab import palette
from attnlab.checks import short
from attnlab.display.table import load_rows
from attnlab.explorers import phone_books
from attnlab.explorers.frame.base import Explorer
from attnlab.explorers.frame.controls import Choice, Slider
from attnlab.explorers.frame.learner import name_of
from attnlab.explorers.frame.panels import Axis, Curves, Line, Panel
from attnlab.explorers.frame.words import listed

RACE = "scaling_race.csv"
STOPS = (4, 16, 64, 256, 1024)
RATES = {2.0**power: f"1/{2**-power}" if power < 0 else f"{2**power}" for power in range(-5, 10, 2)}
ENTRIES = (4, 8, 32)  # of a phone book: as many keys
NAMES = {"1": "not divided", "sqrt(d_k)": "divided by √d_k", "d_k": "divided by d_k"}
BY = {"1": "not divided", "sqrt(d_k)": "√d_k", "d_k": "d_k"}
LOOKS = {  # as in the figures of the lesson
    "1": ("raw", "dashed", "square"),
    "sqrt(d_k)": ("scaled", "solid", "circle"),
    "d_k": ("good", "dashdot", "triangle"),
}
OWN_LOOK = ("other", "dotted", "diamond")  # of the learner's divisor
LEARNED = 0.9  # of the answers are right
QUERIES, ACROSS = 100, 25  # that are drawn, and how many beside each other
LOUD = 0.3  # the length of a gradient whose dot has a radius of 3


class ScalingResult(NamedTuple):
    """What divisors make of one phone book: 1, the root, d_k, and the learner's if there is one."""

    accuracy: tuple[float, ...]  # share of right answers after ten steps
    best_rates: tuple[float, ...]  # of those on the slider
    best: tuple[float, ...]  # the accuracy at these rates
    lengths: Tensor  # (3 or 4, 100): how long the gradients of 100 queries are before training


class Own(NamedTuple):
    """A divisor that the learner has written."""

    name: str
    divisors: tuple[float, ...]  # for each size of a head


def own_divisor(function: Callable[[int], float]) -> Own:
    """Return what a learner's function gives for each size of a head, or raise ValueError."""
    name, divisors = name_of(function), []
    for d_k in STOPS:
        number = function(d_k)
        number = number.item() if isinstance(number, Tensor) and number.numel() == 1 else number
        if not isinstance(number, Real) or not 0 < number < math.inf:
            raise ValueError(
                f"{name} must return a positive number to divide by, got {short(number)} for "
                f"d_k = {d_k}."
            )
        divisors.append(float(number))
    return Own(name, tuple(divisors))


def divisors_of(d_k: int, own: Own | None) -> tuple[float, ...]:
    """Return by which numbers the lines divide at a size."""
    more = [own.divisors[STOPS.index(d_k)]] if own else []
    return (1.0, math.sqrt(d_k), float(d_k), *more)


@cache
def race() -> dict[tuple[int, int, str], tuple[float, ...]]:
    """Return the accuracies at all rates, by entries, d_k and divisor."""
    accuracies: dict[tuple[int, int, str], dict[float, float]] = {}
    for row in (row for row in load_rows(RACE) if row["optimizer"] == "SGD"):
        kind = int(row["entries"]), int(row["d_k"]), row["divisor"]
        accuracies.setdefault(kind, {})[float(row["learning_rate"])] = float(row["accuracy"])
    return {kind: tuple(rates[rate] for rate in RATES) for kind, rates in accuracies.items()}


trained = cache(phone_books.accuracies)  # with the learner's divisor, when it is first shown


def curves_of(
    entries: int, d_k: int, own: Own | None, rates: Sequence[float] = tuple(RATES)
) -> list[list[float]]:
    """Return the accuracies at some rates, for each divisor."""
    places = [[*RATES].index(rate) for rate in rates]
    curves = [[race()[entries, d_k, divisor][place] for place in places] for divisor in NAMES]
    if own:
        curves.append(trained(entries, d_k, own.divisors[STOPS.index(d_k)], tuple(rates)))
    return curves


@cache
def voices(entries: int, d_k: int, own: Own | None) -> Tensor:
    """Return the lengths of the gradients of 100 queries before training, (3 or 4, 100).

    Each query asks one phone book for the number of the first name.
    """
    generator = Generator().manual_seed(0)
    query, key = phone_books.vectors() @ phone_books.start(d_k, generator)
    who, value = phone_books.phone_books(QUERIES, entries, generator)
    lengths = []
    for divisor in divisors_of(d_k, own):
        asking = query[who[:, :1]].requires_grad_()  # (100, 1, d_k)
        scores = asking @ key[who].mT / divisor
        error = scores.softmax(dim=-1) @ value - value[:, :1]
        (slope,) = torch.autograd.grad(error.square().sum(), asking)
        lengths.append(slope.norm(dim=-1).flatten())
    return torch.stack(lengths)


def measure(d_k: int, rate: float, entries: int, own: Own | None = None) -> ScalingResult:
    """Return what the divisors make of one phone book."""
    curves = curves_of(entries, d_k, own)
    best = [max(range(len(RATES)), key=curve.__getitem__) for curve in curves]  # the first
    return ScalingResult(
        tuple(curve[[*RATES].index(rate)] for curve in curves),
        tuple([*RATES][place] for place in best),
        tuple(curve[place] for curve, place in zip(curves, best, strict=True)),
        voices(entries, d_k, own),
    )


@dataclass(frozen=True, kw_only=True)
class Crowds(Panel):
    """A dot for each of many queries, for each divisor: its area is how loudly the query asks.

    Values of a frame: ``lengths`` (for each line a list) and ``told`` (a text for each).
    """

    kind: str = "crowds"
    lines: Sequence[Line]
    across: int  # dots beside each other
    loud: float  # the length whose dot has a radius of 3 tenths of the distance of dots

    def draw(self, ax: Axes, values: Mapping[str, object], _state: Mapping[str, object]) -> None:
        """Draw the crowds below each other."""
        down = len(values["lengths"][0]) // self.across
        for i, (line, lengths) in enumerate(zip(self.lines, values["lengths"], strict=True)):
            top, colour = i * (down + 2), palette.ROLES[line.role].light
            places = [(n % self.across, top + n // self.across) for n in range(len(lengths))]
            areas = [12 * float(length) / self.loud for length in lengths]
            look = {"color": colour, "alpha": 0.75, "linewidth": 0, "clip_on": True}
            ax.scatter(*zip(*places, strict=True), areas, **look)
            ax.text(-0.5, top - 0.8, line.name, color=colour, fontsize=9, va="bottom")
        ax.set(xlim=(-1, self.across), ylim=(3 * (down + 2) - 1.5, -2), title=self.title)
        ax.set_axis_off()


class ScalingExplorer(Explorer):
    """Three divisors at every learning rate: who learns, and who asks for a change at the start.

    Parameters
    ----------
    function : callable, optional
        A divisor of your own, as a fourth line: ``function(d_k)`` returns the number by which the
        scores are divided. Its models are trained when they are first shown, which takes seconds.
    **state
        ``d_k``: features of queries and keys, 4 to 1024. ``rate``: learning rate, 1/32 to 512.
        ``entries``: of a phone book, and so keys of a query, 4, 8 or 32. ``ask`` and ``large``, as
        in ``Explorer``.

    See Also
    --------
    attnlab.attention_scores : divides by sqrt(d_k) unless told otherwise.
    """

    figsize = (11.0, 3.5)
    d_k = Slider(16, STOPS, label="d_k", spoken="features of queries and keys, d_k", width=110)
    rate = Slider(0.5, RATES, label="learning rate", spoken="learning rate", width=150)
    entries = Choice(8, ENTRIES, label="entries")

    @property
    def panels(self) -> tuple[Panel, ...]:
        """The crowds, and the curves over the rates and over the sizes of heads."""
        lines = [Line(name, (), *LOOKS[divisor]) for divisor, name in NAMES.items()]
        if own := self._own():
            lines.append(Line(own.name, (), *OWN_LOOK))
        parts = {"lines": lines, "y": Axis(0, 1.02, {0: "0", 0.5: ".5", 1: "1"}), "keyed": False}
        rates = {"over": "rate", "stops": [*RATES], "labels": [*RATES.values()]}
        sizes = {"over": "d_k", "stops": STOPS, "labels": [f"{stop:,}" for stop in STOPS]}
        return (
            Crowds(
                "crowds",
                "how loudly 100 untrained queries ask",
                lines=lines,
                across=ACROSS,
                loud=LOUD,
                grow=1.2,
            ),
            Curves("rates", xlabel="learning rate", **rates, **parts),
            Curves("sizes", xlabel="d_k", **sizes, **parts),
        )

    @property
    def result(self) -> ScalingResult:
        """Accuracies of trained models, and gradients before training, by torch."""
        return measure(self.d_k, self.rate, self.entries, self._own())

    def run_function(self, function: Callable[[int], float]) -> dict[str, object]:
        """Return the frame of the state, with a fourth line for the learner's divisor."""
        return self.frame(self.d_k, self.rate, self.entries, own_divisor(function))

    def make_data(self) -> dict[str, object]:
        """Return the frames of all states, unless Python has to draw each."""
        return {} if self._own() else super().make_data()

    def frame_now(self) -> dict[str, object]:
        """Return the frame of the state in force."""
        return self.frame(self.d_k, self.rate, self.entries, self._own())

    def _own(self) -> Own | None:
        """Return the learner's divisor, unless there is none or it was refused."""
        asks = self.function is not None and self.last_error is None
        return own_divisor(self.function) if asks else None

    @property
    def function(self) -> Callable[[int], float] | None:
        """The learner's divisor; another one needs a new explorer, which has a line for it."""
        return self._function

    def frame(
        self, d_k: int, rate: float, entries: int, own: Own | None = None
    ) -> dict[str, object]:
        """Return the crowds, the curves at this size and rate, and what they say."""
        result = measure(d_k, rate, entries, own)
        sizes = [curves_of(entries, size, own, [rate]) for size in STOPS]  # (sizes, lines, 1)
        return {
            "say": sentence(d_k, rate, entries, own),
            "bad": not any(map(_has_learned, result.accuracy)),
            "code": code(d_k, own),
            "crowds": {
                "lengths": [[float(f"{x:.3g}") for x in row] for row in result.lengths.tolist()],
                "told": [told(lengths) for lengths in result.lengths],
            },
            "rates": {
                "title": f"right answers at d_k = {d_k:,}",
                "values": curves_of(entries, d_k, own),
            },
            "sizes": {
                "title": f"right answers at a rate of {RATES[rate]}",
                "values": [[share for (share,) in line] for line in zip(*sizes, strict=True)],
            },
        }


# --- words ----------------------------------------------------------------------------------------


def told(lengths: Tensor) -> str:
    """Return how long a typical gradient is, and how few of them make half of the total."""
    loudest = lengths.sort(descending=True).values.cumsum(dim=0)
    half = int((loudest < loudest[-1] / 2).sum()) + 1
    return f"typical length {_short(lengths.median().item())}; {half} of {QUERIES} make half"


def code(d_k: int, own: Own | None = None) -> str:
    """Return the lines of PyTorch."""
    others = f"or not divided, or by {d_k}" + (f", or by {own.name}({d_k})" if own else "")
    return (
        f"query, key = names @ w  # (32, {d_k}) each\n"
        f"scores = query @ key.mT / {d_k} ** 0.5  # {others}\n"
        "weights = scores[who[:, :1], who].softmax(dim=-1)"
    )


def sentence(d_k: int, rate: float, entries: int, own: Own | None = None) -> str:
    """Return what each divisor reaches here."""
    result, names = measure(d_k, rate, entries, own), [*BY.values(), *((own.name,) if own else ())]
    here = [f"{name} {share:.2f}" for name, share in zip(names, result.accuracy, strict=True)]
    return (
        f"**d_k = {d_k:,}, learning rate {RATES[rate]}, {entries} entries**: right answers after "
        f"ten steps: {', '.join(here)}. Here {verdict(result, names)}"
    )


def verdict(result: ScalingResult, names: Sequence[str]) -> str:
    """Return who reaches 0.9; which rate another one needs is to be found out."""
    shares = zip(names, result.accuracy, strict=True)
    learned = [name for name, share in shares if _has_learned(share)]
    return f"{listed(learned or ['nobody'])} {'reach' if learned[1:] else 'reaches'} {LEARNED}."


def _has_learned(share: float) -> bool:
    """Return whether a share of right answers reaches the mark, as it is written."""
    return round(share, 2) >= LEARNED


def _short(value: float) -> str:
    return f"{value:.2g}" if value >= 0.001 else "below 0.001"
