"""The forms of a check that also asks the clinic about an attention function."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch.nn.functional as F

from attnlab.clinic import Finding, Report, diagnose
from attnlab.exercises.frame import answers
from attnlab.exercises.frame.answers import Answer, Right, Wrong
from attnlab.exercises.frame.forms import Compared, by_hand

REMARKS = ("detached",)  # found in a function whose numbers are correct: a remark
UNSEEN = (
    "The outputs match PyTorch's, but the clinic did not see which argument is which. Call them "
    "query, key, value and mask, and it examines the function as well."
)
LOOK = "Look at the scores, the weights and the average in turn."


@dataclass(frozen=True, kw_only=True)
class Examined(Compared):
    """A check of an attention function against torch's, and then by the clinic."""

    right: Callable[..., object] = F.scaled_dot_product_attention
    otherwise: str = LOOK
    axes: tuple[str, ...] = ("batch", "sequence", "query", "feature")
    atol: float = 1e-4
    by_hand: bool = False  # the function must not call a softmax

    def decide(self, body: Callable, answer: Answer) -> Right:
        """Compare the numbers; ask the clinic about what has no name yet and what is correct."""
        if self.by_hand:
            by_hand(answer, *next(iter(body()))[1])
        try:
            right = super().decide(body, answer)
        except Wrong as wrong:
            if wrong.message.endswith(self.otherwise):
                accuse(diagnosed(answer))
            raise
        report = diagnosed(answer)
        accuse(report)
        said = (*map(str, report.notes), *map(sentence, report.findings))
        message = UNSEEN if report.gap else right.message
        return Right(message, None, tuple(dict.fromkeys(said)), report)


def diagnosed(answer: Answer) -> Report:
    """Return what the clinic says of an attention function without a causal mask."""
    meant = {"kind": "attention", "causal": False, "mask": "allowed"}
    return answer.observe(partial(diagnose, **meant, time_limit=answers.TIME_LIMIT))


def accuse(report: Report) -> None:
    """Raise Wrong with what the clinic has found, if that makes a function wrong."""
    causes = [finding for finding in report.findings if finding.name not in REMARKS]
    if not causes:
        return
    told = sentence(causes[0])
    if len(causes) > 1:
        told += " Something else is wrong as well, but mend this first."
    raise Wrong(told, causes[0].evidence, report)


def sentence(finding: Finding) -> str:
    """Return a finding as one sentence."""
    return f"{str(finding).rstrip('.')}."
