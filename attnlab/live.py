"""Sliders around a learner's own drawing code.

The code that draws stays in the notebook, in full view::

    def draw(fig, d_k):
        plot_attention(weights_at(d_k), ax=fig.subplots())
        return f"d_k = {d_k}"

    live(draw, d_k=[1, 4, 16, 64])
"""

from __future__ import annotations

import asyncio
import html
import inspect
import io
import random
from collections.abc import Callable, Mapping, Sequence
from numbers import Real
from pathlib import Path
from typing import NamedTuple

import matplotlib as mpl
import numpy as np
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.transforms import Bbox
from PIL import Image

from attnlab import _browser
from attnlab._checks import check_list, check_number, check_type, lessons_extra, short
from attnlab._kernel import cells_run
from attnlab.display import CSS_PIXELS_PER_INCH, Storable, own_line, picture_html
from attnlab.palette import BLUE, INK, SOFT

with lessons_extra():
    import anywidget
    import traitlets

STYLE_FILE = Path(__file__).with_name("attnlab.mplstyle")
PAUSE = 0.02  # seconds that a further key press has to arrive before the next stop is drawn

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
        show with it (HTML allowed). ``draw(**values)`` draws with pyplot, as for
        ``ipywidgets.interact``, and may return what it has drawn on.
    figsize : tuple of float
        Width and height in inches.
    start : mapping from str to value, optional
        Initial values of the controls; the first stop of each that is not named.
    alt : str
        What the picture shows, for those who cannot see it; the sentence is read out as well.
    **controls : sequence or bool
        One per argument of ``draw``. A sequence or array of numbers becomes a slider with these
        stops, a sequence of words a row of buttons, a bool an on/off switch.

    Returns
    -------
    Live
        ``.value`` holds the current values, ``.controls`` the controls by name.

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
    lists = {name: _as_list(stops) for name, stops in controls.items()}
    return Live(draw, figsize, start, alt, lists)


class Live(Storable, anywidget.AnyWidget):
    """Controls, a picture and a sentence; made by ``live``.

    Attributes
    ----------
    controls : dict from str to Control
        One per argument of ``draw``; ``controls["d_k"].value = 4`` moves one.
    picture : bytes
        The picture as PNG.
    sentence : str
        What ``draw`` returned, as HTML; empty if that was no text or an error.
    last_error : Exception or None
        What ``draw`` raised at the current values.
    """

    _esm = _browser.script("projector", "live")
    _css = _browser.style_sheet("live", ".attnlab-live")
    stops = traitlets.List().tag(sync=True)
    alt = traitlets.Unicode().tag(sync=True)
    width = traitlets.Int().tag(sync=True)
    places = traitlets.Dict().tag(sync=True)
    picture = traitlets.Bytes().tag(sync=True)
    shown = traitlets.Dict().tag(sync=True)

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
        self.draw, self.figsize = draw, figsize
        self.last_error: Exception | None = None
        self._layouts: dict[tuple, list[Bbox]] = {}
        self._frames: dict[tuple[int, ...], Frame] = {}
        self._frames_from = cells_run()
        self.controls = {name: Control(self, name, stops) for name, stops in controls.items()}
        places = {
            name: control.values.index(start.get(name, control.first))
            for name, control in self.controls.items()
        }
        frame = self._make_frame(places)  # not kept: on the way back it is drawn anew, and the same
        if frame.exception:  # an error in draw shows at once, as the error of the cell
            raise frame.exception
        super().__init__(
            stops=[control.describe() for control in self.controls.values()],
            alt=alt or f"A figure that depends on {', '.join(controls)}.",
            width=round(figsize[0] * CSS_PIXELS_PER_INCH),
            places=places,
        )
        self._show(places, frame)
        self.observe(self._on_move, "places")

    @property
    def value(self) -> dict[str, object]:
        """The current values, by name."""
        return {name: control.value for name, control in self.controls.items()}

    @property
    def sentence(self) -> str:
        """What is said below the controls, as HTML."""
        return self.shown["sentence"]

    # --- drawing ----------------------------------------------------------------------------------

    def _on_move(self, change: Mapping[str, object]) -> None:
        self._show(self.places, self._frame(self.places))
        self._draw_ahead(change["old"], self.places)

    def _show(self, places: dict[str, int], frame: Frame) -> None:
        """Show a frame; the browser gets all parts of it at once."""
        self.last_error = frame.exception
        with self.hold_sync():
            if frame.picture:
                self.picture = frame.picture
            self.shown = {"places": places, "sentence": frame.sentence, "error": frame.error}

    def _frame(self, places: dict[str, int]) -> Frame:
        """Return what is seen at some places, drawn once for as long as no cell is run."""
        if self._frames_from != cells_run():  # what draw depends on may have changed
            self._frames.clear()
            self._frames_from = cells_run()
        key = tuple(places.values())
        if key not in self._frames:
            self._frames[key] = self._make_frame(places)
        return self._frames[key]

    def _draw_ahead(self, old: dict[str, int], new: dict[str, int]) -> None:
        """Draw the next stop of a slider that moves, as soon as the kernel has nothing to do."""
        ahead = {name: 2 * place - old.get(name, place) for name, place in new.items()}
        here = all(0 <= ahead[name] < len(one.values) for name, one in self.controls.items())
        if here and (loop := _running_loop()):
            loop.call_later(PAUSE, self._draw_unseen, ahead)

    def _draw_unseen(self, places: dict[str, int]) -> None:
        """Draw a frame without using up random numbers."""
        states = random.getstate(), np.random.get_state()
        try:
            with torch.random.fork_rng(devices=[]):
                self._frame(places)
        finally:
            random.setstate(states[0])
            np.random.set_state(states[1])

    def _make_frame(self, places: dict[str, int]) -> Frame:
        values = {name: one.values[places[name]] for name, one in self.controls.items()}
        make = _drawn_on if _takes_figure(self.draw, values) else _drawn_with_pyplot
        try:
            with mpl.rc_context(fname=STYLE_FILE):
                figure, text = make(self.draw, self.figsize, values)
                self._paint(figure)
        except Exception as error:  # it appears in the widget, where the control was moved
            text = f"{type(error).__name__}: {error}{own_line(error, self.draw)}"
            return Frame(b"", "", text, error)
        sentence = SENTENCE.format(text) if isinstance(text, str) and text else ""
        return Frame(_png(figure), sentence)

    def _paint(self, figure: Figure) -> None:
        """Draw the figure; its layout is computed only for labels not seen before."""
        labels = _labels(figure)
        if labels in self._layouts:
            figure.set_layout_engine("none")
            for ax, place in zip(figure.axes, self._layouts[labels], strict=True):
                ax.set_position(place)
        figure.canvas.draw()
        places = [ax.get_position(original=True) for ax in figure.axes]
        self._layouts.setdefault(labels, places)

    # --- pages ------------------------------------------------------------------------------------

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
            f"<b>{html.escape(name)}</b> = {control.stops_html()}"
            for name, control in self.controls.items()
        )
        picture = picture_html(self.picture, alt=self.alt, width=self.width)
        return (
            f'<div class="attnlab-live-stored">{picture}{self.sentence}'
            f'<p style="font-size:14px">Run this cell to use the controls: {stops}.</p></div>'
        )


class Frame(NamedTuple):
    """What ``draw`` gave at some values: a picture and a sentence, or an error."""

    picture: bytes
    sentence: str
    error: str = ""
    exception: Exception | None = None


class Control:
    """A control of a live figure: a slider for numbers, a choice for words or a switch.

    Attributes
    ----------
    name : str
        The argument of ``draw``.
    kind : str
        ``"slider"`` or ``"choice"``.
    values, labels : list
        The stops, and how they are written.
    value : object
        The current value; set it to move the control. ``index`` is its place among the values.
    """

    def __init__(self, owner: Live, name: str, stops: Sequence[object] | bool) -> None:
        self.name, self._owner = name, owner
        if isinstance(stops, bool):
            self.values, self.labels, self.first = [True, False], ["on", "off"], stops
        else:
            self.values, self.labels = [*stops], [str(stop) for stop in stops]
            self.first = self.values[0]
        words = all(isinstance(value, str | bool) for value in self.values)
        self.kind = "choice" if words else "slider"

    @property
    def index(self) -> int:
        """The place of the current value."""
        return self._owner.places[self.name]

    @index.setter
    def index(self, place: int) -> None:
        self._owner.places = {**self._owner.places, self.name: place}

    @property
    def value(self) -> object:
        """The current value."""
        return self.values[self.index]

    @value.setter
    def value(self, value: object) -> None:
        self.index = self.values.index(value)

    def describe(self) -> dict[str, object]:
        """Return what the browser needs to know."""
        return {"name": self.name, "kind": self.kind, "labels": self.labels}

    def stops_html(self) -> str:
        """Return all stops as HTML, the current one bold."""
        labels = [html.escape(label) for label in self.labels]
        labels[self.index] = f"<b>{labels[self.index]}</b>"
        return ", ".join(labels)


# --- drawing functions ----------------------------------------------------------------------------


def _takes_figure(draw: Draw, values: Mapping[str, object]) -> bool:
    """Return whether the first argument of a function is none that the controls give."""
    try:
        first = next(iter(inspect.signature(draw).parameters.values()), None)
    except (TypeError, ValueError):  # it does not tell
        return True
    named = {inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_KEYWORD}
    return first is not None and first.kind not in named and first.name not in values


def _drawn_on(draw: Draw, size: tuple[float, float], values: Mapping) -> tuple[Figure, object]:
    """Return a new figure on which a function has drawn, and what it returned."""
    figure = Figure(figsize=size, dpi=CSS_PIXELS_PER_INCH, layout="constrained")
    FigureCanvasAgg(figure)
    return figure, draw(figure, **values)


def _drawn_with_pyplot(
    draw: Draw, size: tuple[float, float], values: Mapping
) -> tuple[Figure, object]:
    """Return the figure that a function has drawn with pyplot, and what it returned."""
    from matplotlib import pyplot as plt

    before = {*plt.get_fignums()}
    try:
        plt.figure(figsize=size, layout="constrained")
        given = draw(**values)
        owner = getattr(given, "figure", None)  # of axes; a figure is its own
        figure = owner if isinstance(owner, Figure) else plt.gcf()
    finally:
        for number in {*plt.get_fignums()} - before:
            plt.close(number)
    FigureCanvasAgg(figure)
    figure.set_dpi(CSS_PIXELS_PER_INCH)
    return figure, given


def _as_list(stops: object) -> object:
    return stops.tolist() if isinstance(stops, np.ndarray) else stops


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


def _running_loop() -> asyncio.AbstractEventLoop | None:
    """Return the loop of the kernel; without a kernel there is none."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


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
