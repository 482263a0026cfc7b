"""Checks for the exercises of lesson 7: multi-head attention."""

from __future__ import annotations

import math
from itertools import product

import torch
from torch import Tensor

from attnlab.clinic import Evidence
from attnlab.exercises._answers import (
    Answer,
    NotDone,
    Right,
    Wrong,
    article,
    judge,
    table,
    vector,
)
from attnlab.exercises._pair_test import check_pair_test
from attnlab.exercises._verdict import Verdict
from attnlab.heads import merge_heads, split_heads

__all__ = ["check_by_letters", "check_mended_heads", "check_pair_test", "check_tokens_in_head"]

N, L, H, HEAD_DIM = 2, 5, 3, 4
E = H * HEAD_DIM


def check_tokens_in_head(answer: object) -> Verdict:
    """Check which tokens have numbers in head 2 of ``x.view(4, 6, 2)``, with x of shape (6, 8).

    Verified: the two tokens, each once, in any order.

    Parameters
    ----------
    answer : callable or sequence of int
        A function without arguments that returns the tokens, or the tokens.

    Returns
    -------
    Verdict
        Never an error.

    See Also
    --------
    attnlab.split_heads : puts every token into every head.
    """
    return judge(answer, _tokens_in_head)


def check_by_letters(answer: object) -> Verdict:
    """Check attention in the layout (N, L, H, head_dim).

    Verified: shape and numbers of the output for random query, key and value of two sizes, with L
    and S apart.

    Parameters
    ----------
    answer : callable
        A function of (query, key, value) that returns the output.

    Returns
    -------
    Verdict
        Never an error.

    See Also
    --------
    torch.einsum : names the axes by letters.
    """
    return judge(answer, _by_letters)


def check_mended_heads(answer: object) -> Verdict:
    """Check self-attention in several heads, without projections.

    Verified: shape and numbers of the output; a wrong output is compared with the eight ways to
    leave some of the three bugs in.

    Parameters
    ----------
    answer : callable
        A function of (x, num_heads) that returns the output (N, L, E).

    Returns
    -------
    Verdict
        Never an error.

    See Also
    --------
    attnlab.MultiHeadAttention : the same with projections.
    """
    return judge(answer, _mended_heads)


# --- tokens in a head -----------------------------------------------------------------------------

TOKENS = {3, 4}
SAID = {
    (
        0,
        1,
        2,
        3,
        4,
        5,
    ): "That is what a right split gives. Here `view` hands the numbers out in the "
    "order of memory, and head 2 gets twelve of them.",
    (
        0,
        1,
    ): "Those are the tokens of head 0. Heads are counted from 0: head 2 is the third.",
    (
        1,
        2,
    ): "Those are the tokens of head 1. Heads are counted from 0: head 2 is the third.",
    (4, 5): "Those are the tokens of head 3, the last one. Heads are counted from 0.",
    (2,): "A head holds 6 rows of 2 numbers, twelve in all: more than the 8 of one token.",
    (2, 3): "Count numbers: the heads 0 and 1 take 24, and token 2 ends at number 23.",
    (4,): "Token 4 holds the numbers 32 to 39. Where do the numbers of head 2 begin?",
    (3,): "A head holds twelve numbers, and a token has 8: one token is not enough.",
}


def _tokens_in_head(answer: Answer) -> Right:
    said = answer.value(_whole_numbers)
    if not said:
        raise Wrong("The list is empty: head 2 holds twelve numbers, and they belong to tokens.")
    outside = [token for token in said if token not in range(6)]
    if outside:
        raise Wrong(f"There are tokens 0 to 5, and your list holds {outside[0]}.")
    if set(said) == TOKENS:
        if len(said) > len(TOKENS):
            raise Wrong("These are the tokens. Name each of them once.")
        return Right("These are the tokens whose numbers head 2 holds.")
    hint = "Number the 48 numbers of x in the order of memory. Which of them go to head 2?"
    why = SAID.get(tuple(sorted(set(said))), hint)
    caption = "Numbers of x in the order of memory; token t holds 8 t to 8 t + 7:"
    row = {"head 0": [0, 11]}
    raise Wrong(why, table(caption, row, ["first number", "last number"]))


def _whole_numbers(value: object) -> list[int]:
    if isinstance(value, set | frozenset) and all(isinstance(one, int) for one in value):
        value = sorted(value)
    read = vector(value).flatten()
    if not read.isfinite().all() or (read != read.round()).any():
        raise Wrong("Tokens are whole numbers, counted from 0.")
    return [int(one) for one in read.tolist()]


# --- attention by letters -------------------------------------------------------------------------

SIZES = ((2, 5, 7, 3, 6), (3, 4, 2, 5, 7))  # N, L, S, H, head_dim: no root is another size


def _by_letters(answer: Answer) -> Right:
    for n, length, others, heads, size in SIZES:
        inputs = _random((n, length, heads, size), *[(n, others, heads, size)] * 2)
        query, key, _ = inputs
        case = f"query {tuple(query.shape)}, key and value {tuple(key.shape)}"
        output = answer.ask(*(one.clone() for one in inputs), read=_tensor, case=case)
        right = _letters(*inputs)
        if output.shape != right.shape:
            raise Wrong(_shape_by_letters(output, right, case, others))
        if not _same(output, right):
            first = _first_difference(output, right, ("sequence", "query", "head", "feature"))
            if size == SIZES[0][-1]:
                raise Wrong(_wrong_by_letters(output, *inputs), first)
            raise Wrong(f"Right for head_dim 6; with {case} it is wrong. Is a size fixed?", first)
    return Right(f"The numbers hold in every head, for {case} and another size.")


def _letters(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    scores = torch.einsum("nlhd,nshd->nhls", query, key) / math.sqrt(query.shape[-1])
    return torch.einsum("nhls,nshd->nlhd", scores.softmax(dim=-1), value)


def _shape_by_letters(output: Tensor, right: Tensor, case: str, others: int) -> str:
    told = f"With {case} the output must be {tuple(right.shape)}, got {tuple(output.shape)}."
    if output.shape == right.transpose(1, 2).shape:
        return f"{told} The heads stand in front of the tokens: end the letters with lhd."
    if output.shape == right.flatten(-2).shape:
        return f"{told} The heads are merged already; leave them apart."
    if output.ndim == 4 and output.shape[-2:] == (right.shape[1], others):
        return f"{told} These are the weights; the values are still to be averaged."
    return told


def _wrong_by_letters(output: Tensor, query: Tensor, key: Tensor, value: Tensor) -> str:
    scores = torch.einsum("nlhd,nshd->nhls", query, key)
    n, _, heads, size = query.shape
    scaled = scores / math.sqrt(size)
    slips = {
        "The scores are not divided: by the root of head_dim.": scores.softmax(dim=-1),
        "The softmax runs over the queries. In nhls the keys are s, the last letter.": (
            scaled.softmax(dim=-2)
        ),
        "The softmax runs over the heads. In nhls the keys are s, the last letter.": (
            scaled.softmax(dim=1)
        ),
        "There is no softmax: the raw scores are used as weights.": scores,
        "There is no softmax: the scores are used as weights.": scaled,
    }
    divisors = {
        "the root of all features of a token. A dot product inside a head has head_dim terms: "
        "divide by its root": math.sqrt(heads * size),
        "the root of the number of heads: the last size of the query is head_dim, the one before "
        "it is H": math.sqrt(heads),
        "head_dim itself, not by its root": size,
        "2: the root belongs to head_dim, the last size of the query": n,
    }
    for name, divisor in divisors.items():
        slips[f"The scores are divided by {name}."] = (scores / divisor).softmax(dim=-1)
    for why, weights in slips.items():
        if _same(output, torch.einsum("nhls,nshd->nlhd", weights, value)):
            return why
    return "The shape is right, the numbers are not. Which letter is summed over in each line?"


# --- three bugs -----------------------------------------------------------------------------------

BUGS = (
    "the split cuts the order of memory: cut the features first, then transpose",
    "the scores are divided by the root of E: a dot product inside a head has only head_dim terms",
    "the merge joins without transposing back",
)


def _mended_heads(answer: Answer) -> Right:
    (x,) = _random((N, L, E))
    case = f"x {tuple(x.shape)} and {H} heads"
    output = answer.ask(x.clone(), H, read=_tensor, case=case)
    right = _attend(x, H)
    if output.shape != right.shape:
        raise Wrong(f"With {case} the output must be {tuple(x.shape)}, got {tuple(output.shape)}.")
    if not _same(output, right):
        why = _bugs_left(output, x)
        raise Wrong(why, _first_difference(output, right, ("sequence", "token", "feature")))
    for heads, other in ((1, x), (E, x), (2, _random((1, 7, 6))[0])):
        case = f"x {tuple(other.shape)} and {heads} head{'s' * (heads > 1)}"
        again = answer.ask(other.clone(), heads, read=_tensor, case=case)
        if again.shape != other.shape or not _same(again, _attend(other, heads)):
            raise Wrong(f"Right for 3 heads; with {case} the output is wrong. Is a size fixed?")
    return Right("Every head sees every token, and the numbers hold for 1, 2, 3 and 12 heads.")


def _attend(x: Tensor, heads: int, bugs: tuple[bool, ...] = (False, False, False)) -> Tensor:
    """Return attention in heads with query = key = value = x, with some of the three bugs."""
    n, length, width = x.shape
    size = width // heads
    parts = x.reshape(n, heads, length, size) if bugs[0] else split_heads(x, heads)
    scores = parts @ parts.transpose(-2, -1) / math.sqrt(width if bugs[1] else size)
    mixed = scores.softmax(dim=-1) @ parts
    return mixed.reshape(n, length, width) if bugs[2] else merge_heads(mixed)


def _bugs_left(output: Tensor, x: Tensor) -> str:
    for bugs in sorted(product((False, True), repeat=3), key=sum):
        if any(bugs) and _same(output, _attend(x, H, bugs)):
            left = [words for bug, words in zip(bugs, BUGS, strict=True) if bug]
            count = "One bug is left" if len(left) == 1 else f"{len(left)} bugs are left, first"
            return f"{count}: {left[0]}."
    across = x.unflatten(-1, (H, HEAD_DIM))
    weights = (across @ across.transpose(-2, -1) / math.sqrt(HEAD_DIM)).softmax(dim=-1)
    slips = {
        "The heads were not moved in front of the tokens: each token attends to its own heads, and "
        "tokens never meet.": (weights @ across).flatten(-2),
        "The scores are not divided: by the root of head_dim.": _divided(x, 1),
        "The scores are divided by the root of the number of heads, not of head_dim.": (
            _divided(x, math.sqrt(H))
        ),
        "The scores are divided by the root of the number of tokens, not of head_dim.": (
            _divided(x, math.sqrt(x.shape[1]))
        ),
        "The scores are divided by head_dim itself, not by its root.": _divided(x, HEAD_DIM),
        "This is a single head over all features: the cut is missing.": _attend(x, 1),
    }
    for why, slip in slips.items():
        if _same(output, slip):
            return why
    return "The shape is right, the numbers are not. Follow one number through split and merge."


def _divided(x: Tensor, divisor: float) -> Tensor:
    parts = split_heads(x, H)
    return merge_heads((parts @ parts.transpose(-2, -1) / divisor).softmax(dim=-1) @ parts)


# --- shared ---------------------------------------------------------------------------------------


def _random(*sizes: tuple[int, ...]) -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(size, generator=generator) for size in sizes]


def _tensor(value: object) -> Tensor:
    if value is None:
        raise NotDone
    if not isinstance(value, Tensor):
        kind = article(type(value).__name__)
        raise Wrong(f"It gives {kind} instead of a tensor; return the output alone.")
    return vector(value)


def _same(one: Tensor, other: Tensor) -> bool:
    return one.shape == other.shape and torch.allclose(one, other.to(one), atol=1e-5)


def _first_difference(yours: Tensor, right: Tensor, names: tuple[str, ...]) -> Evidence:
    """Return the first entry that differs and what follows it, with their place."""
    off = (yours - right).abs().nan_to_num(nan=math.inf)
    *place, feature = (off > 0.1 * off.max().clamp(max=1e3)).nonzero()[0].tolist()
    row = tuple(place)
    shown = range(feature, min(feature + 4, right.shape[-1]))
    rows = {"yours": yours[row][list(shown)].tolist(), "right": right[row][list(shown)].tolist()}
    where = ", ".join(f"{name} {at}" for name, at in zip(names, place, strict=False))
    return table(
        f"From the first difference on, {where}:", rows, [f"{names[-1]} {n}" for n in shown]
    )
