"""Rotary positions: a query and a key that are turned by their positions, pair by pair."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from attnlab.explorers.frame.base import Explorer
from attnlab.explorers.frame.bundle import numbers, sendable
from attnlab.explorers.frame.controls import Choice, Slider
from attnlab.explorers.frame.panels import Axis, Curves, Line
from attnlab.explorers.frame.words import texts_beside
from attnlab.layers.positions import rotate
from attnlab.palette import BLUE, ORANGE

PAIRS = 4
PLACES = tuple(range(25))  # positions of the query and of the key
OFFSETS = tuple(range(1 - len(PLACES), len(PLACES)))
BASES = {10.0: "10", 100.0: "100", 10_000.0: "10,000", 1_000_000.0: "1,000,000"}
QUERY = (1.0, 0.0) * PAIRS  # one arrow to the right in each pair
KEY = (math.cos(0.5), -math.sin(0.5)) * PAIRS  # half a radian behind
SIDE = 1.35  # of each plane, from its middle

WORDS = texts_beside(__file__)["words"]


class RotaryResult(NamedTuple):
    """What two positions make of a query and a key."""

    query: Tensor  # (4, 2): the turned pairs of the query
    key: Tensor  # (4, 2): those of the key
    score: float  # their dot product
    curve: Tensor  # (49,): that score at each offset from -24 to 24


def at_places(vector: tuple[float, ...], base: float) -> Tensor:
    """Return a vector turned for each position, (25, 8), in double precision."""
    wide = torch.tensor(vector, dtype=torch.float64).expand(len(PLACES), -1)
    return rotate(wide, torch.tensor(PLACES), base=base)


def curve(base: float) -> Tensor:
    """Return the score at each offset, (49,)."""
    scores = at_places(QUERY, base) @ at_places(KEY, base).T  # (query, key)
    return torch.cat([scores[0].flip(0), scores[1:, 0]])


class RotaryExplorer(Explorer):
    """A query and a key with four pairs of features, each pair turned at a speed of its own.

    Parameters
    ----------
    **state
        ``query`` and ``key``: their positions, each from 0 to 24. ``base``: 10, 100, 10,000 or
        1,000,000. ``ask`` and ``large``, as in ``Explorer``.

    See Also
    --------
    attnlab.rotate : turns the queries and keys.
    """

    module = "rotary"
    figsize = (9.2, 4.4)
    query = Slider(5, PLACES, label="query at", spoken="position of the query", width=130)
    key = Slider(2, PLACES, label="key at", spoken="position of the key", width=130)
    base = Choice(10_000.0, BASES, label="base")
    panels = (
        Curves(
            "curve",
            "raw score at each offset",
            over="offset",
            stops=OFFSETS,
            labels=[str(offset).replace("-", "−") if offset % 8 == 0 else "" for offset in OFFSETS],
            lines=[Line("raw score", [0.0] * len(OFFSETS), "scaled", "solid", "circle")],
            y=Axis(-4, 4, {-4: "−4", -2: "−2", 0: "0", 2: "2", 4: "4"}),
            xlabel="offset: query − key",
            xscale="linear",
        ),
    )

    @property
    def result(self) -> RotaryResult:
        """Turned pairs, their score, and the score at every offset, by torch."""
        query, key = at_places(QUERY, self.base)[self.query], at_places(KEY, self.base)[self.key]
        pairs = (vector.view(PAIRS, 2) for vector in (query, key))
        return RotaryResult(*pairs, (query @ key).item(), curve(self.base))

    def make_data(self) -> dict[str, object]:
        """Return both vectors, the positions, the speeds and the words."""
        vectors = {"vectors": {"query": QUERY, "key": KEY}, "side": SIDE, "places": PLACES}
        speeds = [[base ** (-i / PAIRS) for i in range(PAIRS)] for base in BASES]
        bases = {"bases": list(BASES), "speeds": numbers(torch.tensor(speeds).double(), 12)}
        return sendable({**vectors, **bases, "words": WORDS})

    def say_rich(self) -> str:
        """Return the score, and which other positions have it."""
        offset = self.query - self.key
        count = len(PLACES) - abs(offset)
        pairs = WORDS["several" if count > 1 else "alone"].format(count=count)
        facts = {"query": self.query, "key": self.key, "offset": _signed(offset)}
        return WORDS["say"].format(**facts, score=_signed(self.result.score, 2), pairs=pairs)

    def draw(self, fig: Figure) -> None:
        """Draw a plane for each pair, and the score over the offset."""
        axes = fig.subplot_mosaic([[0, 1, "curve"], [2, 3, "curve"]], width_ratios=[1, 1, 2.4])
        result = self.result
        for pair in range(PAIRS):
            _draw_plane(axes[pair], pair, result.query[pair].tolist(), result.key[pair].tolist())
        fig.legend(*axes[0].get_legend_handles_labels(), loc="outside lower left", ncols=2)
        state = {**self.state(), "offset": self.query - self.key}
        self.panels[0].draw(axes["curve"], {"values": [result.curve.tolist()]}, state)


def _signed(number: float, digits: int = 0) -> str:
    """Return a number with a minus sign that is as wide as a plus; never minus zero."""
    text = f"{number:.{digits}f}"
    return text.lstrip("-") if not float(text) else text.replace("-", "−")


def _draw_plane(ax: Axes, pair: int, query: list[float], key: list[float]) -> None:
    arrows = {"query": (query, ORANGE, "-"), "key": (key, BLUE, "--")}
    for name, ((x, y), colour, dash) in arrows.items():
        ax.plot([0, x], [0, y], dash, color=colour, linewidth=2.5, label=name)
        ax.plot(x, y, "o", color=colour, markersize=7)
    ends = (-SIDE, SIDE)
    ax.set(xlim=ends, ylim=ends, aspect="equal", xticks=[], yticks=[], title=f"pair {pair}")
