"""The order of an examination: observe, explain, then masks, causality, layers and behaviour.

``seen`` holds the facts so far: it is read here, to leave out what nobody needs any more.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import replace

import torch

from attnlab.clinic.call import Call, find_call
from attnlab.clinic.explanation import (
    Explained,
    as_chosen,
    causal_in,
    explained,
    maybe_causal,
    meant_causal,
)
from attnlab.clinic.family import CAUSAL, DENSE, ENDS, ORDERS
from attnlab.clinic.no_call import not_called
from attnlab.clinic.observe import Core, Observer
from attnlab.clinic.probes import (
    behaviour,
    causality,
    gradients,
    layers,
    masks,
    positions,
    sides,
    strain,
    unnamed,
    weights,
)
from attnlab.clinic.probes.attempts import attempted
from attnlab.clinic.results import Fact, Results, ask, called, held, note, tried, unexamined
from attnlab.clinic.search import Recipe
from attnlab.clinic.signature import Options, read
from attnlab.clinic.words import right_told, slips_told

DTYPES = ("float32", "float16", "bfloat16")
BY_ITSELF = "Examine its attention function by itself."


def examine(target: Callable, options: Options, seen: Results) -> Iterator[Fact]:
    """Examine a function or a layer of attention."""
    search = find_call(read(target, options))
    if not search.works:
        yield from not_called(search)
        return
    watch, rough = Observer(search.call), False
    if (yield from behaviour.steady(watch.call)):
        watch, rough = yield from _attention(watch, seen)
    if not seen.has("random"):
        yield from _behaviour(watch.call, seen, rough=rough)
    yield called(_how_called(watch.call, seen), _untried(watch.call, seen))
    if "Ev" in watch.call.plan.demand and not seen.findings:
        yield ask("square-only", "It works only where value is as wide as query.")
    if options.causal and not seen.findings and not seen.holds("causal"):
        yield unexamined(
            "That no query sees a later key could not be checked.",
            remedy=f"{BY_ITSELF[:-1]}, or pass call=.",
        )


def _how_called(call: Call, seen: Results) -> str:
    """Return the shapes, the dtypes and the mode of its calls."""
    dtypes = [str(call.plan.dtype).removeprefix("torch.")]
    dtypes += [name for name in DTYPES if name in seen.tried and name not in dtypes]
    mode = ", in eval mode" if call.signature.module is not None else ""
    sizes = ", with ordinary and large scores" if "float32" in seen.tried else ""
    return f"{call.shapes}, in {' and '.join(dtypes)}{mode}{sizes}"


def _untried(call: Call, seen: Results) -> tuple[str, ...]:
    """Return the arguments that no call was given, and the mode of a layer that was left out."""
    signature, plain = call.signature, call.rest(call.inputs(), {})
    used = {name for name, value in plain.items() if value is not None}
    used |= seen.tried | signature.sides.keys()
    known = [] if signature.options.call else [arg.name for arg in signature.arguments]
    left = [name for name in known if name not in used]
    return (*left, *(["train mode"] if signature.module is not None else []))


def _attention(watch: Observer, seen: Results) -> Generator[Fact, None, tuple[Observer, bool]]:
    """Examine what it computes; return the observer of the last call, and if it was rough."""
    cores = watch()
    if not cores:
        yield from _not_followed(watch.call, seen)
        return watch, False
    followed = watch.call.signature.followed
    groups = [
        explained(watch, group) for group in ([[core] for core in cores] if followed else [cores])
    ]
    for group in groups:
        yield from group.facts
    watch, recipes = groups[-1].watch, [group.recipe for group in groups]
    rough = any(group.rough for group in groups)
    cores = [core for group in groups for core in group.cores]
    call = watch.call
    if followed:
        yield from _told_apart(watch, cores, recipes, seen)
    crossing = sides.crossed(watch, cores) if followed and not call.signature.alone else []
    for place, group in enumerate(groups):
        free = place in crossing and len(crossing) < len(groups)
        yield from _told(group, seen, meant=meant_causal(call.signature) and not free)
    if followed:
        yield from layers.heads_told(call, cores)
    yield from _at_large_scores(watch, recipes, seen, rough=rough)
    if (followed or call.plan.inside) and not seen.findings:
        yield from positions.rotations(watch)
    elif not seen.findings:
        yield from positions.unmoved(watch)
    recipe = recipes[0]
    if not followed and recipe is not None and not recipe.slips:
        yield from _kept_apart(call, recipe, seen)
    fit = [core.sample.output for core in cores if core.sample.sizes.L <= core.sample.sizes.S]
    if not all(output.isfinite().all() for output in fit) and not seen.findings:
        yield behaviour.not_finite(call)
    if not seen.findings:
        yield from weights.returned(cores)
    if followed and call.signature.alone:
        yield from _later_unseen(call, recipes, seen)
    yield from gradients.idle_arguments(call)
    watch = yield from _masks(watch, recipes, seen, rough=rough)
    call = watch.call
    if not seen.findings:
        yield from (positions.cached if followed else positions.cached_function)(call)
    if not seen.findings and not followed and recipe is not None:
        yield from causality.aligned(call, recipe, cores[0].sample.sizes)
    if not all(core.known for core in cores):
        sentence = "By what query and key are multiplied could not be told."
        yield ask("scale-other", sentence, BY_ITSELF)
    return watch, rough


def _kept_apart(call: Call, recipe: Recipe, seen: Results) -> Iterator[Fact]:
    """Yield whether a function treats sequences and heads alone."""
    yield from behaviour.mixed(call)
    yield from layers.fewer_key_heads(call, recipe)
    if not seen.has("batch-mixing", "head-mixing"):
        yield held("apart", "a sequence gives the same result alone as in a batch")


def _later_unseen(call: Call, recipes: list[Recipe | None], seen: Results) -> Iterator[Fact]:
    """Yield whether the whole layer is as causal as it is meant to be, or as a part of it is."""
    meant = not seen.findings and (meant_causal(call.signature) or causal_in(recipes))
    if meant or seen.holds("causal"):
        yield from causality.last_token_leaks(call, meant=meant)


def _not_followed(call: Call, seen: Results) -> Iterator[Fact]:
    """Yield what can be said of a layer whose attention was not found."""
    facts = behaviour.mixed(call)
    yield from facts
    if facts or seen.findings:
        return
    if call.signature.alone and meant_causal(call.signature):
        yield from causality.last_token_leaks(call)
    yield unexamined(
        "No product of queries and keys was seen, so neither the scale nor the softmax could "
        "be examined.",
        remedy=BY_ITSELF,
    )


def _told_apart(
    watch: Observer, cores: list[Core], recipes: list[Recipe | None], seen: Results
) -> Iterator[Fact]:
    """Yield whether sequences stay apart, and what plays query, key and value in a layer."""
    if not any(recipe and recipe.softmax.cause == "softmax-axis" for recipe in recipes):
        advice = next(filter(None, map(layers.exchanged, cores)), "")
        yield from behaviour.mixed(watch.call, advice)
    yield from sides.unused_sides(watch.call, cores)
    several = len(set(watch.call.signature.sides.values())) > 1
    if several and not watch.call.signature.large and not seen.findings:
        yield from sides.exchanged_sides(watch)


def _told(group: Explained, seen: Results, *, meant: bool) -> Iterator[Fact]:
    """Yield what a recipe says of one attention, which may be ``meant`` to be causal."""
    watch, cores, recipe = group.watch, group.cores, group.recipe
    if recipe is None:
        if not seen.findings:
            yield from unnamed.unexplained(watch, cores[0], meant=meant)
        return
    samples = [core.sample for core in cores]
    if not cores[0].known or seen.has("wrong-source"):
        recipe = replace(recipe, scale=recipe.scale._replace(cause=None))
    recipe, facts = as_chosen(watch.call, recipe, samples[0])
    yield from facts
    table = cores[-1].weights if recipe.weights(samples[-1]) is None else None
    yield from slips_told(recipe, samples, weights=table)
    if recipe.order not in ORDERS:  # measured
        yield from unnamed.pattern_told(recipe, samples[0], meant=meant)
    elif meant and recipe.order is DENSE:
        yield unnamed.not_causal(samples[0])
    elif recipe.order is DENSE and maybe_causal(watch.call.signature):
        words = "Its name speaks of a decoder, and its queries see later keys."
        yield ask("causal-missing", words, "With causal=True it is a finding.")
    elif recipe.order in (CAUSAL, ENDS) and recipe.hiding.cause is None:
        yield held("causal", "no query sees a later key (causal)")
    yield from right_told(recipe, samples[0], known=cores[0].known)


def _at_large_scores(
    watch: Observer, recipes: list[Recipe | None], seen: Results, *, rough: bool
) -> Iterator[Fact]:
    """Yield what is right at ordinary scores only."""
    if watch.call.signature.large:
        return
    if not (seen.findings or seen.gap or None in recipes):
        yield from strain.limited(watch, recipes, rough=rough)
        if watch.call.plan.dtype == torch.float64:
            yield from strain.in_single_precision(watch, recipes)
    for place, recipe in enumerate(recipes):
        if not seen.findings and recipe is not None and recipe.order is not DENSE and not rough:
            yield from strain.strained(watch, recipe, place, "later keys")


def _masks(
    watch: Observer, recipes: list[Recipe | None], seen: Results, *, rough: bool
) -> Generator[Fact, None, Observer]:
    """Yield what becomes of masks and of the causal switch, unless more is wrong than a factor."""
    signature, clean = watch.call.signature, []
    if any(not finding.name.startswith("scale") for finding in seen.findings):
        return watch
    examined = seen.gap is None or seen.gap.name.startswith("scale-constant")
    for mask in signature.masks if examined else ():
        yield tried(mask.name)
        attempts = attempted(watch, mask, recipes)
        watch = attempts.watch
        if attempts.clean:
            clean.append(attempts)
            if not seen.findings:
                yield from weights.returned([attempts.clean.core])
        yield from masks.mask_told(attempts, rough=rough)
    if len(clean) == 2 and not signature.large:
        yield from masks.both_masks(watch, recipes[0], tuple(clean))
    adding = signature.options.mask in ("blocked", "additive") and not signature.masks
    if examined and adding and signature.options.call is None:
        yield unexamined(
            "It was said what its mask means, but no mask was found.",
            remedy="Pass call= with an adapter that gives it.",
        )
    if signature.switches and recipes[0] is not None and not signature.torchs:
        yield from causality.switched(watch, recipes[0])
        if clean and seen.holds("causal"):
            yield from causality.switched_with_mask(watch, recipes[0], clean)
    return watch


def _behaviour(call: Call, seen: Results, *, rough: bool) -> Iterator[Fact]:
    """Go through what may be wrong beside the numbers; where NaN comes out, nothing is said."""
    output = call(call.inputs()).output
    if output is None:
        return
    if call.signature.large:
        yield note(
            "large",
            "It is large: how heads are cut, which input is used for what, gradients and memory "
            "were not tried.",
        )
    elif output.isfinite().all():
        yield from _between_calls(call, seen, rough=rough)
        yield from behaviour.in_own_half(call)
    yield from behaviour.settings_stay(call)
    if not seen.has("modifies-input") and (fact := behaviour.arguments_stay(call)):
        yield fact
    yield from behaviour.too_slow(call)


def _between_calls(call: Call, seen: Results, *, rough: bool) -> Iterator[Fact]:
    """Yield what is kept between calls, what one sequence alone gives, and where gradients go."""
    if call.caller.out_of_time or seen.has("modifies-input"):
        return
    remembered = behaviour.remembered(call)
    yield from remembered
    if not remembered and not seen.findings and not seen.gap:
        yield from behaviour.alone_or_together(call)
    if not rough and not call.caller.out_of_time and not seen.has("modifies-input"):
        yield from gradients.reached(call)
