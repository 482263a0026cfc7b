"""The checks of lesson 13: word by word, with a cache."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, partial

import torch
import torch.nn.functional as F
from torch import Tensor

from attnlab.exercises.frame.forms import Case, Compared, Either, Opinion, Value, bugs_left, randoms
from attnlab.layers.cache import KeyValueCache
from attnlab.masks import causal_mask
from attnlab.models.looking_back import LookingBack, load_looking_back, to_tokens

# --- bytes of a token -----------------------------------------------------------------------------

LAYERS, HEADS, KV_HEADS, HEAD_DIM, EACH = 80, 64, 8, 128, 2  # Llama 2 70B, two bytes for a number
KIB = 2 * LAYERS * KV_HEADS * HEAD_DIM * EACH // 1024


@Value(
    right=KIB,
    slips={
        "That is a cache for all 64 heads, but only the 8 kv heads have keys and values.": (
            KIB * HEADS // KV_HEADS
        ),
        "That is too little. Key and value are both kept, and each number takes two bytes.": Either(
            KIB // 2, KIB // 4
        ),
        "That is for a single layer, but each of the 80 layers has its own keys and values.": (
            KIB / LAYERS
        ),
        "That is the number of bytes. Divide it by 1,024.": KIB * 1024,
        "A KiB is 1,024 bytes, not 1,000.": KIB * 1024 / 1000,
        "A number takes two bytes here, not four.": KIB * 2,
        "That is for one kv head, but the model has eight in each layer.": KIB // KV_HEADS,
    },
    verified="For each token, 80 layers keep keys and values of 128 features for 8 kv heads, which "
    "take 320 KiB.",
    otherwise="Multiply 2 (for a key and a value) by the number of layers, the number of kv heads, "
    "the number of features per head and the number of bytes that a number takes. Then divide by "
    "1,024.",
)
def check_bytes_of_a_token(_kib: float) -> None:
    """Check how many KiB of cache a token of Llama 2 70B takes.

    Verified: the number.

    Parameters
    ----------
    answer
        The number, or a function without arguments that returns it.

    See Also
    --------
    attnlab.KeyValueCache : its nbytes are those of one layer.
    """


# --- a test of a cache ----------------------------------------------------------------------------

CORNER = "a mask aligned at the upper left corner"
OPEN = "no mask in its last layer after the first call"  # the last row is correct
FROM_0 = "positions that start at 0 in every call"
LOW = "positions that are one too low where a single token is read"
STILL = "positions that start at the same place in every call after the first"
HINTS = {
    "no bug": "Call `start()` once, compare with one whole pass over all tokens, and allow for "
    "rounding: `torch.allclose(..., atol=1e-4)`.",
    CORNER: "The first call is correct in spite of this bug. Let the cache read the tokens in "
    "several pieces, and allow only for rounding: `atol=1e-4`.",
    FROM_0: "Compare all logits, not only the largest ones, and allow for rounding alone: "
    "`atol=1e-4`.",
    LOW: "This bug shows only if a later call reads a single token. Make such a call, compare "
    "all logits, and allow only for rounding: `atol=1e-4`.",
    OPEN: "This bug shows only if a later call reads several tokens at once. Make such a call, and "
    "compare the logits of all its tokens.",
    STILL: "This bug shows only from the third call on. Make three calls or more.",
}


@cache
def model() -> LookingBack:
    """Return the model of the lesson."""
    return load_looking_back().double()


def started(bug: str) -> Callable[[Tensor], Tensor]:
    """Return a function that reads tokens with a cache of its own, with a bug or with none."""
    caches = [KeyValueCache() for _ in model().layers]
    lengths: list[int] = []  # of the calls

    def read(tokens: Tensor) -> Tensor:
        L, old = tokens.shape[1], caches[0].length
        lengths.append(L)
        corner = "upper_left" if bug == CORNER else "lower_right"
        mask = causal_mask(L, old + L, align=corner)
        masks = [mask, None if bug == OPEN and old else mask]
        low = old - 1 if old and L == 1 else old
        first = {FROM_0: 0, LOW: low, STILL: min(old, lengths[0])}.get(bug, old)
        x = model().symbol(tokens) + model().position(first + torch.arange(L))
        parts = zip(model().norms, model().layers, caches, masks, strict=True)
        for norm, layer, kept, mask in parts:
            q, k, v = (project(norm(x)) for project in (layer.q_proj, layer.k_proj, layer.v_proj))
            seen = kept.append(k, v)
            x = x + layer.out_proj(F.scaled_dot_product_attention(q, *seen, attn_mask=mask))
        return model().guess(model().last_norm(x))

    return read


def differs(start: Callable, whole: Callable[[Tensor], Tensor], tokens: Tensor) -> bool:
    """Return whether a cache is wrong."""
    rows = torch.cat([*map(start(), tokens.split((9, 13, 1, 1), dim=1))], dim=1)
    return not torch.allclose(rows, whole(tokens), atol=1e-4)


@Opinion(
    verified="Your test accepts a correct cache and finds all five bugs.",
    slips={
        "Return True for a correct cache and False for a bug, not the other way round.": differs
    },
    keeps_inputs=True,
)
def check_cache_test() -> Iterator[Case]:
    """Check a test that says whether a cache is correct.

    Verified: True for a correct cache, False for caches with a wrong mask or wrong positions.

    Parameters
    ----------
    answer
        A function of (start, whole, tokens) that returns True or False.

    See Also
    --------
    attnlab.KeyValueCache : a correct cache.
    """
    # without a mask, any call of two tokens or more moves logits by 0.05
    texts = "AEHSVMBYDWKBOAHRSZQZCJVK", "KZDTVZNDGHCNDBXFPNVWADIN"
    tokens = torch.stack([to_tokens(text) for text in texts])
    for bug, hint in HINTS.items():
        given = partial(started, bug), lambda new: model()(new).logits, tokens
        yield Case(f"a cache with {bug}", given, bug == "no bug", hint)


# --- the first tokens and the last ----------------------------------------------------------------


def ends(
    last: int = 0, causal: bool = True, both: bool = True, more: int = 0
) -> Callable[[int, int, int], Tensor]:
    """Return a function that makes a mask of the first and the last tokens, with some bugs."""

    def mask(length: int, window: int, sinks: int) -> Tensor:
        i, j = torch.arange(length)[:, None], torch.arange(length)
        near, early = i - j < window + last, j < sinks + more
        allowed = near | early if both else near & early
        return allowed & (j <= i) if causal else allowed

    return mask


def on_both_sides(length: int, window: int, sinks: int) -> Tensor:
    """Return a mask of the first tokens and of a window that looks ahead as well as back."""
    near = ends()(length, window, 0)
    return near | near.T | (torch.arange(length) < sinks)


@Compared(
    right=ends(),
    what="mask",
    slips={
        "Later tokens are visible. Combine the whole mask with the causal mask.": Either(
            ends(causal=False),
            on_both_sides,
            lambda length, window, sinks: (
                ends()(length, window, 0) | (torch.arange(length) < sinks)
            ),
        ),
        "A token must see the window and also the first tokens. Join the two conditions with "
        "`|`.": ends(both=False),
        "The window is off by one. It should contain `window` tokens, including the token "
        "itself.": Either(ends(last=1), ends(last=-1)),
        "The sinks are off by one. They are the tokens from 0 to `sinks - 1`.": Either(
            ends(more=1), ends(more=-1)
        ),
        "This mask is the other way round. True must mean that a token may be seen.": (
            lambda length, window, sinks: ~ends()(length, window, sinks)
        ),
        "Rows and columns are swapped. A row belongs to the token that looks.": (
            lambda length, window, sinks: ends()(length, window, sinks).T
        ),
    },
    otherwise="Row i may see column j if j is not later than i, and is near i or at the beginning.",
    verified="Every row sees its window and the first tokens, and nothing later.",
    axes=("row", "column"),
    keeps_dtype=True,
)
def check_window_with_sinks() -> Iterator[tuple[str, tuple]]:
    """Check a causal mask of a window and the first tokens.

    Verified: shape, dtype and every entry, for several sizes.

    Parameters
    ----------
    answer
        A function of (length, window, sinks) that returns a bool mask (L, L).

    See Also
    --------
    attnlab.sliding_window_mask : the window alone.
    """
    for sizes in ((11, 4, 2), (7, 1, 1), (9, 3, 0), (5, 8, 2)):
        yield "length {}, window {} and {} sinks".format(*sizes), sizes


# --- grouped heads with a cache -------------------------------------------------------------------


def lower_right(L: int, S: int) -> Tensor:
    """Return the mask in which the last query belongs to the last key."""
    return causal_mask(L, S, align="lower_right")


def cached(
    mask_of: Callable[[int, int], Tensor | None] = lower_right,
    in_turn: str = "",
) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    """Return attention of new queries to all keys, with grouped heads and some bugs."""

    def attend(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        times = query.shape[1] // key.shape[1]
        key, value = (
            x.repeat(1, times, 1, 1) if name in in_turn else x.repeat_interleave(times, dim=1)
            for name, x in (("k", key), ("v", value))
        )
        mask = mask_of(query.shape[-2], key.shape[-2])
        return F.scaled_dot_product_attention(query, key, value, attn_mask=mask)

    return attend


BUGS = {
    "the mask is aligned at the upper left. The last query belongs to the last key.": {
        "mask_of": lambda L, S: causal_mask(L, S, align="upper_left")
    },
    "the kv heads are repeated in the wrong order. Neighbouring query heads share one.": {
        "in_turn": "kv"
    },
}


@Compared(
    right=cached(),
    slips={
        **bugs_left(cached, BUGS),
        "Either the keys or the values are repeated in the wrong order.": Either(
            cached(in_turn="k"), cached(in_turn="v")
        ),
        "The mask holds the numbers 0 and 1, which are added to the scores. Pass a bool mask.": (
            cached(lambda L, S: lower_right(L, S).float())
        ),
        "The mask is missing, so the new tokens see those that come after them.": cached(
            lambda L, S: None
        ),
        "The diagonal of the mask is off by one. Query i belongs to key S - L + i, which is "
        "the last one that it may see.": Either(
            cached(lambda L, S: torch.ones(L, S).tril(S - L + 1).bool()),
            cached(lambda L, S: torch.ones(L, S).tril(S - L - 1).bool()),
        ),
        "The mask is the other way round. True must mean that a query may attend.": cached(
            lambda L, S: ~lower_right(L, S)
        ),
        "The scores are not divided by the square root of the features of a head.": (
            lambda query, key, value: cached()(query * query.shape[-1] ** 0.5, key, value)
        ),
    },
    errors={
        **dict.fromkeys(
            ("tensor a (8)", "tensor b (8)"),  # as many keys as in the first case
            "The mask needs a row for each new query, a column for each key.",
        ),
        "must match the size": "Repeat the kv heads along dimension 1, so that each query head has "
        "one.",
    },
    otherwise="Repeat each kv head for its group, and align the causal mask at the lower right.",
    verified="Each query sees its own key and all before it, in the kv head of its group.",
    atol=1e-4,
    keeps_inputs=True,
)
def check_mended_decoding() -> Iterator[tuple[str, tuple]]:
    """Check attention of new queries to a cache with fewer heads.

    Verified: shape and numbers, for one new query, for several, and for an empty cache.

    Parameters
    ----------
    answer
        A function of (query, key, value) that returns the output (N, H, L, E).

    See Also
    --------
    attnlab.MultiHeadAttention : with num_kv_heads and a cache.
    """
    sizes = {"three new queries": (3, 8, 6, 2), "one new query": (1, 7, 4, 2)}
    sizes |= {"a whole prompt": (5, 5, 6, 3)}
    for seed, (name, (L, S, heads, kv_heads)) in enumerate(sizes.items()):
        kv = (2, kv_heads, S, 8)
        query, key, value = randoms((2, heads, L, 8), kv, kv, seed=seed)
        yield name, (query, key, value)
