"""Ask a learner's answer for its result, and turn what comes of it into words."""

from __future__ import annotations

import dis
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from attnlab._bounded import CutShort, Outcome, OutOfTime, call
from attnlab.clinic import Evidence, Report
from attnlab.exercises._verdict import Verdict

TIME_LIMIT = 2.0  # seconds of computing for one call
STUB = "Write your answer in the cell above, run it, and then run this cell again."
# The bytecode of a function without a body: a docstring, pass, ... or return None at most.
NO_BODY = {"RESUME", "NOP", "COPY_FREE_VARS", "LOAD_CONST", "RETURN_CONST", "RETURN_VALUE"}
# What errors of torch's mean here, by a part of their text.
HINTS = {
    "is ambiguous": "`.all()` makes one True or False of many.",
    "view size is not compatible": (
        "This is correct advice if the axes are in the order that you mean."
    ),
}

Read = Callable[[object], object]  # makes numbers of what an answer gives, or raises Wrong


class NotDone(Exception):
    """There is no answer yet."""


class Wrong(Exception):
    """The answer is wrong; ``by_error`` says whether it raised."""

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


class NotChecked(Exception):
    """The answer was cut short, which says nothing about it."""


class NoValue(Wrong):
    """The answer runs and gives None, though it has a body."""


@dataclass(frozen=True)
class Right:
    """The answer is correct; ``message`` says what was verified."""

    message: str
    evidence: Evidence | None = None
    remarks: tuple[str, ...] = ()
    report: Report | None = None


class Answer:
    """The answer of a learner: a function, or a value where an exercise asks for one."""

    def __init__(self, given: object) -> None:
        self.given = given
        self.name = _name(given)
        self.slips: Mapping[str, object] = {}  # those of the check that it is given to

    def slip(self, fits: Callable[[object], bool]) -> str | None:
        """Return the sentence of the first mistake that fits, if one does."""
        return fitting(self.slips, fits)

    def value(self, read: Read) -> object:
        """Return what the answer gives without arguments, read by ``read``."""
        if callable(self.given):
            return self.ask(read=read)
        return _settled(call(_read, self.given, read, time_limit=TIME_LIMIT), "", TIME_LIMIT)

    def observe(self, look: Callable[[object], object]) -> object:
        """Return what ``look`` finds out about the answer itself, such as how it computes."""
        return look(self.given)

    def ask(
        self,
        *inputs: object,
        read: Read = lambda value: value,
        case: str = "",
        patience: float = 1.0,
    ) -> object:
        """Return what the answer gives for these inputs.

        ``read`` runs under the same time limit, which is ``patience`` times the usual one. ``case``
        says in a message what the inputs are.
        Raises NotDone for a stub, Wrong if the answer raises, hangs or is not a function, and
        NotChecked if it only waits.
        """
        if self.given is None or self.given is Ellipsis:
            raise NotDone
        if not callable(self.given):
            kind = article(type(self.given).__name__)
            raise Wrong(f"The check needs the function itself, not {kind}: its name without ().")
        limit = patience * TIME_LIMIT
        outcome = call(lambda: _read(self.given(*inputs), read), time_limit=limit)
        try:
            return _settled(outcome, case, limit)
        except NotDone:
            if not isinstance(outcome.error, NotDone) or is_stub(self.given):
                raise
        called = _called(case)
        if outcome.printed:
            raise NoValue(f"{called} prints, and it returns None: use return instead of print.")
        raise NoValue(f"{called} runs, but it returns None: is a `return` missing?")


class Either(tuple):
    """Several wrong answers with the same sentence."""

    def __new__(cls, *ways: object) -> Either:
        """Return them as one mistake."""
        return super().__new__(cls, ways)


def fitting(slips: Mapping[str, object], fits: Callable[[object], bool]) -> str | None:
    """Return the sentence of the first mistake that fits, if one does."""
    for why, ways in slips.items():
        if any(fits(way) for way in (ways if isinstance(ways, Either) else (ways,))):
            return why
    return None


def is_stub(function: object) -> bool:
    """Return whether a function has no body yet."""
    function = inspect.unwrap(getattr(function, "func", function))
    code = getattr(function, "__code__", None)
    return code is not None and {one.opname for one in dis.get_instructions(code)} <= NO_BODY


def judge(given: object, decide: Callable[[Answer], Right]) -> Verdict:
    """Return what ``decide`` says about an answer; let nothing through but an interrupt.

    Whoever grades a class gives an Answer of their own, which is asked as it is.
    """
    name = "your answer"
    try:
        with torch.random.fork_rng(devices=[]):  # the notebook's random numbers stay as they are
            torch.default_generator.manual_seed(0)
            answer = given if isinstance(given, Answer) else Answer(given)
            name = answer.name
            right = decide(answer)
        found = right.message, right.evidence, right.remarks, right.report
        return Verdict(name, True, True, *found)
    except NotDone:
        return Verdict(name, False, False, STUB)
    except Wrong as wrong:
        return Verdict(name, True, False, wrong.message, wrong.evidence, (), wrong.report)
    except NotChecked as cut:
        return Verdict(name, True, None, str(cut))
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        kind = type(error).__name__
        return Verdict(name, True, False, f"The check cannot read what it gives ({kind}).")


def _settled(outcome: Outcome, case: str, limit: float) -> object:
    """Return the value of a call; raise NotDone, Wrong or NotChecked if there is none."""
    error = outcome.error
    if error is None:
        return outcome.value
    try:
        words = outcome.trouble
    except Exception:  # the error cannot say what it is
        words = type(error).__name__
    by_torch = isinstance(error, NotImplementedError) and "not implemented for" in words
    if isinstance(error, NotDone | NotImplementedError) and not by_torch:
        raise NotDone
    if isinstance(error, Wrong):
        raise error
    late = f"{_called(case)} did not come back within"
    if isinstance(error, CutShort):
        raise NotChecked(
            f"{late} {outcome.passed:.0f} seconds, of which it computed for {outcome.seconds:.1f}: "
            "does it wait for something, such as input()?"
        )
    if isinstance(error, OutOfTime):
        raise Wrong(f"{late} {limit:g} seconds of computing: a loop?")
    stop = "..." if words.endswith("...") else "."  # a long text is cut
    told = f"{_called(case)} raises {words.rstrip('.')}{stop}"
    raise Wrong(hinted(told, HINTS), by_error=True)


def _called(case: str) -> str:
    return f"Called with {case.removesuffix(',')} it" if case else "It"


def hinted(message: str, hints: dict[str, str]) -> str:
    """Return a message with the first hint whose fragment it contains."""
    hint = next((hint for fragment, hint in hints.items() if fragment in message), "")
    return f"{message} {hint}".rstrip()


def _read(value: object, read: Read) -> object:
    if value is None or value is Ellipsis:
        raise NotDone
    if inspect.iscoroutine(value) or inspect.isgenerator(value):
        value.close()
        kind = "coroutine" if inspect.iscoroutine(value) else "generator"
        raise Wrong(f"It gives a {kind}: use an ordinary def with return.")
    return read(value)


def _name(given: object) -> str:
    try:
        name = getattr(getattr(given, "func", given), "__name__", None)
    except Exception:
        name = None
    return name if isinstance(name, str) else "your answer"


# --- what an answer gives -------------------------------------------------------------------------


def tensor(value: object) -> Tensor:
    """Return a tensor without its gradient."""
    if not isinstance(value, Tensor):
        raise Wrong(f"It gives {kind_of(value)}; return the output alone, as a tensor.")
    return value.detach()


def vector(value: object) -> Tensor:
    """Return numbers as a tensor of float64: a number, a list, a tuple, a tensor, an array."""
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
    """Return one finite number, also from a tensor with a single entry."""
    read = vector(value)
    if read.numel() != 1:
        raise Wrong(f"One number is asked for, and it gives the shape {tuple(read.shape)}.")
    if not read.isfinite().all():
        raise Wrong(f"It gives {read.item()}, which is not a finite number.")
    return read.item()


def yes_or_no(value: object) -> bool:
    """Return True or False, also from a tensor or an array with a single entry."""
    if isinstance(value, bool):
        return value
    kind = article(type(value).__name__)
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        entries = value if isinstance(value, Tensor) else torch.as_tensor(value)
        if entries.numel() != 1:
            raise Wrong(
                f"It gives the shape {tuple(entries.shape)}; return one True or False for all of "
                "it. `.all()` makes one of many."
            )
        if entries.dtype == torch.bool:
            return bool(entries.item())
        kind = f"{kind} of {entries.dtype}"
    raise Wrong(f"It gives {kind}; return True or False.")


def article(kind: str) -> str:
    """Return a word with its article."""
    return f"{'an' if kind == 'ndarray' or kind[:1].lower() in 'aeiou' else 'a'} {kind}"


def kind_of(value: object) -> str:
    """Return what a value is, with its length if it is a list or a tuple."""
    many = f" of {len(value)}" if isinstance(value, tuple | list) else ""
    return f"{article(type(value).__name__)}{many}"


# --- numbers that show what is wrong --------------------------------------------------------------


def table(caption: str, rows: dict[str, Sequence[float]], columns: Sequence[str]) -> Evidence:
    """Return rows of numbers, by their labels, as evidence."""
    numbers = [[float(entry) for entry in row] for row in rows.values()]
    values = torch.tensor(numbers, dtype=torch.float64)
    return Evidence(caption, values, tuple(rows), tuple(columns))


def first_difference(got: Tensor, right: Tensor, axes: Sequence[str], shown: int = 5) -> Evidence:
    """Return the first row that differs, from its first wrong entry on; ``axes`` have names."""
    off = (got - right).abs().nan_to_num(nan=torch.inf)
    *place, first = (off > 0.1 * off.max().clamp(max=1e3)).nonzero()[0].tolist()
    first = 0 if right.shape[-1] <= shown else first
    columns = range(first, min(first + shown, right.shape[-1]))
    rows = {
        name: numbers[tuple(place)][columns.start : columns.stop].tolist()
        for name, numbers in (("yours", got), ("correct", right))
    }
    *names, last = axes[-right.ndim :]
    where = (f"{name} {at}" for name, at in zip(names, place, strict=True))
    caption = ", ".join(("The first difference", *where))
    return table(f"{caption}:", rows, [f"{last} {n}" for n in columns])
