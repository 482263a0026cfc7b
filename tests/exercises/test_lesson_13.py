"""The checks of lesson 13: what they accept, and what they say of answers that are not slips."""

import torch
import torch.nn.functional as F

from attnlab import causal_mask
from tests.exercises.verdicts import accepts, names


def by_count(kept, new, window):
    both = torch.cat((kept, new), 2)
    return both[:, :, max(0, both.shape[2] - window) :]


def by_loops(length, window, sinks):
    mask = torch.zeros(length, length, dtype=torch.bool)
    for i in range(length):
        for j in range(i + 1):
            mask[i, j] = j > i - window or j < sinks
    return mask


def by_torch(query, key, value):
    mask = causal_mask(query.shape[2], key.shape[2], align="lower_right")
    return F.scaled_dot_product_attention(query, key, value, attn_mask=mask, enable_gqa=True)


test_accepts = accepts({
    "check_windowed_keys": [by_count],
    "check_window_with_sinks": [by_loops],
    "check_mended_decoding": [by_torch],
})  # fmt: skip

test_names_the_mistake = names({
    "check_windowed_keys": {
        "Append the new tokens first": lambda kept, new, window: (
            torch.cat([kept[..., -window:, :], new], dim=-2)
        ),
    },
    "check_mended_decoding": {"First repeat the kv heads": F.scaled_dot_product_attention},
    "check_window_with_sinks": {"float32 instead of torch.bool": lambda *n: by_loops(*n).float()},
})  # fmt: skip
