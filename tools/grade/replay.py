"""Check an answer twice: where it runs, and where it never runs.

In the process of a submission, which the submission can turn into anything, a check asks a
``Recorder``, which notes what the answer gives. In another process, which runs nothing of the
submission, the same check asks a ``Replayer``, which gives what was noted. A check asks the same
questions in the same order every time, so the second verdict is about the same numbers, and nothing
but numbers that are correct makes it "correct".
"""

from __future__ import annotations

import io
from collections.abc import Callable

import torch
from torch import nn

from attnlab.clinic import Finding, Gap, Report, Said
from attnlab.exercises.frame.answers import Answer, NotChecked, NotDone, NoValue, Read, Wrong

CLASSES = [frozenset, nn.Linear]  # what an answer may give beside tensors and plain data
SILENCE = "The answer returned something that cannot be checked, or nothing at all."

Note = tuple[str, object, list]  # what came of a question, what it gave, calls of a layer
NOTHING: Note = ("nothing", None, [])


class Recorder(Answer):
    """An answer that runs; ``notes`` is what it gave."""

    def __init__(self, given: object) -> None:
        super().__init__(given)
        self.notes: list[Note] = []

    def value(self, read: Read) -> object:
        """Note what the answer gives; a function is asked."""
        if callable(self.given):
            return super().value(read)
        return self._noted(lambda: super(Recorder, self).value(read))

    def ask(self, *inputs: object, **how: object) -> object:
        """Note what the answer gives, and how often it called a layer that watches its calls."""
        return self._noted(lambda: super(Recorder, self).ask(*inputs, **how), watching(inputs))

    def observe(self, look) -> object:
        """Note what is found out."""
        seen = super().observe(look)
        self._note("seen", facts(seen))
        return seen

    def _noted(self, ask: Callable[[], object], layers: tuple = ()) -> object:
        try:
            value = ask()
        except (NotChecked, NotDone, Wrong) as error:
            said = (error.message, error.by_error) if isinstance(error, Wrong) else str(error)
            self._note(type(error).__name__, said)
            raise
        self._note("gives", value, [layer.calls for layer in layers])
        return value

    def _note(self, kind: str, value: object, calls: list | tuple = ()) -> None:
        """Note a copy: what an answer gave may change later."""
        try:
            self.notes.append(unpack(pack((kind, value, list(calls)))))
        except Exception:  # another process could not unpack it either
            self.notes.append(NOTHING)


class Replayer(Answer):
    """An answer that gives what was noted where it ran."""

    def __init__(self, name: str, notes: list[Note]) -> None:
        super().__init__(None)
        self.name = name
        self._left = iter(notes)

    def value(self, read: Read) -> object:
        """Return what the answer gave."""
        return self.ask()

    def ask(self, *inputs: object, **_how: object) -> object:
        """Return what the answer gave to this question, or raise what it raised."""
        kind, value, calls = next(self._left, NOTHING)
        if kind in ("NotDone", "NotChecked"):
            raise {"NotDone": NotDone, "NotChecked": NotChecked}[kind](value)
        if kind in ("Wrong", "NoValue"):
            message, by_error = value
            raise {"Wrong": Wrong, "NoValue": NoValue}[kind](message, by_error=by_error)
        if kind != "gives":
            raise Wrong(SILENCE)
        for layer, made in zip(watching(inputs), calls, strict=True):
            layer.calls[:] = made
        return value

    def observe(self, look) -> object:
        """Return what was found out where the answer ran."""
        kind, value, _ = next(self._left, NOTHING)
        if kind != "seen":
            raise Wrong(SILENCE)
        return report_of(value) if isinstance(value, tuple) else value


def watching(inputs: tuple) -> tuple:
    """Return the layers among some inputs that watch their calls."""
    layers = (given for given in inputs if isinstance(given, nn.Module))
    return tuple(layer for layer in layers if hasattr(layer, "calls"))


def facts(seen: object) -> object:
    """Return what can be sent of something that was found out."""
    if isinstance(seen, Report):
        return seen.ok, [(finding.name, str(finding)) for finding in seen.findings]
    return seen if isinstance(seen, bool) else None


def report_of(told: tuple) -> Report:
    """Return a report of the clinic with these facts."""
    ok, findings = told
    return Report(
        "the answer",
        "attention function",
        tuple(Finding(name, sentence) for name, sentence in findings),
        properties=(Said("told", "It was examined where it ran."),) if ok else (),
        gap=Gap("The clinic could not examine it.") if ok is None else None,
    )


def pack(value: object) -> bytes:
    """Return plain data and tensors as bytes."""
    file = io.BytesIO()
    torch.save(value, file)
    return file.getvalue()


def unpack(data: bytes) -> object:
    """Return what was packed; whatever else the bytes hold is an error, and nothing of it runs."""
    with torch.serialization.safe_globals(CLASSES):
        return torch.load(io.BytesIO(data), weights_only=True)
