"""The checks of lesson 8: what they accept, and what they say of answers that are not slips."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch.utils._python_dispatch import _get_current_dispatch_mode

from attnlab.exercises import (
    _answers,
    check_joined_pieces,
    check_mended_pieces,
    check_needed_tile,
    check_weight_memory,
)
from attnlab.exercises.lesson_08 import MANY_S, is_needed
from attnlab.masks import causal_mask, sliding_window_mask
from tests.exercises.verdicts import accepts, names, refused

# --- tiles under a causal window ------------------------------------------------------------------


def needed(i, j, size, window):
    return j <= i and i - (j + size - 1) < window


def needed_in_the_mask(i, j, size, window):
    queries, keys = torch.arange(i, i + size)[:, None], torch.arange(j, j + size)
    return ((keys <= queries) & (queries - keys < window)).any()


# --- three bugs -----------------------------------------------------------------------------------


mended = check_mended_pieces.form.right


def at_once(query, key, value, size):
    return F.scaled_dot_product_attention(query, key, value)


def by_single_rows(query, key, value, size):
    rows = [(key @ row / math.sqrt(row.shape[-1])).softmax(dim=-1) @ value for row in query]
    return torch.stack(rows)


def pieces_of(query, key, size):
    return [query @ keys.T / math.sqrt(query.shape[-1]) for keys in key.split(size)]


def in_two_passes(query, key, value, size):
    tops = [(query @ keys.T / 2).amax(dim=-1, keepdim=True) for keys in key.split(size)]
    top = torch.cat(tops, dim=-1).amax(dim=-1, keepdim=True)
    total = output = 0
    for keys, values in zip(key.split(size), value.split(size), strict=True):
        exponentials = (query @ keys.T / 2 - top).exp()
        total = total + exponentials.sum(dim=-1, keepdim=True)
        output = output + exponentials @ values
    return output / total


def from_kept_scores(query, key, value, size):
    scores = pieces_of(query, key, size)
    top = torch.stack([piece.amax(dim=-1, keepdim=True) for piece in scores]).amax(dim=0)
    exponentials = [(piece - top).exp() for piece in scores]
    total = sum(piece.sum(dim=-1, keepdim=True) for piece in exponentials)
    pairs = zip(exponentials, value.split(size), strict=True)
    return sum(piece @ values for piece, values in pairs) / total


def joined_softmaxes(query, key, value, size):  # other steps, and one pass
    level = torch.full((len(query), 1), -math.inf)
    output = torch.zeros(len(query), value.shape[-1])
    for keys, values in zip(key.split(size), value.split(size), strict=True):
        scores = query @ keys.T / math.sqrt(query.shape[-1])
        new = torch.logaddexp(level, scores.logsumexp(dim=-1, keepdim=True))
        output = output * (level - new).exp() + (scores - new).exp() @ values
        level = new
    return output


def scaled_before(query, key, value, size):  # a copy of all keys, and the top from minus infinity
    key = key / math.sqrt(query.shape[-1])
    top = torch.full((len(query), 1), -math.inf)
    total = output = torch.zeros(len(query), 1)
    for start in range(0, len(key), size):
        scores = torch.einsum("le,se->ls", query, key[start : start + size])
        new_top = torch.maximum(top, scores.max(dim=-1, keepdim=True).values)
        factor = torch.exp(top - new_top)
        total = total * factor + (scores - new_top).exp().sum(dim=-1, keepdim=True)
        output = output * factor + (scores - new_top).exp() @ value[start : start + size]
        top = new_top
    return output / total


def tile_by_tile(query, key, value, size):  # rows in blocks as well
    return torch.cat([mended(rows, key, value, size) for rows in query.split(2)])


def without_top(query, key, value, size):
    exponentials = (query @ key.mT / math.sqrt(query.shape[-1])).exp()
    return exponentials @ value / exponentials.sum(dim=-1, keepdim=True)


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


def with_a_total_of_one(one, other):
    top, total, output = by_logs(one, other)
    return top, (total > 0).float(), output


def with_a_level_of_minus_infinity(one, other):
    level = torch.logaddexp(one[0] + one[1].log(), other[0] + other[1].log())
    weights = [torch.where(one[1] == 0, 0, (one[0] - level).exp()) for one in (one, other)]
    return level, level.isfinite().float(), weights[0] * one[2] + weights[1] * other[2]


def to_the_second_top(one, other):
    factor = (one[0] - other[0]).exp()
    return other[0], one[1] * factor + other[1], one[2] * factor + other[2]


def to_the_smaller_top(one, other):
    seen = [state for state in (one, other) if state[1].all()]
    if len(seen) < 2:
        return seen[0] if seen else one
    top = torch.minimum(one[0], other[0])
    factors = [(state[0] - top).exp() for state in seen]
    total, output = (
        sum(f * s[part] for f, s in zip(factors, seen, strict=True)) for part in (1, 2)
    )
    return top, total, output


def in_place(one, other):
    state = joined(one, other)
    one[1].mul_(2)
    return state


def by_shares(one, other):
    top, total, _ = joined(one, other)
    return top, total, sum(s[1] * (s[0] - top).exp() * s[2] / s[1] for s in (one, other))


# --- all ------------------------------------------------------------------------------------------

test_accepts = accepts(
    {
        check_weight_memory: [
            torch.empty(3, 16, 4096, 4096, dtype=torch.bfloat16, device="meta").nbytes / 2**20,
        ],
        check_needed_tile: [needed, needed_in_the_mask],
        check_mended_pieces: [
            joined_softmaxes,
            scaled_before,
            tile_by_tile,
        ],
        check_joined_pieces: [
            joined,
            lambda *states: [*joined(*states)],
            by_logs,
            with_a_total_of_one,
            with_a_level_of_minus_infinity,
        ],
    }
)

test_names_the_mistake = names(
    {
        check_weight_memory: {
            "1537 is not": 1537,
            "-1536 is not the number. Multiply texts": -1536,
        },
        check_needed_tile: {
            "A query in it may look at a key in it": (
                lambda i, j, size, window: j < i and needed(i, j, size, window)
            ),
            "No query in it may look at any": lambda i, j, size, window: j <= i and i - j < 8,
        },
        check_mended_pieces: {
            ("NaN", "take the largest score so far away"): without_top,
            ("The numbers are right, but it makes whole rows", "509"): at_once,
            ("it makes whole rows", "for 509 keys"): by_single_rows,
            ("it computes scores more than once", "1.6 times the FLOPs"): in_two_passes,
            ("it keeps the scores of the pieces", "of 127 KiB for all"): from_kept_scores,
            "pieces of 1 the output is wrong. With pieces of 4 it is correct": (
                lambda q, k, v, size: at_once(q, k, v, size) * (2 if size == 1 else 1)
            ),
            "pieces of 14 the output is wrong. With pieces of 4 it is correct": (
                lambda q, k, v, size: at_once(q, k, v, size) * (2 if size > len(k) else 1)
            ),
            "Follow top, total and output": lambda q, k, v, size: mended(q, k.flip(0), v, size),
        },
        check_joined_pieces: {
            "so that no factor is above 1": to_the_second_top,
            ("tops that lie 100 apart", "no factor is above 1"): to_the_smaller_top,
            ("nothing was seen", "divide nothing by a total"): by_shares,
            "Which factor does each piece need": lambda one, other: one,
            "a first piece in which nothing was seen": (
                lambda one, other: one if (one[1] == 0).all() else joined(one, other)
            ),
            "a second piece in which nothing was seen": (
                lambda one, other: other if (other[1] == 0).all() else joined(one, other)
            ),
            "changes its arguments in place": in_place,
            "a Tensor; return the three parts": lambda one, other: joined(one, other)[2],
            "must have the shapes": lambda one, other: (1, 2, 3),
        },
    }
)


def test_the_corners_of_the_first_wrong_tile_are_shown():
    def two_wrong(*tile):
        return needed(*tile) != (tile in ((8, 0, 4, 5), (8, 8, 8, 1)))

    verdict = refused(check_needed_tile, two_wrong, "i = 8, j = 0, size = 4 and window = 5")
    assert verdict.evidence.values.tolist() == [[8, 3, 5], [11, 0, 11]]
    assert "0 to 4 steps" in verdict.evidence.caption


@pytest.mark.parametrize(("size", "window"), [(4, 5), (4, 30), (8, 9), (1, 2)])
def test_the_masks_of_the_package_need_the_same_tiles(size, window):
    n = 4 * size
    allowed = causal_mask(n) & sliding_window_mask(n, window=window)
    grid = allowed.unflatten(0, (-1, size)).unflatten(2, (-1, size)).any(dim=3).any(dim=1)
    tiles = [[is_needed(i, j, size, window) for j in range(0, n, size)] for i in range(0, n, size)]
    assert tiles == grid.tolist()


def test_a_wrong_state_is_shown_by_what_it_means():
    evidence = refused(check_joined_pieces, lambda one, other: one).evidence
    assert evidence.columns[:2] == ("top + log(total)", "output / total, 0")
    assert evidence.rows == ("yours", "correct")


def test_an_answer_that_hangs_on_many_keys_is_refused_and_leaves_no_mode_behind(monkeypatch):
    monkeypatch.setattr(_answers, "TIME_LIMIT", 0.1)

    def slow(query, key, value, size):
        while len(key) == MANY_S:
            pass
        return mended(query, key, value, size)

    said = "Called with 64 queries and 509 keys it did not come back within 0.5 seconds of"
    assert said in repr(refused(check_mended_pieces, slow))
    assert _get_current_dispatch_mode() is None
