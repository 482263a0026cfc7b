"""The examination of an attention function of (query, key, value), from first contact to end."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from attnlab._bounded import Outcome, Unusable, a, name_of
from attnlab.clinic import behaviour
from attnlab.clinic._hints import (
    says_batch,
    says_heads,
    says_newest,
    text_of,
    time_before_batch,
    tokens_before_heads,
)
from attnlab.clinic._results import Options, Results
from attnlab.clinic.functions.calls import (
    CALLS,
    GENERAL,
    HEADS_BEHIND,
    LAYOUTS,
    PLAIN,
    TIME_FIRST,
    Attention,
    measurable,
    relaxed,
)
from attnlab.clinic.functions.masks import SLIPS_OF_THE_PEN, examine_masks, examine_returned
from attnlab.clinic.functions.unknown import (
    NEIGHBOURS,
    causal_missing,
    examine_pattern,
    examine_unknown,
    measured_recipe,
    mixed,
)
from attnlab.clinic.hypotheses import (
    CAUSAL,
    DENSE,
    ENDS,
    ORDERS,
    RIGHT_SCALE,
    SCALES,
    STEPS,
    SURE,
    Recipe,
    Sample,
    Sizes,
    explain,
    measured_weights,
    report,
    weights_table,
)
from attnlab.clinic.names import CAUSAL as MEANT_CAUSAL
from attnlab.clinic.names import SIDES, numbers_of

LETTERS = {2: "(L, E)", 3: "(N, L, E)", 4: "(N, H, L, E)"}
LARGE = 200.0  # scores of this size overflow exp in float32 unless a maximum is taken off
REMEDY = "Pass call=, a function (target, query, key, value, attn_mask) that calls it."
LOWER_RIGHT = "torch.ones(L, S).tril(diagonal=S - L) lets query i see key j where j <= S - L + i."
SCALED = {way.cause for way in SCALES} | {"scale-constant", "scale-other"}
OPEN_STEPS = tuple(step for step in STEPS if step != "masking")


def examine_attention(function: Callable, options: Options, results: Results) -> None:
    """Probe an attention function and report what is found.

    Parameters
    ----------
    function : callable
        Of query, key and value.
    options : Options
        What ``diagnose`` was told.
    results : Results
        Gets findings, notes and properties.
    """
    attention = _met(function, options)
    subject = Function(attention)
    if attention.layout is not PLAIN:
        results.note("layout", f"It was called with tensors {attention.layout.words}.")
    if not attention.ndims:
        _nothing_works(attention, results)
    else:
        try:
            if behaviour.examine_steadiness(subject, results) and behaviour.examine_memory(
                subject, results
            ):
                _examine_numbers(attention, subject, results)
                _examine_behaviour(attention, subject, results)
        except Unusable as trouble:  # it worked at first and does not any more
            text = trouble.outcome.trouble or "a result of another shape"
            if not attention.caller.out_of_time and not results.findings:
                results.found("raises", f"Not every call works: one of other numbers gave {text}.")
    behaviour.examine_watch(subject, results)


def _met(function: Callable, options: Options) -> Attention:
    """Return the function in the layout that it says, or in the first in which it works."""
    first = PLAIN
    if options.call is None:
        first = HEADS_BEHIND if tokens_before_heads(function) else first
        first = TIME_FIRST if first is PLAIN and time_before_batch(function) else first
    attention = Attention(function, options, first)
    if attention.find_shapes() or options.call is not None or attention.caller.out_of_time:
        return attention
    for layout in LAYOUTS:
        other = Attention(function, options, layout)
        if other.find_shapes() and _understood(other, calls(other, other.main)) is not None:
            return other
    return attention


class Function(behaviour.Subject):
    """How the probes of behaviour call an attention function."""

    def __init__(self, attention: Attention, *, causal: bool = False) -> None:
        self.attention, self.caller, self.causal = attention, attention.caller, causal

    def inputs(self, *, seed: int = 0, sizes: int = 0) -> dict[str, Tensor]:
        """Return new tensors by the names that a sentence gives them."""
        attention = self.attention
        given = replace(GENERAL, L=GENERAL.L + sizes, S=GENERAL.S + sizes, Ev=GENERAL.Ev + sizes)
        given = Sizes(N=3, H=2, L=4, S=6, E=12, Ev=10) if sizes == 1 else given
        three = attention.inputs(attention.main, given, seed=seed, spread=1.0)
        return {name: part.to(self.dtype) for name, part in zip(SIDES, three, strict=True)}

    def answer(self, inputs: dict[str, Tensor], *, graph: bool = False) -> Outcome:
        """Return what comes of a call."""
        given = [x if graph else x.clone() for x in inputs.values()]
        with torch.set_grad_enabled(graph):
            outcome = self.attention.outcome(*given, causal=self.causal)
        value = None
        if outcome.error is None and not given[0].is_meta:
            with contextlib.suppress(Unusable):
                value = self.attention.read(outcome, *given).output
        return replace(outcome, value=value)

    def called(self, place: str) -> str:
        """Return how a sentence names an argument."""
        return self.attention.name_of(place)


def _examine_numbers(attention: Attention, subject: Function, results: Results) -> None:
    """Find out what it computes, without a mask at first."""
    if not attention.depends(attention.main):
        sentence = "The output does not depend on query, key and value at all."
        results.found("wrong-source", sentence)
        return
    meant = _meant_causal(attention)
    if not behaviour.examine_precision(subject, results):
        return
    samples = calls(attention, attention.main) or [attention.sample(attention.main)]
    recipe = _understood(attention, samples) or _measured(attention, samples)
    if recipe is not None and recipe.scale.cause == "scale-constant":
        recipe = _as_the_caller_wants(attention, recipe, samples[0], results)
    if attention.takes.unknown_required and (recipe is None or recipe.slips):
        name = attention.takes.unknown_required[0].name
        why = f"The clinic does not know what to give for the argument {name}."
        results.unexamined(why, call=attention.told(), remedy=REMEDY)
        return
    if recipe is None:
        examine_unknown(attention, samples, results, meant=meant)
    else:
        _say(attention, recipe, samples, results, meant=meant)
    if recipe is not None and _only_scaled(results):
        causal = _switched(attention, recipe, results) if attention.takes.causal else recipe
        examine_returned(attention, results)
        if causal is not None and _only_scaled(results):
            examine_masks(attention, results, recipe)
    _examine_shapes(attention, recipe, results)


def _only_scaled(results: Results) -> bool:
    """Return whether nothing but the scale is wrong so far."""
    return all(finding.name in SCALED for finding in results.findings)


def _as_the_caller_wants(
    attention: Attention, recipe: Recipe, sample: Sample, results: Results
) -> Recipe:
    """Take a fixed factor for right that the caller has chosen, and say so."""
    factor = recipe.scale.compute(sample.sizes)
    for name, number, role in numbers_of(attention.function):
        chosen = (number**-0.5,) if role == "width" else (number, 1 / number)
        if min(abs(one / factor - 1) for one in chosen) < 10 * SURE:
            sentence = (
                f"The factor {factor:.4g} on the dot products is the caller's, {name} = "
                f"{number:.4g}: right for d_k = {factor**-2:.4g} only."
            )
            results.note("scale", sentence)
            return replace(recipe, scale=recipe.scale._replace(cause=None))
    return recipe


def calls(attention: Attention, ndim: int, *, square: bool = False, seed: int = 0) -> list[Sample]:
    """Return calls of different sizes, as many as it takes."""
    samples = []
    for sizes in CALLS:
        with contextlib.suppress(Unusable):
            sizes = relaxed(sizes, "L = S" if square else "")
            samples.append(attention.sample(ndim, sizes, seed=seed))
    return samples


def _measured(attention: Attention, samples: list[Sample]) -> Recipe | None:
    """Return a recipe of as many queries as keys, or a measured one; change the samples to it."""
    squares = calls(attention, attention.main, square=True)
    recipe = explain(squares, steps=OPEN_STEPS)
    if recipe is not None and (recipe.order is not DENSE or recipe.slips):
        samples[:] = squares
        return recipe
    for square, each in ((False, list(samples)), (True, squares)):
        again = calls(attention, attention.main, square=square, seed=1)
        if len(again) == len(each) and (
            found := measured_recipe(list(zip(each, again, strict=True)))
        ):
            samples[:] = each
            return found
    if attention.demand == "" and squares and _meant_causal(attention):
        samples[:] = squares
    return None


def _understood(attention: Attention, samples: list[Sample]) -> Recipe | None:
    """Return the recipe that explains the calls, whichever way a factor is to be given."""
    recipe = explain(samples, steps=OPEN_STEPS)
    if "scale" in attention.takes.fixed.values() and (recipe is None or recipe.scale.cause):
        attention.divisor = True
        again = calls(attention, attention.main)
        if (divided := explain(again, steps=OPEN_STEPS)) and not divided.scale.cause:
            samples[:] = again
            return divided
        attention.divisor = False
    return recipe


def _meant_causal(attention: Attention) -> bool:
    """Return whether its name or the caller says that later tokens must not be seen."""
    told = attention.options.causal
    free = attention.takes.mask is None and attention.takes.causal is None
    return told is True or (
        told is None and free and bool(MEANT_CAUSAL.search(name_of(attention.function)))
    )


def _say(
    attention: Attention, recipe: Recipe, samples: list[Sample], results: Results, *, meant: bool
) -> None:
    """Report the slips of a recipe, or what holds."""
    text = text_of(attention.function)
    weights = None if recipe.weights(samples[-1]) is not None else measured_weights(samples[-1])
    report(recipe, samples, results, weights=weights, text=text)
    if recipe.order not in ORDERS:
        examine_pattern(recipe, samples[0], results, meant=meant)
    elif meant and recipe.order is DENSE and not recipe.slips:
        causal_missing(samples[0], results, text)
    _alignment(attention, recipe, samples[0], results)
    if results.findings or recipe.gives(
        attention.sample(attention.main, samples[0].sizes, spread=20.0)
    ):
        _hold(recipe, attention.main, results)
    else:
        sentence = (
            "Small scores are scaled dot products of query and key, and large ones are not: "
            "something limits them."
        )
        results.found("scores-not-dot-products", sentence)
    if "scale" in attention.takes.fixed.values():
        name = next(n for n, role in attention.takes.fixed.items() if role == "scale")
        what = "sqrt(d_k)" if attention.divisor else "1/sqrt(d_k)"
        results.note("scale", f"The caller gives the factor: it was called with {name} = {what}.")


def _hold(recipe: Recipe, ndim: int, results: Results) -> None:
    """Report the steps that are right in a recipe that gives the output."""
    wrong = {step for step in STEPS if getattr(recipe, step).cause is not None}
    if wrong <= {"scale"} and not results.has("causal-missing"):
        words = "without a mask, the weights of every query are nonnegative and sum to 1"
        results.held("sums", words)
    if not wrong & {"sides", "after"}:
        words = "the output is a weighted average of the rows of value"
        results.held("average", f"{words}, and value has no other effect")
    if not wrong & {"sides", "product", "softmax"}:
        words = "scores are dot products of query and key, all multiplied by the same factor"
        results.held("products", words)
        if recipe.scale is RIGHT_SCALE:
            results.held("scale", "the scores are divided by the square root of d_k")
    if not wrong & {"softmax", "after"}:
        _hold_apart(ndim, results)
    if not wrong and recipe.order in (CAUSAL, ENDS):
        results.held("causal", "no query sees a later key (causal)")


def _switched(attention: Attention, recipe: Recipe, results: Results) -> Recipe | None:
    """Switch its causal argument on, and report what that does."""
    name = attention.takes.causal.name
    try:
        sizes = relaxed(GENERAL, "L = S")
        sample = attention.sample(attention.main, sizes, causal=True)
    except Unusable as trouble:
        text = trouble.outcome.trouble or "the result has the wrong shape"
        results.found("raises", f"With {name}=True it raises {text}.")
        return None
    found = explain([sample], recipe, ("order", "hiding"))
    if found is None:
        other = attention.sample(attention.main, sizes, causal=True, seed=1)
        found = measured_recipe([(sample, other)])
    text = text_of(attention.function)
    if found is None:
        examine_unknown(attention, [sample], results, meant=True)
    elif found.order is DENSE:
        causal_missing(sample, results, text)
    elif found.order not in ORDERS:
        examine_pattern(found, sample, results, meant=True)
    else:
        report(found, [sample], results, text=text)
        if not found.slips:
            results.held("causal", "no query sees a later key (causal)")
            with contextlib.suppress(Unusable):
                wide = attention.sample(attention.main, causal=True)
                if found.gives(wide):
                    _alignment(attention, found, wide, results)
    return found


def _alignment(attention: Attention, recipe: Recipe, sample: Sample, results: Results) -> None:
    """Say so if the queries are the first tokens where there are more keys; a cache wants the last.

    Nothing but words can tell which are meant.
    """
    L, S = sample.products.shape[-2:]
    if recipe.order is not CAUSAL or recipe.slips or L >= S:
        return
    if says_newest(attention.function):
        sentence = (
            "Its own words say that the queries are the last tokens, and the causal mask is "
            f"aligned at the upper left, as for the first: of {S} keys, query 0 of {L} sees key 0 "
            f"only, and not keys 0 to {S - L}."
        )
        evidence = weights_table("Weights:", measured_weights(sample))
        results.found("causal-off-by-one", sentence, evidence, advice=LOWER_RIGHT)
    else:
        results.note(
            "alignment",
            "With more keys than queries, the causal mask is aligned at the upper left: the "
            f"queries are taken for the first tokens. Where they are the last, as with a cache: "
            f"{LOWER_RIGHT}",
        )


# --- other shapes ---------------------------------------------------------------------------------


def _examine_shapes(attention: Attention, recipe: Recipe | None, results: Results) -> None:
    """Try the other numbers of dimensions, and sizes that must not be equal."""
    if recipe is not None and not results.findings:
        for ndim in attention.ndims:
            apart = Results(properties=results.properties)
            _examine_ndim(attention, ndim, recipe, apart)
            if ndim != 4 or attention.main == 4 or says_heads(attention.function):
                results.findings += apart.findings  # else it was not made for heads
    if not results.findings:
        _single(attention, results)
    if attention.powers:
        text = attention.refused[attention.main].trouble
        results.note("sizes", f"It was called with powers of two for E; E = 11 gives {text}.")
    if attention.demand and recipe is not None and not results.findings and not results.gap:
        text = attention.refused[attention.main].trouble or "a wrong shape"
        words = (
            f"It works only with {attention.demand}; with L = 5, S = 7, E = 11, Ev = 13: {text}."
        )
        if recipe.order is not DENSE and attention.demand == "L = S":
            results.note("sizes", words)  # no fault if it depends on positions
        else:
            results.found("square-only", words)
    if set(attention.ndims) == {2}:
        _two_dimensions(attention, results)
    elif len(attention.ndims) < 3:
        known = " and ".join(LETTERS[ndim] for ndim in sorted(attention.ndims))
        results.note("dimensions", f"It takes tensors {known} only.")


def _examine_ndim(attention: Attention, ndim: int, recipe: Recipe, results: Results) -> None:
    """Find out whether it does the same with this number of dimensions."""
    samples = calls(attention, ndim) if ndim != attention.main else []
    if not all(map(recipe.gives, samples)):
        found = explain(samples, steps=OPEN_STEPS)
        if found is not None and found.slips:
            report(found, samples, results, text=text_of(attention.function))
        elif found is None and not mixed(attention, results, ndim):
            sentence = f"With {LETTERS[ndim]} it computes something else than with "
            sentence += f"{LETTERS[attention.main]}."
            results.found("scores-not-dot-products", sentence)
        return
    _hold_apart(ndim, results)


def _hold_apart(ndim: int, results: Results) -> None:
    for _, _, what in NEIGHBOURS[: ndim - 2]:
        results.held("apart", f"one {what} never changes the result of another")


def _single(attention: Attention, results: Results) -> None:
    """Give one sequence, one query: no dimension may be lost because its size is 1."""
    query, key, value = attention.inputs(attention.main)
    few = {} if attention.main == 2 else {"N": (query[:1], key[:1], value[:1])}
    few |= {} if results.holds("causal") else {"L": (query[..., :1, :], key, value)}
    for name, inputs in few.items() if not attention.demand.startswith("L = S") else ():
        try:
            attention(*inputs)
        except Unusable as trouble:
            text = f"raises {trouble.outcome.trouble}" if trouble.outcome.error else "returns "
            text += _told_shapes(trouble.outcome.value)
            words = f"With {name} = 1 it {text}: a dimension of size 1 is lost."
            results.found("wrong-shape", words)
            return


def _told_shapes(value: object) -> str:
    """Return the shapes of the tensors that came back."""
    parts = value if isinstance(value, tuple | list) else [value]
    return " and ".join(str(tuple(part.shape)) for part in parts if isinstance(part, Tensor))


def _two_dimensions(attention: Attention, results: Results) -> None:
    """Say what a batch does: it raises, and with equal sizes may be silently wrong."""
    batch, words = attention.refused.get(3, Outcome()), "It takes one sequence (L, E) only"
    mixed = behaviour.mixes_in_a_cube(Function(attention), 3)
    sentence = (
        f"A batch raises {batch.trouble or 'an error'}; with N = S = E it runs and is wrong: "
        ".T and transpose(0, 1) move the dimension of the batch."
    )
    if mixed and says_batch(attention.function):
        results.found("transposed-batch", sentence)
    elif mixed is not False:
        results.note("single", f"{words}. {sentence}" if mixed else f"{words}; a batch raises.")


# --- how it behaves -------------------------------------------------------------------------------


def _examine_behaviour(attention: Attention, subject: Function, results: Results) -> None:
    if attention.takes.unknown_required and results.gap:
        return
    if attention.caller.changed:
        behaviour.examine_arguments(subject, results)
    if not results.has("hard"):
        behaviour.examine_behaviour(subject, results)
        if attention.takes.causal:
            behaviour.examine_device(Function(attention, causal=True), results)
    _large_scores(attention, results)


def _large_scores(attention: Attention, results: Results) -> None:
    query, key, value = attention.inputs(attention.main)
    size = (LARGE / query.shape[-1] ** 0.5) ** 0.5
    same = torch.full_like(key, size)
    same[..., 0, :] *= 1.1
    for sign, words in ((1, "above"), (-1, "below")):
        big = torch.full_like(query, size)
        big[..., 0, :] *= sign  # one row far below the others, whose maximum is not its own
        try:
            finite = attention(big, same, value).output.isfinite().all()
        except Unusable:
            return
        sentence = (
            f"Scores far {words} 0 give NaN: exp overflows or a whole row becomes 0. Take each "
            "row's own maximum off first."
        )
        if not finite and attention.options.strict:
            results.found("nan", sentence)
        elif not finite:
            results.note("large-scores", sentence)


# --- where no call works --------------------------------------------------------------------------


def _nothing_works(attention: Attention, results: Results) -> None:
    """Say what came of the first call instead of an output."""
    returned = {n: one for n, one in attention.refused.items() if one.error is None}
    if attention.caller.out_of_time:
        return
    if attention.blocked:
        if next(iter(attention.blocked.values())).output.isnan().all():
            sentence = "Whatever mask it gets, all True or all False, the output is NaN."
            results.found("nan", sentence)
            return
        results.unexamined(
            "With every mask that was tried, all True and all False, it seems to block every key.",
            call=attention.told(),
            remedy=REMEDY,
        )
        return
    if not returned:
        _raises(attention, results)
        return
    ndim, outcome = next(iter(returned.items()))
    parts = outcome.value if isinstance(outcome.value, tuple | list) else [outcome.value]
    tensors = [part for part in parts if isinstance(part, Tensor)]
    if outcome.value is None:
        results.found("not-done", "It returns None: not done yet.")
    elif not tensors or isinstance(outcome.value, list):
        kind = a(type(outcome.value).__name__)
        results.found("wrong-type", f"It returns {kind} instead of a tensor.")
    elif not any(map(measurable, tensors)):
        part = tensors[0]
        what = f"dtype {part.dtype}, layout {part.layout}, device {part.device}"
        results.found("wrong-type", f"It returns a tensor of {what} instead of plain real numbers.")
    elif attention.takes.guessed:
        _not_called(attention, "gives the wrong shape", results)
    else:
        query, _, value = attention.inputs(ndim)
        wanted = (*query.shape[:-1], value.shape[-1])
        words = f"With {_shapes(attention, ndim)} the output must be {wanted}, got "
        words += f"{_told_shapes(outcome.value)}."
        results.found("wrong-shape", words)


def _raises(attention: Attention, results: Results) -> None:
    """Report an error: as a finding only where no other call could help.

    That is so if a name or a type is wrong, or if it works only with all sizes equal.
    """
    outcome = attention.refused[3]
    mixing = behaviour.mixes_in_a_cube(Function(attention), 3)
    at_fault = mixing is not None or isinstance(outcome.error, (*SLIPS_OF_THE_PEN, TypeError))
    if mixing:
        results.found(
            "transposed-batch",
            f"With {_shapes(attention)} it raises {outcome.trouble}; with N = L = S = E it runs "
            "and mixes the sequences: .T and transpose(0, 1) move the dimension of the batch.",
        )
    elif attention.takes.guessed or not at_fault:
        _not_called(attention, f"raises {outcome.trouble}", results)
    else:
        results.found("raises", f"With {_shapes(attention)} it raises {outcome.trouble}.")


def _not_called(attention: Attention, what: str, results: Results) -> None:
    sentence = f"The clinic could not call it: with {_shapes(attention)} it {what}."
    results.unexamined(sentence, call=attention.told(), remedy=REMEDY)


def _shapes(attention: Attention, ndim: int = 3) -> str:
    """Return the shapes of the first call in words."""
    query, key, value = (tuple(part.shape) for part in attention.inputs(ndim))
    return f"query {query}, key {key} and value {value}"
