"""Cross-attention: which side gives the queries, and which the keys and the values."""

from __future__ import annotations

import torch
from torch import Tensor

from attnlab.clinic._results import Results
from attnlab.clinic.layers.calls import Reply, Subject
from attnlab.clinic.layers.influence import influence_table


def examine_sides(subject: Subject, results: Results) -> None:
    """Give queries and keys different lengths and contents."""
    if subject.plan.kind == "x" or results.findings:
        return
    sizes = subject.sizes
    keys = sizes.other()
    query, key = subject.x(seed=1), subject.x(length=keys, seed=2)
    value = subject.x(length=keys, seed=3)
    plain = subject(query, key, value)
    if plain is None:
        _tell_trouble(subject, sizes.length, keys, results)
        return
    names = ("query", "key", "value")
    moves = {}
    for place, name in enumerate(names[: 3 if subject.plan.kind == "triple" else 2]):
        sides = [query, key, value]
        sides[place] = sides[place] + subject.x(1, sides[place].shape[1], seed=9)
        moves[name] = _move(plain, subject(*sides))
    still = [name for name, move in moves.items() if move is not None and move < 1e-9]
    if still == ["key", "value"] and subject.plan.adapter is not None:
        results.note("self", "It reads its query alone: it was examined as self-attention.")
        return
    if still:
        results.found(
            "cross-side",
            f"With {sizes.length} queries and {keys} keys, replacing the {still[0]} does not move "
            "the output: it is never read.",
        )
    elif subject.plan.kind == "triple":
        _judge_values(subject, query, key, value, results)
    if not results.findings:
        results.held("lengths", f"takes {sizes.length} queries and {keys} keys")


def _move(plain: Reply, other: Reply | None) -> float | None:
    if other is None or other.output.shape != plain.output.shape:
        return None
    size = plain.output.abs().mean().clamp_min(1e-12)
    return ((other.output - plain.output).abs().max() / size).item()


def _judge_values(
    subject: Subject, query: Tensor, key: Tensor, value: Tensor, results: Results
) -> None:
    """Check that the output is affine in the values, and in nothing else."""
    bent_value = _bend(subject, lambda part: subject(query, key, part), value)
    bent_key = _bend(subject, lambda part: subject(query, part, value), key)
    if bent_value is None or bent_key is None:
        return
    if bent_key < 1e-6 < bent_value:
        results.found(
            "key-value-swapped",
            "Key and value are swapped: the output is a weighted mean of the keys, and the values "
            "decide the weights.",
            _bend_table(bent_key, bent_value),
        )
    elif bent_value < 1e-6:
        results.held("average", "the output is a weighted sum of the values")


def _bend_table(bent_key: float, bent_value: float):
    return influence_table(
        "How far the output is from affine in the key (row 0) and in the value (row 1):",
        torch.tensor([[bent_key], [bent_value]]),
    )


def _bend(subject: Subject, answer, tokens: Tensor) -> float | None:
    """Return how far f(2x - y) is from 2 f(x) - f(y)."""
    other = subject.x(length=tokens.shape[1], seed=15)
    replies = [answer(part) for part in (tokens, other, 2 * tokens - other)]
    if any(reply is None for reply in replies):
        return None
    one, two, three = (reply.output for reply in replies)
    size = one.abs().mean().clamp_min(1e-12)
    return ((three - (2 * one - two)).abs().max() / size).item()


def _tell_trouble(subject: Subject, length: int, keys: int, results: Results) -> None:
    swapped = [(s[1] if len(s) == 3 else 0) for s in subject.shapes]
    if subject.last.error is None and keys in swapped:
        results.found(
            "cross-side",
            f"With {length} queries and {keys} keys it returns {keys} rows: the queries come from "
            "the memory.",
        )
    elif subject.caller.out_of_time:
        return
    elif subject.plan.adapter is None and subject.last.error is not None:
        results.found(
            "square-only",
            f"With {length} queries and {keys} keys it raises {subject.trouble}",
        )
