"""Large scores: whether blocked keys stay blocked, and whether something limits the scores."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import torch
from torch import Tensor

from attnlab.clinic.explanation import OPEN
from attnlab.clinic.family import SOFTMAXES
from attnlab.clinic.observe import Core, Observer
from attnlab.clinic.results import Fact, ask, note, tried, wrong
from attnlab.clinic.sample import SURE, close
from attnlab.clinic.search import Recipe, explain

LOW = (-1e3, -1e5)  # scores below it are above no fill of some hundreds, or of -1e4
HIGH = 300.0  # a score of which float32 knows no exponential


def strained(
    watch: Observer, base: Recipe, place: int, blocked: str, **given: object
) -> Iterator[Fact]:
    """Let all scores of some query fall below ``LOW``: a finite fill does not block them then."""
    call, N = watch.call, None if given.get("allowed") is None else 3
    for low, seed in itertools.product(LOW, range(0 if call.signature.large else 8)):
        factor = 1.0
        for _ in range(2):  # at ordinary scores, and with the lowest at twice that
            parts = call.inputs(seed=seed, N=N, factor=factor)
            cores = watch(parts=parts, **given)[place:]
            scores = base.scores(cores[0].sample) if cores else None
            if scores is None:
                return
            awake = cores[0].sample.awake
            allowed = base.ordered(cores[0].sample).isfinite() & (True if awake is None else awake)
            best = scores.masked_fill(~allowed, -torch.inf).amax(dim=-1)
            lowest = float(best[allowed.any(dim=-1)].min())
            factor = (2 * low / min(lowest, -0.2 * float(scores.abs().max()))) ** 0.5
        if lowest < low and (notes := list(_taken(cores[0].weights, allowed, lowest, blocked))):
            yield from notes
            return


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


def in_single_precision(watch: Observer, recipes: list[Recipe]) -> Iterator[Fact]:
    """Call it in float32, as most layers are, with ordinary and with large scores."""
    single = Observer(watch.call.fresh(dtype=torch.float32))
    yield tried("float32")
    wide, narrow = (one.call(one.call.inputs()).output for one in (watch, single))
    if not close(narrow, wide, 1e-2):
        yield _rounded_away(single)
        return
    pairs = zip(watch(parts=watch.call.inputs(equal=True)), recipes, strict=False)
    scores = [float(recipe.scores(core.sample).abs().max()) for core, recipe in pairs]
    large = single.call.inputs(factor=(HIGH / max([1e-3, *scores])) ** 0.5, equal=True)
    output = single.call(large).output
    plain = all(recipe.softmax is SOFTMAXES[0] for recipe in recipes)
    if plain and output is not None and not output.isfinite().all():
        yield wrong(
            "nan",
            f"With scores of about {HIGH:.0f} or -{HIGH:.0f} the output is NaN or infinite: "
            "float32 cannot hold their exponentials.",
            advice="subtract the largest score of each row before exp, or use softmax.",
        )


def _rounded_away(single: Observer) -> Fact:
    """Return what is lost in float32."""
    cores = single()
    named = explain([core.sample for core in cores[:1]], steps=OPEN) if cores else None
    slip = next((slip for slip in named.slips if "{" not in slip.words), None) if named else None
    told = " Every key that may be seen gets the same weight." if not cores else ""
    told, cause = (f" {slip.words}", slip.cause) if slip else (told, "mask-finite")
    sentence = f"In float32 it gives something else than in float64.{told}"
    advice = "add no large number to scores that stay: their digits are lost behind it."
    return wrong(cause, sentence, advice=advice)
