"""Ask a learner's answer for its result, and read what it gives."""

from __future__ import annotations

import dis
import inspect
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from attnlab.clinic import Evidence, Report
from attnlab.exercises.frame import stale, voice
from attnlab.exercises.frame.verdict import Verdict
from attnlab.models.pretrained import PretrainedEmbedding
from attnlab.sandbox import CutShort, Outcome, OutOfTime, call

TIME_LIMIT = 2.0  # seconds of computing for one call
SHOWN = 5  # numbers of a row that differs
# The bytecode of a function without a body: a docstring, pass, ... or return None at most.
NO_BODY = {"RESUME", "NOP", "COPY_FREE_VARS", "LOAD_CONST", "RETURN_CONST", "RETURN_VALUE"}

Read = Callable[[object], object]  # makes numbers of what an answer gives, or raises Wrong


class NotDone(Exception):
    """There is no answer yet."""


@dataclass(eq=False)
class Wrong(Exception):
    """The answer is wrong; ``by_error`` says whether it raised."""

    message: str
    evidence: Evidence | None = None
    report: Report | None = None
    by_error: bool = False


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
        for why, ways in self.slips.items():
            if any(fits(way) for way in (ways if isinstance(ways, Either) else (ways,))):
                return why
        return None

    def value(self, read: Read) -> object:
        """Return what the answer gives without arguments, read by ``read``."""
        if callable(self.given):
            return self.ask(read=read)
        try:
            return _settled(call(_read, self.given, read, time_limit=TIME_LIMIT), "", TIME_LIMIT)
        except Wrong as wrong:
            wrong.message = voice.of_value(wrong.message)
            raise

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
            raise Wrong(voice.NOT_A_FUNCTION)
        limit = patience * TIME_LIMIT
        outcome = call(lambda: _read(self.given(*inputs), read), time_limit=limit)
        try:
            return _settled(outcome, case, limit)
        except NotDone:
            if not isinstance(outcome.error, NotDone) or is_stub(self.given):
                raise
        raise NoValue(voice.returns_nothing(case, bool(outcome.printed)))


class Either(tuple):
    """Several wrong answers with the same sentence."""

    def __new__(cls, *ways: object) -> Either:
        """Return them as one mistake."""
        return super().__new__(cls, ways)


def is_stub(function: object) -> bool:
    """Return whether a function has no body yet."""
    function = inspect.unwrap(getattr(function, "func", function))
    code = getattr(function, "__code__", None)
    return code is not None and {step.opname for step in dis.get_instructions(code)} <= NO_BODY


def judge(given: object, decide: Callable[[Answer], Right]) -> Verdict:
    """Return what ``decide`` says about an answer; let nothing through but an interrupt.

    Whoever grades a class gives an Answer of their own, which is asked as it is.
    """
    name, older = "your answer", ""
    try:
        with torch.random.fork_rng(devices=[]):  # the notebook's random numbers stay as they are
            torch.default_generator.manual_seed(0)
            answer = given if isinstance(given, Answer) else Answer(given)
            name = answer.name
            if stale.is_older(answer.given):
                older = f"{voice.is_older(name)} "
            right = decide(answer)
        shown = right.evidence, right.remarks, right.report
        return Verdict(name, True, True, older + right.message, *shown)
    except NotDone:
        return Verdict(name, False, False, older + voice.STUB)
    except Wrong as wrong:
        return Verdict(name, True, False, older + wrong.message, wrong.evidence, (), wrong.report)
    except NotChecked as cut:
        return Verdict(name, True, None, older + str(cut))
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        return Verdict(name, True, False, older + voice.unreadable(type(error).__name__))


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
    if isinstance(error, CutShort):
        raise NotChecked(voice.waits(case, outcome.passed, outcome.seconds))
    if isinstance(error, OutOfTime):
        raise Wrong(voice.too_slow(case, limit))
    raise Wrong(voice.raises(case, words), by_error=True)


def _read(value: object, read: Read) -> object:
    if value is None or value is Ellipsis:
        raise NotDone
    if inspect.isgenerator(value) and value.__name__ == "<genexpr>":
        value = [*value]  # (... for ... in ...) is as good as [... for ... in ...]
    if inspect.iscoroutine(value) or inspect.isgenerator(value):
        value.close()
        why = "Return its values in a list: [... for ... in ...], without `yield`."
        if inspect.iscoroutine(value):
            why = "Define it without `async`."
        raise Wrong(f"Your function returned {voice.kind_of(value)}. {why}")
    return read(value)


def _name(given: object) -> str:
    try:
        name = getattr(getattr(given, "func", given), "__name__", None)
    except Exception:
        name = None
    return name if isinstance(name, str) and name.isidentifier() else "your answer"


# --- what an answer gives -------------------------------------------------------------------------


def tensor(value: object) -> Tensor:
    """Return a tensor without its gradient."""
    if not isinstance(value, Tensor):
        raise Wrong(voice.returned(voice.kind_of(value), "the output alone, as a tensor"))
    return value.detach()


def vector(value: object, wanted: str = "a tensor of numbers") -> Tensor:
    """Return numbers as a tensor of float64: a number, a list, a tuple, a tensor, an array."""
    if isinstance(value, Tensor):
        return value.detach().to("cpu", torch.float64, copy=True)
    try:
        if isinstance(value, str | bytes | dict | set):
            raise TypeError
        return torch.as_tensor(value, dtype=torch.float64).detach().clone()
    except (TypeError, ValueError, RuntimeError):
        raise Wrong(voice.returned(voice.kind_of(value), wanted)) from None


def numbers(
    value: object, shape: tuple[int, ...], wanted: str, hints: Mapping[tuple, str] | None = None
) -> Tensor:
    """Return finite numbers of a shape; ``hints`` says more about some wrong shapes."""
    read = vector(value, wanted)
    if read.numel() == math.prod(shape) and 1 in read.shape:
        read = read.reshape(shape)  # a single row or column of a table will do
    sizes = tuple(read.shape)
    if sizes != shape:
        raise Wrong(voice.returned(voice.kind_of(value), wanted, (hints or {}).get(sizes, "")))
    if not read.isfinite().all():
        got = f"{voice.kind_of(value)} that contains {'NaN' if read.isnan().any() else 'infinity'}"
        if read.numel() == 1:
            got = f"{read.item():g}, which is not a finite number"
        raise Wrong(voice.returned(got, wanted))
    return read


def number(value: object) -> float:
    """Return one finite number, also from a tensor with a single entry."""
    read = vector(value, "one number")
    return numbers(read.reshape(()) if read.numel() == 1 else value, (), "one number").item()


def choice(value: object, options: Sequence[str]) -> str:
    """Return one of some words, whatever its case."""
    for option in options:
        if isinstance(value, str) and value.strip().lower() == option.lower():
            return option
    got = f"“{value[:40]}”" if isinstance(value, str) else voice.kind_of(value)
    *others, last = (f'"{option}"' for option in options)
    raise Wrong(voice.returned(got, f"{', '.join(others)} or {last}"))


def yes_or_no(value: object) -> bool:
    """Return True or False, also from a tensor or an array with a single entry."""
    if isinstance(value, bool):
        return value
    if isinstance(value, Tensor | np.ndarray | np.generic):
        entries = torch.as_tensor(value)
        if entries.numel() != 1:
            wanted = "a single True or False"
            raise Wrong(voice.returned(voice.kind_of(value), wanted, voice.HINTS["is ambiguous"]))
        if entries.dtype == torch.bool:
            return bool(entries.item())
        raise Wrong(voice.returned(f"a number ({entries.dtype})", "True or False"))
    raise Wrong(voice.returned(voice.kind_of(value), "True or False"))


def tokens_of(model: PretrainedEmbedding, sentence: str) -> list[str]:
    """Return the tokens of a sentence that a trained model can read."""
    if not sentence.strip():
        raise Wrong("The model cannot use an empty sentence. It must contain at least one word.")
    try:
        return model.tokens(sentence)
    except ValueError as error:
        raise Wrong(f"The model cannot use this sentence: {error}") from None


# --- numbers that show what is wrong --------------------------------------------------------------


def table(caption: str, rows: Mapping[str, Iterable[float]], columns: Sequence[str]) -> Evidence:
    """Return rows of numbers, by their labels, as evidence."""
    numbers = [[float(entry) for entry in row] for row in rows.values()]
    values = torch.tensor(numbers, dtype=torch.float64)
    return Evidence(caption, values, tuple(rows), tuple(columns))


def first_difference(
    got: Tensor, right: Tensor, axes: Sequence[str], columns: Sequence[str] = ()
) -> Evidence:
    """Return the first row that differs, from its first wrong entry on; ``axes`` have names."""
    got, right = got.double(), right.double()
    off = (got - right).abs().nan_to_num(nan=torch.inf)
    *place, first = (off > 0.1 * off.max().clamp(max=1e3)).nonzero()[0].tolist()
    first = 0 if right.shape[-1] <= SHOWN else first
    shown = slice(first, first + SHOWN)
    names = (columns or [f"{axes[-1]} {n}" for n in range(right.shape[-1])])[shown]
    rows = {"yours": got[(*place, shown)], "correct": right[(*place, shown)]}
    where = (f"{axis} {at}" for axis, at in zip(axes[-right.ndim : -1], place, strict=True))
    caption = f"{', '.join(('The first difference', *where))}:"
    evidence = table(caption, rows, names)
    yours, correct = evidence.cells()
    if yours == correct:  # the digits shown do not tell them apart
        rows["yours - correct"] = rows["yours"] - rows["correct"]
    return table(caption, rows, names)
