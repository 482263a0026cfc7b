"""Scores, weights and output agree with torch; where torch gives NaN, they are as documented."""

import math
import random
from collections.abc import Iterator
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.testing import assert_close

from attnlab import (
    attention_scores,
    attention_weights,
    causal_mask,
    scaled_dot_product_attention,
    tiled_attention,
    to_additive_mask,
    trace_attention,
)
from tests.kernels import (
    HALF,
    INF,
    NAN,
    assert_same,
    draw,
    error_ratios,
    nan_rows,
    random_leads,
    run,
)

N, H, L, S, E, EV = 2, 3, 5, 7, 11, 13  # distinct primes: no axis can pass for another

KERNELS = {"plain": scaled_dot_product_attention, "tiled": partial(tiled_attention, tile=(2, 3))}
TORCH = F.scaled_dot_product_attention
both_kernels = pytest.mark.parametrize("kernel", KERNELS.values(), ids=list(KERNELS))

# torch takes its fused kernel on the CPU for four dimensions and Ev = E, plain operations otherwise
both_paths_of_torch = pytest.mark.parametrize("Ev", [EV, E], ids=["plain", "fused"])


def draw_qkv(
    lead: tuple[int, ...] = (N, H), L: int = L, S: int = S, Ev: int = EV
) -> tuple[Tensor, Tensor, Tensor]:
    return draw(*lead, L, E), draw(*lead, S, E), draw(*lead, S, Ev)


def assert_same_as_torch(tensors, mask=None, kernel=scaled_dot_product_attention, **options):
    """Assert that values and gradients agree to 1e-12 for the very same call."""
    assert_same(run(kernel, tensors, mask, **options), run(TORCH, tensors, mask, **options))


def draw_bool(*shape: int) -> Tensor:
    """Return a mask with a share of 0.6 allowed and at least one of each kind."""
    mask = torch.rand(shape) < 0.6
    mask[..., 0, 0] = True
    if mask.shape[-1] > 1:
        mask[..., 0, -1] = False
    return mask


def draw_mask(kind: str, *shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
    if kind == "bool":
        return draw_bool(*shape)
    mask = draw(*shape, dtype=dtype)
    return mask.masked_fill(~draw_bool(*shape), -INF) if "-inf" in kind else mask


# --- equal to torch in float64, values and gradients ----------------------------------------------


@both_kernels
@both_paths_of_torch
@pytest.mark.parametrize(
    "options",
    [{}, {"is_causal": True}, {"scale": 2}, {"is_causal": True, "scale": 0.1}, {"scale": -1.0}],
    ids=str,
)
@pytest.mark.parametrize("size", [(L, S), (S, L), (L, L), (1, S), (L, 1), (1, 1)], ids=str)
def test_equals_torch_without_a_mask(size, options, Ev, kernel):
    assert_same_as_torch(draw_qkv(L=size[0], S=size[1], Ev=Ev), kernel=kernel, **options)


def test_causal_with_scale_zero_is_the_running_mean_of_the_values():
    query, key, value = draw_qkv(L=S, Ev=E)  # torch's fused kernel gives NaN here
    output = scaled_dot_product_attention(query, key, value, is_causal=True, scale=0.0)
    count = torch.arange(1, S + 1, dtype=torch.float64)[:, None]
    assert_close(output, value.cumsum(dim=-2) / count)


@both_paths_of_torch
@pytest.mark.parametrize("kind", ["bool", "-inf", "learned -inf"])
@pytest.mark.parametrize("rows", [[2], [0, 4], [0, 1, 2, 3, 4]], ids=str)
def test_a_fully_blocked_row_gives_zero_and_finite_gradients_as_in_torch(rows, kind, Ev):
    mask = draw_bool(L, S)
    mask[rows] = False
    mask = mask if kind == "bool" else draw(L, S).masked_fill(~mask, -INF)
    tensors = draw_qkv(Ev=Ev)
    assert_same_as_torch(tensors, mask, learned="learned" in kind)

    parts = run(scaled_dot_product_attention, tensors, mask, learned="learned" in kind)
    assert all(tensor.isfinite().all() for tensor in parts.values())
    assert (parts["output"][..., rows, :] == 0).all()
    assert (parts["query"][..., rows, :] == 0).all()
    weights = trace_attention(*tensors, attn_mask=mask).weights
    assert (weights[..., rows, :] == 0).all()


@both_kernels
@pytest.mark.parametrize("size", [(L, 0), (0, S), (0, 0)], ids=["no keys", "no queries", "neither"])
@pytest.mark.parametrize("masked", [False, True])
def test_without_keys_or_queries_the_output_is_zero_or_empty_as_in_torch(size, masked, kernel):
    tensors = draw_qkv(L=size[0], S=size[1])
    mask = torch.ones(size, dtype=torch.bool) if masked else None
    output, *gradients = run(kernel, tensors, mask).values()
    assert torch.equal(output, torch.zeros(N, H, size[0], EV, dtype=torch.float64))
    assert torch.equal(output, TORCH(*tensors, attn_mask=mask))
    assert all((gradient == 0).all() for gradient in gradients)


def random_call(dice: random.Random) -> tuple[list[Tensor], Tensor | None, dict[str, object]]:
    """Return tensors whose leading dimensions broadcast, a mask of any rank, and options."""
    some_lead = random_leads(dice)
    rows, columns = dice.choice([(L, S), (S, L), (1, S), (L, 1), (L, L)])
    ends = [(rows, E), (columns, E), (columns, dice.choice([E, EV]))]
    tensors = [draw(*some_lead(), *end) for end in ends]
    kind = dice.choice(["none", "causal", "bool", "float", "-inf"])
    options = {"is_causal": kind == "causal", "scale": dice.choice([None, 0.5])}
    if kind in ("none", "causal"):
        return tensors, None, options
    shape = (*some_lead(), dice.choice([1, rows]), dice.choice([1, columns]))
    return tensors, draw_mask(kind, *shape), options


def test_every_valid_call_is_a_valid_call_of_torch_with_the_same_meaning():
    """Values and gradients, also those of a mask that is learned, and for both kernels."""
    dice, valid = random.Random(0), 0
    for _ in range(400):
        tensors, mask, options = random_call(dice)
        try:
            scaled_dot_product_attention(*tensors, attn_mask=mask, **options)
        except ValueError:
            continue  # a mask that does not fit
        valid += 1
        added = mask is not None and mask.is_floating_point()
        assert_same_as_torch(tensors, mask, learned=added and dice.random() < 0.5, **options)
        if not added:
            assert_same_as_torch(tensors, mask, kernel=KERNELS["tiled"], **options)
    assert valid > 250


# --- lower precision: at most twice torch's own error ---------------------------------------------


def peaked_or_flat(dtype: torch.dtype, kind: str, spread: int, Ev: int) -> Iterator[tuple]:
    """Yield tensors and options of several calls."""
    for _ in range(4):
        query, key, value = draw_qkv(L=29, S=31, Ev=Ev)
        options: dict[str, object] = {"is_causal": kind == "causal"}
        if kind not in ("none", "causal"):
            options["attn_mask"] = draw_mask(kind, 29, 31, dtype=dtype)
            options["learned"] = "learned" in kind
        yield [tensor.to(dtype) for tensor in (query * spread, key, value)], options


@pytest.mark.parametrize("spread", [1, 6], ids=["flat", "peaked"])
@pytest.mark.parametrize("kind", ["none", "causal", "bool", "float", "learned float with -inf"])
@both_paths_of_torch
@pytest.mark.parametrize("dtype", [torch.float32, *HALF], ids=str)
def test_error_is_at_most_twice_that_of_torch(dtype, Ev, kind, spread):
    calls = list(peaked_or_flat(dtype, kind, spread, Ev))
    kernels = [scaled_dot_product_attention]
    if "float" not in kind and Ev == E:
        kernels.append(partial(tiled_attention, tile=(8, 12)))
    for kernel in kernels:
        ratios = error_ratios(kernel, calls)
        assert max(ratios.values()) <= 2, ratios


@pytest.mark.parametrize("dtype", HALF, ids=str)
def test_half_precision_is_computed_in_float32_and_rounded_once_at_the_end(dtype):
    tensors = [tensor.to(dtype) for tensor in draw_qkv()]
    mask = draw_mask("float", L, S, dtype=dtype)
    narrow = trace_attention(*tensors, attn_mask=mask)
    wide = trace_attention(*(tensor.float() for tensor in tensors), attn_mask=mask.float())
    for part, exact in zip(narrow, wide, strict=True):
        assert torch.equal(part, exact.to(dtype))
    assert torch.equal(attention_scores(*tensors[:2]), narrow.scores)
    weights = attention_weights(narrow.scores.float(), attn_mask=mask.float())
    assert torch.equal(attention_weights(narrow.scores, attn_mask=mask), weights.to(dtype))
    parts = run(KERNELS["tiled"], tensors, draw_bool(L, S))
    assert {part.dtype for part in parts.values()} == {dtype}
    for options in ({}, {"is_causal": True}):
        exact = KERNELS["tiled"](*(tensor.float() for tensor in tensors), **options)
        assert torch.equal(KERNELS["tiled"](*tensors, **options), exact.to(dtype))


def test_float16_scores_beyond_its_range_do_not_spoil_the_output():
    query, key, value = (tensor.half() for tensor in draw_qkv())
    query, key = query * 300, key * 300
    exact = F.scaled_dot_product_attention(query.double(), key.double(), value.double())
    assert attention_scores(query, key).isinf().any()
    output = scaled_dot_product_attention(query, key, value)
    assert_close(output.double(), exact, rtol=1e-3, atol=1e-3)


# --- the three steps ------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["causal", "bool", "float", "-inf"])
def test_trace_holds_the_three_steps_with_the_scores_before_the_mask(kind):
    query, key, value = draw_qkv()
    mask = causal_mask(L, S) if kind == "causal" else draw_mask(kind, L, S)
    options = {"is_causal": True} if kind == "causal" else {"attn_mask": mask}
    output, weights, scores = trace_attention(query, key, value, scale=0.4, **options)
    assert torch.equal(scores, attention_scores(query, key, scale=0.4))
    assert torch.equal(weights, attention_weights(scores, attn_mask=mask))
    assert torch.equal(output, weights @ value)


@pytest.mark.parametrize("kind", ["bool", "float", "-inf"])
def test_every_row_of_weights_sums_to_one_or_to_zero(kind):
    mask = draw_mask(kind, N, 1, L, S)
    blocked = [(0, 3), (1, 0)]
    for n, row in blocked:
        mask[n, 0, row] = False if kind == "bool" else -INF
    weights = attention_weights(draw(N, H, L, S), attn_mask=mask)
    expected = torch.ones(N, H, L, dtype=torch.float64)
    for n, row in blocked:
        expected[n, :, row] = 0
    assert (weights >= 0).all()
    assert_close(weights.sum(dim=-1), expected)


@both_kernels
def test_blocked_keys_and_values_are_irrelevant_bit_for_bit(kernel):
    query, key, value = draw_qkv()
    mask = draw_bool(L, S)
    mask[:, [1, 4]] = False
    before = kernel(query, key, value, attn_mask=mask)
    key[..., [1, 4], :] = 1e30
    value[..., [1, 4], :] = -1e30
    assert torch.equal(kernel(query, key, value, attn_mask=mask), before)


def test_a_blocked_key_gets_nothing_however_small_the_allowed_scores_are():
    scores = torch.tensor([[-1e30, 5.0]])  # a fill with -1e9 would win against the first
    mask = torch.tensor([[True, False]])
    for attn_mask in (mask, to_additive_mask(mask)):
        assert attention_weights(scores, attn_mask=attn_mask).tolist() == [[1.0, 0.0]]


def test_only_minus_infinity_blocks_a_large_negative_number_does_not():
    mask = torch.full((L, S), -1e9, dtype=torch.float64)
    tensors = draw_qkv()
    weights = trace_attention(*tensors, attn_mask=mask).weights
    assert_close(weights.sum(dim=-1), torch.ones(N, H, L, dtype=torch.float64))
    assert_close(
        scaled_dot_product_attention(*tensors, attn_mask=mask),
        F.scaled_dot_product_attention(*tensors, attn_mask=mask),
        rtol=0,
        atol=1e-6,  # 1e9 leaves seven digits for the scores
    )


# --- NaN is never hidden, and stops where a mask says so ------------------------------------------


@pytest.mark.parametrize("kind", ["none", "bool", "float"])
@pytest.mark.parametrize("where", ["query", "key", "value"])
def test_a_nan_in_an_allowed_place_stays_visible(where, kind):
    tensors = dict(zip(("query", "key", "value"), draw_qkv(), strict=True))
    tensors[where][1, 2, 3, 4] = NAN
    mask = None
    if kind != "none":
        mask = torch.ones(L, S, dtype=torch.bool)
        mask[1] = False  # a kernel that replaces the NaN of a blocked row must keep this one
        mask = mask if kind == "bool" else to_additive_mask(mask, torch.float64)
    rows = nan_rows(scaled_dot_product_attention(**tensors, attn_mask=mask)[1:, 2:])
    seeing = [0, 1, 2, 3, 4] if kind == "none" else [0, 2, 3, 4]
    if where == "query":
        assert rows == [3]
    elif where == "key":
        assert rows == seeing
    else:
        assert rows == [0, 1, 2, 3, 4]  # 0 * NaN is NaN, in the blocked row too


def test_a_nan_in_a_float_mask_stays_visible_even_in_a_row_of_minus_inf():
    mask = torch.zeros(L, S, dtype=torch.float64)
    mask[2] = -INF
    mask[2, 3] = NAN
    assert nan_rows(attention_weights(draw(N, H, L, S), attn_mask=mask)) == [2]


def test_a_nan_in_a_blocked_key_does_not_reach_the_output_and_one_in_its_value_does():
    query, key, value = draw_qkv()
    mask = torch.ones(L, S, dtype=torch.bool)
    mask[:, 3] = False
    clean = scaled_dot_product_attention(query, key, value, attn_mask=mask)
    bad = key.clone()
    bad[..., 3, 0] = NAN
    assert torch.equal(scaled_dot_product_attention(query, bad, value, attn_mask=mask), clean)
    assert TORCH(query, bad, value, attn_mask=mask).isnan().all()
    additive = to_additive_mask(mask, torch.float64)  # NaN - inf is NaN
    assert scaled_dot_product_attention(query, bad, value, attn_mask=additive).isnan().all()
    value[..., 3, 2] = NAN
    for function in (scaled_dot_product_attention, TORCH):
        output = function(query, key, value, attn_mask=mask)
        assert nan_rows(output.mT) == [2]
        assert output[..., 2].isnan().all()


@both_paths_of_torch
@pytest.mark.parametrize("kind", ["bool", "-inf"])
def test_a_nan_query_in_a_fully_blocked_row_gives_zero_here_and_nan_in_torch(kind, Ev):
    query, key, value = draw_qkv(Ev=Ev)
    query[..., 2, 0] = NAN
    mask = torch.ones(L, S, dtype=torch.bool)
    mask[2] = False
    mask = mask if kind == "bool" else to_additive_mask(mask, torch.float64)
    ours = scaled_dot_product_attention(query, key, value, attn_mask=mask)
    theirs = F.scaled_dot_product_attention(query, key, value, attn_mask=mask)
    assert (ours[..., 2, :] == 0).all()
    assert theirs[..., 2, :].isnan().all()
    assert not ours.isnan().any()


# --- dropout --------------------------------------------------------------------------------------


def test_dropout_zeroes_a_share_of_the_weights_and_keeps_their_expectation():
    copies, p = 4000, 0.3
    query, key = draw(L, E), draw(S, E)
    value = torch.eye(S, dtype=torch.float64)  # the output is what became of the weights
    dropped, weights, _ = trace_attention(query.expand(copies, L, E), key, value, dropout_p=p)
    kept = dropped != 0
    assert_close(dropped[kept], weights[kept] / (1 - p))
    assert abs(float(kept.double().mean()) - (1 - p)) < 0.005
    spread = weights[0] * math.sqrt(p / (1 - p) / copies)
    assert ((dropped.mean(dim=0) - weights[0]).abs() < 5 * spread).all()


def test_dropout_takes_whole_keys_away_and_no_single_features():
    query, key, value = draw_qkv()
    value[:] = value[..., :1]  # every feature holds the same
    output = scaled_dot_product_attention(query, key, value, dropout_p=0.5)
    assert_close(output, output[..., :1].expand(N, H, L, EV))


@pytest.mark.parametrize("p", [0.0, 0.5, 1.0])
def test_weights_and_scores_of_the_trace_are_those_before_dropout(p):
    tensors, before = draw_qkv(), torch.get_rng_state()
    plain = trace_attention(*tensors)
    assert torch.equal(torch.get_rng_state(), before)  # without dropout no random number is drawn
    traced = trace_attention(*tensors, dropout_p=p)
    assert torch.equal(plain.weights, traced.weights)
    assert torch.equal(plain.scores, traced.scores)
    assert torch.equal(plain.output, traced.output) == (p == 0)


# --- inputs of any kind, never modified -----------------------------------------------------------


@both_kernels
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("kind", ["none", "causal", "bool", "float", "-inf"])
def test_inputs_are_never_modified_and_share_no_memory_with_the_output(kind, dtype, kernel):
    if kernel is not scaled_dot_product_attention and kind in ("float", "-inf"):
        return  # such masks are for the plain kernel
    tensors = [tensor.to(dtype).requires_grad_() for tensor in draw_qkv()]
    mask = None if kind in ("none", "causal") else draw_mask(kind, L, S, dtype=dtype)
    everything = [*tensors, *([] if mask is None else [mask])]
    before = [(tensor.detach().clone(), tensor._version) for tensor in everything]
    dropout = {"dropout_p": 0.5} if kernel is scaled_dot_product_attention else {}
    outputs = [kernel(*tensors, attn_mask=mask, is_causal=kind == "causal", **dropout)]
    outputs.append(attention_weights(attention_scores(*tensors[:2]), attn_mask=mask))
    pulls = [torch.ones_like(output) for output in outputs]
    torch.autograd.grad(outputs, tensors, pulls)
    assert all((pull == 1).all() for pull in pulls)
    memory = {tensor.untyped_storage().data_ptr() for tensor in everything}
    assert not memory & {output.untyped_storage().data_ptr() for output in outputs}
    for tensor, (values, version) in zip(everything, before, strict=True):
        assert torch.equal(tensor, values)
        assert tensor._version == version
        assert tensor.grad is None


@both_kernels
def test_inputs_masks_and_incoming_gradients_may_lie_in_memory_in_any_order(kernel):
    contiguous, mask = draw_qkv(), draw_bool(N, H, L, S)
    turned = [tensor.transpose(-1, -3).contiguous().transpose(-1, -3) for tensor in contiguous]
    turned_mask = mask.mT.contiguous().mT
    assert not any(tensor.is_contiguous() for tensor in (*turned, turned_mask))
    assert_same(run(kernel, turned, turned_mask), run(TORCH, contiguous, mask))
    leaves = [tensor.detach().requires_grad_() for tensor in turned]
    ours = torch.autograd.grad(kernel(*leaves).sum(), leaves)  # of a gradient that is expanded
    theirs = torch.autograd.grad(TORCH(*leaves).sum(), leaves)
    for mine, other in zip(ours, theirs, strict=True):
        assert_close(mine, other)


@pytest.mark.parametrize("kind", ["none", "causal", "bool", "float"])
def test_shapes_can_be_worked_out_on_the_meta_device(kind):
    tensors = [tensor.to("meta") for tensor in draw_qkv()]
    mask = None if kind in ("none", "causal") else draw_mask(kind, L, S).to("meta")
    trace = trace_attention(*tensors, attn_mask=mask, is_causal=kind == "causal")
    assert [part.shape for part in trace] == [(N, H, L, EV), (N, H, L, S), (N, H, L, S)]
    assert {part.device.type for part in trace} == {"meta"}


@both_kernels
def test_a_causal_call_stays_on_the_device_of_its_inputs(kernel):
    tensors = draw_qkv()
    with torch.device("meta"):  # torch's default device is another one
        output = kernel(*tensors, is_causal=True)
    assert output.device.type == "cpu"
