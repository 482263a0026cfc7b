"""What the attention of a layer does: its factor, its softmax, what it hides by itself."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor

from attnlab.clinic._hints import text_of
from attnlab.clinic._results import Results
from attnlab.clinic.hypotheses import (
    CAUSAL,
    ONE_BEHIND,
    RIGHT_SCALE,
    SCALES,
    SOFTMAXES,
    Recipe,
    Sample,
    Way,
    explain,
    measured_masking,
    report,
)
from attnlab.clinic.layers.anatomy import AXES, Heads, attentions
from attnlab.clinic.layers.calls import Subject
from attnlab.clinic.layers.rows import examine_rows
from attnlab.clinic.layers.sharing import examine_sharing, examine_sources
from attnlab.clinic.layers.weights import examine_weights

KINDS = dict(  # the ways of a softmax by the kinds of a Law
    zip(
        ("keys", "queries", "heads", "batch", "all", "", "none", "sigmoid", "exponentials"),
        SOFTMAXES,
        strict=False,
    )
)
UNSCALED = re.compile(  # what the text of a layer says that has no factor by design
    r"\bt5|no scal|un-?scaled|not (be )?scaled|without (the )?scal|(n't|not) scale", re.IGNORECASE
)
SAME = 1e-6  # relative: how well a law of the scale must fit


def examine_heads(
    subject: Subject, found: list[Heads], results: Results
) -> tuple[Heads, Recipe] | None:
    """Report what is wrong between the two products; return how it computes, if that is known."""
    if not found:
        results.unexamined(
            "No product of queries with keys was seen that leads to a weighted average of the "
            "values: its scale and its softmax could not be checked.",
            remedy="Call diagnose on the part of it that computes the attention.",
        )
        return None
    examine_sources(found, results)
    if results.findings:
        return None
    first = None
    for heads in found:
        recipe = explained(heads, results)
        if recipe is not None and first is None:
            first = heads, recipe
        if results.findings:
            break
    if not results.findings:
        examine_rows(found, results)
    if not results.findings:
        examine_weights(found, results)
        examine_sharing(found, results)
    if not results.findings and not results.gap:
        dims = sorted({heads.head_dim for heads in found})
        told = f"head_dim = {', '.join(map(str, dims))}"
        if usually_scaled(found):
            results.held("scale", f"its scores are multiplied by 1/sqrt(head_dim), {told}")
        results.held("softmax", "the softmax runs over the keys: each query's weights sum to 1")
    return first


def usually_scaled(found: list[Heads]) -> bool:
    """Return whether every attention of a layer has the usual factor."""
    return all(math.isclose(one.factor, one.head_dim**-0.5, rel_tol=1e-4) for one in found)


def explained(heads: Heads, results: Results) -> Recipe | None:
    """Report the slips of one attention, and return its recipe."""
    law, sample = heads.law, heads.sample()
    if sample is not None and _earlier_only(heads.weights_of_zeros):
        recipe = Recipe(order=ONE_BEHIND)
        report(recipe, [sample], results, weights=sample.output.double())
        return recipe
    if sample is None or law.kind == "other":
        _tell_unknown(heads, sample, results)
        return None
    if law.bent:
        results.note("scores", "Its scores pass through another function before the softmax.")
    start = Recipe(scale=_scale(heads, sample, results))
    if law.kind == "after":
        start = Recipe()
    recipe = explain([sample], start, ("softmax", "order", "hiding"))
    if recipe is None and (law.kind in ("keys", "some keys")) and not law.bent:
        recipe = _with_biases(heads, sample, start, results)
    elif recipe is None and law.kind in KINDS:
        recipe = replace(start, softmax=KINDS[law.kind])
    elif recipe is None and not law.bent:
        _tell_unknown(heads, sample, results)
    made = sample.output.double()
    report(recipe or start, [sample], results, weights=made)
    return recipe or start


def _with_biases(heads: Heads, sample: Sample, start: Recipe, results: Results) -> Recipe:
    """Say what is added to the scores: positions, or a mask whose numbers no table holds."""
    weights, none = sample.output.double(), heads.weights_of_zeros
    allowed = torch.ones_like(weights, dtype=torch.bool).tril()
    if _two_levels(none, allowed):
        way = measured_masking(start.scores(sample), weights, allowed)
        if way.cause in ("mask-finite", "mask-multiplied"):
            return replace(start, order=CAUSAL, hiding=way)
    if any((row[row > 0] / row.max() < 0.999).any() for row in none.flatten(0, 2)):
        results.note("scores", "It adds to its scores, perhaps by the distance of two tokens.")
    return start


def _earlier_only(none: Tensor) -> bool:
    """Return whether every query but the first sees the key before its own, and no later one."""
    seen = none[..., 1:, :] > 0
    square = none.shape[-2] == none.shape[-1] > 1
    return square and not seen.triu(1).any() and bool(seen.diagonal(dim1=-2, dim2=-1).all())


def _two_levels(none: Tensor, allowed: Tensor) -> bool:
    """Return whether equal products give one weight up to the own key and another after it."""
    if none.shape != allowed.shape or not (none > 0).all():
        return False
    relative = none / none[..., :1]
    parts = [relative[..., :-1, :][part[..., :-1, :]] for part in (allowed, ~allowed)]
    return all(bool((part.log() - part.log().mean()).abs().max() < 1e-4) for part in parts)


def _tell_unknown(heads: Heads, sample: Sample | None, results: Results) -> None:
    """Say that what lies between the products is not known, or that it is no average."""
    sums = None if sample is None else sample.output.double().sum(dim=-1)
    wild = sums is not None and (sums - 1).abs().max() > 1e-3 and not heads.learned
    if wild and bool(sums.isfinite().all()):
        results.found(
            "not-normalised",
            f"The weights of a query sum to {sums.min().item():.2g} to {sums.max().item():.2g} "
            "instead of 1.",
        )
    results.unexamined(
        "What lies between its scores and its weights is no softmax that is known here: its scale "
        "could not be checked.",
        remedy="Call diagnose on the function that turns scores into weights.",
    )


# --- the scale ------------------------------------------------------------------------------------


def _scale(heads: Heads, sample: Sample, results: Results) -> Way:
    """Return the law of the factor, or the factor itself; without a cause where it is right."""
    sizes, factor = sample.sizes, heads.factor
    plain = Way(None, "", lambda size: factor)
    if math.isclose(factor, RIGHT_SCALE.compute(sizes), rel_tol=1e-4):
        return plain
    if heads.learned or heads.law.heads:
        results.note("scale", f"The factor of its scores, {factor:.4g} here, is a parameter.")
        return plain
    if heads.unit:
        results.note(
            "scale",
            f"Queries and keys are unit vectors, so the factor of its scores, {factor:.4g}, is a "
            "matter of choice.",
        )
        return plain
    if math.isclose(factor, 1.0) and UNSCALED.search(text_of(heads.subject.layer)):
        results.note("scale", "Its scores are not scaled, and its text says so.")
        return plain
    fitting = list(_laws(heads, sample, factor))
    if fitting:
        return fitting[0]
    if abs(factor**-2 - round(factor**-2)) < 1e-6 * factor**-2 and factor**-2 > 8.5:
        return Way(
            "scale-constant",
            f"The dot products are multiplied by {factor:.4g} whatever d_k is: right for "
            f"d_k = {round(factor**-2)} only.",
            lambda size: factor,
        )
    return Way(
        "scale-other",
        "The dot products are not divided by the root of d_k: the factor is "
        f"{factor:.4g} for d_k = {sizes.E}.",
        lambda size: factor,
    )


def _laws(heads: Heads, sample: Sample, factor: float) -> Iterator[Way]:
    """Yield the laws that give this factor, the likeliest first."""
    known = [sample.sizes, replace(sample.sizes, width=None)]
    fitting = [
        way
        for way in SCALES[1:]
        if any(math.isclose(way.compute(sizes), factor, rel_tol=SAME) for sizes in known)
    ]
    other = _at_another_length(heads) if fitting else None
    if other is not None:
        size, now = other
        fitting = [way for way in fitting if _fits_too(way, size, now)] or fitting
    if takes_roots(heads.subject.layer):
        fitting.sort(key=lambda way: way.cause == "scale-d")
    yield from fitting


def _fits_too(way: Way, sizes, factor: float) -> bool:
    return any(
        math.isclose(way.compute(size), factor, rel_tol=SAME)
        for size in (sizes, replace(sizes, width=None))
    )


def _at_another_length(heads: Heads):
    """Return sizes and factor of a call with fewer tokens."""
    subject = heads.subject
    for less in (1, -1):
        for one in attentions(subject, subject.x(len(heads.x), heads.x.shape[1] - less))[:1]:
            sample = one.sample()
            if sample is not None and one.law.kind in AXES:
                return sample.sizes, one.factor
    return None


def takes_roots(layer: object) -> bool:
    """Return whether its text has a root; asked where 1/sqrt(embed_dim) equals 1/head_dim."""
    return bool(re.search(r"sqrt|0?\.5\b|1 ?/ ?2", text_of(layer)))
