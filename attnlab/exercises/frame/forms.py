"""The forms of a check: a lesson declares what is correct and which mistakes have a name.

A check is a function with one of these forms as its decorator: the docstring says what a learner
gives and what is checked, the body on what, and the form what is correct and which mistakes it
names. A mistake is a wrong
answer that runs, with the sentence that names it: the check compares the learner's answer with it,
and one test gives every mistake of every lesson back to its check.
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import combinations
from typing import NamedTuple

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves, tree_map_only

from attnlab.clinic import Evidence
from attnlab.exercises.frame import answers, voice
from attnlab.exercises.frame.answers import Answer, Either, Read, Right, Wrong
from attnlab.exercises.frame.verdict import Verdict, latest
from attnlab.sandbox import call

# Parts of the names of torch's functions that compute a softmax.
SOFTMAX = ("softmax", "softmin", "scaled_dot_product", "multi_head_attention")


@dataclass(frozen=True, kw_only=True)
class Check:
    """What all forms share; each says in ``decide`` what makes an answer right."""

    slips: Mapping[str, object] = field(default_factory=dict)  # sentence: wrong answer, or Either
    errors: Mapping[str, str] = field(default_factory=dict)  # part of an error's message: a hint

    def __call__(self, body: Callable) -> Callable[[object], Verdict]:
        """Return the check, with the name of ``body`` and its docstring made complete."""

        def check(answer: object) -> Verdict:
            verdict = answers.judge(answer, lambda asked: self._explained(body, asked))
            latest[body.__name__] = verdict
            return verdict

        for name in ("__module__", "__name__", "__qualname__"):
            setattr(check, name, getattr(body, name))
        check.__doc__ = self._described(inspect.getdoc(body))
        check.form = self
        return check

    def decide(self, body: Callable, answer: Answer) -> Right:
        """Return Right, or raise NotDone or Wrong."""
        raise NotImplementedError

    def _explained(self, body: Callable, answer: Answer) -> Right:
        answer.slips = self.slips
        try:
            return self.decide(body, answer)
        except Wrong as wrong:
            if wrong.by_error:
                wrong.message = voice.hinted(wrong.message, self.errors)
            raise

    def _described(self, about: str) -> str:
        """Return a docstring with what all checks return, and with the mistakes."""
        returns = "\n\nReturns\n-------\nVerdict\n    Never an error."
        named = "\n".join(f"- {why}" for why in self.slips)
        notes = f"\n\nNotes\n-----\nMistakes that it names:\n\n{named}\n" if named else ""
        return about.replace("\n\nSee Also", f"{returns}\n\nSee Also") + notes


# --- a value --------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Value(Check):
    """A check of one value; its body says what a message begins with, if anything."""

    right: object  # the value, or a function that says whether a value is correct
    verified: str  # said of a correct value
    otherwise: str | Callable[[object], str] = ""  # said of a wrong one without a named mistake
    read: Read = answers.number
    near: Callable[[object, object], bool] = operator.eq  # whether two values are the same
    by_hand: bool = False  # the value must be found without a softmax

    def decide(self, body: Callable, answer: Answer) -> Right:
        """Compare the value with the correct one, then with each mistake."""
        said = answer.value(self.read)
        begin = body(said) or ""
        if self.right(said) if callable(self.right) else self.near(said, self.right):
            if self.by_hand:
                by_hand(answer)
            return Right(f"{begin} {self.verified}".lstrip())
        why = answer.slip(lambda slip: self.near(said, slip))
        raise Wrong(f"{begin} {why or _text(self.otherwise, said)}".strip())


@dataclass(frozen=True, kw_only=True)
class Found(Check):
    """A check of something that a learner has found; its body takes what ``read`` makes of it.

    The body returns Right or raises Wrong.
    """

    read: Read

    def decide(self, body: Callable, answer: Answer) -> Right:
        """Let the body judge what the answer gives."""
        return body(answer.value(self.read))


def by_hand(answer: Answer, *inputs: object) -> None:
    """Raise Wrong if an answer calls a softmax."""
    if answer.observe(lambda given: calls_softmax(given, *inputs)):
        raise Wrong(
            "Your function calls a softmax, perhaps inside another function. Do without it."
        )


def calls_softmax(given: object, *inputs: object) -> bool:
    """Return whether an answer calls torch's softmax or its fused attention."""
    watch = _Watch()
    if callable(given):
        with watch:  # outside the call, whose alarm could ring while it is left
            call(given, *inputs, time_limit=answers.TIME_LIMIT)
    return watch.seen


class _Watch(TorchFunctionMode):
    """Notices when torch computes a softmax, under whatever name it was imported."""

    def __init__(self) -> None:
        super().__init__()
        self.seen = False

    def __torch_function__(self, func, types, args=(), kwargs=None):
        name = str(getattr(func, "__name__", func))
        self.seen |= any(part in name for part in SOFTMAX)
        return func(*args, **(kwargs or {}))


# --- a function of tensors ------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Compared(Check):
    """A check of a function of tensors; its body yields (case, inputs), the case in words.

    Each mistake is a function of the same inputs, which returns what a learner's function would. It
    fits if it gives the learner's result in the first case that fails, and the correct one in those
    before.
    """

    right: Callable[..., object]  # the correct function
    verified: str  # said of a correct answer
    otherwise: str | Callable[..., str]  # said of a wrong one; of (result, correct one, *inputs)
    what: str = "output"  # what the function returns
    read: Callable[[object], Tensor] = answers.tensor  # makes a tensor of what any of them returns
    nan: str = "The result contains NaN, although every input is an ordinary number."
    misshapen: str = ""  # said of a wrong shape without a named mistake
    axes: tuple[str, ...] = ("sequence", "head", "query", "feature")  # names of the last axes
    columns: tuple[str, ...] = ()  # names of the entries on the last axis of all
    atol: float = 1e-5
    rtol: float = 1e-5
    keeps_inputs: bool | str = False  # the inputs must stay as they are, or what to say if not
    keeps_dtype: bool = False  # the result must have the dtype of the correct one
    also: Callable[[Answer, Callable], None] | None = None  # of (answer, body): raises Wrong

    def decide(self, body: Callable, answer: Answer) -> Right:
        """Compare the result of every case with the correct one, then with each mistake."""
        passed: list[tuple] = []
        for case, inputs in body():
            self.compare(answer, case, inputs, passed)
            passed.append(inputs)
        if self.also:
            self.also(answer, body)
        return Right(self.verified)

    def compare(self, answer: Answer, case: str, inputs: tuple, passed: list[tuple]) -> None:
        """Raise Wrong if the result of a case is not the correct one."""
        got = asked(answer, inputs, case, self.read, keeps_inputs=self.keeps_inputs)
        right = self._made(self.right, inputs)
        if torch.bool in (got.dtype, right.dtype) and got.dtype != right.dtype:
            raise Wrong(voice.has(case, self.what, "dtype", got, right))
        if got.shape != right.shape:
            why = self._named(answer, got, inputs, passed) or self.misshapen
            raise Wrong(f"{voice.has(case, self.what, 'shape', got, right)} {why}".rstrip())
        if not self._same(got, right):
            why = self._named(answer, got, inputs, passed) or (got.isnan().any() and self.nan)
            why = why or _text(self.otherwise, got, right, *inputs)
            shown = answers.first_difference(got, right, self.axes, self.columns)
            raise Wrong(f"{voice.is_wrong(case, self.what)} {why}", shown)
        if self.keeps_dtype and got.dtype != right.dtype:
            raise Wrong(voice.has(case, self.what, "dtype", got, right))

    def _named(self, answer: Answer, got: Tensor, inputs: tuple, passed: list[tuple]) -> str | None:
        """Return the sentence of the mistake that explains the result, if one does."""

        def explains(slip: Callable[..., object]) -> bool:
            try:
                return self._same(got, self._made(slip, inputs)) and all(
                    self._same(self._made(slip, x), self._made(self.right, x)) for x in passed
                )
            except RuntimeError:  # the mistake is an error for these sizes
                return False

        return answer.slip(explains)

    def _made(self, function: Callable[..., object], inputs: tuple) -> Tensor:
        return self.read(function(*inputs))

    def _same(self, got: Tensor, wanted: Tensor) -> bool:
        return same(got, wanted, rtol=self.rtol, atol=self.atol)


def randoms(
    *sizes: tuple[int, ...], seed: int = 0, dtype: torch.dtype = torch.float32
) -> tuple[Tensor, ...]:
    """Return normally distributed tensors, the same every time."""
    generator = torch.Generator().manual_seed(seed)
    return tuple(torch.randn(size, generator=generator, dtype=dtype) for size in sizes)


def same(got: Tensor, wanted: Tensor, *, rtol: float = 1e-5, atol: float = 1e-5) -> bool:
    """Return whether two tensors have one shape and, up to a tolerance, the same numbers."""
    return got.shape == wanted.shape and torch.allclose(
        got.double(), wanted.double(), rtol=rtol, atol=atol, equal_nan=True
    )


def asked(
    answer: Answer, inputs: tuple, case: str, read: Read, *, keeps_inputs: bool | str = False
) -> object:
    """Return what an answer gives for copies of the inputs: tensors, and tuples of tensors."""
    given = tree_map_only(Tensor, torch.clone, inputs)
    got = answer.ask(*given, read=read, case=case)
    pairs = zip(tree_leaves(given), tree_leaves(inputs), strict=True)
    tensors = [pair for pair in pairs if isinstance(pair[1], Tensor)]
    if keeps_inputs and not all(same(*pair, rtol=0, atol=0) for pair in tensors):
        raise Wrong(keeps_inputs if isinstance(keeps_inputs, str) else voice.changes_inputs(case))
    return got


def bugs_left(
    make: Callable[..., Callable], bugs: Mapping[str, Mapping[str, object]]
) -> dict[str, Either]:
    """Return every combination of some bugs as a mistake, by how many they are and the first.

    ``make`` returns the function with bugs, from what each of them changes.
    """
    left: dict[str, list[Callable]] = {}
    for count in range(1, len(bugs) + 1):
        begin = f"{('One bug is', 'Two bugs are', 'Three bugs are')[count - 1]} left"
        for names in combinations(bugs, count):
            changes = {step: way for name in names for step, way in bugs[name].items()}
            first = ". The first" if count > 1 else ""
            left.setdefault(f"{begin}{first}: {names[0]}", []).append(make(**changes))
    return {why: Either(*ways) for why, ways in left.items()}


# --- an opinion -----------------------------------------------------------------------------------


class Case(NamedTuple):
    """One thing to judge: its name, the arguments, the truth, and why another opinion is wrong."""

    name: str
    arguments: tuple
    truth: object
    hint: str


@dataclass(frozen=True, kw_only=True)
class Opinion(Check):
    """A check of a test that the learner writes; its body yields Cases, in order of importance.

    Each mistake is a test as well; it fits if it says the same of every case.
    """

    verified: str  # said of a correct test
    read: Read = answers.yes_or_no
    evidence: Callable[[Case], Evidence | None] | None = None  # shown of a case
    keeps_inputs: bool = False  # the arguments must stay as they are

    def decide(self, body: Callable, answer: Answer) -> Right:
        """Compare every opinion with the truth; if one is wrong, all with those of each mistake."""
        cases = list(body())
        said = {
            name: asked(answer, arguments, name, self.read, keeps_inputs=self.keeps_inputs)
            for name, arguments, _, _ in cases
        }
        wrong = [case for case in cases if said[case.name] != case.truth]
        if not wrong:
            return Right(self.verified)
        why = answer.slip(
            lambda slip: all(slip(*case.arguments) == said[case.name] for case in body())
        )
        name, _, _, hint = wrong[0]
        evidence = self.evidence and self.evidence(wrong[0])
        raise Wrong(f"{voice.says(said[name], name)} {why or hint}", evidence)


def _text(words: str | Callable[..., str], *facts: object) -> str:
    return words if isinstance(words, str) else words(*facts)
