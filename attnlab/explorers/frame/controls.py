"""State that is checked, the controls that change it, and the question that is asked first.

A control is a trait of an explorer: it knows its values, refuses every other one with a sentence,
and describes itself for ``js/controls.mjs``. Controls appear in the order in which a class names
them, those of its base class first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from numbers import Real
from typing import TYPE_CHECKING

from attnlab.checks import check_flag, short
from attnlab.display.extra import lessons_extra

with lessons_extra():
    import traitlets

if TYPE_CHECKING:
    from attnlab.explorers.frame.base import Explorer

Check = Callable[[str, object, "Explorer"], object]
When = Mapping[str, Sequence[object]]  # for each name of the state, the values that are meant


class State(traitlets.TraitType):
    """One value that an explorer's picture depends on; wrong values are refused with a sentence.

    Parameters
    ----------
    start : object
        The first value.
    check : callable
        ``check(name, value, explorer)`` returns the value as it is to be kept, or raises.
    values : sequence, optional
        All values, if there are few enough for a frame to be computed for each.
    """

    def __init__(self, start: object, check: Check, values: Sequence[object] = ()) -> None:
        super().__init__(start)
        self.check = check
        self.values = tuple(values)
        self.tag(sync=True, state=True)

    def validate(self, obj: Explorer, value: object) -> object:
        """Return the value in the form in which it is kept."""
        return self.check(self.name, value, obj)


# --- checks ---------------------------------------------------------------------------------------


def flag(name: str, value: object, _explorer: Explorer) -> bool:
    """Check a value that is on or off."""
    check_flag(name, value)
    return value


def one_of(*choices: object) -> Check:
    """Return the check of a value that is one of a few."""

    def check(name: str, value: object, _explorer: Explorer) -> object:
        for choice in choices:
            if type(value) is type(choice) and value == choice:
                return choice
        allowed = ", ".join(repr(choice) for choice in choices)
        raise ValueError(f"{name} must be one of {allowed}, got {short(value)}.")

    return check


def near_one_of(*stops: float) -> Check:
    """Return the check of a number that is one of a few; the browser sends 1 where it means 1.0."""

    def check(name: str, value: object, _explorer: Explorer) -> float:
        if isinstance(value, bool) or not isinstance(value, Real):
            raise TypeError(f"{name} must be a number, got {short(value)}.")
        for stop in stops:
            if stop * (1 - 1e-6) <= value <= stop * (1 + 1e-6):  # NaN is near none of them
                return stop
        allowed = ", ".join(f"{stop:g}" for stop in stops)
        raise ValueError(f"{name} must be one of {allowed}, got {short(value)}.")

    return check


def check_items(name: str, value: object, what: str, count: int | None = None) -> None:
    """Raise TypeError unless a value is a sequence, of ``count`` items if that is given."""
    if isinstance(value, str) or not isinstance(value, Sequence) or count not in (None, len(value)):
        raise TypeError(f"{name} must {what}, got {short(value)}.")


def _check_of(values: Sequence[object]) -> Check:
    if any(isinstance(value, float) for value in values):
        return near_one_of(*values)
    return flag if isinstance(values[0], bool) else one_of(*values)


# --- controls -------------------------------------------------------------------------------------


class Control(State):
    """A state with listed values and, unless it is picked in the picture, a control of its own.

    Parameters
    ----------
    start : object
        The first value.
    values : sequence, or mapping from value to text
        What can be chosen.
    **looks
        What ``js/controls.mjs`` has to know of this kind of control; ``when`` says at which values
        of other states it is in sight, ``sets`` what else it sets.
    """

    kind = ""

    def __init__(
        self, start: object, values: Sequence[object] | Mapping[object, str], **looks: object
    ) -> None:
        texts = values if isinstance(values, Mapping) else {stop: text_of(stop) for stop in values}
        super().__init__(start, _check_of(tuple(texts)), tuple(texts))
        self.looks = {"texts": list(texts.values()), **looks}

    def describe(self) -> dict[str, object]:
        """Return the control for the browser."""
        return {"kind": self.kind, "name": self.name, "values": self.values, **self.looks}


class Picked(Control):
    """A value that is picked in the picture: it has no control in the bar."""


class Choice(Control):
    """A row of buttons of which one is on; looks: ``label``."""

    kind = "choice"


class Slider(Control):
    """A slider over listed stops.

    Looks: ``label``, ``spoken`` (its name when read out), ``presets`` (stops, or a mapping from
    stop to text), ``width`` in pixels, ``forward`` (text of a button that goes one stop on).
    """

    kind = "slider"

    def __init__(
        self,
        start: object,
        values: Sequence[object] | Mapping[object, str],
        *,
        presets: Sequence[object] | Mapping[object, str] = (),
        **looks: object,
    ) -> None:
        super().__init__(start, values, **looks)
        if not isinstance(presets, Mapping):
            texts = dict(zip(self.values, self.looks["texts"], strict=True))
            presets = {stop: texts[stop] for stop in presets}
        self.looks["presets"] = list(presets.items())


class Steps(Control):
    """Two buttons that go back and forward through the values; looks: ``label``."""

    kind = "steps"


class Reset:
    """A button that brings back the state of the call; the explorer knows it."""

    def describe(self) -> dict[str, object]:
        """Return the button for the browser."""
        return {"kind": "reset", "text": "Reset"}


def controls_of(cls: type) -> dict[str, Control | Reset]:
    """Return the controls of a class by name, those of its base classes first."""
    named = [pair for base in reversed(cls.__mro__) for pair in vars(base).items()]
    return {name: value for name, value in named if isinstance(value, Control | Reset)}


def text_of(value: object) -> str:
    """Return a value as it is written on a control."""
    return f"{value:g}" if isinstance(value, float) else str(value)


# --- predict first --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Question:
    """A prediction that is asked for before anything moves."""

    ask: str
    then: str  # what to do once the question is answered
    options: tuple[str, ...]  # the answers
    right: int  # which one is correct
    why: str  # the explanation, shown when the answer can be seen
    # what must have been met before the answer can be seen: conditions on the values of states
    settled: tuple[When, ...] = ()

    @classmethod
    def of(cls, told: Mapping[str, object], **facts: object) -> Question:
        """Return a question as a TOML file tells it, with facts in its braces."""
        told = dict(told)
        options = tuple(option.format(**facts) for option in told.pop("options"))
        texts = {key: text.format(**facts) for key, text in told.items() if isinstance(text, str)}
        return cls(**{**told, **texts}, options=options)

    def describe(self) -> dict[str, object]:
        """Return the question for the browser."""
        return asdict(self)
