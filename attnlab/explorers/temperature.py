"""Explorer 3: what a temperature does to one row of weights, and what it leaves alone."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Real
from typing import NamedTuple

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from attnlab.attention import attention_weights
from attnlab.diagnostics import effective_keys
from attnlab.explorers._base import Explorer, State
from attnlab.explorers._page import numbers, short, significant
from attnlab.plotting import plot_sweep

SCORES = (2.0, 1.0, 0.5, 0.0, -1.0)  # those of lesson 2
KEYS = tuple(f"key {j}" for j in range(len(SCORES)))
D_K = 4  # features of the query that has these raw scores: sqrt(d_k) is a stop
DECADE = (1.0, 1.25, 1.6, 2.0, 2.5, 3.2, 4.0, 5.0, 6.3, 8.0)  # nearly even steps of a log axis
STOPS = (*(step / 10 for step in DECADE), *DECADE, 10.0)
BLUE, ORANGE = "#0b61a4", "#c8500a"
HARD, FLAT = 0.99, 0.1  # a largest weight above, all weights within: an end is reached


class TemperatureResult(NamedTuple):
    """What one temperature makes of the five scores.

    Attributes
    ----------
    weights : Tensor, shape (5,)
        After the softmax.
    winner : int
        The key with the largest weight.
    effective_keys : float
        How many keys the weights amount to, from 1 to 5.
    """

    weights: Tensor
    winner: int
    effective_keys: float


def near_one_of(*stops: float) -> Callable[[str, object, Explorer], float]:
    """Return the check of a number that is one of a few; the browser sends 1 where it means 1.0."""

    def check(name: str, value: object, _explorer: Explorer) -> float:
        if isinstance(value, bool) or not isinstance(value, Real):
            raise TypeError(f"{name} must be a number, got {short(value)}.")
        for stop in stops:
            if stop * (1 - 1e-6) <= value <= stop * (1 + 1e-6):  # no NaN, no overflow
                return stop
        allowed = ", ".join(f"{stop:g}" for stop in stops)
        raise ValueError(f"{name} must be one of {allowed}, got {short(value)}.")

    return check


class TemperatureExplorer(Explorer):
    """One row of weights while all its scores are divided by a temperature.

    Parameters
    ----------
    **state
        ``tau``: the temperature, one of 21 stops from 0.1 to 10, evenly spaced on a logarithmic
        axis: 0.1, 0.2, 0.5, 1, 2, 5 and 10 are among them. ``ask`` and ``large``, as in
        ``Explorer``.

    See Also
    --------
    attnlab.effective_keys : counts the keys that weights amount to.
    ScalingExplorer : the temperature that attention takes, sqrt(d_k).
    """

    module = "temperature"
    figsize = (8.2, 3.1)

    tau = State(1.0, near_one_of(*STOPS))

    @property
    def result(self) -> TemperatureResult:
        """Weights, winner and effective keys at this temperature, by torch."""
        return measure(self.tau)

    def make_data(self) -> dict[str, object]:
        """Return scores, stops, the curve of effective keys and a sentence for every stop."""
        return {
            "keys": list(KEYS),
            "scores": numbers(torch.tensor(SCORES)),
            "d_k": D_K,
            "stops": list(STOPS),
            "used": [significant(measure(tau).effective_keys) for tau in STOPS],
            "sentences": [sentence(tau) for tau in STOPS],
        }

    def draw(self, fig: Figure) -> None:
        """Draw the weights as bars, and the effective keys over the temperature."""
        left, right = fig.subplots(1, 2, width_ratios=[1.2, 1])
        _draw_bars(left, self.result.weights, f"scores divided by {self.tau:g}")
        used = {"effective keys": [measure(tau).effective_keys for tau in STOPS]}
        look = {"xscale": "log", "xlabel": "τ, logarithmic", "title": "effective keys of 5"}
        plot_sweep(STOPS, used, ax=right, at=self.tau, **look)
        right.lines[0].set(color=BLUE, linestyle="-", marker="o")
        right.set(ylim=(0.8, 5.2), xticks=[0.1, 1, 10], xticklabels=["0.1", "1", "10"])

    def say(self) -> str:
        """Return who wins at this temperature, and by how much."""
        return sentence(self.tau)


def measure(tau: float) -> TemperatureResult:
    """Return what one temperature makes of the five scores."""
    scores = torch.tensor([SCORES], dtype=torch.float64) / tau  # (1, S): one query
    weights = attention_weights(scores)
    return TemperatureResult(weights[0], int(weights.argmax()), effective_keys(weights).item())


def sentence(tau: float) -> str:
    """Return who wins at one temperature, and by how much."""
    weights, winner, used = measure(tau)
    best, second = weights.topk(2).values.tolist()
    start = (
        f"τ = {tau:g}: {KEYS[winner]} wins, as at every τ. Its weight is {_share(best)}, "
        f"{_times(best / second)} times the next; {used:.1f} effective keys of {len(KEYS)}"
    )
    if best > HARD:
        return f"{start}, nearly a hard look-up."
    flat = best - weights.min().item() < FLAT
    return f"{start}, nearly a plain average." if flat else f"{start}."


def _share(weight: float) -> str:
    return f"{weight:.2f}" if weight < 0.995 else "nearly 1"


def _times(ratio: float) -> str:
    return f"{ratio:.1f}" if ratio < 10 else f"{ratio:,.0f}"


def _draw_bars(ax: Axes, weights: Tensor, title: str) -> None:
    """Draw a bar for each key, and dashed what it is with nothing divided."""
    undivided = measure(1.0).weights
    ax.bar(KEYS, weights.tolist(), color=BLUE)
    dashed = {"fill": False, "edgecolor": ORANGE, "linestyle": "--", "linewidth": 1.6}
    ax.bar(KEYS, undivided.tolist(), label="τ = 1", **dashed)
    for j, (weight, top) in enumerate(zip(weights, weights.maximum(undivided), strict=True)):
        ax.text(j, top + 0.02, f"{weight:.2f}", ha="center")
    ax.set(ylim=(0, 1.15), yticks=[0, 0.5, 1], ylabel="weight", title=title)
    ax.set_xticks(range(len(KEYS)), [f"{k}\n{s:g}" for k, s in zip(KEYS, SCORES, strict=True)])
    ax.legend()
