"""A soft lookup: a query between keys gets a weighted average of their values."""

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
from attnlab.checks import short
from attnlab.explorers.frame.base import Explorer
from attnlab.explorers.frame.bundle import sendable
from attnlab.explorers.frame.controls import Slider, State, check_items
from attnlab.explorers.frame.panels import Bars
from attnlab.explorers.frame.words import texts_beside
from attnlab.palette import BLUE, ORANGE

ANIMALS = ("cat", "bird", "spider")  # the table of lesson 1: arrows of length 1, and legs
KEYS = ((1.0, 0.0), (0.0, 1.0), (-1.0, 0.0))
LEGS = (4.0, 2.0, 8.0)
KITTEN = (0.866, 0.5)  # a third of the way from cat to bird
PLACES = {"kitten": KITTEN, "between bird and spider": (-0.7071, 0.7071), "zero": (0.0, 0.0)}
TEMPERATURES = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
LIMIT = 1.5  # the plane ends here
DIGITS = 4  # decimals of the weights, if they are enough
BALL = 700  # area of a ball of weight 1 in the still picture, in square points

WORDS = texts_beside(__file__)["words"]


class LookUpResult(NamedTuple):
    """What one query gets."""

    scores: Tensor  # (3,): dot products of the query with the keys, divided by the temperature
    weights: Tensor  # (3,): their softmax
    output: float  # the average of the values with these weights, in legs


def _point(name: str, value: object, _explorer: Explorer) -> tuple[float, float]:
    """Check a point of the plane."""
    if isinstance(value, Tensor):
        value = value.tolist()
    check_items(name, value, "be two numbers (right, up)", count=2)
    for entry in value:
        if isinstance(entry, bool) or not isinstance(entry, Real):
            raise TypeError(f"{name} must hold numbers, got {short(entry)}.")
        if not -LIMIT <= entry <= LIMIT:  # NaN as well
            raise ValueError(
                f"{name} must hold numbers from {-LIMIT:g} to {LIMIT:g}, got {short(entry)}."
            )
    right, up = (round(float(entry), 4) + 0.0 for entry in value)  # + 0.0 leaves no -0.0
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
    """

    module = "look_up"
    figsize = (8.0, 3.6)
    query = State(KITTEN, _point)
    temperature = Slider(1.0, TEMPERATURES, label="temperature", spoken="temperature", width=120)
    panels = (
        Bars(
            title="weights",
            names=ANIMALS,
            caption="Values, scores and weights of the keys",
            columns={"legs": [f"{legs:g}" for legs in LEGS], "score": [""] * len(LEGS)},
            digits=DIGITS,
        ),
    )

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
        """Return the table of animals, places of the query, and words."""
        table = {"names": ANIMALS, "keys": KEYS, "values": LEGS, "digits": DIGITS}
        places = {"limit": LIMIT, "places": list(PLACES.items())}
        return sendable({**table, **places, "words": WORDS})

    def say_rich(self) -> str:
        """Return how the output comes about, and what it can never do."""
        _, weights, output = self.result
        terms = " + ".join(
            WORDS["term"].format(weight=weight, legs=f"{legs:g}")
            for weight, legs in zip(_written(weights.tolist(), output), LEGS, strict=True)
        )
        animals = {"name": ANIMALS[weights.argmax()], "least": ANIMALS[weights.argmin()]}
        verdict = WORDS[_verdict(weights)].format(**animals)
        return WORDS["say"].format(terms=terms, output=f"{output:.2f}", verdict=verdict)

    def draw(self, fig: Figure) -> None:
        """Draw keys and query as arrows, the weights as bars, and the output between the values."""
        axes = fig.subplot_mosaic("AB;AC", height_ratios=[3, 1.3], width_ratios=[1.2, 1])
        _draw_arrows(axes["A"], self.query)
        scores, weights, output = self.result
        title = f"weights at temperature {self.temperature:g}"
        columns = {"score": [f"{score:.2f}".replace("-", "−") for score in scores.tolist()]}
        values = {"title": title, "weights": weights, "columns": columns}
        self.panels[0].at(values).draw(axes["B"], values, self.state())
        axes["B"].text(-0.03, 0.97, "score", ha="right", transform=axes["B"].transAxes)
        _draw_output(axes["C"], weights.tolist(), output)


def _written(weights: Sequence[float], output: float) -> list[str]:
    """Return weights with so many decimals that their average of the legs rounds to the output."""
    for digits in range(DIGITS, 12):
        texts = [f"{weight:.{digits}f}" for weight in weights]
        average = sum(float(text) * legs for text, legs in zip(texts, LEGS, strict=True))
        if f"{average:.2f}" == f"{output:.2f}":
            break
    return texts


def _verdict(weights: Tensor) -> str:
    """Return what kind of average weights make, as a key of ``WORDS``."""
    largest, smallest = weights.max().item(), weights.min().item()
    spread = largest - smallest
    if largest >= 0.99:
        return "alone"
    if spread < 0.01:
        return "nearly" if spread else "exactly"
    return "two" if smallest < 0.01 else "between"


def _draw_arrows(ax: Axes, query: tuple[float, float]) -> None:
    look = {"angles": "xy", "scale_units": "xy", "scale": 1, "width": 0.013}
    ax.quiver([0] * len(KEYS), [0] * len(KEYS), *zip(*KEYS, strict=True), color=BLUE, **look)
    ax.quiver(0, 0, *query, color=ORANGE, **look)
    middle = {"ha": "center", "va": "center"}
    for name, (x, y) in zip(ANIMALS, KEYS, strict=True):
        ax.text(1.35 * x, 1.2 * y - 0.2 * abs(x), name, color=BLUE, **middle)
    ax.plot(*query, "o", color=ORANGE, markersize=9)
    far = math.hypot(*query)
    right, up = (part / far for part in query) if far else (0.0, -1.0)
    ax.text(query[0] + 0.45 * right, query[1] + 0.3 * up, "query", color=ORANGE, **middle)
    ax.set(xlim=(-1.9, 1.9), ylim=(-1.9, 1.9), aspect="equal", title="keys and query")
    ax.axis("off")


def _draw_output(ax: Axes, weights: Sequence[float], output: float) -> None:
    """Draw the values on a line, each as a ball whose area follows its weight."""
    ax.plot([min(LEGS), max(LEGS)], [0, 0], color=BLUE, linewidth=4, alpha=0.4, zorder=1)
    areas = [BALL * weight for weight in weights]
    ax.scatter(LEGS, [0] * len(LEGS), s=areas, color=BLUE, linewidths=0)
    ax.plot(output, -0.5, "^", color=ORANGE, markersize=11)
    ax.set(xlim=(min(LEGS) - 1, max(LEGS) + 1), ylim=(-1, 0.6), yticks=[])
    ax.set_title(f"output: {output:.2f} legs")
    ax.set_xticks(LEGS, [f"{n:g}\n{name}" for n, name in zip(LEGS, ANIMALS, strict=True)])
    ax.spines["left"].set_visible(False)
