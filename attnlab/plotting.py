"""Draw attention: tensors in, Axes or Figure out. Queries down, keys across, row 0 on top.

Weights always use the colour scale 0..1, so two pictures can be compared. A blocked cell is grey
and hatched, a NaN is crossed: neither is mistaken for a weight of 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PathCollection, PolyCollection, QuadMesh
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.path import Path
from matplotlib.textpath import TextPath
from matplotlib.transforms import Affine2D
from torch import Tensor

from attnlab._checks import check_exact_ndim, check_mask, check_tensor, shape

WEIGHT_COLOURS = "Blues"  # white is 0: a printed page and a projector agree on that
SCORE_COLOURS = "PuOr_r"  # diverging and safe for colour-blind readers; 0 is white
BLOCKED_COLOUR = "#e4e6ea"
BLOCKED_HATCH = "////"
ALLOWED_COLOUR = "#2f7ebc"
MATRIX_SIZE = (4.6, 3.6)  # inches, with room for a colour scale or a legend
ANNOTATE_UP_TO = 144  # cells; more numbers than that cannot be read

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
    mesh = _draw_matrix(weights, ax, WEIGHT_COLOURS, (vmin, vmax), attn_mask, annotate)
    ax = mesh.axes
    _label_cells(ax, queries, keys, weights.shape)
    ax.set_title(title or "")
    if colorbar:
        ax.figure.colorbar(mesh, ax=ax, label="attention weight")
    return ax


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
    mesh = _draw_matrix(scores, ax, SCORE_COLOURS, (-limit, limit), None, annotate)
    ax = mesh.axes
    _label_cells(ax, queries, keys, scores.shape)
    ax.set_title(title or "")
    if colorbar:
        ax.figure.colorbar(mesh, ax=ax, label="score")
    return ax


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
    ax = _new_axes((MATRIX_SIZE[0] + 1.2, MATRIX_SIZE[1])) if ax is None else ax
    mesh = _draw_matrix(allowed, ax, None, (0, 1), attn_mask, annotate=False)
    ax = mesh.axes
    _label_cells(ax, queries, keys, attn_mask.shape)
    ax.set_title(title or "")
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
    titles = [f"head {head}" for head in range(heads)] if titles is None else list(titles)
    if len(titles) != heads:
        raise ValueError(f"titles must name every head, got {len(titles)} for {heads} heads.")
    if attn_mask is not None:
        check_mask(attn_mask, weights.shape, torch.bool)
        attn_mask = attn_mask.expand(weights.shape)
    ncols = min(ncols, heads)
    nrows = -(-heads // ncols)
    size = (min(7.5, 2.7 * ncols + 1.0), 2.6 * nrows + 0.4)
    fig, axes = plt.subplots(nrows, ncols, squeeze=False, figsize=size, layout="constrained")
    panels = axes.flat
    for head, ax in zip(range(heads), panels, strict=False):
        plot_attention(
            weights[head],
            ax=ax,
            attn_mask=None if attn_mask is None else attn_mask[head],
            queries=queries,
            keys=keys,
            title=titles[head],
            annotate=annotate,
        )
        ax.label_outer()
    for ax in panels:
        ax.remove()  # the grid's last row may not be full
    used = axes.flat[:heads]
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
    ax = _new_axes() if ax is None else ax
    x = _numbers(x)
    for (name, curve), look in zip(curves.items(), LINE_STYLES, strict=False):
        y = _numbers(curve)
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


def _new_axes(figsize: tuple[float, float] | None = None) -> Axes:
    _, ax = plt.subplots(figsize=figsize, layout="constrained")
    return ax


def _numbers(values: Sequence[float] | Tensor) -> np.ndarray:
    """Return a float array of any tensor or sequence."""
    return torch.as_tensor(values).detach().cpu().double().numpy()


def _check_matrix(name: str, matrix: Tensor, instead: str) -> None:
    check_tensor(name, matrix)
    if matrix.ndim != 2:
        index = ", ".join("0" for _ in range(matrix.ndim - 2))
        one = f"select one head, e.g. {name}[{index}], or use {instead}." if index else ""
        raise ValueError(f"{name} must have shape (L, S), got {shape(matrix)}; {one}".rstrip("; "))


def _draw_matrix(
    matrix: Tensor,
    ax: Axes | None,
    colours: str | None,
    limits: tuple[float, float],
    attn_mask: Tensor | None,
    annotate: bool | None,
) -> QuadMesh:
    """Draw the cells, the blocked and the NaN ones among them, and the numbers."""
    if attn_mask is not None:
        check_mask(attn_mask, matrix.shape, torch.bool)
        attn_mask = attn_mask.expand(matrix.shape)
    ax = _new_axes(MATRIX_SIZE) if ax is None else ax
    values = _numbers(matrix)
    blocked = np.zeros(values.shape, bool) if attn_mask is None else ~attn_mask.cpu().numpy()
    annotate = values.size <= ANNOTATE_UP_TO if annotate is None else annotate
    mesh = ax.pcolormesh(
        values,
        vmin=limits[0],
        vmax=limits[1],
        cmap=colours or ListedColormap([BLOCKED_COLOUR, ALLOWED_COLOUR]),
        edgecolor="white",
        linewidth=1 if values.size <= ANNOTATE_UP_TO else 0,
    )
    ax.set(xlim=(0, values.shape[1]), ylim=(values.shape[0], 0), aspect="equal")
    ax.spines[:].set_visible(False)
    _hatch(ax, blocked)
    _cross(ax, np.isnan(values) & ~blocked)
    if annotate:
        _write_numbers(ax, mesh, values, blocked)
    return mesh


def _cells(where: np.ndarray) -> list[tuple[int, int]]:
    """Return (column, row), the upper left corner, of every True cell."""
    return [(int(column), int(row)) for row, column in np.argwhere(where)]


def _hatch(ax: Axes, blocked: np.ndarray) -> None:
    squares = [[(x, y), (x + 1, y), (x + 1, y + 1), (x, y + 1)] for x, y in _cells(blocked)]
    if squares:
        ax.add_collection(
            PolyCollection(
                squares,
                facecolor=BLOCKED_COLOUR,
                edgecolor="white",
                hatch=BLOCKED_HATCH,
                label="blocked",
            )
        )


def _cross(ax: Axes, nan: np.ndarray) -> None:
    strokes = []
    for x, y in _cells(nan):
        strokes += [[(x + 0.2, y + 0.2), (x + 0.8, y + 0.8)]]
        strokes += [[(x + 0.2, y + 0.8), (x + 0.8, y + 0.2)]]
    if strokes:
        ax.add_collection(LineCollection(strokes, colors="#a01c1c", linewidths=2, label="NaN"))


def _write_numbers(ax: Axes, mesh: QuadMesh, values: np.ndarray, blocked: np.ndarray) -> None:
    """Write the numbers as one collection of outlines: ten times as fast as one text per cell."""
    decimals = _decimals(values)
    shown = ~blocked & ~np.isnan(values)
    colours = mesh.cmap(mesh.norm(values[shown]))
    texts = [_digits(number, decimals) for number in values[shown]]
    numbers = PathCollection(
        [_outline(text) for text in texts],
        sizes=None,
        offsets=np.argwhere(shown)[:, ::-1] + 0.5,
        offset_transform=ax.transData,
        facecolors=[readable_on(colour) for colour in colours],
        linewidths=0,
        label="numbers",
    )
    inches = _number_size(ax, values.shape, longest=max(texts, key=len, default="0"))
    numbers.set_transform(Affine2D().scale(inches) + ax.figure.dpi_scale_trans)
    numbers.set_in_layout(False)  # each lies inside its cell
    ax.add_collection(numbers, autolim=False)


@lru_cache(maxsize=1024)
def _outline(text: str) -> Path:
    """Return the outline of a text of size 1, centred on the origin."""
    outline = TextPath((0, 0), text, size=1)
    low, high = outline.get_extents().get_points()
    return outline.transformed(Affine2D().translate(*(-(low + high) / 2)))


def _number_size(ax: Axes, cells: tuple[int, int], longest: str) -> float:
    """Return the font size, in inches, at which the longest number fits into a cell."""
    box = ax.get_window_extent()
    cell = min(box.width / cells[1], box.height / cells[0]) / ax.figure.dpi
    return min(0.78 * cell / _outline(longest).get_extents().width, 0.42 * cell, 12 / 72)


def _decimals(values: np.ndarray) -> int:
    """Return how many decimals all numbers of a matrix get, so that each has about four digits."""
    finite = np.abs(values[np.isfinite(values)])
    largest = finite.max() if finite.size else 0.0
    return 2 if largest < 9.995 else 1 if largest < 99.95 else 0


def _digits(number: float, decimals: int) -> str:
    if np.isinf(number):
        return "∞" if number > 0 else "−∞"
    text = f"{number:.{decimals}f}"
    return f"{0:.{decimals}f}" if float(text) == 0 else text.replace("-", "−")


def readable_on(colour: Sequence[float]) -> str:
    """Return black or white, whichever is easier to read on an RGB colour.

    Parameters
    ----------
    colour : sequence of float
        Red, green and blue from 0 to 1 (more entries are ignored).

    Returns
    -------
    str
        ``"black"`` where the relative luminance is above 0.179, so that the contrast is at least
        4.5 to 1 on every colour.

    See Also
    --------
    plot_attention : writes its numbers this way.

    References
    ----------
    Web Content Accessibility Guidelines 2.2, "relative luminance".
    https://www.w3.org/TR/WCAG22/#dfn-relative-luminance

    Examples
    --------
    >>> readable_on((1.0, 1.0, 0.0)), readable_on((0.0, 0.0, 0.5))
    ('black', 'white')
    """
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in colour[:3]
    )
    return "black" if 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.179 else "white"


def _label_cells(
    ax: Axes, queries: Sequence[str] | None, keys: Sequence[str] | None, size: torch.Size
) -> None:
    longest = max((len(key) for key in keys), default=0) if keys is not None else 0
    slant = 45 if longest * size[1] > 26 else 0  # long words side by side would overlap
    for letter, labels, count, axis, name, rotation in (
        ("L", queries, size[0], ax.yaxis, "query", 0),
        ("S", keys, size[1], ax.xaxis, "key", slant),
    ):
        if labels is not None and len(labels) != count:
            raise ValueError(
                f"labels must name every {name} ({letter} = {count}), got {len(labels)}."
            )
        step = 1 if labels is not None else max(1, count // 8)
        places = np.arange(0, count, step)
        axis.set_tick_params(length=0, labelrotation=rotation)
        axis.set_ticks(places + 0.5, [str(p) if labels is None else labels[p] for p in places])
        axis.set_label_text(name if labels is not None else f"{name} position")
