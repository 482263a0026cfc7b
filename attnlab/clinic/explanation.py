"""The recipe that explains an observed attention, in whatever layout and sizes that takes."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from attnlab.clinic import hints
from attnlab.clinic.call import Call
from attnlab.clinic.family import CAUSAL, DENSE, ENDS, ORDERS, STEPS
from attnlab.clinic.measure import measured_recipe, measured_weights, seen_keys
from attnlab.clinic.names import CAUSAL_NAME, PERHAPS_CAUSAL, numbers_of
from attnlab.clinic.observe import Core, Observer
from attnlab.clinic.plan import DEMANDS
from attnlab.clinic.results import Fact, ask, note, wrong
from attnlab.clinic.sample import Sample
from attnlab.clinic.search import Recipe, explain
from attnlab.clinic.signature import Signature

OPEN = tuple(step for step in STEPS if step != "masking")
LAYOUTS = {  # of functions: the number of dimensions, and what is exchanged
    (3, (0, 1)): ("batch-first", "(L, N, E)", hints.time_before_batch),
    (4, (1, 2)): ("head-mixing", "(N, L, H, E)", hints.tokens_before_heads),
}


class Explained(NamedTuple):
    """What explains some cores, and how they were observed.

    ``rough`` says that only about three digits are right: some step has lower precision.
    """

    watch: Observer
    cores: list[Core]
    recipe: Recipe | None
    rough: bool = False
    facts: tuple[Fact, ...] = ()


def explained(watch: Observer, cores: list[Core]) -> Explained:
    """Return the recipe with the fewest slips, and the cores that it explains."""
    plan, signature = watch.call.plan, watch.call.signature
    plain = _recipe(watch, cores)
    recipe = plain.recipe
    if recipe is None and "E" in plan.demand:
        turned = _anew(watch, _any, inside=True, demand={**plan.demand, "L": "S"})
        plain = turned or plain
        recipe = plain.recipe
    if signature.followed or plan.swap:
        return plain
    if recipe is not None and not recipe.slips and recipe.order in ORDERS:
        return (None if plain.rough else _otherwise_square(plain)) or plain
    for (ndim, swap), (name, layout, says) in LAYOUTS.items():
        swapped = _anew(watch, _without_slips, swap=swap) if ndim == plan.ndim else None
        if swapped:
            fact = note("layout", f"Its inputs are read as {layout}, as its text says.")
            if not says(signature.target):
                fact = ask(
                    name,
                    f"It computes attention if its inputs are {layout}, and something else if they "
                    "are in the usual order, with the tokens last but one.",
                    "Pass call= with an adapter that brings them into its order.",
                )
            return swapped._replace(facts=(fact,))
    only_scaled = recipe is not None and recipe.slips == (recipe.scale,)
    beyond = _seen_beyond(cores[0].sample)
    for demand in DEMANDS[2:4] if plan.demand in DEMANDS[:2] and not only_scaled else ():
        keep = _any if recipe is None else _right_or_ordered
        square = _anew(watch, keep, demand=demand)
        if square is None and beyond and recipe is not None and recipe.order not in ORDERS:
            turned = watch.at(demand=demand)
            square = _recipe(turned, turned())
        if square:
            sentence = "It computes attention only where there are as many keys as queries."
            fact = wrong("square-only", sentence)
            if square.recipe.slips or square.recipe.order is not DENSE:
                fact = note("square", f"{sentence}{beyond}")
            return square._replace(facts=(fact,))
    return plain


def _seen_beyond(sample: Sample) -> str:
    """Return that all keys behind the last query are seen, though query 0 misses one before."""
    (L, S), seen = sample.products.shape[-2:], seen_keys(measured_weights(sample))
    if L >= S or seen[0, L - 1] or not seen[:, L:].all():
        return ""
    return f" With {L} queries and {S} keys, keys {L} to {S - 1} stay visible for every query."


def _otherwise_square(plain: Explained) -> Explained | None:
    """Return what explains it with as many keys as queries, if that is something else."""
    watch = plain.watch.square()
    cores = watch()
    samples = [core.sample for core in cores]
    if not cores or all(map(plain.recipe.gives, samples)):
        return None
    words = "With as many keys as queries it does something else than with more keys."
    recipe = explain(samples, steps=OPEN)
    return Explained(watch, cores, recipe, facts=(note("square", words),))


def _any(recipe: Recipe) -> bool:
    """Return that any recipe will do."""
    return True


def _without_slips(recipe: Recipe) -> bool:
    """Return whether a recipe has no slips."""
    return not recipe.slips


def _right_or_ordered(recipe: Recipe) -> bool:
    """Return whether a recipe has no slips, or blocks keys by itself."""
    return not recipe.slips or recipe.order is not DENSE


def _anew(watch: Observer, keep: Callable[[Recipe], bool], **changes: object) -> Explained | None:
    """Observe it by another plan; return what explains it then, if that may be kept."""
    watch = watch.at(**changes)
    cores = watch()
    recipe = explain([core.sample for core in cores], steps=OPEN) if cores else None
    return Explained(watch, cores, recipe) if recipe and keep(recipe) else None


def _recipe(watch: Observer, cores: list[Core]) -> Explained:
    """Return what explains these cores: a named way, a measured factor, or something added."""
    samples = [core.sample for core in cores]
    recipe = explain(samples, steps=OPEN)
    if recipe is None:  # as far as three digits
        rounded = [sample._replace(output=sample.output.float()) for sample in samples]
        recipe = explain(rounded, steps=OPEN)
        later = max(measured_weights(sample).triu(1).abs().max() for sample in samples)
        right = recipe is not None and not recipe.slips
        if right and (recipe.order is DENSE or bool(later < 1e-7)):
            return Explained(watch, cores, recipe, rough=True)
        recipe = None
    if recipe is not None:
        return Explained(watch, cores, recipe)
    redrawn = [core.sample for core in watch(seed=2)]
    shapes = [sample.output.shape for sample in samples]
    fitting = [sample for sample in redrawn if sample.output.shape in shapes]
    pairs = list(zip(samples, fitting, strict=False))
    return Explained(watch, cores, measured_recipe(pairs) if pairs else None)


# --- what is meant --------------------------------------------------------------------------------


def causal_in(recipes: list[Recipe | None]) -> bool:
    """Return whether every attention blocks later keys."""
    ordered = [recipe is not None and recipe.order in (CAUSAL, ENDS) for recipe in recipes]
    return bool(ordered) and all(ordered)


def meant_causal(signature: Signature) -> bool:
    """Return whether no query is meant to see a later key."""
    if signature.options.causal is not None:
        return signature.options.causal
    free = not signature.masks and not signature.switches
    cross = re.search("cross|memory", signature.name, re.IGNORECASE)
    return free and not cross and bool(CAUSAL_NAME.search(signature.name))


def maybe_causal(signature: Signature) -> bool:
    """Return whether it may be meant that no query sees a later key, by a word of its name."""
    free = not signature.masks and not signature.switches and signature.options.causal is None
    return free and signature.alone and bool(PERHAPS_CAUSAL.search(signature.name))


def as_chosen(call: Call, recipe: Recipe, sample: Sample) -> tuple[Recipe, list[Fact]]:
    """Return the recipe without blame for a factor that the caller or its own text chose."""
    blameless = replace(recipe, scale=recipe.scale._replace(cause=None))
    if recipe.scale.cause == "scale-missing" and hints.says_unscaled(call.signature.target):
        return blameless, [note("scale", "The scores are not scaled, as its own text says.")]
    if recipe.scale.cause in ("scale-constant", "scale-other", "scale-missing"):
        factor = recipe.scale.compute(sample.sizes)
        for name, number in numbers_of(call.module or call.signature.target):
            if min(abs(power / factor - 1) for power in (number**-0.5, number, 1 / number)) < 1e-2:
                why = f"The dot products are multiplied by {factor:.4g}, as {name} = {number:.4g} "
                why += f"says: right for d_k = {factor**-2:.4g}."
                return blameless, [ask(recipe.scale.cause, why)]
    return recipe, []
