"""The form of a check that asks the clinic about an attention function."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch.nn.functional as F
from torch import Tensor

from attnlab.clinic import Finding, Report, diagnose
from attnlab.exercises import _answers, _voice
from attnlab.exercises._answers import Answer, Right, Wrong, first_difference, tensor
from attnlab.exercises._forms import Check, asked, calls_softmax, same

# What the clinic says of a function whose numbers are correct: remarks in a first lesson.
REMARKS = ("prints", "slow", "device", "dtype", "contiguity", "detached")
Also = tuple[str, tuple, str]
AXES = ("sequence", "head", "row", "feature")


@dataclass(frozen=True, kw_only=True)
class Examined(Check):
    """A check of an attention function by the clinic; its body yields (case, inputs).

    The answer is called with the first case, or the next that it can take; after the clinic, its
    output for every case is compared with torch's.
    """

    verified: str  # said of a correct function
    advice: str = ""  # said where a case with fewer dimensions than the first is wrong
    notes: bool = False  # the clinic's notes are good to know here
    also: Also | None = None  # a case that need not work, with the remark if it does not
    by_hand: bool = False  # the function must not call a softmax

    def decide(self, body: Callable, answer: Answer) -> Right:
        """Let the clinic examine the function, then compare its numbers."""
        cases = list(body())
        if self.by_hand and answer.observe(lambda given: calls_softmax(given, *cases[0][1])):
            raise Wrong(
                "Your function calls a softmax, perhaps inside another function. Write it with "
                "exp and a sum."
            )
        tried, output, trouble = _first_contact(answer, cases)
        if trouble and _voice.hinted(trouble.message, self.errors) != trouble.message:
            raise trouble
        report = diagnosed(answer)
        causes = [one for one in report.findings if one.name not in REMARKS]
        if tried and (causes or report.ok is None):
            _see_slips(answer, *tried, output, report)
        if causes:
            raise _accusation(causes, trouble, report)
        if trouble is not None:
            raise trouble
        for place, (case, inputs) in enumerate(cases):
            fewer = inputs[0].ndim < cases[0][1][0].ndim
            try:
                passed = [inputs for _, inputs in cases[:place]]
                compared(answer, case, inputs, self.advice if fewer else "", passed)
            except Wrong as wrong:
                wrong.report = report
                raise
        said = (*(report.notes if self.notes else ()), *self._remarks(answer, report))
        return Right(self.verified, None, tuple(dict.fromkeys(map(str, said))), report)

    def _remarks(self, answer: Answer, report: Report) -> Iterator[str]:
        """Yield what is good to know about a correct function."""
        yield from (note for note in report.notes if getattr(note, "key", "") in REMARKS)
        yield from map(sentence, report.findings)
        if self.also:
            case, inputs, remark = self.also
            try:
                compared(answer, case, inputs)
            except Wrong:
                yield remark


def _see_slips(
    answer: Answer,
    case: str,
    inputs: tuple,
    output: Tensor,
    report: Report | None = None,
    passed: Sequence[tuple] = (),
) -> None:
    """Raise Wrong if a named mistake gives this output, and the correct one in passed cases."""
    attend = F.scaled_dot_product_attention
    why = answer.slip(
        lambda slip: (
            same(output, slip(*inputs), atol=1e-4)
            and all(same(slip(*one), attend(*one), atol=1e-4) for one in passed)
        )
    )
    if why:
        right = attend(*inputs)
        if output.shape != right.shape:
            raise Wrong(f"{_voice.has_shape(case, 'output', output, right)} {why}", None, report)
        evidence = first_difference(output, right, AXES)
        raise Wrong(f"{_voice.is_wrong(case, 'output')} {why}", evidence, report)


def diagnosed(answer: Answer) -> Report:
    """Return what the clinic says of an attention function without a causal mask."""
    limit = _answers.TIME_LIMIT
    return answer.observe(
        lambda given: diagnose(
            given, kind="attention", causal=False, mask="allowed", time_limit=limit
        )
    )


def compared(
    answer: Answer, case: str, inputs: tuple, advice: str = "", passed: Sequence[tuple] = ()
) -> None:
    """Raise Wrong if the numbers are not those of torch; ``advice`` is for unnamed mistakes."""
    try:
        output = asked(answer, inputs, case, tensor)
    except Wrong as wrong:
        if wrong.by_error:
            wrong.message = f"{wrong.message} {advice}".rstrip()
        raise
    right = F.scaled_dot_product_attention(*inputs)
    if output.shape == right.shape and same(output, right, atol=1e-4):
        return
    _see_slips(answer, case, inputs, output, passed=passed)
    if output.shape != right.shape:
        told, evidence = _voice.has_shape(case, "output", output, right), None
    else:
        told, evidence = _voice.is_wrong(case, "output"), first_difference(output, right, AXES)
    raise Wrong(
        f"{told} {advice or 'Look at the scores, the weights and the average in turn.'}", evidence
    )


def sentence(finding: Finding) -> str:
    """Return a finding as one sentence."""
    return f"{str(finding).rstrip('.')}."


def _first_contact(
    answer: Answer, cases: list[tuple[str, tuple]]
) -> tuple[tuple[str, tuple] | None, Tensor | None, Wrong | None]:
    """Return the first case that works with its output, and the error of the first that does not.

    What needs no probes to be said is raised.
    """
    trouble = None
    for case, inputs in cases:
        try:
            return (case, inputs), asked(answer, inputs, case, tensor), trouble
        except Wrong as wrong:
            if trouble is None and not wrong.by_error:
                raise
            trouble = trouble or wrong
    return None, None, trouble


def _accusation(causes: list[Finding], trouble: Wrong | None, report: Report) -> Wrong:
    """Return what to say about a function with findings."""
    cause, told = causes[0], sentence(causes[0])
    if trouble is not None:
        if cause.name == "raises" or "positional argument" in trouble.message:
            return Wrong(trouble.message, report=report)
        told = f"{trouble.message} With other sizes it runs, but then: {told}"
    if cause.evidence is not None:
        told += " (These numbers come from the clinic, which chooses sizes of its own.)"
    if len(causes) > 1:
        told += " Something else is wrong as well, but mend this first."
    return Wrong(told, cause.evidence, report)
