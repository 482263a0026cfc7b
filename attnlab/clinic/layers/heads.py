"""What the heads of a module do: their factor, their softmax, and whether they differ."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import nn

from attnlab.clinic._report import Evidence
from attnlab.clinic._results import Results
from attnlab.clinic.layers.calls import Subject
from attnlab.clinic.layers.influence import influence_table
from attnlab.clinic.layers.parts import CallRecord
from attnlab.clinic.layers.recipe import compute, misfit
from attnlab.clinic.layers.sharing import judge_sharing, judge_slices
from attnlab.clinic.layers.understanding import Found, fitted, understand
from attnlab.clinic.layers.weights import judge_weights, weights_of

AXES = {"queries": (-2, "queries"), "heads": (1, "heads"), "batch": (0, "batch")}


def examine_heads(subject: Subject, pattern: str, results: Results) -> Found | None:
    """Report what is wrong inside the heads; return how the module computes, if understood."""
    scrambled = ("attends-over-heads", "split-and-merge", "position-mixing", "detached")
    if results.has(*scrambled, "split-without-transpose", "merge-without-transpose"):
        return None
    record = CallRecord(subject, subject.x())
    if record.reply is None:
        return None
    found = None
    if not isinstance(subject.module, nn.MultiheadAttention):
        found = understand(record, subject, causal_tries(pattern, results))
        _judge_recipe(found, subject, results)
        _judge_factor(found, record, subject, causal_tries(pattern, results), results)
    judge_weights(record.reply, found, results)
    if not results.findings:
        judge_sharing(record, subject, results)
        judge_slices(subject, results)
    return found


def causal_tries(pattern: str, results: Results) -> tuple[bool, ...]:
    """Return whether to compute it again with a causal mask, without, or both."""
    if pattern == "causal":
        return (True,)
    late = results.has("causal-missing", "causal-leak", "mask-finite")
    return (False, True) if late else (False,)


def blame_softmax(subject: Subject, results: Results) -> None:
    """Where sequences mix: name a softmax over the batch, if it is one."""
    record = CallRecord(subject, subject.x())
    found = None if record.reply is None else understand(record, subject, (False, True))
    if found is not None and found.recipe.softmax == "batch":
        mixing = list(results.findings)
        results.findings.clear()
        _judge_softmax(found, results)
        results.findings.extend(mixing)


def _judge_recipe(found: Found | None, subject: Subject, results: Results) -> None:
    """Name what is wrong beside the factor."""
    if found is None:
        return
    recipe = found.recipe
    if recipe.wrong:
        name = {
            "split": "split-without-transpose",
            "merge": "merge-without-transpose",
            "split merge": "split-and-merge",
        }[recipe.wrong]
        what = {"split": "cut", "merge": "joined", "split merge": "cut and joined"}[recipe.wrong]
        results.found(
            name, f"The {recipe.heads} heads are {what} by a bare view, without a transpose."
        )
    _judge_softmax(found, results)
    stray = {"qqv": "the key", "kkv": "the query", "qkq": "the value", "qkk": "the value"}
    stray |= {"qkx": "the value", "xxv": "the query and the key", "qxv": "the key"}
    stray |= {"xkv": "the query", "vvv": "the query and the key", "qvv": "the key"}
    stray |= {"qqq": "the key and the value", "kkk": "the query and the value"}
    if recipe.sides in stray and isinstance(subject.module, nn.Module):
        results.found(
            "wrong-source",
            f"Its own projection of {stray[recipe.sides]} is not used: the output is exactly what "
            "comes out without it.",
        )
    elif recipe.sides not in ("qkv", *stray):
        results.note(
            "roles",
            "Its projections play other parts than their names say (trained, that makes no "
            "difference).",
        )
    _judge_filling(found, results)


def _judge_softmax(found: Found, results: Results) -> None:
    kind = found.recipe.softmax
    if kind != "keys" and found.recipe.causal:
        results.findings[:] = [one for one in results.findings if not one.name.startswith("causal")]
    evidence = weights_of(found)
    sums = None if evidence is None else evidence.sum(dim=-1)
    span = "" if sums is None else f"{sums.min().item():.2g} to {sums.max().item():.2g}"
    shown = (
        None
        if evidence is None
        else influence_table(
            "Weights of the first head, one row for each query:", evidence[0, 0], "query", "key"
        )
    )
    if kind in AXES:
        axis, words = AXES[kind]
        results.found(
            "softmax-axis",
            f"The softmax runs over the {words} (dimension {axis}): the weights of a query sum to "
            f"{span} instead of 1.",
            shown,
        )
    elif kind == "hard":
        results.found("hard", "Each query takes the one key with the largest score.", shown)
    elif kind in ("all", "none", "sigmoid", "after"):
        how = {
            "all": "one softmax runs over all queries and keys together",
            "none": "there is no softmax, the scores themselves are the weights",
            "sigmoid": "a sigmoid takes the place of the softmax",
            "after": "the factor is applied after the softmax instead of before",
        }[kind]
        results.found(
            "not-normalised", f"The weights of a query sum to {span} instead of 1: {how}.", shown
        )


def _judge_filling(found: Found, results: Results) -> None:
    filling = found.recipe.filling
    if filling == "block":
        return
    names = {
        "added": ("mask-added", "The causal mask is added to the scores as 0 and 1"),
        "multiplied": ("mask-multiplied", "The scores are multiplied by the causal mask"),
        "0": ("mask-multiplied", "Blocked scores are set to 0, which the softmax turns into e^0"),
        "after": (
            "mask-after-softmax",
            "The causal mask is applied after the softmax: the rows do not sum to 1",
        ),
    }
    other = ("mask-finite", f"Blocked scores are filled with {filling}, which leaks")
    name, words = names.get(filling, other)
    weights = weights_of(found)
    table = (
        None
        if weights is None
        else influence_table(
            "Weights of the first head; above the diagonal are later tokens:",
            weights[0, 0],
            "query",
            "key",
        )
    )
    late = ("causal-missing", "causal-leak", "mask-finite")
    results.findings[:] = [one for one in results.findings if one.name not in late]
    results.found(name, f"{words}, and later tokens reach earlier outputs.", table)


def _judge_factor(
    found: Found | None,
    record: CallRecord,
    subject: Subject,
    causal: tuple[bool, ...],
    results: Results,
) -> None:
    if found is None:
        found = fitted(record, subject, causal)
    if found is None:
        results.unexamined(
            "Its own steps could not be followed: the factor of the scores was not checked."
        )
        return
    flow, recipe = found.flow, found.recipe
    head_dim = flow.query.shape[-1] // recipe.heads
    if not found.name and recipe.softmax in ("keys", "queries", "heads", "batch", "all"):
        results.held(
            "scale", f"its scores are multiplied by 1/sqrt(head_dim), head_dim = {head_dim}"
        )
        return
    if not found.name or recipe.softmax in ("hard", "none", "after"):
        return
    if _learned_factor(subject):
        results.note("scale", "The factor of its scores is a parameter.")
        return
    right = replace(recipe, scale=head_dim**-0.5)
    rows = [(found.words, recipe.scale), ("1/sqrt(head_dim)", right.scale)]
    apart = [misfit(flow, compute(flow, replace(recipe, scale=value))) for _, value in rows]
    evidence = Evidence(
        "Distance between its output and softmax(factor * q k^T) v, for each factor:",
        torch.tensor([[value, far] for (_, value), far in zip(rows, apart, strict=True)]),
        tuple(words for words, _ in rows),
        ("factor", "distance"),
    )
    results.found(
        found.name,
        f"Its scores are multiplied by {recipe.scale:.4g} ({found.words}); with head_dim = "
        f"{head_dim} it should be 1/sqrt({head_dim}) = {right.scale:.4g}.",
        evidence,
    )


def _learned_factor(subject: Subject) -> bool:
    """Return whether a parameter could be the factor: one number, or one for each head."""
    sizes = (1, subject.sizes.heads or 1)
    return (
        any(p.numel() in sizes for p in subject.module.parameters())
        if isinstance(subject.module, nn.Module)
        else False
    )
