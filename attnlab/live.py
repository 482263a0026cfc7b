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
import traceback
import weakref
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import ipywidgets as widgets
import matplotlib as mpl
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.transforms import Bbox
from PIL import Image

from attnlab.display import Storable, picture_html, raise_in_tests

STYLE_FILE = Path(__file__).with_name("attnlab.mplstyle")
DOTS_PER_INCH = 120
CSS_PIXELS_PER_INCH = 115

CSS = """<style>
.attnlab-live .widget-label { font-size: 16px; font-weight: 600; width: auto; min-width: 60px; }
.attnlab-live .widget-readout { font: 700 17px monospace; min-width: 70px; }
.attnlab-live .widget-hbox { gap: 2px 18px; }
.attnlab-live .noUi-connect { background: #0b61a4; }
.attnlab-live .noUi-handle { border: 2px solid #0b61a4; }
.attnlab-live .widget-toggle-button.mod-active { background: #0b61a4; color: white; }
.attnlab-live img { max-width: 100%; }
.attnlab-stale { opacity: 0.15; }
.attnlab-error pre { white-space: pre-wrap; font-size: 14px; color: #1c1c1c; margin: 0;
  border-left: 5px solid #b84a00; background: #fff4ec; padding: 8px 12px; }
</style>"""

SENTENCE = (
    '<p role="status" style="font-size:16px;line-height:1.4;margin:4px 0;padding:6px 12px;'
    'border-left:5px solid #0b61a4;background:#f3f6f9;color:#1c1c1c">{}</p>'
)

Draw = Callable[..., str | None]
_living: weakref.WeakSet[Live] = weakref.WeakSet()


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
        Where the controls stand at first; the first stop if not given.
    alt : str
        What the picture shows, for those who cannot see it; the sentence is read out as well.
    **controls : sequence or bool
        One per argument of ``draw``. A sequence of numbers is a slider with these stops, a
        sequence of words a row of buttons, a bool an on/off switch.

    Returns
    -------
    Live
        ``.value`` holds the values in force, ``.controls`` the ipywidgets by name.

    Raises
    ------
    TypeError
        If a control is neither a sequence nor a bool.
    ValueError
        If there are no controls, one has fewer than two stops, or ``start`` does not fit.

    See Also
    --------
    ipywidgets.interact : the general tool; its pictures cannot be checked by nbval.
    """
    return Live(draw, figsize, dict(start or {}), alt, controls)


def instances() -> list[Live]:
    """Return the live widgets that exist in this process, oldest first.

    Returns
    -------
    list of Live
        Those that are still in use.

    See Also
    --------
    live : makes them.
    """
    return sorted(_living, key=lambda widget: widget.serial)


class Live(Storable, widgets.VBox):
    """Controls, a picture and a sentence; made by ``live``.

    Attributes
    ----------
    controls : dict from str to ipywidgets widget
        One per argument of ``draw``.
    image : ipywidgets.Image
        The picture as PNG.
    last_error : Exception or None
        What ``draw`` raised at the values in force.
    """

    _made = 0

    def __init__(
        self,
        draw: Draw,
        figsize: tuple[float, float],
        start: dict[str, object],
        alt: str,
        controls: Mapping[str, Sequence[object] | bool],
    ) -> None:
        _check_controls(controls, start)
        Live._made += 1
        self.serial = Live._made
        self.draw = draw
        self.alt = alt
        self.last_error: Exception | None = None
        self._places: dict[tuple, list[Bbox]] = {}
        self.figure = Figure(figsize=figsize, dpi=DOTS_PER_INCH, layout="constrained")
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
        _living.add(self)

    @property
    def value(self) -> dict[str, object]:
        """The values in force, by name."""
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
        """Draw the figure; look for the places of its axes only if their labels are new."""
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
        except Exception as error:  # shown to whoever moved the control: nobody else would see it
            self.last_error = error
            self.image.add_class("attnlab-stale")
            self.error.value = f'<pre role="alert">{html.escape(_tell(error, self.draw))}</pre>'
            raise_in_tests(error)
        else:
            self.last_error = None
            self.image.remove_class("attnlab-stale")
            self.error.value = ""

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={value!r}" for name, value in self.value.items())
        return f"live({getattr(self.draw, '__name__', 'draw')}, {values})"

    def to_html(self) -> str:
        """Return the picture and the sentence in force, with the stops that a kernel would offer.

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


def _check_controls(
    controls: Mapping[str, Sequence[object] | bool], start: Mapping[str, object]
) -> None:
    if not controls:
        raise ValueError("live needs at least one control, e.g. d_k=[1, 4, 16].")
    for name, stops in controls.items():
        if isinstance(stops, bool):
            continue
        if isinstance(stops, str) or not isinstance(stops, Sequence):
            raise TypeError(
                f"{name} must be a list of stops or a bool, got {type(stops).__name__}; "
                f"e.g. {name}=[1, 4, 16]."
            )
        if len(stops) < 2:
            raise ValueError(f"{name} must have at least 2 stops, got {len(stops)}.")
    for name, value in start.items():
        if name not in controls:
            raise ValueError(f"start names {name!r}, which is no control; there is {[*controls]}.")
        allowed = (True, False) if isinstance(controls[name], bool) else controls[name]
        if value not in allowed:
            raise ValueError(f"start of {name} must be one of its stops {allowed}, got {value!r}.")


def _control(
    name: str, stops: Sequence[object] | bool, value: object
) -> widgets.SelectionSlider | widgets.ToggleButtons:
    if isinstance(stops, bool):
        value = stops if value is None else value
        return _buttons(name, [("on", True), ("off", False)], value)
    value = stops[0] if value is None else value
    if all(isinstance(stop, str) for stop in stops):
        return _buttons(name, list(stops), value)
    return widgets.SelectionSlider(
        options=list(stops),
        value=value,
        description=name,
        layout=widgets.Layout(width="420px", max_width="100%"),
        style={"description_width": "initial"},
    )


def _buttons(name: str, options: list, value: object) -> widgets.ToggleButtons:
    return widgets.ToggleButtons(
        options=options,
        value=value,
        description=name,
        style={"button_width": "auto", "description_width": "initial"},
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


def _tell(error: Exception, draw: Draw) -> str:
    """Return the error and the line of the learner's own code where it came from."""
    text = f"{type(error).__name__}: {error}"
    code = getattr(draw, "__code__", None)  # a partial or a callable object has none
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if code and frame.filename == code.co_filename]
    return f"{text}\nline {own[-1].lineno}: {own[-1].line}" if own else text


def _stops_html(control: widgets.SelectionSlider | widgets.ToggleButtons) -> str:
    labels = [str(label) for label in control._options_labels]
    return ", ".join(
        f"<b>{html.escape(label)}</b>" if label == control.label else html.escape(label)
        for label in labels
    )
