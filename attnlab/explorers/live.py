"""Sliders around a learner's own drawing code.

The code that draws stays in the notebook, in full view::

    def draw(fig, d_k):
        plot_attention(weights_at(d_k), ax=fig.subplots())
        return f"d_k = {d_k}"

    live(draw, d_k=[1, 4, 16, 64])
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import html
import inspect
import io
import json
import random
from collections.abc import Callable, Mapping, Sequence
from numbers import Real
from pathlib import Path
from types import TracebackType
from unittest.mock import patch

import matplotlib as mpl
import numpy as np
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.transforms import Bbox
from PIL import Image

from attnlab.checks import short
from attnlab.display import ipython
from attnlab.display.figure import CSS_PIXELS_PER_INCH, picture_html
from attnlab.display.setup import STYLE_FILE
from attnlab.explorers.frame.base import Explorer
from attnlab.explorers.frame.controls import Choice, Slider
from attnlab.explorers.frame.learner import name_of
from attnlab.explorers.frame.panels import Panel, Picture, stacked
from attnlab.palette import BLUE, INK, SOFT

HERE = Path(__file__).parent
PAUSE = 0.02  # seconds that a further key press has to arrive before the next stop is drawn
LINES = 8  # of what ``draw`` prints: the last ones are shown
PLACE = "place_{}"  # the state that a control moves: its name alone may be taken

SENTENCE = (  # carries its own look, since it is stored without the style sheet
    '<p role="status" style="font-size:16px;line-height:1.4;margin:4px 0;padding:6px 12px;'
    f'border-left:5px solid {BLUE};background:{SOFT};color:{INK}">{{}}</p>'
)
PRINTED = '<pre style="white-space:pre-wrap">{}</pre>'

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
        show with it (HTML allowed); the last lines that it prints stand under the figure.
        ``draw(**values)`` draws with pyplot, as for
        ``ipywidgets.interact``. Either may return the figure or the axes that it has drawn on.
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
        words, or a tuple that ``interact`` would take for a range.
    ValueError
        If there are no controls, one has fewer than two different stops, ``start`` does not fit,
        or ``draw`` draws nothing.

    See Also
    --------
    ipywidgets.interact : the general tool; its pictures cannot be checked by nbval.
    """
    if not callable(draw):
        raise TypeError(f"draw must be a function, got {type(draw).__name__}.")
    if not controls:
        raise ValueError("live needs at least one control, e.g. d_k=[1, 4, 16].")
    stops = {name: _stops_of(name, given) for name, given in controls.items()}
    switches = {name: given for name, given in controls.items() if isinstance(given, bool)}
    own = {name: values[0] for name, values in stops.items()} | switches
    places = {}
    for name, value in {**own, **(start or {})}.items():
        if name not in stops:
            raise ValueError(f"start must name controls, got {name!r}; there is {[*stops]}.")
        if value not in stops[name]:
            raise ValueError(
                f"start of {name} must be one of its stops {stops[name]}, got {short(value)}."
            )
        places[PLACE.format(name)] = stops[name].index(value)
    __tracebackhide__ = True  # IPython shows the lines of draw alone
    kind = type(
        "Live", (Live,), {PLACE.format(name): _control(name, stops[name]) for name in stops}
    )
    return kind(draw, stops, figsize, alt, places)


class Live(Explorer):
    """Controls, a picture and a sentence; made by ``live``.

    Attributes
    ----------
    stops : dict from str to list
        All values of each control.
    controls : dict from str to Knob
        One per argument of ``draw``; ``controls["d_k"].value = 4`` moves one.
    last_error : Exception or None
        What ``draw`` raised at the current values.
    """

    def __init__(
        self,
        draw: Draw,
        stops: Mapping[str, list],
        figsize: tuple[float, float],
        alt: str,
        places: Mapping[str, int],
    ) -> None:
        self.stops, self.figsize = stops, figsize
        self.controls = {name: Knob(self, name) for name in stops}
        self.alt = alt or f"A figure that depends on {', '.join(stops)}."
        width = round(figsize[0] * CSS_PIXELS_PER_INCH)
        picture = Picture("picture", alt=self.alt, width=width)
        self.panels = (stacked(picture, Panel("printed", kind="lines")),)
        self._width = width
        self._layouts: dict[tuple, list[Bbox]] = {}
        self._frames: dict[tuple[int, ...], dict[str, object]] = {}
        self._frames_from = ipython.cells_run()
        super().__init__(draw, **places)
        if self.last_error:  # an error in draw shows at once, as the error of the cell
            __tracebackhide__ = True
            raise self.last_error.with_traceback(_outside(self.last_error.__traceback__))

    @property
    def value(self) -> dict[str, object]:
        """The current values, by name."""
        return {name: knob.value for name, knob in self.controls.items()}

    @property
    def picture(self) -> bytes:
        """The picture that was drawn last, as PNG."""
        return base64.b64decode(self.answer["drawn"]["picture"]["png"])

    @property
    def sentence(self) -> str:
        """What ``draw`` returned, as HTML; empty if that was no text or an error."""
        return "" if self.answer["error"] else self.answer["drawn"]["say"]

    def make_data(self) -> dict[str, object]:
        """Return that sentences are HTML; Python draws each state when it is asked for."""
        return {"markup": True}

    # --- drawing ----------------------------------------------------------------------------------

    def run_function(self, function: Draw) -> dict[str, object]:
        """Return what is seen, drawn once for as long as no cell is run."""
        if self._frames_from != ipython.cells_run():  # what draw depends on may have changed
            self._frames.clear()
            self._frames_from = ipython.cells_run()
        return self._kept(self._places())

    def frame(self, **places: int) -> dict[str, object]:
        """Return sentence and picture at some places of the controls."""
        printed = io.StringIO()
        try:
            with contextlib.redirect_stdout(printed):
                figure, text = self._drawn(places)
        except Exception as error:
            if lines := _last_lines(printed.getvalue()):
                error.add_note("\n".join(["It printed:", *lines]))
            raise
        buffer = io.BytesIO()  # savefig would draw a second time
        picture = Image.fromarray(np.asarray(figure.canvas.buffer_rgba())).convert("RGB")
        picture.save(buffer, "PNG", compress_level=1)
        return {
            "say": text if isinstance(text, str) else "",
            "bad": False,
            "code": "",
            "picture": {"png": base64.b64encode(buffer.getvalue()).decode()},
            "printed": {"lines": _last_lines(printed.getvalue())},
        }

    def figure(self) -> Figure:
        """Return the figure at the current values, as ``draw`` draws it."""
        return self._drawn(self._places())[0]

    def _places(self) -> dict[str, int]:
        return {name: getattr(self, name) for name in self.frame_values()}

    def _kept(self, places: Mapping[str, int]) -> dict[str, object]:
        key = tuple(places.values())
        if key not in self._frames:
            self._frames[key] = self.frame(**places)
        return self._frames[key]

    def _on_state(self, change: Mapping[str, object]) -> None:
        super()._on_state(change)
        if change["name"] in self.frame_values():
            self._draw_ahead(change["name"], 2 * change["new"] - change["old"])

    def _draw_ahead(self, name: str, place: int) -> None:
        """Draw the next stop of a slider that moves, as soon as the kernel has nothing to do."""
        values = self.frame_values()
        if place in values[name] and (loop := _running_loop()):
            loop.call_later(PAUSE, self._draw_unseen, {**self._places(), name: place})

    def _draw_unseen(self, places: dict[str, int]) -> None:
        """Draw a frame without using up random numbers."""
        states = random.getstate(), np.random.get_state()
        try:
            with torch.random.fork_rng(devices=[]), contextlib.suppress(Exception):
                self._kept(places)
        finally:
            random.setstate(states[0])
            np.random.set_state(states[1])

    def _drawn(self, places: Mapping[str, int]) -> tuple[Figure, object]:
        """Return the figure, drawn, and what ``draw`` returned."""
        values = {name: stops[places[PLACE.format(name)]] for name, stops in self.stops.items()}
        make = _drawn_on if _takes_figure(self.function, values) else _drawn_with_pyplot
        with mpl.rc_context(fname=STYLE_FILE):
            figure, text = make(self.function, self.figsize, values)
            if len(figure.get_children()) < 2:  # its background alone
                raise ValueError(
                    "draw must draw something, got an empty figure; draw on the figure that it is "
                    "given, or return the figure or the axes that it has drawn on."
                )
            self._paint(figure)
        return figure, text

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
        return f"live({getattr(self.function, '__name__', 'draw')}, {values})"

    def to_html(self) -> str:
        """Return the current picture and sentence, with the stops that a kernel would offer.

        Returns
        -------
        str
            HTML that needs no script.
        """
        stops = "; ".join(
            f"<b>{html.escape(name)}</b> = {_listed(self.stops[name], value)}"
            for name, value in self.value.items()
        )
        picture = picture_html(self.picture, alt=self.alt, width=self._width)
        if lines := self.answer["drawn"]["printed"]["lines"]:
            picture += PRINTED.format(html.escape("\n".join(lines)))
        sentence = SENTENCE.format(self.sentence) if self.sentence else ""
        return (
            f'<div class="attnlab-live-stored">{picture}{sentence}'
            f'<p style="font-size:14px">Run this cell to use the controls: {stops}.</p></div>'
        )

    def _html_to_store(self) -> str:
        return self.to_html()

    def facts(self) -> dict[str, object]:
        """Return the key by which a tool finds the pictures of all stops: what was asked for."""
        asked = [name_of(self._function), self.stops, self.value, self.figsize, self.alt]
        return {"kind": "live", "key": json.dumps(asked, default=str)}


class Knob:
    """A control by its values: ``value`` can be read and set."""

    def __init__(self, owner: Live, name: str) -> None:
        self._owner, self._place, self._stops = owner, PLACE.format(name), owner.stops[name]

    @property
    def value(self) -> object:
        """The current value."""
        return self._stops[getattr(self._owner, self._place)]

    @value.setter
    def value(self, value: object) -> None:
        setattr(self._owner, self._place, self._stops.index(value))


def _outside(trace: TracebackType | None) -> TracebackType | None:
    """Return the part of a traceback that begins outside of this folder, if there is one."""
    while trace and HERE in Path(trace.tb_frame.f_code.co_filename).parents:
        trace = trace.tb_next
    return trace


def _texts(stops: Sequence[object]) -> list[str]:
    return [("off", "on")[stop] if isinstance(stop, bool) else str(stop) for stop in stops]


def _listed(stops: Sequence[object], current: object) -> str:
    """Return all stops as HTML, the current one bold."""
    texts = [html.escape(text) for text in _texts(stops)]
    place = stops.index(current)
    return ", ".join([*texts[:place], f"<b>{texts[place]}</b>", *texts[place + 1 :]])


def _control(name: str, stops: Sequence[object]) -> Slider | Choice:
    """Return the control of some stops: a slider of numbers, a choice of words."""
    texts = dict(enumerate(_texts(stops)))
    if all(isinstance(stop, str | bool) for stop in stops):
        return Choice(0, texts, label=name)
    return Slider(0, texts, label=name, spoken=name, width=280)


def _last_lines(printed: str) -> list[str]:
    """Return the last lines of what was printed, the first a mark if there were more."""
    lines = printed.splitlines()
    return lines if len(lines) <= LINES else ["…", *lines[1 - LINES :]]


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
    figure = Figure(figsize=size, layout="constrained")
    given = draw(figure, **values)
    return _on_canvas(_figure_of(given) or figure), given


def _drawn_with_pyplot(
    draw: Draw, size: tuple[float, float], values: Mapping
) -> tuple[Figure, object]:
    """Return the figure that a function has drawn with pyplot, and what it returned."""
    from matplotlib import pyplot as plt

    before = {*plt.get_fignums()}
    try:
        plt.figure(figsize=size, layout="constrained")
        with patch.object(plt, "show"):  # in a notebook it would show the figure and close it
            given = draw(**values)
        figure = _figure_of(given) or plt.gcf()
    finally:
        for number in {*plt.get_fignums()} - before:
            plt.close(number)
    return _on_canvas(figure), given


def _figure_of(given: object) -> Figure | None:
    """Return the figure that a function has returned, or that of its axes."""
    owner = getattr(given, "figure", None)  # a figure is its own
    return owner if isinstance(owner, Figure) else None


def _on_canvas(figure: Figure) -> Figure:
    """Return a figure that is drawn without a window, in the size of the page."""
    FigureCanvasAgg(figure)
    figure.set_dpi(CSS_PIXELS_PER_INCH)
    return figure


def _stops_of(name: str, given: object) -> list[object]:
    """Return the stops of a control, or raise."""
    if isinstance(given, bool):
        return [True, False]
    if not isinstance(given, Sequence | np.ndarray) or isinstance(given, str | bytes):
        raise TypeError(
            f"{name} must be a list of stops or a bool, got {type(given).__name__}; "
            f"e.g. {name}=[1, 4, 16]."
        )
    stops = given.tolist() if isinstance(given, np.ndarray) else [*given]
    if isinstance(given, tuple) and len(given) in (2, 3) and all(map(_is_number, given)):
        raise TypeError(
            f"{name} must be a list of stops, got the tuple {given}; use {_as_range(*given)} for "
            f"that range, or {stops} for these stops."
        )
    for stop in stops:
        if not isinstance(stop, str | Real):
            raise TypeError(f"{name} must hold numbers or words, got {type(stop).__name__}.")
    if len(stops) < 2:
        raise ValueError(f"{name} must have at least 2 stops, got {len(stops)}.")
    if len(set(stops)) < len(stops) or any(stop != stop for stop in stops):
        raise ValueError(f"{name} must have stops that differ from each other, got {short(stops)}.")
    return stops


def _as_range(low: Real, high: Real, step: Real | None = None) -> str:
    """Return the code of the stops from low to high that ipywidgets would offer."""
    if all(isinstance(number, int) for number in (low, high, step or 1)):
        return f"range({low}, {high + 1}{f', {step}' if step else ''})"
    return f"np.linspace({low}, {high}, {round((high - low) / step) + 1 if step else 21})"


def _is_number(stop: object) -> bool:
    return isinstance(stop, Real) and not isinstance(stop, bool)


def _running_loop() -> asyncio.AbstractEventLoop | None:
    """Return the loop of the kernel; without a kernel there is none."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def _labels(figure: Figure) -> tuple:
    """Return all texts that decide how much room the axes of a figure leave for them."""
    legends = [*figure.legends, *(ax.get_legend() for ax in figure.axes)]
    texts = [text.get_text() for legend in filter(None, legends) for text in legend.get_texts()]
    for ax in figure.axes:
        ticks = (*ax.get_xticklabels(), *ax.get_yticklabels())
        texts += [ax.get_title(loc) for loc in ("left", "center", "right")]
        texts += [ax.get_xlabel(), ax.get_ylabel(), *(tick.get_text() for tick in ticks)]
        texts.append(ax.get_position(original=True).bounds)
    return figure.get_suptitle(), len(figure.axes), *texts
