"""What can be said of an output that no named recipe gives: what is added, hidden, or lost."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from attnlab.clinic import hypotheses as hy
from attnlab.clinic._results import Results
from attnlab.clinic.behaviour import mixed
from attnlab.clinic.hypotheses import CAUSAL, ORDERS, SIDES, SURE, Recipe, Sample, Way
from attnlab.clinic.observe import Core
from attnlab.clinic.subject import Subject

ADDED = 0.02  # what is added to a score, above the errors of measuring
CLEAR = 1e-5  # a weight below this is none


def measured_recipe(pairs: list[tuple[Sample, Sample]]) -> Recipe | None:
    """Return a recipe with the factor, the keys that are never seen or the biases, as measured.

    Each pair of calls is of the same sizes, with other numbers. None where the weights are no
    softmax of dot products, even with something added that depends on positions alone.
    """
    samples = [sample for pair in pairs for sample in pair]
    scale = hy.measured_scale(samples)
    dense = Recipe(scale=scale) if scale else None
    for order in ORDERS[:3] if dense else ():
        known = replace(dense, order=order)
        if all(map(known.gives, samples)):
            return known
        if sink := hy.measured_sink(samples, known):
            return replace(known, softmax=sink)
    for sides in SIDES:
        recipe = _with_added(pairs, sides)
        if recipe is not None and all(map(recipe.gives, samples)):
            return recipe
    return None


def _with_added(pairs: list[tuple[Sample, Sample]], sides: Way) -> Recipe | None:
    """Return a recipe with what is added to the scores of these sides, from pairs of calls."""
    tables, factors = {}, {}
    for one, other in pairs:
        found = _added(one, other, sides)
        if found is None:
            return None
        tables[tuple(one.products.shape[-2:])], factors[one.sizes] = found
    order = Way(None, "", lambda queries, keys: tables.get((queries, keys)))
    return Recipe(sides=sides, order=order, scale=hy.scale_of(factors))


def _added(one: Sample, other: Sample, sides: Way) -> tuple[Tensor, float] | None:
    """Return which keys are seen, (L, S), or what is added to the scores, (H, L, S); the factor.

    None where what is added depends on more than the positions.
    """
    recipe = Recipe(sides=sides, scale=Way(None, "", lambda size: 1.0))
    scores, others = recipe.scores(one), recipe.scores(other)
    averaged = [sides.compute(*sample[:3])[2] for sample in (one, other)]
    if (
        scores is None
        or scores.shape != one.products.shape
        or (averaged[0].shape[-2:] != one.value.shape[-2:])
    ):
        return None
    weights, again = (
        hy.measured_weights(sample._replace(value=value))
        for sample, value in zip((one, other), averaged, strict=True)
    )
    seen = _seen(weights) & _seen(again)
    ratio = (weights / again).masked_fill(~seen, 0.0)
    fit = hy.fit_scores(ratio, scores - others)
    if not fit.good:
        return None
    added = (weights.clamp_min(1e-300).log() - fit.factor * scores).masked_fill(~seen, 0.0)
    added = (added - added.sum(-1, keepdim=True) / seen.sum(-1, keepdim=True).clamp_min(1)) * seen
    if (added - added[:1]).abs().max() > ADDED:
        return None
    if added.abs().max() < ADDED:
        return seen, fit.factor
    return added[0].masked_fill(~seen, -torch.inf), fit.factor


def _seen(weights: Tensor) -> Tensor:
    """Return which keys get a weight from which query, in any sequence; NaN sees nothing."""
    flat = weights.nan_to_num(nan=0.0).reshape(-1, *weights.shape[-2:])
    return (flat.abs() > CLEAR).any(dim=0)


def examine_pattern(recipe: Recipe, sample: Sample, results: Results, *, meant: bool) -> None:
    """Report which keys are never seen, where no named order says so, and what is added.

    ``meant`` says that no query is meant to see a later key.
    """
    table = recipe.order.compute(*sample.products.shape[-2:])
    if table.dtype != torch.bool:
        sentence = "Something that depends on the positions alone is added to the scores."
        results.note("positions", sentence)
    weights = recipe.weights(sample)
    seen, evidence = _seen(weights), hy.weights_table("Weights of the first sequence:", weights)
    (queries, keys), lost, ahead = seen.shape, ~seen.any(dim=0), seen.triu(1)
    way = next((way for way in ORDERS if way.cause and _blocks(way, seen)), None)
    if way is None and meant and ahead.any() and not ahead.triu(2).any():
        way = hy.ONE_AHEAD  # the end of a window, or of a chunk
    if seen.all():
        if meant:
            causal_missing(sample, results)
    elif lost.any() and seen[:, ~lost].all():
        name, key = "wrong-source", int(lost.nonzero()[0])
        sentence = f"No query ever looks at key {key} of {keys}: it is lost on the way."
        if torch.equal(~lost, torch.arange(keys) < queries):
            name, sentence = "square-only", f"With {queries} queries and {keys} keys, no query ever"
            sentence += f" sees key {key}: as many keys as queries are taken."
        results.found(name, sentence, evidence)
    elif way is not None:
        results.found(way.cause, way.words, evidence)
    elif not ahead.any():
        results.held("causal", "no query sees a later key (causal)")
        if not torch.equal(seen, torch.ones_like(seen).tril()):
            words = "Some earlier keys are never seen either: a window, perhaps."
            results.note("window", words)
    elif meant:
        i, j = ahead.nonzero()[0].tolist()
        sentence = f"{int(ahead.any(dim=1).sum())} of {queries} queries see later keys, such as "
        results.found("causal-leak", f"{sentence}query {i} key {j}.", evidence)
    else:
        i, j = (~seen).nonzero()[0].tolist()
        words = f"Some keys are never seen by some queries, such as key {j} by query {i}."
        results.note("window", words)


def _blocks(way: Way, seen: Tensor) -> bool:
    """Return whether an order blocks exactly what is never seen; rows without a key are free."""
    allowed = way.compute(*seen.shape)
    known = allowed.any(dim=-1)
    return torch.equal(seen[known], allowed[known])


def causal_missing(sample: Sample, results: Results) -> None:
    """Report that later keys are seen where none should be."""
    weights = hy.measured_weights(sample)
    later = weights.triu(1).sum(dim=-1).max()
    sentence = (
        "It is meant to be causal, but queries see later keys, which take up to "
        f"{later:.2f} of a query's weight."
    )
    evidence = hy.weights_table("Weights:", weights)
    results.found("causal-missing", sentence, evidence)


def unexplained(subject: Subject, core: Core, results: Results, *, meant: bool) -> None:
    """Report what is wrong with an output that no recipe gives.

    ``meant`` says that no query is meant to see a later key.
    """
    sample = core.sample
    if not sample.output.isfinite().all():
        results.found("nan", "The output holds NaN or infinity although every input is ordinary.")
    elif "E" in subject.demand:  # it may have heads inside
        results.unexamined(
            "It insists on an even number of features, and what it does with them is not known.",
            remedy="Examine the attention inside it by itself.",
        )
    elif not subject.followed and (share := _share(sample.output, sample.value)) > SURE:
        if not mixed(subject, results):
            results.found(
                "wrong-source",
                "The output is no weighted average of the rows of value: a share of "
                f"{share:.2f} of it comes from elsewhere.",
            )
    elif not _later(core, results, meant=meant):
        _weights(subject, core, results)


def _share(output: Tensor, rows: Tensor) -> float:
    """Return how much of the output is not a combination of these rows of the same sequence."""
    output, rows = output.double(), rows.double()
    rest = output - output @ torch.linalg.pinv(rows) @ rows
    return float(rest.norm() / output.norm().clamp_min(1e-12))


def _later(core: Core, results: Results, *, meant: bool) -> bool:
    """Say so if only the later keys are not as they should be: a causal mask that fails."""
    weights, scores = core.weights, core.sample.products
    below = torch.ones(weights.shape[-2:], dtype=torch.bool).tril()
    inside = hy.fit_scores(weights.masked_fill(~below, 0.0), scores)
    if inside.good:
        way = hy.measured_masking(scores * inside.factor, weights, below)
        if way.cause != "mask-leak":
            recipe = Recipe(order=CAUSAL, hiding=way)
            hy.report(recipe, [core.sample], results, weights=weights)
            return True
    later = weights.reshape(-1, *weights.shape[-2:]).triu(1).abs().amax(dim=(-2, -1))
    if meant and bool((later < CLEAR).any()) and bool((later > SURE).any()):
        last = weights.reshape(-1, *weights.shape[-2:])[-1:]
        sentence = "Some heads or sequences see no later key, and the others do."
        evidence = hy.weights_table("Weights of the last:", last)
        results.found("causal-leak", sentence, evidence)
        return True
    return False


def _weights(subject: Subject, core: Core, results: Results) -> None:
    """Report what the weights are, if they are no softmax of known scores over the keys."""
    weights = core.weights
    if hy.tell_sums(weights, results):
        return
    if (weights - weights[:1, :, :1]).abs().max() < SURE:
        sentence = "Every query gives the keys the same weights, whatever query and key are."
        table = hy.weights_table("Weights of the first sequence:", weights)
        results.found("wrong-source", sentence, table)
    elif subject.followed or not mixed(subject, results):
        misfit = min(hy.fit_scores(weights, core.sample.products).residual, 9.0)
        results.held("sums", "without a mask, the weights of every query sum to 1")
        results.ask(
            "scores-not-dot-products",
            "The weights are a softmax of something else than the dot products of query and key "
            f"times one factor (misfit {misfit:.2f}), and the clinic knows no name for it.",
            "Examine it without what it does to the scores first, such as a cap.",
        )
