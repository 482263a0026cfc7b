"""Numbered figures, with a caption and a text for those who cannot see the picture."""

from __future__ import annotations

import base64
import io
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from attnlab.checks import check_size, check_type
from attnlab.display.stored import Stored
from attnlab.display.texts import caption_of, check_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

CSS_PIXELS_PER_INCH = 120  # width on the page, so that 6 inches fill a column of a lesson
DOTS_PER_INCH = 144  # of a stored picture; a moving one has a dot for every CSS pixel
SOURCE = 'src="data:image/png;base64,'  # before the picture itself
CAPTION_WIDTH = 640  # CSS pixels: a line of text that is easy to read


@dataclass(frozen=True, repr=False)
class ShownFigure(Stored):
    """A drawn figure: made by ``show_figure``, shown by being the last value of a cell.

    Attributes
    ----------
    png : bytes
        The picture.
    width : int
        Width on the page, in CSS pixels.
    number, alt, caption : str
        As given to ``show_figure``.
    maps : list of dict
        Of each heatmap with numbers in its cells: their ``texts``, the names of its ``rows`` and
        ``columns``, and its ``box``: left, top, width and height, as shares of the picture.
    """

    png: bytes
    width: int
    number: str
    alt: str
    caption: str
    maps: list[dict[str, object]]

    def __repr__(self) -> str:
        return f"Figure {self.number}. {self.caption}"

    def facts(self) -> dict[str, object]:
        """Return number, alternative text, caption, and heatmaps if there are any."""
        texts = {"number": self.number, "alt": self.alt, "caption": self.caption}
        return {"kind": "figure", **texts, **({"maps": self.maps} if self.maps else {})}

    def to_html(self) -> str:
        """Return the picture with number and caption."""
        picture = picture_html(self.png, alt=self.alt, width=self.width)
        return (
            f'<figure data-number="{escape(self.number)}" style="margin:0.5em 0">{picture}'
            f'<figcaption style="max-width:{max(self.width, CAPTION_WIDTH)}px">'
            f"<b>Figure {escape(self.number)}.</b> {escape(self.caption)}</figcaption></figure>"
        )


def show_figure(
    fig: Figure, number: str, *, alt: str | None = None, caption: str | None = None
) -> ShownFigure:
    """Return a figure with number, caption and alternative text, ready to be shown by a notebook.

    The figure is drawn now and, if pyplot holds it, closed, so that it appears only once.

    Parameters
    ----------
    fig : matplotlib.figure.Figure or matplotlib.axes.Axes
        The figure to show, or the Axes in it.
    number : str
        Lesson and position, such as ``"3.2"``.
    alt, caption : str, optional
        For a figure of your own, both: what a reader who cannot see the picture needs to know, and
        how to read it. The texts of the lessons' figures are in ``notebooks/texts/``.

    Returns
    -------
    ShownFigure
        Its HTML view is a ``<figure>`` with ``<img>`` and ``<figcaption>``.

    Raises
    ------
    TypeError
        If ``fig`` is neither a figure nor Axes, or a text is not a string.
    ValueError
        If ``number`` is empty, only one of ``alt`` and ``caption`` is given, or neither is and
        ``notebooks/texts/`` has no entry of this number.

    See Also
    --------
    matplotlib.figure.Figure.savefig : writes the picture to a file.
    """
    fig = getattr(fig, "figure", fig)
    if not hasattr(fig, "savefig"):
        raise TypeError(f"fig must be a matplotlib Figure or Axes, got {type(fig).__name__}.")
    check_text("number", number)
    lessons_own = alt is None and caption is None
    texts = caption_of(number) if lessons_own else {"alt": alt, "caption": caption}
    for name in ("alt", "caption"):
        check_text(name, texts.get(name))
    buffer = io.BytesIO()
    # the default metadata names the version of matplotlib
    fig.savefig(buffer, format="png", dpi=DOTS_PER_INCH, metadata={"Software": None})
    width, maps = round(fig.get_figwidth() * CSS_PIXELS_PER_INCH), maps_in(fig)
    if fig.canvas.manager is not None:  # only figures that pyplot made have one
        import matplotlib.pyplot as plt

        plt.close(fig)
    return ShownFigure(buffer.getvalue(), width, number, texts["alt"], texts["caption"], maps)


def maps_in(fig: Figure) -> list[dict[str, object]]:
    """Return what can be read in those heatmaps of a drawn figure whose cells hold numbers."""
    drawn = [(ax, getattr(one, "texts", None)) for ax in fig.axes for one in ax.collections]
    return [_map(ax, texts) for ax, texts in drawn if texts]


def _map(ax: Axes, texts: list[list[str]]) -> dict[str, object]:
    corners = [(0, 0), (len(texts[0]), len(texts))]  # of the cells, top left and bottom right
    (left, top), (right, bottom) = (ax.transData - ax.figure.transFigure).transform(corners)
    box = [round(float(share), 4) for share in (left, 1 - top, right - left, top - bottom)]
    rows, columns = _names(ax.yaxis, len(texts)), _names(ax.xaxis, len(texts[0]))
    return {"box": box, "rows": rows, "columns": columns, "texts": texts}


def _names(axis: Axis, count: int) -> list[str]:
    """Return the labels of rows or columns, also if they stand beside another heatmap only."""
    places = axis.get_ticklocs()
    names = axis.get_major_formatter().format_ticks(places)
    known = {int(place): name for place, name in zip(places, names, strict=True)}
    return [known.get(place, "") for place in range(count)]


def picture_html(png: bytes, *, alt: str, width: int) -> str:
    """Return an ``<img>`` that holds the picture itself and is never wider than the page.

    Parameters
    ----------
    png : bytes
        The picture.
    alt : str
        Alternative text.
    width : int
        Width in CSS pixels where the page is wide enough.

    Returns
    -------
    str
        HTML.

    Raises
    ------
    TypeError, ValueError
        If ``png`` is not bytes, ``alt`` is not a string or ``width`` is not a positive integer.

    See Also
    --------
    show_figure : adds number and caption.
    """
    check_type("png", png, bytes | memoryview, "bytes")
    check_text("alt", alt)
    width = check_size("width", width, at_least=1)
    data = base64.b64encode(png).decode()
    return (
        f'<img alt="{escape(alt)}" style="width:{width}px;max-width:100%;height:auto" '
        f'{SOURCE}{data}">'
    )


def pictures_in(page: str) -> list[bytes]:
    """Return the pictures of HTML that ``picture_html`` made, in their order."""
    parts = page.split(SOURCE)[1:]
    return [base64.b64decode(part.partition('"')[0]) for part in parts]
