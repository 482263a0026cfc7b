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


def by_loops(length, window, sinks):
    rows = range(length)
    return torch.tensor([[j <= i and (j > i - window or j < sinks) for j in rows] for i in rows])


def by_torch(query, key, value):
    mask = causal_mask(query.shape[2], key.shape[2], align="lower_right")
    return F.scaled_dot_product_attention(query, key, value, attn_mask=mask, enable_gqa=True)


test_accepts = accepts({
    "check_cache_test": [in_pieces(9, 1, 14), in_pieces(1, 21, 2)],
    "check_window_with_sinks": [by_loops],
    "check_mended_decoding": [by_torch],
})  # fmt: skip

test_names_the_mistake = names({
    "check_cache_test": {
        "in several pieces": in_pieces(24),
        "only if a later call reads several tokens": in_pieces(21, 1, 1, 1),
        "allow for rounding": in_pieces(9, 1, 14, same=torch.equal),
    },
    "check_mended_decoding": {"First repeat the kv heads": F.scaled_dot_product_attention},
    "check_window_with_sinks": {"float32 instead of torch.bool": lambda *n: by_loops(*n).float()},
})  # fmt: skip
