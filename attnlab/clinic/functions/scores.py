"""Probes of what an attention function compares: query and key, by dot products or otherwise."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from attnlab.clinic._calling import Unusable
from attnlab.clinic._results import Results
from attnlab.clinic.functions.calls import GENERAL, Attention, relaxed
from attnlab.clinic.functions.measure import (
    SURE,
    close,
    fit_scores,
    number_table,
    products,
    weights_of,
    weights_table,
)
from attnlab.clinic.functions.neighbours import rows_exchanged

SQUARE = relaxed(GENERAL, "L = S and Ev = E")


def examine_scores(attention: Attention, results: Results) -> float | None:
    """Find out whether scores are dot products of query and key; return their factor if so."""
    query, key, value = attention.inputs(attention.main)
    weights = weights_of(attention, query, key)
    fit = fit_scores(weights, products(query, key))
    if fit.good and not _bends(attention, results):
        results.held("products", "scores are dot products of query and key times one factor")
        return fit.factor
    if results.has("scores-not-dot-products"):
        return None
    if bool((weights.amax(dim=-1) > 1 - SURE).all()):
        _accuse_hard(weights, products(query, key), results)
        return None
    if close(weights, torch.full_like(weights, 1 / weights.shape[-1])):
        sentence = "Every key gets the same weight, whatever query and key are."
        results.found("wrong-source", sentence, weights_table("Weights:", weights))
        return None
    sizes = attention.sizes(SQUARE)
    try:
        query, key, value = attention.inputs(attention.main, sizes)
        weights = weights_of(attention, query, key, source=value)
    except Unusable:
        pass
    _accuse_scores(attention, fits(weights, query, key, value), results)
    return None


def _bends(attention: Attention, results: Results) -> bool:
    """Say so if large scores follow the dot products no more."""
    query, key, _ = attention.inputs(attention.main, spread=20.0)
    fit = fit_scores(weights_of(attention, query, key), products(query, key))
    if fit.good:
        return False
    sentence = (
        "Small scores are scaled dot products of query and key, and large ones are not: something "
        "limits them."
    )
    evidence = number_table("Misfit:", {"large scores": [min(fit.residual, 9.0)]}, ("misfit",))
    results.found("scores-not-dot-products", sentence, evidence)
    return True


def _accuse_hard(weights: Tensor, scores: Tensor, results: Results) -> None:
    right = bool((weights.argmax(dim=-1) == scores.argmax(dim=-1)).all())
    whom = "the key of the largest score" if right else "one key"
    sentence = f"Every query takes {whom} and nothing else: a hard look-up, not a softmax."
    results.found("hard", sentence, weights_table("Weights:", weights))


def fits(weights: Tensor, query: Tensor, key: Tensor, value: Tensor) -> dict[str, float]:
    """Return for each thing that scores may be made of how badly it explains the weights."""
    unit = {"query": F.normalize(query.double(), dim=-1), "key": F.normalize(key.double(), dim=-1)}
    scores = {
        "query with key": products(query, key),
        "query with key by cosine": unit["query"] @ unit["key"].transpose(-2, -1),
        "query with key by distance": -torch.cdist(query.double(), key.double()),
        "query with key by squared distance": -torch.cdist(query.double(), key.double()).square(),
        "query with key, without signs": products(query, key).abs(),
    }
    pairs = {"query": query, "key": key, "value": value}
    for one, left in pairs.items():
        for other, right in pairs.items():
            if left.shape[-1] == right.shape[-1]:
                scores.setdefault(f"{one} with {other}", products(left, right))
    return {
        name: fit_scores(weights, table).residual
        for name, table in scores.items()
        if table.shape == weights.shape
    }


def _accuse_scores(attention: Attention, misfits: dict[str, float], results: Results) -> None:
    best = min(misfits, key=misfits.get)
    worst = misfits["query with key"]
    rows = {name: [min(misfit, 9.0)] for name, misfit in misfits.items()}
    evidence = number_table("How badly these scores explain the weights:", rows, ("misfit",))
    if misfits[best] > 0.01 and rows_exchanged(attention, results):
        return
    if misfits[best] > 0.01:
        sentence = (
            "The weights are no softmax of scaled dot products of query and key: these explain "
            f"their logarithms only up to a misfit of {min(worst, 9.0):.2f}."
        )
        results.found("scores-not-dot-products", sentence, evidence)
    elif best == "key with query":
        sentence = (
            "Query and key are exchanged: row i of the scores belongs to key i. With as many "
            "queries as keys nothing but the numbers shows it."
        )
        results.found("query-key-swapped", sentence, evidence)
    elif "," in best or " by " in best:
        results.found(
            "scores-not-dot-products", f"The scores compare {best}, not by dot product.", evidence
        )
    else:
        results.found("wrong-source", f"The scores compare {best}, not query with key.", evidence)
