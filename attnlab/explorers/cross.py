"""Explorer 13: cross-attention, where one text asks and another one is looked at."""

from __future__ import annotations

from typing import NamedTuple

import torch
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from torch import Tensor

from attnlab.attention import trace_attention
from attnlab.data import load_table
from attnlab.explorers._base import Explorer
from attnlab.explorers._controls import State, one_of
from attnlab.explorers._page import numbers
from attnlab.plotting import plot_attention

TABLE = "the_cat_sat_on_the_mat.csv"
TOKENS = ("The", "cat", "sat", "on", "the", "mat")
WISHES = {"who?": "animal", "doing what?": "action", "where?": "place"}
WISH = 4.0  # how strongly a question wishes for its feature
QUESTIONS = tuple(WISHES)
TIE = 0.005  # weights closer than this are called equal
ORANGE = "#c8500a"


class CrossResult(NamedTuple):
    """Cross-attention between three questions and six words.

    Attributes
    ----------
    queries, keys : tuple of str
        Who asks, L of them, and who is looked at, S of them.
    weights : Tensor, shape (L, S)
        One row per query.
    output : Tensor, shape (L, 5)
        One output per query, averaged over the values of the keys.
    picked : int
        The row that is looked at closely.
    """

    queries: tuple[str, ...]
    keys: tuple[str, ...]
    weights: Tensor
    output: Tensor
    picked: int


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

    module = "cross"
    figsize = (7.0, 3.4)

    asking = State("questions", one_of("questions", "words"))
    question = State(QUESTIONS[0], one_of(*QUESTIONS))
    word = State("cat", one_of(*TOKENS))

    @property
    def result(self) -> CrossResult:
        """Weights and outputs, by torch."""
        return _cross(self.asking, self.question if self.asking == "questions" else self.word)

    def make_data(self) -> dict[str, object]:
        """Return both tables, with outputs and a sentence for every row."""
        return {
            "features": load_table(TABLE).features,
            "questions": _sides("questions", QUESTIONS),
            "words": _sides("words", TOKENS),
        }

    def draw(self, fig: Figure) -> None:
        """Draw the table of weights; the row of the query is framed."""
        result = self.result
        labels = {"queries": list(result.queries), "keys": list(result.keys)}
        title = "rows ask, columns are looked at"
        ax = plot_attention(result.weights, ax=fig.subplots(), title=title, **labels)
        ax.set_aspect("auto")
        frame = {"fill": False, "edgecolor": ORANGE, "linewidth": 4, "clip_on": False}
        ax.add_patch(Rectangle((0, result.picked), len(result.keys), 1, **frame))

    def say(self) -> str:
        """Return whom the query looks at, and what adds up to 1."""
        return _sentence(self.result)


def _cross(asking: str, query: str) -> CrossResult:
    """Return the result with the row of one query picked."""
    table = load_table(TABLE)
    wished = [table.features.index(feature) for feature in WISHES.values()]
    texts = [(QUESTIONS, WISH * torch.eye(len(table.features))[wished]), (TOKENS, table.values)]
    (queries, x), (keys, y) = texts if asking == "questions" else reversed(texts)
    output, weights, _ = trace_attention(x, y, y)
    return CrossResult(queries, keys, weights, output, queries.index(query))


def _sides(asking: str, queries: tuple[str, ...]) -> dict[str, object]:
    """Return all that is shown while these queries ask."""
    results = [_cross(asking, query) for query in queries]
    return {
        "queries": queries,
        "keys": results[0].keys,
        "weights": numbers(results[0].weights),
        "output": numbers(results[0].output),
        "says": [_sentence(result) for result in results],
    }


def _sentence(result: CrossResult) -> str:
    row, shape = result.weights[result.picked], " by ".join(map(str, result.weights.shape))
    most = row.max().item()
    top = [key for key, w in zip(result.keys, row.tolist(), strict=True) if w > most - TIE]
    start = f"“{result.queries[result.picked]}” asks, and"
    rest = f"The table is {shape}: every row adds up to 1"
    if len(top) > 1:
        names = " and ".join(f"“{key}”" for key in top)
        names = "all alike" if len(top) == len(row) else f"{names} most"
        return f"{start} looks at {names} ({most:.2f} each). {rest}, a column need not."
    column = result.weights[:, result.keys.index(top[0])].sum().item()
    return (
        f"{start} looks at “{top[0]}” most ({most:.2f}). {rest}, "
        f"the column of “{top[0]}” to {column:.2f}."
    )
