"""The examination of an attention function of (query, key, value), from first contact to end."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from attnlab.clinic._calling import Outcome, Unusable, name_of
from attnlab.clinic._copying import copy_of
from attnlab.clinic._hints import says_batch, says_heads, tokens_before_heads
from attnlab.clinic._results import Options, Results
from attnlab.clinic.functions.arguments import heads_in_front
from attnlab.clinic.functions.axis import examine_axis
from attnlab.clinic.functions.behaviour import (
    examine_arguments,
    examine_device,
    examine_gradient,
    examine_layout,
    examine_memory,
    examine_steadiness,
    examine_watch,
)
from attnlab.clinic.functions.calls import GENERAL, Attention, measurable
from attnlab.clinic.functions.causality import examine_causality
from attnlab.clinic.functions.dtypes import (
    examine_digits,
    examine_dtype,
    examine_precision,
)
from attnlab.clinic.functions.masking import examine_masks, examine_returned
from attnlab.clinic.functions.measure import close
from attnlab.clinic.functions.neighbours import examine_neighbours
from attnlab.clinic.functions.scale import examine_scale
from attnlab.clinic.functions.scores import examine_scores
from attnlab.clinic.functions.sources import examine_sources

LETTERS = {2: "(L, E)", 3: "(N, L, E)", 4: "(N, H, L, E)"}


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

    See Also
    --------
    attnlab.clinic.diagnose : calls it.
    """
    if isinstance(function, nn.Module):
        function = copy_of(function).eval()
    if tokens_before_heads(function):
        function = heads_in_front(function)
    attention = Attention(function, options)
    if not attention.find_shapes():
        _nothing_works(attention, results)
    else:
        try:
            if examine_steadiness(attention, results):
                _examine_numbers(attention, results)
                _examine_behaviour(attention, results)
        except Unusable as trouble:  # it worked at first and does not any more
            text = trouble.outcome.trouble or "a result of another shape"
            if not attention.caller.out_of_time and not results.findings:
                results.found("raises", f"Not every call works: one of other numbers gave {text}.")
    examine_watch(attention, results)


def _examine_numbers(attention: Attention, results: Results) -> None:
    """Probe what is computed: sources, order, axis, scores, scale, masks."""
    if attention.dtype != attention.inputs(attention.main)[0].new_zeros(()).float().dtype:
        results.found("dtype", "It takes float64 tensors only; models are trained in float32.")
    if examine_precision(attention, results) and examine_sources(attention, results):
        causal = examine_causality(attention, results, name_of(attention.function))
        _examine_nan(attention, results)
        if not results.findings and examine_axis(attention, results, attention.main):
            examine_neighbours(attention, results, attention.main)
        if not results.findings:
            factor = examine_scores(attention, results)
            if factor is not None:
                examine_scale(attention, results, attention.main)
                examine_digits(attention, results, factor)
                examine_returned(attention, results)
                if not causal:
                    examine_masks(attention, results, factor)
    _examine_shapes(attention, results)


def _examine_nan(attention: Attention, results: Results) -> None:
    """Report rows of NaN, unless the order of the tokens has explained them."""
    output = attention.ndims[attention.main].output
    holes = (~output.isfinite()).any(dim=-1)
    if holes.any() and not results.findings:
        row = holes.reshape(-1, output.shape[-2]).any(dim=0).nonzero()[0].item()
        results.found("nan", f"Row {row} of the output holds NaN although every input is ordinary.")


def _examine_shapes(attention: Attention, results: Results) -> None:
    """Try the other numbers of dimensions, and sizes that must not be equal."""
    if not results.findings:
        for ndim in attention.ndims:
            if ndim == 4 and attention.main == 3 and not says_heads(attention.function):
                _four_dimensions(attention, results)
                continue
            if ndim != attention.main:
                examine_axis(attention, results, ndim)
            if not results.findings and ndim != attention.main:
                examine_neighbours(attention, results, ndim)
            if ndim == 4 and not results.findings:
                examine_scale(attention, results, ndim)
    if not results.findings:
        _single(attention, results)
    if attention.demand:
        _equal_sizes(attention, results)
    if set(attention.ndims) == {2}:
        _two_dimensions(attention, results)
    elif len(attention.ndims) < 3:
        known = " and ".join(LETTERS[ndim] for ndim in sorted(attention.ndims))
        results.note("dimensions", f"It takes tensors {known} only.")


def _four_dimensions(attention: Attention, results: Results) -> None:
    """Note what it does with heads: made for (N, L, E), it need not be right there."""
    apart = Results(properties=list(results.properties))
    if examine_axis(attention, apart, 4):
        examine_neighbours(attention, apart, 4)
        examine_scale(attention, apart, 4)
    for sentence in apart.properties if not apart.findings else ():
        results.held(sentence.key, sentence)
    for finding in apart.findings:
        results.note(
            "heads", f"Made for (N, L, E). With heads, (N, H, L, E), it is wrong: {finding}"
        )


def _single(attention: Attention, results: Results) -> None:
    """Give one sequence, one query: no dimension may be lost because its size is 1."""
    causal = results.holds("causal")
    for name in ("N", "L") if not causal else ("N",):
        query, key, value = attention.inputs(attention.main)
        few = [part[:1] for part in (query, key, value)] if name == "N" else None
        few = few or [query[..., :1, :], key, value]
        if (name == "N" and attention.main == 2) or attention.demand.startswith("L = S"):
            continue
        try:
            attention(*few)
        except Unusable as trouble:
            text = trouble.outcome.trouble
            parts = _parts(trouble.outcome.value)
            shapes = [str(tuple(part.shape)) for part in parts if isinstance(part, Tensor)]
            text = f"it raises {text}" if text else f"it returns {' and '.join(shapes)}"
            results.found("wrong-shape", f"With {name} = 1 {text}: a dimension of size 1 is lost.")
            return


def _two_dimensions(attention: Attention, results: Results) -> None:
    """Say what a batch does: it raises, and with equal sizes may be silently wrong."""
    batch = attention.refused.get(3, Outcome())
    moved = _wrong_in_a_cube(attention)
    if moved is None:
        results.note("single", "It takes one sequence (L, E) only; a batch raises.")
    if not moved:
        return
    sentence = (
        f"A batch raises {batch.trouble or 'an error'}; with N = S = E it runs and is wrong: "
        ".T and transpose(0, 1) move the dimension of the batch."
    )
    if says_batch(attention.function):
        results.found("transposed-batch", sentence)
    else:
        results.note("single", f"It takes one sequence (L, E) only. {sentence}")


def _wrong_in_a_cube(attention: Attention) -> bool | None:
    """Call with N = L = S = E = Ev; return whether a sequence alone gives something else."""
    generator = torch.Generator().manual_seed(2)
    cube = [torch.randn(3, 3, 3, generator=generator, dtype=attention.dtype) for _ in range(3)]
    outcome = attention.outcome(*cube)
    changed = attention.outcome(*(torch.cat([part[:1], 2 * part[1:]]) for part in cube))
    if not isinstance(outcome.value, Tensor) or not isinstance(changed.value, Tensor):
        return None
    return not close(changed.value[0], outcome.value[0])


def _equal_sizes(attention: Attention, results: Results) -> None:
    """Report that it ran only with some sizes equal."""
    if results.findings:
        return
    text = attention.refused[attention.main].trouble or "a wrong shape"
    sentence = f"It works only with {attention.demand}; with L = 5, S = 7, E = 11, Ev = 13: {text}."
    if results.holds("causal") and attention.demand == "L = S":
        results.note("sizes", sentence)
    else:
        results.found("square-only", sentence)


def _examine_behaviour(attention: Attention, results: Results) -> None:
    """How it behaves as a function. Not asked about NaN, which would be blamed for all of it."""
    if attention.caller.changed:
        examine_arguments(attention, results)
    examine_device(attention, results)
    if not attention.ndims[attention.main].output.isfinite().all():
        return
    examine_memory(attention, results)
    if not results.has("hard"):
        examine_gradient(attention, results)
    examine_layout(attention, results)
    examine_dtype(attention, results)


def _nothing_works(attention: Attention, results: Results) -> None:
    """Say what came of the first call instead of an output."""
    if attention.caller.out_of_time:
        return
    outcomes = attention.refused
    returned = [outcome for outcome in outcomes.values() if outcome.error is None]
    shapes = _shapes(3)
    if not returned:
        text = outcomes[3].trouble
        if _wrong_in_a_cube(attention):
            results.found(
                "transposed-batch",
                f"With {shapes} it raises {text}; with N = L = S = E it runs and mixes the "
                "sequences: .T and transpose(0, 1) move the dimension of the batch.",
            )
            return
        results.found("raises", f"With {shapes} it raises {text}.")
        return
    ndim, outcome = next((n, one) for n, one in outcomes.items() if one.error is None)
    parts = _parts(outcome.value)
    tensors = [part for part in parts if isinstance(part, Tensor)]
    if outcome.value is None:
        results.found("not-done", "It returns None: not done yet.")
    elif not tensors or isinstance(outcome.value, list):
        kind = type(outcome.value).__name__
        results.found("wrong-type", f"It returns {_article(kind)} instead of a tensor.")
    elif not any(map(measurable, tensors)):
        part = tensors[0]
        what = f"dtype {part.dtype}, layout {part.layout}, device {part.device}"
        results.found("wrong-type", f"It returns a tensor of {what} instead of plain real numbers.")
    else:
        sizes = GENERAL
        wanted = (*sizes.lead(ndim), sizes.L, sizes.Ev)
        got = " and ".join(str(tuple(part.shape)) for part in tensors)
        results.found(
            "wrong-shape", f"With {_shapes(ndim)} the output must be {wanted}, got {got}."
        )


def _shapes(ndim: int) -> str:
    """Return the shapes of the first call in words."""
    sizes, lead = GENERAL, GENERAL.lead(ndim)
    query, key, value = (
        (*lead, *rest) for rest in ((sizes.L, sizes.E), (sizes.S, sizes.E), (sizes.S, sizes.Ev))
    )
    return f"query {query}, key {key} and value {value}"


def _parts(value: object) -> list[object]:
    return list(value) if isinstance(value, tuple | list) else [value]


def _article(kind: str) -> str:
    return f"an {kind}" if kind[0].lower() in "aeiou" else f"a {kind}"
