"""Probes of the axis that the softmax runs over: the weights of every query sum to 1."""

from __future__ import annotations

import torch
from torch import Tensor

from attnlab.clinic._calling import Unusable
from attnlab.clinic._results import Results
from attnlab.clinic.functions.calls import Attention
from attnlab.clinic.functions.measure import (
    SURE,
    close,
    fit_scores,
    products,
    weights_of,
    weights_table,
)

AXES = {
    2: {-2: "queries"},
    3: {-2: "queries", 0: "sequences of the batch"},
    4: {-2: "queries", 1: "heads", 0: "sequences of the batch"},
}


def examine_axis(attention: Attention, results: Results, ndim: int) -> bool:
    """Find out whether the weights of every query sum to 1; return whether they do."""
    try:
        query, key, _ = attention.inputs(ndim)
        weights = weights_of(attention, query, key)
    except Unusable:
        return False
    if _keys_unseen(weights, results):
        return False
    if _sums_to_one(weights, -1) and float(weights.min()) > -SURE:
        results.held(
            "sums", "without a mask, the weights of every query are nonnegative and sum to 1"
        )
        return True
    for axis, name in AXES[ndim].items():
        if _sums_to_one(weights, axis):
            if axis == -2 and _turned(weights, query, key, results):
                return False
            _accuse_axis(weights, axis, name, ndim, results)
            return False
    if ndim == attention.main:
        _accuse_sums(weights, query, key, results)
    return False


def _keys_unseen(weights: Tensor, results: Results) -> bool:
    """Say so if exactly the keys beyond the number of queries are never looked at."""
    L, S = weights.shape[-2:]
    seen = weights.abs().reshape(-1, S).amax(dim=0) > 1e-9
    if results.holds("causal") or _one_hot(weights):
        return False
    inside = bool((weights[..., :L].abs() > 1e-9).all())
    if L >= S or not inside or not torch.equal(seen, torch.arange(S) < L):
        return _one_unseen(weights, seen, results)
    sentence = (
        f"With {L} queries and {S} keys, no query ever sees key {S - 1}: the number of keys is "
        "taken to be the number of queries."
    )
    results.found("square-only", sentence, weights_table("Weights:", weights))
    return True


def _one_hot(weights: Tensor) -> bool:
    return bool((weights.amax(dim=-1) > 1 - SURE).all())


def _one_unseen(weights: Tensor, seen: Tensor, results: Results) -> bool:
    """Say so if one key is never looked at, in no sequence and by no query; note other holes."""
    inside = weights[..., seen]
    if not seen.all() and bool((inside.abs() > 1e-9).all()):
        key = int((~seen).nonzero()[0])
        sentence = f"No query ever looks at key {key} of {len(seen)}: it is lost on the way."
        results.found("wrong-source", sentence, weights_table("Weights:", weights))
        return True
    holes = (weights.abs().reshape(-1, *weights.shape[-2:]) < 1e-9).all(dim=0)
    if holes.any():
        i, j = holes.nonzero()[0].tolist()
        results.note(
            "window", f"Some keys are never seen by some queries, such as key {j} by query {i}."
        )
    return False


def _sums_to_one(weights: Tensor, axis: int) -> bool:
    sums = weights.sum(dim=axis)
    return close(sums, torch.ones_like(sums), 2e-3)


def _turned(weights: Tensor, query: Tensor, key: Tensor, results: Results) -> bool:
    """Say so if the softmax is right and its result is transposed before it meets the values."""
    if weights.shape[-1] != weights.shape[-2]:
        return False
    used = weights.transpose(-2, -1)
    if not fit_scores(used, products(query, key)).good:
        return False
    sentence = (
        "The weights are transposed before they meet the values: row i of the output uses the "
        "weights that every query gives to key i."
    )
    results.found("position-mixing", sentence, weights_table("Weights used:", weights, sums=True))
    return True


def _accuse_axis(weights: Tensor, axis: int, name: str, ndim: int, results: Results) -> None:
    sums = weights.sum(dim=-1)
    shape = {2: "(L, E)", 3: "(N, L, E)", 4: "(N, H, L, E)"}[ndim]
    sentence = (
        f"The softmax runs over the {name} (dimension {axis} of the scores for {shape}), not over "
        f"the keys: the weights of a query sum to {sums.min():.2f} to {sums.max():.2f} "
        "instead of 1."
    )
    evidence = weights_table("Weights of the first sequence:", weights, sums=True)
    results.found("softmax-axis", sentence, evidence)


def _accuse_sums(weights: Tensor, query: Tensor, key: Tensor, results: Results) -> None:
    sums, scores = weights.sum(dim=-1), products(query, key)
    evidence = weights_table("Weights of the first sequence:", weights, sums=True)
    everything = float(weights.sum())
    if abs(everything - 1) < SURE or _sums_to_one(weights.flatten(-2), -1):
        where = "all scores at once" if abs(everything - 1) < SURE else "the whole table of scores"
        sentence = f"The softmax runs over {where}: the weights of a query sum to {sums.max():.2f}."
        results.found("softmax-axis", sentence, evidence)
        return
    if close(sums, sums.mean().expand_as(sums)):
        root = query.shape[-1] ** -0.5
        why = ": softmax came first and the division after it"
        why = why if abs(float(sums.mean()) - root) < SURE else ""
        sentence = f"The weights of every query sum to {sums.mean():.3f} instead of 1{why}."
    elif _proportional(weights, scores):
        sentence = (
            "The raw scores are used as weights, without a softmax: the weights of a query sum to "
            f"{sums.min():.2f} to {sums.max():.2f}."
        )
    elif _proportional((weights / (1 - weights)).log(), scores):
        sentence = (
            "Each weight is a sigmoid of its own score, so the keys do not compete: the weights of "
            f"a query sum to {sums.min():.2f} to {sums.max():.2f}."
        )
    else:
        sentence = (
            f"The weights of a query sum to {sums.min():.2f} to {sums.max():.2f} instead of 1."
        )
    results.found("not-normalised", sentence, evidence)


def _proportional(one: Tensor, other: Tensor) -> bool:
    if not one.isfinite().all():
        return False
    factor = (one * other).sum() / (other * other).sum()
    return close(one, factor * other, 0.01)
