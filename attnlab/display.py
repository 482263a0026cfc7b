"""Figures with a number, a caption and a text for those who cannot see them."""

from __future__ import annotations

import base64
import io
import os
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DOTS_PER_INCH = 144
CSS_PIXELS_PER_INCH = 120  # width on the page, so that 6 inches fill a column of a lesson
CAPTION_WIDTH = 640  # CSS pixels: a line of text that is easy to read


def is_static() -> bool:
    """Return whether outputs are made to be stored: ``ATTNLAB_STATIC=1`` in the environment."""
    return os.environ.get("ATTNLAB_STATIC", "") not in ("", "0")


class Storable:
    """A widget that a notebook stores as text and as HTML, for readers without a kernel.

    Named before the class of the widget, which shows it live; ``to_html`` gives the HTML.
    """

    def _repr_mimebundle_(self, **kwargs: object) -> dict[str, object]:
        stored = {"text/plain": repr(self), "text/html": self._html_to_store()}
        if is_static():
            return stored
        bundle = super()._repr_mimebundle_(**kwargs)
        data = bundle[0] if isinstance(bundle, tuple) else bundle
        return {**data, **stored}

    def _html_to_store(self) -> str:
        return self.to_html()


def show_figure(fig: Figure, *, number: str, alt: str, caption: str) -> ShownFigure:
    """Return a figure with number, caption and alternative text, ready to be shown by a notebook.

    The figure is drawn now and, if pyplot holds it, closed: it appears once.

    Parameters
    ----------
    fig : matplotlib.figure.Figure or matplotlib.axes.Axes
        What to show; of Axes, the figure they belong to.
    number : str
        Lesson and position, such as ``"3.2"``.
    alt : str
        What a reader who cannot see the picture needs; one or two sentences.
    caption : str
        How to read it and what to see; one to three sentences.

    Returns
    -------
    ShownFigure
        Its HTML view is a ``<figure>`` with ``<img>`` and ``<figcaption>``.

    Raises
    ------
    TypeError
        If ``fig`` is neither a figure nor Axes.
    ValueError
        If ``alt`` or ``caption`` is empty.

    See Also
    --------
    matplotlib.figure.Figure.savefig : writes the picture to a file.
    """
    fig = getattr(fig, "figure", fig)
    if not hasattr(fig, "savefig"):
        raise TypeError(f"fig must be a matplotlib Figure or Axes, got {type(fig).__name__}.")
    for name, text in (("alt", alt), ("caption", caption)):
        if not (isinstance(text, str) and text.strip()):
            raise ValueError(f"{name} must say something about figure {number}, got {text!r}.")
    png = _to_png(fig)
    width = round(fig.get_figwidth() * CSS_PIXELS_PER_INCH)
    _close(fig)
    return ShownFigure(png, width, number, alt, caption)


class ShownFigure:
    """A drawn figure: made by ``show_figure``, shown by being the last value of a cell.

    Attributes
    ----------
    png : bytes
        The picture.
    number, alt, caption : str
        As given.
    """

    def __init__(self, png: bytes, width: int, number: str, alt: str, caption: str) -> None:
        self.png = png
        self.width = width
        self.number = number
        self.alt = alt
        self.caption = caption

    def __repr__(self) -> str:
        return f"Figure {self.number}. {self.caption}"

    def _repr_html_(self) -> str:
        picture = picture_html(self.png, alt=self.alt, width=self.width)
        return (
            f'<figure data-number="{escape(self.number)}" style="margin:0.5em 0">{picture}'
            f'<figcaption style="max-width:{max(self.width, CAPTION_WIDTH)}px">'
            f"<b>Figure {escape(self.number)}.</b> {escape(self.caption)}</figcaption></figure>"
        )


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

    See Also
    --------
    show_figure : adds number and caption.
    """
    data = base64.b64encode(png).decode()
    return (
        f'<img alt="{escape(alt)}" style="width:{width}px;max-width:100%;height:auto" '
        f'src="data:image/png;base64,{data}">'
    )


def _to_png(fig: Figure) -> bytes:
    buffer = io.BytesIO()
    # the default metadata names the version of matplotlib
    fig.savefig(buffer, format="png", dpi=DOTS_PER_INCH, metadata={"Software": None})
    return buffer.getvalue()


def _close(fig: Figure) -> None:
    if fig.canvas.manager is not None:  # only figures that pyplot made have one
        import matplotlib.pyplot as plt

        plt.close(fig)


def raise_in_tests(error: Exception) -> None:
    """Raise an error that a widget has shown to its user, if a test is running.

    Parameters
    ----------
    error : Exception
        What went wrong while a control was moved.

    See Also
    --------
    attnlab.live.live : shows errors inside the widget.
    """
    if os.environ.get("PYTEST_CURRENT_TEST"):
        raise error
