"""A layer that reads a text in pieces, with a cache, equals one full pass."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.testing import assert_close

from attnlab import (
    KeyValueCache,
    MultiHeadAttention,
    SelfAttention,
    causal_mask,
    combine_masks,
    sequence_mask,
    sliding_window_mask,
    split_heads,
)
from tests.helper.common import INF, assert_refused, draw

N, H, L, D = 2, 6, 17, 5
EMBED = H * D
PIECES = ([1] * L, [7, 1, 9], [3, 5, 1, 2, 6])


def layer_with(num_kv_heads: int = H) -> MultiHeadAttention:
    return MultiHeadAttention(EMBED, H, num_kv_heads=num_kv_heads).double()


def mask_of(window: int | None, length: int = L) -> Tensor:
    if window is None:
        return causal_mask(length)
    return combine_masks(causal_mask(length), sliding_window_mask(length, window=window))


def full_pass(layer: MultiHeadAttention, x: Tensor, window: int | None) -> Tensor:
    """Return what torch computes from all tokens at once, with heads in the same groups."""
    q = split_heads(layer.q_proj(x), layer.num_heads)
    k, v = (split_heads(proj(x), layer.num_kv_heads) for proj in (layer.k_proj, layer.v_proj))
    options = {"attn_mask": mask_of(window), "enable_gqa": True}
    heads = F.scaled_dot_product_attention(q, k, v, **options)
    return layer.out_proj(heads.transpose(1, 2).reshape(x.shape))


# --- pieces equal the whole -----------------------------------------------------------------------


@pytest.mark.parametrize("num_kv_heads", [1, 2, 3, H])
@pytest.mark.parametrize("window", [None, 1, 2, 5, L, 2 * L])
def test_pieces_equal_a_full_pass_of_torch_with_gradients(num_kv_heads, window):
    for pieces in PIECES:
        layer, cache = layer_with(num_kv_heads), KeyValueCache(window=window)
        x = draw(N, L, EMBED).requires_grad_()
        pull, leaves = draw(N, L, EMBED), [x, *layer.parameters()]
        parts = [layer(part, cache=cache).output for part in x.split(pieces, dim=1)]
        output, wanted = torch.cat(parts, dim=1), full_pass(layer, x, window)
        assert_close(output, wanted, rtol=0, atol=1e-12)
        ours, theirs = (torch.autograd.grad((y * pull).sum(), leaves) for y in (output, wanted))
        assert_close(ours, theirs, rtol=0, atol=1e-10)
        assert (cache.length, cache.kept) == (L, min(L, window or L))


@pytest.mark.parametrize("window", [None, 3])
@pytest.mark.parametrize("is_causal", [True, False])
@pytest.mark.parametrize("make", [layer_with, lambda: SelfAttention(EMBED, D).double()])
def test_the_weights_of_a_piece_are_rows_of_the_whole(make, window, is_causal):
    layer, cache, x = make(), KeyValueCache(window=window), draw(N, L, EMBED)
    whole = layer(x, attn_mask=mask_of(window)).weights
    for part, rows in zip(x.split([7, 1, 9], dim=1), whole.split([7, 1, 9], dim=2), strict=True):
        weights = layer(part, cache=cache, is_causal=is_causal).weights
        assert_close(weights, rows[..., cache.length - weights.shape[-1] : cache.length])
        assert not rows[..., : cache.length - weights.shape[-1]].any()


@pytest.mark.parametrize("kind", ["bool", "added"])
def test_padding_on_the_left_is_masked_in_every_piece(kind):
    layer, cache, x, outputs = layer_with(), KeyValueCache(), draw(N, L, EMBED), []
    real = sequence_mask([L, 11], L).flip(-1)[:, None, None]  # (N, 1, 1, S)
    for part in x.split([7, 1, 1, 8], dim=1):
        mask = real[..., : cache.length + part.shape[1]]
        if kind == "added":
            mask = torch.zeros(mask.shape).double().masked_fill(~mask, -INF)
        outputs.append(layer(part, cache=cache, attn_mask=mask).output)
    whole = torch.cat(outputs, dim=1)
    assert_close(whole[0], layer(x[:1], is_causal=True).output[0])
    assert_close(whole[1, 6:], layer(x[1:, 6:], is_causal=True).output[0])


# --- the cache alone ------------------------------------------------------------------------------


@pytest.mark.parametrize("window", [3, np.int64(3), torch.tensor(3)])
def test_what_is_kept_and_what_is_returned(window):
    x, cache = torch.arange(11.0)[:, None], KeyValueCache(window=window)
    assert (cache.length, cache.kept, cache.reach, cache.nbytes) == (0, 0, 0, 0)
    for first, last, seen in ((0, 2, "01"), (2, 3, "012"), (3, 4, "123"), (4, 9, "2345678")):
        key, value = cache.append(x[first:last], torch.cat([-x, x], dim=-1)[first:last])
        assert "".join(f"{one:.0f}" for one in key.flatten()) == seen
        assert torch.equal(value, torch.cat([-key, key], dim=-1))
        kept = range(max(0, last - 3), last)
        assert cache.key.flatten().tolist() == [*kept]
        assert (cache.length, cache.kept, cache.reach) == (last, len(kept), min(len(kept), 2))
        assert cache.nbytes == len(kept) * 3 * 4
    assert repr(cache) == "KeyValueCache(length=9, kept=3, window=3)"


def test_what_falls_out_of_the_window_is_freed_and_nothing_is_shared():
    x, cache, whole = torch.zeros(1000, 2), KeyValueCache(window=3), KeyValueCache()
    cache.append(x, x)
    assert cache.key.untyped_storage().nbytes() == 3 * 2 * 4
    whole.append(x, x)
    x += 1
    assert not whole.key.any()


# --- what is refused ------------------------------------------------------------------------------

X = torch.ones(N, H, 4, D)
APPENDED = [  # a key and a value, the kind of error, and how its sentence begins
    (X.int(), X, TypeError, r"key must be a floating-point tensor, got torch.int32"),
    (X[0, 0, 0], X, ValueError, r"key must have at least 2 dimensions \(L, E\)"),
    (X, X[0, 0, 0], ValueError, r"value must have at least 2 dimensions \(L, Ev\)"),
    (X, X[:, :, 1:], ValueError, r"key and value must have the same shape .* and \(2, 6, 3, 5\)"),
    (X, X.double(), TypeError, r"key and value must have the same dtype"),
    (X, X.to("meta"), ValueError, r"key and value must be on the same device"),
    (X[:1], X[:1], ValueError, r"key must fit the cache .* got \(1, 6, 4, 5\) for a cache of \(2,"),
    (X[..., :2], X, ValueError, r"key must fit the cache .* got \(2, 6, 4, 2\) for a cache"),
    (X, X[..., :2], ValueError, r"value must fit the cache in all dimensions but its length"),
    (X.double(), X.double(), TypeError, r"the cache's key and key must have the same dtype"),
    (X.to("meta"), X.to("meta"), ValueError, r"the cache's key and key must be on the same device"),
]


@pytest.mark.parametrize("window", [None, 2])
@pytest.mark.parametrize(("key", "value", "kind", "words"), APPENDED)
def test_a_refused_append_changes_nothing(key, value, kind, words, window):
    cache = KeyValueCache(window=window)
    cache.append(X, X)
    before = cache.key, cache.value, cache.length
    assert_refused(lambda: cache.append(key, value), kind, words)
    assert all(a is b for a, b in zip(before, (cache.key, cache.value, cache.length), strict=True))


@pytest.mark.parametrize("window", [0, 2.0, True])
def test_a_window_is_a_positive_integer(window):
    kind = ValueError if window == 0 else TypeError
    assert_refused(lambda: KeyValueCache(window=window), kind, "window must be a")


MASK = torch.ones(4, 11, dtype=torch.bool)
CALLS = [  # what a call of a layer gets beside four tokens, the kind of error, and its sentence
    ({"key": 1}, ValueError, r"key and value must not be given with a cache"),
    ({"value": 1}, ValueError, r"key and value must not be given with a cache"),
    ({"attn_mask": MASK[:, :4]}, ValueError, r"attn_mask .* \(2, 6, 4, 11\), got \(4, 4\)"),
    ({"attn_mask": MASK.int()}, TypeError, r"attn_mask must be bool .* torch.int32"),
    ({"attn_mask": MASK.to("meta")}, ValueError, r"query and attn_mask .* got cpu and meta"),
    ({"query": draw(1, 4, EMBED)}, ValueError, r"key .* \(1, 6, 4, 5\) for a cache of \(2, 6, 7,"),
]


@pytest.mark.parametrize(("changed", "kind", "words"), CALLS)
def test_a_refused_call_leaves_the_cache_as_it_was(changed, kind, words):
    layer, cache = layer_with(), KeyValueCache()
    layer(draw(N, 7, EMBED), cache=cache)
    before = cache.key
    good = {"query": draw(N, 4, EMBED), "cache": cache}
    assert_refused(lambda: layer(**good | changed), kind, words)
    assert cache.key is before
    assert cache.length == 7
