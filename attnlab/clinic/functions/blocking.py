"""Tell from weights with and without a mask what was done to the keys that it blocks."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from attnlab.clinic._report import Evidence
from attnlab.clinic.functions.measure import SURE, close, weights_table

QUERIES = (
    "The mask blocks queries instead of keys: the rows of padded tokens are emptied, and every "
    "other row still looks at the padding."
)


class Verdict(NamedTuple):
    """What was done: the name of a finding (None if it is right), and how it shows."""

    name: str | None
    sentence: str = ""
    evidence: Evidence | None = None


def judge(scores: Tensor, weights: Tensor, allowed: Tensor, *, per_key: bool = False) -> Verdict:
    """Say what a mask did to weights.

    Parameters
    ----------
    scores : Tensor, shape (..., L, S)
        Before the mask, with the factor that the function uses.
    weights : Tensor, shape (..., L, S)
        With the mask.
    allowed : Tensor of bool, shape (..., L, S)
        True where query i may attend to key j; at least one in each row.
    per_key : bool
        Whether the mask names padded tokens: the same keys are blocked for every query.

    Returns
    -------
    Verdict
        Its sentence has numbers from these tensors.

    See Also
    --------
    attnlab.attention_weights : what is right.
    """
    plain = scores.softmax(dim=-1)
    known = [
        (None, _only(scores, allowed)),
        ("mask-ignored", plain),
        ("mask-inverted", _only(scores, ~allowed)),
        ("mask-after-softmax", plain * allowed),
        ("mask-after-softmax", plain * ~allowed),
        ("mask-multiplied", (scores * allowed).softmax(dim=-1)),
        ("mask-multiplied", (scores * ~allowed).softmax(dim=-1)),
        ("mask-added", (scores + allowed).softmax(dim=-1)),
        ("mask-added", (scores + ~allowed).softmax(dim=-1)),
    ]
    if scores.shape[-1] == scores.shape[-2]:
        name = "mask-queries" if per_key else "mask-transposed"
        known.append((name, _only(scores, allowed.transpose(-2, -1))))
    for name, expected in known:
        if _same(weights, expected):
            return Verdict(name, *_words(name, weights, allowed)) if name else Verdict(None)
    return _unknown(scores, weights, allowed)


def _only(scores: Tensor, allowed: Tensor) -> Tensor:
    return scores.masked_fill(~allowed, -torch.inf).softmax(dim=-1)


def _same(weights: Tensor, expected: Tensor) -> bool:
    """Compare where ``expected`` is a number: a row without an allowed key may hold anything."""
    known = expected.isfinite().all(dim=-1, keepdim=True).expand_as(expected)
    if not known.any():
        return False
    return close(torch.where(known, weights, 0), torch.where(known, expected, 0))


def _span(values: Tensor) -> str:
    """Return from where to where numbers go; one number if they are all the same."""
    low, high = f"{values.min():.2f}", f"{values.max():.2f}"
    return high if low == high else f"{low} to {high}"


def _words(name: str, weights: Tensor, allowed: Tensor) -> tuple[str, Evidence]:
    blocked = weights.masked_fill(allowed, 0).sum(dim=-1)
    taken = f"{_span(blocked)} of a query's weight"
    sums = weights.sum(dim=-1)
    sentence = {
        "mask-ignored": f"The mask changes nothing: blocked keys still take {taken}.",
        "mask-inverted": (
            f"The mask is read the other way round: blocked keys take {taken}. True means "
            "“may attend” here and in F.scaled_dot_product_attention, and “blocked” in "
            "nn.MultiheadAttention."
        ),
        "mask-after-softmax": (
            "The mask comes after the softmax: the weights of a query sum to "
            f"{sums.min():.2f} to {sums.max():.2f} instead of 1."
        ),
        "mask-multiplied": (
            "The score of a blocked key becomes 0, or a number next to it, and e to the 0 is 1: "
            f"blocked keys still take {taken}."
        ),
        "mask-added": (
            "The mask is added to the scores as 0 and 1, which moves a score by 1 and blocks "
            f"nothing: blocked keys still take {taken}."
        ),
        "mask-queries": QUERIES,
        "mask-transposed": (
            "The mask is used transposed: the entry for query j and key i decides about query i "
            f"and key j, so blocked keys take {taken}."
        ),
    }[name]
    return sentence, table(weights, allowed)


def table(weights: Tensor, allowed: Tensor) -> Evidence:
    """Return the weights of the first sequence, and what blocked keys take of each row."""
    evidence = weights_table("Weights of the first sequence, with the mask:", weights)
    first = allowed.expand_as(weights).reshape(-1, *weights.shape[-2:])[0]
    values = evidence.values
    leaked = values.masked_fill(first, 0).sum(dim=-1, keepdim=True)
    marked = [
        f"{name} ({''.join('x' if not may else '.' for may in row)})"
        for name, row in zip(evidence.rows, first.tolist(), strict=True)
    ]
    return Evidence(
        "Weights of the first sequence; x marks a blocked key:",
        torch.cat([values, leaked], dim=-1),
        tuple(marked),
        (*evidence.columns, "on blocked"),
        shaded=True,
    )


def _unknown(scores: Tensor, weights: Tensor, allowed: Tensor) -> Verdict:
    """Say what the scores of blocked keys have become."""
    blocked = weights.masked_fill(allowed, 0).sum(dim=-1)
    if not weights.isfinite().all():
        holes = int((~weights.isfinite()).any(dim=-1).sum())
        sentence = f"With a mask that leaves every query a key, {holes} rows of weights hold NaN."
        return Verdict("nan", sentence, table(weights, allowed))
    if blocked.max() < SURE:
        return _lost(scores, weights, allowed)
    rows = _query_rows(scores, weights, allowed)
    if rows is not None:
        return rows
    implied = _implied(scores, weights, allowed)
    for what, moved in (("set to", implied), ("moved by", implied - scores)):
        at = moved[~allowed.expand_as(moved) & (weights > 1e-9)]
        value = float(at.mean()) if at.numel() > 1 else 0.0
        same = at.numel() > 1 and float((at - value).abs().max()) < 0.02 * max(1.0, abs(value))
        if same and abs(value) > 0.02:
            sentence = (
                f"The scores of blocked keys are {what} {value:.3g} instead of minus infinity: "
                f"blocked keys still take up to {blocked.max():.3g} of a query's weight."
            )
            return Verdict("mask-finite", sentence, table(weights, allowed))
    sentence = f"Blocked keys still take up to {blocked.max():.2f} of a query's weight."
    return Verdict("mask-leak", sentence, table(weights, allowed))


def _lost(scores: Tensor, weights: Tensor, allowed: Tensor) -> Verdict:
    """Nothing leaks and yet the weights are not right: allowed keys are lost or unequal."""
    sums = weights.sum(dim=-1)
    if not close(sums, torch.ones_like(sums), 2e-3):
        name = "mask-after-softmax"
        sentence = (
            "Blocked keys get nothing, but the weights of a query sum to "
            f"{sums.min():.2f} to {sums.max():.2f} instead of 1."
        )
        return Verdict(name, sentence, table(weights, allowed))
    lost = float(_only(scores, allowed).masked_fill(weights > 1e-9, 0).sum(dim=-1).max())
    sentence = (
        "Blocked keys get nothing, but allowed keys lose weight too: up to "
        f"{lost:.2f} of a query's weight."
    )
    return Verdict("mask-leak", sentence, table(weights, allowed))


def _query_rows(scores: Tensor, weights: Tensor, allowed: Tensor) -> Verdict | None:
    """Say so if rows of some queries are untouched by the mask and the others are flattened."""
    plain = scores.softmax(dim=-1)
    untouched = ((weights - plain).abs() < SURE).all(dim=-1)
    if not untouched.any() or untouched.all():
        return None
    rest = weights[~untouched]
    flat = (rest - rest.mean(dim=-1, keepdim=True)).abs().max() < SURE
    if not flat:
        return None
    return Verdict("mask-queries", QUERIES, table(weights, allowed))


def _implied(scores: Tensor, weights: Tensor, allowed: Tensor) -> Tensor:
    """Return the scores that would give these weights, level with ``scores`` at allowed keys."""
    logs = weights.clamp_min(1e-300).log()
    anchor = weights.masked_fill(~allowed, -1).argmax(dim=-1, keepdim=True)
    return logs - logs.gather(-1, anchor) + scores.gather(-1, anchor)
