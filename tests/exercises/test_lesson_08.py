"""The checks of lesson 8: what they accept, and what they say of answers that are not slips."""

import math
from functools import partial

import torch
import torch.nn.functional as F

from attnlab import exercises
from attnlab.exercises.frame import answers
from attnlab.exercises.lesson_08 import MANY_S, in_pieces, is_needed
from tests.exercises.verdicts import accepts, names, refused, state_of_torch

mended, joined = exercises.check_mended_pieces.form.right, exercises.check_joined_pieces.form.right


def needed_in_the_mask(i, j, size, window):
    queries, keys = torch.arange(i, i + size)[:, None], torch.arange(j, j + size)
    return ((keys <= queries) & (queries - keys < window)).any()


# --- three bugs -----------------------------------------------------------------------------------


def at_once(query, key, value, size):
    return F.scaled_dot_product_attention(query, key, value)


def scores_of(query, key, size):
    return (query @ keys.T / math.sqrt(query.shape[-1]) for keys in key.split(size))


def summed(scores, top, value, size):
    """Return the output for pieces of scores, taken away from a top that is known."""
    total = output = 0
    for piece, values in zip(scores, value.split(size), strict=True):
        exps = (piece - top).exp()
        total = total + exps.sum(dim=-1, keepdim=True)
        output = output + exps @ values
    return output / total


def top_of(scores):
    return torch.cat([piece.amax(dim=-1, keepdim=True) for piece in scores], dim=-1).amax(-1, True)


def in_two_passes(query, key, value, size):
    top = top_of(scores_of(query, key, size))
    return summed(scores_of(query, key, size), top, value, size)


def from_kept_scores(query, key, value, size):
    scores = list(scores_of(query, key, size))
    return summed(scores, top_of(scores), value, size)


def from_kept_states(query, key, value, size):  # the states of all pieces, joined at the end
    states = []
    for piece, values in zip(scores_of(query, key, size), value.split(size), strict=True):
        top = piece.amax(dim=-1, keepdim=True)
        exps = (piece - top).exp()
        states.append((top, exps.sum(dim=-1, keepdim=True), exps @ values))
    tops, totals, outputs = (torch.stack(parts) for parts in zip(*states, strict=True))
    factors = (tops - tops.amax(dim=0)).exp()
    return (factors * outputs).sum(dim=0) / (factors * totals).sum(dim=0)


def without_top(query, key, value, size):
    exps = (query @ key.mT / math.sqrt(query.shape[-1])).exp()
    return exps @ value / exps.sum(dim=-1, keepdim=True)


def under_the_old_top(query, key, value, size):
    top, total, output = torch.full((len(query), 1), torch.finfo(query.dtype).min), 0, 0
    for scores, values in zip(scores_of(query, key, size), value.split(size), strict=True):
        new_top = torch.maximum(top, scores.amax(dim=-1, keepdim=True))
        factor, exps = (top - new_top).exp(), (scores - top).exp()
        total = total * factor + exps.sum(dim=-1, keepdim=True)
        top, output = new_top, output * factor + exps @ values
    return output / total


def in_double_precision(query, key, value, size):
    return mended(query.double(), key.double(), value.double(), size).float()


def by_index(query, key, value, size):
    pieces = torch.arange(len(key)).split(size)
    order = torch.cat([piece.flip(0) for piece in pieces])
    return mended(query, key[order], value[order], size)


def with_a_column_of_ones(query, key, value, size):
    value = torch.cat([value, query.new_ones(len(value), 1)], dim=1)
    top, sums = torch.full((len(query), 1), -math.inf), 0
    for piece, values in zip(scores_of(query, key, size), value.split(size), strict=True):
        new_top = torch.maximum(top, piece.amax(dim=-1, keepdim=True))
        sums = sums * (top - new_top).exp() + (piece - new_top).exp() @ values
        top = new_top
    return sums[:, :-1] / sums[:, -1:]


def whole_rows(query, key, value, size):  # one at a time
    rows = [(key @ q / math.sqrt(len(q))).softmax(dim=-1) @ value for q in query]
    return torch.stack(rows)


# --- two pieces, joined ---------------------------------------------------------------------------


def by_logs(one, other, lowest=None):
    level = torch.logaddexp(one[0] + one[1].log(), other[0] + other[1].log())
    level = level.nan_to_num(neginf=lowest)
    total = sum((part[0] + part[1].log() - level).exp() for part in (one, other))
    output = sum((part[0] - level).exp() * part[2] for part in (one, other))
    return level, total, output


def to_the_second_top(one, other):
    factor = (one[0] - other[0]).exp()
    return other[0], one[1] * factor + other[1], one[2] * factor + other[2]


# --- all ------------------------------------------------------------------------------------------

test_accepts = accepts({
    "check_needed_tile": [needed_in_the_mask],
    "check_mended_pieces": [
        from_kept_states,
        in_double_precision,
        by_index,
        with_a_column_of_ones,
    ],
    "check_joined_pieces": [
        lambda *states: [*joined(*states)],
        by_logs,
    ],
})  # fmt: skip

test_names_the_mistake = names({
    "check_weight_memory": {("another unit", "1024 times 1024 bytes"): 1610.6},  # MB
    "check_needed_tile": {
        "Some query of this tile may attend to one of its keys": (
            lambda i, j, *sizes: j < i and is_needed(i, j, *sizes)
        ),
    },
    "check_mended_pieces": {
        ("scores near -4096", "Keep the largest score of each row"): without_top,
        "subtract it from the scores of that row before you apply exp": under_the_old_top,
        "Multiply the total and the output of the earlier pieces by exp(old top - new top)": (
            in_pieces(total=-1, output=-1)
        ),
        "The numbers are correct, but your function makes a tensor of shape (64, 1021)": at_once,
        "makes a tensor of shape (1, 1021), with scores of all 1021 keys": whole_rows,
        ("scores near -4096", "the top begins too high"): in_pieces(first_top=-1000.0),
        ("scores near -1,000,000", "The top begins too high"): in_pieces(first_top=-1e4),
        "takes 1.6 times the FLOPs of one pass": in_two_passes,
        "KiB at a time, more than all scores together take (255 KiB)": from_kept_scores,
    },
    "check_joined_pieces": {
        "two pieces, and in both no key was seen": partial(by_logs, lowest=-math.inf),
        "so that no factor is above 1": to_the_second_top,
        "Which top, which factor for each piece": lambda one, other: one,
    },
})  # fmt: skip


def test_an_answer_that_hangs_on_many_keys_is_refused_and_leaves_no_mode_behind(monkeypatch):
    monkeypatch.setattr(answers, "TIME_LIMIT", 0.05)

    def slow(query, key, value, size):
        while len(key) == MANY_S:
            pass
        return mended(query, key, value, size)

    before = state_of_torch()
    said = "With 64 queries and 1021 keys, your function had not finished after 0.25 seconds"
    refused(exercises.check_mended_pieces, slow, said)
    assert state_of_torch() == before
