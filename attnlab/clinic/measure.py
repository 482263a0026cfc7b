"""What no table can hold is measured: weights, factors, sinks, fills, biases."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from attnlab.clinic.family import MASK_ZERO, ORDERS, SCALES, SIDES
from attnlab.clinic.sample import SURE, Sample, Sizes, Way
from attnlab.clinic.search import Recipe

VISIBLE = 1e-4  # a weight above this has a logarithm worth reading
ADDED = 0.02  # what is added to a score, above the errors of measuring
CLEAR = 1e-5  # a weight below this is none


class Fit(NamedTuple):
    """How far the logarithms of weights follow scores: ``log w = factor * score`` in each row."""

    factor: float
    residual: float  # relative to the spread of the logarithms; 0 is a perfect fit

    @property
    def good(self) -> bool:
        """Whether the weights are a softmax of these scores."""
        return self.residual < 0.01


def fit_scores(weights: Tensor, scores: Tensor, *, dim: int = -1) -> Fit:
    """Return the factor between scores and the logarithms of weights, both (..., L, S).

    Softmax ran over ``dim``: logarithms are known up to a constant along it.
    """
    scores = scores.double()
    visible = weights > VISIBLE * weights.amax(dim=dim, keepdim=True)
    logs = weights.clamp_min(1e-300).log()
    best = weights.argmax(dim=dim, keepdim=True)
    y = (logs - logs.gather(dim, best))[visible]
    x = (scores - scores.gather(dim, best))[visible]
    if not y.numel() or float(x.norm()) == 0 or not (x.isfinite().all() and y.isfinite().all()):
        return Fit(float("nan"), float("inf"))
    factor = float((x * y).sum() / (x * x).sum())
    spread = float(y.norm())
    return Fit(factor, float((y - factor * x).norm()) / spread if spread > 1e-6 else float("inf"))


def measured_weights(sample: Sample) -> Tensor:
    """Return the weights behind an output; the rows of ``value`` must be independent."""
    if sample.seen is not None:
        return sample.seen
    return sample.output.double() @ torch.linalg.pinv(sample.value.double())


def measured_scale(samples: Iterable[Sample]) -> Way | None:
    """Return the factors on the dot products, by their law if there is one; None if they vary."""
    factors: dict[Sizes, float] = {}
    for sample in samples:
        fit = fit_scores(measured_weights(sample), sample.products)
        if not fit.good:
            return None
        factors[sample.sizes] = fit.factor
    return scale_of(factors)


def scale_of(factors: dict[Sizes, float]) -> Way:
    """Return the law that factors follow, or the factors themselves."""
    for way in SCALES:
        if all(
            abs(way.compute(size) - factor) < SURE * abs(factor) for size, factor in factors.items()
        ):
            return way
    factor, *others = factors.values()
    alike = others and max(abs(another - factor) for another in others) < 10 * SURE * abs(factor)
    if alike or (not others and factor and abs(factor**-2 - round(factor**-2)) < 1e-4):
        words = f"The dot products are multiplied by {factor:.4g}, which is right for d_k = "
        return Way("scale-constant", f"{words}{factor**-2:.4g} only.", lambda size: factor)
    told = ", ".join(
        f"{measured:.4g} for d_k = {size.E}"
        for size, measured in sorted(factors.items(), key=lambda item: item[0].E)
    )
    words = f"The dot products are not divided by the square root of d_k: the factor is {told}."
    return Way("scale-other", words, lambda size: factors.get(size, size.E**-0.5))


def measured_sink(samples: Iterable[Sample], base: Recipe) -> Way | None:
    """Return a softmax that gives a part of each weight to a sink of its head; None if none fits.

    ``base`` says everything else: the exponentials are divided by their sum and a constant.
    """
    constants = []
    for sample in samples:
        scores = base.ordered(sample)
        total, sums = scores.exp().sum(-1), measured_weights(sample).sum(-1)
        constant = total / sums - total
        spread = (constant - constant[:1, :, :1]).abs().max()
        if not spread < 10 * SURE * constant.abs().max() or not (constant > SURE).all():
            return None
        constants.append(constant[:1, :, :1, None])
    heads = next((c for c in constants if c.max() - c.min() > SURE), constants[0][:, :1])

    def softmax(scores: Tensor, factor: float) -> Tensor | None:
        return scores.exp() / (scores.exp().sum(-1, keepdim=True) + heads)

    words = "A part of every query's weight goes to a sink: those of the keys sum to {sums}."
    return Way("not-normalised", words, softmax, asked=True)


def measured_masking(scores: Tensor, weights: Tensor, allowed: Tensor) -> Way:
    """Return what became of blocked keys where no named masking fits; it computes nothing.

    ``scores`` are those before the mask, and every row of ``allowed`` has a key; all (..., L, S).
    """
    taken = weights.masked_fill(allowed, 0).sum(dim=-1)
    if not weights.isfinite().all():
        holes = int((~weights.isfinite()).any(dim=-1).sum())
        return _measured(
            "nan", f"With a mask that leaves every query a key, {holes} rows of weights hold NaN."
        )
    if weights.min() < -SURE or weights.max() > 1 + SURE:
        words = "With {the_mask} the weights of a query sum to {sums} instead of 1."
        return _measured("not-normalised", words)
    if taken.abs().max() < 1e-7:
        words = "{Keys} get nothing, but allowed keys lose weight too: a row sums to {sums}."
        if (weights.sum(dim=-1) - 1).abs().max() < SURE:
            words = "{Keys} get nothing, but allowed keys share the weight in another way than "
            words += "they do without {the_mask}: it changes more than it blocks."
        return _measured("mask-leak", words)
    implied = _implied(scores, weights, allowed)
    for what, moved in (("set to", implied), ("moved by", implied - scores)):
        at = moved[~allowed.expand_as(moved) & (weights > 1e-9)]
        value = float(at.mean()) if at.numel() > 1 else 0.0
        alike = at.numel() > 1 and float((at - value).abs().max()) < 0.02 * max(1.0, abs(value))
        if alike and abs(value) <= 0.02 and what == "set to":
            return _measured("mask-multiplied", MASK_ZERO)
        if alike and abs(value) > 0.02:
            return _measured(
                "mask-finite",
                f"The scores of {{keys}} are {what} {value:.3g} instead of minus infinity: "
                f"{{keys}} still take up to {taken.max():.3g} of a query's weight.",
            )
    return _measured("mask-leak", "{Keys} still take {taken} of a query's weight.")


def _measured(cause: str, words: str) -> Way:
    return Way(cause, words, lambda *given: None)


def _implied(scores: Tensor, weights: Tensor, allowed: Tensor) -> Tensor:
    """Return the scores that would give these weights, level with ``scores`` at allowed keys."""
    logs = weights.clamp_min(1e-300).log()
    anchor = weights.masked_fill(~allowed, -1).argmax(dim=-1, keepdim=True)
    return logs - logs.gather(-1, anchor) + scores.gather(-1, anchor)


def measured_recipe(pairs: list[tuple[Sample, Sample]]) -> Recipe | None:
    """Return a recipe with the factor, the keys that are never seen or the biases, as measured.

    Each pair of calls is of the same sizes, with other numbers. None where the weights are no
    softmax of dot products, even with something added that depends on positions alone.
    """
    samples = [sample for pair in pairs for sample in pair]
    scale = measured_scale(samples)
    dense = Recipe(scale=scale) if scale else None
    for order in ORDERS[:3] if dense else ():
        known = replace(dense, order=order)
        if all(map(known.gives, samples)):
            return known
        if sink := measured_sink(samples, known):
            return replace(known, softmax=sink)
    for sides in SIDES:
        recipe = _with_added(pairs, sides)
        if recipe is not None and all(map(recipe.gives, samples)):
            return recipe
    return None


def _with_added(pairs: list[tuple[Sample, Sample]], sides: Way) -> Recipe | None:
    """Return a recipe with what is added to the scores of these sides, from pairs of calls."""
    tables, factors = {}, {}
    for sample, redrawn in pairs:
        added = _added(sample, redrawn, sides)
        if added is None:
            return None
        tables[tuple(sample.products.shape[-2:])], factors[sample.sizes] = added
    order = Way(None, "", lambda queries, keys: tables.get((queries, keys)))
    return Recipe(sides=sides, order=order, scale=scale_of(factors))


def _added(sample: Sample, redrawn: Sample, sides: Way) -> tuple[Tensor, float] | None:
    """Return which keys are seen, (L, S), or what is added to the scores, (H, L, S); the factor.

    None where what is added depends on more than the positions.
    """
    recipe = Recipe(sides=sides, scale=Way(None, "", lambda size: 1.0))
    scores, again = recipe.scores(sample), recipe.scores(redrawn)
    values = [sides.compute(*drawn[:3])[2] for drawn in (sample, redrawn)]
    if (
        scores is None
        or scores.shape != sample.products.shape
        or (values[0].shape[-2:] != sample.value.shape[-2:])
    ):
        return None
    weights, others = (
        measured_weights(drawn._replace(value=value))
        for drawn, value in zip((sample, redrawn), values, strict=True)
    )
    seen = seen_keys(weights) & seen_keys(others)
    ratio = (weights / others).masked_fill(~seen, 0.0)
    fit = fit_scores(ratio, scores - again)
    if not fit.good:
        return None
    added = (weights.clamp_min(1e-300).log() - fit.factor * scores).masked_fill(~seen, 0.0)
    added = (added - added.sum(-1, keepdim=True) / seen.sum(-1, keepdim=True).clamp_min(1)) * seen
    if (added - added[:1]).abs().max() > ADDED:
        return None
    if added.abs().max() < ADDED:
        return seen, fit.factor
    return added[0].masked_fill(~seen, -torch.inf), fit.factor


def seen_keys(weights: Tensor) -> Tensor:
    """Return which keys get a weight from which query, in any sequence; NaN sees nothing."""
    flat = weights.nan_to_num(nan=0.0).reshape(-1, *weights.shape[-2:])
    return (flat.abs() > CLEAR).any(dim=0)
