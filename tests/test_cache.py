"""A layer that reads a text in pieces, with a cache, equals one full pass."""

import csv
import re
import runpy

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
    data_path,
    sequence_mask,
    sliding_window_mask,
    split_heads,
)
from attnlab.looking_back import LENGTH, load_looking_back, make_texts
from attnlab.pretrained import load_encoder
from tests.kernels import draw

N, H, L, D = 2, 6, 17, 5
EMBED = H * D


def layer_with(num_kv_heads: int = H) -> MultiHeadAttention:
    return MultiHeadAttention(EMBED, H, num_kv_heads=num_kv_heads).double()


def pieces_of(length: int, seed: int) -> list[int]:
    """Return random lengths from 1 to 6 that add up to ``length``."""
    generator, sizes = torch.Generator().manual_seed(seed), []
    while sum(sizes) < length:
        size = int(torch.randint(1, 7, (), generator=generator))
        sizes.append(min(size, length - sum(sizes)))
    return sizes


def mask_of(window: int | None, length: int = L) -> Tensor:
    if window is None:
        return causal_mask(length)
    return combine_masks(causal_mask(length), sliding_window_mask(length, window=window))


def full_pass(layer: MultiHeadAttention, x: Tensor, window: int | None) -> Tensor:
    """Return what torch computes from all tokens at once, with heads in the same groups."""
    q = split_heads(layer.q_proj(x), layer.num_heads)
    k, v = (split_heads(proj(x), layer.num_kv_heads) for proj in (layer.k_proj, layer.v_proj))
    options = {"attn_mask": mask_of(window, x.shape[1]), "enable_gqa": True}
    heads = F.scaled_dot_product_attention(q, k, v, **options)
    return layer.out_proj(heads.transpose(1, 2).reshape(x.shape))


def gradients(layer, x: Tensor, output: Tensor) -> list[Tensor]:
    pull = torch.randn(output.shape, generator=torch.Generator().manual_seed(1)).double()
    return torch.autograd.grad((output * pull).sum(), [x, *layer.parameters()])


# --- pieces equal the whole -----------------------------------------------------------------------


@pytest.mark.parametrize("num_kv_heads", [1, 2, 3, H])
@pytest.mark.parametrize("window", [None, 1, 2, 5, L, 2 * L])
@pytest.mark.parametrize("seed", range(4))
def test_pieces_equal_a_full_pass_of_torch_with_gradients(num_kv_heads, window, seed):
    torch.manual_seed(seed)
    layer, cache = layer_with(num_kv_heads), KeyValueCache(window=window)
    x = draw(seed + 1, L, EMBED).requires_grad_()
    parts = [layer(part, cache=cache) for part in x.split(pieces_of(L, seed), dim=1)]
    output, wanted = torch.cat([part.output for part in parts], dim=1), full_pass(layer, x, window)
    assert_close(output, wanted, rtol=0, atol=1e-12)
    pairs = zip(gradients(layer, x, output), gradients(layer, x, wanted), strict=True)
    for mine, theirs in pairs:
        assert_close(mine, theirs, rtol=0, atol=1e-10)
    assert (cache.length, cache.kept) == (L, min(L, window or L))


@pytest.mark.parametrize("window", [None, 3])
def test_the_weights_of_a_piece_are_rows_of_the_whole(window):
    layer, cache, x = layer_with(), KeyValueCache(window=window), draw(N, L, EMBED)
    whole = layer(x, attn_mask=mask_of(window)).weights
    at = 0
    for part in x.split(pieces_of(L, 3), dim=1):
        weights = layer(part, cache=cache).weights
        first, at = at + part.shape[1] - weights.shape[-1], at + part.shape[1]
        rows = whole[..., at - part.shape[1] : at, :]
        assert_close(weights, rows[..., first:at])
        assert (rows[..., :first] == 0).all()


def test_one_head_takes_a_cache_as_well():
    layer, cache, x = SelfAttention(EMBED, D).double(), KeyValueCache(), draw(N, L, EMBED)
    parts = [layer(part, cache=cache).output for part in x.split([7, 1, 9], dim=1)]
    assert_close(torch.cat(parts, dim=1), layer(x, is_causal=True).output)


def test_is_causal_changes_nothing_with_a_cache():
    layer, x = layer_with(), draw(N, L, EMBED)
    for flag in (True, False):
        cache = KeyValueCache()
        layer(x[:, :7], cache=cache, is_causal=flag)
        last = layer(x[:, 7:], cache=cache, is_causal=flag).output
        assert_close(last, layer(x, is_causal=True).output[:, 7:])


@pytest.mark.parametrize("kind", ["bool", "added"])
def test_padding_on_the_left_is_masked_in_every_piece(kind):
    layer, lengths = layer_with(), torch.tensor([L, 11])
    x = draw(N, L, EMBED)
    real = sequence_mask(lengths, L).flip(-1)[:, None, None]  # (N, 1, 1, S)
    cache, outputs, at = KeyValueCache(), [], 0
    for part in x.split([7, 1, 1, 8], dim=1):
        at += part.shape[1]
        mask = real[..., :at]
        if kind == "added":
            mask = torch.zeros(mask.shape).double().masked_fill(~mask, -torch.inf)
        outputs.append(layer(part, cache=cache, attn_mask=mask).output)
    whole = torch.cat(outputs, dim=1)
    assert_close(whole[0], layer(x[:1], is_causal=True).output[0])
    assert_close(whole[1, 6:], layer(x[1:, 6:], is_causal=True).output[0])


def test_half_precision_and_autocast():
    layer, x = MultiHeadAttention(EMBED, H), torch.randn(N, L, EMBED)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        cache = KeyValueCache()
        parts = [layer(part, cache=cache).output for part in x.split([7, 10], dim=1)]
    assert cache.key.dtype == torch.bfloat16
    assert_close(
        torch.cat(parts, dim=1).float(), layer(x, is_causal=True).output, rtol=0, atol=0.03
    )


# --- grouped heads --------------------------------------------------------------------------------


def test_grouped_heads_have_smaller_projections_and_a_smaller_cache():
    layer, cache = layer_with(2), KeyValueCache()
    layer(draw(N, L, EMBED), cache=cache)
    shapes = {name: tuple(part.shape) for name, part in layer.named_parameters()}
    assert shapes["k_proj.weight"] == shapes["v_proj.weight"] == (2 * D, EMBED)
    assert shapes["q_proj.weight"] == shapes["out_proj.weight"] == (EMBED, EMBED)
    assert cache.key.shape == cache.value.shape == (N, 2, L, D)
    assert cache.nbytes == 2 * N * 2 * L * D * 8


def test_what_grouped_heads_refuse():
    with pytest.raises(ValueError, match="num_heads 6 and num_kv_heads 4: the remainder is 2"):
        MultiHeadAttention(EMBED, H, num_kv_heads=4)
    with pytest.raises(ValueError, match="no grouped heads, got 2 and 6"):
        layer_with(2).to_torch()


# --- the cache alone ------------------------------------------------------------------------------


def test_what_is_kept_and_what_is_returned():
    x = torch.arange(11.0)[:, None]
    cache = KeyValueCache(window=3)
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
    x = torch.zeros(1000, 2)
    cache = KeyValueCache(window=3)
    cache.append(x, x)
    assert cache.key.untyped_storage().nbytes() == 3 * 2 * 4
    whole = KeyValueCache()
    whole.append(x, x)
    x += 1
    assert not whole.key.any()


SMALL = (2, 3, 4, 5)
BAD = {
    "no tensor": ([1.0], torch.zeros(SMALL), TypeError, "key must be a torch.Tensor, got list"),
    "no value": (torch.zeros(SMALL), None, TypeError, "value must be a torch.Tensor"),
    "integers": (torch.zeros(SMALL).int(), torch.zeros(SMALL), TypeError, "got torch.int32"),
    "one row": (torch.zeros(5), torch.zeros(5), ValueError, "at least 2 dimensions (L, E)"),
    "other lengths": (torch.zeros(SMALL), torch.zeros(2, 3, 7, 5), ValueError, "(2, 3, 7, 5)"),
    "other dtypes": (torch.zeros(SMALL), torch.zeros(SMALL).double(), TypeError, "float64"),
    "other device": (torch.zeros(SMALL), torch.zeros(SMALL).to("meta"), ValueError, "and meta"),
    "other batch": (torch.zeros(1, 3, 1, 5),) * 2 + (ValueError, "(1, 3, 1, 5) for a cache of"),
    "other heads": (torch.zeros(2, 6, 1, 5),) * 2 + (ValueError, "(2, 6, 1, 5) for a cache of"),
    "other features": (torch.zeros(2, 3, 1, 7),) * 2 + (ValueError, "(2, 3, 1, 7) for a cache of"),
    "value does not fit": (torch.zeros(SMALL), torch.zeros(2, 3, 4, 7), ValueError, "value must"),
    "dtype of the cache": (torch.zeros(SMALL).double(),) * 2 + (TypeError, "the cache's key"),
    "device of the cache": (torch.zeros(SMALL).to("meta"),) * 2 + (ValueError, "the cache's key"),
}


@pytest.mark.parametrize("window", [None, 2])
@pytest.mark.parametrize("name", BAD)
def test_a_refused_append_changes_nothing(name, window):
    key, value, error, sentence = BAD[name]
    cache = KeyValueCache(window=window)
    cache.append(torch.ones(SMALL), torch.ones(SMALL))
    before = cache.key, cache.value, repr(cache)
    with pytest.raises(error, match=re.escape(sentence)):
        cache.append(key, value)
    assert before[0] is cache.key
    assert before[1] is cache.value
    assert before[2] == repr(cache)


@pytest.mark.parametrize(
    ("window", "error"), [(0, ValueError), (-1, ValueError), (2.0, TypeError), (True, TypeError)]
)
def test_a_window_is_a_positive_integer(window, error):
    with pytest.raises(error, match=r"window must be"):
        KeyValueCache(window=window)


# --- what a layer refuses -------------------------------------------------------------------------

CALLS = {
    "no cache": ((), {"cache": 3}, TypeError, "cache must be a KeyValueCache, got int 3"),
    "a key": ((1,), {}, ValueError, "key and value must not be given with a cache"),
    "a value": ((None, 1), {}, ValueError, "key and value must not be given with a cache"),
    "a flag": ((), {"is_causal": 1}, TypeError, "is_causal must be True or False"),
    "mask of the new": (
        (),
        {"attn_mask": torch.ones(4, 4).bool()},
        ValueError,
        "(..., L, S) = (2, 6, 4, 11), got (4, 4)",
    ),
    "mask of integers": ((), {"attn_mask": torch.ones(4, 11).int()}, TypeError, "torch.int32"),
    "mask elsewhere": (
        (),
        {"attn_mask": torch.ones(4, 11, device="meta").bool()},
        ValueError,
        "got cpu and meta",
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_refused_call_leaves_the_cache_as_it_was(name):
    more, options, error, sentence = CALLS[name]
    layer, cache, x = layer_with(), KeyValueCache(), draw(N, 7, EMBED)
    layer(x, cache=cache)
    before = cache.key
    with pytest.raises(error, match=re.escape(sentence)):
        layer(x[:, :4], *more, **{"cache": cache} | options)
    with pytest.raises(ValueError, match=r"\(1, 6, 4, 5\) for a cache of \(2, 6, 7, 5\)"):
        layer(x[:1, :4], cache=cache)
    assert cache.key is before
    assert cache.length == 7


# --- the model of lesson 12 -----------------------------------------------------------------------


@pytest.mark.parametrize("window", [None, 9])
@pytest.mark.parametrize("seed", range(3))
def test_the_model_in_pieces_equals_the_model_at_once(window, seed):
    torch.manual_seed(seed)
    model, tokens = load_looking_back().double(), make_texts(5).tokens[:, :-1]
    caches = [KeyValueCache(window=window) for _ in model.layers]
    parts = [model(part, caches).logits for part in tokens.split(pieces_of(LENGTH, seed), dim=1)]
    x = model.symbol(tokens) + model.place.weight
    for norm, layer in zip(model.norms, model.layers, strict=True):
        x = x + layer(norm(x), attn_mask=mask_of(window, LENGTH)).output
    assert_close(torch.cat(parts, dim=1), model.guess(model.last_norm(x)), rtol=0, atol=1e-10)
    assert [cache.length for cache in caches] == [LENGTH] * 2


def read(model, count, length, **how):
    caches = [KeyValueCache(**how) for _ in model.layers]
    model(torch.zeros(count, length, dtype=torch.long), caches)
    return caches


REFUSED = {
    "too long": (lambda m: read(m, 2, 30), "at most 32 tokens (dimension 1), got (2, 3) after 30"),
    "other texts": (lambda m: read(m, 1, 5), "hold the keys of 2 texts, (2, 1, 5, 64), got (1, 1"),
    "one cache": (lambda m: read(m, 2, 5)[:1], "2 different caches, one for each layer, got 1"),
    "the same twice": (lambda m: read(m, 2, 5)[:1] * 2, "got 2 of which 1 are different"),
    "three": (lambda m: [*read(m, 2, 5), KeyValueCache()], "got 3 of which 3 are different"),
    "of two texts": (lambda m: [read(m, 2, 5)[0], read(m, 2, 7)[1]], "got lengths [5, 7]"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_caches_that_do_not_fit_are_refused_and_left_as_they_were(name):
    model = load_looking_back()
    caches, sentence = REFUSED[name][0](model), REFUSED[name][1]
    before = [cache.key for cache in caches]
    with pytest.raises(ValueError, match=re.escape(sentence)):
        model(torch.zeros(2, 3, dtype=torch.long), caches)
    assert all(cache.key is key for cache, key in zip(caches, before, strict=True))


# --- the stored measurements of lesson 13 ---------------------------------------------------------


def stored(name):
    with data_path(name).open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file, strict=True))


def test_the_stored_times_are_whole_and_their_model_gives_the_same_rows():
    rows, make = stored("cache_times.csv"), runpy.run_path(str(data_path("make_cache.py")))
    pairs = [(int(row["tokens"]), int(row["pair"])) for row in rows]
    assert pairs == [(n, pair) for n in make["LENGTHS"] for pair in range(make["PAIRS"])]
    assert all(float(row["pass_us"]) > float(row["step_us"]) > 0 for row in rows)
    model, x = make["Stack"](), torch.randn(1, 17, make["EMBED_DIM"])
    caches = [KeyValueCache() for _ in model.layers]
    model(x[:, :-1], caches)
    step = model(x[:, -1:], make["copies"](caches))
    assert_close(step, model(x, [None] * len(caches))[:, -1:], rtol=0, atol=1e-4)
    assert caches[0].length == 16


@torch.no_grad()
def test_the_stored_changes_are_those_of_hidden_keys():
    rows, make = stored("hidden_keys.csv"), runpy.run_path(str(data_path("make_cache.py")))
    by_sentence = {}
    for row in rows:
        by_sentence.setdefault(row["sentence"], []).append(row)
    assert list(by_sentence) == [row["sentence"] for row in stored("bank_sentences.csv")]
    encoder = load_encoder()
    for sentence in list(by_sentence)[::17]:
        tokens, wanted = encoder.tokens(sentence), by_sentence[sentence]
        assert [row["token"] for row in wanted] == tokens
        for one, row in zip(make["changes"](encoder, sentence), wanted, strict=True):
            assert one["place"] == int(row["place"])
            assert abs(one["change"] - float(row["change"])) < 0.002
    everything = torch.ones(len(tokens), len(tokens)).bool()
    assert_close(make["last_vectors"](encoder, tokens, everything), encoder(tokens)[0][-1, 0])
