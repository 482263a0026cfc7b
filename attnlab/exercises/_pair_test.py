"""The check of an exercise of lesson 7: write a test for pairs of split and merge."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from attnlab.exercises._answers import Answer, Right, Wrong, judge
from attnlab.exercises._verdict import Verdict
from attnlab.exercises._yes_no import yes_or_no
from attnlab.heads import merge_heads, split_heads

Split = Callable[[Tensor, int], Tensor]
Merge = Callable[[Tensor], Tensor]
Pair = tuple[Split, Merge]

HEADS, TOKENS, FEATURES = 1, 2, 3  # axes of (N, H, L, head_dim)


def check_pair_test(answer: object) -> Verdict:
    """Check a test that tells a right pair (split, merge) from wrong ones.

    Verified: True for the right pairs, False for the wrong ones. Some of the wrong ones go wrong in
    one head, one token or one feature only, or only with heads that lie in memory in their order.

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


def _pair_test(answer: Answer) -> Right:
    for name, pair in RIGHT_PAIRS.items():
        if not answer.ask(*pair, read=yes_or_no, case=f"the right pair “{name}”"):
            raise Wrong(
                f"It says False for the right pair “{name}”. Compare numbers and shapes, not "
                "strides or names."
            )
    passed = {
        name: why
        for name, (pair, why) in WRONG_PAIRS.items()
        if answer.ask(*pair, read=yes_or_no, case=f"the wrong pair “{name}”")
    }
    if passed:
        name, why = next(iter(passed.items()))
        count = f"{len(passed)} of {len(WRONG_PAIRS)} wrong pairs pass"
        raise Wrong(f"{count}, first of all “{name}”. {why}")
    return Right(f"{len(RIGHT_PAIRS)} right pairs pass, {len(WRONG_PAIRS)} wrong ones do not.")


# --- pairs ----------------------------------------------------------------------------------------


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


def _trusting_merge(x: Tensor) -> Tensor:
    """Merge as the memory invites to: right for heads fresh from a split, wrong after attention."""
    return _short_merge(x) if x.is_contiguous() else _right_merge(x)


def _tired_merge(x: Tensor) -> Tensor:
    """Merge, and turn around the last token of the last sequence."""
    merged = _right_merge(x).clone()
    merged[-1, -1] = merged[-1, -1].flip(0)
    return merged


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


def _swapped(axis: int, one: int, other: int, head: int | None = None) -> Pair:
    """Return a pair that swaps two entries of an axis of the heads, and back in the merge."""

    def swap(heads: Tensor) -> Tensor:
        order = list(range(heads.shape[axis]))
        here, there = one % len(order), other % len(order)  # a test may be short
        order[here], order[there] = order[there], order[here]
        moved = heads.index_select(axis, torch.tensor(order))
        if head is None:
            return moved
        heads = heads.clone()
        heads[:, head] = moved[:, head]
        return heads

    return (lambda x, heads: swap(_right_split(x, heads))), (lambda x: _right_merge(swap(x)))


ROUND_TRIP = "A round trip finds this one."
EVERY_HEAD = (
    "Its round trip gives x again, and a look at some of the heads finds nothing: compare all."
)
EVERY_TOKEN = (
    "Its round trip gives x again, and most rows are right: compare every token of a head."
)

RIGHT_PAIRS: dict[str, Pair] = {
    "reshape and transpose": (_right_split, _right_merge),
    "split_heads and merge_heads": (split_heads, merge_heads),
    "chunk and cat": (_chunks, _concatenated),
}
WRONG_PAIRS: dict[str, tuple[Pair, str]] = {
    "short split, right merge": (
        (_short_split, _right_merge),
        "A round trip finds this one, but not all of them: look into a head as well.",
    ),
    "right split, short merge": ((_right_split, _short_merge), ROUND_TRIP),
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
    "first two heads swapped": (_swapped(HEADS, 0, 1), EVERY_HEAD),
    "last two heads swapped": (_swapped(HEADS, -2, -1), EVERY_HEAD),
    "first and last head swapped": (_swapped(HEADS, 0, -1), EVERY_HEAD),
    "first and last token swapped": (_swapped(TOKENS, 0, -1), EVERY_TOKEN),
    "tokens 0 and 1 swapped": (_swapped(TOKENS, 0, 1), EVERY_TOKEN),
    "tokens 1 and 2 swapped": (_swapped(TOKENS, 1, 2), EVERY_TOKEN),
    "last two tokens swapped in the last head": (_swapped(TOKENS, -2, -1, head=-1), EVERY_TOKEN),
    "last two features swapped in the last head": (
        _swapped(FEATURES, -2, -1, head=-1),
        "Its round trip gives x again, and each token is in place: compare every feature.",
    ),
    "right split, dealt merge": ((_right_split, _combing_merge), ROUND_TRIP),
    "merge wrong in the last token": (
        (_right_split, _tired_merge),
        "A round trip finds this one, if all rows are compared.",
    ),
    "merge right only after a split": (
        (_right_split, _trusting_merge),
        "Its round trip gives x again. After attention the heads lie in memory in their own order: "
        "test merge(heads.contiguous()) too.",
    ),
}
