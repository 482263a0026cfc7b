"""Diagrams of attention, of its inputs and of its place in a Transformer: boxes and arrows.

What each one holds stands in ``diagrams.toml``.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from attnlab.checks import check_choice
from attnlab.palette import INK, RAMP, ROLES, to_hex

if TYPE_CHECKING:
    from matplotlib.axes import Axes

DIAGRAMS = tomllib.loads(Path(__file__).with_name("diagrams.toml").read_text(encoding="utf-8"))
COLOURS = {
    "data": ROLES["paper"].light,  # tensors at the input and the output
    "step": to_hex(RAMP[2]),  # the steps that the lessons explain
    "other": ROLES["hatched"].light,  # the rest of the Transformer
    "cool": ROLES["cool"].light,  # two of a kind, such as slow and fast memory
    "warm": ROLES["warm"].light,
    "none": "none",
}
HEADS = tuple(ROLES[role].light for role in ("good", "other"))


class Box(NamedTuple):
    """A labelled box; x and y are its centre."""

    x: float
    y: float
    text: str
    colour: str
    width: float = 1.7
    height: float = 0.62


def diagram(name: str, *, ax: Axes | None = None) -> Axes:
    """Draw one of the diagrams of the lessons.

    Parameters
    ----------
    name : str
        ``"attention_steps"``, ``"transformer_block"``,
        ``"multi_head_attention"``, ``"memory_traffic"``, ``"positions"``, ``"residual_stream"``,
        ``"two_looks"`` or ``"swap"``.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure if not given.

    Returns
    -------
    matplotlib.axes.Axes
        Data flow from left to right.

    Raises
    ------
    ValueError
        If there is no diagram of this name.

    See Also
    --------
    show_figure : gives it a number, a caption and an alternative text.
    """
    from attnlab._matrix import check_axes  # here, so that an import of attnlab draws nothing

    check_choice("name", name, tuple(DIAGRAMS))
    check_axes(ax)
    drawn = DIAGRAMS[name]
    boxes = [Box(*box) for box in drawn["boxes"]]
    if ax is None:
        import matplotlib.pyplot as plt

        ax = plt.figure(figsize=drawn["size"]).add_axes((0, 0, 1, 1))
    _draw(drawn, boxes, ax)
    if heads := drawn.get("heads"):
        parts = {part: [boxes[place] for place in places] for part, places in heads.items()}
        _draw_heads(ax, **parts)
    left, right = min(b.x - b.width / 2 for b in boxes), max(b.x + b.width / 2 for b in boxes)
    ax.set_xlim(drawn.get("x", (left - 0.15, right + 0.15)))
    ax.set_ylim(drawn["y"])
    ax.set_axis_off()
    return ax


def _draw(drawn: Mapping, boxes: Sequence[Box], ax: Axes) -> None:
    """Draw the boxes of a diagram, the arrows between them, and what else it has."""
    from matplotlib.patches import FancyBboxPatch, Rectangle

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


def _draw_heads(
    ax: Axes, projected: Sequence[Box], attending: Sequence[Box], merged: Sequence[Box]
) -> None:
    """Give each head a colour, and its part of every tensor a stripe of it."""
    (joined,) = merged
    for head, colour in zip(attending, HEADS, strict=True):
        _stripes(ax, head, [colour])
        lane = (head.y - joined.y) / 5  # arrows of the same box lie apart
        for row, part in enumerate(projected):
            start, end = part.x + part.width / 2, head.x - head.width / 2
            _arrow(ax, (start, part.y + lane), (end, head.y + 0.2 * (1 - row)), colour)
        start, end = head.x + head.width / 2, joined.x - joined.width / 2
        _arrow(ax, (start, head.y), (end, joined.y + lane), colour)
    for box in (*projected, joined):
        _stripes(ax, box, HEADS)


def _note(ax: Axes, x: float, y: float, text: str, **look: object) -> None:
    ax.text(x, y, text, **{"ha": "center", "fontsize": 9.5, "color": INK, **look})


def _stripes(ax: Axes, box: Box, colours: Sequence[str]) -> None:
    """Fill a box with pale stripes of equal width."""
    from matplotlib.patches import Rectangle

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
