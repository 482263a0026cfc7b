"""The checks of lesson 13: what they accept, and what they say of answers that are not slips."""

import torch
import torch.nn.functional as F

from attnlab import causal_mask
from tests.exercises.verdicts import accepts, names


def in_pieces(*lengths, same=lambda rows, whole: torch.allclose(rows, whole, atol=1e-4)):
    def test(start, whole, tokens):
        rows = torch.cat([*map(start(), tokens.split(lengths, dim=1))], dim=1)
        return same(rows, whole(tokens))

    return test


def not_so_far_apart(rows, whole):
    return torch.allclose(rows, whole, atol=0.1)


def one_apart(rows, whole):
    return torch.allclose(rows, whole, atol=1.0)


def last_rows(rows, whole):
    return torch.allclose(rows[:, -1], whole[:, -1], atol=1e-4)


def far_apart(rows, whole):
    return torch.allclose(rows, whole, atol=10.0)


def two_calls_at_most(start, whole, tokens):
    return all(in_pieces(*lengths)(start, whole, tokens) for lengths in ((9, 15), (23, 1)))


def by_loops(length, window, sinks):
    rows = range(length)
    return torch.tensor([[j <= i and (j > i - window or j < sinks) for j in rows] for i in rows])


def by_torch(query, key, value):
    mask = causal_mask(query.shape[2], key.shape[2], align="lower_right")
    return F.scaled_dot_product_attention(query, key, value, attn_mask=mask, enable_gqa=True)


def unscaled(query, key, value):
    return by_torch(query * query.shape[-1] ** 0.5, key, value)


def square_mask(query, key, value):
    mask = causal_mask(key.shape[2])
    return F.scaled_dot_product_attention(query, key, value, attn_mask=mask, enable_gqa=True)


def groups_without_an_axis(query, key, value):
    return query.unflatten(1, (key.shape[1], -1)) @ key.mT


test_accepts = accepts({
    "check_cache_test": [
        in_pieces(9, 1, 14),
        in_pieces(1, 1, 20, 2),
        in_pieces(19, 2, 1, 1, 1),
        in_pieces(20, 2, 1, 1),
        in_pieces(9, 1, 14, same=not_so_far_apart),
    ],
    "check_window_with_sinks": [by_loops],
    "check_mended_decoding": [by_torch],
})  # fmt: skip

test_names_the_mistake = names({
    "check_cache_test": {
        "in several pieces": in_pieces(24),
        "only if a later call reads several tokens": in_pieces(21, 1, 1, 1),
        "only if a later call reads a single token": in_pieces(12, 12),
        "compare the logits of all its tokens": in_pieces(9, 1, 14, same=last_rows),
        "only from the third call on": two_calls_at_most,
        "not the other way round": lambda *given: not in_pieces(9, 1, 14)(*given),
        "compare all logits": in_pieces(9, 1, 14, same=far_apart),
        "all logits, and allow only for rounding": in_pieces(9, 13, 1, 1, same=one_apart),
        "allow for rounding": in_pieces(9, 1, 14, same=torch.equal),
    },
    "check_mended_decoding": {
        "Repeat the kv heads along dimension 1": F.scaled_dot_product_attention,
        "divided by the square root": unscaled,
        "a row for each new query": square_mask,
        "so that each query head has one": groups_without_an_axis,
    },
    "check_window_with_sinks": {
        "float32 instead of torch.bool": lambda *n: by_loops(*n).float(),
    },
})  # fmt: skip
