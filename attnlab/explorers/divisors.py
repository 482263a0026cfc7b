"""What other divisors than the square root of d_k do to the weights."""

from __future__ import annotations

import math
from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor

from attnlab.attention import attention_scores, attention_weights
from attnlab.diagnostics import effective_keys, score_variance
from attnlab.explorers._base import Explorer
from attnlab.explorers._controls import Choice, Question, Slider
from attnlab.explorers._panels import Axis, Curves, Heatmap, Line, Panel
from attnlab.explorers._words import TOKENS

D_MODEL = 512  # the width of the layer, shared out to 512 / d_k heads
STOPS = tuple(2**power for power in range(10))  # 1 ... 512, which is one head
LABELS = {"1": "1", "sqrt(d_k)": "√d_k", "d_k": "d_k", "sqrt(d_model)": "√d_model"}
DIVISORS = tuple(LABELS)
LOOKS = {  # as in the figures of the lesson
    "1": ("raw", "dashed", "square"),
    "sqrt(d_k)": ("scaled", "solid", "circle"),
    "d_k": ("good", "dashdot", "triangle"),
    "sqrt(d_model)": ("other", "dotted", "diamond"),
}
SEED, QUERIES, KEYS = 0, 400, 16  # those of lesson 2
DRAW_SEED = 1
NEAR = 1.5  # a variance between 1 / 1.5 and 1.5 is called near 1


class Measured(NamedTuple):
    """Means over 400 random queries with 16 keys each."""

    variance: float  # of the scores of a query, after the division
    keys: float  # effective keys, of 16


class DivisorsResult(NamedTuple):
    """Weights of six random tokens under one divisor, and what many queries get."""

    divisor: float  # the number that the dot products are divided by
    weights: Tensor  # (6, 6): queries down, keys across
    measured: Measured  # variance and effective keys


class DivisorsExplorer(Explorer):
    """Scores divided by 1, sqrt(d_k), d_k or sqrt(d_model): too sharp, right, too flat.

    Parameters
    ----------
    **state
        ``d_k``: length of queries and keys, a power of two up to 512. ``divisor``: "1",
        "sqrt(d_k)", "d_k" or "sqrt(d_model)", where d_model is 512 throughout. ``ask`` and
        ``large``, as in ``Explorer``.

    See Also
    --------
    attnlab.attention_scores : divides by sqrt(d_k) unless told otherwise.
    """

    figsize = (8.6, 3.4)
    title = "Divide by what?"
    hint = (
        "Random queries and keys (mean 0, variance 1). The layer stays d_model = 512 wide and has "
        "512 / d_k heads."
    )
    prediction = Question(
        ask="without the division one key takes nearly all, and √d_k prevents this. What if we "
        "divide by d_k itself, and d_k is large?",
        then="Now choose the divisor d_k, at d_k = 64 or more.",
        options=("one key again", "all keys alike", "the same as √d_k"),
        right=1,
        why="The variance falls to 1/d_k, all scores are nearly equal, and the output is nearly a "
        "plain average: this errs in the other direction.",
        settled=({"divisor": ["d_k"], "d_k": STOPS[6:]},),
    )
    divisor = Choice("sqrt(d_k)", LABELS, label="divide by")
    d_k = Slider(
        64,
        STOPS,
        label="d_k",
        spoken="length of queries and keys, d_k",
        presets=(8, 64, 512),
        width=180,
    )

    @property
    def panels(self) -> tuple[Panel, ...]:
        """The weights under this divisor, and both curves of all divisors."""
        over = {"over": "d_k", "stops": STOPS, "xlabel": "d_k"}
        powers = [10.0**power for power in range(-3, 4)]
        return (
            Heatmap("weights", rows=TOKENS, columns=TOKENS),
            Curves(
                "variance",
                "variance of the scores",
                under="of 400 queries; point to look, click to stay",
                lines=_lines("variance"),
                y=Axis(powers[0], powers[-1], powers, log=True),
                **over,
            ),
            Curves(
                "used",
                f"effective keys (out of {KEYS})",
                under=f"the same queries; {KEYS}: all alike, 1: a single winner",
                lines=_lines("keys"),
                y=Axis(0, KEYS, range(0, KEYS + 1, 4)),
                **over,
            ),
        )

    @property
    def result(self) -> DivisorsResult:
        """Weights and measurements under this divisor, by torch."""
        weights = draw_weights(self.divisor, self.d_k)
        return DivisorsResult(
            number_of(self.divisor, self.d_k), weights, measure(self.divisor, self.d_k)
        )

    def frame(self, d_k: int, divisor: str) -> dict[str, object]:
        """Return the weights, and which line of the curves belongs to the divisor."""
        end = verdict(divisor, d_k)
        spread = f"variance {_short(measure(divisor, d_k).variance)}"
        mark = f"{'✓' if end == 'near 1' else '✗'} {end}"
        current = {"current": DIVISORS.index(divisor)}
        return {
            "say": sentence(divisor, d_k),
            "bad": end != "near 1",
            "code": code(divisor, d_k),
            "weights": {
                "title": f"divided by {LABELS[divisor]}",
                "under": f"softmax(QKᵀ / {_short(number_of(divisor, d_k))}): {spread}, {mark}",
                "role": LOOKS[divisor][0],
                "cells": draw_weights(divisor, d_k),
            },
            "variance": current,
            "used": current,
        }


def number_of(divisor: str, d_k: int) -> float:
    """Return the number that a divisor stands for."""
    return {
        "1": 1.0,
        "sqrt(d_k)": math.sqrt(d_k),
        "d_k": float(d_k),
        "sqrt(d_model)": math.sqrt(D_MODEL),
    }[divisor]


def draw_weights(divisor: str, d_k: int) -> Tensor:
    """Return the weights of six random tokens; a larger d_k makes the same tokens longer."""
    generator = torch.Generator().manual_seed(DRAW_SEED)
    query, key = torch.randn(2, len(TOKENS), D_MODEL, generator=generator)[..., :d_k]
    return attention_weights(attention_scores(query, key, scale=1 / number_of(divisor, d_k)))


@cache
def measure(divisor: str, d_k: int) -> Measured:
    """Return what 400 random queries with 16 keys each get; the numbers of lesson 2."""
    scores = raw_scores(d_k) / number_of(divisor, d_k)
    used = effective_keys(attention_weights(scores))
    return Measured(score_variance(scores).mean().item(), used.mean().item())


@cache
def raw_scores(d_k: int) -> Tensor:
    """Return the dot products of 400 random queries, (400, 1, 16)."""
    generator = torch.Generator().manual_seed(SEED)
    query = torch.randn(QUERIES, 1, d_k, generator=generator)
    key = torch.randn(QUERIES, KEYS, d_k, generator=generator)
    return attention_scores(query, key, scale=1.0)


# --- words ----------------------------------------------------------------------------------------


def _lines(what: str) -> list[Line]:
    return [
        Line(
            f"divided by {LABELS[name]}",
            [getattr(measure(name, d_k), what) for d_k in STOPS],
            *LOOKS[name],
        )
        for name in DIVISORS
    ]


def code(divisor: str, d_k: int) -> str:
    """Return the lines of PyTorch; the queries and keys there are 512 long."""
    expression = {"1": "1", "sqrt(d_k)": f"{d_k} ** 0.5", "d_k": str(d_k)}
    return (
        f"query, key = query[:, :{d_k}], key[:, :{d_k}]\n"
        f"scores = query @ key.T / {expression.get(divisor, f'{D_MODEL} ** 0.5')}\n"
        "weights = scores.softmax(dim=-1)"
    )


def verdict(divisor: str, d_k: int) -> str:
    """Return in a word what became of the spread of the scores, whose aim is variance 1."""
    variance = measure(divisor, d_k).variance
    if variance > NEAR:
        return "sharp"
    return "flat" if variance < 1 / NEAR else "near 1"


def sentence(divisor: str, d_k: int) -> str:
    """Return what one divisor does at one d_k."""
    variance, keys = measure(divisor, d_k)
    name, number = LABELS[divisor], _short(number_of(divisor, d_k))
    divided = f"{name} = {number}" if "√" in name else name
    end = verdict(divisor, d_k)
    if end == "sharp" and keys < 1.5:
        end = "sharp, and one key takes nearly all"
    if end == "flat" and keys > 15:
        end = "flat, and the output is nearly a plain average"
    if end == "near 1":
        end = "neither sharp nor flat"
    return (
        f"**d_k = {d_k}**, divided by {divided}: the scores have variance {_short(variance)}, "
        f"and a query uses {keys:.1f} of {KEYS} keys, so the weights are {end}."
    )


def _short(value: float) -> str:
    return f"{value:.3g}"
