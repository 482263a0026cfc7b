"""Draw attention: tensors in, Axes or Figure out. Queries down, keys across, row 0 on top.

Weights always use the colour scale 0..1, so two pictures can be compared. A blocked cell is grey
and hatched and a NaN is crossed, so that neither is mistaken for a weight of 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.colors import Colormap, LinearSegmentedColormap, ListedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from torch import Tensor

from attnlab._labels import make_room
from attnlab._matrix import (
    BLOCKED_COLOUR,
    BLOCKED_HATCH,
    MATRIX_SIZE,
    check_axes,
    check_look,
    draw_matrix,
    new_axes,
    to_numbers,
    to_tensor,
)
from attnlab.checks import (
    LARGEST_WEIGHT,
    check_exact_ndim,
    check_flag,
    check_floating,
    check_list,
    check_number,
    check_size,
    check_type,
    check_weight_range,
    shape,
    short,
)
from attnlab.palette import BLUE, EDGE, GREEN, MUTED, ORANGE, PURPLE, RAMP, to_hex

WEIGHT_COLOURS = LinearSegmentedColormap.from_list("attention weights", [*map(to_hex, RAMP)])
SCORE_COLOURS = "PuOr_r"  # diverging and safe for colour-blind readers; 0 is white
MASK_COLOURS = ListedColormap([BLOCKED_COLOUR, BLUE])  # blocked, may attend
INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)

MARKERS = 15  # on a curve of many points, about so many of them are marked

# one look per line, told apart by colour, dash and marker
LINE_STYLES = (
    {"color": ORANGE, "linestyle": "--", "marker": "s"},
    {"color": BLUE, "linestyle": "-", "marker": "o"},
    {"color": GREEN, "linestyle": "-.", "marker": "^"},
    {"color": PURPLE, "linestyle": ":", "marker": "D"},
)


def plot_attention(
    weights: Tensor | np.ndarray,
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
    cmap: Colormap | str | None = None,
) -> Axes:
    """Draw a matrix of attention weights as a heatmap.

    Parameters
    ----------
    weights : Tensor or array, shape (L, S), (1, L, S) or (1, 1, L, S)
        Attention weights; any device and floating-point dtype. Rows need not sum to 1, so a part
        of a matrix or weights after dropout can be drawn as well.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure if not given.
    attn_mask : Tensor of bool, broadcastable to (L, S), optional
        True where the query may attend to the key; the other cells are hatched.
    queries, keys : sequence of str, optional
        Labels of the rows and of the columns. Long ones lose their middle, and where there is no
        room for all of them, some are left out.
    title : str, optional
        Title over the picture.
    annotate : bool, optional
        Whether to write the numbers into the cells; by default if there are at most 144 cells, and
        they can be read.
    colorbar : bool
        Whether to draw the colour scale beside the picture.
    vmin, vmax : float
        Ends of the colour scale. Numbers outside 0 to 2 cannot be weights and are refused, unless
        the scale includes them.
    cmap : str or matplotlib.colors.Colormap, optional
        Other colours than white to blue.

    Returns
    -------
    matplotlib.axes.Axes
        Queries on the y axis, keys on the x axis, row 0 on top.

    Raises
    ------
    TypeError, ValueError
        If shapes, the number of labels or an option do not fit, or ``weights`` cannot be weights.

    See Also
    --------
    plot_scores : for numbers before the softmax.
    plot_heads : several heads beside each other.
    seaborn.heatmap : the general tool; its ``mask`` hides where True, the opposite of ours.
    """
    weights = _matrix("weights", weights)
    _check_scale(weights, vmin, vmax)
    check_flag("colorbar", colorbar)
    return draw_matrix(
        weights,
        ax,
        colours=_colours(cmap),
        limits=(vmin, vmax),
        attn_mask=_mask(attn_mask, 2),
        labels=(queries, keys),
        title=title,
        annotate=annotate,
        colorbar="attention weight" if colorbar else None,
    )


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
        If the shape, the number of labels or an option do not fit.

    See Also
    --------
    plot_attention : for weights.
    seaborn.heatmap : the general tool.
    """
    scores = _matrix("scores", scores)
    check_flag("colorbar", colorbar)
    if limit is None:
        finite = scores.detach()[scores.detach().isfinite()].abs()
        limit = float(finite.max()) if finite.numel() and finite.max() > 0 else 1.0
    check_number("limit", limit)
    if limit <= 0:
        raise ValueError(f"limit must be positive, got {limit}.")
    return draw_matrix(
        scores,
        ax,
        colours=SCORE_COLOURS,
        limits=(-limit, limit),
        labels=(queries, keys),
        title=title,
        annotate=annotate,
        colorbar="score" if colorbar else None,
    )


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
        If the mask is not boolean (L, S), or the number of labels does not fit.

    See Also
    --------
    plot_attention : the weights under a mask.
    matplotlib.axes.Axes.imshow : the general tool.
    """
    attn_mask = _matrix("attn_mask", attn_mask)
    check_flag("legend", legend)
    ax = draw_matrix(
        attn_mask,
        ax,
        colours=MASK_COLOURS,
        limits=(0, 1),
        attn_mask=attn_mask,
        labels=(queries, keys),
        title=title,
        annotate=False,
        figsize=(MATRIX_SIZE[0] + 1.2, MATRIX_SIZE[1]),
    )
    if legend:
        kinds = [
            Patch(facecolor=BLUE, label="may attend"),
            Patch(facecolor=BLOCKED_COLOUR, hatch=BLOCKED_HATCH, hatchcolor=EDGE, label="blocked"),
        ]
        ax.legend(handles=kinds, loc="upper left", bbox_to_anchor=(1.02, 1.0), borderaxespad=0)
    return ax


def plot_heads(
    weights: Tensor | np.ndarray,
    *,
    titles: Sequence[str] | None = None,
    attn_mask: Tensor | None = None,
    queries: Sequence[str] | None = None,
    keys: Sequence[str] | None = None,
    ncols: int = 4,
    annotate: bool | None = None,
    cmap: Colormap | str | None = None,
) -> Figure:
    """Draw several attention matrices beside each other on one colour scale.

    Parameters
    ----------
    weights : Tensor or array, shape (H, L, S), (1, H, L, S) or (L, S)
        One matrix per head.
    titles : sequence of str, optional
        One per head; "head 0", "head 1", ... if not given.
    attn_mask : Tensor of bool, broadcastable to (H, L, S), optional
        True where the query may attend to the key.
    queries, keys : sequence of str, optional
        Labels of the rows and of the columns, the same for all heads.
    ncols : int
        Pictures in a row.
    annotate, cmap
        As in ``plot_attention``.

    Returns
    -------
    matplotlib.figure.Figure
        With one colour scale that holds for every picture.

    Raises
    ------
    TypeError, ValueError
        If shapes or the number of titles or labels do not fit, or ``weights`` cannot be weights.

    See Also
    --------
    plot_attention : one matrix.
    matplotlib.pyplot.subplots : the grid itself.
    """
    weights = to_tensor("weights", weights, ndim=3)
    weights = weights[None] if weights.ndim == 2 else weights
    fix = "take one example, e.g. weights[0]."
    if weights.ndim < 3:
        fix = "for a single row use plot_attention(weights[None])."
    check_exact_ndim("weights", weights, "(H, L, S)", ndim=3, fix=fix)
    heads = weights.shape[0]
    ncols = check_size("ncols", ncols, at_least=1)
    check_size("the number of heads (dimension 0 of weights)", heads, at_least=1)
    _matrix("weights", weights[0])
    _check_scale(weights, 0.0, 1.0)
    attn_mask = _mask(attn_mask, 3)
    check_look(weights.shape, attn_mask, (queries, keys), annotate)
    titles = [f"head {head}" for head in range(heads)] if titles is None else titles
    check_list("titles", titles, "a list of titles")
    if len(titles) != heads:
        raise ValueError(f"titles must name every head, got {len(titles)} for {heads} heads.")
    colours = _colours(cmap)
    masks = [None] * heads if attn_mask is None else attn_mask.expand(weights.shape)
    ncols = min(ncols, heads)
    nrows = -(-heads // ncols)
    panel = max(2.7, 0.16 * weights.shape[2])
    width = min(7.5, panel * ncols + 1.0)
    high = (width - 1.9) / ncols * weights.shape[1] / weights.shape[2]  # of a map, labels aside
    size = (width, min(panel * nrows + 0.3, (high + 0.3) * nrows + 0.8))
    fig, axes = plt.subplots(nrows, ncols, squeeze=False, figsize=size, layout="compressed")
    used, spare = axes.flat[:heads], axes.flat[heads:]
    look = {"queries": queries, "keys": keys, "annotate": annotate, "cmap": colours}
    for ax, matrix, mask, title in zip(used, weights, masks, titles, strict=True):
        plot_attention(matrix, ax=ax, attn_mask=mask, title=title, **look)
    make_room(used[0], usual=(0.4, 0.2))
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
        At most four curves; their names form the legend.
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
    TypeError, ValueError
        If there are no curves or more than four, one of them does not have as many points as
        ``x``, or an option does not fit.

    See Also
    --------
    matplotlib.axes.Axes.plot : draws a single line.
    """
    check_axes(ax)
    check_type("curves", curves, Mapping, "a dict of named curves")
    if not 1 <= len(curves) <= len(LINE_STYLES):
        raise ValueError(f"curves must be 1 to {len(LINE_STYLES)}, got {len(curves)}.")
    x = _points("x", x)
    lines = {name: _points(f"curve {name!r} of curves", curve) for name, curve in curves.items()}
    for name, y in lines.items():
        if y.shape != x.shape:
            raise ValueError(
                f"curve {name!r} must have as many points as x, got {y.shape} and {x.shape}."
            )
    if at is not None:
        check_number("at", at)
    ax = new_axes() if ax is None else ax
    for (name, y), look in zip(lines.items(), LINE_STYLES, strict=False):
        ax.plot(x, y, label=name, markevery=max(1, len(x) // MARKERS), **look)
    if at is not None:
        ax.axvline(at, color=MUTED, linewidth=1, linestyle=(0, (2, 2)), zorder=0)
    ax.set(xlabel=xlabel, ylabel=ylabel, xscale=xscale, yscale=yscale)
    ax.set_title("" if title is None else title)
    ax.minorticks_off()  # on a log axis they take longer than all else, and sliders wait for it
    if len(curves) > 1:
        ax.legend()
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


def _matrix(name: str, matrix: object) -> Tensor:
    """Return a tensor or an array as one matrix of the kind that its name says, or raise."""
    matrix = to_tensor(name, matrix, ndim=2)
    if matrix.ndim != 2:
        first = f"{name}[{', '.join('0' * (matrix.ndim - 2))}]"
        fix = f"select one, e.g. {first}."
        if matrix.ndim < 2:
            fix = f"for a single row use {name}[None]."
        elif name == "weights":
            heads = "plot_heads" if matrix.ndim == 3 else "plot_heads(weights[0])"
            fix = f"select one example or head, e.g. {first}, or use {heads} for the heads of one."
        raise ValueError(f"{name} must have shape (L, S), got {shape(matrix)}; {fix}")
    if not matrix.numel():
        raise ValueError(f"{name} must have at least one query and one key, got {shape(matrix)}.")
    if name == "attn_mask":
        if matrix.dtype != torch.bool:
            raise TypeError(f"attn_mask must be bool (True = may attend), got {matrix.dtype}.")
    elif name == "weights" or matrix.dtype not in INTEGERS:
        check_floating(name, matrix)
    return matrix


def _mask(attn_mask: object, ndim: int) -> Tensor | None:
    return None if attn_mask is None else to_tensor("attn_mask", attn_mask, ndim=ndim)


def _colours(cmap: object) -> Colormap | str:
    """Return the colours of weights, or others by their name."""
    if not (cmap is None or isinstance(cmap, Colormap) or cmap in [*mpl.colormaps]):
        raise ValueError(f"cmap must be a colour map of matplotlib, got {short(cmap)}.")
    return WEIGHT_COLOURS if cmap is None else cmap


def _check_scale(weights: Tensor | np.ndarray, vmin: float, vmax: float) -> None:
    """Raise unless vmin < vmax, and the weights look like weights or lie on that scale."""
    check_number("vmin", vmin)
    check_number("vmax", vmax)
    if not vmin < vmax:
        raise ValueError(f"vmin must be smaller than vmax, got {vmin} and {vmax}.")
    finite = weights[weights.isfinite()]  # the others are drawn as they are, to be seen
    check_weight_range(finite, min(vmin, 0.0), max(vmax, LARGEST_WEIGHT))


def _points(name: str, values: object) -> np.ndarray:
    """Return one-dimensional numbers as a float array."""
    try:
        tensor = torch.as_tensor(values)
    except (TypeError, ValueError, RuntimeError):
        raise TypeError(f"{name} must be numbers, got {short(values)}.") from None
    if tensor.is_complex() or tensor.dtype == torch.bool:
        raise TypeError(f"{name} must be real numbers, got {tensor.dtype}.")
    check_exact_ndim(name, tensor, "(n,)", ndim=1, fix="give one number per point.")
    return to_numbers(tensor)
