"""The checks of lesson 7: what they accept, and what they say of answers that are not slips."""

import math

import numpy as np
import torch
import torch.nn.functional as F

from attnlab import merge_heads, split_heads
from attnlab.exercises import (
    check_by_letters,
    check_mended_heads,
    check_pair_test,
    check_tokens_in_head,
)
from attnlab.exercises.lesson_07 import CORRECT_PAIRS, WRONG_PAIRS
from tests.exercises.verdicts import accepts, names, refused

# --- attention by letters, and three bugs ---------------------------------------------------------


def by_letters(query, key, value, size=None):
    scores = torch.einsum("nlhd,nshd->nhls", query, key) / (size or query.shape[-1]) ** 0.5
    return torch.einsum("nhls,nshd->nlhd", scores.softmax(dim=-1), value)


def by_axes(query, key, value):
    heads = (part.transpose(1, 2) for part in (query, key, value))
    return F.scaled_dot_product_attention(*heads).transpose(1, 2)


def mended(x, num_heads):
    parts = x.chunk(num_heads, dim=-1)
    return torch.cat([F.scaled_dot_product_attention(p, p, p) for p in parts], dim=-1)


def merged_by_view(x, num_heads):
    heads = split_heads(x, num_heads)
    weights = (heads @ heads.mT / heads.shape[-1] ** 0.5).softmax(dim=-1)
    return (weights @ heads).transpose(1, 2).view(x.shape)


def one_entry_off(x, num_heads):
    output = mended(x, num_heads)
    output[1, 3, 10] += 1
    return output


# --- a test for pairs -----------------------------------------------------------------------------


def numbered(n=2):
    return torch.arange(60.0 * n).view(n, 5, 12)


def round_trip(split, merge, x=None):
    x = numbered() if x is None else x
    return torch.equal(merge(split(x, 3)), x)


def same_in(*where, x=None):
    """Return a test of a round trip, and of the split in one place."""

    def test(split, merge):
        given = numbered() if x is None else x
        correct = torch.equal(split(given, 3)[where], split_heads(given, 3)[where])
        return correct and round_trip(split, merge, given)

    return test


def is_right(split, merge):
    anew = torch.equal(merge(split(numbered(), 3).contiguous()), numbered())
    return anew and same_in(...)(split, merge)


def on_random_heads(split, merge):
    x, heads = torch.randn(2, 5, 12), torch.randn(2, 3, 5, 4)
    same = torch.equal(split(x, 3), split_heads(x, 3))
    return same and round_trip(split, merge, x) and torch.equal(merge(heads), merge_heads(heads))


def by_assert(split, merge):
    assert is_right(split, merge)
    return True


def split_only(split, merge):
    return torch.equal(split(numbered(), 3), split_heads(numbered(), 3))


def split_and_first_row(split, merge):
    x = numbered()
    return split_only(split, merge) and torch.equal(merge(split(x, 3))[0], x[0])


def anew_at_tokens(*tokens):
    at = list(tokens)
    return lambda split, merge: (
        torch.equal(merge(split(numbered(), 3).contiguous()), numbered())
        and same_in(slice(None), slice(None), at)(split, merge)
    )


EVERY = slice(None)

test_accepts = accepts(
    {
        check_tokens_in_head: [
            [3, 4],
            lambda: {3, 4},
            torch.tensor([3, 4]),
            lambda: torch.arange(6).repeat_interleave(8).view(4, 6, 2)[2].unique(),
        ],
        check_by_letters: [by_axes],
        check_mended_heads: [mended],
        check_pair_test: [
            is_right,
            on_random_heads,
            lambda split, merge: np.bool_(is_right(split, merge)),
        ],
    }
)

test_names_the_mistake = names(
    {
        check_tokens_in_head: {
            "The list is empty": [],
            "your list holds 6": [6, 7],
            "Tokens are whole numbers": [3.5],
            "Tokens are whole numbers, counted": lambda: [math.nan],
            "These are the tokens. Name each of them once": [3, 3, 4],
        },
        check_by_letters: {
            "With head_dim 6 it is correct. Is a size fixed?": (
                lambda q, k, v: by_letters(q, k, v, 6)
            ),
            "Which letter is summed over": (
                lambda q, k, v: F.scaled_dot_product_attention(q, k[:, :5], v[:, :5])
            ),
        },
        check_mended_heads: {
            "With 3 heads it is correct. Is a size fixed?": lambda x, num_heads: mended(x, 3),
            "Follow one number": lambda x, num_heads: x,
            (
                "it raises RuntimeError: view size",
                "Use .reshape(...) instead. This is correct advice if the axes are in the order",
            ): (merged_by_view),
        },
        check_pair_test: {
            "the wrong pair “reshaped split, reshaped merge”. Its round trip gives x": round_trip,
            "but not all of them: look into a head": lambda split, merge: (
                split(numbered(), 3).shape == (2, 3, 5, 4)
            ),
            "look into a head as well": lambda split, merge: same_in(..., x=torch.ones(2, 5, 12))(
                split, merge
            ),
            "test a batch of two": same_in(..., x=numbered(1)),
            "“correct split, reshaped merge”. A round trip finds": split_only,
            "Look into a head: it must hold its slice": lambda split, merge: (
                torch.equal(split(numbered(), 1)[:, 0], numbered()) and round_trip(split, merge)
            ),
            "“merge correct only after a split”. Its round trip": same_in(...),
            "“last two heads swapped”": same_in(EVERY, 0),
            "“first and last head swapped”": same_in(EVERY, 1),
            "“first two heads swapped”": same_in(EVERY, 2),
            "“first and last token swapped”": same_in(EVERY, EVERY, 1),
            "“tokens 0 and 1 swapped”": anew_at_tokens(-1),
            "“tokens 1 and 2 swapped”": anew_at_tokens(0, -1),
            "“last two tokens swapped in the last head”": same_in(EVERY, slice(2)),
            "“last two features swapped in the last head”": same_in(..., 0),
            "“merge wrong in the last token”": split_and_first_row,
            "False of the correct pair “chunk and cat”. Compare numbers": lambda split, merge: (
                is_right(split, merge) and not split(numbered(), 3).is_contiguous()
            ),
            ("the wrong pair “reshaped split, correct merge” it raises", "AssertionError"): (
                by_assert
            ),
        },
    }
)


def test_the_table_of_tokens_does_not_give_the_answer_away():
    verdict = refused(check_tokens_in_head, [0, 1, 2, 3, 4, 5], "order of memory")
    assert verdict.evidence.values.tolist() == [[0, 11]]
    assert verdict.evidence.rows == ("head 0",)


def test_the_first_difference_of_heads_is_shown():
    evidence = refused(check_mended_heads, one_entry_off).evidence
    assert "sequence 1, token 3" in evidence.caption
    yours, right = evidence.cells()
    assert yours[0] != right[0]


def test_the_pairs_are_what_they_are_called_and_counted():
    x = numbered()
    for split, merge in CORRECT_PAIRS.values():
        assert torch.equal(split(x, 3), split_heads(x, 3))
        assert torch.equal(merge(split(x, 3)), x)
    for split, merge, _ in WRONG_PAIRS.values():
        assert split(x, 3).shape == (2, 3, 5, 4)
        assert merge(split(x, 3)).shape == x.shape
    evidence = refused(check_pair_test, round_trip).evidence
    assert evidence.values.tolist() == [[3, 12], [3, 0]]
