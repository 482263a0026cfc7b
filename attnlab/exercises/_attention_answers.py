"""Judge a learner's attention function with the clinic's probes."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

from attnlab.clinic import Finding, Report, diagnose
from attnlab.clinic._calling import call
from attnlab.exercises import _answers
from attnlab.exercises._answers import Answer, NotDone, Wrong, article, table

LEADS = ((2,), ())  # what comes before (L, E): a batch, one sequence
HEADS = (2, 3)
L, S, E, EV = 5, 7, 11, 13
# Findings of the clinic that are no part of a first lesson: told, and not held against anyone.
MANNERS = ("prints", "slow", "device", "dtype", "contiguity", "detached")
# Parts of the names of torch's functions that compute a softmax.
SOFTMAX = ("softmax", "softmin", "scaled_dot_product", "multi_head_attention")


class Watch(TorchFunctionMode):
    """Notices when torch computes a softmax, under whatever name it was imported."""

    def __init__(self) -> None:
        super().__init__()
        self.seen = False

    def __torch_function__(self, func, types, args=(), kwargs=None):
        name = str(getattr(func, "__name__", func))
        self.seen |= any(part in name for part in SOFTMAX)
        return func(*args, **(kwargs or {}))


def calls_softmax(answer: Answer, *inputs: object) -> bool:
    """Return whether an answer calls torch's softmax or its fused attention.

    Parameters
    ----------
    answer : Answer
        A function.
    *inputs
        What it gets.

    Returns
    -------
    bool
        False for a value that is no function.
    """
    if not callable(answer.given):
        return False
    watch = Watch()

    def watched() -> object:
        with watch:
            return answer.given(*inputs)

    call(watched, time_limit=_answers.TIME_LIMIT)
    return watch.seen


def examined(answer: Answer) -> Report:
    """Return the clinic's report on an attention function in which it found no cause.

    Parameters
    ----------
    answer : Answer
        Of (query, key, value); returns the output only.

    Returns
    -------
    Report
        Its findings are about manners only.

    Raises
    ------
    NotDone
        If it is a stub.
    Wrong
        If the function is wrong; a batch and one sequence must both work.
    """
    tried, trouble = _first_contact(answer)
    limit = _answers.TIME_LIMIT
    report = diagnose(answer.given, kind="attention", causal=False, time_limit=limit)
    causes = [one for one in report.findings if one.name not in MANNERS]
    if causes:
        raise _accusation(causes, tried, trouble, report)
    if trouble is not None:
        raise trouble
    for lead in LEADS:
        _compare(answer, lead, report)
    return report


def remarks_of(answer: Answer, report: Report) -> tuple[str, ...]:
    """Return what is good to know about a right answer.

    Parameters
    ----------
    answer : Answer
        An attention function.
    report : Report
        What the clinic says of it.

    Returns
    -------
    tuple of str
        Sentences.
    """
    told = [_told(finding) for finding in report.findings]
    try:
        _compare(answer, HEADS, report)
    except Wrong:
        shape = (*HEADS, L, E)
        told.append(f"For a query {shape}, with heads, it does not work yet; lesson 7 needs that.")
    return tuple(told)


def _told(finding: Finding) -> str:
    return f"{str(finding).rstrip('.')}."


def _inputs(lead: tuple[int, ...]) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    sizes = ((*lead, L, E), (*lead, S, E), (*lead, S, EV))
    query, key, value = (
        torch.randn(size, generator=generator, dtype=torch.float32) for size in sizes
    )
    return query, key, value


def _case(lead: tuple[int, ...]) -> str:
    return f"query {(*lead, L, E)}, key {(*lead, S, E)} and value {(*lead, S, EV)}"


def _first_contact(answer: Answer) -> tuple[str, Wrong | None]:
    """Return the case that works, or the error; raise what needs no probes to be told."""
    batch, alone = LEADS
    try:
        answer.ask(*_inputs(batch), read=_output, case=_case(batch))
        return _case(batch), None
    except Wrong as wrong:
        if not wrong.by_error:
            raise
        trouble = wrong
    try:
        answer.ask(*_inputs(alone), read=_output)
        return _case(alone), None
    except Wrong:
        return "", trouble


def _accusation(causes: list[Finding], tried: str, trouble: Wrong | None, report: Report) -> Wrong:
    """Return what to say about a function with findings, and with which shapes it was tried."""
    cause, sentence = causes[0], _told(causes[0])
    if trouble is not None and cause.name == "raises":
        return Wrong(trouble.message, report=report)
    if trouble is not None:
        sentence = f"{trouble.message} Where sizes happen to be equal it runs: {sentence}"
    elif cause.evidence is not None:
        sentence += f" Tried with {tried}."
    if len(causes) > 1:
        sentence += " Something else is wrong as well; this comes first."
    return Wrong(sentence, cause.evidence, report)


def _output(value: object) -> Tensor:
    if isinstance(value, Tensor):
        return value
    kind = type(value).__name__
    if isinstance(value, tuple | list):
        raise Wrong(f"It returns a {kind} of {len(value)}; return the output alone.")
    raise Wrong(f"It returns {article(kind)} instead of a tensor.")


def _compare(answer: Answer, lead: tuple[int, ...], report: Report) -> None:
    """Raise Wrong if the numbers are not those of torch."""
    query, key, value = _inputs(lead)
    right = F.scaled_dot_product_attention(query, key, value)
    advice = "Count dimensions from the end, with -1 and -2." if lead != LEADS[0] else ""
    try:
        output = answer.ask(*(part.clone() for part in (query, key, value)), read=_output)
    except NotDone:
        raise Wrong(f"With {_case(lead)} it returns None.", report=report) from None
    except Wrong as wrong:
        message = f"With {_case(lead)} i{wrong.message[1:]} {advice}".rstrip()
        raise Wrong(message, report=report) from None
    if output.shape != right.shape:
        got = f"the output must be {tuple(right.shape)}, got {tuple(output.shape)}"
        raise Wrong(f"With {_case(lead)} {got}. {advice}".rstrip(), report=report)
    if not torch.allclose(output.to(right), right, atol=1e-4):
        worst = (output.to(right) - right).abs().nan_to_num(torch.inf).amax(dim=-1)
        row = worst.flatten().argmax()
        rows = {
            name: part.reshape(-1, EV)[row, :4].tolist()
            for name, part in (("yours", output), ("attention", right))
        }
        evidence = table(f"Row {row % L} of the output:", rows, [f"feature {i}" for i in range(4)])
        message = f"With {_case(lead)} the numbers are wrong. {advice}".rstrip()
        raise Wrong(message, evidence, report)
