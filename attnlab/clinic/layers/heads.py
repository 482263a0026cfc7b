"""What the attention of a layer does: its factor, its softmax, what it hides by itself."""

from __future__ import annotations

import math
import re
from dataclasses import replace

import torch
from torch import Tensor

from attnlab.clinic._hints import text_of
from attnlab.clinic._results import Results
from attnlab.clinic.hypotheses import (
    CAUSAL,
    ONE_BEHIND,
    RAW,
    RIGHT_SCALE,
    SCALES,
    Recipe,
    Sample,
    Sizes,
    Way,
    explain,
    measured_masking,
    report,
    scale_constant,
    scale_other,
    tell_sums,
)
from attnlab.clinic.layers.anatomy import Heads, attentions
from attnlab.clinic.layers.rows import (
    examine_rows,
    examine_sharing,
    examine_sources,
    examine_weights,
)

UNSCALED = re.compile(  # what the text of a layer says that has no factor by design
    r"\bt5|no scal|un-?scaled|not (be )?scaled|without (the )?scal|(n't|not) scale", re.IGNORECASE
)
HAS_ROOT = re.compile(r"sqrt|0?\.5\b|1 ?/ ?2")
SAME = 1e-6  # relative: how well a law of the scale must fit
OPEN = ("softmax", "order", "hiding")


def examine_heads(found: list[Heads], results: Results) -> tuple[Heads, Recipe] | None:
    """Report what is wrong between the two products; return how it computes, if that is known."""
    if not found:
        results.unexamined(
            "The clinic saw no product of queries and keys that leads to a weighted average of the "
            "values, so it could not check the scale, the softmax, or whether every head "
            "contributes.",
            remedy="Call diagnose on the part of it that computes the attention.",
        )
        return None
    examine_sources(found[0], results)
    if results.findings:
        return None
    first = None
    for heads in found:
        recipe = explained(heads, results)
        first = first or (recipe and (heads, recipe))
        if results.findings:
            return first
    for examine in (examine_rows, examine_weights, examine_sharing):
        if not results.findings:
            examine(found, results)
    if not results.findings and not results.gap:
        if all(math.isclose(one.factor, one.head_dim**-0.5, rel_tol=1e-4) for one in found):
            dims = ", ".join(map(str, sorted({heads.head_dim for heads in found})))
            results.held(
                "scale", f"its scores are multiplied by 1/sqrt(head_dim), head_dim = {dims}"
            )
        results.held("softmax", "the softmax runs over the keys: each query's weights sum to 1")
    return first


def explained(heads: Heads, results: Results) -> Recipe | None:
    """Report the slips of one attention, and return its recipe."""
    law, sample = heads.law, heads.sample()
    if sample is not None and _earlier_only(heads.none):
        recipe = Recipe(order=ONE_BEHIND)
    elif sample is not None:
        start = Recipe(scale=_scale(heads, sample, results)) if law else Recipe()
        recipe = explain([sample], start, OPEN) or explain([sample], Recipe(), ("scale", *OPEN))
        if recipe is None and law is not None and law.raw:
            recipe = replace(start, softmax=RAW)
        elif recipe is None and law is not None:
            recipe = _with_biases(heads, sample, start, results)
    if sample is None or recipe is None:
        _tell_unknown(heads, sample, results)
        return None
    report(recipe, [sample], results, weights=sample.output.double())
    return recipe


def _with_biases(heads: Heads, sample: Sample, start: Recipe, results: Results) -> Recipe:
    """Say what is added to the scores: positions, or a mask whose numbers no table holds."""
    weights, none = sample.output.double(), heads.none
    allowed = torch.ones_like(weights, dtype=torch.bool).tril()
    if none.shape[-1] == none.shape[-2]:
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


def _tell_unknown(heads: Heads, sample: Sample | None, results: Results) -> None:
    """Say that what lies between the products is not known, or that it is no average."""
    if sample is not None and tell_sums(sample.output.double(), results, learned=heads.learned):
        return
    results.unexamined(
        "What lies between its scores and its weights is no softmax that is known here: its scale "
        "could not be checked.",
        remedy="Call diagnose on the function that turns scores into weights.",
    )


# --- the scale ------------------------------------------------------------------------------------


def _scale(heads: Heads, sample: Sample, results: Results) -> Way:
    """Return the law of the factor, or the factor itself; without a cause where it is right."""
    factor = heads.factor
    plain = Way(None, "", lambda size: factor)
    if math.isclose(factor, RIGHT_SCALE.compute(sample.sizes), rel_tol=1e-4):
        return plain
    reason = ""
    if heads.learned or heads.law.apart:
        reason = f"The factor of its scores, {factor:.4g} here, is a parameter."
    elif heads.unit:
        reason = (
            f"Queries and keys are unit vectors, so the factor of its scores, {factor:.4g}, is a "
            "matter of choice."
        )
    elif math.isclose(factor, 1.0) and UNSCALED.search(text_of(heads.subject.layer)):
        reason = "Its scores are not scaled, and its text says so."
    if reason:
        results.note("scale", reason)
        return plain
    fitting = [way for way in SCALES[1:] if _fits(way, sample.sizes, factor)]
    if other := _at_another_length(heads) if fitting else None:
        fitting = [way for way in fitting if _fits(way, *other)] or fitting
    if HAS_ROOT.search(text_of(heads.subject.layer)):  # 1/sqrt(embed_dim) may equal 1/head_dim
        fitting.sort(key=lambda way: way.cause == "scale-d")
    if fitting:
        return fitting[0]
    width = factor**-2
    whole = abs(width - round(width)) < 1e-6 * width and width > 8.5
    return scale_constant(factor) if whole else scale_other({sample.sizes: factor})


def _fits(way: Way, sizes: Sizes, factor: float) -> bool:
    """Return whether a law gives a factor, by the width of the model or by that of all heads."""
    known = (way.compute(size) for size in (sizes, replace(sizes, width=None)))
    return any(math.isclose(one, factor, rel_tol=SAME) for one in known)


def _at_another_length(heads: Heads) -> tuple[Sizes, float] | None:
    """Return sizes and factor of a call with fewer tokens."""
    subject, (count, length) = heads.subject, heads.x.shape[:2]
    for other in (length - 1, length + 1):
        for one in attentions(subject, subject.x(count, other))[:1]:
            sample = one.sample()
            if sample is not None and one.law is not None:
                return sample.sizes, one.factor
    return None
