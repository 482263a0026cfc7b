"""What comes of a mask in every shape and kind in which it may be meant."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from attnlab.clinic.family import BLOCK, CAUSAL, DENSE, REPEATED
from attnlab.clinic.forms import Form, pattern
from attnlab.clinic.measure import measured_masking
from attnlab.clinic.names import Argument
from attnlab.clinic.observe import Core, Observer, recorded
from attnlab.clinic.plan import heads_of
from attnlab.clinic.sample import SURE, Sample, Way
from attnlab.clinic.search import Recipe, explain
from attnlab.clinic.signature import meaning_of

OF_SHAPES = re.compile(r"^$|shape|size|dimension|expand|broadcast|index", re.IGNORECASE)


class Attempt(NamedTuple):
    """What came of a mask in one form."""

    form: Form
    given: Tensor
    place: int  # of the attention that it changes
    core: Core
    base: Recipe  # without a mask
    recipe: Recipe  # with what was done with the mask

    @property
    def slips(self) -> bool:
        """Whether something is wrong that is not wrong without a mask."""
        return bool(self.recipe.masking.cause) or self.recipe.softmax is not self.base.softmax


class Attempts(NamedTuple):
    """What came of one mask in all forms, the sizes at which it was given, and the last trouble."""

    mask: Argument
    watch: Observer
    made: tuple[Attempt, ...]
    trouble: str

    @property
    def right(self) -> Attempt | None:
        """The first that is right, whatever is said of the mask."""
        return next((attempt for attempt in self.made if not attempt.slips), None)

    @property
    def clean(self) -> Attempt | None:
        """The first that is right, if its reading is what is said, or the usual one."""
        said = self.watch.call.signature.said(self.mask)[0]
        usual = (said, "allowed") if said in (None, "additive") else (said,)
        right = self.right
        agreed = right and (self.mask.role == "lengths" or meaning_of(right.form.kind) in usual)
        return right if agreed else None


def attempted(watch: Observer, mask: Argument, recipes: list[Recipe | None]) -> Attempts:
    """Give a mask in every form, up to the first that is right; then where L = S."""
    own_form, watch, made, trouble = watch.call.plan.form, watch.at(form=None), [], ""
    for squared in range(2):
        call = watch.call
        sizes, plain = mask_sizes(watch), watch(parts=call.inputs(N=3))
        for form, size in itertools.product(call.signature.mask_forms(mask, call.plan.ndim), sizes):
            cores = with_mask(watch, mask.name, form, size)
            place = _place_changed(plain, cores, recipes)
            if call.caller.out_of_time:
                break
            base = None if place is None else recipes[place] or _as_seen(plain[place])
            if base is None:
                continue
            shown = form(pattern(form, *size), call.plan.dtype)
            recipe = judged(base, cores[place])
            made.append(Attempt(form, shown, place, cores[place], base, recipe))
            if not made[-1].slips:
                break
        if made or squared or call.signature.alone or call.plan.demand.get("L"):
            break
        watch = watch.square()
    if not made:
        trouble = max(_troubles(watch, mask, sizes[0]), key=lambda said: not OF_SHAPES.search(said))
    return Attempts(mask, watch.at(form=own_form), tuple(made), trouble)


def _troubles(watch: Observer, mask: Argument, size: tuple) -> Iterator[str]:
    """Yield what a mask raises in each form, the likeliest first."""
    call = watch.call
    for form in call.signature.mask_forms(mask, call.plan.ndim):
        masks = {mask.name: form(pattern(form, *size), call.plan.dtype)}
        yield recorded(call, call.inputs(N=3), masks=masks)[0].outcome.trouble


def mask_sizes(watch: Observer) -> list[tuple[int, int, int, int]]:
    """Return the sizes (N, H, L, S) that a mask may have."""
    parts, followed = watch.call.inputs(N=3), watch.call.signature.followed
    query, key = parts["query"], parts["key"]
    N = len(query) if query.ndim > 2 else 1
    H = (heads_of(watch.call.signature) or 1) if followed else 1
    H = query.shape[1] if query.ndim == 4 else H
    L, S = query.shape[-2], key.shape[-2]
    tables = [(L, S), (L, L), (S, S)] if followed and L != S else [(L, S)]
    return [(N, H, *table) for table in tables]


def size_of(sample: Sample) -> tuple[int, ...]:
    """Return the sizes (N, H, L, S) of a sample."""
    return tuple(getattr(sample.sizes, name) for name in "NHLS")


def with_mask(
    watch: Observer,
    name: str,
    form: Form,
    size: tuple,
    *,
    beside: tuple[str, Form] | None = None,
    seed: int = 3,
) -> list[Core]:
    """Observe it with a mask, and with another beside it."""
    allowed, plan = pattern(form, *size, seed=seed), watch.call.plan
    masks = {name: form(allowed, plan.dtype)}
    if beside is not None:
        second = pattern(beside[1], *size, seed=4)
        masks[beside[0]] = beside[1](second, plan.dtype)
        allowed = allowed & second
    if not watch.call.signature.followed and plan.ndim == 2 and form.ndim > 2:
        return []
    return watch(masks=masks, allowed=allowed)


def _place_changed(plain: list[Core], cores: list[Core], recipes: list) -> int | None:
    """Return the place of the first attention that a mask changes, or of the first that it fits."""
    if not cores or (len(recipes) > 1 and len(cores) != len(recipes)):
        return None
    fits = [place for place, core in enumerate(cores) if core.sample.allowed is not None]
    for place, pair in enumerate(zip(plain, cores, strict=False)):
        before, after = (core.weights for core in pair)
        if before.shape == after.shape and not torch.equal(before, after):
            return place if place in fits else None
    return next(iter(fits), None)


def _as_seen(plain: Core) -> Recipe | None:
    """Return a recipe of scores without a name: the logarithms of the weights without a mask."""
    weights = plain.weights
    if not (weights > 0).all() or ((weights.sum(-1) - 1).abs() > SURE).any():
        return None
    product = Way(None, "", lambda query, key: weights.log())
    return Recipe(product=product, scale=Way(None, "", lambda size: 1.0))


def judged(recipe: Recipe, core: Core) -> Recipe:
    """Return the recipe with what was done with the mask, named or measured."""
    sample, weights = core.sample, core.weights
    named = explain([sample], recipe, ("masking", "softmax"))
    if named is not None:
        return named
    orders = (DENSE, CAUSAL) if recipe.order is DENSE else (DENSE,)
    for order in orders if recipe.order.cause is None else ():
        named = explain([sample], replace(recipe, order=order), ("masking",))
        if named is not None:  # a mask takes the place of its own order, as in many libraries
            return named
    for order in (recipe.order, DENSE):
        known = replace(recipe, order=order, masking=BLOCK)
        if known.gives(sample._replace(allowed=sample.awake)):
            return known  # what padded tokens get as queries is of no use
    if (repeated := replace(recipe, masking=REPEATED)).gives(sample):
        return repeated
    scores = recipe.ordered(sample)
    allowed = sample.allowed.expand_as(weights) & scores.isfinite()
    if not allowed.any(dim=-1).all():
        return recipe  # rows without a key may hold anything: nothing can be measured
    return replace(recipe, masking=measured_masking(scores, weights, allowed))
