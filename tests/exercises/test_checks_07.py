"""The checks of lesson 7: what they reject and why, what they accept, what they survive."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from attnlab import merge_heads, scaled_dot_product_attention, split_heads
from attnlab.exercises import (
    check_by_letters,
    check_mended_heads,
    check_pair_test,
    check_tokens_in_head,
)
from attnlab.exercises._lesson_07 import BUGS, _attend
from attnlab.exercises._pair_test import RIGHT_PAIRS, WRONG_PAIRS
from tests.exercises.verdicts import accepted, refused, steady

CHECKS = (check_by_letters, check_mended_heads, check_pair_test, check_tokens_in_head)


# --- tokens in a head -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tokens", "words"),
    [
        ([0, 1, 2, 3, 4, 5], "what a right split gives"),
        ([0, 1], "the tokens of head 0"),
        ([1, 2], "the tokens of head 1"),
        ([4, 5], "the tokens of head 3"),
        ([2], "more than the 8 of one token"),
        ([2, 3], "token 2 ends at number 23"),
        ([3], "one token is not enough"),
        ([4], "Where do the numbers of head 2 begin"),
        ([2, 3, 4], "in the order of memory"),
        ([], "The list is empty"),
        ([6, 7], "your list holds 6"),
        ([-1], "your list holds -1"),
        ([3.5], "whole numbers"),
        ([math.nan], "whole numbers"),
        ("3, 4", "a str"),
        ({3: 4}, "a dict"),
        ([3, 3, 4], "each of them once"),
        ([3, 3, 4, 4], "each of them once"),
    ],
)
def test_tokens_in_head_names_the_misconception(tokens, words):
    refused(check_tokens_in_head, lambda: tokens, words)


@pytest.mark.parametrize("tokens", [[3, 4], (4, 3), {3, 4}, torch.tensor([3, 4]), [3.0, 4.0]])
def test_tokens_in_head_accepts(tokens):
    accepted(check_tokens_in_head, lambda: tokens)
    accepted(check_tokens_in_head, tokens)


def test_tokens_in_head_shows_only_head_0():
    shown = str(refused(check_tokens_in_head, [0, 1, 2, 3, 4, 5], "order of memory").evidence)
    assert "head 0" in shown
    assert "11" in shown
    assert "24" not in shown
    assert "35" not in shown


def test_tokens_in_head_is_what_view_does():
    tokens = torch.arange(6).repeat_interleave(8).view(6, 8)
    assert tokens.view(4, 6, 2)[2].unique().tolist() == [3, 4]


# --- attention by letters -------------------------------------------------------------------------


def scores_of(query, key):
    return torch.einsum("nlhd,nshd->nhls", query, key)


def averaged(weights, value):
    return torch.einsum("nhls,nshd->nlhd", weights, value)


def by_letters(query, key, value):
    return averaged((scores_of(query, key) / query.shape[-1] ** 0.5).softmax(dim=-1), value)


def by_axes(query, key, value):
    heads = (part.transpose(1, 2) for part in (query, key, value))
    return F.scaled_dot_product_attention(*heads).transpose(1, 2)


def across_heads(query, key, value):
    return F.scaled_dot_product_attention(query, key[:, :5], value[:, :5])


LETTERS = [
    (lambda q, k, v: averaged(scores_of(q, k).softmax(dim=-1), v), "are not divided"),
    (
        lambda q, k, v: averaged((scores_of(q, k) / 18**0.5).softmax(-1), v),
        "all features of",
    ),
    (
        lambda q, k, v: averaged((scores_of(q, k) / 3**0.5).softmax(-1), v),
        "number of heads",
    ),
    (lambda q, k, v: averaged((scores_of(q, k) / 6).softmax(-1), v), "not by its root"),
    (
        lambda q, k, v: averaged((scores_of(q, k) / 6**0.5).softmax(-2), v),
        "runs over the queries",
    ),
    (
        lambda q, k, v: averaged((scores_of(q, k) / 6**0.5).softmax(1), v),
        "runs over the heads",
    ),
    (lambda q, k, v: averaged(scores_of(q, k), v), "raw scores are used as weights"),
    (lambda q, k, v: averaged(scores_of(q, k) / 6**0.5, v), "There is no softmax"),
    (lambda q, k, v: averaged((scores_of(q, k) / 2).softmax(-1), v), "divided by 2"),
    (lambda q, k, v: averaged((scores_of(q, k) / len(q)).softmax(-1), v), "divided by 2"),
    (
        lambda q, k, v: averaged((scores_of(q, k) / 6**0.5).softmax(-1), v),
        "Is a size fixed",
    ),
    (across_heads, "Which letter is summed over"),
    (lambda q, k, v: by_letters(q, k, v).transpose(1, 2), "in front of the tokens"),
    (lambda q, k, v: by_letters(q, k, v).flatten(-2), "merged already"),
    (lambda q, k, v: scores_of(q, k).softmax(dim=-1), "These are the weights"),
    (lambda q, k, v: q[0], "the output must be (2, 5, 3, 6), got (5, 3, 6)"),
    (lambda q, k, v: (by_letters(q, k, v), 1), "a tuple instead of a tensor"),
    (lambda q, k, v: q @ k, "it raises RuntimeError"),
    (lambda q, k, v: q * math.nan, "the numbers are not"),
]


@pytest.mark.parametrize(("answer", "words"), LETTERS)
def test_by_letters_names_the_misconception(answer, words):
    refused(check_by_letters, answer, words)


@pytest.mark.parametrize("answer", [by_letters, by_axes])
def test_by_letters_accepts(answer):
    accepted(check_by_letters, answer)


# --- three bugs -----------------------------------------------------------------------------------


def mended(x, num_heads):
    heads = split_heads(x, num_heads)
    return merge_heads(scaled_dot_product_attention(heads, heads, heads))


def chunked(x, num_heads):
    parts = x.chunk(num_heads, dim=-1)
    return torch.cat([F.scaled_dot_product_attention(p, p, p) for p in parts], dim=-1)


def with_bugs(*bugs):
    return lambda x, num_heads: _attend(x, num_heads, bugs)


@pytest.mark.parametrize(
    ("bugs", "count"),
    [
        ((True, True, True), "3 bugs are left"),
        ((True, False, True), "2 bugs are left"),
        ((True, True, False), "2 bugs are left"),
        ((False, True, True), "2 bugs are left"),
        ((True, False, False), "One bug is left"),
        ((False, True, False), "One bug is left"),
        ((False, False, True), "One bug is left"),
    ],
)
def test_mended_heads_counts_the_bugs_that_are_left(bugs, count):
    left = [words for bug, words in zip(bugs, BUGS, strict=True) if bug]
    verdict = refused(check_mended_heads, with_bugs(*bugs), count, left[0])
    others = [words for words in BUGS if words != left[0]]
    assert not any(words in verdict.message for words in others)


def test_mended_heads_shows_numbers_that_differ():
    def one_entry_off(x, num_heads):
        output = mended(x, num_heads)
        output[1, 3, 10] += 1
        return output

    for answer, place in (
        (one_entry_off, "sequence 1, token 3"),
        (with_bugs(True, False, True), "sequence 0"),
        (with_bugs(False, False, True), "sequence 0"),
    ):
        evidence = refused(check_mended_heads, answer, "").evidence
        assert place in evidence.caption
        yours, right = evidence.cells()
        assert yours[0] != right[0]


def not_moved(x, num_heads):
    parts = x.unflatten(-1, (num_heads, -1))
    return F.scaled_dot_product_attention(parts, parts, parts).flatten(-2)


def unscaled(x, num_heads):
    parts = split_heads(x, num_heads)
    return merge_heads(F.scaled_dot_product_attention(parts, parts, parts, scale=1.0))


def divided_by(root_of):
    def scaled(x, num_heads):
        parts = split_heads(x, num_heads)
        scale = root_of(parts) ** -0.5
        return merge_heads(F.scaled_dot_product_attention(parts, parts, parts, scale=scale))

    return scaled


def for_three(x, num_heads):
    return mended(x, 3)


def transposed_split_only(x, num_heads):
    return split_heads(mended(x, num_heads), num_heads)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (not_moved, "tokens never meet"),
        (unscaled, "are not divided"),
        (divided_by(lambda parts: parts.shape[1]), "by the root of the number of heads"),
        (divided_by(lambda parts: parts.shape[2]), "by the root of the number of tokens"),
        (divided_by(lambda parts: parts.shape[3] ** 2), "by head_dim itself, not by its root"),
        (lambda x, h: F.scaled_dot_product_attention(x, x, x), "the cut is missing"),
        (for_three, "Is a size fixed"),
        (transposed_split_only, "the output must be (2, 5, 12), got (2, 3, 5, 4)"),
        (lambda x, h: x, "Follow one number"),
        (lambda x, h: x.view(2, 3, 3, 3), "it raises RuntimeError"),
        (lambda x: x, "it raises TypeError"),
        (lambda x, h: [1], "a list instead of a tensor"),
    ],
)
def test_mended_heads_names_the_misconception(answer, words):
    refused(check_mended_heads, answer, words)


@pytest.mark.parametrize("answer", [mended, chunked, with_bugs(False, False, False)])
def test_mended_heads_accepts(answer):
    accepted(check_mended_heads, answer)


# --- a test for pairs -----------------------------------------------------------------------------


def named(x_shape=(2, 5, 12)):
    return torch.arange(float(math.prod(x_shape))).view(x_shape)


def is_right(split, merge):
    x = named()
    heads = split(x, 3)
    slices = [torch.equal(heads[:, h], x[:, :, 4 * h : 4 * h + 4]) for h in range(3)]
    back = torch.equal(merge(heads), x) and torch.equal(merge(heads.contiguous()), x)
    return heads.shape == (2, 3, 5, 4) and all(slices) and back


def compares(split, merge):
    x, heads = torch.randn(2, 5, 12), torch.randn(2, 3, 5, 4)
    back = torch.equal(merge(split(x, 3)), x) and torch.equal(merge(heads), merge_heads(heads))
    return torch.equal(split(x, 3), split_heads(x, 3)) and back


def after_a_split(split, merge):
    x = torch.randn(2, 5, 12)
    return torch.equal(split(x, 3), split_heads(x, 3)) and torch.equal(merge(split(x, 3)), x)


def one_of_the_heads(h):
    def looks_at_one(split, merge):
        same = torch.equal(split(named(), 3)[:, h], named()[:, :, 4 * h : 4 * h + 4])
        return same and round_trip(split, merge)

    return looks_at_one


def one_entry(split, merge):
    heads = split(named(), 3)
    return torch.equal(heads[:, 1, 1], named()[:, 1, 4:8]) and round_trip(split, merge)


def one_token(t):
    def looks_at_one(split, merge):
        same = torch.equal(split(named(), 3)[:, :, t], split_heads(named(), 3)[:, :, t])
        return same and round_trip(split, merge)

    return looks_at_one


def some_tokens(*places):
    def looks_at_some(split, merge):
        at = list(places)
        same = torch.equal(split(named(), 3)[:, :, at], split_heads(named(), 3)[:, :, at])
        anew = merge(split(named(), 3).contiguous())
        return same and round_trip(split, merge) and torch.equal(anew, named())

    return looks_at_some


def one_feature(split, merge):
    same = torch.equal(split(named(), 3)[..., 0], split_heads(named(), 3)[..., 0])
    return same and round_trip(split, merge)


def one_row_of_merge(split, merge):
    heads = split(named(), 3)
    return torch.equal(heads, split_heads(named(), 3)) and torch.equal(
        merge(heads)[0, 0], named()[0, 0]
    )


def round_trip(split, merge):
    return torch.equal(merge(split(named(), 3)), named())


def right_shape(split, merge):
    return split(named(), 3).shape == (2, 3, 5, 4)


def only_ones(split, merge):
    x = torch.ones(2, 5, 12)
    return torch.equal(split(x, 3), split_heads(x, 3)) and torch.equal(merge(split(x, 3)), x)


def one_sequence(split, merge):
    x = named((1, 5, 12))
    return torch.equal(split(x, 3), split_heads(x, 3)) and torch.equal(merge(split(x, 3)), x)


def split_only(split, merge):
    return torch.equal(split(named(), 3), split_heads(named(), 3))


def one_head(split, merge):
    return torch.equal(split(named(), 1)[:, 0], named()) and round_trip(split, merge)


def strided(split, merge):
    return is_right(split, merge) and not split(named(), 3).is_contiguous()


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (
            round_trip,
            "12 of 16 wrong pairs pass, first of all “short split, short merge”",
        ),
        (right_shape, "16 of 16 wrong pairs pass"),
        (only_ones, "16 of 16 wrong pairs pass"),
        (one_sequence, "test a batch of two"),
        (split_only, "“right split, short merge”"),
        (one_head, "Look into a head"),
        (after_a_split, "“merge right only after a split”. Its round trip"),
        (one_of_the_heads(0), "“last two heads swapped”"),
        (one_of_the_heads(1), "“first and last head swapped”"),
        (one_of_the_heads(2), "“first two heads swapped”"),
        (one_entry, "“first and last head swapped”"),
        (one_token(1), "“first and last token swapped”"),
        (some_tokens(-1), "“tokens 0 and 1 swapped”"),
        (some_tokens(0, -1), "“tokens 1 and 2 swapped”"),
        (one_feature, "“last two features swapped in the last head”"),
        (one_row_of_merge, "“merge wrong in the last token”"),
        (strided, "It says False for the right pair “chunk and cat”"),
        (lambda split, merge: True, "16 of 16 wrong pairs pass, first of all “short split"),
        (lambda split, merge: True, "but not all of them: look into a head"),
        (lambda split, merge: False, "It says False for the right pair"),
        (lambda split, merge: 1, "return True or False"),
        (lambda split, merge: split(named()), "it raises TypeError"),
    ],
)
def test_pair_test_names_what_a_test_lets_through(answer, words):
    refused(check_pair_test, answer, words)


def test_an_assert_instead_of_false_is_told_with_its_pair():
    def asserts(split, merge):
        assert is_right(split, merge)
        return True

    refused(
        check_pair_test,
        asserts,
        "the wrong pair “short split, right merge”",
        "AssertionError",
    )


@pytest.mark.parametrize(
    "answer",
    [
        is_right,
        compares,
        lambda s, m: torch.tensor(is_right(s, m)),
        lambda s, m: np.bool_(is_right(s, m)),
    ],
)
def test_pair_test_accepts(answer):
    accepted(check_pair_test, answer)


def test_the_pairs_are_what_they_are_called():
    x = named()
    for split, merge in RIGHT_PAIRS.values():
        assert torch.equal(split(x, 3), split_heads(x, 3))
        assert torch.equal(merge(split(x, 3)), x)
    for (split, merge), _ in WRONG_PAIRS.values():
        assert split(x, 3).shape == (2, 3, 5, 4)
        assert merge(split(x, 3)).shape == x.shape


# --- all four -------------------------------------------------------------------------------------

GOOD = {
    check_by_letters: by_letters,
    check_mended_heads: mended,
    check_pair_test: is_right,
    check_tokens_in_head: [3, 4],
}


@pytest.mark.parametrize("check", CHECKS)
def test_a_verdict_is_the_same_every_time_and_moves_no_random_stream(check):
    steady(check, GOOD[check])
