"""Explorer 4: why the scores are divided by the square root of d_k."""

from __future__ import annotations

import math
from functools import cache
from typing import NamedTuple

import torch
from matplotlib.figure import Figure
from torch import Tensor

from attnlab.attention import attention_scores, attention_weights
from attnlab.diagnostics import effective_keys
from attnlab.explorers._base import Explorer, State, one_of
from attnlab.explorers._page import numbers, significant
from attnlab.plotting import plot_attention, plot_sweep

TOKENS = ("The", "cat", "sat", "on", "the", "mat")
STOPS = tuple(2**power for power in range(11))  # 1 ... 1024
DRAWS = 4  # what "new draw" goes through
SWEEP_SEED, SWEEP_QUERIES, SWEEP_KEYS = 7, 400, 16
DEAD = 1 / 1000  # of the mean: a gradient shorter than this is counted


class Sweep(NamedTuple):
    """Measured on 400 random queries with 16 keys each, at one d_k and with one divisor.

    The gradient is that of the sum of all outputs, with respect to a query.

    Attributes
    ----------
    variance : float
        Of the scores.
    median, mean : float
        Of the lengths of the gradients.
    dead : float
        Share of the gradients that are shorter than a thousandth of the mean.
    """

    variance: float
    median: float
    mean: float
    dead: float


class ScalingResult(NamedTuple):
    """Attention of six random tokens with and without scaling, and gradients at this d_k.

    Attributes
    ----------
    raw, scaled : Tensor, shape (6, 6)
        Weights.
    raw_sweep, scaled_sweep : Sweep
        What many queries get.
    """

    raw: Tensor
    scaled: Tensor
    raw_sweep: Sweep
    scaled_sweep: Sweep


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

    module = "scaling"
    figsize = (9.0, 3.6)

    d_k = State(4, one_of(*STOPS))
    seed = State(0, one_of(*range(DRAWS)))

    @property
    def result(self) -> ScalingResult:
        """Weights and gradients at this d_k, by torch."""
        raw, scaled = draw_weights(self.d_k, self.seed)
        return ScalingResult(raw, scaled, *sweep(self.d_k))

    def make_data(self) -> dict[str, object]:
        """Return every weight and every curve that the slider can reach."""
        sweeps = [sweep(d_k) for d_k in STOPS]
        curves = {
            f"{name}_{what}": [significant(getattr(both[i], what)) for both in sweeps]
            for i, name in enumerate(("raw", "scaled"))
            for what in ("median", "mean")
        }
        return {
            "tokens": list(TOKENS),
            "stops": list(STOPS),
            "curves": curves,
            "sentences": [sentence(d_k) for d_k in STOPS],
            "draws": [[frame(d_k, seed) for d_k in STOPS] for seed in range(DRAWS)],
        }

    def draw(self, fig: Figure) -> None:
        """Draw both matrices of weights, and median and mean gradient over d_k."""
        result = self.result
        places = [["raw", "scaled", "median"], ["raw", "scaled", "mean"]]
        ax = fig.subplot_mosaic(places, width_ratios=[1, 1, 1.1])
        labels = {"queries": list(TOKENS), "keys": list(TOKENS)}
        plot_attention(result.raw, ax=ax["raw"], title="not scaled", **labels)
        plot_attention(result.scaled, ax=ax["scaled"], title="scaled", **labels)
        for what in ("median", "mean"):
            pairs = [sweep(d_k) for d_k in STOPS]
            curves = {
                name: [getattr(pair[i], what) for pair in pairs]
                for i, name in enumerate(("not scaled", "scaled"))
            }
            look = {"xscale": "log", "yscale": "log", "at": self.d_k}
            plot_sweep(STOPS, curves, ax=ax[what], title=f"{what} gradient", **look)
            ax[what].set_ylabel("length")
        ax["median"].get_legend().remove()
        ax["mean"].set_xlabel("d_k")

    def say(self) -> str:
        """Return what scores, weights and gradients do at this d_k."""
        return sentence(self.d_k)


def draw_weights(d_k: int, seed: int) -> tuple[Tensor, Tensor]:
    """Return the weights of six random tokens: without scaling, and with it."""
    generator = torch.Generator().manual_seed(seed)
    query, key = torch.randn(2, len(TOKENS), max(STOPS), generator=generator)
    query, key = query[:, :d_k], key[:, :d_k]  # the same tokens, only longer
    raw = attention_weights(attention_scores(query, key, scale=1.0))
    return raw, attention_weights(attention_scores(query, key))


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


def frame(d_k: int, seed: int) -> dict[str, object]:
    """Return one step of the slider: both matrices, and how many keys a row uses on average."""
    raw, scaled = draw_weights(d_k, seed)
    keys = [round(effective_keys(weights).mean().item(), 1) for weights in (raw, scaled)]
    return {"raw": numbers(raw, 3), "scaled": numbers(scaled, 3), "keys": keys}


def sentence(d_k: int) -> str:
    """Return what the sweep shows at one d_k."""
    raw, scaled = sweep(d_k)
    start = (
        f"d_k = {d_k}: the scores have variance {_short(raw.variance)} without scaling, "
        f"{_short(scaled.variance)} with it. "
    )
    median, mean = raw.median / scaled.median, raw.mean / scaled.mean
    middle = (
        f"Without scaling the median gradient is {_times(median)} as long as with it, "
        f"the mean {_times(mean)} as long"
    )
    if raw.dead < 0.05:
        return f"{start}{middle}."
    share = f"{raw.dead:.0%}".replace("%", " %")
    return (
        f"{start}{middle}: {share} of the queries get less than a thousandth of that mean, "
        "a few near ties a huge one."
    )


def _short(value: float) -> str:
    return f"{value:.0f}" if value >= 10 else f"{value:.1f}"


def _times(ratio: float) -> str:
    if ratio >= 0.095:
        return f"{ratio:.1f} times"
    return f"1/{1 / ratio:.0f}"
