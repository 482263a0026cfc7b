"""Colours by role, the ramp of attention weights, and an ink that can be read on any of them.

Every picture takes its colours from here: matplotlib figures, explorers, reports and pages. Blue
is the main colour and orange its opposite (what is not scaled, wrong or blocked); each pair can be
told apart by colour-blind readers, and nothing is ever said by colour alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Role(NamedTuple):
    """A colour for a light page and its counterpart for a dark one."""

    light: str
    dark: str


ROLES: dict[str, Role] = {
    "scaled": Role("#0b61a4", "#79bdf5"),  # the main colour
    "raw": Role("#b04600", "#ff9d5c"),  # its opposite
    "good": Role("#00704f", "#5fd3a8"),
    "other": Role("#7b3f98", "#d3a4ea"),
    "ink": Role("#16202b", "#e9eef3"),
    "mute": Role("#4a5662", "#b3bfca"),
    "edge": Role("#6b7683", "#8a97a4"),
    "line": Role("#cdd5dd", "#3a4652"),
    "paper": Role("#ffffff", "#141a21"),
    "soft": Role("#f2f5f9", "#1d262f"),
    "cool": Role("#e6f1fa", "#16293a"),
    "warm": Role("#fff3ea", "#33231a"),
    "hatch": Role("#d3dae1", "#3b4855"),
    "hatched": Role("#eef1f5", "#232d37"),
    "focus": Role("#d98200", "#ffb84d"),
    "on": Role("#ffffff", "#0d1319"),  # text on the main colour
}

BLUE, ORANGE, GREEN, PURPLE, INK, MUTED, EDGE, LINE, SOFT = (
    ROLES[name].light
    for name in ("scaled", "raw", "good", "other", "ink", "mute", "edge", "line", "soft")
)

# White at 0 to dark blue at 1: ColorBrewer's Blues, whose first step is pale blue, begun at white.
RAMP: tuple[tuple[int, int, int], ...] = (
    (255, 255, 255),
    (222, 235, 247),
    (198, 219, 239),
    (158, 202, 225),
    (107, 174, 214),
    (66, 146, 198),
    (33, 113, 181),
    (8, 81, 156),
    (8, 48, 107),
)


def shade(weight: float) -> tuple[int, int, int]:
    """Return the colour of an attention weight: white at 0, dark blue at 1.

    Parameters
    ----------
    weight : float
        A weight; values outside 0 to 1 get the colour of the nearer end.

    Returns
    -------
    (int, int, int)
        Red, green and blue, 0 to 255.

    See Also
    --------
    attnlab.plotting.plot_attention : draws whole matrices with this ramp.

    References
    ----------
    Cynthia Brewer, ColorBrewer 2.0, "Blues". https://colorbrewer2.org

    Examples
    --------
    >>> shade(0.0), shade(1.0)
    ((255, 255, 255), (8, 48, 107))
    """
    place = min(max(weight, 0.0), 1.0) * (len(RAMP) - 1)
    low = min(int(place), len(RAMP) - 2)
    ends = zip(RAMP[low], RAMP[low + 1], strict=True)
    return tuple(round(start + (end - start) * (place - low)) for start, end in ends)


def luminance(colour: Sequence[float]) -> float:
    """Return the relative luminance of a colour, by which contrast is measured.

    Parameters
    ----------
    colour : sequence of float
        Red, green and blue from 0 to 255; further entries are ignored.

    Returns
    -------
    float
        0 for black to 1 for white.

    References
    ----------
    Web Content Accessibility Guidelines 2.2, "relative luminance".
    https://www.w3.org/TR/WCAG22/#dfn-relative-luminance

    Examples
    --------
    >>> luminance((0, 0, 0)), luminance((255, 255, 255))
    (0.0, 1.0)
    """
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4
        for part in (min(max(part_of_255 / 255, 0.0), 1.0) for part_of_255 in colour[:3])
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def ink_on(colour: Sequence[float]) -> str:
    """Return black or white, whichever is easier to read on a colour.

    Parameters
    ----------
    colour : sequence of float
        Red, green and blue from 0 to 255; further entries are ignored.

    Returns
    -------
    str
        ``"#000000"`` or ``"#ffffff"``; its contrast with the colour is at least 4.5 to 1.

    Examples
    --------
    >>> ink_on(shade(0.1)), ink_on(shade(0.9))
    ('#000000', '#ffffff')
    """
    return "#000000" if luminance(colour) > 0.179 else "#ffffff"


def to_hex(colour: Sequence[int]) -> str:
    """Return red, green and blue (0 to 255) in the notation of HTML.

    Examples
    --------
    >>> to_hex((8, 48, 107))
    '#08306b'
    """
    return "#{:02x}{:02x}{:02x}".format(*colour[:3])


def css(*, dark: bool = False) -> str:
    """Return every role as a CSS custom property, for the inside of a rule.

    Parameters
    ----------
    dark : bool
        Whether the page behind is dark.

    Examples
    --------
    >>> css().split("; ")[0]
    '--scaled: #0b61a4'
    """
    return "; ".join(
        f"--{name}: {role.dark if dark else role.light}" for name, role in ROLES.items()
    )
