"""The weights that a module returns, beside those that it uses."""

from __future__ import annotations

import torch
from torch import Tensor

from attnlab.clinic._report import Evidence
from attnlab.clinic._results import Results
from attnlab.clinic.layers.calls import Reply
from attnlab.clinic.layers.influence import influence_table
from attnlab.clinic.layers.recipe import Recipe, computed_weights, query_key
from attnlab.clinic.layers.understanding import Found


def judge_weights(reply: Reply, found: Found | None, results: Results) -> None:
    """Look at the weights that it returns."""
    if reply.weights is None:
        if reply.missing:
            results.note("weights", "It returns None for the weights.")
        return
    weights = reply.weights.detach().double()
    if reply.averaged:
        results.note(
            "weights",
            f"It returns weights of shape {tuple(weights[:, 0].shape)}: a mean over heads.",
        )
    understood = found is not None and not found.name and found.recipe.softmax == "keys"
    off = (weights.sum(dim=-1) - 1).abs().max().item()
    if off < 1e-5:
        results.held("sums", "the weights of every query sum to 1")
        if found is not None:
            _compare_weights(weights, found, reply.averaged, results)
    elif understood:
        results.found(
            "weights-differ",
            f"The weights that it returns sum to {_span(weights)} over the keys, and are not "
            "those that made the output.",
            _weights_table(weights),
        )
    else:
        _name_axis(weights, results)
    if weights.shape[1] > 1 and (weights - weights[:, :1]).abs().max() < 1e-9:
        results.found("heads-shared", f"All {weights.shape[1]} heads return the same weights.")


def _compare_weights(weights: Tensor, found: Found, averaged: bool, results: Results) -> None:
    used = weights_of(found)
    if used is None or found.recipe.softmax != "keys":
        return
    used = used.mean(dim=1, keepdim=True) if averaged else used
    if used.shape == weights.shape and (used - weights).abs().max() > 1e-4:
        if torch.allclose(used, weights.mT, atol=1e-4):
            results.found("weights-differ", "The weights that it returns are transposed.")
        else:
            far = (used - weights).abs().max().item()
            results.found(
                "weights-differ",
                f"The weights that it returns differ by up to {far:.2g} from those that made the "
                "output.",
                _weights_table(weights),
            )


def _span(weights: Tensor) -> str:
    sums = weights.sum(dim=-1)
    return f"{sums.min().item():.2g} to {sums.max().item():.2g}"


def _weights_table(weights: Tensor) -> Evidence:
    return influence_table("Weights of the first head:", weights[0, 0], "query", "key")


def _name_axis(weights: Tensor, results: Results) -> None:
    for axis, words in ((-2, "queries"), (1, "heads"), (0, "batch")):
        one = (weights.sum(dim=axis) - 1).abs().max() < 1e-5
        if one and weights.shape[axis] > 1:
            results.found(
                "softmax-axis",
                f"The softmax runs over the {words} (dimension {axis}): the weights of a query sum "
                f"to {_span(weights)}, those over the {words} to 1.",
                _weights_table(weights),
            )
            return
    results.found(
        "not-normalised",
        f"The weights of a query sum to {_span(weights)} instead of 1.",
        _weights_table(weights),
    )


def weights_of(found: Found) -> Tensor | None:
    """Return the weights that a recipe stands for, (N, H, L, S); None if they cannot be had."""
    sides = query_key(found.flow, found.recipe)
    if sides is None:
        return None
    scores = sides[0] @ sides[1].transpose(-2, -1) * found.recipe.scale
    return computed_weights(scores, found.recipe, causal_of(found.recipe, scores))


def causal_of(recipe: Recipe, scores: Tensor) -> Tensor | None:
    """Return the causal mask that a recipe uses, or None."""
    if not recipe.causal:
        return None
    return torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
