"""Probes of the mask arguments of an attention function that is right without them."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from attnlab.clinic._calling import Unusable
from attnlab.clinic._hints import (
    says_additive,
    says_blocked,
    says_heads,
    says_true_is_padding,
    text_of,
)
from attnlab.clinic._results import Results
from attnlab.clinic.functions.calls import (
    FORMS,
    GENERAL,
    LENGTHS,
    Attention,
    Form,
    as_sample,
    relaxed,
)
from attnlab.clinic.hypotheses import (
    CAUSAL,
    IGNORE,
    INVERT,
    SURE,
    Recipe,
    Sample,
    Sizes,
    Way,
    explain,
    masked_table,
    measured_masking,
    measured_weights,
    number_table,
    report,
    same,
    weights_table,
)

EQUAL_HEADS = Sizes(N=3, H=3)
SLIPS_OF_THE_PEN = (NameError, AttributeError)  # no other mask would help
LIKE_A_MASK = (None, "mask-inverted", "mask-finite", "mask-transposed", "mask-multiplied")
LEVELS = (-20.0, -100.0, -1000.0)  # scores that ordinary large inputs can reach
WORDS = {"blocked": "True = blocked", "additive": "0 and minus infinity", None: "True = may attend"}
TURN = "turn the mask around: masked_fill(mask, -torch.inf)."


def _opposite(who: str, advice: str) -> Way:
    words = (
        f"True means “may attend” in this mask, as in F.scaled_dot_product_attention; {who} "
        "the opposite: then blocked keys take {taken} of a query's weight."
    )
    return Way("mask-inverted", words, INVERT.compute, advice)


STILL_BLOCKED = _opposite('mask="blocked" says', f'leave mask="blocked" out, or {TURN}')
NOT_AS_SAID = _opposite("its own words say", TURN)


class Trial(NamedTuple):
    """One accepted call with a mask."""

    ndim: int
    form: Form
    sizes: Sizes
    sample: Sample


def examine_masks(attention: Attention, results: Results, recipe: Recipe) -> None:
    """Find out what the mask arguments do; ``recipe`` is right and says the rest."""
    takes = attention.takes
    if takes.mask is None and takes.lengths is None:
        _look_for_one(attention, results, recipe)
    if takes.mask is None and takes.lengths is None:
        return
    ndims = sorted(attention.ndims, key=lambda ndim: ndim == 2)  # a batch first
    trials = [trial for ndim in ndims if (trial := _first_accepted(attention, ndim))]
    if not trials:
        _nothing_accepted(attention, results, recipe)
        return
    trial = trials[0]
    judged = _judged(recipe, trial.sample)
    if _says_otherwise(attention, judged.masking, recipe, trial, results):
        trial = _again(attention, trial, attention.convention)
        judged = trial and _judged(recipe, trial.sample)
    if trial is None:
        return
    if judged.slips != recipe.slips:
        _accuse(attention, judged, trial, results)
        return
    if _not_as_said(attention, recipe, trial, results):
        return
    means = "lengths" if trial.form is LENGTHS else WORDS[attention.convention]
    form = trial.form.letters
    results.held("blocked-keys", f"a blocked key gets no weight (mask {form}, {means})")
    examine_returned(attention, results, trial)
    for other in trials[1:]:
        _with_other_dimensions(attention, other, recipe, results)
    _further_masks(attention, results, recipe, trial)
    if trial.form is not LENGTHS:
        _order_forgotten(attention, results, recipe, trial)
        _leaks_at_low_scores(attention, results, recipe, trial)
        _row_without_keys(attention, results, trial)


def _look_for_one(attention: Attention, results: Results, recipe: Recipe) -> None:
    """Take an argument of unknown name for a mask if it does what a mask does, and only then."""
    if attention.options.call is not None:
        results.note("mask", "The adapter passes no mask on, so that masks were not examined.")
    for one in [one for one in attention.takes.unknown if not one.required]:
        attention.takes.masks = [one]
        trials = (_first_accepted(attention, ndim) for ndim in sorted(attention.ndims)[::-1])
        trial = next(filter(None, trials), None)
        if trial and _judged(recipe, trial.sample).masking.cause in LIKE_A_MASK:
            return
        attention.takes.masks = []
        results.note("arguments", f"The argument {one.name} was left at its default.")


# --- one mask -------------------------------------------------------------------------------------


def _first_accepted(attention: Attention, ndim: int) -> Trial | None:
    """Return the first call that the function takes, of all the forms; None if it takes none."""
    mask = attention.takes.mask
    forms = FORMS[ndim] if mask else (LENGTHS,)
    if mask and mask.role == "padding":
        forms = tuple(sorted(forms, key=lambda form: not form.per_key))
    required = attention.number
    for attention.number in (True,) if required else (False, True):
        for sizes in (GENERAL, relaxed(GENERAL, "L = S"), *[EQUAL_HEADS] * (ndim == 4)):
            for form in forms:
                if trial := _trial(attention, ndim, form, sizes):
                    return trial
    attention.number = required
    return None


def _trial(
    attention: Attention, ndim: int, form: Form, sizes: Sizes, convention: str | None = None
) -> Trial | None:
    sizes = attention.sizes(sizes)
    allowed = pattern(sizes, form, ndim)
    mask = attention.given(form, allowed, convention)
    try:
        sample = attention.sample(ndim, sizes, mask=mask, allowed=allowed)
    except Unusable:
        return None
    return Trial(ndim, form, sizes, sample)


def _again(attention: Attention, trial: Trial, convention: str | None) -> Trial | None:
    return _trial(attention, trial.ndim, trial.form, trial.sizes, convention)


def pattern(sizes: Sizes, form: Form, ndim: int = 4) -> Tensor:
    """Return a mask (N, H, L, S) without symmetry, with a True and a False in every row."""
    N, H = sizes.N if ndim > 2 else 1, sizes.H if ndim > 3 else 1
    full, S = (N, H, sizes.L, sizes.S), sizes.S
    if form is LENGTHS:
        lengths = (2 * torch.arange(N) + 3) % (S - 1) + 1
        return (torch.arange(S) < lengths[:, None, None, None]).expand(full)
    shape = [1 if dim in form.shared else size for dim, size in enumerate(full)]
    allowed = torch.rand(shape, generator=torch.Generator().manual_seed(3)) < 0.55
    turn = torch.arange(shape[2])[:, None] % S
    allowed |= torch.arange(S) == (turn + 2) % S
    allowed &= torch.arange(S) != (turn + 4) % S
    return allowed.expand(full)


def _judged(recipe: Recipe, sample: Sample) -> Recipe:
    """Return the recipe with what was done with the mask, named or measured."""
    found = explain([sample], recipe, ("masking", "softmax"))
    if found is not None:
        return found
    weights = measured_weights(sample)
    scores, order = recipe.scores(sample), recipe.order.compute(*weights.shape[-2:])
    allowed = sample.allowed
    if order is not None and order.dtype != torch.bool:
        order, scores = order.isfinite(), scores + order
    if order is not None:
        allowed, scores = allowed & order, scores.masked_fill(~order, -torch.inf)
        if not allowed.any(dim=-1).all():
            return recipe  # rows without a key may hold anything: nothing can be measured
    return replace(recipe, masking=measured_masking(scores, weights, allowed))


def _says_otherwise(
    attention: Attention, way: Way, recipe: Recipe, trial: Trial, results: Results
) -> bool:
    """Return whether the function says that its mask means something else, and it does."""
    mask = attention.takes.mask
    if mask is None or attention.convention is not None or attention.options.call is not None:
        return False
    name = attention.takes.mask.name
    if way is INVERT and (mask.role == "padding" or says_blocked(attention.function, name)):
        attention.convention = "blocked"
        words = "True means padding" if mask.role == "padding" else "True means blocked"
        results.note("mask-convention", f"{name} is read as in nn.MultiheadAttention: {words}.")
        return True
    if way.cause in (None, "mask-ignored", "mask-inverted"):
        return False
    if not (attention.number or says_additive(attention.function, name)):
        return False
    added = _again(attention, trial, "additive")
    if added is None or _judged(recipe, added.sample).masking.cause is not None:
        return False
    attention.convention = "additive"
    results.note(
        "mask-convention",
        "The mask is added to the scores: a boolean mask must be converted before.",
    )
    return True


def _not_as_said(attention: Attention, recipe: Recipe, trial: Trial, results: Results) -> bool:
    """Return whether a mask of padding is said to be True there, and blocks where it is False."""
    mask, told = attention.takes.mask, attention.options
    if mask is None or mask.role != "padding" or attention.convention or told.mask or told.call:
        return False
    name = mask.name
    results.note("mask-convention", f"{name}: True means a real token; torch's is the opposite.")
    if not says_true_is_padding(attention.function):
        return False
    turned = _again(attention, trial, "blocked")
    if turned is not None:
        judged = replace(recipe, masking=NOT_AS_SAID)
        _accuse(attention, judged, turned, results)
    return turned is not None


def _with_other_dimensions(
    attention: Attention, trial: Trial, recipe: Recipe, results: Results
) -> None:
    """Report a mask that is right with other dimensions only; with heads, if made for heads."""
    again = _again(attention, trial, attention.convention)
    judged = again and _judged(recipe, again.sample)
    if not judged or judged.slips == recipe.slips:
        return
    apart = Results()
    _accuse(attention, judged, again, apart)
    if trial.ndim == 4 and says_heads(attention.function):
        results.findings += apart.findings
    else:
        which = {2: "One sequence alone, (L, E)", 4: "With heads, (N, H, L, E)"}[trial.ndim]
        results.note("dimensions", f"{which}: {apart.findings[0]}")


def _accuse(attention: Attention, judged: Recipe, trial: Trial, results: Results) -> None:
    way = judged.masking
    if way is INVERT and attention.options.mask == "blocked":
        judged = replace(judged, masking=STILL_BLOCKED)
    weights = measured_weights(trial.sample)
    text = text_of(attention.function)
    report(judged, [trial.sample], results, weights=weights, text=text)


def _nothing_accepted(attention: Attention, results: Results, recipe: Recipe) -> None:
    """No boolean mask is taken: perhaps an additive one, or only if N and H are equal."""
    for ndim in attention.ndims:
        for form in FORMS[ndim] if attention.convention is None else ():
            trial = _trial(attention, ndim, form, GENERAL, "additive")
            if trial and _judged(recipe, trial.sample).masking.cause is None:
                results.held("blocked-keys", "an additive mask of 0 and minus infinity blocks keys")
                results.note("mask-convention", "It takes no boolean masks, only additive ones.")
                return
    query, key, value = attention.inputs(attention.main)
    form = FORMS[attention.main][0] if attention.takes.mask else LENGTHS
    mask = attention.given(form, pattern(attention.sizes(), form, attention.main))
    outcome = attention.outcome(query, key, value, mask=mask)
    name = (attention.takes.mask or attention.takes.lengths).name
    if isinstance(outcome.error, SLIPS_OF_THE_PEN):
        results.found("raises", f"With a mask {form.letters} it raises {outcome.trouble}.")
        return
    results.unexamined(
        f"No mask of a usual shape is taken; {form.letters} gives "
        f"{outcome.trouble or 'a result of the wrong shape'}.",
        call=attention.told(**{name: f"tensor {tuple(mask.shape)}"}),
        remedy="Pass call=, a function (target, query, key, value, attn_mask) that calls it with "
        "the mask it wants.",
    )


def examine_returned(attention: Attention, results: Results, trial: Trial | None = None) -> None:
    """Compare the weights that it returns with those that made the output."""
    ndim, mask = (trial.ndim, attention.given(trial.form, trial.sample.allowed)) if trial else (
        attention.main, None)  # fmt: skip
    inputs = query, key, _ = attention.inputs(ndim, trial.sizes if trial else GENERAL)
    try:
        result = attention(*inputs, mask=mask)
    except Unusable:
        return
    returned = result.weights
    if returned is None:
        if result.turned:
            shape = (*query.shape[:-1], key.shape[-2])
            sentence = f"The weights come back transposed: their shape should be {shape}."
            results.found("weights-differ", sentence)
        return
    used = measured_weights(as_sample((*inputs, result.output), GENERAL)).view_as(returned)
    if same(returned.float(), used):
        results.held("weights", "the returned weights are those that made the output")
        return
    worst = float((returned - used).abs().max())
    sentence = (
        f"The returned weights{' under a mask' if trial else ''} are not those that made the "
        f"output: they differ by up to {worst:.2f}."
    )
    evidence = weights_table("Returned as weights:", returned, sums=True)
    results.found("weights-differ", sentence, evidence)


# --- several masks at once ------------------------------------------------------------------------


def _further_masks(attention: Attention, results: Results, recipe: Recipe, trial: Trial) -> None:
    """Give every further mask alone and with the first one: both must block."""
    if trial.form is LENGTHS:
        return
    for other in attention.takes.masks[1:]:
        found = _second(attention, other.name, recipe, trial)
        if found is None:
            continue
        form, blocked = found
        allowed = pattern(trial.sizes, form, trial.ndim)
        alone = _with(attention, trial, {other.name: (form, allowed, blocked)})
        if alone is None or IGNORE is _judged(recipe, alone).masking:
            results.found("mask-ignored", f"The argument {other.name} changes nothing.")
            continue
        both = _with(attention, trial, {other.name: (form, allowed, blocked)}, first=True)
        if both is None or explain([both], recipe, ()) is not None:
            continue
        for lost, only in (
            (attention.takes.mask.name, allowed),
            (other.name, trial.sample.allowed),
        ):
            if explain([both._replace(allowed=only)], recipe, ()) is not None:
                kept = {attention.takes.mask.name, other.name} - {lost}
                sentence = f"With both masks, {lost} is forgotten and only {kept.pop()} blocks."
                evidence = masked_table(measured_weights(both), both.allowed)
                results.found("mask-leak", sentence, evidence, advice=BOTH)


BOTH = "apply the second mask to the masked scores: scores = scores.masked_fill(...)."


def _second(
    attention: Attention, name: str, recipe: Recipe, trial: Trial
) -> tuple[Form, bool] | None:
    """Return the form of a further mask, and whether True blocks in it."""
    taken = None
    for form in sorted(FORMS[trial.ndim], key=lambda form: not form.per_key):
        for blocked in (False, True):
            allowed = pattern(trial.sizes, form, trial.ndim)
            alone = _with(attention, trial, {name: (form, allowed, blocked)})
            if alone is None:
                continue
            taken = taken or (form, blocked)
            if explain([alone], recipe, ()) is not None:
                return form, blocked
    return taken


def _with(
    attention: Attention, trial: Trial, masks: dict[str, tuple], *, first: bool = False
) -> Sample | None:
    """Return a call with further masks, and with the first one if wanted."""
    allowed = trial.sample.allowed if first else torch.ones_like(trial.sample.allowed)
    named = {}
    for name, (form, may, blocked) in masks.items():
        named[name] = form.cut(~may if blocked else may)
        allowed = allowed & may
    if not allowed.any(dim=-1).any():
        return None
    inputs = attention.inputs(trial.ndim, trial.sizes)
    mask = attention.given(trial.form, trial.sample.allowed) if first else None
    try:
        output = attention(*inputs, mask=mask, **named).output
    except Unusable:
        return None
    return as_sample((*inputs, output), trial.sizes, allowed)


def _order_forgotten(attention: Attention, results: Results, recipe: Recipe, trial: Trial) -> None:
    """Switch causality on and give a mask as well: both must hold, or it may refuse."""
    if not attention.takes.causal:
        return
    sizes = relaxed(trial.sizes, "L = S")
    allowed = pattern(sizes, trial.form, trial.ndim)
    mask = attention.given(trial.form, allowed)
    try:
        sample = attention.sample(trial.ndim, sizes, mask=mask, allowed=allowed, causal=True)
    except Unusable:
        return
    name = attention.takes.causal.name
    evidence = weights_table("Weights with both:", measured_weights(sample))
    if explain([sample], recipe, ()) is not None:
        sentence = f"Once a mask is given, {name}=True is forgotten: later keys are seen again."
        results.found("causal-leak", sentence, evidence, advice=BOTH)
    elif explain([sample._replace(allowed=None)], replace(recipe, order=CAUSAL), ()) is not None:
        sentence = f"With {name}=True the mask is forgotten: blocked keys are seen again."
        results.found("mask-leak", sentence, evidence, advice=BOTH)


# --- what only some numbers show ------------------------------------------------------------------


def _leaks_at_low_scores(
    attention: Attention, results: Results, recipe: Recipe, trial: Trial
) -> None:
    """Repeat the call with all scores equal and very low: a finite fill lies above them."""
    query, key, value = attention.inputs(trial.ndim, trial.sizes)
    width, factor = query.shape[-1], abs(recipe.scale.compute(trial.sample.sizes))
    mask = attention.given(trial.form, trial.sample.allowed)
    for level in LEVELS:
        size = (abs(level) / factor / width) ** 0.5
        low, high = torch.full_like(query, -size), torch.full_like(key, size)
        try:
            output = attention(low, high, value, mask=mask).output
        except Unusable:
            return
        weights = measured_weights(as_sample((low, high, value, output), trial.sizes))
        leaked = weights.masked_fill(trial.sample.allowed, 0).sum(dim=-1).max()
        if leaked > SURE:
            sentence = (
                f"Blocked keys are filled with a finite number: once the allowed scores lie near "
                f"{level:.0f}, blocked keys take {leaked:.2f} of a query's weight."
            )
            evidence = masked_table(weights, trial.sample.allowed)
            results.found("mask-finite", sentence, evidence)
            return


def _row_without_keys(attention: Attention, results: Results, trial: Trial) -> None:
    """Report what a row gives in which every key is blocked, forward and backward."""
    query, key, value = attention.inputs(trial.ndim, trial.sizes)
    allowed = torch.ones_like(trial.sample.allowed)
    allowed[..., : 1 if not trial.form.per_key else None, :] = False
    if trial.form.per_key and len(allowed) > 1:
        allowed[1:] = True
    inputs = [part.clone().requires_grad_() for part in (query, key, value)]
    try:
        output = attention(*inputs, mask=attention.given(trial.form, allowed), graph=True).output
    except Unusable:
        return
    row = output.detach().reshape(-1, *output.shape[-2:])[0, 0]
    what = _name_of_row(row, value.reshape(-1, *value.shape[-2:])[0])
    backward = ""
    if output.requires_grad and what != "NaN":
        grads = torch.autograd.grad(output.sum(), inputs, allow_unused=True)
        broken = any(grad is not None and not grad.isfinite().all() for grad in grads)
        backward = ", and the gradients hold NaN" if broken else ""
    sentence = f"A row with no allowed key gives {what}{backward}."
    if attention.options.strict and (what != "0" or backward):
        columns = tuple(f"feature {i}" for i in range(5))
        rows = {"output of the row": row[:5].tolist()}
        results.found("blocked-row", sentence, number_table("All keys are blocked:", rows, columns))
    elif what == "0" and not backward:
        results.held("empty-row", "a row with no allowed key gives 0")
    else:
        results.note("empty-row", sentence)


def _name_of_row(row: Tensor, value: Tensor) -> str:
    if row.isnan().any():
        return "NaN"
    if float(row.abs().max()) < 1e-6:
        return "0"
    if torch.allclose(row, value.mean(dim=0), atol=1e-4):
        return "the mean of all values, blocked ones included"
    return "an average of values that it may not see"
