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
    vector,
)
from attnlab.exercises._verdict import Verdict
from attnlab.masks import causal_mask, sequence_mask

OPEN, EMPTY = 10, 2  # six tokens, two of them padding on the left, causal
LENGTHS = ((5, 3), (4,), (2, 6, 1))
SIZES = (
    (2, 3),
    (2, 2),
    (3, 1),
)  # sentences and heads; where both are 2, shapes hide a mistake
S, E, EV = 5, 4, 6


def check_counted_mask(answer: object) -> Verdict:
    """Check how many cells a mask leaves open and how many rows it blocks entirely.

    Verified: both numbers, for two paddings on the left of four words and the causal mask.

    Parameters
    ----------
    answer : callable or sequence of int
        A function without arguments that returns both numbers, or the numbers.

    Returns
    -------
    Verdict
        Never an error.

    See Also
    --------
    attnlab.causal_mask : one of the two masks.
    """
    return judge(answer, _counted_mask)


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

    Verified: the output, for two sentences and three heads, two and two, three and one.

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


# --- a mask, counted ------------------------------------------------------------------------------


def _counted_mask(answer: Answer) -> Right:
    said = answer.value(vector)
    if said.shape != (2,):
        raise Wrong(
            f"Two numbers are asked for, open cells and rows without a key; got {shape(said)}."
        )
    cells, rows = said.tolist()
    if (cells, rows) == (OPEN, EMPTY):
        return Right(
            "Both numbers are those of the combined mask."
        )  # in sight: it tells no more
    raise Wrong(_miscounted(cells, rows))


def _miscounted(cells: float, rows: float) -> str:
    """Name the mistake behind two wrong numbers."""
    if (cells, rows) == (EMPTY, OPEN):
        return "The numbers stand in the wrong order: the open cells come first."
    known = {
        21: "21 is the causal mask alone: its cells in the columns of <pad> are closed as well.",
        24: "24 is the padding mask alone: the future is still open.",
        6: "6 leaves every token without itself: a query may look at its own key.",
        36: "36 is no mask at all.",
        26: "26 counts the closed cells.",
        35: "Masks combine with and; 35 counts the cells that either mask leaves open.",
    }
    if cells != OPEN:
        hint = "Draw the triangle and strike out the first two columns."
        return known.get(cells, f"{cells:g} is not the number of open cells. {hint}")
    if rows == 0:
        return (
            f"{OPEN} is right. Look at row 0: at which keys may the first <pad> look?"
        )
    return f"{OPEN} is right, {rows:g} is not. Which rows have no open cell left?"


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
        (causal.expand_as(right), "the padding is still open: a word looks at <pad>."),
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
            "the rows of <pad> are closed too: padding masks columns, not rows.",
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
    for N, H in SIZES:
        _see_batch(answer, N, H)
    return Right("Each sentence gets its own mask, whatever the number of heads.")


def _see_batch(answer: Answer, N: int, H: int) -> None:
    generator = torch.Generator().manual_seed(0)
    query, key, value = (
        torch.randn(N, H, S, width, generator=generator, dtype=torch.float32)
        for width in (E, E, EV)
    )
    attention_mask = sequence_mask([S, 3, 2][:N], max_len=S).long()
    case = f"query {shape(query)}, {N} sentences and {H} heads, attention_mask {(N, S)}"
    inputs = (part.clone() for part in (query, key, value, attention_mask))
    output = answer.ask(*inputs, read=_tensor, case=case)
    right = _attend(query, key, value, attention_mask[:, None, None] == 1)
    if output.shape != right.shape:
        raise Wrong(
            f"With {case} the output must be {shape(right)}, got {shape(output)}."
        )
    if torch.allclose(output.double(), right.double(), atol=1e-5):
        return
    known = _misread_masks(attention_mask, H in (1, N))
    for mask, why in known:
        wrong = _attend(query, key, value, mask)
        if wrong.shape == output.shape and torch.allclose(
            output, wrong, atol=1e-5, equal_nan=True
        ):
            raise Wrong(f"With {case}: {why}")
    if output.isnan().any():
        raise Wrong(f"With {case} NaN comes out; every query has a word to look at.")
    raise Wrong(f"With {case} the numbers are wrong.")


def _misread_masks(
    attention_mask: Tensor, alike: bool
) -> list[tuple[Tensor | None, str]]:
    """Return masks that a mistake makes, and what it is; ``alike`` where shapes let two slip by."""
    flat = attention_mask[:, None]
    known = [
        (None, "The mask is not used."),
        (
            attention_mask[:, None, None] == 0,
            "Only <pad> is looked at: 1 is a word, 0 is padding.",
        ),
        (
            attention_mask[:, None, None].float(),
            "Ones and zeros are added to the scores: a mask that blocks must be bool.",
        ),
        (
            attention_mask[:, None, :, None] == 1,
            "The mask blocks rows; padding is a matter of keys.",
        ),
    ]
    if alike:
        accident = "The 2 of the sentences has met the 2 of the heads: (N, 1, S) needs one more axis."
        known.insert(0, (flat == 1, accident))
        known.insert(1, (flat == 0, f"{accident} And 1 is a word, 0 is padding."))
    return known


def _tensor(value: object) -> Tensor:
    if not isinstance(value, Tensor):
        raise Wrong(
            f"It gives {article(type(value).__name__)}; the output alone is asked for."
        )
    return value.detach().float()


def _attend(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
    return F.scaled_dot_product_attention(query, key, value, attn_mask=mask)
