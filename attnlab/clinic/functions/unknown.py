"""Probes of an attention function that no recipe explains: what its output is made of."""

from __future__ import annotations

import torch
from torch import Tensor

from attnlab._bounded import Unusable
from attnlab.clinic._results import Results
from attnlab.clinic.functions.calls import Attention
from attnlab.clinic.hypotheses import (
    CAUSAL,
    SIDES,
    SURE,
    Recipe,
    Sample,
    Way,
    explain,
    fit_scores,
    fitting,
    measured_masking,
    measured_scale,
    measured_weights,
    number_table,
    report,
    tell_sums,
    weights_table,
)
from attnlab.clinic.masks import tell_pattern

NEIGHBOURS = ((0, "batch-mixing", "sequence of the batch"), (1, "head-mixing", "head"))
ADDED = 0.02  # what is added to a score, above the errors of measuring
CLEAR = 1e-5  # a weight below this is none


def measured_recipe(pairs: list[tuple[Sample, Sample]]) -> Recipe | None:
    """Return a recipe with the factor, the keys that are never seen or the biases, as measured.

    Each pair of calls is of the same sizes, with other numbers. None where the weights are no
    softmax of dot products, even with something added that depends on positions alone.
    """
    samples = [sample for pair in pairs for sample in pair]
    scale = measured_scale(samples)
    dense = Recipe(scale=scale) if scale else None
    if dense and all(map(dense.gives, samples)):
        return dense
    for sides in SIDES:
        recipe = _with_added(pairs, sides)
        if recipe is not None and all(map(recipe.gives, samples)):
            return recipe
    return None


def _with_added(pairs: list[tuple[Sample, Sample]], sides: Way) -> Recipe | None:
    """Return a recipe with what is added to the scores of these sides, from pairs of calls."""
    tables = {tuple(one.products.shape[-2:]): _added(one, other, sides) for one, other in pairs}
    if any(table is None for table in tables.values()):
        return None
    samples = [sample for pair in pairs for sample in pair]
    order = Way(None, "", lambda queries, keys: tables.get((queries, keys)))
    recipe = explain(samples, Recipe(sides=sides, order=order), ("scale",))
    if recipe is None and (scale := measured_scale(samples)):
        recipe = Recipe(sides=sides, order=order, scale=scale)
    return recipe


def _added(one: Sample, other: Sample, sides: Way) -> Tensor | None:
    """Return which keys are seen, (L, S), or what is added to the scores for it, (H, L, S).

    None where what is added depends on more than the positions.
    """
    recipe = Recipe(sides=sides, scale=Way(None, "", lambda size: 1.0))
    scores, others = recipe.scores(one), recipe.scores(other)
    averaged = [sides.compute(*sample[:3])[2] for sample in (one, other)]
    if scores is None or scores.shape != one.products.shape or (
        averaged[0].shape[-2:] != one.value.shape[-2:]
    ):  # fmt: skip
        return None
    weights, again = (
        measured_weights(sample._replace(value=value))
        for sample, value in zip((one, other), averaged, strict=True)
    )
    seen = _seen(weights) & _seen(again)
    ratio = (weights / again).masked_fill(~seen, 0.0)
    fit = fit_scores(ratio, scores - others)
    if not fit.good:
        return None
    added = (weights.clamp_min(1e-300).log() - fit.factor * scores).masked_fill(~seen, 0.0)
    added = (added - added.sum(-1, keepdim=True) / seen.sum(-1, keepdim=True).clamp_min(1)) * seen
    if (added - added[:1]).abs().max() > ADDED:
        return None
    if added.abs().max() < ADDED:
        return seen
    return added[0].masked_fill(~seen, -torch.inf)


def _seen(weights: Tensor) -> Tensor:
    """Return which keys get a weight from which query, in any sequence; NaN sees nothing."""
    flat = weights.nan_to_num(nan=0.0).reshape(-1, *weights.shape[-2:])
    return (flat.abs() > CLEAR).any(dim=0)


def examine_pattern(recipe: Recipe, sample: Sample, results: Results, *, meant: bool) -> None:
    """Report which keys are never seen, where no named order says so, and what is added."""
    weights = measured_weights(sample)
    seen, table = _seen(weights), recipe.order.compute(*weights.shape[-2:])
    if table is not None and table.dtype != torch.bool:
        sentence = "Something that depends on the positions alone is added to the scores."
        results.note("positions", sentence)
    if seen.all():
        if meant:
            causal_missing(sample, results)
        return
    queries, keys = seen.shape
    evidence = weights_table("Weights of the first sequence:", weights)
    lost = ~seen.any(dim=0)
    if not lost.any() or not seen[:, ~lost].all():
        tell_pattern(seen, meant, evidence, results)
    elif torch.equal(~lost, torch.arange(keys) < queries):
        sentence = (
            f"With {queries} queries and {keys} keys, no query ever sees key {keys - 1}: the "
            "number of keys is taken to be the number of queries."
        )
        results.found("square-only", sentence, evidence)
    else:
        key = int(lost.nonzero()[0])
        sentence = f"No query ever looks at key {key} of {keys}: it is lost on the way."
        results.found("wrong-source", sentence, evidence)


def causal_missing(sample: Sample, results: Results, text: str = "") -> None:
    """Report that later keys are seen where none should be; ``text`` is the code."""
    weights = measured_weights(sample)
    later = weights.triu(1).sum(dim=-1).max()
    sentence = (
        "It is meant to be causal, but queries see later keys, which take up to "
        f"{later:.2f} of a query's weight."
    )
    evidence = weights_table("Weights:", weights)
    results.found("causal-missing", sentence, evidence, advice=fitting("causal-missing", text))


def examine_unknown(
    attention: Attention, samples: list[Sample], results: Results, *, meant: bool
) -> None:
    """Report what is wrong with an output that no recipe gives.

    ``meant`` says that no query is meant to see a later key.
    """
    sample = samples[0]
    if not sample.output.isfinite().all():
        results.found("nan", "The output holds NaN or infinity although every input is ordinary.")
    elif (share := _share(sample.output, sample.value)) > SURE:
        if not mixed(attention, results, attention.main) and not rows_exchanged(attention, results):
            results.found(
                "wrong-source",
                "The output is no weighted average of the rows of value: a share of "
                f"{share:.2f} of it comes from elsewhere.",
            )
    elif not _later(sample, results, meant=meant):
        _weights(attention, sample, results)


def _share(output: Tensor, rows: Tensor) -> float:
    """Return how much of the output is not a combination of these rows of the same sequence."""
    output, rows = output.double(), rows.double()
    rest = output - output @ torch.linalg.pinv(rows) @ rows
    return float(rest.norm() / output.norm().clamp_min(1e-12))


def _later(sample: Sample, results: Results, *, meant: bool) -> bool:
    """Say so if only the later keys are not as they should be: a causal mask that fails."""
    weights, scores = measured_weights(sample), sample.products
    below = torch.ones(weights.shape[-2:], dtype=torch.bool).tril()
    inside = fit_scores(weights.masked_fill(~below, 0.0), scores)
    if inside.good:
        way = measured_masking(scores * inside.factor, weights, below)
        if way.cause != "mask-leak":
            recipe = Recipe(order=CAUSAL, hiding=way)
            report(recipe, [sample], results, weights=weights)
            return True
    later = weights.reshape(-1, *weights.shape[-2:]).triu(1).abs().amax(dim=(-2, -1))
    if meant and bool((later < CLEAR).any()) and bool((later > SURE).any()):
        last = weights.reshape(-1, *weights.shape[-2:])[-1:]
        sentence = "Some heads or sequences see no later key, and the others do."
        evidence = weights_table("Weights of the last:", last)
        results.found("causal-leak", sentence, evidence)
        return True
    return False


def _weights(attention: Attention, sample: Sample, results: Results) -> None:
    """Report what the weights are, if they are no softmax of known scores over the keys."""
    weights = measured_weights(sample)
    if tell_sums(weights, results):
        return
    if not mixed(attention, results, attention.main) and not rows_exchanged(attention, results):
        misfit = min(fit_scores(weights, sample.products).residual, 9.0)
        results.unexamined(
            "The weights are a softmax of something else than the dot products of query and key "
            f"times one factor (misfit {misfit:.2f}), and the clinic knows no name for it.",
            remedy="Examine it without what it does to query and key first, such as rotating "
            "them, or with call=.",
        )


def mixed(attention: Attention, results: Results, ndim: int) -> bool:
    """Say so if one sequence or head changes the result of another."""
    for dim, name, what in NEIGHBOURS[: ndim - 2]:
        try:
            moved = _moved_by(attention, dim, ndim)
        except Unusable:
            continue
        if moved > SURE:
            sentence = (
                f"Another {what} changes this one's result, by {moved:.2f} of its size: every "
                f"{what} must be treated alone."
            )
            results.found(name, sentence)
            return True
    return False


def _moved_by(attention: Attention, dim: int, ndim: int) -> float:
    """Return how much the first or last slice of the output moves when all the others are new."""
    inputs = attention.inputs(ndim)
    output, moved = attention(*inputs).output, 0.0
    for own, others in ((0, slice(1, None)), (-1, slice(None, -1))):
        where = tuple([slice(None)] * dim + [others])
        changed = attention(*(_perturbed(part, where) for part in inputs)).output
        before, after = output.select(dim, own), changed.select(dim, own)
        moved = max(moved, float((after - before).abs().max() / before.abs().max().clamp_min(1e-6)))
    return moved


def rows_exchanged(attention: Attention, results: Results) -> bool:
    """Say so if a query decides about the output of another position."""
    query, key, value = attention.inputs(attention.main)
    before = attention(query, key, value).output
    after = attention(_perturbed(query, (..., slice(0, 1), slice(None))), key, value).output
    moved = (after - before).norm(dim=-1).reshape(-1, before.shape[-2]).amax(dim=0)
    if moved[1:].max() < SURE or moved[0] > moved[1:].max():
        return False
    sentence = "A change of query 0 moves other rows of the output: they are not in their places."
    rows = {f"output row {i}": [float(change)] for i, change in enumerate(moved)}
    results.found("position-mixing", sentence, number_table("Movement:", rows, ("moved",)))
    return True


def _perturbed(tensor: Tensor, where: tuple) -> Tensor:
    """Return a copy with new random numbers at one place."""
    changed = tensor.clone()
    generator = torch.Generator().manual_seed(7)
    part = changed[where]
    changed[where] = torch.randn(part.shape, generator=generator, dtype=torch.float64).to(part)
    return changed
