"""One row of scores in two pieces: what each piece keeps, and how the two are joined."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor

from attnlab.explorers.frame.base import Explorer
from attnlab.explorers.frame.controls import Choice, Slider
from attnlab.explorers.frame.panels import Heatmap, Table
from attnlab.explorers.frame.words import counted

SCORES = (1.0, 3.0, 0.0, 2.0, -1.0, 3.0, 0.5, 2.0)  # the largest one occurs twice
VALUES = (6.0, 1.0, 8.0, 2.0, 4.0, 0.0, 9.0, 5.0)
CUTS = tuple(range(1, len(SCORES)))  # scores in the first piece
RIGHT, FORGOTTEN, WRONG_SIGN = FACTORS = ("right", "forgotten", "wrong sign")
FACTOR_CODE = {
    RIGHT: "(piece.max() - top).exp()",
    FORGOTTEN: "1  # forgotten",
    WRONG_SIGN: "(top - piece.max()).exp()  # the wrong sign",
}
STEPS = ("exp", "× factor", "÷ total", "softmax")  # the last one takes the whole row


class PiecesResult(NamedTuple):
    """What two pieces keep, and what becomes of it when they are joined; S = 8 keys."""

    tops: Tensor  # (2,): the largest score of each piece
    totals: Tensor  # (2,): sum of exp(score - top) in each piece
    outputs: Tensor  # (2,): sum of exp(score - top) times value in each piece
    factors: Tensor  # (2,): what multiplies the total and the output of each piece
    top: Tensor  # (): the largest score of both
    total: Tensor  # (): sum of both totals, each times its factor
    output: Tensor  # (): sum of both outputs, each times its factor, divided by the total
    terms: Tensor  # (3, S): exp(score - top of its piece), that times the factor, and the weights


@cache
def join(cut: int, factor: str) -> PiecesResult:
    """Return what the pieces before and after a cut give together, in double precision."""
    scores, values = torch.tensor([SCORES, VALUES], dtype=torch.float64)
    pieces, sizes = scores.tensor_split([cut]), torch.tensor([cut, len(SCORES) - cut])
    tops = torch.stack([piece.max() for piece in pieces])
    falls = {RIGHT: 1, FORGOTTEN: 0, WRONG_SIGN: -1}[factor] * (tops - scores.max())
    factors = falls.exp()
    terms = (scores - tops.repeat_interleave(sizes)).exp()
    kept = [
        torch.stack([part.sum() for part in x.tensor_split([cut])]) for x in (terms, terms * values)
    ]
    total, output = (factors @ parts for parts in kept)
    shrunk = terms * factors.repeat_interleave(sizes)
    joined = scores.max(), total, output / total
    return PiecesResult(tops, *kept, factors, *joined, torch.stack([terms, shrunk, shrunk / total]))


class PiecesExplorer(Explorer):
    """One row of eight scores, cut in two: tops, totals, outputs, and the factors that join them.

    Parameters
    ----------
    **state
        ``cut``: how many scores the first piece has, 1 to 7. ``factor``: "right", "forgotten" or
        "wrong sign". ``ask`` and ``large``, as in ``Explorer``.

    See Also
    --------
    attnlab.tiled_attention : joins many pieces of many rows.
    """

    figsize = (7.4, 2.9)
    cut = Slider(3, CUTS, label="cut after", spoken="scores in the first piece", width=160)
    factor = Choice(RIGHT, FACTORS, label="factor")
    panels = (
        Heatmap(
            "row",
            "from scores to weights",
            under="exp: of the score minus the top of its piece; softmax: of the whole row",
            rows=STEPS,
            caption="The scores of both pieces, on their way to weights",
            grow=1.7,
        ),
        Table("kept", "what is kept", caption="Both pieces, both joined, and the whole row"),
    )

    @property
    def result(self) -> PiecesResult:
        """Both pieces, and both joined, by torch."""
        return join(self.cut, self.factor)

    def frame(self, cut: int, factor: str) -> dict[str, object]:
        """Return the row with a gap at the cut, and what each piece keeps."""
        result, whole = join(cut, factor), join(cut, RIGHT)
        cells = torch.cat([result.terms, whole.terms[-1:]])
        gap = torch.zeros(len(STEPS), 1, dtype=cells.dtype)
        cells = torch.cat([cells[:, :cut], gap, cells[:, cut:]], dim=1)
        scores = [f"{score:g}".replace("-", "−") for score in SCORES]
        texts = [[f"{cell:.2f}".lstrip("0") for cell in row] for row in cells.tolist()]
        bad = is_wrong(cut, factor)
        return {
            "say": sentence(cut, factor),
            "bad": bad,
            "code": code(cut, factor),
            "row": {
                "columns": [*scores[:cut], "✂", *scores[cut:]],
                "looks": [["gap" if i == cut else "" for i in range(len(SCORES) + 1)]] * len(STEPS),
                "cells": cells,
                "texts": [[*row[:cut], "", *row[cut + 1 :]] for row in texts],
            },
            "kept": {"head": HEAD, "body": table(result, whole, bad)},
        }


def is_wrong(cut: int, factor: str) -> bool:
    """Return whether the pieces give something else than the whole row."""
    return not torch.allclose(join(cut, factor).output, join(cut, RIGHT).output)


# --- words ----------------------------------------------------------------------------------------

HEAD = ("", "first", "second", "joined", "whole")


def table(result: PiecesResult, whole: PiecesResult, bad: bool) -> list[list[object]]:
    """Return the rows of the table; what a wrong factor has spoiled is marked."""

    def compared(joined: Tensor, right: Tensor) -> list[object]:
        return [(f"{text(joined)} ✗", "raw") if bad else text(joined), text(right)]

    tops = [f"{top:g}" for top in (*result.tops, result.top, whole.top)]
    outputs = compared(result.output * result.total, whole.output * whole.total)
    return [
        ["top", *tops],
        ["factor", *map(text, result.factors), "", ""],
        ["total", *map(text, result.totals), *compared(result.total, whole.total)],
        ["output", *map(text, result.outputs), *outputs],
        ["output ÷ total", "", "", *compared(result.output, whole.output)],
    ]


def text(number: Tensor) -> str:
    """Return a number as it is shown: three decimals."""
    return f"{number.item():.3f}"


def sentence(cut: int, factor: str) -> str:
    """Return how the pieces fit together, and what comes out."""
    result, whole = join(cut, factor), join(cut, RIGHT)
    start = f"**Cut after {counted(cut, 'score')}:**"
    ends = f"the output is **{text(result.output)}**"
    low, high = sorted(whole.tops.tolist())
    if low == high:
        tells = "" if factor == RIGHT else ", and the mistake changes nothing"
        return (
            f"{start} both pieces have the top {high:g}, so both factors are 1{tells}. Joined, "
            f"{ends}, as for the whole row."
        )
    name = "first" if whole.tops[0] == low else "second"
    shrink = f"shrink by the factor e^({low:g}\u00a0−\u00a0{high:g}) = {text(whole.factors.min())}"
    if factor == RIGHT:
        return (
            f"{start} the {name} piece has the lower top, so its total and its output {shrink}. "
            f"Joined, {ends}, as for the whole row."
        )
    grown = text(result.factors.max())
    does = {FORGOTTEN: "Without it,", WRONG_SIGN: f"With the wrong sign they grow by {grown}, so"}
    return (
        f"{start} the total and the output of the {name} piece should {shrink}. {does[factor]} "
        f"{ends} instead of {text(whole.output)}. No error is raised."
    )


def code(cut: int, factor: str) -> str:
    """Return the lines of PyTorch, which hold one piece at a time."""
    sizes = [cut, len(SCORES) - cut]
    return (
        f"scores = torch.tensor({list(SCORES)})\n"
        f"value = torch.tensor({list(VALUES)})\n"
        "top, total, output = scores.max(), 0, 0\n"
        f"for piece, values in zip(scores.split({sizes}), value.split({sizes})):\n"
        "    terms = (piece - piece.max()).exp()\n"
        f"    factor = {FACTOR_CODE[factor]}\n"
        "    total = total + factor * terms.sum()\n"
        "    output = output + factor * (terms @ values)\n"
        "output = output / total"
    )
