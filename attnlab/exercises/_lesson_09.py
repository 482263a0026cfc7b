"""Checks for the exercises of lesson 9: the attention clinic."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from attnlab.attention import scaled_dot_product_attention
from attnlab.clinic import Evidence, Report, diagnose
from attnlab.exercises import _answers
from attnlab.exercises._answers import Answer, Right, Wrong, article, judge, table, vector
from attnlab.exercises._attention_answers import MANNERS
from attnlab.exercises._learning_probe import learning_probe
from attnlab.exercises._verdict import Verdict

LARGEST = 2**22  # numbers in one tensor, so that a check stays quick
HARMLESS = ("prints", "slow")  # findings about a function whose numbers are right


def check_hiding_sizes(answer: object) -> Verdict:
    """Check sizes at which ``patient_x`` of lesson 9 cannot be told from right attention.

    Verified: five whole numbers, each at least 2, and the same output for three random inputs.

    Parameters
    ----------
    answer : callable or sequence of int
        A function without arguments that returns N, L, S, E, Ev, or these numbers.

    Returns
    -------
    Verdict
        Never an error.

    See Also
    --------
    attnlab.clinic.diagnose : tries several sizes, all different.
    """
    return judge(answer, _hiding_sizes)


def check_mended_mask(answer: object) -> Verdict:
    """Check attention with a mask with the clinic's probes.

    Verified: all that ``attnlab.clinic.diagnose`` looks for, and the numbers of a batch.

    Parameters
    ----------
    answer : callable
        A function of (query, key, value, mask) that returns the output; True = may attend.

    Returns
    -------
    Verdict
        Never an error; with ``.report``.

    See Also
    --------
    check_mended : the same without a mask.
    """
    return judge(answer, _mended_mask)


def check_learning_probe(answer: object) -> Verdict:
    """Check a probe that tells whether a model can learn through an attention function.

    Verified: True for right attention with and without a causal mask; False where the weights or
    one of query, key and value are cut off, where gradients are 0, and when asked again.

    Parameters
    ----------
    answer : callable
        A function of an attention function that returns a bool.

    Returns
    -------
    Verdict
        Never an error.

    See Also
    --------
    torch.Tensor.requires_grad_ : asks for a gradient.
    """
    return judge(answer, learning_probe)


def check_disguise(answer: object) -> Verdict:
    """Check a wrong attention function that passes ``weak_check`` of lesson 9.

    Verified: right numbers for one sequence of ten tokens with 64 features, and a finding of
    ``attnlab.clinic.diagnose`` about more than a print or slowness.

    Parameters
    ----------
    answer : callable
        A function of (query, key, value) that returns the output.

    Returns
    -------
    Verdict
        Never an error; with ``.report``.

    See Also
    --------
    attnlab.clinic.diagnose : names what is wrong.
    """
    return judge(answer, _disguise)


# --- sizes that hide a bug ------------------------------------------------------------------------


def _patient_x(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    scores = query @ key.transpose(-2, -1) / math.sqrt(key.shape[1])
    return scores.softmax(dim=-1) @ value


def _hiding_sizes(answer: Answer) -> Right:
    N, L, S, E, Ev = answer.value(_five_sizes)
    for seed in range(3):
        query, key, value = _random(seed, (N, L, E), (N, S, E), (N, S, Ev))
        output = _patient_x(query, key, value)
        right = scaled_dot_product_attention(query, key, value)
        gap = float((output - right).abs().max())
        if gap > 1e-9:
            case = f"query {(N, L, E)}, key {(N, S, E)} and value {(N, S, Ev)}"
            told = f"With {case} patient X is off by up to {gap:.3g}, and a test sees it."
            raise Wrong(f"{told} {_confused(N, L, S, E, Ev)}", _worst_row(output, right))
    return Right("Patient X gives the numbers of right attention, for three random inputs.")


def _five_sizes(value: object) -> list[int]:
    read = vector(value)
    if read.shape != (5,):
        count = read.numel() if read.ndim == 1 else f"the shape {tuple(read.shape)}"
        raise Wrong(f"Five numbers are asked for, N, L, S, E, Ev; got {count}.")
    if not read.isfinite().all() or (read != read.round()).any():
        raise Wrong("Sizes are whole numbers.")
    if read.min() < 2:
        why = " With one key its weight is 1, whatever the score." if read[2] == 1 else ""
        raise Wrong(f"Each size must be at least 2, and the smallest is {int(read.min())}.{why}")
    if read[0] * read[1:3].max() * read[2:].max() > LARGEST:
        raise Wrong("These sizes make tensors too large for a quick check. Small ones will do.")
    return [int(one) for one in read.tolist()]


def _confused(N: int, L: int, S: int, E: int, Ev: int) -> str:
    """Say which axis was taken for another, if two sizes agree that need not."""
    if E == L:
        return "You made L and E equal. The key has no axis of queries: what is its axis 1?"
    if E == N:
        return "You made N and E equal. N is axis 0 of the key: axes are counted from 0."
    if E == Ev:
        return "You made E and Ev equal. Ev is the width of a value: no score depends on it."
    if L == S:
        return "You made L and S equal. The number of queries changes no score."
    return "By which number does it divide at these sizes, and by which should it?"


def _worst_row(output: Tensor, right: Tensor, name: str = "patient X") -> Evidence:
    """Show the row of the output, up to four features, that is furthest off."""
    width = output.shape[-1]
    gap = (output - right).abs().nan_to_num(torch.inf).reshape(-1, width).amax(dim=-1)
    row, shown = int(gap.argmax()), range(min(width, 4))
    rows = {
        label: part.reshape(-1, width)[row, : len(shown)].tolist()
        for label, part in ((name, output), ("right", right))
    }
    caption = f"Sequence {row // output.shape[-2]}, row {row % output.shape[-2]} of the output:"
    return table(caption, rows, [f"feature {i}" for i in shown])


# --- two bugs -------------------------------------------------------------------------------------


def _mended_mask(answer: Answer) -> Right:
    query, key, value = (t.float() for t in _random(0, (2, 5, 11), (2, 7, 11), (2, 7, 13)))
    mask = _random(1, (2, 5, 7))[0] > -0.3
    mask[..., 0] = True  # every query has a key
    case = "query (2, 5, 11), key (2, 7, 11), value (2, 7, 13) and mask (2, 5, 7)"
    inputs = [part.clone() for part in (query, key, value, mask)]
    output = answer.ask(*inputs, read=_output, case=case)
    report = _report(answer)
    causes = [one for one in report.findings if one.name not in MANNERS]
    if causes:
        more = " Something else is wrong as well; this comes first." if len(causes) > 1 else ""
        told = f"{_sentence(causes[0])} Tried with {case}.{more}"
        raise Wrong(told, causes[0].evidence, report)
    right = F.scaled_dot_product_attention(query, key, value, attn_mask=mask)
    if output.shape != right.shape:
        shapes = f"must be {tuple(right.shape)}, got {tuple(output.shape)}"
        raise Wrong(f"With {case} the output {shapes}.", None, report)
    if not torch.allclose(output.to(right), right, atol=1e-4):
        evidence = _worst_row(output.to(right), right, "yours")
        raise Wrong(f"With {case} the numbers are wrong.", evidence, report)
    remarks = (*report.notes, *(_sentence(one) for one in report.findings))
    told = "The clinic finds nothing wrong"
    return Right(f"{told}, and the numbers are those of torch, with {case}.", None, remarks, report)


def _report(answer: Answer) -> Report:
    limit = _answers.TIME_LIMIT
    return diagnose(answer.given, kind="attention", causal=False, time_limit=limit)


def _output(value: object) -> Tensor:
    if isinstance(value, Tensor):
        return value.detach()
    kind = article(type(value).__name__)
    raise Wrong(f"It returns {kind} instead of a tensor; return the output alone.")


def _sentence(finding: object) -> str:
    return f"{str(finding).rstrip('.')}."


# --- a wolf ---------------------------------------------------------------------------------------


def _disguise(answer: Answer) -> Right:
    own = torch.Generator().manual_seed(0)
    query, key, value = torch.randn(3, 1, 10, 64, generator=own, dtype=torch.float32)
    right = scaled_dot_product_attention(query, key, value)
    case = "query, key and value (1, 10, 64)"
    inputs = [part.clone() for part in (query, key, value)]
    try:
        output = answer.ask(*inputs, read=_output, case=case)
    except Wrong as wrong:
        noticed = f"weak_check notices: {wrong.message}" if wrong.by_error else wrong.message
        raise Wrong(noticed) from None
    _unmask(output, right, case)
    report = _report(answer)
    if report.ok:
        raise Wrong(
            "weak_check passes it, and the clinic finds nothing wrong either: it seems to be right "
            f"attention. What does weak_check never vary? It always takes {case}.",
            report=report,
        )
    if all(one.name in HARMLESS for one in report.findings):
        raise Wrong(
            f"The clinic finds bad manners only: {_sentence(report.findings[0])} Let it compute "
            "something wrong.",
            report=report,
        )
    told = f"weak_check passes it, with {case}, and the clinic does not."
    return Right(f"{told} Run `diagnose` on it to read why.", report=report)


def _unmask(output: Tensor, right: Tensor, case: str) -> None:
    """Raise Wrong if ``weak_check`` notices."""
    told = f"weak_check notices: with {case} the output"
    if output.shape != right.shape:
        raise Wrong(f"{told} must be {tuple(right.shape)}, got {tuple(output.shape)}.")
    if output.dtype != right.dtype:
        raise Wrong(f"{told} must be {right.dtype}, got {output.dtype}.")
    if torch.allclose(output, right, atol=1e-4):
        return
    gap = float((output - right).abs().max())
    hint = "Be right at exactly these sizes, and wrong at others."
    raise Wrong(f"{told} is off by up to {gap:.3g}. {hint}", _worst_row(output, right, "yours"))


def _random(seed: int, *sizes: tuple[int, ...]) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(size, generator=generator, dtype=torch.float64) for size in sizes]
