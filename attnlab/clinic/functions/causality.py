"""Find out whether a function looks at later tokens, and whether it was meant not to."""

from __future__ import annotations

import re

import torch
from torch import Tensor

from attnlab.clinic._calling import Unusable
from attnlab.clinic._results import Results
from attnlab.clinic.functions.blocking import judge
from attnlab.clinic.functions.calls import GENERAL, Attention, relaxed
from attnlab.clinic.functions.measure import fit_scores, products, weights_of, weights_table

SQUARE = relaxed(GENERAL, "L = S")
NAMED = re.compile(r"causal|autoregress|decoder|look_?ahead|no_peek", re.IGNORECASE)


def meant_causal(name: str, told: bool | None) -> bool:
    """Return whether a name or the caller says that later tokens must not be seen."""
    return bool(NAMED.search(name)) if told is None else told


def examine_causality(attention: Attention, results: Results, name: str) -> bool:
    """Report what the order of tokens does; return whether the function is causal by itself."""
    if attention.takes.causal and attention.options.call is None:
        _judge(attention, results, meant=True, switch=True)
        return False
    meant = meant_causal(name, attention.options.causal) and attention.takes.mask is None
    meant = meant or attention.options.causal is True
    return _judge(attention, results, meant=meant, switch=False)


def _judge(attention: Attention, results: Results, *, meant: bool, switch: bool) -> bool:
    """Report a finding or a property; return whether some keys are never seen."""
    query, key, _ = attention.inputs(attention.main, SQUARE)
    try:
        weights = weights_of(attention, query, key, causal=switch)
        other = weights_of(attention, key, query, causal=switch)
    except Unusable as trouble:
        if switch:
            text = trouble.outcome.trouble or "the result has the wrong shape"
            results.found("raises", f"With {attention.takes.causal}=True it raises {text}.")
        return False
    seen = _seen(weights) | _seen(other)
    raw = products(query, key)
    if bool((weights.amax(dim=-1) > 0.999).all()):  # a hard look-up: no order can be seen
        return False
    if meant and seen.all() and _some_causal(weights):
        sentence = "Some heads or sequences see no later key, and the others do."
        results.found(
            "causal-leak", sentence, weights_table("Weights of the last:", _last(weights))
        )
        return True
    if seen.all():
        return _never_blocked(weights, raw, results, meant=meant)
    return _accuse_pattern(weights, seen, results, meant=meant)


def _seen(weights: Tensor) -> Tensor:
    """Return which keys get a weight from which query, in any sequence; NaN sees nothing."""
    flat = weights.nan_to_num(nan=0.0).reshape(-1, *weights.shape[-2:])
    return (flat.abs() > 1e-9).any(dim=0)


def _some_causal(weights: Tensor) -> bool:
    """Return whether at least one head or sequence sees no later key at all."""
    later = weights.nan_to_num(nan=0.0).reshape(-1, *weights.shape[-2:]).triu(1)
    return bool((later.abs().amax(dim=(-2, -1)) < 1e-9).any())


def _last(weights: Tensor) -> Tensor:
    return weights.reshape(-1, *weights.shape[-2:])[-1:]


def _never_blocked(weights: Tensor, raw: Tensor, results: Results, *, meant: bool) -> bool:
    """Every key is seen: a bug only if it is meant to be causal, or if blocking was tried."""
    below = torch.ones(raw.shape[-2:], dtype=torch.bool).tril()
    inside = fit_scores(weights.masked_fill(~below, 0.0), raw)
    if not meant and (fit_scores(weights, raw).good or not inside.good):
        return False
    verdict = judge(raw * inside.factor if inside.good else raw, weights, below)
    if verdict.name in ("mask-multiplied", "mask-finite", "mask-added", "mask-leak"):
        results.found(verdict.name, _about_later(verdict.sentence), verdict.evidence)
        return True
    if meant:
        later = weights.masked_fill(below, 0).sum(dim=-1).max()
        sentence = (
            "It is meant to be causal, but queries see later keys, which take up to "
            f"{later:.2f} of a query's weight."
        )
        results.found("causal-missing", sentence, weights_table("Weights:", weights))
    return False


def _about_later(sentence: str) -> str:
    return sentence.replace("blocked keys", "later keys").replace("blocked key", "later key")


def _accuse_pattern(weights: Tensor, seen: Tensor, results: Results, *, meant: bool) -> bool:
    """Compare the pattern of keys that are never seen with those that people write."""
    ones = torch.ones_like(seen)
    if torch.equal(seen[1:], ones.tril(-1)[1:]):  # row 0 has no key left, and may hold anything
        seen = ones.tril(-1)
    evidence = weights_table("Weights of the first sequence:", weights)
    later = seen & ones.triu(1)
    if torch.equal(seen, ones.tril()):
        if not _zeroed_afterwards(weights, results):
            results.held("causal", "no query sees a later key (causal)")
    elif torch.equal(seen, ones.tril(1)):
        results.found(
            "causal-off-by-one",
            "Every query sees one key too many: its successor. The diagonal is off by one.",
            evidence,
        )
    elif torch.equal(seen, ones.tril(-1)):
        results.found(
            "causal-off-by-one",
            "No query sees its own key, so query 0 sees nothing: the diagonal is off by one.",
            evidence,
        )
    elif torch.equal(seen, ones.triu()) or torch.equal(seen, ones.triu(1)):
        results.found(
            "causal-flipped",
            "Every query sees only later keys: the causal mask is upside down.",
            evidence,
        )
    elif not later.any() and seen.diagonal().all():
        results.held("causal", "no query sees a later key (causal)")
        results.note("window", "Some earlier keys are never seen either: a window, perhaps.")
    elif meant and later.any():
        example = later.nonzero()[0].tolist()
        results.found(
            "causal-leak",
            f"Some later keys are seen: query {example[0]} sees key {example[1]}.",
            evidence,
        )
    else:
        return False
    return True


def _zeroed_afterwards(weights: Tensor, results: Results) -> bool:
    sums = weights.sum(dim=-1)
    if not sums.isfinite().all() or (sums - 1).abs().max() < 2e-3:
        return False
    if sums[..., -1].sub(1).abs().max() > 2e-3 or sums.max() > 1.01:
        return False  # the last query sees all keys: its row would still sum to 1
    sentence = (
        "The causal mask comes after the softmax: the weights of a query sum to "
        f"{sums.min():.2f} to {sums.max():.2f} instead of 1."
    )
    results.found("mask-after-softmax", sentence, weights_table("Weights:", weights, sums=True))
    return True
