"""The checks of lesson 8: what they reject and why, what they accept, what they survive."""

import math

import pytest
import torch
import torch.nn.functional as F

from attnlab.exercises import (
    check_joined_pieces,
    check_mended_pieces,
    check_needed_tile,
    check_weight_memory,
)
from attnlab.exercises._lesson_08 import _is_needed, _join, _states
from attnlab.exercises._mended_pieces import BUGS, FAR, _by_pieces, _inputs
from attnlab.masks import causal_mask, sliding_window_mask
from tests.exercises.verdicts import accepted, refused, steady

CHECKS = (check_joined_pieces, check_mended_pieces, check_needed_tile, check_weight_memory)


# --- memory of the weights ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (512, "3 in the batch"),
        (96, "weights of its own"),
        (32, "one head of one text"),
        (3072, "2 bytes, not 4"),
        (768, "2 bytes, not 1"),
        (12288, "A byte has 8 bits"),
        (24576, "not with its square"),
        (4608, "tokens of its own text"),
        (1536 * 2**20, "Those are the bytes"),
        (1610.6, "millions of bytes"),
        (1.5, "Those are GiB"),
        (0.375, "every pair of tokens"),
        (1000, "Multiply: texts, heads"),
        (-1536, "Multiply: texts, heads"),
        (math.nan, "not a finite number"),
        ("1536", "a str"),
        (torch.ones(2), "One number is asked for"),
    ],
)
def test_weight_memory_names_what_was_counted_wrong(number, words):
    refused(check_weight_memory, lambda: number, words)


@pytest.mark.parametrize("number", [1536, 1536.0, torch.tensor(1536)])
def test_weight_memory_accepts(number):
    accepted(check_weight_memory, lambda: number)
    accepted(check_weight_memory, number)


def test_weight_memory_is_that_of_a_tensor():
    weights = torch.empty(3, 16, 4096, 4096, dtype=torch.bfloat16, device="meta")
    accepted(check_weight_memory, weights.nbytes / 2**20)


# --- tiles under a causal window ------------------------------------------------------------------


def needed(i, j, size, window):
    return j <= i and i - (j + size - 1) < window


def needed_in_the_mask(i, j, size, window):
    queries, keys = torch.arange(i, i + size)[:, None], torch.arange(j, j + size)
    return ((keys <= queries) & (queries - keys < window)).any()


@pytest.mark.parametrize("answer", [needed, needed_in_the_mask])
def test_needed_tile_accepts(answer):
    accepted(check_needed_tile, answer)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda i, j, size, window: True, "It says so of every tile"),
        (lambda i, j, size, window: False, "It says so of every tile"),
        (lambda *case: not needed(*case), "It says the opposite"),
        (lambda i, j, size, window: j <= i, "the causal mask alone"),
        (lambda i, j, size, window: abs(i - j) < window + size - 1, "the window alone"),
        (lambda i, j, size, window: 0 <= i - j < window, "The pair that lies nearest"),
        (
            lambda i, j, size, window: j + size - 1 <= i and i + size - 1 - j < window,
            "one allowed pair is enough",
        ),
        (
            lambda i, j, size, window: j <= i and i - (j + size - 1) <= window,
            "off by one: a key exactly window steps back",
        ),
        (
            lambda i, j, size, window: j <= i and i - (j + size) < window,
            "off by one: a key exactly window steps back",
        ),
        (lambda i, j, size, window: j < i and needed(i, j, size, window), "may look at a key"),
        (lambda i, j, size, window: j <= i and i - j < 8, "may look at"),
        (lambda i, j, size, window: 1, "return True or False"),
        (lambda i, j: True, "it raises TypeError"),
    ],
)
def test_needed_tile_names_the_misconception(answer, words):
    refused(check_needed_tile, answer, words)


def test_needed_tile_shows_the_two_corners_of_the_first_wrong_tile():
    def one_wrong(i, j, size, window):
        return needed(i, j, size, window) != ((i, j, size, window) == (8, 0, 4, 5))

    verdict = refused(check_needed_tile, one_wrong, "i = 8, j = 0, size = 4 and window = 5")
    assert verdict.evidence.values.tolist() == [[8, 3, 5], [11, 0, 11]]
    assert "0 to 4 steps" in verdict.evidence.caption


@pytest.mark.parametrize(("size", "window"), [(4, 5), (4, 30), (8, 9), (1, 2)])
def test_needed_is_what_the_masks_of_the_package_say(size, window):
    n = 4 * size
    allowed = causal_mask(n) & sliding_window_mask(n, window=window)
    grid = allowed.unflatten(0, (-1, size)).unflatten(2, (-1, size)).any(dim=3).any(dim=1)
    for i, j in [(i, j) for i in range(4) for j in range(4)]:
        assert _is_needed(i * size, j * size, size, window) == grid[i, j]


# --- three bugs -----------------------------------------------------------------------------------


def mended(query, key, value, size):
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    top = torch.full((len(query), 1), -math.inf)
    total, output = torch.zeros_like(top), torch.zeros(len(query), value.shape[-1])
    for start in range(0, scores.shape[1], size):
        piece = scores[:, start : start + size]
        new_top = torch.maximum(top, piece.amax(dim=-1, keepdim=True))
        shrink, exponentials = (top - new_top).exp(), (piece - new_top).exp()
        total = total * shrink + exponentials.sum(dim=-1, keepdim=True)
        output = output * shrink + exponentials @ value[start : start + size]
        top = new_top
    return output / total


def at_once(query, key, value, size):
    return F.scaled_dot_product_attention(query, key, value)


def without_top(query, key, value, size):
    exponentials = (query @ key.mT / math.sqrt(query.shape[-1])).exp()
    return exponentials @ value / exponentials.sum(dim=-1, keepdim=True)


def with_bugs(*bugs):
    return lambda query, key, value, size: _by_pieces(query, key, value, size, bugs)


def divided_twice(query, key, value, size):
    output = _by_pieces(query, key, value, size, (False, False, True))
    weights = (query @ key.mT / math.sqrt(query.shape[-1])).softmax(dim=-1)
    return output * weights.amax(dim=-1, keepdim=True)


def undivided(query, key, value, size):
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    return (scores - scores.amax(dim=-1, keepdim=True)).exp() @ value


@pytest.mark.parametrize("answer", [mended, at_once, with_bugs(False, False, False)])
def test_mended_pieces_accepts(answer):
    accepted(check_mended_pieces, answer)


@pytest.mark.parametrize(
    ("bugs", "words", "named"),
    [
        ((True, True, True), "3 bugs are left", 1),
        ((False, True, True), "2 bugs are left", 1),
        ((True, True, False), "2 bugs are left", 1),
        ((True, False, True), "2 bugs are left", 2),
        ((True, False, False), "One bug is left", 0),
        ((False, True, False), "One bug is left", 1),
        ((False, False, True), "One bug is left", 2),
    ],
)
def test_mended_pieces_counts_the_bugs_that_are_left(bugs, words, named):
    verdict = refused(check_mended_pieces, with_bugs(*bugs), words, BUGS[named])
    assert not any(words in verdict.message for words in BUGS if words != BUGS[named])


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (without_top, "far above 0"),
        (divided_twice, "divided twice"),
        (undivided, "not divided by the total"),
        (lambda q, k, v, size: mended(q, k[-3:], v[-3:], size), "the last piece alone"),
        (lambda q, k, v, size: mended(q * 2, k, v, size), "not divided by the root"),
        (lambda q, k, v, size: mended(q, k, v, 4) if size == 4 else q[:, :3], "pieces of 1"),
        (lambda q, k, v, size: mended(q, k, v, size).mT, "must be (5, 3), got (3, 5)"),
        (lambda q, k, v, size: mended(q, k.flip(0), v, size), "Follow top, total and output"),
        (lambda q, k, v, size: [1], "a list instead of a tensor"),
        (lambda q, k: q, "it raises TypeError"),
    ],
)
def test_mended_pieces_names_the_misconception(answer, words):
    refused(check_mended_pieces, answer, words)


@pytest.mark.parametrize("shift", [0.0, FAR, -FAR])
def test_the_reference_in_pieces_is_attention_and_its_bugs_are_none_of_it(shift):
    inputs = _inputs(shift)
    right = F.scaled_dot_product_attention(*inputs)
    assert torch.allclose(_by_pieces(*inputs, 4), right, atol=1e-3)
    for place, seen in enumerate((shift < 0, True, True)):
        bugs = tuple(place == other for other in range(3))
        assert torch.allclose(_by_pieces(*inputs, 4, bugs), right, atol=1e-3) != seen


# --- two pieces, joined ---------------------------------------------------------------------------


def joined(one, other):
    top = torch.maximum(one[0], other[0])
    first, second = (one[0] - top).exp(), (other[0] - top).exp()
    return top, one[1] * first + other[1] * second, one[2] * first + other[2] * second


def by_logs(one, other):
    level = torch.logaddexp(one[0] + one[1].log(), other[0] + other[1].log())
    level = level.nan_to_num(neginf=torch.finfo(level.dtype).min)
    total = sum((part[0] + part[1].log() - level).exp() for part in (one, other))
    output = sum((part[0] - level).exp() * part[2] for part in (one, other))
    return level, total, output


def shrunk(of_total, of_output):
    """Return a join that leaves some factors out: which of (first, second) shrinks what."""

    def join(one, other):
        top = torch.maximum(one[0], other[0])
        factors = [(part[0] - top).exp() for part in (one, other)]
        total, output = (
            sum(
                part[place] * (factor if used else 1)
                for part, factor, used in zip((one, other), factors, uses, strict=True)
            )
            for place, uses in ((1, of_total), (2, of_output))
        )
        return top, total, output

    return join


def to_the_second_top(one, other):
    factor = (one[0] - other[0]).exp()
    return other[0], one[1] * factor + other[1], one[2] * factor + other[2]


def one_top_for_all(one, other):
    top = torch.maximum(one[0], other[0]).max().expand_as(one[0])
    first, second = (one[0] - top).exp(), (other[0] - top).exp()
    return top, one[1] * first + other[1] * second, one[2] * first + other[2] * second


def in_place(one, other):
    result = joined(one, other)
    one[1].mul_(2)
    return result


def already_divided(one, other):
    top, total, output = joined(one, other)
    return top, total, output / total


def mean_of_outputs(one, other):
    top, _, _ = joined(one, other)
    return top, torch.ones_like(top), (one[2] / one[1] + other[2] / other[1]) / 2


@pytest.mark.parametrize("answer", [joined, by_logs, lambda *states: [*joined(*states)]])
def test_joined_pieces_accepts(answer):
    accepted(check_joined_pieces, answer)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (shrunk((0, 0), (0, 0)), "nothing is shrunk"),
        (shrunk((1, 0), (1, 0)), "only the first piece is shrunk"),
        (shrunk((0, 1), (0, 1)), "only the second piece is shrunk"),
        (shrunk((1, 1), (0, 0)), "the output is not shrunk"),
        (shrunk((0, 0), (1, 1)), "the total is not shrunk"),
        (to_the_second_top, "so that no factor is above 1"),
        (one_top_for_all, "rows whose tops lie 200 apart: a total is 0 though keys were seen"),
        (already_divided, "divided by the total already"),
        (mean_of_outputs, "the mean of two outputs"),
        (in_place, "It changes the states"),
        (lambda one, other: one, "Which factor does each piece need"),
        (lambda one, other: joined(one, other)[2], "a Tensor; return the three parts"),
        (lambda one, other: joined(one, other)[:2], "a tuple; return the three parts"),
        (lambda one, other: (1, 2, 3), "must have the shapes"),
        (lambda one: one, "it raises TypeError"),
    ],
)
def test_joined_pieces_names_the_misconception(answer, words):
    refused(check_joined_pieces, answer, words)


@pytest.mark.parametrize("place", [0, 1])
def test_joined_pieces_asks_for_an_empty_piece_on_either_side(place):
    def loses_the_other(*states):
        return states[place] if (states[place][1] == 0).all() else joined(*states)

    refused(check_joined_pieces, loses_the_other, "one piece in which nothing was seen")


def test_joined_pieces_sees_a_division_by_nothing():
    def divides_and_multiplies(one, other):
        top, total, _ = joined(one, other)
        shares = [part[1] * (part[0] - top).exp() for part in (one, other)]
        output = sum(
            share * part[2] / part[1] for share, part in zip(shares, (one, other), strict=True)
        )
        return top, total, output

    refused(check_joined_pieces, divides_and_multiplies, "nothing was seen", "a total of 0")


@pytest.mark.parametrize("apart", [0.0, 200.0])
def test_the_reference_joins_what_all_keys_give(apart):
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(4, 9, generator=generator)
    value = torch.randn(9, 3, generator=generator)
    scores[::2, :4] += apart + 1
    scores[1::2, 4:] += apart + 1
    _, total, output = _join(*_states(apart))
    assert torch.allclose(output / total, scores.softmax(dim=-1) @ value, atol=1e-6)


# --- all four -------------------------------------------------------------------------------------

GOOD = {
    check_joined_pieces: joined,
    check_mended_pieces: mended,
    check_needed_tile: needed,
    check_weight_memory: 1536,
}


@pytest.mark.parametrize("check", CHECKS)
def test_a_verdict_is_the_same_every_time_and_moves_no_random_stream(check):
    steady(check, GOOD[check])
