"""The checks of lesson 7: multi-head attention."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from attnlab.checks import shape
from attnlab.exercises.frame import voice
from attnlab.exercises.frame.answers import Wrong, vector
from attnlab.exercises.frame.forms import Case, Compared, Either, Opinion, Value, bugs_left, randoms
from attnlab.heads import merge_heads, split_heads

Split = Callable[[Tensor, int], Tensor]
Merge = Callable[[Tensor], Tensor]

# --- tokens in a head -----------------------------------------------------------------------------


TOKENS = {3, 4}


def tokens(value: object) -> frozenset[int]:
    """Read tokens of a sentence of six."""
    wanted = "a list of tokens, which are whole numbers from 0 to 5"
    said = vector(sorted(value) if isinstance(value, set) else value, wanted).flatten().tolist()
    if not said or len(set(said)) < len(said) or not set(said) <= set(range(6)):
        raise Wrong(voice.returned(voice.listed(said), wanted, "No token may occur twice."))
    return frozenset(map(int, said))


@Value(
    read=tokens,
    right=TOKENS,
    slips={
        "That is what a correct split gives. Here `view` hands out the numbers in the order in "
        "which they lie in memory, and head 2 gets twelve of them.": {0, 1, 2, 3, 4, 5},
        "Those are the tokens of another head. Heads are counted from 0, so head 2 is the third.": (
            Either({0, 1}, {1, 2}, {4, 5})
        ),
        "A head holds 6 rows of 2 numbers. That is twelve in all, more than the 8 of one token.": (
            Either({2}, {3}, {4})
        ),
        "Heads 0 and 1 take the first 24 numbers, 0 to 23. Token 2 ends at number 23.": {2, 3},
    },
    verified="These are the tokens whose numbers head 2 holds.",
    otherwise="Number the 48 numbers of x in the order in which they lie in memory. Which of them "
    "go to head 2?",
)
def check_tokens_in_head(_said: frozenset[int]) -> None:
    """Check which tokens have numbers in head 2 of ``x.view(4, 6, 2)``, with x of shape (6, 8).

    Verified: the two tokens, each once, in any order.

    Parameters
    ----------
    answer
        The tokens, or a function without arguments that returns them.

    See Also
    --------
    attnlab.split_heads : puts every token into every head.
    """


# --- attention in heads, with some of its steps changed -------------------------------------------


def attend(
    query: Tensor, key: Tensor, value: Tensor, axes: tuple[int, ...] = (-1,), dim: int = -1
) -> Tensor:
    """Return attention in every head, its scores divided by the root of a product of sizes."""
    divisor = math.sqrt(math.prod(query.shape[axis] for axis in axes))
    return (query @ key.mT / divisor).softmax(dim) @ value


def transposed(x: Tensor) -> Tensor:
    """Return x with heads and tokens exchanged."""
    return x.transpose(1, 2)


def cut_anew(x: Tensor) -> Tensor:
    """Return x in the shape of ``transposed``, with its numbers in the order of memory."""
    return x.reshape(transposed(x).shape)


def by_letters(
    split: Merge = transposed, merge: Merge = transposed, **steps: object
) -> Callable[..., Tensor]:
    """Return attention in the layout (N, L, H, head_dim)."""
    return lambda *inputs: merge(attend(*map(split, inputs), **steps))


def in_heads(
    split: Split = split_heads, merge: Merge = merge_heads, **steps: object
) -> Callable[[Tensor, int], Tensor]:
    """Return self-attention without projections."""

    def self_attend(x: Tensor, num_heads: int) -> Tensor:
        heads = split(x, num_heads)
        return merge(attend(heads, heads, heads, **steps))

    return self_attend


def split_by_reshape(x: Tensor, num_heads: int) -> Tensor:
    """Cut the order of memory into heads."""
    return x.reshape(len(x), num_heads, x.shape[1], -1)


def merge_by_reshape(heads: Tensor) -> Tensor:
    """Join the heads in the order of memory."""
    return cut_anew(heads).flatten(-2)


def dealt_split(x: Tensor, num_heads: int) -> Tensor:
    """Give head h the features h, h + num_heads, h + 2 num_heads, ..."""
    return x.unflatten(-1, (-1, num_heads)).permute(0, 3, 1, 2)


def dealt_merge(heads: Tensor) -> Tensor:
    """Join what ``dealt_split`` has dealt."""
    return heads.permute(0, 2, 3, 1).flatten(-2)


def wrong_scores(make: Callable[..., Callable]) -> dict[str, Either]:
    """Return mistakes of the division and of the softmax, made by one of the two functions."""
    return {
        "The scores must be divided by the square root of head_dim, the number of terms in a dot "
        "product inside a head.": Either(
            *(make(axes=axes) for axes in ((), (1,), (2,), (-1, -1)))  # by 1, √H, √L or head_dim
        ),
        "The softmax must run over the keys, the last axis of the scores.": Either(
            make(dim=1), make(dim=2)
        ),
    }


# --- attention by letters -------------------------------------------------------------------------

SIZES = ((2, 5, 7, 3, 6), (3, 4, 2, 5, 7))  # N, L, S, H, head_dim: no root is another size


@Compared(
    right=by_letters(),
    slips={
        "In your output, the heads come before the tokens. Its letters must end in "
        "`lhd`.": by_letters(merge=lambda heads: heads),
        **wrong_scores(by_letters),
        "`reshape` and `view` cannot exchange two axes, because they cut the numbers anew in the "
        "order of memory. Use transpose(1, 2), or the letters.": Either(
            by_letters(merge=cut_anew), by_letters(cut_anew), by_letters(cut_anew, cut_anew)
        ),
    },
    otherwise=lambda _got, _right, query, *_others: (
        "The shape is correct. Which letter is summed over in each line?"
        if query.shape[-1] == 6
        else "With head_dim 6 it is correct. Does your code contain a fixed size?"
    ),
    verified="The numbers are correct in every head, for both sizes that were tried.",
    axes=("sequence", "query", "head", "feature"),
)
def check_by_letters() -> Iterator[tuple[str, tuple]]:
    """Check attention in the layout (N, L, H, head_dim).

    Verified: shape and numbers of the output for random query, key and value of two sizes, with L
    and S apart.

    Parameters
    ----------
    answer
        A function of (query, key, value) that returns the output.

    See Also
    --------
    torch.einsum : names the axes by letters.
    """
    for n, length, others, heads, size in SIZES:
        inputs = randoms((n, length, heads, size), *[(n, others, heads, size)] * 2)
        query, key, _ = inputs
        yield f"query {shape(query)}, and key and value {shape(key)}", inputs


# --- three bugs -----------------------------------------------------------------------------------

BUGS = {
    "the split cuts up the numbers in memory order. Cut the features first, and then transpose.": {
        "split": split_by_reshape
    },
    "the scores are divided by the square root of E, but a dot product inside a head has only "
    "head_dim terms.": {"axes": (1, -1)},
    "the merge joins the heads without transposing back.": {"merge": merge_by_reshape},
}


@Compared(
    right=in_heads(),
    slips={
        **bugs_left(in_heads, BUGS),
        "The heads were not moved in front of the tokens, so each token attends to its own heads, "
        "and nothing passes from token to token.": in_heads(
            lambda x, num_heads: x.unflatten(-1, (num_heads, -1)), lambda heads: heads.flatten(-2)
        ),
        **wrong_scores(in_heads),
        "The features are dealt out like cards. Head h must get the features h * head_dim to "
        "(h + 1) * head_dim - 1.": in_heads(dealt_split, dealt_merge),
    },
    otherwise=lambda _got, _right, _x, num_heads: (
        "The shape is correct. Compare the split, the scores, the softmax and the merge with those "
        "of the lesson, one after the other."
        if num_heads == 3
        else "With 3 heads it is correct. Does your code contain a fixed size?"
    ),
    verified="Every head sees every token, and the numbers are correct for 1, 2, 3 and 12 heads.",
    axes=("sequence", "token", "feature"),
)
def check_mended_heads() -> Iterator[tuple[str, tuple]]:
    """Check self-attention in several heads, without projections.

    Verified: shape and numbers of the output, for four numbers of heads and two sizes.

    Parameters
    ----------
    answer
        A function of (x, num_heads) that returns the output (N, L, E).

    See Also
    --------
    attnlab.MultiHeadAttention : the same with projections.
    """
    for size, heads in (((2, 5, 12), 3), ((2, 5, 12), 1), ((2, 5, 12), 12), ((1, 7, 6), 2)):
        yield f"x {size} and {heads} head{'s' * (heads > 1)}", (*randoms(size), heads)


# --- a test for pairs -----------------------------------------------------------------------------


def merge_by_strides(contiguous: bool) -> Merge:
    """Return a merge that is wrong where the heads lie in memory in this way."""
    return lambda heads: (
        merge_by_reshape(heads) if heads.is_contiguous() == contiguous else merge_heads(heads)
    )


def swapped_in_the_last_head(axis: int) -> tuple[Split, Merge]:
    """Return a pair that swaps the last two entries of an axis in one head, and swaps them back."""

    def swap(heads: Tensor) -> Tensor:
        moved, last = heads.clone(), heads.shape[axis] - 1
        order = torch.tensor([*range(last - 1), last, last - 1])
        moved[:, -1] = heads.index_select(axis, order)[:, -1]
        return moved

    return (lambda x, num_heads: swap(split_heads(x, num_heads))), (
        lambda heads: merge_heads(swap(heads))
    )


ROUND_TRIP = "A round trip catches this pair."
IDENTITY = "The round trip of this pair gives x again"
EVERY_TOKEN = f"{IDENTITY}, and most rows are correct. Compare every row of every head."
CORRECT_PAIRS: dict[str, tuple[Split, Merge]] = {
    "reshape and transpose": (
        lambda x, num_heads: x.reshape(*x.shape[:2], num_heads, -1).transpose(1, 2),
        lambda heads: heads.transpose(1, 2).reshape(len(heads), heads.shape[2], -1),
    ),
    "split_heads and merge_heads": (split_heads, merge_heads),
    "chunk and cat": (
        lambda x, num_heads: torch.stack(x.chunk(num_heads, dim=-1), dim=1),
        lambda heads: torch.cat(heads.unbind(dim=1), dim=-1),
    ),
}
WRONG_PAIRS: dict[str, tuple[Split, Merge, str]] = {
    "reshaped split, correct merge": (
        split_by_reshape,
        merge_heads,
        "A round trip catches this pair, but not every wrong pair. Look into a head as well.",
    ),
    "correct split, reshaped merge": (split_heads, merge_by_reshape, ROUND_TRIP),
    "reshaped split, reshaped merge": (
        split_by_reshape,
        merge_by_reshape,
        f"{IDENTITY}. Look into a head, which must hold its slice of every token.",
    ),
    "features dealt out like cards": (
        dealt_split,
        dealt_merge,
        "Each head has every token, but not the features h * head_dim to (h + 1) * head_dim - 1.",
    ),
    "sequences swapped": (
        lambda x, num_heads: split_heads(x.flip(0), num_heads),
        lambda heads: merge_heads(heads).flip(0),
        "The heads of sequence 0 hold numbers of another sequence. Test a batch of two.",
    ),
    "last two tokens swapped in the last head": (*swapped_in_the_last_head(2), EVERY_TOKEN),
    "last two features swapped in the last head": (
        *swapped_in_the_last_head(3),
        f"{IDENTITY}, and each token is in place. Compare every feature.",
    ),
    "merge correct only after a split": (
        split_heads,
        merge_by_strides(contiguous=True),
        f"{IDENTITY}. After attention, the numbers lie in memory head by head, so test "
        "merge(heads.contiguous()) too.",
    ),
    "merge correct only after contiguous()": (
        split_heads,
        merge_by_strides(contiguous=False),
        "Test the merge right after the split too, without contiguous().",
    ),
}


@Opinion(
    errors={"AssertionError": "If a pair is wrong, return False."},
    verified=(
        f"All {len(CORRECT_PAIRS)} correct pairs pass, and all {len(WRONG_PAIRS)} wrong ones fail."
    ),
)
def check_pair_test() -> Iterator[Case]:
    """Check a test that separates correct pairs (split, merge) from wrong ones.

    Verified: True for the correct pairs, False for the wrong ones. Some of the wrong ones go wrong
    in one head, one token or one feature only, or only with heads in one order of memory.

    Parameters
    ----------
    answer
        A function of (split, merge) that returns a bool.

    See Also
    --------
    attnlab.clinic.diagnose : names what is wrong with such a pair.
    """
    for name, pair in CORRECT_PAIRS.items():
        hint = "Compare numbers and shapes, not strides or names."
        yield Case(f"the correct pair “{name}”", pair, True, hint)
    for name, (split, merge, why) in WRONG_PAIRS.items():
        yield Case(f"the wrong pair “{name}”", (split, merge), False, why)
