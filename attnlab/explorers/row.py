"""One row of attention by hand, from the dot products to the output."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import torch
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle
from torch import Tensor

from attnlab import palette
from attnlab._matrix import BLOCKED_COLOUR, BLOCKED_HATCH
from attnlab.display.table import Table, load_table
from attnlab.explorers.frame import panels
from attnlab.explorers.frame.base import Explorer
from attnlab.explorers.frame.controls import Choice, Steps
from attnlab.explorers.frame.panels import Panel, stacked
from attnlab.explorers.frame.words import listed
from attnlab.masks import causal_mask

TOKENS = ("He", "is", "awesome")  # those of lesson 1
MASKS = ("none", "causal")
STEPS = ("q · k", "÷ √4", "mask", "exp", "add up", "÷ sum", "× value")
WEIGHTS_STEP = 1 + STEPS.index("÷ sum")
ASKED_QUERY = "awesome"  # the prediction asks for the weight that it gives to itself


class RowResult(NamedTuple):
    """Everything that one query computes, step by step; S = 3 keys, Ev = 4 features."""

    raw: Tensor  # (3,): dot products with the keys
    scores: Tensor  # (3,): raw scores divided by the root of 4
    mask: Tensor  # (3,): True where the query may attend to the key
    masked: Tensor  # (3,): scores, -inf where the mask blocks
    positive: Tensor  # (3,): e to the masked scores
    total: Tensor  # (): their sum
    weights: Tensor  # (3,): shares of the sum
    products: Tensor  # (3, 4): weight times value, key by key
    output: Tensor  # (4,): sum of the products


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


@dataclass(frozen=True, kw_only=True)
class Strips(Panel):
    """A table with a row of cells for each step, filled as far as the steps are taken.

    Values of a frame: ``rows``, each with its ``step``, the texts of its ``cells``, their
    ``looks``, their ``weights`` (to be coloured, if any) and their ``sum``; ``asked``, the step and
    the key of the cell that the prediction asks for, if it does.
    """

    kind: str = "strips"
    over: str
    steps: Sequence[str]
    columns: Sequence[str]

    def draw(self, ax: Axes, values: Mapping[str, object], state: Mapping[str, object]) -> None:
        """Draw the rows of the steps that are taken, and the frames of the others."""
        rows = values["rows"]
        ax.set(xlim=(0, 5.6), ylim=(len(rows), -1), title=f"query: {state['query']}")
        ax.axis("off")
        for column, word in enumerate((*self.columns, "sum")):
            ax.text(2.1 + column, -0.4, word, ha="center", va="center", weight="bold")
        for place, row in enumerate(rows):
            if row["step"] < len(self.steps) or place == len(self.steps) - 1:  # the last has four
                name = f"{row['step']}  {self.steps[row['step'] - 1]}"
                ax.text(0, place + 0.5, name, weight="bold", va="center")
            self._draw_row(ax, place, row, row["step"] <= state[self.over])

    def _draw_row(self, ax: Axes, place: int, row: Mapping[str, object], taken: bool) -> None:
        centre, width = {"ha": "center", "va": "center"}, len(self.columns) / len(row["cells"])
        for column, word in enumerate(row["cells"]):
            look, ink = {"facecolor": palette.ROLES["paper"].light, "edgecolor": palette.LINE}, None
            if taken and row["weights"] is not None:
                shade = palette.shade(row["weights"][column].item())
                look["facecolor"], ink = palette.to_hex(shade), palette.ink_on(shade)
            if taken and row["looks"][column]:
                look |= {"facecolor": BLOCKED_COLOUR, "hatch": BLOCKED_HATCH}
            left = 1.6 + width * column
            ax.add_patch(Rectangle((left + 0.03, place + 0.06), width - 0.06, 0.88, **look))
            ax.text(left + width / 2, place + 0.5, word if taken else "", color=ink, **centre)
        if row["sum"]:
            right = 1.6 + len(self.columns)
            frame = {"fill": False, "edgecolor": palette.LINE, "linestyle": "--"}
            ax.add_patch(Rectangle((right + 0.03, place + 0.06), 0.94, 0.88, **frame))
            total = row["sum"] if taken else ""
            ax.text(right + 0.5, place + 0.5, total, weight="bold", **centre)


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

    figsize = (7.4, 3.8)
    code_title = "The same in PyTorch (True = may attend)"
    step = Steps(1, range(1, len(STEPS) + 1), label="step")
    query = Choice(ASKED_QUERY, TOKENS, label="query")
    mask = Choice("none", MASKS, label="mask")
    panels = (
        Strips("strips", over="step", steps=STEPS, columns=TOKENS, grow=1.3),
        stacked(
            panels.Table("inputs", "query = key = value", caption="Four features of each token"),
            Panel("hand", kind="lines"),
        ),
    )

    @property
    def result(self) -> RowResult:
        """All steps of this query by torch, also those that are not shown yet."""
        return compute(self.query, self.mask)

    def frame(self, mask: str, query: str, step: int) -> dict[str, object]:
        """Return the rows of cells, the step written out, and the lines up to it."""
        result = compute(query, mask)
        asked = {"step": WEIGHTS_STEP, "key": TOKENS.index(ASKED_QUERY)}
        return {
            "say": sentences(query, mask, result)[step - 1],
            "bad": False,
            "code": "\n".join(code_lines(query, mask)[:step]),
            "strips": {
                "rows": table_rows(result),
                "asked": asked if (query, mask) == (ASKED_QUERY, "none") else None,
            },
            "inputs": {
                "head": ["", *(f"f{feature}" for feature in range(len(table().features))), ""],
                "body": [
                    [
                        token,
                        *((f"{value:.1f}", "now" if token == query else "") for value in row),
                        "◀ query" if token == query else "",
                    ]
                    for token, row in zip(TOKENS, table().values.tolist(), strict=True)
                ],
            },
            "hand": {
                "title": f"step {step} of {len(STEPS)}, by hand",
                "lines": by_hand(query, result)[step - 1],
            },
        }


def table_rows(result: RowResult) -> list[dict[str, object]]:
    """Return the rows of ``Strips``."""

    def row(step: int, cells: list[str], total: str = "", weights: Tensor | None = None) -> dict:
        looks = ["blocked" if cell == "−∞" else "" for cell in cells]
        return {"step": step, "cells": cells, "looks": looks, "weights": weights, "sum": total}

    rows = [result.raw, result.scores, result.masked, result.positive]
    return [
        *(row(step, texts(values)) for step, values in enumerate(rows, 1)),
        row(5, [f"{_plus(result.positive)} ="], text(result.total)),
        row(6, texts(result.weights), text(result.weights.sum()), result.weights),
        *(
            row(7, texts(products), text(output))
            for products, output in zip(result.products.T, result.output, strict=True)
        ),
    ]


# --- words ----------------------------------------------------------------------------------------


def by_hand(query: str, result: RowResult) -> list[list[str]]:
    """Return the arithmetic of each step, written out for every key or every feature."""
    x = table().values
    own = x[TOKENS.index(query)]
    raw, scores, positive, weights = map(
        texts, (result.raw, result.scores, result.positive, result.weights)
    )
    total = text(result.total)
    stays = [
        f"not blocked, stays {score}" if may else f"blocked, {score} becomes −∞"
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
    blocked = [f"“{token}”" for token, may in zip(TOKENS, result.mask, strict=True) if not may]
    masked = "There is no mask, so the query may attend to every key, and nothing changes."
    if mask == "causal" and not blocked:
        masked = f"The causal mask blocks **nothing** here, because no key comes after “{query}”."
    elif blocked:
        become = "score of {} becomes" if len(blocked) == 1 else "scores of {} become"
        masked = f"The causal mask blocks later keys: the {become.format(listed(blocked))} **−∞**."
    order = "Raising e to the power of each score gives positive numbers in the same order"
    best = TOKENS[result.weights.argmax()]
    most = "all" if len(blocked) == 2 else "the largest weight"
    raw, scores = listed(texts(result.raw)), listed(texts(result.scores))
    largest, together = text(result.weights.max()), text(result.weights.sum())
    return [
        f"“{query}” is compared with every key: the raw scores are **{raw}**.",
        f"Dividing by √4 = 2 brings the scores closer together: **{scores}**.",
        masked,
        f"{order}, but e to the power of −∞ is **0**." if blocked else f"{order}.",
        f"Their sum is **{text(result.total)}**. Each key gets a share of it.",
        f"Steps 4 to 6 are the **softmax**: “{best}” gets {most}, "
        f"**{largest}**, and the weights sum to **{together}**.",
        f"The output of “{query}” is **{listed(texts(result.output))}**: a weighted average "
        "of the three values.",
    ]


def text(value: Tensor) -> str:
    """Return a number as it is shown: three decimals."""
    return f"{value.item():.3f}".replace("-inf", "−∞")


def texts(values: Tensor) -> list[str]:
    """Return numbers as they are shown."""
    return [text(value) for value in values]


def _plus(values: Tensor) -> str:
    return " + ".join(texts(values))


def _products(left: Tensor, right: Tensor, decimals: int = 3) -> str:
    pairs = zip(left.tolist(), right.tolist(), strict=True)
    return " + ".join(f"{a:.{decimals}f}·{b:.1f}" for a, b in pairs)
