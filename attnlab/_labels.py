"""Labels of rows and columns: as many as there is room for, in a font that has their letters."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from functools import lru_cache
from statistics import median

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.font_manager import FontProperties, findfont, fontManager, get_font
from matplotlib.textpath import text_to_path

WIDEST = 9.5  # font sizes; a label that is wider loses its middle
BESIDE, BELOW = 0.4, 0.03  # font sizes that stay free between two labels
ALONE, SEVERAL = 0.9, 1.25  # of its size before it is laid out, a map in a figure keeps so much
MISSING = "□"  # instead of a letter that no font has
SPARE_FONT = "DejaVu Sans"  # comes with matplotlib

_told: set[str] = set()  # letters that a warning has named


def write_labels(
    ax: Axes,
    labels: tuple[Sequence[str] | None, Sequence[str] | None],
    size: Sequence[int],
) -> None:
    """Name the rows and columns of a drawn matrix by labels, or by their positions."""
    box, dots = ax.get_window_extent(), ax.figure.dpi / 72
    cell = min(box.width / size[1], box.height / size[0]) / dots  # points, as font sizes are
    room = cell * (SEVERAL if len(ax.figure.axes) > 1 else ALONE)
    for given, count, axis, name in (
        (labels[0], size[0], ax.yaxis, "query"),
        (labels[1], size[1], ax.xaxis, "key"),
    ):
        if given is None:
            names, look, turn, step = [*map(str, range(count))], {}, 0, max(1, count // 8)
        else:
            names, look = spell([*map(str, given)])
            usual = mpl.rcParams[f"{axis.axis_name}tick.labelsize"]
            drawn_in = axis.get_tick_params().get("labelsize", usual)
            font = FontProperties(family=look.get("fontfamily"), size=drawn_in)
            names = [_shortened(name, font) for name in names]
            turn, step = _fitted(names, font, cell, room if axis is ax.xaxis else None)
        axis.set_tick_params(length=0, labelrotation=turn)
        if turn == 45:  # the end of a word stands below its column
            look = {**look, "ha": "right", "rotation_mode": "anchor"}
        # a token such as $ is text, not the beginning of a formula
        places = [place + 0.5 for place in range(0, count, step)]
        axis.set_ticks(places, names[::step], parse_math=False, **look)
        axis.set_label_text(name if given is not None else f"{name} position")


def make_room(ax: Axes, usual: tuple[float, float]) -> None:
    """Enlarge the figure by what labels take beyond the usual inches, so that its map stays."""
    boxes = [
        [label.get_window_extent().size[side] for label in axis.get_ticklabels()]
        for side, axis in enumerate((ax.yaxis, ax.xaxis))
    ]
    beyond = [max(sizes) / ax.figure.dpi - free for sizes, free in zip(boxes, usual, strict=True)]
    ax.figure.set_size_inches(ax.figure.get_size_inches() + [max(0, inches) for inches in beyond])


def spell(texts: Sequence[str]) -> tuple[list[str], dict[str, object]]:
    """Return texts, and a font for them if they have letters that the font in force lacks."""
    families = FontProperties().get_family()
    paths = [findfont(FontProperties(family=[family])) for family in families]
    missing = {
        letter
        for letter in set("".join(texts))
        if not letter.isspace() and not any(_has(path, letter) for path in paths)
    }
    if not missing:
        return list(texts), {}
    font_of = {letter: _font_with(letter) for letter in sorted(missing)}
    lost = [letter for letter in font_of if not font_of[letter]]
    if untold := [letter for letter in lost if letter not in _told][:10]:
        _told.update(lost)
        warnings.warn(
            f"no installed font has {' '.join(untold)}, so {MISSING} stands for it; install one "
            "that does, and set matplotlib.rcParams['font.family'] = [its name, 'DejaVu Sans'].",
            stacklevel=2,
        )
    fonts = dict.fromkeys([*families, *filter(None, font_of.values()), SPARE_FONT])
    table = dict.fromkeys(map(ord, lost), MISSING)
    return [text.translate(table) for text in texts], {"fontfamily": [*fonts]}


def _shortened(label: str, font: FontProperties) -> str:
    short, kept = label, len(label)
    while _measured(short, font)[0] > WIDEST * font.get_size_in_points():
        kept -= 1
        short = f"{label[: -(-kept // 2)]}…{label[len(label) - kept // 2 :]}"
    return short


def _fitted(
    names: Sequence[str], font: FontProperties, cell: float, room: float | None
) -> tuple[int, int]:
    """Return by how many degrees labels are turned, and the step to the next one that is kept."""
    size = font.get_size_in_points()
    widths, heights = zip(*(_measured(name, font) for name in names), strict=True)
    high = median(heights) + BELOW * size
    if room and max(widths) + BESIDE * size <= room:
        return 0, 1
    if not room or max(map(len, names)) == 1:  # a letter is as high as it is wide
        return 0, math.ceil(high / cell)
    return (45, 1) if high <= cell * math.sin(math.radians(45)) else (90, math.ceil(high / cell))


@lru_cache(maxsize=4096)
def _measured(text: str, font: FontProperties) -> tuple[float, float]:
    """Return width and height of the ink of a text, in points."""
    return text_to_path.get_text_width_height_descent(text, font, ismath=False)[:2]


@lru_cache(maxsize=4096)
def _font_with(letter: str) -> str | None:
    """Return the name of an installed font that has a letter."""
    fonts = sorted(fontManager.ttflist, key=lambda f: (f.style != "normal", f.weight != 400))
    named = (font for font in fonts if not font.name.startswith("Last Resort"))  # boxes alone
    return next((font.name for font in named if _has(font.fname, letter)), None)


@lru_cache(maxsize=4096)
def _has(path: str, letter: str) -> bool:
    try:
        return get_font(path).get_char_index(ord(letter)) != 0
    except (RuntimeError, OSError):  # a font of pictures, which matplotlib cannot draw
        return False
