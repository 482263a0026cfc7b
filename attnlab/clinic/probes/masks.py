"""What becomes of the masks that are given: one alone, a second one, two at once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import torch

from attnlab.clinic.family import CAUSAL, DENSE
from attnlab.clinic.forms import pattern, single
from attnlab.clinic.names import Argument
from attnlab.clinic.observe import Core, Observer, recorded
from attnlab.clinic.probes.attempts import Attempt, Attempts, judged, mask_sizes, size_of, with_mask
from attnlab.clinic.probes.strain import strained
from attnlab.clinic.results import Fact, ask, held, lost, note, unexamined, wrong
from attnlab.clinic.sample import SURE, Way
from attnlab.clinic.search import Recipe
from attnlab.clinic.signature import meaning_of
from attnlab.clinic.words import slips_told

SUBTRACTED = Way(
    "mask-inverted",
    "{The_mask} is subtracted from the scores instead of added: keys for which it holds -3 gain, "
    "and take {taken} of a query's weight.",
    lambda scores, allowed, softmax: softmax(scores + 3.0 * ~allowed),
    "add it: scores + bias.",
)
MEANINGS = {
    "allowed": 'True means “may attend” (mask="allowed")',
    "blocked": 'True means “blocked” (mask="blocked")',
    "additive": 'it is added to the scores and holds 0 and minus infinity (mask="additive")',
}


# --- what is said of a mask -----------------------------------------------------------------------


def mask_told(attempts: Attempts, *, rough: bool) -> Iterator[Fact]:
    """Yield what became of one mask."""
    mask, watch, clean = attempts.mask, attempts.watch, attempts.clean
    signature = watch.call.signature
    trouble = attempts.trouble
    if clean is not None:
        masks = {mask.name: clean.given}
        trouble = recorded(watch.call, watch.call.inputs(N=3), masks=masks)[0].outcome.trouble
    if "is_causal" in trouble:
        sentence = f"With {mask.name} torch's plain kernel raises {trouble}."
        yield wrong("raises", sentence, advice="combine both into one mask: mask & causal.")
    elif clean is not None:
        if clean.base.order is DENSE and clean.recipe.order is CAUSAL:
            sentence = f"With {mask.name} no query sees a later key, and without it queries do."
            advice = "block later keys whether a mask is given or not."
            yield wrong("causal-missing", sentence, advice=advice)
        yield from _padding(attempts)
        yield from _second(attempts)
        yield from _right(attempts)
        yield from _empty_row(attempts)
        if not rough:
            yield from _strained(attempts)
    elif attempts.right is not None:
        yield _asked(attempts)
    elif attempts.made:
        yield from _accused(attempts)
    else:
        meaning, _ = signature.said(mask)
        meant = f", in which {MEANINGS[meaning]}," if meaning else ""
        yield unexamined(
            f"No mask that was tried as {mask.name}{meant} works: {trouble or 'no output'}.",
            remedy="Pass mask= to say what it holds, or call= with an adapter.",
        )


def _right(attempts: Attempts) -> Iterator[Fact]:
    """Yield that a mask is right, and as what it is read."""
    mask, form = attempts.mask, attempts.clean.form
    yield held("blocked-keys", f"a blocked key gets no weight and changes nothing ({mask.name})")
    meaning = meaning_of(form.kind)
    said, by = attempts.watch.call.signature.said(mask)
    if form.letters != "(N,)" and meaning == said and by in ("words", "name", "torch"):
        read = f"The mask {mask.name} is read as {by} say{'s' * (by != 'words')}"
        yield note("mask", f"{read}: {MEANINGS[meaning]}.")


def _asked(attempts: Attempts) -> Fact:
    """Return the question what a mask means, which gives attention in another reading only."""
    mask, meaning = attempts.mask.name, meaning_of(attempts.right.form.kind)
    said, by = attempts.watch.call.signature.said(attempts.mask)
    usual = said or "allowed"
    doubt = f"Its text says that {MEANINGS[said]}" if by == "words" else "Nothing says which"
    which = f"{doubt}; it computes attention if {MEANINGS[meaning]}."
    remedy = f'Pass mask="{meaning}" if that is what you mean; with mask="{usual}" it is a finding.'
    if meaning == "additive":
        words = f"{mask} is added to the scores. {which} A mask of True and False, or of 0 and 1, "
        return ask("mask-added", f"{words}would only move scores by 1.", remedy)
    words = f"In {mask} True may mean “may attend”, as in F.scaled_dot_product_attention, or "
    return ask("mask-inverted", f"{words}“blocked”, as in nn.MultiheadAttention. {which}", remedy)


def _accused(attempts: Attempts) -> Iterator[Fact]:
    """Yield what is wrong with a mask that gives attention in no reading."""
    mask, made, watch = attempts.mask, attempts.made, attempts.watch
    said = watch.call.signature.said(mask)[0] or "allowed"
    as_said = [attempt for attempt in made if meaning_of(attempt.form.kind) == said] or made
    acting = [attempt for attempt in as_said if attempt.recipe.masking.cause != "mask-ignored"]
    first = (acting or as_said)[0]
    if first.recipe.masking.cause == "mask-inverted" and first.form.letters == "(N,)":
        yield wrong(
            "mask-inverted",
            "The lengths are used the wrong way around: it sees the padding and not the tokens.",
            advice="positions < lengths[:, None] may be seen.",
        )
        return
    recipe, core = _subtracted(watch, mask, first) or (first.recipe, first.core)
    yield from slips_told(
        Recipe(masking=recipe.masking, softmax=recipe.softmax),
        [core.sample],
        weights=core.weights,
        mask=f"the mask {mask.name}",
    )


def _subtracted(watch: Observer, mask: Argument, attempt: Attempt) -> tuple[Recipe, Core] | None:
    """Return what shows that an additive mask is subtracted: minus infinity only gives NaN."""
    if attempt.recipe.masking.cause != "nan" or attempt.form.kind != "additive":
        return None
    masks, allowed = {mask.name: attempt.given.clamp_min(-3)}, attempt.core.sample.allowed
    recipe = replace(attempt.base, masking=SUBTRACTED)
    cores = watch(masks=masks, allowed=allowed)[attempt.place :]
    return (recipe, cores[0]) if cores and recipe.gives(cores[0].sample) else None


# --- what a right mask must do besides ------------------------------------------------------------


def _padding(attempts: Attempts) -> Iterator[Fact]:
    """Change the tokens that a mask blocks: the outputs of the others must not move."""
    mask, call, clean = attempts.mask, attempts.watch.call, attempts.clean
    signature, keep = call.signature, clean.core.sample.allowed[:, 0, 0]
    fits = signature.followed and clean.form.per_key and signature.options.call is None
    parts, fresh = call.inputs(N=3), call.inputs(seed=8, N=3)
    if not fits or parts["key"].shape[:2] != keep.shape:
        return
    if not signature.alone and len(attempts.watch()) != 1:
        return  # the mask may be that of one attention among several
    own = ("key", "value") if not signature.alone else tuple(parts)
    moved = {s: torch.where(keep[..., None], parts[s], fresh[s]) for s in own}
    before, after = (
        call(tokens, masks={mask.name: clean.given}).output for tokens in (parts, parts | moved)
    )
    if before is None or after is None:
        return
    apart = (before - after).abs().amax(dim=-1)
    apart = apart[keep].max() if signature.alone and apart.shape == keep.shape else apart.max()
    if apart > SURE * before.abs().max():
        yield wrong(
            "mask-leak",
            f"Tokens that {mask.name} blocks move the outputs of others by "
            f"up to {apart:.2g}, though no query looks at them.",
            advice="keep padding out of every step, such as a mean over tokens.",
        )


def _second(attempts: Attempts) -> Iterator[Fact]:
    """Give another mask of the same shape: the first must not stay; nor must a causal order go."""
    mask, watch, clean = attempts.mask, attempts.watch, attempts.clean
    if watch.call.signature.large:
        return
    cores = with_mask(watch, mask.name, clean.form, size_of(clean.core.sample), seed=4)[
        clean.place :
    ]
    if not cores or cores[0].sample.allowed is None:
        return
    if judged(clean.base, cores[0]).masking.cause:
        yield wrong(
            "remembers",
            f"A second mask {mask.name} is not used as the first was: something of it is kept.",
        )
    elif clean.recipe.order is DENSE is not clean.base.order:
        words = f"Where {mask.name} is given, it takes the place of the causal mask: queries see "
        causal = watch.call.signature.options.causal
        words += "later keys that it allows."
        yield ask("causal-leak", words) if causal else note("causal", words)
        yield lost("causal")


def _empty_row(attempts: Attempts) -> Iterator[Fact]:
    """Block every key: a row without a key gives 0, as in torch."""
    mask, call, form = attempts.mask, attempts.watch.call, attempts.clean.form
    if call.signature.followed or form.letters == "(N,)":
        return
    parts = call.inputs(N=3)
    none = form.whole(parts["query"], parts["key"], call.plan.dtype, may=False)
    output = call(parts, masks={mask.name: none}).output
    if output is None:
        return
    if not output.isfinite().all():
        yield note("empty-row", "A row with no allowed key gives NaN.")
    elif output.abs().max() < 1e-9:
        yield held("empty-row", "a query whose keys are all blocked gives 0")
    else:
        yield note("empty-row", "A row with no allowed key averages the values.")


def _strained(attempts: Attempts) -> Iterator[Fact]:
    """Leave every query one key, and let its score be low."""
    mask, watch, clean = attempts.mask, attempts.watch, attempts.clean
    few = single(clean.form, *size_of(clean.core.sample))
    masks, blocked = {mask.name: clean.form(few, watch.call.plan.dtype)}, f"keys that {mask.name}"
    blocked += " blocks"
    yield from strained(watch, clean.base, clean.place, blocked, masks=masks, allowed=few)


def both_masks(
    watch: Observer, recipe: Recipe | None, pair: tuple[Attempts, Attempts]
) -> Iterator[Fact]:
    """Give two masks at once: neither may be lost."""
    (first, form), (second, beside) = ((tries.mask.name, tries.clean.form) for tries in pair)
    cores = with_mask(watch, first, form, mask_sizes(watch)[0], beside=(second, beside))
    if len(cores) != 1 or recipe is None or cores[0].sample.allowed is None:
        return
    sample = cores[0].sample
    if recipe.gives(sample):
        yield held("both-masks", f"{first} and {second} work together")
        return
    size = size_of(sample)
    for kept, left, allowed in (
        (first, second, pattern(form, *size)),
        (second, first, pattern(beside, *size, seed=4)),
    ):
        if recipe.gives(sample._replace(allowed=allowed.expand_as(cores[0].weights))):
            sentence = f"Together with {kept}, {left} is lost: keys that it blocks are seen again."
            yield wrong("mask-ignored", sentence)
