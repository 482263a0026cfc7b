"""Draw attention: tensors in, Axes or Figure out. Queries down, keys across, row 0 on top.

Weights always use the colour scale 0..1, so two pictures can be compared. A blocked cell is grey
and hatched, a NaN is crossed: neither is mistaken for a weight of 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import torch
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from torch import Tensor

from attnlab._cells import (
    ALLOWED_COLOUR,
    BLOCKED_COLOUR,
    BLOCKED_HATCH,
    MATRIX_SIZE,
    draw_matrix,
    label_cells,
    new_axes,
    to_numbers,
)
from attnlab._checks import check_exact_ndim, check_mask, check_size, check_tensor, shape

WEIGHT_COLOURS = "Blues"  # white is 0: a printed page and a projector agree on that
SCORE_COLOURS = "PuOr_r"  # diverging and safe for colour-blind readers; 0 is white

# one look per line, told apart by colour, dash and marker
LINE_STYLES = (
    {"color": "#c8500a", "linestyle": "--", "marker": "s"},
    {"color": "#0b61a4", "linestyle": "-", "marker": "o"},
    {"color": "#3d7a35", "linestyle": "-.", "marker": "^"},
    {"color": "#7b3f98", "linestyle": ":", "marker": "D"},
)


def plot_attention(
    weights: Tensor,
    *,
    ax: Axes | None = None,
    attn_mask: Tensor | None = None,
    queries: Sequence[str] | None = None,
    keys: Sequence[str] | None = None,
    title: str | None = None,
    annotate: bool | None = None,
    colorbar: bool = False,
    vmin: float = 0.0,
    vmax: float = 1.0,
) -> Axes:
    """Draw a matrix of attention weights as a heatmap.

    Parameters
    ----------
    weights : Tensor, shape (L, S)
        Attention weights; any device and floating point dtype.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure if not given.
    attn_mask : Tensor of bool, broadcastable to (L, S), optional
        True where the query may attend to the key; the other cells are hatched.
    queries, keys : sequence of str, optional
        Labels of the rows and of the columns.
    title : str, optional
        Title over the picture.
    annotate : bool, optional
        Whether to write the numbers into the cells; by default if there are at most 144.
    colorbar : bool
        Whether to draw the colour scale beside the picture.
    vmin, vmax : float
        Ends of the colour scale.

    Returns
    -------
    matplotlib.axes.Axes
        Queries on the y axis, keys on the x axis, row 0 on top.

    Raises
    ------
    TypeError, ValueError
        If the shapes or the number of labels do not fit.

    See Also
    --------
    plot_heads : several heads beside each other.
    seaborn.heatmap : the general tool; its ``mask`` hides where True, the opposite of ours.
    """
    _check_matrix("weights", weights, "plot_heads")
    mesh = draw_matrix(weights, ax, WEIGHT_COLOURS, (vmin, vmax), attn_mask, annotate)
    return _finish(mesh, weights, queries, keys, title, "attention weight" if colorbar else "")


def plot_scores(
    scores: Tensor,
    *,
    ax: Axes | None = None,
    queries: Sequence[str] | None = None,
    keys: Sequence[str] | None = None,
    title: str | None = None,
    annotate: bool | None = None,
    colorbar: bool = False,
    limit: float | None = None,
) -> Axes:
    """Draw a matrix of scores as a heatmap whose colours are centred on 0.

    Parameters
    ----------
    scores : Tensor, shape (L, S)
        Scores before the softmax.
    ax, queries, keys, title, annotate, colorbar
        As in ``plot_attention``.
    limit : float, optional
        The colour scale runs from ``-limit`` to ``limit``; the largest finite score if not given.

    Returns
    -------
    matplotlib.axes.Axes
        Queries on the y axis, keys on the x axis, row 0 on top.

    Raises
    ------
    TypeError, ValueError
        If the shapes or the number of labels do not fit.

    See Also
    --------
    plot_attention : for weights.
    seaborn.heatmap : the general tool.
    """
    _check_matrix("scores", scores, "plot_heads")
    if limit is None:
        finite = scores.detach()[scores.detach().isfinite()].abs()
        limit = float(finite.max()) if finite.numel() and finite.max() > 0 else 1.0
    mesh = draw_matrix(scores, ax, SCORE_COLOURS, (-limit, limit), None, annotate)
    return _finish(mesh, scores, queries, keys, title, "score" if colorbar else "")


def plot_mask(
    attn_mask: Tensor,
    *,
    ax: Axes | None = None,
    queries: Sequence[str] | None = None,
    keys: Sequence[str] | None = None,
    title: str | None = None,
    legend: bool = True,
) -> Axes:
    """Draw which query may attend to which key.

    Parameters
    ----------
    attn_mask : Tensor of bool, shape (L, S)
        True where the query may attend to the key.
    ax, queries, keys, title
        As in ``plot_attention``.
    legend : bool
        Whether to name the two kinds of cells under the picture.

    Returns
    -------
    matplotlib.axes.Axes
        Queries on the y axis, keys on the x axis, row 0 on top.

    Raises
    ------
    TypeError, ValueError
        If the mask is not boolean (L, S) or the number of labels does not fit.

    See Also
    --------
    plot_attention : the weights under a mask.
    """
    _check_matrix("attn_mask", attn_mask, "attn_mask[0]")
    if attn_mask.dtype != torch.bool:
        raise TypeError(f"attn_mask must be bool (True = may attend), got {attn_mask.dtype}.")
    allowed = torch.where(attn_mask, 1.0, 0.0)
    ax = new_axes((MATRIX_SIZE[0] + 1.2, MATRIX_SIZE[1])) if ax is None else ax
    mesh = draw_matrix(allowed, ax, None, (0, 1), attn_mask, annotate=False)
    ax = _finish(mesh, attn_mask, queries, keys, title)
    if legend:
        kinds = [
            Patch(facecolor=ALLOWED_COLOUR, label="may attend"),
            Patch(facecolor=BLOCKED_COLOUR, hatch=BLOCKED_HATCH, label="blocked"),
        ]
        ax.legend(handles=kinds, loc="upper left", bbox_to_anchor=(1.02, 1.0), borderaxespad=0)
    return ax


def plot_heads(
    weights: Tensor,
    *,
    titles: Sequence[str] | None = None,
    attn_mask: Tensor | None = None,
    queries: Sequence[str] | None = None,
    keys: Sequence[str] | None = None,
    ncols: int = 4,
    annotate: bool | None = None,
) -> Figure:
    """Draw several attention matrices beside each other on one colour scale.

    Parameters
    ----------
    weights : Tensor, shape (H, L, S)
        One matrix per head.
    titles : sequence of str, optional
        One per head; "head 0", "head 1", ... if not given.
    attn_mask : Tensor of bool, broadcastable to (H, L, S), optional
        True where the query may attend to the key.
    queries, keys : sequence of str, optional
        Labels of the rows and of the columns, the same for all heads.
    ncols : int
        Pictures in a row.
    annotate : bool, optional
        As in ``plot_attention``.

    Returns
    -------
    matplotlib.figure.Figure
        With one colour scale that is true for every picture.

    Raises
    ------
    TypeError, ValueError
        If the shapes or the number of titles or labels do not fit.

    See Also
    --------
    plot_attention : one matrix.
    """
    check_exact_ndim(
        "weights", weights, "(H, L, S)", ndim=3, fix="for one matrix use plot_attention."
    )
    heads = weights.shape[0]
    check_size("ncols", ncols, at_least=1)
    check_size("the number of heads", heads, at_least=1)
    titles = [f"head {head}" for head in range(heads)] if titles is None else list(titles)
    if len(titles) != heads:
        raise ValueError(f"titles must name every head, got {len(titles)} for {heads} heads.")
    masks = [None] * heads
    if attn_mask is not None:
        check_mask(attn_mask, weights.shape, torch.bool)
        masks = attn_mask.expand(weights.shape)
    ncols = min(ncols, heads)
    nrows = -(-heads // ncols)
    size = (min(7.5, 2.7 * ncols + 1.0), 2.6 * nrows + 0.4)
    fig, axes = plt.subplots(nrows, ncols, squeeze=False, figsize=size, layout="constrained")
    used, spare = axes.flat[:heads], axes.flat[heads:]
    labels = {"queries": queries, "keys": keys, "annotate": annotate}
    for ax, matrix, mask, title in zip(used, weights, masks, titles, strict=True):
        plot_attention(matrix, ax=ax, attn_mask=mask, title=title, **labels)
    _label_outer(used, ncols)
    for ax in spare:  # the last row may not be full
        ax.remove()
    fig.colorbar(used[0].collections[0], ax=used.tolist(), label="attention weight")
    return fig


def plot_sweep(
    x: Sequence[float] | Tensor,
    curves: Mapping[str, Sequence[float] | Tensor],
    *,
    ax: Axes | None = None,
    xlabel: str = "",
    ylabel: str = "",
    title: str | None = None,
    xscale: str = "linear",
    yscale: str = "linear",
    at: float | None = None,
) -> Axes:
    """Draw named curves over one variable, told apart by colour, dash and marker.

    Parameters
    ----------
    x : sequence of float or Tensor, shape (n,)
        The variable.
    curves : mapping from str to sequence of float or Tensor, shape (n,)
        At most four curves; the names stand in the legend.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure if not given.
    xlabel, ylabel, title : str, optional
        Texts.
    xscale, yscale : str
        A matplotlib scale: "linear", "log", "symlog", ...
    at : float, optional
        Value of ``x`` to mark with a vertical line.

    Returns
    -------
    matplotlib.axes.Axes
        With a legend if there are several curves.

    Raises
    ------
    ValueError
        If there are no curves or more than four, or one has not as many points as ``x``.

    See Also
    --------
    matplotlib.axes.Axes.plot : draws a single line.
    """
    if not 1 <= len(curves) <= len(LINE_STYLES):
        raise ValueError(f"curves must be 1 to {len(LINE_STYLES)}, got {len(curves)}.")
    ax = new_axes() if ax is None else ax
    x = to_numbers(x)
    for (name, curve), look in zip(curves.items(), LINE_STYLES, strict=False):
        y = to_numbers(curve)
        if y.shape != x.shape:
            raise ValueError(
                f"curve {name!r} must have as many points as x, got {y.shape} and {x.shape}."
            )
        ax.plot(x, y, label=name, **look)
    if at is not None:
        ax.axvline(at, color="#555555", linewidth=1, linestyle=(0, (2, 2)), zorder=0)
    ax.set(xlabel=xlabel, ylabel=ylabel, xscale=xscale, yscale=yscale, title=title or "")
    ax.minorticks_off()  # on a log axis they take longer than all else, and sliders wait for it
    if len(curves) > 1:
        ax.legend()
    return ax


def _finish(
    mesh: QuadMesh,
    matrix: Tensor,
    queries: Sequence[str] | None,
    keys: Sequence[str] | None,
    title: str | None,
    colorbar: str = "",
) -> Axes:
    """Add labels, title and, if it has a name, the colour scale to drawn cells."""
    ax = mesh.axes
    label_cells(ax, queries, keys, matrix.shape)
    ax.set_title(title or "")
    if colorbar:
        ax.figure.colorbar(mesh, ax=ax, label=colorbar)
    return ax


def _label_outer(panels: Sequence[Axes], ncols: int) -> None:
    """Keep only the labels of the lowest picture of a column and the leftmost of a row."""
    for ax in panels[:-ncols]:  # those above another one
        ax.xaxis.set_tick_params(labelbottom=False)
        ax.set_xlabel("")
    for place, ax in enumerate(panels):
        if place % ncols:
            ax.yaxis.set_tick_params(labelleft=False)
            ax.set_ylabel("")


def _check_matrix(name: str, matrix: Tensor, instead: str) -> None:
    check_tensor(name, matrix)
    if matrix.ndim != 2:
        index = ", ".join("0" for _ in range(matrix.ndim - 2))
        one = f"select one head, e.g. {name}[{index}], or use {instead}." if index else ""
        raise ValueError(f"{name} must have shape (L, S), got {shape(matrix)}; {one}".rstrip("; "))
