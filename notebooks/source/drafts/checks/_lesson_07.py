"""Checks for the exercises of lesson 7: multi-head attention."""

from __future__ import annotations

import math
from collections.abc import Callable
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
from attnlab.exercises._verdict import Verdict
from attnlab.heads import merge_heads, split_heads

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

    Verified: shape and numbers of the output for random query, key and value, with L and S apart.

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


def check_pair_test(answer: object) -> Verdict:
    """Check a test that tells a right pair (split, merge) from wrong ones.

    Verified: True for three right pairs, False for six wrong ones.

    Parameters
    ----------
    answer : callable
        A function of (split, merge) that returns a bool.

    Returns
    -------
    Verdict
        Never an error.

    See Also
    --------
    attnlab.clinic.diagnose : names what is wrong with such a pair.
    """
    return judge(answer, _pair_test)


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
    (
        2,
    ): "A head holds 6 rows of 2 numbers, twelve in all: more than the 8 of one token.",
    (2, 3): "Count numbers: the heads 0 and 1 take 24, and token 2 ends at number 23.",
    (4,): "Token 4 holds the numbers 32 to 39. Where do the numbers of head 2 begin?",
    (3,): "A head holds twelve numbers, and a token has 8: one token is not enough.",
}


def _tokens_in_head(answer: Answer) -> Right:
    said = answer.value(_whole_numbers)
    if not said:
        raise Wrong(
            "The list is empty: head 2 holds twelve numbers, and they belong to tokens."
        )
    outside = [token for token in said if token not in range(6)]
    if outside:
        raise Wrong(f"There are tokens 0 to 5, and your list holds {outside[0]}.")
    if set(said) == TOKENS:
        return Right("These are the tokens whose numbers head 2 holds.")
    hint = (
        "Number the 48 numbers of x in the order of memory. Which of them go to head 2?"
    )
    why = SAID.get(tuple(sorted(set(said))), hint)
    first = [12 * head for head in range(4)]
    rows = {"first number": first, "last number": [number + 11 for number in first]}
    caption = "Numbers of x in the order of memory; token t holds 8 t to 8 t + 7:"
    raise Wrong(why, table(caption, rows, [f"head {head}" for head in range(4)]))


def _whole_numbers(value: object) -> list[int]:
    if isinstance(value, set | frozenset) and all(
        isinstance(one, int) for one in value
    ):
        value = sorted(value)
    read = vector(value).flatten()
    if not read.isfinite().all() or (read != read.round()).any():
        raise Wrong("Tokens are whole numbers, counted from 0.")
    return [int(one) for one in read.tolist()]


# --- attention by letters -------------------------------------------------------------------------


def _by_letters(answer: Answer) -> Right:
    S = L + 2
    query, key, value = _random(
        (N, L, H, HEAD_DIM), (N, S, H, HEAD_DIM), (N, S, H, HEAD_DIM)
    )
    inputs = query.clone(), key.clone(), value.clone()
    case = f"query {tuple(query.shape)}, key and value {tuple(key.shape)}"
    output = answer.ask(*inputs, read=_tensor, case=case)
    right = _letters(query, key, value, HEAD_DIM)
    if output.shape != right.shape:
        raise Wrong(_shape_by_letters(output, right, case))
    if _same(output, right):
        return Right(f"The numbers hold in every head, for {case}.")
    evidence = _first_row(
        output[0, 0, 0], right[0, 0, 0], "Sequence 0, query 0, head 0:"
    )
    raise Wrong(_wrong_by_letters(output, query, key, value), evidence)


def _letters(query: Tensor, key: Tensor, value: Tensor, size: float) -> Tensor:
    scores = torch.einsum("nlhd,nshd->nhls", query, key) / math.sqrt(size)
    return torch.einsum("nhls,nshd->nlhd", scores.softmax(dim=-1), value)


def _shape_by_letters(output: Tensor, right: Tensor, case: str) -> str:
    told = f"With {case} the output must be {tuple(right.shape)}, got {tuple(output.shape)}."
    if output.shape == right.transpose(1, 2).shape:
        return (
            f"{told} The heads stand in front of the tokens: end the letters with lhd."
        )
    if output.shape == right.flatten(-2).shape:
        return f"{told} The heads are merged already; leave them apart."
    if output.ndim == 4 and output.shape[-2:] == (L, L + 2):
        return f"{told} These are the weights; the values are still to be averaged."
    return told


def _wrong_by_letters(output: Tensor, query: Tensor, key: Tensor, value: Tensor) -> str:
    scores = torch.einsum("nlhd,nshd->nhls", query, key)
    scaled = scores / math.sqrt(HEAD_DIM)
    slips = {
        "The scores are not divided: by the root of head_dim.": scores.softmax(dim=-1),
        "The scores are divided by the root of all features of a token. A dot product inside a "
        "head has head_dim terms: divide by its root.": (scores / math.sqrt(E)).softmax(
            dim=-1
        ),
        "The scores are divided by the root of the number of heads: the last size of the query is "
        "head_dim, the one before it is H.": (scores / math.sqrt(H)).softmax(dim=-1),
        "The scores are divided by head_dim itself, not by its root.": (
            scores / HEAD_DIM
        ).softmax(dim=-1),
        "The softmax runs over the queries. In nhls the keys are s, the last letter.": (
            scaled.softmax(dim=-2)
        ),
        "The softmax runs over the heads. In nhls the keys are s, the last letter.": (
            scaled.softmax(dim=1)
        ),
        "There is no softmax: the raw scores are used as weights.": scores,
        "There is no softmax: the scores are used as weights.": scaled,
    }
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
        raise Wrong(
            f"With {case} the output must be {tuple(x.shape)}, got {tuple(output.shape)}."
        )
    if not _same(output, right):
        why = _bugs_left(output, x)
        raise Wrong(
            why, _first_row(output[0, 0], right[0, 0], f"With {case}, token 0:")
        )
    for heads, other in ((1, x), (E, x), (2, _random((1, 7, 6))[0])):
        case = f"x {tuple(other.shape)} and {heads} head{'s' * (heads > 1)}"
        again = answer.ask(other.clone(), heads, read=_tensor, case=case)
        if again.shape != other.shape or not _same(again, _attend(other, heads)):
            raise Wrong(
                f"Right for 3 heads; with {case} the output is wrong. Is a size fixed?"
            )
    return Right(
        "Every head sees every token, and the numbers hold for 1, 2, 3 and 12 heads."
    )


def _attend(
    x: Tensor, heads: int, bugs: tuple[bool, ...] = (False, False, False)
) -> Tensor:
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
            count = (
                "One bug is left" if len(left) == 1 else f"{len(left)} bugs are left"
            )
            return f"{count}: {'; '.join(left)}."
    across = x.unflatten(-1, (H, HEAD_DIM))
    weights = (across @ across.transpose(-2, -1) / math.sqrt(HEAD_DIM)).softmax(dim=-1)
    slips = {
        "The heads were not moved in front of the tokens: each token attends to its own heads, and "
        "tokens never meet.": (weights @ across).flatten(-2),
        "The scores are not divided: by the root of head_dim.": merge_heads(
            _unscaled(split_heads(x, H))
        ),
        "This is a single head over all features: the cut is missing.": _attend(x, 1),
    }
    for why, slip in slips.items():
        if _same(output, slip):
            return why
    return "The shape is right, the numbers are not. Follow one number through split and merge."


def _unscaled(parts: Tensor) -> Tensor:
    return (parts @ parts.transpose(-2, -1)).softmax(dim=-1) @ parts


# --- a test for pairs -----------------------------------------------------------------------------

Pair = tuple[Callable[[Tensor, int], Tensor], Callable[[Tensor], Tensor]]


def _right_split(x: Tensor, heads: int) -> Tensor:
    n, length, width = x.shape
    return x.reshape(n, length, heads, width // heads).transpose(1, 2)


def _right_merge(x: Tensor) -> Tensor:
    n, heads, length, size = x.shape
    return x.transpose(1, 2).reshape(n, length, heads * size)


def _chunks(x: Tensor, heads: int) -> Tensor:
    return torch.stack(x.chunk(heads, dim=-1), dim=1)


def _concatenated(x: Tensor) -> Tensor:
    return torch.cat(x.unbind(dim=1), dim=-1)


def _short_split(x: Tensor, heads: int) -> Tensor:
    n, length, width = x.shape
    return x.reshape(n, heads, length, width // heads)


def _short_merge(x: Tensor) -> Tensor:
    n, heads, length, size = x.shape
    return x.reshape(n, length, heads * size)


def _combing_split(x: Tensor, heads: int) -> Tensor:
    """Deal the features out like cards: head h gets h, h + heads, h + 2 heads, ..."""
    return x.unflatten(-1, (-1, heads)).permute(0, 3, 1, 2)


def _combing_merge(x: Tensor) -> Tensor:
    return x.permute(0, 2, 3, 1).flatten(-2)


def _swapping_split(x: Tensor, heads: int) -> Tensor:
    """Mix up the batch: sequences trade places with each other."""
    return _right_split(x.flip(0), heads)


def _swapping_merge(x: Tensor) -> Tensor:
    return _right_merge(x).flip(0)


RIGHT_PAIRS: dict[str, Pair] = {
    "reshape and transpose": (_right_split, _right_merge),
    "split_heads and merge_heads": (split_heads, merge_heads),
    "chunk and cat": (_chunks, _concatenated),
}
WRONG_PAIRS: dict[str, tuple[Pair, str]] = {
    "short split, right merge": (
        (_short_split, _right_merge),
        "A round trip finds this one.",
    ),
    "right split, short merge": (
        (_right_split, _short_merge),
        "A round trip finds this one.",
    ),
    "short split, short merge": (
        (_short_split, _short_merge),
        "Its round trip gives x again. Look into a head: it must hold its slice of every token.",
    ),
    "features dealt out like cards": (
        (_combing_split, _combing_merge),
        "Each head has every token, but not the features h * head_dim and following.",
    ),
    "sequences swapped": (
        (_swapping_split, _swapping_merge),
        "Head h of sequence 0 holds numbers of another sequence: test a batch of two.",
    ),
    "right split, dealt merge": (
        (_right_split, _combing_merge),
        "A round trip finds this one.",
    ),
}


def _pair_test(answer: Answer) -> Right:
    for name, pair in RIGHT_PAIRS.items():
        if not answer.ask(*pair, read=_verdict_of, case=f"the right pair “{name}”"):
            raise Wrong(
                f"It says False for the right pair “{name}”. Compare numbers and shapes, not "
                "strides or names."
            )
    passed = {
        name: why
        for name, (pair, why) in WRONG_PAIRS.items()
        if answer.ask(*pair, read=_verdict_of, case=f"the wrong pair “{name}”")
    }
    if passed:
        name, why = next(iter(passed.items()))
        count = f"{len(passed)} of {len(WRONG_PAIRS)} wrong pairs pass"
        raise Wrong(f"{count}, first of all “{name}”. {why}")
    return Right(
        f"{len(RIGHT_PAIRS)} right pairs pass, {len(WRONG_PAIRS)} wrong ones do not."
    )


def _verdict_of(value: object) -> bool:
    if isinstance(value, Tensor) and value.numel() == 1 and value.dtype == torch.bool:
        value = value.item()
    if not isinstance(value, bool):
        kind = article(type(value).__name__)
        raise Wrong(f"It gives {kind}; return True or False.")
    return value


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


def _first_row(yours: Tensor, right: Tensor, caption: str) -> Evidence:
    rows = {"yours": yours[:4].tolist(), "right": right[:4].tolist()}
    return table(caption, rows, [f"feature {number}" for number in range(4)])
