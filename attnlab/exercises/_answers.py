"""Ask a learner's answer for its result, and turn what comes of it into words."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from attnlab.clinic import Evidence, Report
from attnlab.clinic._calling import Outcome, OutOfTime, call
from attnlab.exercises._verdict import Verdict

TIME_LIMIT = 2.0  # seconds for one call
STUB = "Write your answer into the cell above, run it, then run this cell again."


class NotDone(Exception):
    """There is no answer yet."""


class Wrong(Exception):
    """The answer is wrong.

    Parameters
    ----------
    message : str
        The misconception or the smallest failing case, in words.
    evidence : Evidence, optional
        The numbers.
    report : Report, optional
        What the clinic found.
    by_error : bool
        Whether the answer raised.
    """

    def __init__(
        self,
        message: str,
        evidence: Evidence | None = None,
        report: Report | None = None,
        by_error: bool = False,
    ) -> None:
        super().__init__(message)
        self.message, self.evidence, self.report = message, evidence, report
        self.by_error = by_error


@dataclass(frozen=True)
class Right:
    """The answer is right; ``message`` says what was verified."""

    message: str
    evidence: Evidence | None = None
    remarks: tuple[str, ...] = ()
    report: Report | None = None


class Answer:
    """What a learner handed in.

    Parameters
    ----------
    given : object
        A function, or the value itself where an exercise asks for a value.
    """

    def __init__(self, given: object) -> None:
        self.given = given
        self.name = _name(given)

    def value(self, read: Callable[[object], object]) -> object:
        """Return what the answer gives without arguments, read by ``read``."""
        return self.ask(read=read) if callable(self.given) else self._take(read)

    def ask(
        self,
        *inputs: object,
        read: Callable[[object], object] = lambda value: value,
        case: str = "",
    ) -> object:
        """Return what the answer gives for these inputs, read by ``read``.

        Parameters
        ----------
        *inputs
            What the learner's function gets.
        read : callable
            Makes numbers of the result; runs under the same time limit and may raise Wrong.
        case : str
            How a message names the inputs.

        Raises
        ------
        NotDone
            If it is a stub.
        Wrong
            If it raises, hangs, or is no function.
        """
        if self.given is None or self.given is Ellipsis:
            raise NotDone
        if not callable(self.given):
            kind = article(type(self.given).__name__)
            raise Wrong(f"The check needs the function itself, not {kind}: its name without ().")
        outcome = call(lambda: _read(self.given(*inputs), read), time_limit=TIME_LIMIT)
        return settled(outcome, case)

    def _take(self, read: Callable[[object], object]) -> object:
        return settled(call(_read, self.given, read, time_limit=TIME_LIMIT), "")


def settled(outcome: Outcome, case: str) -> object:
    """Return the value of an outcome; raise NotDone or Wrong if there is none.

    Parameters
    ----------
    outcome : Outcome
        Of one call.
    case : str
        How a message names the inputs.

    Returns
    -------
    object
        What was returned.
    """
    error = outcome.error
    if error is None:
        return outcome.value
    words = trouble(outcome)
    by_torch = isinstance(error, NotImplementedError) and "not implemented for" in words
    if isinstance(error, NotDone | NotImplementedError) and not by_torch:
        raise NotDone
    if isinstance(error, Wrong):
        raise error
    called = f"Called with {case} it" if case else "It"
    if isinstance(error, OutOfTime):
        raise Wrong(f"{called} did not come back within {TIME_LIMIT:g} seconds: a loop?")
    raise Wrong(f"{called} raises {words}.", by_error=True)


def trouble(outcome: Outcome) -> str:
    """Return what a call raised, as one short line without a full stop."""
    try:
        return outcome.trouble.rstrip(".")
    except Exception:  # its own text raises
        return type(outcome.error).__name__


def judge(given: object, decide: Callable[[Answer], Right]) -> Verdict:
    """Return what ``decide`` says about an answer; let nothing through but an interrupt.

    Parameters
    ----------
    given : object
        What the learner handed in.
    decide : callable
        Returns Right, or raises NotDone or Wrong.

    Returns
    -------
    Verdict
        Whatever happened.
    """
    name = "your answer"
    try:
        with torch.random.fork_rng(devices=[]):  # the notebook's random numbers stay as they are
            torch.default_generator.manual_seed(0)
            answer = Answer(given)
            name = answer.name
            right = decide(answer)
        found = right.message, right.evidence, right.remarks, right.report
        return Verdict(name, True, True, *found)
    except NotDone:
        return Verdict(name, False, False, STUB)
    except Wrong as wrong:
        return Verdict(name, True, False, wrong.message, wrong.evidence, (), wrong.report)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        kind = type(error).__name__
        return Verdict(name, True, False, f"The check cannot read what it gives ({kind}).")


# --- reading --------------------------------------------------------------------------------------


def vector(value: object) -> Tensor:
    """Return numbers as a tensor of float64: a number, a list, a tuple, a tensor, an array.

    Parameters
    ----------
    value : object
        What a learner's function returned.

    Returns
    -------
    Tensor
        A copy without a gradient.

    Raises
    ------
    Wrong
        If these are no numbers.
    """
    if isinstance(value, str | bytes | dict | set) or value is None:
        raise Wrong(f"It gives {article(type(value).__name__)}, and numbers are asked for.")
    if isinstance(value, Tensor):
        return value.detach().to("cpu", torch.float64, copy=True)
    try:
        return torch.as_tensor(value, dtype=torch.float64).detach().clone()
    except (TypeError, ValueError, RuntimeError):
        kind = article(type(value).__name__)
        raise Wrong(f"It gives {kind} that cannot be read as numbers.") from None


def number(value: object) -> float:
    """Return one number, also from a tensor with a single entry.

    Parameters
    ----------
    value : object
        What a learner's function returned.

    Returns
    -------
    float
        Finite.

    Raises
    ------
    Wrong
        If it is something else.
    """
    read = vector(value)
    if read.numel() != 1:
        raise Wrong(f"One number is asked for, and it gives the shape {tuple(read.shape)}.")
    if not read.isfinite().all():
        raise Wrong(f"It gives {read.item()}, which is no finite number.")
    return read.item()


def table(caption: str, rows: dict[str, Sequence[float]], columns: Sequence[str]) -> Evidence:
    """Return rows of numbers as evidence.

    Parameters
    ----------
    caption : str
        What they are.
    rows : dict from str to sequence of float
        By their labels.
    columns : sequence of str
        Labels.

    Returns
    -------
    Evidence
        For a Wrong or a Right.
    """
    numbers = [[float(entry) for entry in row] for row in rows.values()]
    values = torch.tensor(numbers, dtype=torch.float64)
    return Evidence(caption, values, tuple(rows), tuple(columns))


def _read(value: object, read: Callable[[object], object]) -> object:
    if value is None or value is Ellipsis:
        raise NotDone
    if inspect.iscoroutine(value) or inspect.isgenerator(value):
        value.close()
        kind = "coroutine" if inspect.iscoroutine(value) else "generator"
        raise Wrong(f"It gives a {kind}: use an ordinary def with return.")
    return read(value)


def article(kind: str) -> str:
    """Return a word with its article."""
    return f"{'an' if kind == 'ndarray' or kind[:1].lower() in 'aeiou' else 'a'} {kind}"


def _name(given: object) -> str:
    try:
        name = getattr(getattr(given, "func", given), "__name__", None)
    except Exception:
        name = None
    return name if isinstance(name, str) else "your answer"
