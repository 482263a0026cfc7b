"""Cross-attention, where one text asks and another one is looked at."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from attnlab.attention import trace_attention
from attnlab.display.table import load_table
from attnlab.explorers.frame.base import Explorer
from attnlab.explorers.frame.controls import Choice, Picked
from attnlab.explorers.frame.panels import Heatmap, Panel, stacked
from attnlab.explorers.frame.words import FEATURES, TABLE, TOKENS, largest

WISHES = {"who?": "animal", "doing what?": "action", "where?": "place"}
WISH = 4.0  # how strongly a question wishes for its feature
QUESTIONS = tuple(WISHES)
OUTPUTS = (0.0, 3.5)  # the colours of outputs


class CrossResult(NamedTuple):
    """Cross-attention between three questions and six words."""

    queries: tuple[str, ...]  # who asks, L of them
    keys: tuple[str, ...]  # who is looked at, S of them
    weights: Tensor  # (L, S): one row per query
    output: Tensor  # (L, 5): one output per query, averaged over the values of the keys
    picked: int  # the row that is looked at closely


class CrossExplorer(Explorer):
    """Three questions ask six words, or the other way round: a table that is not square.

    Parameters
    ----------
    **state
        ``asking``: "questions" or "words", who has the queries. ``question`` and ``word``: the one
        whose row is shown, when it is the one to ask. ``ask`` and ``large``, as in ``Explorer``.

    See Also
    --------
    attnlab.trace_attention : weights and output, from queries and keys of any two texts.
    """

    figsize = (7.0, 4.6)
    asking = Choice("questions", ("questions", "words"), label="queries are the")
    question = Picked(QUESTIONS[0], QUESTIONS)
    word = Picked("cat", TOKENS)
    panels = (
        Panel(kind="crossing", key="lines"),
        stacked(
            Heatmap(
                key="weights",
                picks="question",
                caption="Weights: rows ask, columns are looked at",
                cell="query “{row}”, key “{column}”: weight {number}",
                sum_title="sum",
                sum_width=3.3,
            ),
            Heatmap(
                key="output",
                caption="Outputs, one per query",
                columns=FEATURES,
                scale=OUTPUTS,
                measure="output",
            ),
            grow=2.2,
        ),
    )

    @property
    def result(self) -> CrossResult:
        """Weights and outputs, by torch."""
        return _cross(self.asking, self.question if self.asking == "questions" else self.word)

    def frame(self, asking: str, question: str, word: str) -> dict[str, object]:
        """Return both tables and the lines, with the row of one query picked."""
        picks, query = ("question", question) if asking == "questions" else ("word", word)
        result = _cross(asking, query)
        queries, keys, weights, output, picked = result
        shape, features = tuple(weights.shape), len(FEATURES)
        rows = {"rows": queries, "picked": picked}
        return {
            "say": sentence(result),
            "bad": False,
            "code": code(asking, result),
            "lines": {
                "texts": ("asks: query", "is looked at: key and value"),
                "queries": queries,
                "keys": keys,
                "picked": picked,
                "picks": picks,
                "weights": weights[picked],
            },
            "weights": {
                **rows,
                "title": f"Weights {shape}",
                "columns": keys,
                "cells": weights,
                "sums": [("✓ 1", True)] * len(queries),
                "picks": picks,
            },
            "output": {
                **rows,
                "title": f"Output {(len(queries), features)}: one per query",
                "cells": output,
            },
        }


def _cross(asking: str, query: str) -> CrossResult:
    """Return the result with the row of one query picked."""
    wished = [FEATURES.index(feature) for feature in WISHES.values()]
    wishes, words = WISH * torch.eye(len(FEATURES))[wished], load_table(TABLE).values
    texts = [(QUESTIONS, wishes), (TOKENS, words)]
    (queries, x), (keys, y) = texts if asking == "questions" else reversed(texts)
    output, weights, _ = trace_attention(x, y, y)
    return CrossResult(queries, keys, weights, output, queries.index(query))


def sentence(result: CrossResult) -> str:
    """Return whom the query looks at, and what adds up to 1."""
    row, shape = result.weights[result.picked], " by ".join(map(str, result.weights.shape))
    most = row.max().item()
    top = [result.keys[place] for place in largest(row.tolist())]
    start = f"“{result.queries[result.picked]}” asks, and"
    rest = f"The table is {shape}: **every row adds up to 1**"
    if len(top) > 1:
        names = " and ".join(f"“{key}”" for key in top)
        names = "all alike" if len(top) == len(row) else f"{names} most"
        return f"{start} looks at {names} ({most:.2f} each). {rest}, but a column need not."
    column = result.weights[:, result.keys.index(top[0])].sum().item()
    return (
        f"{start} looks at “{top[0]}” most ({most:.2f}). {rest}, "
        f"and the column of “{top[0]}” adds up to {column:.2f}."
    )


def code(asking: str, result: CrossResult) -> str:
    """Return the lines of PyTorch."""
    query, key = ("question_x", "x") if asking == "questions" else ("x", "question_x")
    count, others = result.weights.shape
    return (
        f"query, key = {query}, {key}  # ({count}, 5), ({others}, 5)\n"
        f"weights = (query @ key.T / 5 ** 0.5).softmax(dim=-1)  # ({count}, {others})\n"
        f"output = weights @ key  # ({count}, 5)\n"
        f"weights[{result.picked}], output[{result.picked}]  # {result.queries[result.picked]}"
    )
