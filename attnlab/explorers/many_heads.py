"""The same features cut into more heads, and what that costs."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor

from attnlab.attention import trace_attention
from attnlab.explorers._base import Explorer
from attnlab.explorers._controls import Choice, Picked, Question
from attnlab.explorers._panels import Heatmap, Maps, Panel, Table, stacked
from attnlab.explorers._words import TOKENS, counted
from attnlab.heads import split_heads
from attnlab.modules import MultiHeadAttention

EMBED_DIM = 12
STOPS = (1, 2, 3, 4, 6, 12)
SEED = 0


class Cost(NamedTuple):
    """What a layer of multi-head attention costs for one sentence of six tokens."""

    parameters: int  # of the four projections, without biases
    flops: int  # additions and multiplications of the matrix products, as torch counts them
    weights: int  # number of attention weights
    weight_bytes: int  # their memory, in float32


class ManyHeadsResult(NamedTuple):
    """Maps of all heads, and their cost."""

    weights: Tensor  # (H, 6, 6): attention weights of random queries and keys, a map per head
    head_dim: int  # features of a head
    orders: tuple[int, ...]  # in how many orders the rows of each head rank the six words
    cost: Cost  # what a layer with so many heads costs


@cache
def compute(heads: int) -> ManyHeadsResult:
    """Return maps and costs: always the same queries and keys, cut into more and more heads."""
    generator = torch.Generator().manual_seed(SEED)
    query, key = torch.randn(2, len(TOKENS), EMBED_DIM, generator=generator)  # as if projected
    query, key = split_heads(query, heads), split_heads(key, heads)  # (H, 6, head_dim)
    weights = trace_attention(query, key, key).weights
    ranks = weights.argsort(dim=-1)  # (H, 6, 6)
    orders = tuple(len(rows.unique(dim=0)) for rows in ranks)
    return ManyHeadsResult(weights, EMBED_DIM // heads, orders, measure(heads))


def measure(heads: int) -> Cost:
    """Return what ``MultiHeadAttention`` costs for six tokens.

    The FLOPs are those of four projections, of the scores and of the outputs. torch counts the
    same, but needs seconds for the first count of a process.
    """
    tokens, layer = len(TOKENS), MultiHeadAttention(EMBED_DIM, heads, bias=False)
    flops = 2 * tokens * EMBED_DIM * (4 * EMBED_DIM + 2 * tokens)
    with torch.no_grad():
        weights = layer(torch.zeros(1, tokens, EMBED_DIM)).weights  # (1, H, 6, 6)
    parameters = sum(parameter.numel() for parameter in layer.parameters())
    memory = weights.numel() * weights.element_size()
    return Cost(parameters, flops, weights.numel(), memory)


class ManyHeadsExplorer(Explorer):
    """Maps and costs of 1 to 12 heads that share twelve features.

    Parameters
    ----------
    **state
        ``heads``: 1, 2, 3, 4, 6 or 12. ``shown``: the head that is drawn large, 0 to 11; the last
        one if there are fewer. ``ask`` and ``large``, as in ``Explorer``.

    See Also
    --------
    attnlab.MultiHeadAttention : the layer whose cost is counted.
    """

    figsize = (7.0, 3.4)
    title = "How many heads?"
    hint = (
        "The query and the key of each of six words have twelve features, here random numbers. Cut "
        "them into more and more heads."
    )
    prediction = Question(
        ask="keep the 12 features and go from 1 head to 12. The number of parameters …",
        then="Now take 12 heads and look at the costs.",
        options=("grows twelvefold", "stays the same", "shrinks to a twelfth"),
        right=1,
        why="The matrices that make query, key and value stay 12 × 12; each head gets a thinner "
        "slice of what they make. What grows is the number of attention weights: one map per head.",
        settled=({"heads": [12]},),
    )
    heads = Choice(4, STOPS, label="heads")
    shown = Picked(0, range(max(STOPS)))
    panels = (
        Maps("maps", "all heads", under="point to look, click to keep", over="shown", grow=0.8),
        Heatmap("map", role="scaled", rows=TOKENS, columns=TOKENS),
        stacked(
            Table(
                "costs",
                "what it costs",
                under="six words, one layer: four matrices of 12 × 12",
                caption="Costs of one head and of this number of heads",
            ),
            Panel("slices", "which head gets which feature", kind="slices"),
            grow=1.2,
        ),
    )

    @property
    def result(self) -> ManyHeadsResult:
        """Maps and costs at this number of heads, by torch."""
        return compute(self.heads)

    def frame(self, heads: int, shown: int) -> dict[str, object]:
        """Return all maps, one of them large, and the costs beside those of one head."""
        result, shown = compute(heads), min(shown, heads - 1)
        return {
            "say": f"{_say_cost(heads)} {_say_orders(heads, shown)}",
            "bad": False,
            "code": code(heads),
            "maps": {"maps": result.weights},
            "map": {
                "title": f"head {shown} of {heads}",
                "under": f"reads {_slice(heads, shown)} of query and key",
                "cells": result.weights[shown],
            },
            "costs": {
                "head": ["", "1 head", "now" if heads == 1 else f"{heads} heads", ""],
                "body": [
                    [name, f"{before:,}", f"{now:,}", _change(before, now)]
                    for name, before, now in zip(NAMES, _costs(1), _costs(heads), strict=True)
                ],
            },
            "slices": {"heads": heads, "size": result.head_dim, "shown": shown},
        }


def _costs(heads: int) -> tuple[int, ...]:
    return (*compute(heads).cost, EMBED_DIM // heads)


def _change(before: int, now: int) -> str | tuple[str, str]:
    if now == before:
        return "same"
    return (f"**× {now // before}**" if now > before else f"**÷ {before // now}**", "raw")


# --- words ----------------------------------------------------------------------------------------

NAMES = (
    "parameters",
    "FLOPs of the products",
    "attention weights",
    "their memory, bytes",
    "features per head",
)


def _slice(heads: int, head: int) -> str:
    size = EMBED_DIM // heads
    first, last = head * size, (head + 1) * size - 1
    which = f"feature {first}" if size == 1 else f"features {first} to {last}"
    return f"only {which}" if heads > 1 else which


def code(heads: int) -> str:
    """Return the lines of PyTorch that make the maps of six tokens."""
    head_dim = EMBED_DIM // heads
    split = f".view({len(TOKENS)}, {heads}, {head_dim}).transpose(0, 1)"
    return (
        f"q = query{split}\n"
        f"k = key{split}  # ({heads}, {len(TOKENS)}, {head_dim})\n"
        f"weights = (q @ k.transpose(-2, -1) / {head_dim} ** 0.5).softmax(dim=-1)"
    )


def _say_cost(heads: int) -> str:
    cost, one = compute(heads).cost, compute(1).cost
    head_dim = EMBED_DIM // heads
    if heads == 1:
        return (
            f"1 head of {EMBED_DIM} features: **{cost.parameters} parameters**, "
            f"{cost.weights} attention weights."
        )
    return (
        f"{heads} heads of {counted(head_dim, 'feature')}: **{cost.parameters} parameters, as with "
        f"one head**, and {cost.weights} attention weights instead of {one.weights}."
    )


def _say_orders(heads: int, head: int) -> str:
    orders = compute(heads).orders[head]
    start = f"The six rows of head {head} rank the words in"
    if heads == EMBED_DIM and orders == 2:
        return f"{start} **only 2 orders**, one the reverse of the other."
    return f"{start} {orders} different orders."
