"""Diagrams of attention, of its inputs and of its place in a Transformer: boxes and arrows.

What each one holds stands in ``diagrams.toml``.
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.patches import FancyBboxPatch, Rectangle

from attnlab._cells import check_axes
from attnlab.palette import INK, RAMP, ROLES, to_hex

DIAGRAMS = tomllib.loads(Path(__file__).with_name("diagrams.toml").read_text(encoding="utf-8"))
COLOURS = {
    "data": ROLES["paper"].light,  # tensors at the input and the output
    "step": to_hex(RAMP[2]),  # the steps that the lessons explain
    "other": ROLES["hatched"].light,  # the rest of the Transformer
    "cool": ROLES["cool"].light,  # two of a kind, such as slow and fast memory
    "warm": ROLES["warm"].light,
    "none": "none",
}
HEADS = tuple(ROLES[role].light for role in ("good", "focus", "other"))


class Box(NamedTuple):
    """A labelled box; x and y are its centre."""

    x: float
    y: float
    text: str
    colour: str
    width: float = 1.7
    height: float = 0.62


def draw_attention_steps(*, ax: Axes | None = None) -> Axes:
    """Draw the steps of scaled dot-product attention for six words of five features.

    Parameters
    ----------
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure if not given.

    Returns
    -------
    matplotlib.axes.Axes
        Data flow from left to right, with the shape of every tensor.

    See Also
    --------
    attnlab.scaled_dot_product_attention : the function that is drawn.
    """
    return _draw("attention_steps", ax)


def draw_transformer_block(*, ax: Axes | None = None) -> Axes:
    """Draw the place of attention in a Transformer: one block with its two residual connections.

    Parameters
    ----------
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure if not given.

    Returns
    -------
    matplotlib.axes.Axes
        Data flow from left to right; attention is coloured.

    See Also
    --------
    torch.nn.TransformerEncoderLayer : a whole block (``norm_first=True`` is this order).
    """
    return _draw("transformer_block", ax)


def draw_residual_stream(*, ax: Axes | None = None) -> Axes:
    """Draw a residual stream: two layers read from it, and each adds its output to it.

    Parameters
    ----------
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure if not given.

    Returns
    -------
    matplotlib.axes.Axes
        Data flow from left to right; the attention layers are coloured.

    See Also
    --------
    attnlab.looking_back.LookingBack : the model that is drawn.
    """
    return _draw("residual_stream", ax)


def draw_two_looks(*, ax: Axes | None = None) -> Axes:
    """Draw the two looks of lesson 12: a note is written, and then it is found.

    Parameters
    ----------
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure if not given.

    Returns
    -------
    matplotlib.axes.Axes
        Above, B looks at the Z before it and takes a note; below, the last Z looks for the note.

    See Also
    --------
    draw_residual_stream : where the note is kept.
    """
    return _draw("two_looks", ax)


def draw_projections(*, ax: Axes | None = None) -> Axes:
    """Draw how one row of numbers becomes a query, a key and a value, and where these three go.

    Parameters
    ----------
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure if not given.

    Returns
    -------
    matplotlib.axes.Axes
        Data flow from left to right; the three matrices are coloured.

    See Also
    --------
    attnlab.SelfAttention : a layer with three such matrices.
    """
    return _draw("projections", ax)


def draw_multi_head_attention(*, ax: Axes | None = None) -> Axes:
    """Draw multi-head attention with three heads and the shape of every tensor.

    Parameters
    ----------
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure if not given.

    Returns
    -------
    matplotlib.axes.Axes
        Data flow from left to right; each head has a colour, and so has its part of every tensor.

    See Also
    --------
    attnlab.MultiHeadAttention : the layer that is drawn.
    """
    ax = _draw("multi_head_attention", ax)
    _, *parts, merged, _ = _boxes("multi_head_attention")
    projected, heads = parts[:3], parts[3:]
    for head, colour in zip(heads, HEADS, strict=True):
        _stripes(ax, head, [colour])
        lane = (head.y - merged.y) / 5  # arrows of the same box lie apart
        for row, part in enumerate(projected):
            start, end = part.x + part.width / 2, head.x - head.width / 2
            _arrow(ax, (start, part.y + lane), (end, head.y + 0.2 * (1 - row)), colour)
        start, end = head.x + head.width / 2, merged.x - merged.width / 2
        _arrow(ax, (start, head.y), (end, merged.y + lane), colour)
    for box in (*projected, merged):
        _stripes(ax, box, HEADS)
    return ax


def draw_positions(*, ax: Axes | None = None) -> Axes:
    """Draw the three places at which attention can be told about positions.

    Parameters
    ----------
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure if not given.

    Returns
    -------
    matplotlib.axes.Axes
        Below, data flow from left to right; above, what is done to them.

    See Also
    --------
    attnlab.sinusoidal_positions, attnlab.rotate, attnlab.alibi_bias : the three ways.
    """
    return _draw("positions", ax)


def draw_memory_traffic(*, ax: Axes | None = None) -> Axes:
    """Draw what moves between slow and fast memory, step by step and in a fused kernel.

    Parameters
    ----------
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure if not given.

    Returns
    -------
    matplotlib.axes.Axes
        Above, every step reads and writes a table; below, only inputs and output move.

    See Also
    --------
    attnlab.PeakMemory : counts the tables that are held.
    """
    return _draw("memory_traffic", ax)


def draw_swap(*, ax: Axes | None = None) -> Axes:
    """Draw the swap of lesson 14: one vector of another sentence is put in, and the rest watched.

    Parameters
    ----------
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure if not given.

    Returns
    -------
    matplotlib.axes.Axes
        Above, the sentence that gives its vector; below, the words that are watched, coloured.

    See Also
    --------
    attnlab.pretrained.PretrainedEncoder : has such layers.
    """
    return _draw("swap", ax)


def _boxes(name: str) -> list[Box]:
    return [Box(*one) for one in DIAGRAMS[name]["boxes"]]


def _draw(name: str, ax: Axes | None) -> Axes:
    """Draw the boxes of a diagram, the arrows between them, and what else it has."""
    check_axes(ax)
    drawn = DIAGRAMS[name]
    boxes = _boxes(name)
    if ax is None:
        ax = plt.figure(figsize=drawn["size"]).add_axes((0, 0, 1, 1))
    for box in boxes:
        look = {"facecolor": COLOURS[box.colour], "edgecolor": INK, "linewidth": 1}
        corner = (box.x - box.width / 2, box.y - box.height / 2)
        shape = "round,pad=0,rounding_size=0.1"
        ax.add_patch(FancyBboxPatch(corner, box.width, box.height, boxstyle=shape, **look))
        _note(ax, box.x, box.y, box.text, va="center", fontsize=9)
    for start, end in drawn.get("arrows", ()):
        left, right = boxes[start], boxes[end]
        _arrow(ax, (left.x + left.width / 2, left.y), (right.x - right.width / 2, right.y))
    for start, end in drawn.get("climbs", ()):
        _climb(ax, boxes[start], boxes[end])
    for *points, last in drawn.get("paths", ()):  # around a corner or two
        ax.plot(*zip(*points, strict=True), color=INK, linewidth=1.2)
        _arrow(ax, points[-1], last)
    for start, end in drawn.get("bows", ()):
        _arrow(ax, start, end, bend=0.4)
    for x, y, width, height in drawn.get("frames", ()):
        frame = {"fill": False, "edgecolor": INK, "linestyle": ":"}
        ax.add_patch(Rectangle((x, y), width, height, **frame))
    for x, y, width, height, colour in drawn.get("bands", ()):
        ax.add_patch(Rectangle((x, y), width, height, facecolor=COLOURS[colour], zorder=0))
    for x, y, text, *look in drawn["notes"]:
        _note(ax, x, y, text, **dict(*look))
    left, right = min(b.x - b.width / 2 for b in boxes), max(b.x + b.width / 2 for b in boxes)
    ax.set_xlim(drawn.get("x", (left - 0.15, right + 0.15)))
    ax.set_ylim(drawn["y"])
    ax.set_axis_off()
    return ax


def _note(ax: Axes, x: float, y: float, text: str, **look: object) -> None:
    ax.text(x, y, text, **{"ha": "center", "fontsize": 9.5, "color": INK, **look})


def _stripes(ax: Axes, box: Box, colours: Sequence[str]) -> None:
    """Fill a box with pale stripes of equal width."""
    width, bottom = box.width / len(colours), box.y - box.height / 2
    for i, colour in enumerate(colours):
        corner = box.x - box.width / 2 + i * width, bottom
        stripe = Rectangle(corner, width, box.height, facecolor=colour, alpha=0.28, zorder=0)
        ax.add_patch(stripe)


def _arrow(
    ax: Axes,
    start: tuple[float, float],
    end: tuple[float, float],
    colour: str = INK,
    *,
    bend: float = 0.0,
) -> None:
    line = {"color": colour, "linewidth": 1.2, "connectionstyle": f"arc3,rad={bend}"}
    style = {"arrowstyle": "-|>", "shrinkA": 1, "shrinkB": 1, **line}
    ax.annotate("", xy=end, xytext=start, arrowprops=style)


def _climb(ax: Axes, start: Box, end: Box) -> None:
    """Draw an arrow from one row of boxes to the other, to the nearest point of the wider box."""
    up = 1 if end.y > start.y else -1
    middle = (start.x + end.x) / 2
    ends = []
    for box, side in ((start, up), (end, -up)):
        reach = box.width / 2 - 0.3
        x = min(max(middle, box.x - reach), box.x + reach)
        ends.append((x, box.y + side * box.height / 2))
    _arrow(ax, *ends)
