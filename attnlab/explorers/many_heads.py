"""Explorer 11: the same features cut into more heads, and what that costs."""

from __future__ import annotations

import math
from functools import cache
from typing import NamedTuple

import torch
from matplotlib.figure import Figure
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from attnlab.attention import trace_attention
from attnlab.explorers._base import Explorer
from attnlab.explorers._controls import State, one_of
from attnlab.explorers._page import numbers
from attnlab.heads import split_heads
from attnlab.modules import MultiHeadAttention
from attnlab.plotting import plot_attention

TOKENS = ("The", "cat", "sat", "on", "the", "mat")
EMBED_DIM = 12
STOPS = (1, 2, 3, 4, 6, 12)
SEED = 0


class Cost(NamedTuple):
    """What a layer of multi-head attention costs for one sentence of six tokens.

    Attributes
    ----------
    parameters : int
        Of the four projections, biases included.
    flops : int
        Additions and multiplications of the matrix products, as torch counts them.
    weights : int
        Number of attention weights.
    weight_bytes : int
        Their memory, in float32.
    """

    parameters: int
    flops: int
    weights: int
    weight_bytes: int


class ManyHeadsResult(NamedTuple):
    """Maps of all heads, and their cost.

    Attributes
    ----------
    weights : Tensor, shape (H, 6, 6)
        Attention weights of random queries and keys, a map per head.
    head_dim : int
        Features of a head.
    orders : tuple of int
        In how many orders the rows of each head rank the six words.
    cost : Cost
        What a layer with so many heads costs.
    """

    weights: Tensor
    head_dim: int
    orders: tuple[int, ...]
    cost: Cost


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

    module = "many_heads"
    figsize = (7.0, 3.4)

    heads = State(4, one_of(*STOPS))
    shown = State(0, one_of(*range(max(STOPS))))

    @property
    def result(self) -> ManyHeadsResult:
        """Maps and costs at this number of heads, by torch."""
        return compute(self.heads)

    def make_data(self) -> dict[str, object]:
        """Return maps, costs and sentences of every number of heads."""
        return {
            "tokens": list(TOKENS),
            "embed_dim": EMBED_DIM,
            "stops": list(STOPS),
            "frames": [frame(heads) for heads in STOPS],
        }

    def draw(self, fig: Figure) -> None:
        """Draw one head large, with its numbers, and all heads small."""
        weights = self.result.weights
        shown = min(self.shown, self.heads - 1)
        across = math.ceil(math.sqrt(self.heads))
        large, small = fig.subfigures(1, 2, width_ratios=[1, 1.1])
        labels = {"queries": list(TOKENS), "keys": list(TOKENS)}
        title = f"head {shown} of {self.heads}"
        plot_attention(weights[shown], ax=large.subplots(), title=title, **labels)
        axes = small.subplots(-(-self.heads // across), across, squeeze=False).flat
        for head, ax in enumerate(axes):
            if head >= self.heads:
                ax.remove()
                continue
            plot_attention(weights[head], ax=ax, title=f"head {head}", annotate=False)
            ax.set(xticks=[], yticks=[], xlabel="", ylabel="")

    def say(self) -> str:
        """Return what stays the same, what grows, and how the rows of the shown head rank."""
        shown = min(self.shown, self.heads - 1)
        return f"{_say_cost(self.heads)} {_say_orders(self.heads, shown)}".replace("**", "")


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
    """Return what ``MultiHeadAttention`` costs for six tokens, counted by torch."""
    layer = MultiHeadAttention(EMBED_DIM, heads)
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        weights = layer(torch.zeros(1, len(TOKENS), EMBED_DIM)).weights  # (1, H, 6, 6)
    parameters = sum(parameter.numel() for parameter in layer.parameters())
    memory = weights.numel() * weights.element_size()
    return Cost(parameters, counter.get_total_flops(), weights.numel(), memory)


def frame(heads: int) -> dict[str, object]:
    """Return one step of the slider: maps, costs, sentences and lines of PyTorch."""
    result = compute(heads)
    return {
        "heads": heads,
        "head_dim": result.head_dim,
        "weights": numbers(result.weights, 3),
        "cost": result.cost._asdict(),
        "say": _say_cost(heads),
        "orders": [_say_orders(heads, head) for head in range(heads)],
        "code": code(heads),
    }


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
    what = "feature" if head_dim == 1 else "features"
    return (
        f"{heads} heads of {head_dim} {what}: **{cost.parameters} parameters, as with one head**, "
        f"and {cost.weights} attention weights instead of {one.weights}."
    )


def _say_orders(heads: int, head: int) -> str:
    orders = compute(heads).orders[head]
    start = f"The six rows of head {head} rank the words in"
    if heads == EMBED_DIM and orders == 2:
        return f"{start} **only 2 orders**, one the reverse of the other."
    return f"{start} {orders} different orders."
