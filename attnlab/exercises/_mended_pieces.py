"""The check of an exercise of lesson 8: repair attention that goes through the keys in pieces."""

from __future__ import annotations

import math
from itertools import product

import torch
import torch.nn.functional as F
from torch import Tensor

from attnlab.clinic import Evidence
from attnlab.exercises._answers import Answer, NotDone, Right, Wrong, article, judge, table, vector
from attnlab.exercises._verdict import Verdict

L, S, E, EV, SIZE = 5, 11, 4, 3, 4
FAR = 150.0  # moves every key: scores of some hundreds, above or below 0

BUGS = (
    "the top begins at 0, which is wrong where every score lies far below 0",
    "the output is not shrunk when the top rises",
    "the output is divided in every round, and not once at the end",
)


def check_mended_pieces(answer: object) -> Verdict:
    """Check attention that goes through the keys in pieces, in one pass.

    Verified: shape and numbers of the output, for scores near 0, far above and far below, and for
    pieces of one key and of more keys than there are; a wrong output is compared with the ways to
    leave some of the three bugs in.

    Parameters
    ----------
    answer : callable
        A function of (query, key, value, size) that returns the output (L, Ev).

    Returns
    -------
    Verdict
        Never an error.

    See Also
    --------
    attnlab.tiled_attention : the same for queries in tiles, with masks and a backward pass.
    """
    return judge(answer, _mended_pieces)


def _mended_pieces(answer: Answer) -> Right:
    inputs = _inputs(0.0)
    right = _by_pieces(*inputs, SIZE)
    case = f"query {(L, E)}, key {(S, E)}, value {(S, EV)} and pieces of {SIZE}"
    output = _ask(answer, inputs, SIZE, case)
    if output.shape != right.shape:
        shapes = f"{tuple(right.shape)}, got {tuple(output.shape)}"
        raise Wrong(f"With {case} the output must be {shapes}.")
    if not _same(output, right):
        raise Wrong(_bugs_left(answer, output, inputs), _first_difference(output, right))
    _see_far_scores(answer)
    for size in (1, S + 3):
        case = f"pieces of {size}"
        if not _same(_ask(answer, inputs, size, case), right):
            raise Wrong(f"Right for pieces of {SIZE}; with {case} it is wrong.")
    return Right("It is attention: for low and high scores, and for pieces of 1, 4 and 14 keys.")


def _inputs(shift: float) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    query = torch.randn(L, E, generator=generator).abs() + 0.5
    key = torch.randn(S, E, generator=generator).sort(dim=0).values + shift  # the top rises
    return query, key, torch.randn(S, EV, generator=generator)


def _by_pieces(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    size: int,
    bugs: tuple[bool, ...] = (False, False, False),
    scale: float | None = None,
) -> Tensor:
    """Return attention in pieces of keys, with some of the three bugs."""
    zero_top, unshrunk, divided = bugs
    scores = query @ key.T * (scale or 1 / math.sqrt(query.shape[-1]))
    top = torch.full((len(query), 1), 0.0 if zero_top else torch.finfo(scores.dtype).min)
    total, output = torch.zeros_like(top), torch.zeros(len(query), value.shape[-1])
    for piece, values in zip(scores.split(size, dim=-1), value.split(size), strict=True):
        new_top = torch.maximum(top, piece.amax(dim=-1, keepdim=True))
        shrink = (top - new_top).exp()
        exponentials = (piece - new_top).exp()
        total = total * shrink + exponentials.sum(dim=-1, keepdim=True)
        output = output * (1.0 if unshrunk else shrink) + exponentials @ values
        output = output / total if divided else output
        top = new_top
    return output if divided else output / total


def _see_far_scores(answer: Answer) -> None:
    for shift, where in ((FAR, "far above 0"), (-FAR, "far below 0")):
        inputs = _inputs(shift)
        case = f"scores {where}"
        output = _ask(answer, inputs, SIZE, case)
        right = _by_pieces(*inputs, SIZE)
        if output.shape == right.shape and _same(output, right, 1e-3):
            continue
        why = "Take the largest score so far away from every score, before exp."
        if shift < 0:
            why = f"One bug is left: {BUGS[0]}: each exponential rounds to 0."
        raise Wrong(f"Right for scores near 0; with {case} it is wrong. {why}")


def _bugs_left(answer: Answer, output: Tensor, inputs: tuple[Tensor, ...]) -> str:
    below = _ask(answer, _inputs(-FAR), SIZE, "scores far below 0")
    for rest in sorted(product((False, True), repeat=2), key=sum):
        found = (_by_pieces(*inputs, SIZE, (zero, *rest)) for zero in (False, True))
        if any(rest) and any(_same(output, one) for one in found):
            named = next(words for bug, words in zip(rest, BUGS[1:], strict=True) if bug)
            left = sum(rest) + bool(below.isnan().any())
            return f"{'One bug is' if left == 1 else f'{left} bugs are'} left: {named}."
    slips = {
        "The scores are not divided by the root of E.": _by_pieces(*inputs, SIZE, scale=1.0),
        "The output is divided twice: in every round and at the end.": _twice(inputs),
        "The output is not divided by the total.": _undivided(inputs),
        "These are the values of the last piece alone: what was added up before is lost.": (
            _last_piece(inputs)
        ),
    }
    for why, slip in slips.items():
        if _same(output, slip):
            return why
    return "The shape is right, the numbers are not. Follow top, total and output of one row."


def _twice(inputs: tuple[Tensor, ...]) -> Tensor:
    query, key, _value = inputs
    weights = (query @ key.T / math.sqrt(E)).softmax(dim=-1)
    divided = _by_pieces(*inputs, SIZE, (False, False, True))
    return divided * weights.amax(dim=-1, keepdim=True)  # 1 / total is the largest weight


def _undivided(inputs: tuple[Tensor, ...]) -> Tensor:
    query, key, value = inputs
    scores = query @ key.T / math.sqrt(E)
    return (scores - scores.amax(dim=-1, keepdim=True)).exp() @ value


def _last_piece(inputs: tuple[Tensor, ...]) -> Tensor:
    query, key, value = inputs
    start = (S - 1) // SIZE * SIZE
    return F.scaled_dot_product_attention(query, key[start:], value[start:])


def _ask(answer: Answer, inputs: tuple[Tensor, ...], size: int, case: str) -> Tensor:
    given = [one.clone() for one in inputs]
    return answer.ask(*given, size, read=_tensor, case=case)


def _tensor(value: object) -> Tensor:
    if value is None:
        raise NotDone
    if not isinstance(value, Tensor):
        kind = article(type(value).__name__)
        raise Wrong(f"It gives {kind} instead of a tensor; return the output alone.")
    return vector(value)


def _same(one: Tensor, other: Tensor, atol: float = 1e-5) -> bool:
    return one.shape == other.shape and torch.allclose(one, other.to(one), atol=atol)


def _first_difference(yours: Tensor, right: Tensor) -> Evidence:
    """Return the first row of the output that differs."""
    off = (yours - right).abs().nan_to_num(nan=math.inf).amax(dim=-1)
    row = int((off > 1e-5).nonzero()[0])
    rows = {"yours": yours[row].tolist(), "right": right[row].tolist()}
    return table(f"Output of query {row}:", rows, [f"feature {n}" for n in range(EV)])
