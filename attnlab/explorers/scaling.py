"""Why the scores are divided by the square root of d_k."""

from __future__ import annotations

import math
from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor

from attnlab.attention import attention_scores, attention_weights
from attnlab.diagnostics import effective_keys
from attnlab.explorers._base import Explorer
from attnlab.explorers._controls import Cycle, Question, Slider
from attnlab.explorers._panels import Axis, Curves, Heatmap, Line, Panel
from attnlab.explorers._words import TOKENS

STOPS = tuple(2**power for power in range(11))  # 1 ... 1024
DRAWS = 4  # what "new draw" goes through
SWEEP_SEED, SWEEP_QUERIES, SWEEP_KEYS = 7, 400, 16
DEAD = 1 / 1000  # of the mean: a gradient shorter than this is counted
LOOKS = (  # of mean and median: without scaling, and with it
    (("dashed", "triangle"), ("solid", "circle")),
    (("dashdot", "diamond"), ("dotted", "square")),
)


class Sweep(NamedTuple):
    """Measured on 400 random queries with 16 keys each, at one d_k and with one divisor.

    The gradient is that of the sum of all outputs, with respect to a query.
    """

    variance: float  # of the scores
    median: float  # of the lengths of the gradients
    mean: float  # of the same lengths
    dead: float  # share of the gradients that are shorter than a thousandth of the mean


class ScalingResult(NamedTuple):
    """Attention of six random tokens with and without scaling, and gradients at this d_k."""

    raw: Tensor  # (6, 6): weights
    scaled: Tensor  # (6, 6): weights
    raw_sweep: Sweep  # what many queries get
    scaled_sweep: Sweep


@cache
def sweep(d_k: int) -> tuple[Sweep, Sweep]:
    """Return what many random queries get at one d_k: without scaling, and with it."""
    generator = torch.Generator().manual_seed(SWEEP_SEED)
    query = torch.randn(SWEEP_QUERIES, d_k, 1, generator=generator)
    key = torch.randn(SWEEP_QUERIES, SWEEP_KEYS, d_k, generator=generator)
    value = torch.randn(SWEEP_QUERIES, SWEEP_KEYS, 1, generator=generator).double()
    products = (key @ query).double()  # (queries, keys, 1)
    return tuple(_measure(products, key, value, divisor) for divisor in (1.0, math.sqrt(d_k)))


def _measure(products: Tensor, key: Tensor, value: Tensor, divisor: float) -> Sweep:
    scores = products / divisor
    weights = scores.softmax(dim=1)
    mean_value = (weights * value).sum(dim=1, keepdim=True)
    slope = weights * (value - mean_value) / divisor  # d output / d product, by the chain rule
    lengths = (key.transpose(1, 2) @ slope.float()).norm(dim=1).flatten().double()  # per query
    mean = lengths.mean()
    dead = (lengths < mean * DEAD).double().mean()
    return Sweep(scores.var().item(), lengths.median().item(), mean.item(), dead.item())


def draw_weights(d_k: int, seed: int) -> tuple[Tensor, Tensor]:
    """Return the weights of six random tokens: without scaling, and with it."""
    generator = torch.Generator().manual_seed(seed)
    query, key = torch.randn(2, len(TOKENS), max(STOPS), generator=generator)
    query, key = query[:, :d_k], key[:, :d_k]  # the same tokens, only longer
    raw = attention_weights(attention_scores(query, key, scale=1.0))
    return raw, attention_weights(attention_scores(query, key))


class ScalingExplorer(Explorer):
    """Weights with and without the factor 1 / sqrt(d_k), and what it does to the gradients.

    Parameters
    ----------
    **state
        ``d_k``: length of queries and keys, a power of two up to 1024. ``seed``: which of the four
        random draws, 0 to 3. ``ask`` and ``large``, as in ``Explorer``.

    See Also
    --------
    attnlab.attention_scores : divides by sqrt(d_k) unless told otherwise.
    """

    figsize = (8.4, 3.2)
    title = "Why divide by √d_k?"
    hint = "Six tokens with random queries and keys. The slider only gives them more features."
    prediction = Question(
        ask="without the division, more features per query and key make the attention weights …",
        then="Now move d_k far to the right and look.",
        options=("sharper", "flatter", "no different"),
        right=0,
        why="Scores are sums of d_k products, so they spread like √d_k, and the softmax turns a "
        "wide lead into a single winner. At d_k = 1024 most rows pass on less than a thousandth of "
        "the mean gradient, and a few near ties pass on a huge one.",
        settled=({"d_k": STOPS[8:]},),
    )
    d_k = Slider(
        4, STOPS, label="d_k", spoken="length of queries and keys, d_k", presets=(1, 64, 1024)
    )
    seed = Cycle(0, range(DRAWS), text="New random draw")

    @property
    def panels(self) -> tuple[Panel, ...]:
        """Both matrices of weights, and the gradients over d_k."""
        labels = {"rows": TOKENS, "columns": TOKENS}
        pairs = [sweep(d_k) for d_k in STOPS]
        lines = [
            Line(f"{name}, {what}", [getattr(pair[i], what) for pair in pairs], role, *look)
            for i, (name, role) in enumerate((("not scaled", "raw"), ("scaled", "scaled")))
            for what, look in zip(("mean", "median"), LOOKS[i], strict=True)
        ]
        return (
            Heatmap("raw", "not scaled", role="raw", **labels),
            Heatmap("scaled", "scaled", role="scaled", **labels),
            Curves(
                "gradients",
                "gradient of a query",
                under="400 queries with 16 keys each; point to look, click to stay",
                over="d_k",
                stops=STOPS,
                lines=lines,
                y=Axis(1e-4, 10, [10.0**power for power in range(-4, 2)], log=True),
                xlabel="d_k",
                ylabel="length of the gradient",
            ),
        )

    @property
    def result(self) -> ScalingResult:
        """Weights and gradients at this d_k, by torch."""
        raw, scaled = draw_weights(self.d_k, self.seed)
        return ScalingResult(raw, scaled, *sweep(self.d_k))

    def frame(self, d_k: int, seed: int) -> dict[str, object]:
        """Return both matrices, and how many keys a row uses on average."""
        raw, scaled = draw_weights(d_k, seed)
        return {
            "say": sentence(d_k),
            "bad": sweep(d_k)[0].median < sweep(d_k)[1].median / 2,
            "code": code(d_k),
            "raw": {"cells": raw, "under": f"softmax(QKᵀ): {_used(raw)}"},
            "scaled": {"cells": scaled, "under": f"softmax(QKᵀ / √d_k): {_used(scaled)}"},
        }


# --- words ----------------------------------------------------------------------------------------


def _used(weights: Tensor) -> str:
    return f"uses {effective_keys(weights).mean():.1f} of {len(TOKENS)} keys"


def code(d_k: int) -> str:
    """Return the lines of PyTorch; the queries and keys there are 1024 long."""
    return (
        f"query, key = query[:, :{d_k}], key[:, :{d_k}]\n"
        "raw = (query @ key.T).softmax(dim=-1)\n"
        f"scaled = (query @ key.T / {d_k} ** 0.5).softmax(dim=-1)"
    )


def sentence(d_k: int) -> str:
    """Return what the sweep shows at one d_k."""
    raw, scaled = sweep(d_k)
    start = (
        f"**d_k = {d_k}**: the scores have variance {_short(raw.variance)} without scaling and "
        f"{_short(scaled.variance)} with it. "
    )
    median, mean = raw.median / scaled.median, raw.mean / scaled.mean
    middle = (
        f"Without scaling, the median length of the gradient is {_times(median)} what it is with "
        f"scaling, and the mean length is {_times(mean)} what it is with scaling."
    )
    if raw.dead < 0.05:
        return f"{start}{middle}"
    return (
        f"{start}{middle} Of the queries, {raw.dead:.0%} get less than a thousandth of the mean "
        "length, and a few near ties get a huge gradient."
    )


def _short(value: float) -> str:
    return f"{value:.0f}" if value >= 10 else f"{value:.1f}"


def _times(ratio: float) -> str:
    if ratio >= 0.095:
        return f"{ratio:.1f} times"
    return f"1/{1 / ratio:.0f} of"
