"""The checks of lesson 7: multi-head attention."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from attnlab._checks import shape
from attnlab.clinic import Evidence
from attnlab.exercises import _voice
from attnlab.exercises._answers import Wrong, table, vector
from attnlab.exercises._forms import Case, Compared, Either, Opinion, Value, bugs_left, randoms
from attnlab.heads import merge_heads, split_heads

Split = Callable[[Tensor, int], Tensor]
Merge = Callable[[Tensor], Tensor]
Divisor = Callable[[Tensor], float]

# --- tokens in a head -----------------------------------------------------------------------------


TOKENS = {3, 4}


def tokens(value: object) -> frozenset[int]:
    """Read tokens of a sentence of six."""
    if isinstance(value, set | frozenset) and all(isinstance(one, int) for one in value):
        value = sorted(value)
    wanted = "a list of tokens, which are whole numbers from 0 to 5"
    read = vector(value, wanted).flatten()
    said = read.tolist()
    if not said:
        why = "Head 2 holds twelve numbers, and each belongs to a token."
        raise Wrong(_voice.returned("an empty list", wanted, why))
    outside = [token for token in said if token not in range(6)]
    if outside:
        raise Wrong(_voice.returned(f"a list that contains {outside[0]:g}", wanted))
    if set(said) == TOKENS and len(said) > len(TOKENS):
        raise Wrong("These are the tokens. Name each of them once.")
    return frozenset(map(int, said))


@Value(
    answer="The tokens, or a function without arguments that returns them.",
    see="attnlab.split_heads : puts every token into every head.",
    read=tokens,
    right=TOKENS,
    slips={
        "That is what a correct split gives. Here `view` hands the numbers out in the order of "
        "memory, and head 2 gets twelve of them.": {0, 1, 2, 3, 4, 5},
        "Those are the tokens of another head. Heads are counted from 0, so head 2 is the third.": (
            Either({0, 1}, {1, 2}, {4, 5})
        ),
        "A head holds 6 rows of 2 numbers. That is twelve in all, more than the 8 of one token.": (
            Either({2}, {3}, {4})
        ),
        "Heads 0 and 1 take the first 24 numbers, 0 to 23. Token 2 ends at number 23.": {2, 3},
    },
    verified="These are the tokens whose numbers head 2 holds.",
    otherwise="Number the 48 numbers of x in the order of memory. Which of them go to head 2?",
)
def check_tokens_in_head(_said: frozenset[int]) -> None:
    """Check which tokens have numbers in head 2 of ``x.view(4, 6, 2)``, with x of shape (6, 8).

    Verified: the two tokens, each once, in any order.
    """


# --- attention in heads, with some of its steps changed -------------------------------------------


def root_of(*axes: int) -> Divisor:
    """Return a function of heads (N, H, L, head_dim): the root of the product of some sizes."""
    return lambda heads: math.sqrt(math.prod(heads.shape[axis] for axis in axes))


HEAD_DIM, HEADS_AND_DIM = root_of(-1), root_of(1, -1)
DIVIDED: dict[str, Divisor] = {
    "The scores are not divided. Divide them by the root of head_dim.": lambda heads: 1,
    "The scores are divided by the root of the number of heads, not of head_dim.": root_of(1),
    "The scores are divided by the root of the number of tokens, not of head_dim.": root_of(2),
    "The scores are divided by head_dim itself, not by its root.": lambda heads: heads.shape[-1],
}
SOFTMAXES: dict[str, Merge] = {
    "The softmax runs over the queries. It must run over the keys, the last axis of the scores.": (
        lambda scores: scores.softmax(dim=-2)
    ),
    "The softmax runs over the heads. It must run over the keys, the last axis of the scores.": (
        lambda scores: scores.softmax(dim=1)
    ),
}


def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    divisor: Divisor = HEAD_DIM,
    weigh: Callable[[Tensor], Tensor] = lambda scores: scores.softmax(dim=-1),
) -> Tensor:
    """Return attention in every head."""
    return weigh(query @ key.transpose(-2, -1) / divisor(query)) @ value


def transposed(x: Tensor) -> Tensor:
    """Return x with heads and tokens exchanged."""
    return x.transpose(1, 2)


def cut_anew(x: Tensor) -> Tensor:
    """Return x in the shape of ``transposed``, with its numbers in the order of memory."""
    return x.reshape(transposed(x).shape)


def by_letters(
    split: Merge = transposed, merge: Merge = transposed, **steps: Callable
) -> Callable[..., Tensor]:
    """Return attention in the layout (N, L, H, head_dim)."""
    return lambda *inputs: merge(attend(*map(split, inputs), **steps))


def in_heads(
    split: Split = split_heads, merge: Merge = merge_heads, **steps: Callable
) -> Callable[[Tensor, int], Tensor]:
    """Return self-attention without projections."""

    def self_attend(x: Tensor, num_heads: int) -> Tensor:
        heads = split(x, num_heads)
        return merge(attend(heads, heads, heads, **steps))

    return self_attend


def split_by_reshape(x: Tensor, num_heads: int) -> Tensor:
    """Cut the order of memory into heads."""
    n, length, width = x.shape
    return x.reshape(n, num_heads, length, width // num_heads)


def merge_by_reshape(heads: Tensor) -> Tensor:
    """Join the heads in the order of memory."""
    return cut_anew(heads).flatten(-2)


def dealt_split(x: Tensor, num_heads: int) -> Tensor:
    """Give head h the features h, h + num_heads, h + 2 num_heads, ..."""
    return x.unflatten(-1, (-1, num_heads)).permute(0, 3, 1, 2)


def dealt_merge(heads: Tensor) -> Tensor:
    """Join what ``dealt_split`` has dealt."""
    return heads.permute(0, 2, 3, 1).flatten(-2)


# --- attention by letters -------------------------------------------------------------------------

SIZES = ((2, 5, 7, 3, 6), (3, 4, 2, 5, 7))  # N, L, S, H, head_dim: no root is another size


@Compared(
    answer="A function of (query, key, value) that returns the output.",
    see="torch.einsum : names the axes by letters.",
    right=by_letters(),
    slips={
        "The heads come before the tokens. End the letters of the output with lhd.": by_letters(
            merge=lambda heads: heads
        ),
        "These are the weights. Use them to average the values.": Either(
            *(
                lambda query, key, _value, divisor=divisor: attend(
                    transposed(query), transposed(key), torch.eye(key.shape[1]), divisor
                )
                for divisor in (HEAD_DIM, lambda heads: 1)
            )
        ),
        **{why: by_letters(divisor=divisor) for why, divisor in DIVIDED.items()},
        "The scores are divided by the root of all features of a token. A dot product inside a "
        "head has head_dim terms, so divide by its root.": by_letters(divisor=HEADS_AND_DIM),
        **{why: by_letters(weigh=weigh) for why, weigh in SOFTMAXES.items()},
        "There is no softmax, so the scores are used as weights.": Either(
            by_letters(weigh=lambda scores: scores),
            by_letters(weigh=lambda scores: scores, divisor=lambda heads: 1),
        ),
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
    """
    for n, length, others, heads, size in SIZES:
        inputs = randoms((n, length, heads, size), *[(n, others, heads, size)] * 2)
        query, key, _ = inputs
        yield f"query {shape(query)}, and key and value {shape(key)}", inputs


# --- three bugs -----------------------------------------------------------------------------------

BUGS = {
    "the split cuts in the order of memory. Cut the features first, and then transpose.": {
        "split": split_by_reshape
    },
    "the scores are divided by the root of E, but a dot product inside a head has only head_dim "
    "terms.": {"divisor": HEADS_AND_DIM},
    "the merge joins the heads without transposing back.": {"merge": merge_by_reshape},
}


@Compared(
    answer="A function of (x, num_heads) that returns the output (N, L, E).",
    see="attnlab.MultiHeadAttention : the same with projections.",
    right=in_heads(),
    slips={
        **bugs_left(in_heads, BUGS),
        "The heads were not moved in front of the tokens, so each token attends to its own heads, "
        "and nothing passes from token to token.": in_heads(
            lambda x, num_heads: x.unflatten(-1, (num_heads, -1)), lambda heads: heads.flatten(-2)
        ),
        **{why: in_heads(divisor=divisor) for why, divisor in DIVIDED.items()},
        **{why: in_heads(weigh=weigh) for why, weigh in SOFTMAXES.items()},
        "The features are dealt out like cards. Head h must get the features h * head_dim to "
        "(h + 1) * head_dim - 1.": Either(
            in_heads(dealt_split, dealt_merge), in_heads(dealt_split), in_heads(merge=dealt_merge)
        ),
        "This is a single head over all features, so nothing has been split.": (
            lambda x, _num_heads: attend(x, x, x)
        ),
    },
    otherwise=lambda _got, _right, _x, num_heads: (
        "The shape is correct. Compare split, scores, softmax and merge with the lesson, one after "
        "the other."
        if num_heads == 3
        else "With 3 heads it is correct. Does your code contain a fixed size?"
    ),
    verified="Every head sees every token, and the numbers are correct for 1, 2, 3 and 12 heads.",
    axes=("sequence", "token", "feature"),
)
def check_mended_heads() -> Iterator[tuple[str, tuple]]:
    """Check self-attention in several heads, without projections.

    Verified: shape and numbers of the output, for four numbers of heads and two sizes.
    """
    for size, heads in (((2, 5, 12), 3), ((2, 5, 12), 1), ((2, 5, 12), 12), ((1, 7, 6), 2)):
        yield f"x {size} and {heads} head{'s' * (heads > 1)}", (*randoms(size), heads)


# --- a test for pairs -----------------------------------------------------------------------------

HEAD_AXIS, TOKEN_AXIS, FEATURE_AXIS = 1, 2, 3  # of (N, H, L, head_dim)


def last_token_reversed(heads: Tensor) -> Tensor:
    """Merge, and reverse the last token of the last sequence."""
    merged = merge_heads(heads).clone()
    merged[-1, -1] = merged[-1, -1].flip(0)
    return merged


def merge_by_strides(contiguous: bool) -> Merge:
    """Return a merge that is wrong where the heads lie in memory in this way."""
    return lambda heads: (
        merge_by_reshape(heads) if heads.is_contiguous() == contiguous else merge_heads(heads)
    )


def swapped(axis: int, one: int, other: int, head: int | None = None) -> tuple[Split, Merge]:
    """Return a pair that swaps two entries of an axis, in all heads or in one, and swaps back."""

    def swap(heads: Tensor) -> Tensor:
        order = list(range(heads.shape[axis]))
        here, there = one % len(order), other % len(order)  # a test may use few of them
        order[here], order[there] = order[there], order[here]
        moved, which = heads.clone(), slice(None) if head is None else head
        moved[:, which] = heads.index_select(axis, torch.tensor(order))[:, which]
        return moved

    return (lambda x, num_heads: swap(split_heads(x, num_heads))), (
        lambda heads: merge_heads(swap(heads))
    )


ROUND_TRIP = "A round trip catches this pair."
IDENTITY = "Its round trip gives x again"
EVERY_HEAD = f"{IDENTITY}, and some of its heads are correct. Compare all heads."
EVERY_TOKEN = f"{IDENTITY}, and most rows are correct. Compare every token of a head."
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
    "last two heads swapped": (*swapped(HEAD_AXIS, -2, -1), EVERY_HEAD),
    "tokens 1 and 2 swapped": (*swapped(TOKEN_AXIS, 1, 2), EVERY_TOKEN),
    "last two tokens swapped in the last head": (*swapped(TOKEN_AXIS, -2, -1, -1), EVERY_TOKEN),
    "last two features swapped in the last head": (
        *swapped(FEATURE_AXIS, -2, -1, -1),
        f"{IDENTITY}, and each token is in place. Compare every feature.",
    ),
    "correct split, dealt merge": (split_heads, dealt_merge, ROUND_TRIP),
    "merge wrong in the last token": (
        split_heads,
        last_token_reversed,
        "A round trip catches this pair if it compares all rows.",
    ),
    "merge correct only after a split": (
        split_heads,
        merge_by_strides(contiguous=True),
        f"{IDENTITY}. After attention, the heads lie in memory in their own order, so test "
        "merge(heads.contiguous()) too.",
    ),
    "merge correct only in the order of memory": (
        split_heads,
        merge_by_strides(contiguous=False),
        "Test the merge right after the split too, without contiguous().",
    ),
}


def passed(_case: Case, said: dict[str, bool | None]) -> Evidence:
    """Return how many pairs of each kind pass the test."""
    opinions = [bool(one) for one in said.values()]  # the correct pairs come first
    right, wrong = opinions[: len(CORRECT_PAIRS)], opinions[len(CORRECT_PAIRS) :]
    return table(
        "How many pairs pass:",
        {"your test": [sum(right), sum(wrong)], "correct": [len(right), 0]},
        [f"of {len(right)} correct pairs", f"of {len(wrong)} wrong pairs"],
    )


@Opinion(
    answer="A function of (split, merge) that returns a bool.",
    see="attnlab.clinic.diagnose : names what is wrong with such a pair.",
    verified=(
        f"All {len(CORRECT_PAIRS)} correct pairs pass, and all {len(WRONG_PAIRS)} wrong ones fail."
    ),
    evidence=passed,
)
def check_pair_test() -> Iterator[Case]:
    """Check a test that separates correct pairs (split, merge) from wrong ones.

    Verified: True for the correct pairs, False for the wrong ones. Some of the wrong ones go wrong
    in one head, one token or one feature only, or only with heads that lie in memory in their
    order.
    """
    for name, pair in CORRECT_PAIRS.items():
        hint = "It splits and merges correctly. Compare numbers and shapes, not strides or names."
        yield Case(f"the correct pair “{name}”", pair, True, hint)
    for name, (split, merge, why) in WRONG_PAIRS.items():
        yield Case(f"the wrong pair “{name}”", (split, merge), False, why)
