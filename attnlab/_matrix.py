"""Draw the cells of a matrix: colours, numbers, blocked and NaN cells, labels."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PathCollection, PolyCollection, QuadMesh
from matplotlib.colors import Colormap
from matplotlib.path import Path
from matplotlib.textpath import TextPath
from matplotlib.transforms import Affine2D
from torch import Tensor

from attnlab._labels import make_room, spell, write_labels
from attnlab.checks import check_flag, check_list, check_mask, check_tensor, check_type
from attnlab.palette import EDGE, LINE, ORANGE, ROLES, ink_on

Labels = tuple[Sequence[str] | None, Sequence[str] | None]  # of the queries and of the keys

BLOCKED_COLOUR = ROLES["hatched"].light
BLOCKED_HATCH = "////"
MATRIX_SIZE = (4.6, 3.6)  # inches, with room for a colour scale or a legend
USUAL_LABELS = (0.9, 0.4)  # inches that labels take of it: width of rows, height of columns
ANNOTATE_UP_TO = 144  # cells; more numbers than that cannot be read
SMALLEST = 5 / 72  # inches: nor can numbers that are smaller


def check_axes(ax: object) -> None:
    """Raise TypeError unless ``ax`` is None or matplotlib's Axes."""
    check_type("ax", ax, Axes | None, "matplotlib Axes")


def new_axes(figsize: tuple[float, float] | None = None) -> Axes:
    """Return the axes of a new pyplot figure, which a notebook shows by itself."""
    _, ax = plt.subplots(figsize=figsize, layout="constrained")
    return ax


def to_tensor(name: str, array: object, *, ndim: int) -> Tensor:
    """Return a tensor of a tensor or an array, without leading dimensions of 1 beyond ``ndim``."""
    if array is None and name == "weights":
        raise TypeError(
            "weights must be a torch.Tensor, got None; a model of transformers returns its "
            'attentions if it is loaded with attn_implementation="eager" and called with '
            "output_attentions=True."
        )
    if hasattr(array, "__array__") and not isinstance(array, Tensor):
        array = np.ascontiguousarray(array)
        try:
            array = torch.tensor(array)
        except TypeError:
            raise TypeError(f"{name} must hold numbers, got an array of {array.dtype}.") from None
    first, path = array, name
    while isinstance(first, list | tuple) and first:
        first, path = first[0], f"{path}[0]"
    if path != name and hasattr(first, "ndim"):
        kind = type(array).__name__
        raise TypeError(f"{name} must be those of one layer, e.g. {path}, got a {kind} of layers.")
    check_tensor(name, array)
    if array.is_meta:
        raise TypeError(f"{name} must hold numbers, but a tensor on the meta device has none.")
    while array.ndim > ndim and array.shape[0] == 1:
        array = array[0]
    return array


def to_numbers(tensor: Tensor) -> np.ndarray:
    """Return a float array of any tensor."""
    return tensor.detach().cpu().double().numpy()


def draw_matrix(
    matrix: Tensor,
    ax: Axes | None,
    *,
    colours: Colormap | str,
    limits: tuple[float, float],
    labels: Labels = (None, None),
    title: str | None = None,
    attn_mask: Tensor | None = None,
    annotate: bool | None = None,
    colorbar: str | None = None,
    figsize: tuple[float, float] = MATRIX_SIZE,
) -> Axes:
    """Draw any matrix: its cells, blocked and NaN ones among them, the numbers and all labels."""
    check_axes(ax)
    check_look(matrix.shape, attn_mask, labels, annotate)
    is_own, ax = ax is None, new_axes(figsize) if ax is None else ax
    values = to_numbers(matrix)
    blocked = np.zeros(values.shape, bool)
    if attn_mask is not None:
        blocked |= ~attn_mask.expand(matrix.shape).cpu().numpy()
    mesh = ax.pcolormesh(
        np.where(np.isneginf(values), np.nan, np.clip(values, *limits)),  # −∞ has no colour
        norm=plt.Normalize(*limits),
        cmap=plt.get_cmap(colours).with_extremes(bad=BLOCKED_COLOUR),
        edgecolor="white",
        linewidth=1 if values.size <= ANNOTATE_UP_TO else 0,
    )
    ax.set(xlim=(0, values.shape[1]), ylim=(values.shape[0], 0), aspect="equal")
    ax.spines[:].set(visible=True, color=LINE, linewidth=0.8)  # cells of weight 0 are white
    _hatch(ax, blocked)
    _cross(ax, np.isnan(values) & ~blocked)
    if annotate or (annotate is None and values.size <= ANNOTATE_UP_TO):
        _write_numbers(ax, mesh, values, blocked, smallest=0 if annotate else SMALLEST)
    write_labels(ax, labels, matrix.shape)
    if is_own:
        make_room(ax, USUAL_LABELS)
    (title,), font = spell([title or ""])
    ax.set_title(title, **font)
    if colorbar is not None:
        ax.figure.colorbar(mesh, ax=ax, label=colorbar)
    return ax


def check_look(
    size: torch.Size, attn_mask: Tensor | None, labels: Labels, annotate: bool | None
) -> None:
    """Raise unless the mask and the labels fit matrices of a size (..., L, S)."""
    if attn_mask is not None:
        check_mask(attn_mask, size, torch.bool)
    if annotate is not None:
        check_flag("annotate", annotate)
    for name, names, lines, count in (
        ("queries", labels[0], "row (L", size[-2]),
        ("keys", labels[1], "column (S", size[-1]),
    ):
        if names is None:
            continue
        check_list(name, names, "a list of labels")
        if len(names) != count:
            raise ValueError(f"{name} must name every {lines} = {count}), got {len(names)}.")


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
                hatchcolor=EDGE,
                label="blocked",
            )
        )


def _cross(ax: Axes, nan: np.ndarray) -> None:
    strokes = []
    for x, y in _cells(nan):
        strokes += [[(x + 0.2, y + 0.2), (x + 0.8, y + 0.8)]]
        strokes += [[(x + 0.2, y + 0.8), (x + 0.8, y + 0.2)]]
    if strokes:
        ax.add_collection(LineCollection(strokes, colors=ORANGE, linewidths=2, label="NaN"))


def _write_numbers(
    ax: Axes, mesh: QuadMesh, values: np.ndarray, blocked: np.ndarray, *, smallest: float
) -> None:
    """Write the numbers as one collection of outlines: ten times as fast as one text per cell.

    There are none if they would be smaller than ``smallest``, in inches.
    """
    decimals = _decimals(values)
    shown = ~blocked & ~np.isnan(values)
    texts = np.full(values.shape, "", object)
    texts[shown] = [_digits(number, decimals) for number in values[shown]]
    inches = _number_size(ax, values.shape, longest=max(texts[shown], key=len, default="0"))
    if inches < smallest:
        return
    numbers = PathCollection(
        [_outline(text) for text in texts[shown]],
        sizes=None,
        offsets=np.argwhere(shown)[:, ::-1] + 0.5,
        offset_transform=ax.transData,
        facecolors=[readable_on(colour) for colour in mesh.to_rgba(mesh.get_array()[shown])],
        linewidths=0,
        label="numbers",
    )
    numbers.texts = texts.tolist()  # for display, which cannot read outlines
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
    """Return black or white, whichever is easier to read on a colour of matplotlib (0 to 1)."""
    return ink_on([255 * part for part in colour[:3]])
