"""Sliders around a learner's own drawing code.

The code that draws stays in the notebook, in full view::

    def draw(fig, d_k):
        plot_attention(weights_at(d_k), ax=fig.subplots())
        return f"d_k = {d_k}"

    live(draw, d_k=[1, 4, 16, 64])
"""

from __future__ import annotations

import html
import io
from collections.abc import Callable, Mapping, Sequence
from numbers import Real
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.transforms import Bbox
from PIL import Image

from attnlab._checks import check_list, check_number, check_type, lessons_extra, short
from attnlab.display import CSS_PIXELS_PER_INCH, Storable, own_line, picture_html
from attnlab.palette import BLUE, INK, SOFT, css

with lessons_extra():
    import ipywidgets as widgets

STYLE_FILE = Path(__file__).with_name("attnlab.mplstyle")

CSS = (
    "<style>.attnlab-live { "
    + css()
    + """ }
.attnlab-live .widget-label { font-size: 16px; font-weight: 600; width: auto; min-width: 60px; }
.attnlab-live .widget-readout { font: 700 17px monospace; min-width: 70px; }
.attnlab-live .widget-hbox { gap: 2px 18px; }
.attnlab-live .noUi-connect { background: var(--scaled); }
.attnlab-live .noUi-handle { border: 2px solid var(--scaled); }
.attnlab-live .widget-toggle-button.mod-active { background: var(--scaled); color: var(--on); }
.attnlab-live img { max-width: 100%; }
.attnlab-stale { opacity: 0.15; }
.attnlab-error pre { white-space: pre-wrap; font-size: 14px; color: var(--ink); margin: 0;
  border-left: 5px solid var(--raw); background: var(--warm); padding: 8px 12px; }
</style>"""
)

SENTENCE = (  # carries its own look, since it is stored without the style sheet
    '<p role="status" style="font-size:16px;line-height:1.4;margin:4px 0;padding:6px 12px;'
    f'border-left:5px solid {BLUE};background:{SOFT};color:{INK}">{{}}</p>'
)

Draw = Callable[..., str | None]


def live(
    draw: Draw,
    *,
    figsize: tuple[float, float] = (7.0, 3.5),
    start: Mapping[str, object] | None = None,
    alt: str = "",
    **controls: Sequence[object] | bool,
) -> Live:
    """Return a widget that redraws a figure whenever a control moves.

    Parameters
    ----------
    draw : callable
        ``draw(fig, **values)`` draws on an empty matplotlib Figure and may return one sentence to
        show under it (HTML allowed).
    figsize : tuple of float
        Width and height in inches.
    start : mapping from str to value, optional
        Initial values of the controls; the first stop of each that is not named.
    alt : str
        What the picture shows, for those who cannot see it; the sentence is read out as well.
    **controls : sequence or bool
        One per argument of ``draw``. A sequence of numbers becomes a slider with these stops, a
        sequence of words a row of buttons, a bool an on/off switch.

    Returns
    -------
    Live
        ``.value`` holds the current values, ``.controls`` the ipywidgets by name.

    Raises
    ------
    TypeError
        If ``draw`` cannot be called, or a control is neither a bool nor a sequence of numbers or
        words.
    ValueError
        If there are no controls, one has fewer than two different stops, or ``start`` or
        ``figsize`` does not fit.

    See Also
    --------
    ipywidgets.interact : the general tool; its pictures cannot be checked by nbval.
    """
    return Live(draw, figsize, start, alt, controls)


class Live(Storable, widgets.VBox):
    """Controls, a picture and a sentence; made by ``live``.

    Attributes
    ----------
    controls : dict from str to ipywidgets widget
        One per argument of ``draw``.
    image : ipywidgets.Image
        The picture as PNG.
    last_error : Exception or None
        What ``draw`` raised at the current values.
    """

    def __init__(
        self,
        draw: Draw,
        figsize: tuple[float, float],
        start: Mapping[str, object] | None,
        alt: str,
        controls: Mapping[str, Sequence[object] | bool],
    ) -> None:
        start = {} if start is None else start
        _check_drawing(draw, figsize, alt)
        _check_controls(controls, start)
        self.draw = draw
        self.alt = alt
        self.last_error: Exception | None = None
        self._places: dict[tuple, list[Bbox]] = {}
        self.figure = Figure(figsize=figsize, dpi=CSS_PIXELS_PER_INCH, layout="constrained")
        FigureCanvasAgg(self.figure)
        self.width = round(figsize[0] * CSS_PIXELS_PER_INCH)
        self.controls = {
            name: _control(name, stops, start.get(name)) for name, stops in controls.items()
        }
        self.image = widgets.Image(format="png", layout={"width": "100%"})
        self.image.layout.max_width = f"{self.width}px"
        self.sentence, self.error = widgets.HTML(), widgets.HTML()
        self.error.add_class("attnlab-error")
        row = widgets.HBox([*self.controls.values()], layout={"flex_flow": "row wrap"})
        super().__init__([widgets.HTML(CSS), row, self.image, self.sentence, self.error])
        self.add_class("attnlab-live")
        self._redraw()  # an error in draw shows at once, as the error of the cell
        for control in self.controls.values():
            control.observe(self._on_move, "value")

    @property
    def value(self) -> dict[str, object]:
        """The current values, by name."""
        return {name: control.value for name, control in self.controls.items()}

    def _redraw(self) -> None:
        self.figure.clear()
        self.figure.set_layout_engine("constrained")
        with mpl.rc_context(fname=STYLE_FILE):
            text = self.draw(self.figure, **self.value)
            self._place_and_paint()
        text = text if isinstance(text, str) else ""  # some drawings end in `return ax`
        self.image.value = _png(self.figure)
        self.sentence.value = SENTENCE.format(text) if text else ""

    def _place_and_paint(self) -> None:
        """Draw the figure; its layout is computed only for labels not seen before."""
        labels = _labels(self.figure)
        if labels in self._places:
            self.figure.set_layout_engine("none")
            for ax, place in zip(self.figure.axes, self._places[labels], strict=True):
                ax.set_position(place)
        self.figure.canvas.draw()
        places = [ax.get_position(original=True) for ax in self.figure.axes]
        self._places.setdefault(labels, places)

    def _on_move(self, _change: object) -> None:
        try:
            self._redraw()
        except Exception as error:  # it appears in the widget, where the control was moved
            self.last_error = error
            self.image.add_class("attnlab-stale")
            text = f"{type(error).__name__}: {error}{own_line(error, self.draw)}"
            self.error.value = f'<pre role="alert">{html.escape(text)}</pre>'
        else:
            self.last_error = None
            self.image.remove_class("attnlab-stale")
            self.error.value = ""

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={value!r}" for name, value in self.value.items())
        return f"live({getattr(self.draw, '__name__', 'draw')}, {values})"

    def to_html(self) -> str:
        """Return the current picture and sentence, with the stops that a kernel would offer.

        Returns
        -------
        str
            HTML that needs no script.
        """
        stops = "; ".join(
            f"<b>{html.escape(name)}</b> = {_stops_html(control)}"
            for name, control in self.controls.items()
        )
        picture = picture_html(self.image.value, alt=self.alt or repr(self), width=self.width)
        return (
            f'<div class="attnlab-live-stored">{picture}{self.sentence.value}'
            f'<p style="font-size:14px">Run this cell to move: {stops}.</p></div>'
        )


def _check_drawing(draw: object, figsize: object, alt: object) -> None:
    if not callable(draw):
        raise TypeError(f"draw must be a function, got {type(draw).__name__}.")
    check_list("figsize", figsize, "a pair (width, height) in inches")
    if len(figsize) != 2:
        raise ValueError(f"figsize must be a pair (width, height), got {short(figsize)}.")
    for inches in figsize:
        check_number("figsize", inches)
        if inches <= 0:
            raise ValueError(f"figsize must be positive, got {inches}.")
    check_type("alt", alt, str, "a string")


def _check_controls(
    controls: Mapping[str, Sequence[object] | bool], start: Mapping[str, object]
) -> None:
    if not controls:
        raise ValueError("live needs at least one control, e.g. d_k=[1, 4, 16].")
    for name, stops in controls.items():
        if not isinstance(stops, bool):
            _check_stops(name, stops)
    check_type("start", start, Mapping, "a dict of initial values")
    for name, value in start.items():
        if name not in controls:
            raise ValueError(
                f"start must name controls, got {name!r}; the controls are {[*controls]}."
            )
        allowed = (True, False) if isinstance(controls[name], bool) else controls[name]
        if not isinstance(value, str | Real) or value not in allowed:
            raise ValueError(
                f"start of {name} must be one of its stops {allowed}, got {short(value)}."
            )


def _check_stops(name: str, stops: object) -> None:
    if not isinstance(stops, Sequence) or isinstance(stops, str | bytes):
        raise TypeError(
            f"{name} must be a list of stops or a bool, got {type(stops).__name__}; "
            f"e.g. {name}=[1, 4, 16]."
        )
    for stop in stops:
        if not isinstance(stop, str | Real):
            raise TypeError(f"{name} must hold numbers or words, got {type(stop).__name__}.")
    if len(stops) < 2:
        raise ValueError(f"{name} must have at least 2 stops, got {len(stops)}.")
    if len(set(stops)) < len(stops) or any(stop != stop for stop in stops):
        raise ValueError(f"{name} must have stops that differ from each other, got {short(stops)}.")


def _control(
    name: str, stops: Sequence[object] | bool, value: object
) -> widgets.SelectionSlider | widgets.ToggleButtons:
    """Return a slider for numbers, buttons for words, and two buttons for a switch."""
    if isinstance(stops, bool):
        options, first = [("on", True), ("off", False)], stops
    else:
        options, first = [(str(stop), stop) for stop in stops], stops[0]
    common = {
        "options": options,
        "value": first if value is None else value,
        "description": name,
    }
    if all(isinstance(stop, str | bool) for _, stop in options):
        return widgets.ToggleButtons(
            **common, style={"button_width": "auto", "description_width": "initial"}
        )
    return widgets.SelectionSlider(
        **common,
        layout=widgets.Layout(width="420px", max_width="100%"),
        style={"description_width": "initial"},
    )


def _labels(figure: Figure) -> tuple:
    """Return all texts that decide how much room the axes of a figure leave for them."""
    legends = [*figure.legends, *(ax.get_legend() for ax in figure.axes)]
    texts = [text.get_text() for one in filter(None, legends) for text in one.get_texts()]
    for ax in figure.axes:
        ticks = (*ax.get_xticklabels(), *ax.get_yticklabels())
        texts += [ax.get_title(loc) for loc in ("left", "center", "right")]
        texts += [ax.get_xlabel(), ax.get_ylabel(), *(tick.get_text() for tick in ticks)]
        texts.append(ax.get_position(original=True).bounds)
    return figure.get_suptitle(), len(figure.axes), *texts


def _png(figure: Figure) -> bytes:
    """Return the drawn canvas as PNG, quickly: savefig would draw a second time."""
    buffer = io.BytesIO()
    picture = Image.fromarray(np.asarray(figure.canvas.buffer_rgba())).convert("RGB")
    picture.save(buffer, "PNG", compress_level=1)
    return buffer.getvalue()


def _stops_html(control: widgets.SelectionSlider | widgets.ToggleButtons) -> str:
    labels = [(html.escape(label), value == control.value) for label, value in control.options]
    return ", ".join(f"<b>{label}</b>" if chosen else label for label, chosen in labels)
