"""Probes of what an attention function averages: the values, and nothing else."""

from __future__ import annotations

import torch
from torch import Tensor

from attnlab.clinic._calling import Unusable
from attnlab.clinic._results import Results
from attnlab.clinic.functions.calls import GENERAL, Attention, relaxed
from attnlab.clinic.functions.measure import (
    SURE,
    close,
    fit_scores,
    number_table,
    products,
    weights_of,
    weights_table,
)
from attnlab.clinic.functions.neighbours import accuse, moved_by, neighbours, rows_exchanged
from attnlab.clinic.functions.scores import fits

SAME_WIDTH = relaxed(GENERAL, "Ev = E")
SQUARE = relaxed(GENERAL, "L = S and Ev = E")


def examine_sources(attention: Attention, results: Results) -> bool:
    """Find out whether the output averages the values; return whether it does."""
    for sizes in (GENERAL, SAME_WIDTH, SQUARE):
        try:
            query, key, value = attention.inputs(attention.main, sizes)
            output = attention(query, key, value).output
        except Unusable:
            continue
        if not output.isfinite().all():
            if output.isfinite().any():  # rows without an allowed key, perhaps
                return True
            results.found(
                "nan", "The output holds NaN or infinity although every input is ordinary."
            )
            return False
        misfits = {
            name: _misfit(output, rows)
            for name, rows in (("value", value), ("key", key), ("query", query))
            if rows.shape[-1] == output.shape[-1] and rows.shape[-2] < rows.shape[-1]
        }
        averaged = min(misfits, key=misfits.get, default="value")
        if misfits.get("value", 1.0) < SURE:
            return _value_only_averaged(attention, results)
        if misfits.get(averaged, 1.0) < SURE:
            _accuse_source(averaged, misfits, output, (query, key, value), results)
            return False
    _accuse_mixing(attention, results)
    return False


def _misfit(output: Tensor, rows: Tensor) -> float:
    """Return how much of the output is not a combination of these rows of the same sequence."""
    output, rows = output.double(), rows.double()
    rest = output - output @ torch.linalg.pinv(rows) @ rows
    return float(rest.norm() / output.norm().clamp_min(1e-12))


def _accuse_source(
    averaged: str,
    misfits: dict[str, float],
    output: Tensor,
    inputs: tuple[Tensor, Tensor, Tensor],
    results: Results,
) -> None:
    query, key, value = inputs
    rows = {"key": key, "query": query}[averaged]
    weights = output.double() @ torch.linalg.pinv(rows.double())
    evidence = number_table(
        "Part of the output that is no combination of these rows:",
        {f"rows of {name}": [misfit] for name, misfit in misfits.items()},
        ("missing",),
    )
    from_value = averaged == "key" and fit_scores(weights, products(query, value)).good
    if from_value:
        sentence = "Key and value are exchanged: the query is compared with value, key is averaged."
        results.found("key-value-swapped", sentence, evidence)
        return
    results.found(
        "wrong-source", f"The output averages rows of {averaged}, not of value.", evidence
    )


def _value_only_averaged(attention: Attention, results: Results) -> bool:
    """Return whether the weights stay the same when the values change."""
    query, key, value = attention.inputs(attention.main)
    if value.shape[-2] > value.shape[-1]:
        return True
    other = attention.inputs(attention.main, seed=1)[2]
    one = weights_of(attention, query, key, source=value)
    two = weights_of(attention, query, key, source=other)
    if close(one, two, 1e-2):
        results.held(
            "average",
            "the output is a weighted average of the rows of value, and value has no other effect",
        )
        return True
    misfits = fits(one, query, key, value)
    best = min(misfits, key=misfits.get)
    made = f": the scores compare {best}" if misfits[best] < 0.01 and "value" in best else ""
    sentence = f"The weights change when only the value changes{made}."
    results.found("wrong-source", sentence, weights_table("Weights with a first value:", one))
    return False


def _accuse_mixing(attention: Attention, results: Results) -> None:
    """Say what else moves an output that combines no rows of its own sequence."""
    for dim, name, what in neighbours(attention):
        moved = moved_by(attention, dim)
        if moved > SURE:
            accuse(name, what, moved, results)
            return
    if rows_exchanged(attention, results):
        return
    query, key, value = attention.inputs(attention.main)
    missing = _misfit(attention(query, key, value).output, value)
    results.found(
        "wrong-source",
        f"The output is no weighted average of the rows of value: a share of {missing:.2f} of it "
        "comes from elsewhere.",
        number_table("Share of the output from elsewhere:", {"output": [missing]}, ("share",)),
    )
