"""What can be said of an output that no named recipe gives: what is added, hidden, or lost."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from attnlab.clinic.family import CAUSAL, ONE_AHEAD, ORDERS
from attnlab.clinic.measure import CLEAR, fit_scores, measured_masking, measured_weights, seen_keys
from attnlab.clinic.observe import Core, Observer
from attnlab.clinic.probes.behaviour import mixed
from attnlab.clinic.probes.layers import exchanged
from attnlab.clinic.results import Fact, ask, held, note, unexamined, wrong
from attnlab.clinic.sample import SURE, Sample, Way
from attnlab.clinic.search import Recipe
from attnlab.clinic.words import slips_told, sums_told, weights_table


def pattern_told(recipe: Recipe, sample: Sample, *, meant: bool) -> Iterator[Fact]:
    """Yield which keys are never seen, where no named order says so, and what is added.

    ``meant`` says that no query is meant to see a later key.
    """
    bias = recipe.order.compute(*sample.products.shape[-2:])
    if bias.dtype != torch.bool:
        sentence = "Something that depends on the positions alone is added to the scores."
        yield note("positions", sentence)
    weights = recipe.weights(sample)
    seen, evidence = seen_keys(weights), weights_table("Weights of the first sequence:", weights)
    (queries, keys), lost, ahead = seen.shape, ~seen.any(dim=0), seen.triu(1)
    way = next((way for way in ORDERS if way.cause and _blocks(way, seen)), None)
    if way is None and meant and ahead.any() and not ahead.triu(2).any():
        way = ONE_AHEAD  # the end of a window, or of a chunk
    if seen.all():
        if meant:
            yield not_causal(sample)
    elif lost.any() and seen[:, ~lost].all():
        name, key = "wrong-source", int(lost.nonzero()[0])
        sentence = f"No query ever looks at key {key} of {keys}: it is lost on the way."
        if torch.equal(~lost, torch.arange(keys) < queries):
            name, sentence = "square-only", f"With {queries} queries and {keys} keys, no query ever"
            sentence += f" sees key {key}: as many keys as queries are taken."
        yield wrong(name, sentence, evidence)
    elif way is not None:
        yield wrong(way.cause, way.words, evidence)
    elif not seen.any(dim=1).all():
        first = int((~seen.any(dim=1)).nonzero()[0])
        name = "nan" if ahead.any() else "causal-off-by-one"
        sentence = f"Query {first} sees no key at all, so nothing is left to average."
        yield wrong(name, sentence, evidence, advice="leave every query a key: at least its own.")
    elif not ahead.any():
        yield held("causal", "no query sees a later key (causal)")
        if not torch.equal(seen, torch.ones_like(seen).tril()):
            words = "Some earlier keys are never seen either: a window, perhaps."
            yield note("window", words)
    elif meant:
        i, j = ahead.nonzero()[0].tolist()
        sentence = f"{int(ahead.any(dim=1).sum())} of {queries} queries see later keys, such as "
        yield wrong("causal-leak", f"{sentence}query {i} key {j}.", evidence)
    else:
        i, j = (~seen).nonzero()[0].tolist()
        words = f"Some keys are never seen by some queries, such as key {j} by query {i}."
        yield note("window", words)


def _blocks(way: Way, seen: Tensor) -> bool:
    """Return whether an order blocks exactly what is never seen; rows without a key are free."""
    allowed = way.compute(*seen.shape)
    known = allowed.any(dim=-1)
    return torch.equal(seen[known], allowed[known])


def not_causal(sample: Sample) -> Fact:
    """Return that later keys are seen where none should be."""
    weights = measured_weights(sample)
    later = weights.triu(1).sum(dim=-1).max()
    sentence = (
        "It is meant to be causal, but queries see later keys, which take up to "
        f"{later:.2f} of a query's weight."
    )
    return wrong("causal-missing", sentence, weights_table("Weights:", weights))


def unexplained(watch: Observer, core: Core, *, meant: bool) -> Iterator[Fact]:
    """Yield what is wrong with an output that no recipe gives.

    ``meant`` says that no query is meant to see a later key.
    """
    sample, call = core.sample, watch.call
    followed = call.signature.followed
    if not sample.output.isfinite().all():
        yield wrong("nan", "The output holds NaN or infinity although every input is ordinary.")
    elif "E" in call.plan.demand:  # it may have heads inside
        yield unexamined(
            "It insists on an even number of features, and what it does with them is not known.",
            remedy="Examine the attention inside it by itself.",
        )
    elif not followed and (share := _share(sample.output, sample.value)) > SURE:
        sentence = "The output is no weighted average of the rows of value: a share of "
        right = core._replace(sample=sample._replace(output=Recipe().output(sample)))
        elsewhere = wrong("wrong-source", f"{sentence}{share:.2f} of it comes from elsewhere.")
        yield from mixed(call, exchanged(right)) or [elsewhere]
    else:
        yield from _later_seen(core, meant=meant) or _weights_told(watch, core)


def _share(output: Tensor, rows: Tensor) -> float:
    """Return how much of the output is not a combination of these rows of the same sequence."""
    output, rows = output.double(), rows.double()
    rest = output - output @ torch.linalg.pinv(rows) @ rows
    return float(rest.norm() / output.norm().clamp_min(1e-12))


def _later_seen(core: Core, *, meant: bool) -> list[Fact]:
    """Return facts if only the later keys are not as they should be: a causal mask that fails."""
    weights, scores = core.weights, core.sample.products
    below = torch.ones(weights.shape[-2:], dtype=torch.bool).tril()
    inside = fit_scores(weights.masked_fill(~below, 0.0), scores)
    if inside.good:
        way = measured_masking(scores * inside.factor, weights, below)
        if way.cause != "mask-leak":
            recipe = Recipe(order=CAUSAL, hiding=way)
            return list(slips_told(recipe, [core.sample], weights=weights))
    later = weights.reshape(-1, *weights.shape[-2:]).triu(1).abs().amax(dim=(-2, -1))
    if meant and bool((later < CLEAR).any()) and bool((later > SURE).any()):
        last = weights.reshape(-1, *weights.shape[-2:])[-1:]
        sentence = "Some heads or sequences see no later key, and the others do."
        return [wrong("causal-leak", sentence, weights_table("Weights of the last:", last))]
    return []


def _weights_told(watch: Observer, core: Core) -> list[Fact]:
    """Return what the weights are, if they are no softmax of known scores over the keys."""
    weights, call = core.weights, watch.call
    if sums := sums_told(weights):
        return sums
    if (weights - weights[:1, :, :1]).abs().max() < SURE:
        sentence = "Every query gives the keys the same weights, whatever query and key are."
        evidence = weights_table("Weights of the first sequence:", weights)
        return [wrong("wrong-source", sentence, evidence)]
    if not call.signature.followed and (facts := mixed(call)):
        return facts
    misfit = min(fit_scores(weights, core.sample.products).residual, 9.0)
    return [
        held("sums", "without a mask, the weights of every query sum to 1"),
        ask(
            "scores-not-dot-products",
            "The weights are a softmax of something else than the dot products of query and key "
            f"times one factor (misfit {misfit:.2f}), and the clinic knows no name for it.",
            "Examine it without what it does to the scores first, such as a cap.",
        ),
    ]
