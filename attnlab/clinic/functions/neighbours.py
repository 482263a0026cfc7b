"""Probes of who reaches whom: sequences of a batch, heads, positions."""

from __future__ import annotations

from attnlab.clinic._calling import Unusable
from attnlab.clinic._results import Results
from attnlab.clinic.functions.calls import Attention
from attnlab.clinic.functions.measure import (
    SURE,
    number_table,
    perturbed,
)


def examine_neighbours(attention: Attention, results: Results, ndim: int) -> None:
    """Find out whether one sequence or head changes the result of another."""
    for dim, name, what in neighbours(attention, ndim):
        try:
            moved = moved_by(attention, dim, ndim)
        except Unusable:
            continue
        if moved > SURE:
            accuse(name, what, moved, results)
        else:
            results.held("apart", f"one {what} never changes the result of another")


def neighbours(attention: Attention, ndim: int | None = None) -> list[tuple[int, str, str]]:
    """Return dimension, name of the finding and word for everything that must be kept apart."""
    ndim = ndim or attention.main
    every = [(0, "batch-mixing", "sequence of the batch"), (1, "head-mixing", "head")]
    return every[: ndim - 2]


def moved_by(attention: Attention, dim: int, ndim: int | None = None) -> float:
    """Return how much the first or last slice of the output moves when all the others are new."""
    inputs = attention.inputs(ndim or attention.main)
    output, moved = attention(*inputs).output, 0.0
    for own, others in ((0, slice(1, None)), (-1, slice(None, -1))):
        where = tuple([slice(None)] * dim + [others])
        changed = attention(*(perturbed(part, where) for part in inputs)).output
        before, after = output.select(dim, own), changed.select(dim, own)
        moved = max(moved, float((after - before).abs().max() / before.abs().max().clamp_min(1e-6)))
    return moved


def accuse(name: str, what: str, moved: float, results: Results) -> None:
    """Report that another sequence or head changes a result."""
    sentence = (
        f"Another {what} changes this one's result, by {moved:.2f} of its size: every {what} must "
        "be treated alone."
    )
    caption = f"Result of one {what}, when only the others change:"
    evidence = number_table(caption, {"largest change / size": [moved]}, ("moved",))
    results.found(name, sentence, evidence)


def rows_exchanged(attention: Attention, results: Results) -> bool:
    """Say so if a query decides about the output of another position."""
    query, key, value = attention.inputs(attention.main)
    before = attention(query, key, value).output
    after = attention(perturbed(query, (..., slice(0, 1), slice(None))), key, value).output
    moved = (after - before).norm(dim=-1).reshape(-1, before.shape[-2]).amax(dim=0)
    if moved[1:].max() < SURE or moved[0] > moved[1:].max():
        return False
    sentence = "A change of query 0 moves other rows of the output: they are not in their places."
    rows = {f"output row {i}": [float(change)] for i, change in enumerate(moved)}
    results.found("position-mixing", sentence, number_table("Movement:", rows, ("moved",)))
    return True
