"""Checks for the exercises of lesson 3: masks."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from attnlab._checks import shape
from attnlab.exercises._answers import (
    Answer,
    Right,
    Wrong,
    article,
    judge,
    table,
)
from attnlab.exercises._verdict import Verdict
from attnlab.masks import causal_mask, sequence_mask

LENGTHS = ((5, 3), (4,), (2, 6, 1))
S, E, EV = 5, 4, 6
# Sentences, heads and queries, in the order of what they can tell: the meaning of a number, the
# axes, the accident of as many heads as sentences, and queries of another number than the keys.
CASES = ((1, 3, S), (2, 3, S), (2, 2, S), (2, 3, 4))
ONE, AXES, SQUARE = CASES[0], CASES[1], CASES[3]
WORDS = torch.tensor([[1, 1, 1, 0, 0], [0, 0, 1, 1, 1]])  # 1 = a word: padding right and left
LARGE = 20.0  # makes scores of 30 and more: what blocks must lie below them


def check_decoder_mask(answer: object) -> Verdict:
    """Check a mask for padding on the right and for the future.

    Verified: bool, shape (N, 1, L, L), and every cell, for three batches.

    Parameters
    ----------
    answer : callable
        A function of the lengths, shape (N,), that returns the mask.

    Returns
    -------
    Verdict
        Never an error.

    See Also
    --------
    attnlab.combine_masks : joins masks.
    """
    return judge(answer, _decoder_mask)


def check_padded_batch(answer: object) -> Verdict:
    """Check attention over heads with a Hugging Face ``attention_mask``.

    Verified: the output, for one sentence and two, padded on either side, as many heads as
    sentences or not, large scores, and fewer queries than keys.

    Parameters
    ----------
    answer : callable
        A function of (query, key, value, attention_mask) that returns the output.

    Returns
    -------
    Verdict
        Never an error.

    See Also
    --------
    attnlab.from_hf_attention_mask : converts the mask.
    """
    return judge(answer, _padded_batch)


# --- a decoder's mask -----------------------------------------------------------------------------


def _decoder_mask(answer: Answer) -> Right:
    for lengths in LENGTHS:
        case = f"lengths {[*lengths]}"
        mask = answer.ask(torch.tensor(lengths), read=_bool_mask, case=case)
        _compare_masks(mask, lengths, case)
    batches = ", ".join(str([*lengths]) for lengths in LENGTHS)
    return Right(f"Every cell is right for the lengths {batches}.")


def _bool_mask(value: object) -> Tensor:
    if not isinstance(value, Tensor):
        raise Wrong(f"It gives {article(type(value).__name__)}; a tensor is asked for.")
    if value.dtype != torch.bool:
        raise Wrong(
            f"The mask must be bool, got {value.dtype}: numbers would be added to the scores."
        )
    return value


def _compare_masks(mask: Tensor, lengths: tuple[int, ...], case: str) -> None:
    """Raise Wrong unless a mask is right in shape and in every cell."""
    size = max(lengths)
    wanted = (len(lengths), 1, size, size)
    if mask.shape != wanted:
        why = f" {_whyshape(mask)}".rstrip()
        raise Wrong(f"With {case} the shape must be {wanted}, got {shape(mask)}.{why}")
    real = sequence_mask(lengths)[:, None, None, :]
    right = causal_mask(size) & real
    if torch.equal(mask, right):
        return
    sentence = min(1, len(lengths) - 1)
    names = tuple(f"key {j}" for j in range(size))
    rows = {f"query {i}": row.tolist() for i, row in enumerate(mask[sentence, 0])}
    evidence = table(f"Your mask of sentence {sentence}, 1 = may attend:", rows, names)
    raise Wrong(f"With {case}: {_misread(mask, right, real)}", evidence)


def _whyshape(mask: Tensor) -> str:
    if mask.ndim == 3:
        return "The second of three axes would meet the heads: put an axis of 1 before the queries."
    if mask.ndim == 4 and mask.shape[2] == 1:
        return "All queries share one row: the causal part is missing."
    if mask.ndim == 2:
        return "One table cannot serve sentences of different lengths."
    return ""


def _misread(mask: Tensor, right: Tensor, real: Tensor) -> str:
    """Return what a mask of the right shape does instead."""
    causal = causal_mask(mask.shape[-1])
    strict = causal.tril(-1)
    known = (
        (~right, "it is turned over; True must mean may attend."),
        (
            causal.expand_as(right),
            "the padding is still open. No word sees it here, since it comes last; but <pad> does, "
            "and words would if it came first.",
        ),
        (real.expand_as(right), "the future is still open."),
        (
            causal | real,
            "the masks are joined by or; a cell is open if both leave it open.",
        ),
        (
            strict & real,
            "no token may look at itself; the diagonal is open in a causal mask.",
        ),
        (causal.mT & real, "queries look at the future and not at the past."),
        (~causal & real, "queries look at the future and not at the past."),
        (
            causal & ~real,
            "only padding is open: the lengths are read the wrong way round.",
        ),
        (
            right & real.mT,
            "the rows of <pad> are closed too. The words are none the worse, but a row without a "
            "key is NaN in a bare softmax, and the next layer hands it on: padding masks columns, "
            "not rows.",
        ),
    )
    for wrong, why in known:
        if torch.equal(mask, wrong):
            return why
    n, _, i, j = (mask != right).nonzero()[0].tolist()
    is_open, word = bool(right[n, 0, i, j]), "open" if right[n, 0, i, j] else "closed"
    past = "the token itself" if i == j else "a word of the past"
    why = past if is_open else "padding" if not real[n, 0, 0, j] else "the future"
    return f"in sentence {n} query {i} and key {j} must be {word}: it is {why}."


# --- a padded batch -------------------------------------------------------------------------------


def _padded_batch(answer: Answer) -> Right:
    for case in CASES:
        _see_batch(answer, *case)
    return Right("Each sentence gets its own mask, whatever the number of heads and queries.")


def _batch(N: int, H: int, L: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return query, key, value and attention_mask."""
    generator = torch.Generator().manual_seed(0)
    query, key, value = (
        torch.randn(N, H, length, width, generator=generator, dtype=torch.float32)
        for length, width in ((L, E), (S, E), (S, EV))
    )
    return LARGE * query, key, value, WORDS[:N].clone()


def _see_batch(answer: Answer, N: int, H: int, L: int) -> None:
    query, key, value, attention_mask = _batch(N, H, L)
    sentences = "one sentence" if N == 1 else f"{N} sentences"
    case = f"{sentences}, {H} heads, query {shape(query)}, attention_mask {(N, S)}"
    credit = "" if (N, H, L) == ONE else "With one sentence the numbers are right. "
    try:
        output = answer.ask(*_batch(N, H, L), read=_tensor, case=case)
    except Wrong as wrong:
        if not wrong.by_error:
            raise
        raise Wrong(f"{credit}{wrong.message}{_advice((N, H, L))}", by_error=True) from None
    right = _attend(query, key, value, attention_mask[:, None, None] == 1)
    if output.shape != right.shape:
        raise Wrong(f"With {case} the output must be {shape(right)}, got {shape(output)}.")
    if torch.allclose(output, right, atol=1e-4):
        return
    if (N, H, L) == ONE and _is_turned_over(answer):
        credit = "The axes are right, what they say is not yet. "
    for mask, why in _misread_masks(attention_mask, H == N):
        if _is(output, query, key, value, mask):
            raise Wrong(f"{credit}With {case}: {why}")
    if output.isnan().any():
        raise Wrong(f"{credit}With {case} NaN comes out; every query has a word to look at.")
    raise Wrong(
        f"{credit}With {case} the numbers are wrong. The scores here are large: does what you do "
        "to a blocked one lie below them all?"
    )


def _advice(case: tuple[int, int, int]) -> str:
    """Say what an error of torch's means here."""
    if case == AXES:
        return " The sentences met the heads: one axis is missing."
    if case == SQUARE:
        return " There are 4 queries and 5 keys: the mask need not be square."
    return ""


def _is_turned_over(answer: Answer) -> bool:
    """Return whether several sentences and heads fit together, and only the meaning is wrong."""
    query, key, value, attention_mask = _batch(*AXES)
    try:
        output = answer.ask(*_batch(*AXES), read=_tensor)
    except Wrong:
        return False
    return _is(output, query, key, value, attention_mask[:, None, None] == 0)


def _is(output: Tensor, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> bool:
    """Return whether an output is that of a mask."""
    try:
        wrong = _attend(query, key, value, mask)
    except RuntimeError:  # the mask does not fit these sizes
        return False
    same = wrong.shape == output.shape
    return same and torch.allclose(output, wrong, atol=1e-4, equal_nan=True)


def _misread_masks(attention_mask: Tensor, alike: bool) -> list[tuple[Tensor | None, str]]:
    """Return masks that a mistake makes, and what it is; ``alike`` where shapes let two slip by."""
    flat, alone = attention_mask[:, None], attention_mask[:, None, None]
    known = [
        (None, "The mask is not used."),
        (alone == 0, "Only <pad> is looked at: 1 is a word, 0 is padding."),
        (
            alone.float(),
            "Ones and zeros are added to the scores: a mask that blocks must be bool.",
        ),
        (flat[..., None] == 1, "The mask blocks rows; padding is a matter of keys."),
        (
            sequence_mask(attention_mask.sum(dim=-1), S)[:, None, None],
            "The words are counted, and taken to come first: padding may stand on the left.",
        ),
    ]
    if alike:
        accident = (
            "The 2 of the sentences has met the 2 of the heads: (N, 1, S) needs one more axis."
        )
        known.insert(0, (flat == 1, accident))
        known.insert(1, (flat == 0, f"{accident} And 1 is a word, 0 is padding."))
    return known


def _tensor(value: object) -> Tensor:
    if not isinstance(value, Tensor):
        raise Wrong(f"It gives {article(type(value).__name__)}; the output alone is asked for.")
    return value.detach().float()


def _attend(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
    return F.scaled_dot_product_attention(query, key, value, attn_mask=mask)
