"""The form of a check that asks the clinic about an attention function."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch.nn.functional as F
from torch import Tensor

from attnlab._checks import shape
from attnlab.clinic import Evidence, Finding, Report, diagnose
from attnlab.exercises import _answers
from attnlab.exercises._answers import (
    Answer,
    Right,
    Wrong,
    first_difference,
    hinted,
    tensor,
)
from attnlab.exercises._forms import Check, asked, same

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
    advice: str = ""  # said where the first case is correct and another is not
    notes: bool = False  # the clinic's notes are good to know here
    also: Also | None = None  # a case that need not work, with the remark if it does not

    def decide(self, body: Callable, answer: Answer) -> Right:
        """Let the clinic examine the function, then compare its numbers."""
        report = examined(answer, list(body()), self.errors, self.advice)
        said = tuple(dict.fromkeys(
            map(str, (*(report.notes if self.notes else ()), *remarks(answer, report, self.also)))
        ))  # fmt: skip
        return Right(self.verified, None, said, report)


def remarks(answer: Answer, report: Report, also: Also | None) -> tuple[str, ...]:
    """Return what is good to know about a correct function."""
    said = [str(note) for note in report.notes if getattr(note, "key", "") in REMARKS]
    said += [sentence(finding) for finding in report.findings]
    if also:
        case, inputs, remark = also
        try:
            compared(answer, case, inputs)
        except Wrong:
            said.append(remark)
    return tuple(said)


def examined(
    answer: Answer, cases: list[tuple[str, tuple]], errors: Mapping[str, str], advice: str = ""
) -> Report:
    """Return the clinic's report on a correct attention function; raise Wrong for any other."""
    tried, output, trouble = _first_contact(answer, cases)
    if trouble is not None and hinted(trouble.message, errors) != trouble.message:
        raise trouble
    report = diagnosed(answer)
    causes = [one for one in report.findings if one.name not in REMARKS]
    if tried and (causes or report.ok is None):
        case, inputs = tried
        why = answer.slip(lambda slip: same(output, slip(*inputs), atol=1e-4))
        if why:
            raise Wrong(f"With {case} the output is wrong. {why}", _shown(output, inputs), report)
    if causes:
        raise _accusation(causes, tried, trouble, report)
    if trouble is not None:
        raise trouble
    for place, (case, inputs) in enumerate(cases):
        try:
            compared(answer, case, inputs)
        except Wrong as wrong:
            message = f"{wrong.message} {advice if place else ''}".rstrip()
            raise Wrong(message, wrong.evidence, report) from None
    return report


def diagnosed(answer: Answer) -> Report:
    """Return what the clinic says of an attention function without a causal mask."""
    limit = _answers.TIME_LIMIT
    return answer.observe(
        lambda given: diagnose(
            given, kind="attention", causal=False, mask="allowed", time_limit=limit
        )
    )


def compared(answer: Answer, case: str, inputs: tuple) -> None:
    """Raise Wrong if the numbers are not those of torch."""
    output = asked(answer, inputs, case, tensor)
    right = F.scaled_dot_product_attention(*inputs)
    if output.shape != right.shape:
        raise Wrong(f"With {case} the output must be {shape(right)}, got {shape(output)}.")
    if not same(output, right, atol=1e-4):
        raise Wrong(f"With {case} the output is wrong.", _shown(output, inputs))


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


def _accusation(
    causes: list[Finding], tried: tuple[str, tuple] | None, trouble: Wrong | None, report: Report
) -> Wrong:
    """Return what to say about a function with findings, and with which shapes it was tried."""
    cause, told = causes[0], sentence(causes[0])
    if trouble is not None and cause.name == "raises":
        return Wrong(trouble.message, report=report)
    if trouble is not None:
        told = f"{trouble.message} Where sizes happen to be equal it runs: {told}"
    elif cause.evidence is not None:
        told += f" Tried with {tried[0]}."
    if len(causes) > 1:
        told += " Something else is wrong as well; this comes first."
    return Wrong(told, cause.evidence, report)


def _shown(output: Tensor, inputs: tuple) -> Evidence:
    return first_difference(output, F.scaled_dot_product_attention(*inputs), AXES)
