"""Diagrams of attention, of its inputs and of its place in a Transformer: boxes and arrows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.patches import FancyBboxPatch, Rectangle

from attnlab._cells import check_axes
from attnlab.palette import INK, RAMP, ROLES, to_hex

DATA = ROLES["paper"].light  # tensors at the input and the output
STEP = to_hex(RAMP[2])  # the steps that the lessons explain
OTHER = ROLES["hatched"].light  # the rest of the Transformer


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
    boxes = [
        Box(0.0, 2.0, "query\nx (6, 5)", DATA),
        Box(0.0, 1.0, "key\nx (6, 5)", DATA),
        Box(2.5, 1.5, "scores\n(6, 6)", STEP),
        Box(5.0, 1.5, "weights\n(6, 6)", STEP),
        Box(7.5, 1.5, "output\n(6, 5)", DATA),
        Box(5.0, 0.3, "value\nx (6, 5)", DATA),
    ]
    arrows = [(0, 2), (1, 2), (2, 3), (3, 4), (5, 4)]
    ax = _draw(boxes, arrows, ax, figsize=(7.5, 2.2), height=(-0.15, 2.45))
    for x, step in ((2.5, "x @ x.T / √5"), (5.0, "softmax of each row"), (7.5, "weights @ x")):
        _note(ax, x, 2.05, step)
    return ax


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
    boxes = [
        Box(0.0, 1.0, "words as\nvectors", DATA, width=1.5),
        Box(2.1, 1.0, "+ position", OTHER, width=1.6),
        Box(4.1, 1.0, "norm", OTHER, width=1.0),
        Box(5.8, 1.0, "attention", STEP, width=1.5),
        Box(7.3, 1.0, "+", OTHER, width=0.5),
        Box(8.5, 1.0, "norm", OTHER, width=1.0),
        Box(9.9, 1.0, "MLP", OTHER, width=1.0),
        Box(11.2, 1.0, "+", OTHER, width=0.5),
        Box(12.8, 1.0, "to the\nnext block", DATA, width=1.6),
    ]
    ax = _draw(
        boxes, [(left, left + 1) for left in range(8)], ax, figsize=(7.5, 1.8), height=(0.05, 2.2)
    )
    for start, end in ((3.25, 7.3), (7.75, 11.2)):
        _residual(ax, start, end)
    ax.add_patch(Rectangle((3.05, 0.45), 8.65, 1.65, fill=False, edgecolor=INK, linestyle=":"))
    _note(ax, 7.4, 0.16, "one block (a model stacks many of them)")
    _note(ax, 5.28, 1.82, "a copy bypasses both boxes", fontsize=9)
    return ax


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
    low, high = 0.8, 2.1
    boxes = [
        Box(0.0, low, "letter\n+ place", DATA),
        Box(4.6, low, "+", OTHER, width=0.5),
        Box(8.8, low, "+", OTHER, width=0.5),
        Box(10.6, low, "norm,\nlinear", OTHER, width=1.4),
        Box(12.9, low, "guess", DATA, width=1.5),
        Box(2.9, high, "norm, then\nattention 1", STEP, width=2.0),
        Box(7.1, high, "norm, then\nattention 2", STEP, width=2.0),
    ]
    arrows = [(left, left + 1) for left in range(4)]
    ax = _draw(boxes, arrows, ax, figsize=(7.5, 1.9), height=(0.2, 2.6))
    for layer, plus in ((5, 1), (6, 2)):
        reads, adds = boxes[layer].x - 0.6, boxes[plus].x
        _arrow(ax, (reads, low), (reads, high - 0.31))
        ax.plot([boxes[layer].x + 1.0, adds], [high, high], color=INK, linewidth=1.2)
        _arrow(ax, (adds, high), (adds, low + 0.31))
        _note(ax, reads - 0.1, 1.38, "reads", ha="right", va="center")
        _note(ax, adds + 0.12, 1.38, "adds", ha="left", va="center")
    return ax


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
    boxes = [
        Box(0.0, 2.0, "tokens x\n(L, d_in)", DATA),
        Box(2.6, 3.0, "W_Q\n(d_in, d_k)", STEP),
        Box(2.6, 2.0, "W_K\n(d_in, d_k)", STEP),
        Box(2.6, 1.0, "W_V\n(d_in, d_v)", STEP),
        Box(5.2, 3.0, "query\n(L, d_k)", DATA),
        Box(5.2, 2.0, "key\n(L, d_k)", DATA),
        Box(5.2, 1.0, "value\n(L, d_v)", DATA),
        Box(7.8, 2.5, "weights\n(L, L)", OTHER),
        Box(10.4, 2.0, "output\n(L, d_v)", DATA),
    ]
    arrows = [(0, 1), (0, 2), (0, 3), (1, 4), (2, 5), (3, 6), (4, 7), (5, 7), (7, 8), (6, 8)]
    ax = _draw(boxes, arrows, ax, figsize=(7.5, 2.4), height=(0.55, 3.7))
    for role, y in ("what it asks for", 3.0), ("how it is found", 2.0), ("what it hands over", 1.0):
        _note(ax, 5.2, y + 0.42, role)
    return ax


def draw_multi_head_attention(*, ax: Axes | None = None) -> Axes:
    """Draw multi-head attention with three heads and the shape of every tensor.

    Parameters
    ----------
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure if not given.

    Returns
    -------
    matplotlib.axes.Axes
        Data flow from left to right; the heads are coloured.

    See Also
    --------
    attnlab.MultiHeadAttention : the layer that is drawn.
    """
    projected = [
        Box(2.5, 2.6 - row, f"{name}\n(L, E)", DATA, width=1.25)
        for row, name in enumerate(("query", "key", "value"))
    ]
    heads = [
        Box(5.35, 2.6 - row, f"head {row}\n(L, head_dim)", STEP, width=1.8) for row in range(3)
    ]
    boxes = [
        Box(0.0, 1.6, "x\n(L, E)", DATA, width=1.25),
        *projected,
        *heads,
        Box(8.2, 1.6, "merged\n(L, E)", DATA, width=1.25),
        Box(10.7, 1.6, "output\n(L, E)", DATA, width=1.25),
    ]
    arrows = [(0, role) for role in (1, 2, 3)]
    arrows += [(role, head) for role in (1, 2, 3) for head in (4, 5, 6)]
    arrows += [*((head, 7) for head in (4, 5, 6)), (7, 8)]
    ax = _draw(boxes, arrows, ax, figsize=(7.5, 2.5), height=(0.05, 3.5))
    steps = {1.25: "project", 3.8: "split", 5.35: "attend", 7.0: "merge", 9.45: "project"}
    for x, step in steps.items():
        _note(ax, x, 3.22, step, fontweight="bold")
    matrices = {(0.8, 2.2): "W_Q", (1.35, 1.7): "W_K", (0.8, 0.9): "W_V", (9.45, 1.7): "W_O"}
    for (x, y), name in matrices.items():
        _note(ax, x, y, name, fontsize=9)
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
    flow, above = 1.2, 2.6
    boxes = [
        Box(0.0, flow, "tokens", DATA),
        Box(3.2, flow, "queries\nand keys", DATA),
        Box(6.4, flow, "scores", DATA),
        Box(9.0, flow, "weights", DATA),
        Box(11.6, 0.7, "output", DATA),
        Box(3.2, 0.1, "values", DATA),
        Box(0.0, above, "add a vector", STEP, width=2.7),
        Box(3.2, above, "turn", STEP, width=2.7),
        Box(6.4, above, "add a number", STEP, width=2.7),
    ]
    arrows = [*((left, left + 1) for left in range(4)), (0, 5), (5, 4)]
    ax = _draw(boxes, arrows, ax, figsize=(7.5, 2.2), height=(-0.35, 3.55))
    for way, data in ((6, 0), (7, 1), (8, 2)):
        _climb(ax, boxes[way], boxes[data])
    for x, name in ((0.0, "learned, sinusoidal"), (3.2, "rotary (RoPE)"), (6.4, "ALiBi")):
        _note(ax, x, 3.1, name)
    return ax


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
    slow, fast, fused_slow, fused_fast = 4.3, 3.0, 1.5, 0.2
    names = ("query\nand key", "raw scores\n(L, S)", "scores\n(L, S)", "weights\n(L, S)", "value")
    tables = [Box(3.0 * i, slow, name, STEP, width=2.05) for i, name in enumerate(names)]
    tables[0], tables[4] = (tables[i]._replace(colour=DATA) for i in (0, 4))
    output = Box(14.8, slow, "output\n(L, Ev)", DATA, width=2.05)
    steps = [
        Box(x, fast, name, OTHER, width=1.75)
        for x, name in ((1.5, "multiply"), (4.5, "divide"), (7.5, "softmax"), (12.0, "average"))
    ]
    below = [
        Box(1.5, fused_slow, "query, key\nand value", DATA, width=2.05),
        Box(7.5, fused_fast, "the tiles of the table, one after another", OTHER, width=9.2),
        Box(13.5, fused_slow, "output\n(L, Ev)", DATA, width=2.05),
    ]
    boxes = [*tables, output, *steps, *below]
    ax = _draw(boxes, [], ax, figsize=(7.5, 3.7), height=(-0.45, 5.25))
    ax.set_xlim(-3.4, 16.0)
    for y in (slow, fast, fused_slow, fused_fast):
        kind, colour = ("slow", "cool") if y in (slow, fused_slow) else ("fast", "warm")
        band = (-3.3, y - 0.45), 19.2, 0.9
        ax.add_patch(Rectangle(*band, facecolor=ROLES[colour].light, zorder=0))
        _note(ax, -2.25, y, f"{kind}\nmemory", va="center", fontsize=9)
    for y, title in ((slow, "step by step"), (fused_slow, "in a fused kernel")):
        _note(ax, -3.3, y + 0.6, title, ha="left", fontweight="bold")
    paths = [(0, 6), (6, 1), (1, 7), (7, 2), (2, 8), (8, 3), (3, 9), (4, 9), (9, 5)]
    for start, end in (*paths, (10, 11), (11, 12)):
        _climb(ax, boxes[start], boxes[end])
    return ax


def _draw(
    boxes: Sequence[Box],
    arrows: Sequence[tuple[int, int]],
    ax: Axes | None,
    figsize: tuple[float, float],
    height: tuple[float, float],
) -> Axes:
    """Draw boxes, and arrows from box to box."""
    check_axes(ax)
    if ax is None:
        ax = plt.figure(figsize=figsize).add_axes((0, 0, 1, 1))
    for box in boxes:
        corner = (box.x - box.width / 2, box.y - box.height / 2)
        ax.add_patch(
            FancyBboxPatch(
                corner,
                box.width,
                box.height,
                boxstyle="round,pad=0,rounding_size=0.1",
                facecolor=box.colour,
                edgecolor=INK,
                linewidth=1,
            )
        )
        _note(ax, box.x, box.y, box.text, va="center", fontsize=9)
    for start, end in arrows:
        left, right = boxes[start], boxes[end]
        _arrow(ax, (left.x + left.width / 2, left.y), (right.x - right.width / 2, right.y))
    left, right = min(b.x - b.width / 2 for b in boxes), max(b.x + b.width / 2 for b in boxes)
    ax.set_xlim(left - 0.15, right + 0.15)
    ax.set_ylim(*height)
    ax.set_axis_off()
    return ax


def _note(ax: Axes, x: float, y: float, text: str, **look: object) -> None:
    ax.text(x, y, text, **{"ha": "center", "fontsize": 9.5, "color": INK, **look})


def _arrow(ax: Axes, start: tuple[float, float], end: tuple[float, float]) -> None:
    style = {"arrowstyle": "-|>", "color": INK, "linewidth": 1.2, "shrinkA": 1, "shrinkB": 1}
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


def _residual(ax: Axes, start: float, end: float) -> None:
    """Draw the line that leads around a box and returns at a plus."""
    ax.plot([start, start, end], [1.0, 1.75, 1.75], color=INK, linewidth=1.2)
    _arrow(ax, (end, 1.75), (end, 1.31))
