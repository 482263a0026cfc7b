"""The checks of lesson 13: word by word, with a cache."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
import torch.nn.functional as F
from torch import Tensor

from attnlab.exercises._answers import first_difference
from attnlab.exercises._forms import Compared, Either, Value, bugs_left, randoms
from attnlab.masks import causal_mask

# --- bytes of a token -----------------------------------------------------------------------------

LAYERS, HEADS, KV_HEADS, HEAD_DIM, EACH = 80, 64, 8, 128, 2  # Llama 2 70B, two bytes for a number
KIB = 2 * LAYERS * KV_HEADS * HEAD_DIM * EACH // 1024


@Value(
    see="attnlab.KeyValueCache : its nbytes are those of one layer.",
    right=KIB,
    slips={
        "That is a cache for all 64 heads, but only the 8 kv heads have keys and values.": (
            KIB * HEADS // KV_HEADS
        ),
        "That counts all 64 heads, but only the 8 kv heads have keys and values. Besides, key and "
        "value are both kept, and each number takes two bytes.": KIB * HEADS // KV_HEADS // 2,
        "That is too little. Key and value are both kept, and each number takes two bytes.": Either(
            KIB // 2, KIB // 4
        ),
        "That is for a single layer, but each of the 80 layers has its own keys and values.": (
            KIB / LAYERS
        ),
        "That is in bytes, but the task asks for KiB. One KiB has 1,024 bytes.": KIB * 1024,
        "That is for one kv head, but the model has eight in each layer.": KIB // KV_HEADS,
    },
    verified="For each token, 80 layers keep keys and values of 128 features for 8 kv heads.",
    otherwise="Multiply 2, for key and value, by the numbers of layers, kv heads, features of a "
    "head and bytes of a number. Then divide by 1,024.",
)
def check_bytes_of_a_token(_kib: float) -> None:
    """Check how many KiB of cache a token of Llama 2 70B takes.

    Verified: the number.
    """


# --- a cache with a window ------------------------------------------------------------------------


def joined(kept: Tensor, new: Tensor) -> Tensor:
    """Return the kept tokens and the new ones behind them."""
    return torch.cat([kept, new], dim=-2)


@Compared(
    answer="A function of (kept, new, window) that returns the keys that are kept now.",
    see="attnlab.KeyValueCache : does this with keys and values.",
    right=lambda kept, new, window: joined(kept, new)[..., -window:, :],
    what="keys",
    slips={
        "It keeps the first tokens, but the window must move on. Keep the last ones.": (
            lambda kept, new, window: joined(kept, new)[..., :window, :]
        ),
        "Too many tokens stay. Append the new ones first, and then keep only the last `window` of "
        "all.": (lambda kept, new, window: joined(kept, new)),
        "The new tokens come before the old ones. Append them.": (
            lambda kept, new, window: joined(new, kept)[..., -window:, :]
        ),
        "It keeps one token too few.": (
            lambda kept, new, window: joined(kept, new)[..., 1:, :][..., 1 - window :, :]
        ),
        "It keeps one token too many.": (
            lambda kept, new, window: joined(kept, new)[..., -window - 1 :, :]
        ),
        "It always drops as many tokens as are new, but a cache that is not full drops fewer.": (
            lambda kept, new, window: joined(kept, new)[..., new.shape[-2] :, :]
        ),
        "It keeps only the new tokens and forgets the old ones.": (
            lambda kept, new, window: new[..., -window:, :]
        ),
        "It cuts the features. The tokens are on the axis before the last.": (
            lambda kept, new, window: joined(kept, new)[..., -window:]
        ),
    },
    otherwise="Append the new keys, and keep the last `window` tokens.",
    verified="The new tokens come last, and no more than `window` tokens stay.",
    axes=("sequence", "head", "token", "feature"),
    keeps_inputs=True,
)
def check_windowed_keys() -> Iterator[tuple[str, tuple]]:
    """Check which keys are kept under a window.

    Verified: shape and numbers, for a cache that is filling, one that is full, and a long prompt.
    """
    cases = {
        "a cache that overflows": (5, 4, 7),
        "a full cache": (5, 1, 5),
        "a cache that fills": (2, 1, 7),
        "an empty cache": (0, 3, 5),
        "a prompt longer than the window": (0, 11, 4),
        "more new tokens than the window": (3, 7, 3),
    }
    for seed, (name, (old, count, window)) in enumerate(cases.items()):
        kept, new = randoms((2, 3, old, 13), (2, 3, count, 13), seed=seed)
        yield name, (kept, new, window)


# --- the first tokens and the last ----------------------------------------------------------------


def ends(
    first: int = 0, last: int = 0, causal: bool = True, both: bool = True
) -> Callable[[int, int, int], Tensor]:
    """Return a function that makes a mask of the first and the last tokens, with some bugs."""

    def mask(length: int, window: int, sinks: int) -> Tensor:
        i, j = torch.arange(length)[:, None], torch.arange(length)
        near, early = i - j < window + last, j < sinks + first
        near = near if causal else near & (j - i < window)
        allowed = near | early if both else near & early
        return allowed & (j <= i) if causal else allowed

    return mask


@Compared(
    answer="A function of (length, window, sinks) that returns a bool mask (L, L).",
    see="attnlab.sliding_window_mask : the window alone.",
    right=ends(),
    what="mask",
    slips={
        "Later tokens are visible. Combine the whole mask with the causal mask.": Either(
            ends(causal=False),
            lambda length, window, sinks: (
                (torch.arange(length)[:, None] - torch.arange(length) < window)
                | (torch.arange(length) < sinks)
            ),
            lambda length, window, sinks: (
                (torch.arange(length)[:, None] - torch.arange(length) < window)
                & (torch.arange(length) <= torch.arange(length)[:, None])
                | (torch.arange(length) < sinks)
            ),
        ),
        "A token must see the window and also the first tokens. Join the two conditions with "
        "`or`.": (ends(both=False)),
        "The window is off by one. It holds `window` tokens, the token itself included.": Either(
            ends(last=1), ends(last=-1)
        ),
        "The number of tokens that are kept at the beginning is off by one.": Either(
            ends(first=1), ends(first=-1)
        ),
        "The first tokens are missing.": lambda length, window, sinks: ends()(length, window, 0),
        "This mask is the other way round. True must mean that a token may be seen.": (
            lambda length, window, sinks: ~ends()(length, window, sinks)
        ),
        "Rows and columns are swapped. A row belongs to the token that looks.": (
            lambda length, window, sinks: ends()(length, window, sinks).T
        ),
    },
    otherwise="Row i may see column j if j is not later than i, and is near i or at the beginning.",
    verified="Every row sees its window and the first tokens, and nothing later.",
    evidence=lambda got, right, *_sizes: first_difference(
        got.int(), right.int(), ("row", "column")
    ),
    keeps_dtype=True,
)
def check_window_with_sinks() -> Iterator[tuple[str, tuple]]:
    """Check a causal mask of a window and the first tokens.

    Verified: shape, dtype and every entry, for several sizes.
    """
    for sizes in ((11, 4, 2), (7, 1, 1), (9, 3, 0), (5, 8, 2)):
        yield "length {}, window {} and {} sinks".format(*sizes), sizes


# --- grouped heads with a cache -------------------------------------------------------------------


def cached(
    *, corner: str | None = "lower_right", interleave: bool = True, later: int = 0
) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    """Return attention of new queries to all keys, with grouped heads and some bugs."""

    def attend(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        group = query.shape[1] // key.shape[1]
        if interleave:
            key, value = (one.repeat_interleave(group, dim=1) for one in (key, value))
        else:
            key, value = (one.repeat(1, group, 1, 1) for one in (key, value))
        L, S = query.shape[-2], key.shape[-2]
        mask = causal_mask(L, S, align=corner) if corner else None
        if later:
            mask = torch.ones(L, S).tril(S - L + later).bool()
        return F.scaled_dot_product_attention(query, key, value, attn_mask=mask)

    return attend


BUGS = {
    "the mask is aligned at the upper left. The last query belongs to the last key.": {
        "corner": "upper_left"
    },
    "the kv heads are repeated in the wrong order. Neighbouring query heads share one.": {
        "interleave": False
    },
}


@Compared(
    answer="A function of (query, key, value) that returns the output (N, H, L, E).",
    see="attnlab.MultiHeadAttention : with num_kv_heads and a cache.",
    right=cached(),
    slips={
        **bugs_left(cached, BUGS),
        "The mask is missing, so the new tokens see those that come after them.": cached(
            corner=None
        ),
        "The diagonal of the mask is off by one. Query i of L belongs to key S - L + i, which is "
        "the last one that it may see.": Either(cached(later=1), cached(later=-1)),
        "The mask is the other way round. True must mean that a query may attend.": (
            lambda query, key, value: F.scaled_dot_product_attention(
                query,
                *(one.repeat_interleave(query.shape[1] // one.shape[1], 1) for one in (key, value)),
                attn_mask=~causal_mask(query.shape[-2], key.shape[-2], align="lower_right"),
            )
        ),
        "Only the keys are repeated in the correct order. The values need it as well.": (
            lambda query, key, value: cached()(
                query,
                key.repeat_interleave(query.shape[1] // key.shape[1], dim=1),
                value.repeat(1, query.shape[1] // value.shape[1], 1, 1),
            )
        ),
        "Only the values are repeated in the correct order. The keys need it as well.": (
            lambda query, key, value: cached()(
                query,
                key.repeat(1, query.shape[1] // key.shape[1], 1, 1),
                value.repeat_interleave(query.shape[1] // value.shape[1], dim=1),
            )
        ),
    },
    errors={"must match the size": "First repeat the kv heads, so that each query head has one."},
    otherwise="Repeat each kv head for its group, and align the causal mask at the lower right.",
    verified="Each query sees its own key and all before it, in the kv head of its group.",
    atol=1e-4,
    keeps_inputs=True,
)
def check_mended_decoding() -> Iterator[tuple[str, tuple]]:
    """Check attention of new queries to a cache with fewer heads.

    Verified: shape and numbers, for one new query, for several, and for an empty cache.
    """
    sizes = {"three new queries": (3, 8, 6, 2), "one new query": (1, 7, 4, 2)}
    sizes |= {"a whole prompt": (5, 5, 6, 3)}
    for seed, (name, (L, S, heads, kv_heads)) in enumerate(sizes.items()):
        kv = (2, kv_heads, S, 8)
        query, key, value = randoms((2, heads, L, 8), kv, kv, seed=seed)
        yield name, (query, key, value)
