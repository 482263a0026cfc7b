"""Explorer 6: one row of attention by hand, from the dot products to the output."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from torch import Tensor

from attnlab._cells import BLOCKED_COLOUR, BLOCKED_HATCH, readable_on
from attnlab.data import Table, load_table
from attnlab.explorers._base import Explorer
from attnlab.explorers._controls import State, one_of
from attnlab.explorers._page import numbers
from attnlab.masks import causal_mask
from attnlab.plotting import WEIGHT_COLOURS

TOKENS = ("He", "is", "awesome")  # those of lesson 1
MASKS = ("none", "causal")
STEPS = ("q · k", "÷ √4", "mask", "exp", "sum", "÷ sum", "× value")
WEIGHTS_STEP = 1 + STEPS.index("÷ sum")
ASKED_QUERY = "awesome"  # the prediction asks for the weight that it gives to itself
CELL_EDGE = "#c4ccd4"


class RowResult(NamedTuple):
    """Everything that one query computes, step by step; S = 3 keys, Ev = 4 features.

    Attributes
    ----------
    raw : Tensor, shape (3,)
        Dot products with the keys.
    scores : Tensor, shape (3,)
        Raw scores divided by the root of 4.
    mask : Tensor of bool, shape (3,)
        True where the query may attend to the key.
    masked : Tensor, shape (3,)
        Scores, -inf where the mask blocks.
    positive : Tensor, shape (3,)
        e to the masked scores.
    total : Tensor, shape ()
        Their sum.
    weights : Tensor, shape (3,)
        Shares of the sum.
    products : Tensor, shape (3, 4)
        Weight times value, key by key.
    output : Tensor, shape (4,)
        Sum of the products.
    """

    raw: Tensor
    scores: Tensor
    mask: Tensor
    masked: Tensor
    positive: Tensor
    total: Tensor
    weights: Tensor
    products: Tensor
    output: Tensor


class RowExplorer(Explorer):
    """One query of "He is awesome" by hand: seven steps, each with its numbers and its line.

    Parameters
    ----------
    **state
        ``step``: how far the row is computed, 1 to 7. ``query``: the token that asks, "He", "is"
        or "awesome". ``mask``: "none" or "causal". ``ask`` and ``large``, as in ``Explorer``.

    See Also
    --------
    attnlab.trace_attention : the same for all rows at once.
    """

    module = "row"
    figsize = (7.4, 4.6)

    step = State(1, one_of(*range(1, len(STEPS) + 1)))
    query = State("awesome", one_of(*TOKENS))
    mask = State("none", one_of(*MASKS))

    @property
    def result(self) -> RowResult:
        """All steps of this query by torch, also those that are not shown yet."""
        return compute(self.query, self.mask)

    def make_data(self) -> dict[str, object]:
        """Return every number and every line that can be shown, and the question."""
        return {
            "tokens": list(TOKENS),
            "values": numbers(table().values, 1),
            "steps": list(STEPS),
            "masks": list(MASKS),
            "frames": {mask: {query: frame(query, mask) for query in TOKENS} for mask in MASKS},
            "asked": question(),
        }

    def draw(self, fig: Figure) -> None:
        """Draw the steps taken as rows of numbers, and the last one written out."""
        shown = frame(self.query, self.mask)
        ax = fig.subplots()
        ax.set(xlim=(0, 5.6), ylim=(len(shown["rows"]) + 2.6, -1), title=f"query: {self.query}")
        ax.axis("off")
        for column, word in enumerate((*TOKENS, "sum")):
            ax.text(2.1 + column, -0.4, word, ha="center", va="center", weight="bold")
        for place, row in enumerate(shown["rows"]):
            weights = shown["weights"] if row["step"] == WEIGHTS_STEP else None
            if row["step"] > self.step:
                row = row | {"cells": [""] * len(row["cells"]), "sum": ""}
            _draw_row(ax, place, row, weights if row["step"] <= self.step else None)
        lines = "\n".join(shown["hand"][self.step - 1])
        ax.text(0, len(shown["rows"]) + 0.4, lines, va="top", family="monospace", fontsize=10)

    def say(self) -> str:
        """Return what this step does to the row."""
        return frame(self.query, self.mask)["say"][self.step - 1].replace("**", "")


# --- numbers --------------------------------------------------------------------------------------


@cache
def table() -> Table:
    """Return the three tokens of lesson 1 with their four numbers each."""
    return load_table("he_is_awesome.csv")


@cache
def compute(query: str, mask: str) -> RowResult:
    """Return all that one query computes, by the operations that the steps name."""
    row, x = TOKENS.index(query), table().values
    may_attend = torch.ones(3, dtype=torch.bool) if mask == "none" else causal_mask(3)[row]
    raw = x @ x[row]
    scores = raw / math.sqrt(x.shape[-1])
    masked = scores.masked_fill(~may_attend, -torch.inf)
    positive = masked.exp()
    total = positive.sum()
    weights = positive / total
    products = weights[:, None] * x
    steps = (raw, scores, may_attend, masked, positive, total, weights, products)
    return RowResult(*steps, products.sum(dim=0))


# --- words ----------------------------------------------------------------------------------------


@cache
def frame(query: str, mask: str) -> dict[str, object]:
    """Return what the picture needs of one query: rows of cells, written-out steps, lines."""
    result = compute(query, mask)
    return {
        "rows": table_rows(result),
        "weights": numbers(result.weights),
        "blocked": (~result.mask).tolist(),
        "hand": by_hand(query, result),
        "code": code_lines(query, mask),
        "say": sentences(query, mask, result),
    }


def table_rows(result: RowResult) -> list[dict[str, object]]:
    """Return the rows of the table: the step that fills them, cells and sum as text."""
    rows = [result.raw, result.scores, result.masked, result.positive]
    cells = [{"step": step, "cells": texts(row), "sum": ""} for step, row in enumerate(rows, 1)]
    sums = {"step": 5, "cells": [f"{_plus(result.positive)} ="], "sum": text(result.total)}
    shares = {"step": 6, "cells": texts(result.weights), "sum": text(result.weights.sum())}
    features = [
        {"step": 7, "cells": texts(products), "sum": text(output)}
        for products, output in zip(result.products.T, result.output, strict=True)
    ]
    return [*cells, sums, shares, *features]


def by_hand(query: str, result: RowResult) -> list[list[str]]:
    """Return the arithmetic of each step, written out for every key or every feature."""
    x = table().values
    own = x[TOKENS.index(query)]
    raw, scores, positive, weights = map(
        texts, (result.raw, result.scores, result.positive, result.weights)
    )
    total = text(result.total)
    stays = [
        f"may be looked at, stays {score}" if may else f"blocked, {score} becomes −∞"
        for score, may in zip(scores, result.mask.tolist(), strict=True)
    ]
    steps = [
        [f"{_products(own, key, 1)} = {end}" for key, end in zip(x, raw, strict=True)],
        [f"{before} / 2 = {after}" for before, after in zip(raw, scores, strict=True)],
        stays,
        [f"exp({s}) = {p}" for s, p in zip(texts(result.masked), positive, strict=True)],
        [f"{_plus(result.positive)} = {total}"],
        [f"{part} / {total} = {share}" for part, share in zip(positive, weights, strict=True)],
        [
            f"{_products(result.weights, column)} = {text(column @ result.weights)}"
            for column in x.T
        ],
    ]
    names = {4: ("all",), 6: tuple(table().features)}
    return [
        [f"{name}: {line}" for name, line in zip(names.get(i, TOKENS), lines, strict=True)]
        for i, lines in enumerate(steps)
    ]


def code_lines(query: str, mask: str) -> list[str]:
    """Return the lines of PyTorch, one entry for each step."""
    row = TOKENS.index(query)
    square = "torch.ones(3, 3)" if mask == "none" else "torch.ones(3, 3).tril()"
    return [
        f"raw = key @ query[{row}]",
        "scores = raw / math.sqrt(4)  # 4 features",
        f"mask = {square}.bool()[{row}]\nscores = scores.masked_fill(~mask, -torch.inf)",
        "positive = scores.exp()",
        "total = positive.sum()",
        "weights = positive / total  # softmax",
        "output = weights @ value",
    ]


def sentences(query: str, mask: str, result: RowResult) -> list[str]:
    """Return what each step does, in one sentence; bold words stand between two stars."""
    blocked = _quoted([token for token, may in zip(TOKENS, result.mask, strict=True) if not may])
    masked = "No mask: every key may be looked at, and nothing changes."
    if mask == "causal" and not blocked:
        masked = f"The causal mask blocks **nothing** here: no key comes after “{query}”."
    elif blocked:
        masked = f"The causal mask blocks what comes later: {_list(blocked)} → **−∞**."
    order = "every score becomes positive, and the order stays"
    best = TOKENS[result.weights.argmax()]
    most = "all" if len(blocked) == 2 else "the largest weight"
    largest, together = text(result.weights.max()), text(result.weights.sum())
    return [
        f"“{query}” compares itself with every key: raw scores **{_list(texts(result.raw))}**.",
        f"Divided by √4 = 2 the scores lie closer together: **{_list(texts(result.scores))}**.",
        masked,
        f"e to the score: {order}; e to −∞ is **0**." if blocked else f"e to the score: {order}.",
        f"Added up they make **{text(result.total)}**: the whole that is shared out.",
        f"Steps 4 to 6 are the **softmax**: “{best}” gets {most}, "
        f"**{largest}**, and all weights make **{together}** together.",
        f"The output of “{query}” is **{_list(texts(result.output))}**: a weighted average "
        "of the three values.",
    ]


def question() -> dict[str, object]:
    """Return the prediction: a weight, and three numbers of which one is it."""
    result = compute(ASKED_QUERY, "none")
    key = TOKENS.index(ASKED_QUERY)
    score, weight = text(result.scores[key]), text(result.weights[key])
    share = text(result.scores[key] / result.scores.sum())
    return {
        "query": ASKED_QUERY,
        "key": key,
        "step": WEIGHTS_STEP,
        "ask": f"for the keys {_list(_quoted(TOKENS))} the query “{ASKED_QUERY}” has the scores "
        f"{_list(texts(result.scores))}. Which weight does the key “{ASKED_QUERY}” get?",
        "options": [share, weight, "1.000"],
        "why": f"A weight is a share of e to the score: {text(result.positive[key])} of "
        f"{text(result.total)}, **{weight}**. {share} is the share of the score itself, {score} of "
        f"{text(result.scores.sum())}; and nobody takes all: e to any score is positive.",
    }


def text(value: Tensor) -> str:
    """Return a number as it is shown: three decimals."""
    return f"{value.item():.3f}".replace("-inf", "−∞")


def texts(values: Tensor) -> list[str]:
    """Return numbers as they are shown."""
    return [text(value) for value in values]


def _plus(values: Tensor) -> str:
    return " + ".join(texts(values))


def _list(words: list[str]) -> str:
    return f"{', '.join(words[:-1])} and {words[-1]}" if len(words) > 1 else words[0]


def _quoted(words: Sequence[str]) -> list[str]:
    return [f"“{word}”" for word in words]


def _products(left: Tensor, right: Tensor, decimals: int = 3) -> str:
    pairs = zip(left.tolist(), right.tolist(), strict=True)
    return " + ".join(f"{one:.{decimals}f}·{other:.1f}" for one, other in pairs)


# --- picture --------------------------------------------------------------------------------------


def _draw_row(ax: Axes, place: int, row: dict[str, object], weights: list | None) -> None:
    """Draw one row of the table: name of the step, cells, what they add up to."""
    centre = {"ha": "center", "va": "center"}
    cells, step = row["cells"], row["step"]
    if step < len(STEPS) or place == len(STEPS) - 1:  # the last step has a name and four rows
        ax.text(0, place + 0.5, f"{step}  {STEPS[step - 1]}", weight="bold", va="center")
    width = len(TOKENS) / len(cells)
    for column, word in enumerate(cells):
        colour = WEIGHT_COLOURS(weights[column]) if weights else "white"
        look = {"facecolor": colour, "edgecolor": CELL_EDGE}
        if word == "−∞":
            look |= {"facecolor": BLOCKED_COLOUR, "hatch": BLOCKED_HATCH}
        left = 1.6 + width * column
        ax.add_patch(Rectangle((left + 0.03, place + 0.06), width - 0.06, 0.88, **look))
        ink = readable_on(colour) if weights else "black"
        ax.text(left + width / 2, place + 0.5, word, color=ink, **centre)
    ax.text(2.1 + len(TOKENS), place + 0.5, row["sum"], weight="bold", **centre)
