"""The checks of lesson 13: what they accept, and what they say of answers that are not slips."""

import torch
import torch.nn.functional as F

from attnlab import KeyValueCache, causal_mask, combine_masks, sliding_window_mask
from attnlab.exercises import (
    check_mended_decoding,
    check_window_with_sinks,
    check_windowed_keys,
)
from tests.exercises.verdicts import accepts, names


def with_the_cache(kept, new, window):
    cache = KeyValueCache(window=window)
    cache.append(kept, kept)
    cache.append(new, new)
    return cache.key


def by_count(kept, new, window):
    both = torch.cat((kept, new), 2)
    return both[:, :, max(0, both.shape[2] - window) :]


def by_loops(length, window, sinks):
    mask = torch.zeros(length, length, dtype=torch.bool)
    for i in range(length):
        for j in range(i + 1):
            mask[i, j] = j > i - window or j < sinks
    return mask


def by_masks(length, window, sinks):
    near = sliding_window_mask(length, window=window)
    return combine_masks(causal_mask(length), near | (torch.arange(length) < sinks))


def by_torch(query, key, value):
    mask = causal_mask(query.shape[2], key.shape[2], align="lower_right")
    return F.scaled_dot_product_attention(query, key, value, attn_mask=mask, enable_gqa=True)


def by_groups(query, key, value):
    N, H, L, E = query.shape
    grouped = query.view(N, key.shape[1], -1, L, E)
    scores = grouped @ key[:, :, None].mT / E**0.5
    later = torch.ones(L, key.shape[2]).triu(key.shape[2] - L + 1).bool()
    weights = scores.masked_fill(later, -torch.inf).softmax(dim=-1)
    return (weights @ value[:, :, None]).view(N, H, L, E)


test_accepts = accepts({
    check_windowed_keys: [with_the_cache, by_count],
    check_window_with_sinks: [by_loops, by_masks],
    check_mended_decoding: [by_torch, by_groups],
})  # fmt: skip

test_names_the_mistake = names({
    check_windowed_keys: {
        "Append the new ones first": lambda kept, new, window: (
            torch.cat([kept[..., -window:, :], new], dim=-2)
        ),
    },
    check_mended_decoding: {"First repeat the kv heads": F.scaled_dot_product_attention},
    check_window_with_sinks: {"float32 instead of torch.bool": lambda *n: by_loops(*n).float()},
})  # fmt: skip
