"""Cross-attention: which side gives the queries, and which the keys and the values."""

from __future__ import annotations

import torch
from torch import Tensor

from attnlab.clinic._results import Results
from attnlab.clinic.layers.calls import Subject
from attnlab.clinic.layers.influence import influence_table

NAMES = ("query", "key", "value")


def examine_sides(subject: Subject, results: Results) -> None:
    """Give queries and keys different lengths and contents."""
    if subject.plan.kind == "x" or results.findings:
        return
    count, keys = subject.sizes.length, subject.sizes.other()
    sides = [subject.x(length=n, seed=seed) for n, seed in ((count, 1), (keys, 2), (keys, 3))]
    names = NAMES[: 3 if subject.plan.kind == "triple" else 2]
    plain, told = subject(*sides), f"With {count} queries and {keys} keys"
    if plain is None:
        _tell_trouble(subject, told, keys, results)
        return
    still = []
    for place, name in enumerate(names):
        new = sides[place] + subject.x(1, sides[place].shape[1], seed=9)
        reply = subject(*sides[:place], new, *sides[place + 1 :])
        if reply is not None and _far(reply.output, plain.output) < 1e-9:
            still.append(name)
    if still == ["key", "value"] and subject.plan.adapter is not None:
        results.note("self", "It reads its query alone: it was examined as self-attention.")
        return
    if still:
        sentence = f"{told}, replacing the {still[0]} does not move the output: it is never read."
        results.found("cross-side", sentence)
    elif len(names) == 3:
        _judge_values(subject, sides, results)
    if not results.findings:
        results.held("lengths", f"takes {count} queries and {keys} keys")


def _far(one: Tensor, two: Tensor) -> float:
    """Return how far two outputs are apart, relative to their size."""
    if one.shape != two.shape:
        return 1.0
    return float((one - two).abs().max() / two.abs().mean().clamp_min(1e-12))


def _judge_values(subject: Subject, sides: list[Tensor], results: Results) -> None:
    """Check that the output is affine in the values, and in nothing else."""
    bent = []
    for place in (1, 2):
        one, other = sides[place], subject.x(length=sides[place].shape[1], seed=15)
        parts = (one, other, 2 * one - other)
        replies = [subject(*sides[:place], part, *sides[place + 1 :]) for part in parts]
        if any(reply is None for reply in replies):
            return
        one, two, three = (reply.output for reply in replies)
        bent.append(float((three - (2 * one - two)).abs().max() / one.abs().mean()))
    bent_key, bent_value = bent
    if bent_key < 1e-6 < bent_value:
        caption = "How far the output is from affine in the key (row 0) and in the value (row 1):"
        results.found(
            "key-value-swapped",
            "Key and value are swapped: the output is a weighted mean of the keys, and the values "
            "decide the weights.",
            influence_table(caption, torch.tensor([[bent_key], [bent_value]])),
        )
    elif bent_value < 1e-6:
        results.held("average", "the output is a weighted sum of the values")


def _tell_trouble(subject: Subject, told: str, keys: int, results: Results) -> None:
    if subject.last.error is None and any(keys in shape[:2] for shape in subject.shapes):
        sentence = f"{told} it returns {keys} rows: the queries come from the memory."
        results.found("cross-side", sentence)
    elif subject.plan.adapter is None and subject.last.error and not subject.caller.out_of_time:
        results.found("square-only", f"{told} it raises {subject.trouble}")
