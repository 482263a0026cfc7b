"""Panels: what an explorer's picture is made of, declared once and drawn twice.

A panel is a kind of picture with all that stays the same. What changes with the state comes from
``Explorer.frame`` under the panel's ``key``: a dict with the values listed for each kind below, and
with ``title``, ``under``, ``role`` or any other field of the panel where that changes as well. The
browser draws panels in ``js/panels.mjs``; ``draw`` here draws the same on matplotlib axes, for the
still picture. Panels without ``draw`` (words, keys, small ornaments) are for the browser alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, asdict, dataclass, fields, replace
from typing import ClassVar

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from attnlab import palette
from attnlab._labels import spell
from attnlab.plotting import WEIGHT_COLOURS, plot_attention, plot_sweep

DASHES = {"solid": "-", "dashed": "--", "dotted": ":", "dashdot": "-."}
MARKERS = {"circle": "o", "square": "s", "triangle": "^", "diamond": "D"}


@dataclass(frozen=True)
class Panel:
    """One part of a picture."""

    key: str = ""  # the name of its values in a frame
    title: str = ""
    _: KW_ONLY
    kind: str = ""  # which function of ``js/panels.mjs`` or ``js/special.mjs`` draws it
    under: str = ""  # a line in smaller letters below the title
    role: str = ""  # the colour, in ``attnlab.palette``, of the title and the frame
    grow: float = 1  # its share of the width
    still: bool = True  # whether the still picture has it, if it can be drawn there
    in_legend: ClassVar[bool] = False  # of the still picture

    def describe(self) -> dict[str, object]:
        """Return the panel for the browser."""
        return asdict(self)

    def at(self, values: Mapping[str, object]) -> Panel:
        """Return the panel with the fields that the values of a frame replace."""
        own = {field.name for field in fields(self)}
        return replace(self, **{name: value for name, value in values.items() if name in own})


@dataclass(frozen=True, kw_only=True)
class Column(Panel):
    """Panels below each other."""

    kind: str = "column"
    panels: tuple[Panel, ...] = ()

    def describe(self) -> dict[str, object]:
        """Return the panels for the browser."""
        return {**super().describe(), "panels": [panel.describe() for panel in self.panels]}


def stacked(*panels: Panel, grow: float = 1) -> Column:
    """Return panels below each other."""
    return Column(panels=panels, grow=grow)


@dataclass(frozen=True, kw_only=True)
class Heatmap(Panel):
    """A matrix of numbered cells, queries down and keys across.

    Values of a frame: ``cells`` (Tensor), ``looks`` (for each cell "", "blocked", "leak", "nan",
    "allowed", or two of them), ``texts`` (instead of the numbers); ``rows`` and
    ``columns`` where they change.
    """

    kind: str = "heatmap"
    rows: Sequence[str] = ()  # names of queries
    columns: Sequence[str] = ()  # names of keys
    # for those who cannot see the table
    caption: str = "Attention weights: rows are queries, columns are keys"
    scale: tuple[float, float] = (0.0, 1.0)  # the numbers that are white and darkest blue
    measure: str = "weight"  # label of the colour scale; "" if there is none

    def draw(self, ax: Axes, values: Mapping[str, object], _state: Mapping[str, object]) -> None:
        """Draw the cells; blocked ones are hatched, NaN is crossed."""
        cells = torch.as_tensor(values["cells"])
        looks = values.get("looks")
        mask = None if looks is None else torch.tensor([[c != "blocked" for c in r] for r in looks])
        labels = {"queries": list(self.rows), "keys": list(self.columns)}
        low, high = self.scale
        texts = values.get("texts")
        look = {"attn_mask": mask, "title": self.title, "vmin": low, "vmax": high}
        plot_attention(cells, ax=ax, annotate=None if texts is None else False, **labels, **look)
        for (i, j), number in np.ndenumerate(cells.numpy() if texts else np.empty((0, 0))):
            ink = palette.ink_on(palette.shade((float(number) - low) / (high - low)))
            ax.text(j + 0.5, i + 0.5, texts[i][j], ha="center", va="center", size=9, color=ink)
        if self.measure == "output" or texts:  # not of queries and keys
            ax.set(xlabel="", ylabel="")


@dataclass(frozen=True, kw_only=True)
class Maps(Panel):
    """Small maps of all heads: point at one to see it, click to keep it.

    Values of a frame: ``maps`` (Tensor, heads by rows by columns), ``asks`` (a row to be marked).
    """

    kind: str = "maps"
    over: str

    def draw(self, ax: Axes, values: Mapping[str, object], state: Mapping[str, object]) -> None:
        """Draw the maps in a square, row after row, with a mark at the one that is kept."""
        maps = torch.as_tensor(values["maps"])
        across, size = math.ceil(math.sqrt(len(maps))), maps.shape[-1]
        for head, weights in enumerate(maps):
            left, top = head % across * (size + 1), head // across * (size + 2)
            place = (left, left + size, top + size, top)
            ax.imshow(weights.numpy(), extent=place, cmap=WEIGHT_COLOURS, vmin=0, vmax=1)
            for row in weights.isnan().any(dim=-1).nonzero().flatten().tolist():
                corner, high = (left, top + row), {"height": 1, "hatch": "xxxx"}
                ax.add_patch(Rectangle(corner, size, **high, fill=False, ec=palette.ORANGE, lw=0))
            mark = "▸ " if head == state[self.over] else ""
            ax.text(left, top - 0.3, f"{mark}head {head}", fontsize=9)
        ax.set(xlim=(-0.5, across * (size + 1)), ylim=(-(-len(maps) // across) * (size + 2), -2))
        ax.set_axis_off()
        ax.set_title(self.title)


@dataclass(frozen=True)
class Line:
    """One curve: told apart by colour, dash and mark."""

    name: str  # in the legend
    values: Sequence[float]  # one for each stop; a frame may have others
    role: str  # a colour of ``attnlab.palette``
    dash: str  # a key of DASHES
    dot: str  # a key of MARKERS


@dataclass(frozen=True)
class Axis:
    """The axis of values of a chart: its ends, labelled ticks, and whether it is logarithmic."""

    low: float
    high: float
    ticks: Mapping[float, str] | Sequence[float]
    log: bool = False

    def labelled(self) -> list[tuple[float, str]]:
        """Return each tick with its label."""
        if isinstance(self.ticks, Mapping):
            return list(self.ticks.items())
        return [(tick, f"{tick:g}") for tick in self.ticks]


@dataclass(frozen=True, kw_only=True)
class Curves(Panel):
    """Curves over the values of one state; pointing at them previews a value, a click keeps it.

    Values of a frame: ``values`` (for each line its numbers, where they change), ``current`` (the
    line that is not pale).
    """

    kind: str = "curves"
    in_legend: ClassVar[bool] = True
    over: str  # name of a state
    stops: Sequence[float]  # its values, in order
    lines: Sequence[Line]
    y: Axis
    labels: Sequence[str] = ()  # texts under the axis, "" for none; each second stop if not given
    xlabel: str = ""
    ylabel: str = ""
    xscale: str = "log"
    keyed: bool = True  # whether the browser names the lines below the chart

    def describe(self) -> dict[str, object]:
        """Return the chart for the browser."""
        y = {**asdict(self.y), "ticks": self.y.labelled()}
        return {**super().describe(), "labels": self._labels(), "y": y}

    def _labels(self) -> Sequence[str]:
        return self.labels or ["" if i % 2 else f"{x:g}" for i, x in enumerate(self.stops)]

    def draw(self, ax: Axes, values: Mapping[str, object], state: Mapping[str, object]) -> None:
        """Draw all curves and mark the stop in force."""
        given = values.get("values") or [line.values for line in self.lines]
        curves = {line.name: list(curve) for line, curve in zip(self.lines, given, strict=True)}
        yscale = "log" if self.y.log else "linear"
        texts = {"xlabel": self.xlabel, "ylabel": self.ylabel, "title": self.title}
        scales = {"xscale": self.xscale, "yscale": yscale, "at": state[self.over]}
        plot_sweep(self.stops, curves, ax=ax, **texts, **scales)
        if legend := ax.get_legend():  # the figure has one for all its axes
            legend.remove()
        for line, drawn in zip(self.lines, ax.lines, strict=False):
            colour = palette.ROLES[line.role].light
            drawn.set(color=colour, linestyle=DASHES[line.dash], marker=MARKERS[line.dot])
        stops = [pair for pair in zip(self.stops, self._labels(), strict=True) if pair[1]]
        ax.set_xticks(*zip(*stops, strict=True))
        ax.set_yticks(*zip(*self.y.labelled(), strict=True))
        ax.set_ylim(self.y.low, self.y.high * (1 if self.y.log else 1.03))


@dataclass(frozen=True, kw_only=True)
class Bars(Panel):
    """Weights as bars, a row for each key.

    Values of a frame: ``weights`` (Tensor), ``outline`` (other weights, drawn dashed), ``columns``
    (where their texts change).
    """

    kind: str = "bars"
    in_legend: ClassVar[bool] = True
    head: str = "key"  # what the names are
    names: Sequence[str] = ()  # the keys
    caption: str = "Attention weights of one query"
    columns: Mapping[str, Sequence[str]] = ()  # further columns: heading and texts
    digits: int = 2  # decimals of the numbers
    filled: str = ""  # what full bars are
    outlined: str = ""  # what dashed bars are

    def draw(self, ax: Axes, values: Mapping[str, object], _state: Mapping[str, object]) -> None:
        """Draw a bar for each key, the first one on top."""
        weights = torch.as_tensor(values["weights"]).double()
        outline = torch.as_tensor(values.get("outline", weights)).double()
        places = range(len(self.names))
        ax.barh(places, weights.tolist(), color=palette.BLUE, label=self.filled)
        if "outline" in values:
            look = {"fill": False, "edgecolor": palette.ORANGE, "linestyle": "--", "linewidth": 1.6}
            ax.barh(places, outline.tolist(), label=self.outlined, **look)
        for place, end in enumerate(weights.maximum(outline).nan_to_num().tolist()):
            ax.text(end + 0.02, place, f"{weights[place]:.{self.digits}f}", va="center")
        names = zip(self.names, *dict(self.columns).values(), strict=True)
        (title, *texts), font = spell([self.title, *("   ".join(texts) for texts in names)])
        ax.set_yticks(places, texts, parse_math=False, **font)
        ax.set_title(title, parse_math=False, wrap=True, **font)
        ax.set(xlim=(0, 1.2), xticks=[0, 0.5, 1])
        ax.invert_yaxis()


@dataclass(frozen=True, kw_only=True)
class Table(Panel):
    """A table of words and numbers, with headings.

    Values of a frame: ``head`` (texts, "" for an empty corner) and ``body`` (rows of texts, their
    first one being the heading of the row). Words between two stars are bold, a line after the
    first is small, and a text may be a pair (text, look): a role, or "now" for a frame.
    """

    kind: str = "table"
    caption: str = ""


@dataclass(frozen=True, kw_only=True)
class Picture(Panel):
    """A picture that Python has drawn.

    Value of a frame: ``png``, in base64.
    """

    kind: str = "picture"
    alt: str
    width: int  # in CSS pixels, where there is room


@dataclass(frozen=True, kw_only=True)
class Key(Panel):
    """How to read the picture: pairs of a look and what it means.

    The looks are "ramp", "blocked", "nan", "leak" and those of special panels.
    """

    kind: str = "key"
    entries: Sequence[tuple[str, str]] = ()


def how_to_read(*entries: tuple[str, str]) -> Key:
    """Return the key of some looks and what they mean."""
    return Key(entries=entries)
