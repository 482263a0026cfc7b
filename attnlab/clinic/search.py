"""Recipes of one way for each step, and the search for the one with the fewest slips."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from attnlab.clinic.family import (
    AFTER,
    BLOCK,
    CAUSAL,
    DENSE,
    ENDS,
    PAIRS,
    PRODUCTS,
    RIGHT_SCALE,
    SIDES,
    SOFTMAXES,
    STEPS,
    Softmax,
)
from attnlab.clinic.sample import Sample, Way, agrees


@dataclass(frozen=True)
class Recipe:
    """One way for each step.

    ``order`` is what the attention blocks by itself and ``hiding`` how; ``masking`` is how it uses
    the mask that it gets.
    """

    sides: Way = SIDES[0]
    product: Way = PRODUCTS[0]
    scale: Way = RIGHT_SCALE
    order: Way = DENSE
    hiding: Way = BLOCK
    masking: Way = BLOCK
    softmax: Way = SOFTMAXES[0]
    after: Way = AFTER[0]

    @property
    def slips(self) -> tuple[Way, ...]:
        """The steps that are wrong."""
        return tuple(way for way in vars(self).values() if way.cause is not None)

    def scores(self, sample: Sample) -> Tensor | None:
        """Return the scores before any mask, in float64; None where sizes do not fit."""
        query, key, _ = self._given(sample)
        if query.shape[-1] != key.shape[-1]:
            return None
        return self.product.compute(query, key) * self.scale.compute(sample.sizes)

    def ordered(self, sample: Sample) -> Tensor | None:
        """Return the scores with what the order adds, minus infinity where it blocks."""
        scores = self.scores(sample)
        order = None if scores is None else self.order.compute(*scores.shape[-2:])
        if order is None:
            return scores
        return (
            scores.masked_fill(~order, -torch.inf) if order.dtype == torch.bool else scores + order
        )

    def _given(self, sample: Sample) -> tuple[Tensor, Tensor, Tensor]:
        return self.sides.compute(*(part.double() for part in sample[:3]))

    def weights(self, sample: Sample) -> Tensor | None:
        """Return the weights (N, H, L, S), in float64; None where sizes do not fit."""
        scores = self.scores(sample)
        if scores is None:
            return None
        factor = self.scale.compute(sample.sizes)

        def softmax(scores: Tensor) -> Tensor | None:
            return self.softmax.compute(scores, factor)

        uses = [
            (self.masking, sample.allowed),
            (self.hiding, self.order.compute(*scores.shape[-2:])),
        ]
        for way, allowed in uses:
            if allowed is not None:
                softmax = _masked(way, allowed.expand_as(scores), softmax)
        weights = softmax(scores)
        return None if weights is None else self.after.compute(weights)

    def output(self, sample: Sample) -> Tensor | None:
        """Return the output (N, H, L, Ev), in float64; None where sizes do not fit."""
        weights, value = self.weights(sample), self._given(sample)[2]
        if weights is None or weights.shape[-1] != value.shape[-2]:
            return None
        return weights @ value

    def gives(self, sample: Sample) -> bool:
        """Return whether it gives the output of a sample."""
        output = self.output(sample)
        return output is not None and agrees(sample.output, output)


def _masked(way: Way, allowed: Tensor, softmax: Softmax) -> Softmax:
    if allowed.dtype != torch.bool:  # a measured order may be what is added to the scores
        return lambda scores: softmax(scores + allowed)
    return lambda scores: way.compute(scores, allowed, softmax)


def explain(
    samples: Iterable[Sample], start: Recipe = Recipe(), steps: Iterable[str] = tuple(STEPS)
) -> Recipe | None:
    """Return the recipe with at most two slips that gives the output of every sample.

    ``start`` says what is known of the steps that are not open. Samples of several sizes tell laws
    of the sizes apart.
    """
    samples = list(samples)
    return next(
        (recipe for recipe in recipes(start, tuple(steps)) if all(map(recipe.gives, samples))), None
    )


def recipes(start: Recipe, steps: tuple[str, ...]) -> Iterator[Recipe]:
    """Yield recipes with more and more slips, from what ``start`` says of the other steps."""
    bases = [start]
    if "order" in steps and start.order is DENSE:
        bases.append(replace(start, order=CAUSAL))
        yield from bases
        yield replace(start, order=ENDS)  # of the last queries, as with a cache
    yield from bases
    for base in bases:
        for step in steps:
            yield from _with_slip(base, step)
    for base in bases:
        for first, second in PAIRS:
            if first in steps and second in steps:
                for changed in _with_slip(base, first):
                    yield from _with_slip(changed, second)


def _with_slip(base: Recipe, step: str) -> Iterator[Recipe]:
    if step == "hiding" and base.order is DENSE:
        return
    for way in STEPS[step]:
        if way.cause is not None:
            yield replace(base, **{step: way})
