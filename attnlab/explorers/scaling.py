"""Why the scores are divided by the square root of d_k, and not by something else."""

from __future__ import annotations

import math
from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor

from attnlab.attention import attention_scores, attention_weights
from attnlab.explorers.frame.base import Explorer
from attnlab.explorers.frame.controls import Choice, Cycle, Slider
from attnlab.explorers.frame.panels import Axis, Curves, Heatmap, Line, Panel
from attnlab.measures import effective_keys

D_MODEL = 1024  # the width of the layer, shared out to 1024 / d_k heads
STOPS = tuple(2**power for power in range(11))  # 1 ... 1024, which is one head
TICKS = (1, 8, 64, 512)  # further apart than the words under the axis are wide
DRAWS = 4  # what "new draw" goes through
NUMBERS = ("1", "2", "3", "4", "5", "6")  # the random tokens that are drawn as heatmaps
SWEEP_SEED, QUERIES, KEYS = 7, 400, 16
DEAD = 1 / 1000  # of the mean: a gradient shorter than this is counted
NEAR = 1.5  # a variance between 1 / 1.5 and 1.5 is called near 1
DIVISORS = {"1": "1", "sqrt(d_k)": "√d_k", "d_k": "d_k", "sqrt(d_model)": "√d_model"}
NAMES = {name: f"divided by {text}" for name, text in DIVISORS.items()} | {"1": "not divided"}
LOOKS = {  # as in the figures of the lesson
    "1": ("raw", "dashed", "square"),
    "sqrt(d_k)": ("scaled", "solid", "circle"),
    "d_k": ("good", "dashdot", "triangle"),
    "sqrt(d_model)": ("other", "dotted", "diamond"),
}


class Sweep(NamedTuple):
    """Measured on 400 random queries with 16 keys each, at one d_k and with one divisor.

    The gradient is that of the sum of all outputs, with respect to a query.
    """

    variance: float  # of the scores
    keys: float  # effective keys of a query, on average
    median: float  # of the lengths of the gradients
    mean: float  # of the same lengths
    dead: float  # share of the gradients that are shorter than a thousandth of the mean


class ScalingResult(NamedTuple):
    """Attention of six random tokens, not divided and divided, and what many queries get."""

    raw: Tensor  # (6, 6): weights
    divided: Tensor  # (6, 6): weights
    raw_sweep: Sweep
    divided_sweep: Sweep


def number_of(divisor: str, d_k: int) -> float:
    """Return the number that a divisor stands for."""
    numbers = {"1": 1.0, "sqrt(d_k)": math.sqrt(d_k), "d_k": float(d_k)}
    return numbers.get(divisor, math.sqrt(D_MODEL))


@cache
def sweep(d_k: int) -> dict[str, Sweep]:
    """Return what many random queries get at one d_k, by the divisor."""
    generator = torch.Generator().manual_seed(SWEEP_SEED)
    query = torch.randn(QUERIES, d_k, 1, generator=generator)
    key = torch.randn(QUERIES, KEYS, d_k, generator=generator)
    value = torch.randn(QUERIES, KEYS, 1, generator=generator).double()
    products = (key @ query).double()  # (queries, keys, 1)
    return {name: _measure(products, key, value, number_of(name, d_k)) for name in DIVISORS}


def _measure(products: Tensor, key: Tensor, value: Tensor, divisor: float) -> Sweep:
    scores = products / divisor
    weights = scores.softmax(dim=1)
    mean_value = (weights * value).sum(dim=1, keepdim=True)
    slope = weights * (value - mean_value) / divisor  # d output / d product, by the chain rule
    lengths = (key.transpose(1, 2) @ slope.float()).norm(dim=1).flatten().double()  # per query
    used, mean = effective_keys(weights.transpose(1, 2)).mean(), lengths.mean()
    dead = (lengths < mean * DEAD).double().mean()
    return Sweep(*(one.item() for one in (scores.var(), used, lengths.median(), mean, dead)))


def draw_weights(d_k: int, divisor: str, seed: int) -> Tensor:
    """Return the weights of six random tokens."""
    generator = torch.Generator().manual_seed(seed)
    query, key = torch.randn(2, len(NUMBERS), max(STOPS), generator=generator)
    query, key = query[:, :d_k], key[:, :d_k]  # the same tokens, only longer
    return attention_weights(attention_scores(query, key, scale=1 / number_of(divisor, d_k)))


class ScalingExplorer(Explorer):
    """Weights without a division and with one: too sharp, right or too flat, and the gradients.

    Parameters
    ----------
    **state
        ``d_k``: length of queries and keys, a power of two up to 1024. ``divisor``: "1",
        "sqrt(d_k)", "d_k" or "sqrt(d_model)", where d_model is 1024 throughout. ``seed``: which of
        the four random draws, 0 to 3. ``ask`` and ``large``, as in ``Explorer``.

    See Also
    --------
    attnlab.attention_scores : divides by sqrt(d_k) unless told otherwise.
    """

    figsize = (10.4, 3.4)
    d_k = Slider(
        4,
        STOPS,
        label="d_k",
        spoken="length of queries and keys, d_k",
        presets=(1024,),
        width=130,
    )
    divisor = Choice("sqrt(d_k)", DIVISORS, label="divide by")
    seed = Cycle(0, range(DRAWS), text="New draw")

    @property
    def panels(self) -> tuple[Panel, ...]:
        """Both matrices of weights, and the curves of all divisors."""
        labels = {"rows": NUMBERS, "columns": NUMBERS}
        ticks = [f"{d_k}" if d_k in TICKS else "" for d_k in STOPS]
        over = {"over": "d_k", "stops": STOPS, "labels": ticks, "xlabel": "d_k"}
        return (
            Heatmap("raw", "not divided", role="raw", grow=1.2, **labels),
            Heatmap("divided", grow=1.2, **labels),
            Curves(
                "keys",
                f"effective keys of {KEYS}",
                under=f"of {QUERIES} queries; 1: a single winner",
                lines=_lines("keys"),
                y=Axis(0, KEYS, range(0, KEYS + 1, 4)),
                **over,
            ),
            Curves(
                "gradients",
                "gradient of a query",
                under="its median length; point to look",
                lines=_lines("median"),
                y=Axis(1e-4, 1, [10.0**power for power in range(-4, 1)], log=True),
                **over,
            ),
        )

    @property
    def result(self) -> ScalingResult:
        """Weights and measurements at this d_k and with this divisor, by torch."""
        raw, divided = (draw_weights(self.d_k, one, self.seed) for one in ("1", self.divisor))
        measured = sweep(self.d_k)
        return ScalingResult(raw, divided, measured["1"], measured[self.divisor])

    def frame(self, d_k: int, divisor: str, seed: int) -> dict[str, object]:
        """Return both matrices, and which line of the curves belongs to the divisor."""
        raw, divided = (draw_weights(d_k, one, seed) for one in ("1", divisor))
        current = {"current": list(DIVISORS).index(divisor)}
        end, number = verdict(d_k, divisor), _short(number_of(divisor, d_k))
        return {
            "say": sentence(d_k, divisor),
            "bad": end != "near 1",
            "code": code(d_k, divisor),
            "raw": {"cells": raw, "under": f"softmax(QKᵀ): {_used(raw)}"},
            "divided": {
                "cells": divided,
                "title": NAMES[divisor],
                "under": f"softmax(QKᵀ / {number}): {_used(divided)}",
                "role": LOOKS[divisor][0],
            },
            "keys": current,
            "gradients": current,
        }


def verdict(d_k: int, divisor: str) -> str:
    """Return in a word what became of the spread of the scores, whose aim is variance 1."""
    variance = sweep(d_k)[divisor].variance
    if variance > NEAR:
        return "sharp"
    return "flat" if variance < 1 / NEAR else "near 1"


# --- words ----------------------------------------------------------------------------------------


def _lines(what: str) -> list[Line]:
    return [
        Line(name, [getattr(sweep(d_k)[divisor], what) for d_k in STOPS], *LOOKS[divisor])
        for divisor, name in NAMES.items()
    ]


def _used(weights: Tensor) -> str:
    return f"uses {effective_keys(weights).mean():.1f} of {len(NUMBERS)} keys"


def code(d_k: int, divisor: str) -> str:
    """Return the lines of PyTorch; the queries and keys there are 1024 long."""
    number = {"1": "1", "sqrt(d_k)": f"{d_k} ** 0.5", "d_k": str(d_k)}
    return (
        f"query, key = query[:, :{d_k}], key[:, :{d_k}]\n"
        "raw = (query @ key.T).softmax(dim=-1)\n"
        f"divided = (query @ key.T / {number.get(divisor, f'{D_MODEL} ** 0.5')}).softmax(dim=-1)"
    )


def sentence(d_k: int, divisor: str) -> str:
    """Return what one divisor does at one d_k."""
    measured, number = sweep(d_k)[divisor], _short(number_of(divisor, d_k))
    name = f"{NAMES[divisor]} = {number}" if "√" in NAMES[divisor] else NAMES[divisor]
    ends = {
        "sharp": "sharp" if measured.keys > 1.5 else "sharp, and one key takes nearly all",
        "flat": "flat" if measured.keys < 15 else "flat, and the output is nearly a plain average",
        "near 1": "neither sharp nor flat",
    }
    start = (
        f"**d_k = {d_k}, {name}**: the scores have variance {_short(measured.variance)}. A "
        f"query uses {measured.keys:.1f} of {KEYS} keys, so the weights are "
        f"{ends[verdict(d_k, divisor)]}. The gradient has a median length of "
        f"{_short(measured.median)} and a mean of {_short(measured.mean)}"
    )
    if measured.dead < 0.05:
        return f"{start}."
    return f"{start}: {measured.dead:.0%} of the queries get less than a thousandth of the mean."


def _short(value: float) -> str:
    return f"{value:.2g}" if value < 10 else f"{value:.0f}"
