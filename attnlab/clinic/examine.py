"""The order of an examination: observe, explain, then masks, causality, heads and behaviour."""

from __future__ import annotations

from dataclasses import replace

from attnlab.clinic import _hints
from attnlab.clinic import hypotheses as hy
from attnlab.clinic._results import Results
from attnlab.clinic.behaviour import examine_behaviour, mixed, steady, tell_nan
from attnlab.clinic.heads import (
    examine_cache,
    examine_grouped,
    examine_heads,
    examine_positions,
    examine_sides,
)
from attnlab.clinic.hypotheses import CAUSAL, DENSE, ENDS, Recipe, Sample, Sizes, explain
from attnlab.clinic.masks import examine_masks, examine_switch, leaks, returned, strain
from attnlab.clinic.names import CAUSAL as CAUSAL_NAME
from attnlab.clinic.names import numbers_of
from attnlab.clinic.observe import Core, observe
from attnlab.clinic.subject import DEMANDS, Subject
from attnlab.clinic.unnamed import causal_missing, examine_pattern, measured_recipe, unexplained
from attnlab.sandbox import name_of

OPEN = tuple(step for step in hy.STEPS if step != "masking")
LAYOUTS = {  # of functions: the number of dimensions, and what is exchanged
    (3, (0, 1)): ("batch-first", "(L, N, E)", _hints.time_before_batch),
    (4, (1, 2)): ("head-mixing", "(N, L, H, E)", _hints.tokens_before_heads),
}


def examine(subject: Subject, results: Results) -> None:
    """Examine a function or a layer of attention."""
    if not subject.find_call():
        no_call(subject, results)
        return
    if steady(subject, results):
        _attention(subject, results)
    results.sizes = subject.shapes
    if not results.has("random"):
        examine_behaviour(subject, results)
    results.untried = untried(subject)
    if "Ev" in subject.demand and not results.findings:
        results.ask("square-only", "It works only where value is as wide as query.")
    if subject.options.causal and not results.findings and not results.holds("causal"):
        results.unexamined(
            "That no query sees a later key could not be checked.",
            remedy="Examine its attention function by itself, or pass call=.",
        )


def untried(subject: Subject) -> tuple[str, ...]:
    """Return the arguments that no call was given, and the mode of a layer that was left out."""
    used = {one.name for one in subject.known} if subject.options.call else subject.given
    left = [one.name for one in subject.known if one.name not in used | subject.sides.keys()]
    return (*left, *(["train mode"] if subject.module is not None else []))


def _attention(subject: Subject, results: Results) -> None:
    cores = observe(subject)
    if not cores:
        _not_followed(subject, results)
        return
    groups = [[core] for core in cores] if subject.followed else [cores]
    found = [best(subject, group, results) for group in groups]
    cores = [core for group in groups for core in group]
    if subject.followed:
        if not any(recipe and recipe.softmax.cause == "softmax-axis" for recipe in found):
            mixed(subject, results)
        examine_sides(subject, cores, results)
    for recipe, group in zip(found, groups, strict=True):
        _tell(subject, recipe, group, results)
    if subject.followed:
        examine_heads(subject, cores, results)
    limited(subject, found, results)
    for place, recipe in enumerate(found):
        if not results.findings and recipe is not None and recipe.order is not DENSE:
            strain(subject, recipe, place, "later keys", results)
    if subject.followed or subject.inside:
        examine_positions(subject, results)
    if not subject.followed and found[0] is not None and not found[0].slips:
        mixed(subject, results)
        examine_grouped(subject, found[0], results)
        if not results.has("batch-mixing", "head-mixing"):
            results.held("apart", "a sequence gives the same result alone as in a batch")
    if any(not core.sample.output.isfinite().all() for core in cores) and not results.findings:
        tell_nan(subject, results)
    returned(cores, results)
    scaled = all(finding.name.startswith("scale") for finding in results.findings)
    if scaled and results.gap is None:
        examine_masks(subject, found, results)
    if scaled:
        examine_switch(subject, found[0], results)
    if subject.followed and not results.findings:
        leaks(subject, meant_causal(subject) or causal_in(found), results)
    examine_cache(subject, results)
    if not results.findings and not subject.followed and found[0] is not None:
        _aligned(subject, found[0], cores[0].sample.sizes, results)
    if not all(core.known for core in cores):
        sentence = "By what query and key are multiplied could not be told."
        results.ask("scale-other", sentence, "Examine its attention function by itself.")


def _not_followed(subject: Subject, results: Results) -> None:
    """Say what can be said of a layer whose attention was not found."""
    if not mixed(subject, results) and not results.findings:
        leaks(subject, meant_causal(subject), results)
        results.unexamined(
            "No product of queries and keys was seen, so neither the scale nor the softmax could "
            "be examined.",
            remedy="Examine its attention function by itself.",
        )


def causal_in(found: list[Recipe | None]) -> bool:
    """Return whether every attention blocks later keys."""
    return bool(found) and all(one is not None and one.order in (CAUSAL, ENDS) for one in found)


def meant_causal(subject: Subject) -> bool:
    """Return whether no query is meant to see a later key."""
    if subject.options.causal is not None:
        return subject.options.causal
    free = not subject.masks and not subject.switches
    return free and bool(CAUSAL_NAME.search(name_of(subject.target)))


# --- one attention --------------------------------------------------------------------------------


def best(subject: Subject, cores: list[Core], results: Results) -> Recipe | None:
    """Return the recipe with the fewest slips; ``cores`` become those that it explains."""
    recipe = _recipe(subject, cores)
    if recipe is None and "E" in subject.demand:
        inside = {"inside": True, "demand": {**subject.demand, "L": "S"}}
        recipe = _other(subject, inside, cores, keep=bool)
    if subject.followed or (recipe is not None and not recipe.slips) or subject.swap:
        return recipe
    for (ndim, swap), (name, layout, says) in LAYOUTS.items():
        if ndim == subject.ndim:
            other = _other(subject, {"swap": swap}, cores)
            if other and not other.slips:
                read = f"Its inputs are read as {layout}, as its text says."
                asked = f"It computes attention if its inputs are {layout}, and something else if "
                asked += "they are in the usual order, with the tokens last but one."
                remedy = "Pass call= with an adapter that brings them into its order."
                if says(subject.target):
                    results.note("layout", read)
                else:
                    results.ask(name, asked, remedy)
                return other
    only_scaled = recipe is not None and recipe.slips == (recipe.scale,)
    for demand in DEMANDS[2:4] if subject.demand in DEMANDS[:2] and not only_scaled else ():
        other = _other(
            subject,
            {"demand": demand},
            cores,
            keep=lambda other: not other.slips or other.order is not DENSE or recipe is None,
        )
        if other:
            sentence = "It computes attention only where there are as many keys as queries."
            if other.slips or other.order is not DENSE:
                results.note("square", sentence)
            else:
                results.found("square-only", sentence)
            return other
    return recipe


def _other(subject: Subject, changes: dict, cores: list[Core], keep=None) -> Recipe | None:
    """Observe it in another way; take that over if it explains what it does."""
    before = {name: getattr(subject, name) for name in changes}
    vars(subject).update(changes)
    again = observe(subject)
    other = explain([core.sample for core in again], steps=OPEN) if again else None
    if other and (keep(other) if keep else not other.slips):
        cores[:] = again
        return other
    vars(subject).update(before)
    return None


def _recipe(subject: Subject, cores: list[Core]) -> Recipe | None:
    """Return what explains these samples: a named way, a measured factor, or something added."""
    samples = [core.sample for core in cores]
    recipe = explain(samples, steps=OPEN)
    if recipe is None:  # as far as three digits
        rough = [sample._replace(output=sample.output.float()) for sample in samples]
        recipe = explain(rough, steps=OPEN)
        later = max(hy.measured_weights(sample).triu(1).abs().max() for sample in samples)
        right = recipe is not None and not recipe.slips
        subject.rough = right and (recipe.order is DENSE or bool(later < 1e-7))
        recipe = recipe if subject.rough else None
    if recipe is not None:
        return recipe
    again = [core.sample for core in observe(subject, seed=2)]
    shapes = [sample.output.shape for sample in samples]
    place = [other for other in again if other.output.shape in shapes]
    pairs = list(zip(samples, place, strict=False))
    return measured_recipe(pairs) if pairs else None


def _tell(subject: Subject, recipe: Recipe | None, cores: list[Core], results: Results) -> None:
    """Report what a recipe says of one attention."""
    meant = meant_causal(subject)
    if recipe is None:
        if not results.findings:
            unexplained(subject, cores[0], results, meant=meant)
        return
    samples = [core.sample for core in cores]
    if not cores[0].known or results.has("wrong-source"):
        recipe = replace(recipe, scale=recipe.scale._replace(cause=None))
    recipe = as_told(subject, recipe, samples[0], results)
    weights = cores[-1].weights if recipe.weights(samples[-1]) is None else None
    hy.report(recipe, samples, results, weights=weights)
    measured = recipe.order not in hy.ORDERS
    if measured:
        examine_pattern(recipe, samples[0], results, meant=meant)
    elif meant and recipe.order is DENSE:
        causal_missing(samples[0], results)
    elif recipe.order in (CAUSAL, ENDS) and recipe.hiding.cause is None:
        results.held("causal", "no query sees a later key (causal)")
    _hold(recipe, cores[0], results)


def _hold(recipe: Recipe, core: Core, results: Results) -> None:
    """Say which steps are right."""
    if recipe.softmax.cause is None:
        results.held("sums", "without a mask, the weights of every query sum to 1")
    if recipe.product.cause is None and recipe.sides.cause is None:
        results.held("products", "the scores are dot products of query and key")
    if recipe.scale is hy.RIGHT_SCALE and core.known:
        E = core.sample.sizes.E
        results.held("scale", f"the dot products are divided by sqrt(d_k), here sqrt({E})")
    if recipe.sides.cause is None and recipe.after.cause is None:
        results.held("average", "each row of the output is a weighted average of the rows of value")


def _aligned(subject: Subject, recipe: Recipe, sizes: Sizes, results: Results) -> None:
    """Say where the causal mask lies if there are fewer queries than keys."""
    if recipe.order is not CAUSAL or sizes.L >= sizes.S:
        return
    words = f"With {sizes.L} queries and {sizes.S} keys its causal mask lies at the upper left"
    if _hints.says_newest(subject.target):
        results.ask(
            "cache",
            f"{words}. Its text says that the queries are the newest tokens: the last of them "
            "should see every key.",
            "Align the mask at the lower right: tril(diagonal=S - L).",
        )
    else:
        results.note(
            "aligned",
            f"{words}, as in F.scaled_dot_product_attention. Behind a cache it would have to lie "
            "at the lower right.",
        )


def as_told(subject: Subject, recipe: Recipe, sample: Sample, results: Results) -> Recipe:
    """Return the recipe without blame for a factor that the caller or its own text chose."""
    if recipe.scale.cause == "scale-missing" and _hints.says_unscaled(subject.target):
        results.note("scale", "The scores are not scaled, as its own text says.")
        return replace(recipe, scale=recipe.scale._replace(cause=None))
    if recipe.scale.cause in ("scale-constant", "scale-other", "scale-missing"):
        factor = recipe.scale.compute(sample.sizes)
        for name, number, _ in numbers_of(subject.target):
            near = min(abs(told / factor - 1) for told in (number**-0.5, number, 1 / number))
            if number != 1 and near < 1e-2:
                results.note("scale", f"The factor on the dot products is that of {name}.")
                return replace(recipe, scale=recipe.scale._replace(cause=None))
    return recipe


def limited(subject: Subject, found: list[Recipe | None], results: Results) -> None:
    """Ask about scores that are scaled dot products only where they are small.

    Of one that is right to about three digits, very small ones tell a limit from lower precision.
    """
    if results.findings or results.gap or None in found or subject.large:
        return
    cores = observe(subject, parts=subject.louder(0.1 if subject.rough else 3.0))
    for core, recipe in zip(cores, found, strict=False):
        if recipe.weights(core.sample) is None or not core.sample.output.isfinite().all():
            continue
        exact = recipe.gives(core.sample)
        rounded = recipe.gives(core.sample._replace(output=core.sample.output.float()))
        if exact if subject.rough else not rounded:
            results.ask(
                "scores-not-dot-products",
                "Small scores are scaled dot products, and large ones are not: something limits "
                "them.",
            )
        elif subject.rough:
            words = "Some step is computed in lower precision than its input: only about 3 digits"
            results.note("dtype", f"{words} are right.")


# --- no call --------------------------------------------------------------------------------------


def no_call(subject: Subject, results: Results) -> None:
    """Say why no call gives an output."""
    vars(subject).update(next(subject._plans()))
    first, parts = subject.first, subject.inputs()
    given = ", ".join(f"{name}: {tuple(parts[side].shape)}" for name, side in subject.sides.items())
    made = f"{name_of(subject.target)}({given})"
    error, value = first.error, first.value
    strange = [one.name for one in subject.needed()]
    adapter = "Pass call= with an adapter that makes a call which works."
    if subject.caller.hangs:
        limit = subject.options.time_limit
        late = first.seconds > 2 * limit + 1
        deaf = " It spends them in compiled code, which cannot be stopped." if late else ""
        results.unexamined(
            f"{made} gives no answer within {limit:g} seconds of computing.{deaf}",
            remedy="Look for a loop that never ends; if it only takes long, pass "
            f"time_limit={4 * limit:g}.",
            name="hangs",
        )
    elif isinstance(error, NotImplementedError) or (error is None and value is None):
        told = first.trouble or "returns None"
        results.found(
            "wrong-shape",
            f"It gives no tensor: {told}. Its body is to be written.",
            advice="write the body and return the result.",
        )
    elif strange:
        names = " and ".join(strange)
        what = f"What {names} should be is not known, so {name_of(subject.target)} could not be "
        results.unexamined(f"{what}examined.", call=made, remedy=adapter)
    elif _works_where_equal(subject):
        results.found(
            "square-only",
            "It works only where there are as many tokens as sequences: "
            + (f"{made} raises {first.trouble}." if error else "its output has another shape."),
        )
    elif error is None:
        shape = tuple(getattr(value, "shape", ()))
        sentence = f"{made} returns {f'a tensor {shape}' if shape else type(value).__name__}"
        if subject.followed:
            results.ask("wrong-shape", f"{sentence}, which is no output for every query.", adapter)
        else:
            right = (*parts["query"].shape[:-1], parts["value"].shape[-1])
            results.found("wrong-shape", f"{sentence}; it should be {right}.")
    elif len(subject.sides) == 2 and not subject.followed:
        results.unexamined(
            "It takes no query, key and value: only attention as a whole is examined.", call=made
        )
    else:
        results.ask(
            "raises",
            f"{made} raises {first.trouble}, and no other call that was tried works.",
            adapter,
            call=made,
        )


def _works_where_equal(subject: Subject) -> bool:
    """Return whether it works only where L = N, which hides a mix-up of the two."""
    if not subject.followed:
        before = subject.demand
        subject.demand, subject.ndim = {"L": "N", "S": "N"}, 3
        works = subject(subject.inputs()) is not None
        subject.demand = before
        return works
    subject.form = None
    for embed in subject.widths()[:3] or [12]:
        vars(subject).update(embed=embed, length=3, memory=3, batch=3, ndim=3)
        reply = subject(subject.inputs())
        if reply is not None and subject.alive(reply):
            return True
    return False
