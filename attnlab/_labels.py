"""Labels of rows and columns: as many as there is room for, in a font that has their letters."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from functools import lru_cache

from matplotlib.axes import Axes
from matplotlib.font_manager import FontProperties, findfont, fontManager, get_font

LONGEST = 16  # letters; a longer label loses its middle
LETTER = 0.6  # width of a letter, in font sizes
FULL = 0.86  # of the width of a column, so much may be filled by a word
SLANTED, UPRIGHT = 1.45, 1.05  # font sizes from label to label, that they do not touch
SINGLE = 0.7  # and from letter to letter, where each label is one
MISSING = "□"  # instead of a letter that no font has
SPARE_FONT = "DejaVu Sans"  # comes with matplotlib


def write_labels(
    ax: Axes,
    labels: tuple[Sequence[str] | None, Sequence[str] | None],
    size: Sequence[int],
) -> None:
    """Name the rows and columns of a drawn matrix by labels, or by their positions."""
    box, dots = ax.get_window_extent(), ax.figure.dpi / 72
    cell = min(box.width / size[1], box.height / size[0]) / dots  # points, as font sizes are
    for given, count, axis, name in (
        (labels[0], size[0], ax.yaxis, "query"),
        (labels[1], size[1], ax.xaxis, "key"),
    ):
        if given is None:
            places = range(0, count, max(1, count // 8))
            names, look, turn = [str(place) for place in places], {}, 0
        else:
            names, look = spell([_shortened(str(label)) for label in given])
            font = FontProperties(size=axis.get_tick_params().get("labelsize")).get_size_in_points()
            turn = 0 if axis is ax.yaxis else _turn(names, font, cell)
            apart = SINGLE if max(map(len, names)) == 1 else UPRIGHT
            room = font * (SLANTED if turn == 45 else apart)
            step = 1 if axis is ax.xaxis and not turn else math.ceil(room / cell)
            places = range(0, count, step)
            names = names[::step]
        axis.set_tick_params(length=0, labelrotation=turn)
        if turn == 45:  # the end of a word stands below its column
            look = {**look, "ha": "right", "rotation_mode": "anchor"}
        # a token such as $ is text, not the beginning of a formula
        axis.set_ticks([place + 0.5 for place in places], names, parse_math=False, **look)
        axis.set_label_text(name if given is not None else f"{name} position")


def make_room(ax: Axes, usual: tuple[float, float]) -> None:
    """Enlarge the figure by what labels take beyond the usual inches, so that its map stays."""
    boxes = [
        [label.get_window_extent().size[side] for label in axis.get_ticklabels()]
        for side, axis in enumerate((ax.yaxis, ax.xaxis))
    ]
    beyond = [max(sizes) / ax.figure.dpi - free for sizes, free in zip(boxes, usual, strict=True)]
    ax.figure.set_size_inches(ax.figure.get_size_inches() + [max(0, one) for one in beyond])


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
    others = _fonts_for(frozenset(missing))
    table = {ord(letter): MISSING for letter in missing if not others[letter]}
    fonts = dict.fromkeys([*families, *sorted({*filter(None, others.values())}), SPARE_FONT])
    return [text.translate(table) for text in texts], {"fontfamily": [*fonts]}


def _shortened(label: str) -> str:
    if len(label) <= LONGEST:
        return label
    return f"{label[: LONGEST // 2]}…{label[1 - LONGEST // 2 :]}"


def _turn(names: Sequence[str], font: float, cell: float) -> int:
    """Return by how many degrees words are turned, so that they do not overlap."""
    if max(map(len, names)) * LETTER * font <= FULL * cell:
        return 0
    return 45 if cell >= SLANTED * font else 90


@lru_cache(maxsize=64)
def _fonts_for(letters: frozenset[str]) -> dict[str, str | None]:
    """Return for each letter the name of an installed font that has it; warn if there is none."""
    fonts = sorted(fontManager.ttflist, key=lambda one: (one.style != "normal", one.weight != 400))
    fonts = [one for one in fonts if not one.name.startswith("Last Resort")]  # boxes alone
    found = {
        letter: next((one.name for one in fonts if _has(one.fname, letter)), None)
        for letter in sorted(letters)
    }
    if lost := [letter for letter in found if not found[letter]][:10]:
        warnings.warn(
            f"no installed font has {' '.join(lost)}, so {MISSING} stands for it; install one that "
            "does, and set matplotlib.rcParams['font.family'] = [its name, 'DejaVu Sans'].",
            stacklevel=2,
        )
    return found


@lru_cache(maxsize=4096)
def _has(path: str, letter: str) -> bool:
    try:
        return get_font(path).get_char_index(ord(letter)) != 0
    except (RuntimeError, OSError):  # a font of pictures, which matplotlib cannot draw
        return False
