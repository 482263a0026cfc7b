"""What weights tell about the softmax that made them from known scores."""

from __future__ import annotations

import math
from itertools import combinations

import torch
from torch import Tensor

from attnlab.clinic._report import Evidence
from attnlab.clinic.pieces.behaviour import same, shape

Verdict = tuple[str, str, Evidence | None]
AXES = ("batch", "heads", "queries", "keys")
SURE = 1e-4  # by how much a row may miss the sum of 1


def axis_name(dim: int, ndim: int) -> str:
    """Return what a dimension of scores holds, such as ``"the queries"``."""
    names = {1: AXES[3:], 2: AXES[2:], 3: (AXES[0], *AXES[2:]), 4: AXES}[ndim]
    return f"the {names[dim]}"


def judge(out: Tensor, x: Tensor) -> Verdict | None:
    """Return what is wrong with weights made from scores without a mask.

    Parameters
    ----------
    out : Tensor of float64
        What came back.
    x : Tensor of float64, shape (..., L, S)
        The scores.

    Returns
    -------
    (name, sentence, Evidence or None) or None
        None if they are the softmax over the last dimension.
    """
    if out.shape != x.shape:
        return "wrong-shape", f"scores of shape {shape(x)} give shape {shape(out)}", None
    if same(out, x.softmax(-1)):
        return None
    if not out.isfinite().all():
        return "nan", "ordinary scores give NaN or infinity", _weights(out)
    wrong = _wrong_axis(out, x)
    if wrong is not None:
        return wrong
    if same(out, x.log_softmax(-1)):
        return "not-normalised", "it returns the logarithms of the weights", _weights(out)
    top = torch.nn.functional.one_hot(x.argmax(-1), x.shape[-1]).double()
    if same(out, top):
        return "hard", "only the largest score of every row gets a weight: it is 1", _weights(out)
    sums = out.sum(-1)
    if ((sums - 1).abs() > SURE).any():
        return _not_normalised(out, x)
    return _other_numbers(out, x)


def _wrong_axis(out: Tensor, x: Tensor) -> Verdict | None:
    """Return a verdict if the weights are a softmax over something else."""
    places = range(-x.ndim, 0)
    groups = [dims for size in range(1, x.ndim + 1) for dims in combinations(places, size)]
    for dims in groups:
        other = (x - x.amax(dims, keepdim=True)).exp()
        if not same(out, other / other.sum(dims, keepdim=True)):
            continue
        sums = out.sum(-1)
        rows = f"the weights of a query sum to {sums.min().item():.3g} to {sums.max().item():.3g}"
        if len(dims) == 1:
            where = f"{axis_name(dims[0], x.ndim)} (dimension {dims[0]})"
            rest = ", those of a key to 1" if dims[0] == -2 else ""
            return "softmax-axis", f"the softmax runs over {where}: {rows}{rest}", _weights(out)
        many = " and ".join(axis_name(dim, x.ndim) for dim in dims)
        many = "all scores" if len(dims) == x.ndim else many
        words = f"the softmax runs over {many} together: {rows}"
        return "softmax-axis", words, _weights(out)
    return None


def _not_normalised(out: Tensor, x: Tensor) -> Verdict:
    sums = out.sum(-1)
    words = f"the weights of a query sum to {sums.min().item():.4g} to {sums.max().item():.4g}"
    if same(out, x.exp(), atol=1e-4) or same(out, (x - x.amax(-1, keepdim=True)).exp()):
        words += ": nothing divides the exponentials"
    elif same(out, x.sigmoid()):
        words += ": it is a sigmoid of every score by itself"
    elif same(out, x):
        words += ": it returns the scores themselves"
    elif _constant(out / x.exp()):
        missing = 1 / sums - 1
        words += ": the exponentials are divided by something else than their own sum"
        if (missing > 0).all() and missing.max() < 0.5:
            words += ", e.g. by the sum plus a constant"
    return "not-normalised", words, _weights(out)


def _other_numbers(out: Tensor, x: Tensor) -> Verdict:
    """Return a verdict on rows that sum to 1 but are not the softmax of their scores."""
    centred = x - x.mean(-1, keepdim=True)
    if (out > 0).all():
        logs = out.log()
        logs = logs - logs.mean(-1, keepdim=True)
        slope = ((logs * centred).sum() / (centred * centred).sum()).item()
        if same(logs, slope * centred, atol=1e-3):
            length = math.isclose(slope, x.shape[-1] ** -0.5, rel_tol=1e-3)
            name = "scale-length" if length else "scale-other"
            words = f"the scores are multiplied by {slope:.4g} before the softmax"
            return name, words, _weights(out)
    if same(out.sort(-1).values, x.softmax(-1).sort(-1).values):
        words = "the weights of a query are right and at the wrong keys"
        return "position-mixing", words, _weights(out)
    high, low = x.flatten(0, -2)[0].topk(2).values.tolist() if x.shape[-1] > 1 else (0.0, 0.0)
    first, second = out.flatten(0, -2)[0][x.flatten(0, -2)[0].topk(2).indices].tolist()
    words = (
        f"the rows sum to 1 and are not the softmax: scores {high:.3g} and {low:.3g} should give "
        f"weights in the ratio {math.exp(high - low):.3g}, and give {first:.3g} and {second:.3g}"
    )
    return "not-normalised", words, _weights(out)


def judge_masked(
    out: Tensor, x: Tensor, allowed: Tensor, *, by_length: bool = False
) -> Verdict | None:
    """Return what is wrong with weights made with a mask.

    Parameters
    ----------
    out, x : Tensor of float64, shape (..., L, S)
        Weights and scores.
    allowed : Tensor of bool, same shape
        What the mask was meant to allow.
    by_length : bool
        Whether it was said by the lengths of the sequences.

    Returns
    -------
    (name, sentence, Evidence or None) or None
        None if blocked keys get nothing and the others share 1.
    """
    filled = x.masked_fill(~allowed, -torch.inf)
    plain, evidence = x.softmax(-1), _weights(out, allowed)
    if same(out, filled.softmax(-1)):
        return None
    if same(out, plain):
        return "mask-ignored", "the mask changes nothing", evidence
    if same(out, x.masked_fill(allowed, -torch.inf).softmax(-1)):
        words = "the keys that the mask allows get the weight 0: it reads True as blocked"
        return "mask-inverted", words, evidence
    if same(out, plain * allowed) or same(out, plain * ~allowed):
        name = "mask-after-softmax" if same(out, plain * allowed) else "mask-inverted"
        low, high = out.sum(-1).min().item(), out.sum(-1).max().item()
        words = f"the mask comes after the softmax: the rows sum to {low:.3g} to {high:.3g}"
        return name, words, evidence
    if not out.isfinite().all():
        return "nan", "a mask with allowed keys in every row gives NaN", evidence
    if by_length and (wrong := _by_length(out, x, allowed)) is not None:
        return wrong
    leak = _leak(out, x, allowed, evidence)
    if leak is not None:
        return leak
    turned = _leak(out, x, ~allowed, evidence)
    if turned is not None:
        words = f"True is read as blocked, and moreover {turned[1]}"
        return "mask-inverted", words, evidence
    wrong = _wrong_axis(out, filled) or _wrong_axis(out, x.masked_fill(~allowed, -1e9))
    if wrong is not None:
        return wrong
    sums = out.sum(-1)
    if ((sums - 1).abs() > SURE).any():
        words = f"the weights of a query sum to {sums.min().item():.4g} to {sums.max().item():.4g}"
        return "not-normalised", words, evidence
    share = (out * ~allowed).sum(-1).max().item()
    return "mask-leak", f"blocked keys keep up to {share:.3g} of a row", evidence


def _by_length(out: Tensor, x: Tensor, allowed: Tensor) -> Verdict | None:
    lengths = allowed.sum(-1, keepdim=True)
    place = torch.arange(x.shape[-1])
    for step in (-1, 1):
        if same(out, x.masked_fill(place >= lengths + step, -torch.inf).softmax(-1), atol=1e-4):
            words = f"{lengths.flatten()[0].item()} real keys are read as "
            words += f"{lengths.flatten()[0].item() + step}"
            return "length-off-by-one", words, _weights(out, allowed)
    return None


def _leak(out: Tensor, x: Tensor, allowed: Tensor, evidence: Evidence) -> Verdict | None:
    """Return a verdict if blocked scores were given a finite number, or one was added to them."""
    if (out <= 0).any():
        return None
    shift = torch.where(allowed, out.log() - x, torch.nan).nanmean(-1, keepdim=True)
    if not same((out.log() - x)[allowed], shift.expand_as(x)[allowed], atol=1e-4):
        return None
    filled = (out.log() - shift)[~allowed]  # the scores that the blocked keys seem to have
    added = filled - x[~allowed]
    share = f"blocked keys keep up to {(out * ~allowed).sum(-1).max().item():.3g} of a row"
    if _flat(filled):
        value = filled.mean().item()
        if abs(value) < 1e-12:
            words = f"blocked scores become 0, a score like any other, and {share}"
            return "mask-multiplied", words, evidence
        return "mask-finite", f"blocked scores are set to {value:.3g}, and {share}", evidence
    if _flat(added):
        value = added.mean().item()
        if abs(abs(value) - 1) < 1e-4:
            words = (
                f"the mask is added as 0 and 1: it moves scores by {abs(value):.3g}, and {share}"
            )
            return "mask-added", words, evidence
        words = f"blocked scores are changed by {value:.3g} only, and {share}"
        return "mask-finite", words, evidence
    return None


def _flat(values: Tensor) -> bool:
    return bool(values.max() - values.min() < 1e-4)


def _constant(ratio: Tensor) -> bool:
    return same(ratio, ratio[..., :1].expand_as(ratio), atol=1e-4)


def _weights(out: Tensor, allowed: Tensor | None = None) -> Evidence:
    """Return the weights of the first sequence and head, with the sum of every row."""
    matrix = out.reshape(-1, *out.shape[-2:])[0] if out.ndim > 1 else out[None]
    shown = matrix[:7, :6]
    sums = matrix.sum(-1)[:7, None]
    rows = tuple(f"query {i}" for i in range(len(shown)))
    columns = tuple(f"key {j}" for j in range(shown.shape[1]))
    if allowed is not None:
        first = allowed.expand(out.shape).reshape(-1, *out.shape[-2:])[0]
        stars = [", ".join(map(str, (~row).nonzero().flatten().tolist())) for row in first[:7]]
        rows = tuple(f"{name} (blocked: {keys})" for name, keys in zip(rows, stars, strict=True))
    caption = "Weights of the first sequence and head:"
    return Evidence(caption, torch.cat([shown, sums], -1), rows, (*columns, "sum"), shaded=True)
