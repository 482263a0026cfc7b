"""Large scores: whether blocked keys stay blocked, and whether something limits the scores."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from attnlab.clinic.observe import Core, Observer
from attnlab.clinic.results import Fact, ask, note
from attnlab.clinic.sample import SURE, Sample
from attnlab.clinic.search import Recipe

LOW = -1000.0  # scores below it are above no fill of some hundreds


def strained(
    watch: Observer, base: Recipe, place: int, blocked: str, **given: object
) -> Iterator[Fact]:
    """Let all scores of some query fall below ``LOW``: a finite fill does not block them then."""
    call, N = watch.call, None if given.get("allowed") is None else 3
    for seed in range(0 if call.signature.large else 8):
        factor = 1.0
        for _ in range(2):  # at ordinary scores, and with the lowest at twice that
            parts = call.inputs(seed=seed, N=N, factor=factor)
            cores = watch(parts=parts, **given)[place:]
            scores = base.scores(cores[0].sample) if cores else None
            if scores is None:
                return
            allowed = _allowed(base, cores[0].sample).expand_as(scores)
            best = scores.masked_fill(~allowed, -torch.inf).amax(dim=-1)
            lowest = float(best[allowed.any(dim=-1)].min())
            factor = (2 * LOW / min(lowest, -0.2 * float(scores.abs().max()))) ** 0.5
        if lowest < LOW:
            yield from _taken(cores[0].weights, allowed, lowest, blocked)
            return


def _allowed(recipe: Recipe, sample: Sample) -> Tensor:
    """Return which keys a query may see by its mask and by the order of its recipe."""
    size = sample.products.shape[-2:]
    own, order = sample.allowed, recipe.order.compute(*size)
    allowed = torch.ones(size, dtype=torch.bool) if own is None else own
    if order is None:
        return allowed
    return allowed & (order if order.dtype == torch.bool else order.isfinite())


def _taken(weights: Tensor, allowed: Tensor, lowest: float, blocked: str) -> Iterator[Fact]:
    """Yield what blocked keys take of the weights where the scores are low."""
    taken = weights.masked_fill(allowed, 0).sum(dim=-1)[allowed.any(dim=-1)]
    where = f"Where the best score of a query falls to {lowest:.0f}"
    if not taken.isfinite().all():
        yield note("large-scores", f"{where}, its output is NaN.")
    elif taken.max() > SURE:
        yield note(
            "mask-finite",
            f"{where}, {blocked} take up to {taken.max():.2g} of its weight: they were filled "
            "with a finite number, and -torch.inf is safe.",
        )


def limited(watch: Observer, recipes: list[Recipe], *, rough: bool) -> Iterator[Fact]:
    """Ask about scores that are scaled dot products only where they are small.

    Of one that is right to about three digits, very small ones tell a limit from lower precision.
    """
    cores: list[Core] = watch(parts=watch.call.inputs(factor=0.1 if rough else 3.0))
    for core, recipe in zip(cores, recipes, strict=False):
        if recipe.weights(core.sample) is None or not core.sample.output.isfinite().all():
            continue
        exact = recipe.gives(core.sample)
        rounded = recipe.gives(core.sample._replace(output=core.sample.output.float()))
        if exact if rough else not rounded:
            yield ask(
                "scores-not-dot-products",
                "Small scores are scaled dot products, and large ones are not: something limits "
                "them.",
            )
        elif rough:
            words = "Some step is computed in lower precision than its input: only about 3 digits"
            yield note("dtype", f"{words} are right.")
