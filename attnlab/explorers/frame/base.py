"""What all explorers share: frames, the picture, the page, the learner's function.

An explorer is a class that declares its controls, its panels and its question, and says in
``frame`` what the panels show at one state, with a sentence and lines of PyTorch. The browser gets
every frame as data, so that an explorer needs no JavaScript of its own. One in which something is
dragged, or computed while it is dragged, names a ``module`` of ``js/`` and sends that its numbers
and its words in ``make_data``.
"""

from __future__ import annotations

import io
import itertools
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image

from attnlab.display.extra import lessons_extra
from attnlab.display.setup import STYLE_FILE
from attnlab.display.stored import Storable, is_static
from attnlab.explorers.frame import bundle, learner
from attnlab.explorers.frame.controls import Question, State, controls_of, flag
from attnlab.explorers.frame.panels import Column, Panel
from attnlab.explorers.frame.words import texts_beside

with lessons_extra():
    import anywidget
    import traitlets

PICTURE_DOTS_PER_INCH = 84  # of the picture in the page: legible, and 10 to 30 kB
LOOKS = ("ask", "large")  # states that a reset leaves as they are
COLOURS = 128  # of that picture: it takes a third of the bytes and looks the same

_encoded: dict[tuple[Callable, object], dict[str, object]] = {}  # frames, computed once


class Explorer(Storable, anywidget.AnyWidget):
    """A picture to experiment with; the base of all explorers.

    Parameters
    ----------
    function : callable, optional
        The learner's own code: it computes what is drawn, where the explorer supports that. What it
        raises is shown inside the explorer, with the line.
    **state
        Values to start from. ``ask=False`` leaves out the prediction that comes first,
        ``large=True`` writes larger, for a projector.

    Attributes
    ----------
    last_error : Exception or None
        What ``function`` raised at the state in force.

    See Also
    --------
    attnlab.explorers.live : sliders around a drawing of one's own.
    """

    module = "declared"  #: name of the module in ``js/`` that draws this explorer
    figsize = (7.0, 3.5)  #: size of ``figure()`` in inches
    title = hint = ""  #: heading of the card, and a line below it
    code_title = "The same in PyTorch"  #: heading of the lines of PyTorch
    prediction: Question | None = None  #: what is to be predicted first
    panels: Sequence[Panel] = ()  #: what the picture is made of, side by side
    frames_for: object = None  #: what frames depend on beside the state, if anything

    ask = State(True, flag)
    large = State(False, flag)
    data = traitlets.Dict().tag(sync=True)
    answer = traitlets.Dict(allow_none=True, default_value=None).tag(sync=True)

    def __init_subclass__(cls, **kwargs: object) -> None:
        if "_esm" not in vars(cls):  # classes that traitlets derives have it as a trait
            cls._esm = bundle.widget_script(cls.module)
            told = texts_beside(sys.modules[cls.__module__].__file__)
            cls.title, cls.hint = told.get("title", cls.title), told.get("hint", cls.hint)
            if "prediction" in told and "prediction" not in vars(cls):
                cls.prediction = Question.of(told["prediction"])
        super().__init_subclass__(**kwargs)

    def __init__(self, function: Callable | None = None, **state: object) -> None:
        unknown = sorted(set(state) - set(self.state_names()))
        if unknown:
            names = ", ".join(self.state_names())
            raise TypeError(f"{type(self).__name__} has no {unknown[0]!r}; there is {names}.")
        if function is not None:
            learner.check_function(function, supported=self.runs_functions())
        self.last_error: Exception | None = None
        self._function = function
        self._asked: dict[str, object] | None = None
        for name, value in state.items():
            setattr(self, name, value)
        self._ask_function()
        super().__init__(data=self._describe())
        self.observe(self._on_state, self.state_names())

    # --- what an explorer says of itself ----------------------------------------------------------

    @property
    def result(self) -> object:
        """What the picture shows, computed by torch from the state."""
        raise NotImplementedError

    def frame(self, **values: object) -> dict[str, object]:
        """Return all that is seen at some values of the controls.

        Returns
        -------
        dict
            ``say``: one or two sentences, their important words between two stars. ``code``: the
            same in PyTorch. ``bad``: whether what is seen is a fault. And the values of each panel,
            by its key.
        """
        raise NotImplementedError

    def make_data(self) -> dict[str, object]:
        """Return what the browser needs beside the declarations."""
        kind = (type(self).frame, self.frames_for)
        if kind not in _encoded:
            names = self.frame_values()
            states = itertools.product(*names.values())
            frames = (self.frame(**dict(zip(names, state, strict=True))) for state in states)
            _encoded[kind] = {"frame_values": names, **bundle.encode_frames(frames)}
        return _encoded[kind]

    def say_rich(self) -> str:
        """Return what is seen, in one or two sentences; words between two stars are bold."""
        return self.frame_now()["say"]

    def say(self) -> str:
        """Return what is seen, in one or two sentences of plain text."""
        return self.say_rich().replace("**", "")

    def draw(self, fig: Figure) -> None:
        """Draw the state on an empty figure, panel by panel."""
        columns = [column for panel in self.panels if (column := _drawn(panel))]
        mosaic = [_keys(column) for column in columns]
        ratios = [panel.grow for panel in self.panels if _drawn(panel)]
        axes = fig.subplot_mosaic([mosaic], width_ratios=ratios)
        frame, state, named = self.frame_now(), self.state(), {}
        for panel in itertools.chain(*columns):
            values, ax = frame.get(panel.key, {}), axes[panel.key]
            panel.at(values).draw(ax, values, state)
            if panel.in_legend:
                handles, names = ax.get_legend_handles_labels()
                named |= dict(zip(names, handles, strict=True))
        if len(named) > 1:
            fig.legend(named.values(), named, loc="outside lower center", ncols=4)

    def run_function(self, function: Callable) -> dict[str, object]:
        """Return what the learner's function gives at this state, for the browser to draw."""
        raise NotImplementedError

    def data_to_store(self) -> dict[str, object]:
        """Return what a page without a kernel gets of the data."""
        return self.data

    def _describe(self) -> dict[str, object]:
        """Return the declarations and the data for the browser."""
        question = self.prediction if self._function is None else None
        described = {
            "state": self.state_names(),
            "title": self.title,
            "hint": self.hint,
            "code_title": self.code_title,
            "question": question.describe() if question else None,
            "controls": [control.describe() for control in controls_of(type(self)).values()],
            "call": {name: value for name, value in self.state().items() if name not in LOOKS},
            "panels": [panel.describe() for panel in self.panels],
        }
        return {**bundle.sendable(described), **self.make_data()}

    # --- state ------------------------------------------------------------------------------------

    @classmethod
    def state_names(cls) -> list[str]:
        """Return the names of everything that can be set: by the reader, or from Python."""
        return sorted(cls.class_traits(state=True))

    @classmethod
    def runs_functions(cls) -> bool:
        """Return whether a learner's function can draw this explorer."""
        return cls.run_function is not Explorer.run_function

    @classmethod
    def frame_values(cls) -> dict[str, tuple[object, ...]]:
        """Return the states that frames depend on, each with all its values."""
        traits = cls.class_traits(state=True)
        return {name: traits[name].values for name in sorted(traits) if traits[name].values}

    def frame_now(self) -> dict[str, object]:
        """Return the frame of the state in force."""
        return self.frame(**{name: getattr(self, name) for name in self.frame_values()})

    def state(self) -> dict[str, object]:
        """Return the state in force, by name."""
        return {name: getattr(self, name) for name in self.state_names()}

    @property
    def function(self) -> Callable | None:
        """The learner's function; set it again when it is mended."""
        return self._function

    @function.setter
    def function(self, function: Callable | None) -> None:
        if function is not None:
            learner.check_function(function, supported=self.runs_functions())
        self._function, self._asked = function, None
        self._ask_function()

    def _on_state(self, _change: object) -> None:
        if self.state() != self._asked:  # a change of two values is told twice
            self._ask_function()

    def _ask_function(self) -> None:
        if self._function is None:
            self.answer, self.last_error = None, None
            return
        self._asked = self.state()
        before = self.answer or {"state": None, "drawn": None}
        try:
            drawn = self.run_function(self._function)
        except Exception as error:  # shown inside the explorer: nobody else would see it
            self.last_error = error
            self.answer = {**before, **learner.failure(error, self._function)}
        else:
            self.last_error = None
            name = learner.name_of(self._function)
            self.answer = {"name": name, "state": self._asked, "drawn": drawn, "error": ""}

    # --- pictures and pages -----------------------------------------------------------------------

    def figure(self) -> Figure:
        """Return the state as a matplotlib figure, drawn with ``attnlab.plotting``."""
        fig = Figure(figsize=self.figsize, layout="constrained")
        FigureCanvasAgg(fig)
        with mpl.rc_context(fname=STYLE_FILE):
            self.draw(fig)
        return fig

    def to_html(self, *, library: bool = True) -> str:
        """Return the explorer as a piece of a page that needs neither kernel nor network.

        Parameters
        ----------
        library : bool
            False leaves out the scripts that all explorers of a page share: for the second and
            later ones of a page.

        Returns
        -------
        str
            A picture and a sentence, which a page that runs no scripts shows, and what turns them
            into the moving explorer.
        """
        modules = bundle.modules_of(self.module) if library else ()
        return self._html(modules)

    def save(self, path: str | Path) -> None:
        """Write the explorer as a page of its own: one file, which needs no network.

        Parameters
        ----------
        path : str or Path
            The file, such as "heads.html".
        """
        Path(path).write_text(bundle.whole_page(self.title, self.to_html()), encoding="utf-8")

    def _picture(self) -> bytes:
        figure = self.figure()
        figure.set_dpi(PICTURE_DOTS_PER_INCH)
        figure.canvas.draw()
        return few_colours(Image.fromarray(np.asarray(figure.canvas.buffer_rgba())).convert("RGB"))

    def _html(self, modules: tuple[str, ...]) -> str:
        width = round(self.figsize[0] * 100)
        payload = {"state": self.state(), "data": self.data_to_store(), "answer": self.answer}
        return bundle.static_html(self.module, payload, self._picture(), width, self.say(), modules)

    def __repr__(self) -> str:
        defaults = {name: self.traits()[name].default_value for name in self.state_names()}
        changed = {name: value for name, value in self.state().items() if value != defaults[name]}
        inside = ", ".join(f"{name}={value!r}" for name, value in changed.items())
        return f"{type(self).__name__}({inside})"

    def facts(self) -> dict[str, object]:
        """Return the name of the explorer and the sentence that it stores."""
        return {"kind": "explorer", "key": self.module, "say": self.say()}

    def _html_to_store(self) -> str:
        return self._html(bundle.not_yet_stored(self.module)) if is_static() else self.to_html()


def few_colours(picture: Image.Image) -> bytes:
    """Return a picture as PNG with so few colours that it is small and looks the same."""
    buffer = io.BytesIO()
    few = picture.quantize(COLOURS, method=Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE)
    few.save(buffer, "PNG", optimize=True)
    return buffer.getvalue()


def _drawn(panel: Panel) -> list[Panel]:
    """Return the panels of a column that the still picture has."""
    panels = panel.panels if isinstance(panel, Column) else (panel,)
    return [shown for shown in panels if shown.still and hasattr(shown, "draw")]


def _keys(column: Sequence[Panel]) -> object:
    """Return the place of a column in a mosaic of axes."""
    keys = [[panel.key] for panel in column]
    return keys if len(keys) > 1 else keys[0][0]
