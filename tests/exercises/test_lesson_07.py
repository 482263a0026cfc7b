"""The checks of lesson 7: what they accept, and what they say of answers that are not slips."""

import numpy as np
import torch
import torch.nn.functional as F

from attnlab import split_heads
from tests.exercises.verdicts import accepts, names

attention = F.scaled_dot_product_attention


def by_axes(query, key, value, size=None):
    heads = (part.transpose(1, 2) for part in (query, key, value))
    return attention(*heads, scale=size and size**-0.5).transpose(1, 2)


def mended(x, num_heads):
    return torch.cat([attention(part, part, part) for part in x.chunk(num_heads, dim=-1)], dim=-1)


# --- a test for pairs -----------------------------------------------------------------------------

NUMBERED = torch.arange(120.0).view(2, 5, 12)
ALL = slice(None)


def same_split(split, *where, x=NUMBERED):
    return torch.equal(split(x, 3)[where], split_heads(x, 3)[where])


def round_trip(split, merge, x=NUMBERED):
    return torch.equal(merge(split(x, 3)), x)


def merges_anew(split, merge):
    return torch.equal(merge(split(NUMBERED, 3).contiguous()), NUMBERED)


def same_in(*where, x=NUMBERED):
    """Return a test of a round trip, and of the split in one place."""
    return lambda split, merge: same_split(split, *where, x=x) and round_trip(split, merge, x)


def is_right(split, merge):
    return merges_anew(split, merge) and same_in(...)(split, merge)


def by_assert(split, merge):
    assert is_right(split, merge)
    return True


test_accepts = accepts({
    "check_tokens_in_head": [
        lambda: {3, 4},
        torch.tensor([3, 4]),
        lambda: torch.arange(6).repeat_interleave(8).view(4, 6, 2)[2].unique(),
    ],
    "check_by_letters": [by_axes],
    "check_mended_heads": [mended],
    "check_pair_test": [is_right, lambda split, merge: np.bool_(is_right(split, merge))],
})  # fmt: skip

test_names_the_mistake = names({
    "check_tokens_in_head": {
        "Your answer is []. It should be": [],
        "a list of tokens, which are whole numbers from 0 to 5": [6, 7],
        "No token may occur twice": [3, 3, 4],
    },
    "check_by_letters": {
        "With head_dim 6 it is correct. Does your code contain a fixed "
        "size?": lambda q, k, v: by_axes(q, k, v, 6),
    },
    "check_mended_heads": {
        "With 3 heads it is correct. Does your code contain a fixed "
        "size?": lambda x, num_heads: mended(x, 3),
    },
    "check_pair_test": {
        "the wrong pair “reshaped split, reshaped merge”. The round trip of": round_trip,
        "Test a batch of two": same_in(..., x=NUMBERED[:1]),
        "“merge correct only after a split”. The round trip": same_in(...),
        "Test the merge right after the split": lambda split, merge: (
            merges_anew(split, merge) and same_split(split, ...)
        ),
        "“last two tokens swapped in the last head”": same_in(ALL, slice(2)),
        "“last two features swapped in the last head”": same_in(..., 0),
        "False for the correct pair “chunk and cat”": lambda split, merge: (
            is_right(split, merge) and not split(NUMBERED, 3).is_contiguous()
        ),
        ("“reshaped split, correct merge”, your function raises", "AssertionError"): by_assert,
    },
})  # fmt: skip
