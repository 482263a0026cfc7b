"""Explorer 1: a soft look-up: a query between keys gets a weighted average of their values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Real
from typing import NamedTuple

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from attnlab.attention import attention_scores, attention_weights
from attnlab.explorers._base import Explorer
from attnlab.explorers._controls import State, near_one_of
from attnlab.explorers._page import short
from attnlab.palette import BLUE, ORANGE

ANIMALS = ("cat", "bird", "snake")  # the table of lesson 1: arrows of length 1, and legs
KEYS = ((1.0, 0.0), (0.0, 1.0), (-1.0, 0.0))
LEGS = (4.0, 2.0, 0.0)
KITTEN = (0.866, 0.5)  # a third of the way from cat to bird
TEMPERATURES = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
LIMIT = 1.5  # the plane ends here


class LookUpResult(NamedTuple):
    """What one query gets.

    Attributes
    ----------
    scores : Tensor, shape (3,)
        Dot products of the query with the keys, divided by the temperature.
    weights : Tensor, shape (3,)
        Their softmax.
    output : float
        The average of the values with these weights, in legs.
    """

    scores: Tensor
    weights: Tensor
    output: float


def _point(name: str, value: object, _explorer: Explorer) -> tuple[float, float]:
    """Check a point of the plane."""
    if isinstance(value, Tensor):
        value = value.tolist()
    if isinstance(value, str) or not isinstance(value, Sequence) or len(value) != 2:
        raise TypeError(f"{name} must be two numbers (right, up), got {short(value)}.")
    for one in value:
        if isinstance(one, bool) or not isinstance(one, Real):
            raise TypeError(f"{name} must hold numbers, got {short(one)}.")
        if not -LIMIT <= one <= LIMIT:  # NaN as well
            raise ValueError(
                f"{name} must hold numbers from {-LIMIT:g} to {LIMIT:g}, got {short(one)}."
            )
    right, up = (round(float(one), 4) + 0.0 for one in value)  # + 0.0 leaves no -0.0
    return right, up


class SoftLookupExplorer(Explorer):
    """A query on a plane with three keys: weights, and the average of the three values.

    Parameters
    ----------
    **state
        ``query``: where the query points, (right, up), each from -1.5 to 1.5. ``temperature``: what
        divides the scores, one of 0.05, 0.1, 0.2, 0.5, 1, 2 and 5. ``ask`` and ``large``, as in
        ``Explorer``.

    See Also
    --------
    attnlab.scaled_dot_product_attention : the same with the temperature sqrt(d_k).
    TemperatureExplorer : more about the temperature alone.
    """

    module = "look_up"
    figsize = (8.0, 3.6)

    query = State(KITTEN, _point)
    temperature = State(1.0, near_one_of(*TEMPERATURES))

    @property
    def result(self) -> LookUpResult:
        """Scores, weights and output, by torch."""
        double = {"dtype": torch.float64}
        query, keys = torch.tensor([self.query], **double), torch.tensor(KEYS, **double)
        scores = attention_scores(query, keys, scale=1 / self.temperature)  # (1, S)
        weights = attention_weights(scores)
        output = weights @ torch.tensor(LEGS, **double)
        return LookUpResult(scores[0], weights[0], output.item())

    def make_data(self) -> dict[str, object]:
        """Return the table of animals and the stops of the slider."""
        return {
            "names": list(ANIMALS),
            "keys": [list(key) for key in KEYS],
            "values": list(LEGS),
            "stops": list(TEMPERATURES),
            "limit": LIMIT,
            "kitten": list(KITTEN),
        }

    def draw(self, fig: Figure) -> None:
        """Draw keys and query as arrows, the weights as bars, and the output between the values."""
        axes = fig.subplot_mosaic("AB;AC", height_ratios=[3, 1.3], width_ratios=[1.2, 1])
        _draw_arrows(axes["A"], self.query)
        weights = self.result.weights.tolist()
        bars = axes["B"].bar(ANIMALS, weights, color=BLUE)
        axes["B"].bar_label(bars, fmt="%.3f", padding=2)
        title = f"weights at temperature {self.temperature:g}"
        axes["B"].set(ylim=(0, 1.2), yticks=[0, 0.5, 1], title=title)
        _draw_output(axes["C"], weights, self.result.output)

    def say(self) -> str:
        """Return how the output comes about, and what it can never do."""
        _, weights, output = self.result
        pairs = zip(weights.tolist(), LEGS, strict=True)
        terms = " + ".join(f"{weight:.3f} · {legs:g}" for weight, legs in pairs)
        return f"{terms} ≈ {output:.3f} legs: {_verdict(weights)}."


def _verdict(weights: Tensor) -> str:
    """Return what kind of average weights make; the browser has the same words."""
    largest = weights.max().item()
    if largest >= 0.99:
        return f"nearly the value of {ANIMALS[weights.argmax()]} alone, as in a hard look-up"
    spread = largest - weights.min().item()
    if spread < 0.01:
        return f"{'nearly' if spread else 'exactly'} the plain average of all values"
    return f"an average, so never below {min(LEGS):g} and never above {max(LEGS):g}"


def _draw_arrows(ax: Axes, query: tuple[float, float]) -> None:
    look = {"angles": "xy", "scale_units": "xy", "scale": 1, "width": 0.013}
    ax.quiver([0] * len(KEYS), [0] * len(KEYS), *zip(*KEYS, strict=True), color=BLUE, **look)
    ax.quiver(0, 0, *query, color=ORANGE, **look)
    for name, (x, y) in zip(ANIMALS, KEYS, strict=True):
        ax.text(1.35 * x, 1.2 * y - 0.2 * abs(x), name, color=BLUE, ha="center", va="center")
    ax.plot(*query, "o", color=ORANGE, markersize=9)
    far = math.hypot(*query)
    right, up = (part / far for part in query) if far else (0.0, -1.0)
    ax.text(
        query[0] + 0.45 * right,
        query[1] + 0.3 * up,
        "query",
        color=ORANGE,
        ha="center",
        va="center",
    )
    ax.set(xlim=(-1.9, 1.9), ylim=(-1.9, 1.9), aspect="equal", title="keys and query")
    ax.axis("off")


def _draw_output(ax: Axes, weights: Sequence[float], output: float) -> None:
    ax.plot([min(LEGS), max(LEGS)], [0, 0], color=BLUE, linewidth=4, alpha=0.4, zorder=1)
    ax.scatter(LEGS, [0] * len(LEGS), s=[15 + 200 * weight for weight in weights], color=BLUE)
    ax.plot(output, -0.5, "^", color=ORANGE, markersize=11)
    ax.set(xlim=(-1, 5), ylim=(-1, 0.6), yticks=[], title=f"output: {output:.3f} legs")
    ax.set_xticks(LEGS, [f"{n:g}\n{name}" for n, name in zip(LEGS, ANIMALS, strict=True)])
    ax.spines["left"].set_visible(False)
