"""Scores, weights, output: against torch in every case, and the decisions where torch has none."""

import math
import random
import re

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.testing import assert_close

from attnlab import (
    attention_scores,
    attention_weights,
    causal_mask,
    combine_masks,
    scaled_dot_product_attention,
    to_additive_mask,
    trace_attention,
)

N, H, L, S, E, EV = 2, 3, 5, 7, 11, 13  # distinct primes: no axis can pass for another
NAN, INF = float("nan"), float("inf")
HALF = (torch.float16, torch.bfloat16)

# torch takes its fused kernel on the CPU for four dimensions and Ev = E, plain operations otherwise
both_paths_of_torch = pytest.mark.parametrize("Ev", [EV, E], ids=["plain", "fused"])


def draw(*shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64).to(dtype)


def draw_qkv(
    lead: tuple[int, ...] = (N, H), L: int = L, S: int = S, Ev: int = EV
) -> tuple[Tensor, Tensor, Tensor]:
    return draw(*lead, L, E), draw(*lead, S, E), draw(*lead, S, Ev)


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


def run(function, query, key, value, attn_mask=None, *, learned_mask=False, **options):
    """Return the output and all gradients of ``(output * fixed random numbers).sum()``."""
    leaves = {
        name: tensor.detach().clone().requires_grad_()
        for name, tensor in (("query", query), ("key", key), ("value", value))
    }
    if learned_mask:
        leaves["attn_mask"] = attn_mask.detach().clone().requires_grad_()
    elif attn_mask is not None:
        options["attn_mask"] = attn_mask
    output = function(**leaves, **options)
    pull = torch.randn(output.shape, generator=torch.Generator().manual_seed(1)).to(output)
    gradients = torch.autograd.grad((output * pull).sum(), list(leaves.values()))
    return {"output": output.detach(), **dict(zip(leaves, gradients, strict=True))}


def assert_same_as_torch(*tensors: Tensor, **options) -> None:
    """Assert that values and gradients agree to 1e-12 for the very same call."""
    ours = run(scaled_dot_product_attention, *tensors, **options)
    theirs = run(F.scaled_dot_product_attention, *tensors, **options)
    for name, tensor in ours.items():
        assert_close(tensor, theirs[name], rtol=0, atol=1e-12, msg=lambda m, n=name: f"{n}: {m}")


# --- equal to torch in float64, values and gradients ----------------------------------------------


@both_paths_of_torch
@pytest.mark.parametrize(
    "options",
    [{}, {"is_causal": True}, {"scale": 0.5}, {"scale": 2}, {"is_causal": True, "scale": 0.1}],
    ids=str,
)
@pytest.mark.parametrize("size", [(L, S), (S, L), (L, L), (1, S), (L, 1), (1, 1)], ids=str)
def test_equals_torch_without_a_mask(size, options, Ev):
    assert_same_as_torch(*draw_qkv(L=size[0], S=size[1], Ev=Ev), **options)


@pytest.mark.parametrize("scale", [0.0, -1.0])
def test_equals_torch_for_a_scale_that_is_not_positive(scale):
    assert_same_as_torch(*draw_qkv(), scale=scale)


def test_causal_with_scale_zero_is_the_running_mean_of_the_values():
    query, key, value = draw_qkv(L=S, Ev=E)  # torch's fused kernel gives NaN here
    output = scaled_dot_product_attention(query, key, value, is_causal=True, scale=0.0)
    count = torch.arange(1, S + 1, dtype=torch.float64)[:, None]
    assert_close(output, value.cumsum(dim=-2) / count)


MASK_SHAPES = [
    (L, S),
    (1, S),
    (L, 1),
    (1, 1),
    (H, L, S),
    (H, 1, S),
    (1, L, S),
    (N, H, L, S),
    (N, 1, L, S),
    (1, H, L, S),
    (N, 1, 1, S),
    (1, 1, 1, 1),
]


@both_paths_of_torch
@pytest.mark.parametrize("kind", ["bool", "float", "float with -inf", "learned float with -inf"])
@pytest.mark.parametrize("shape", MASK_SHAPES, ids=str)
def test_equals_torch_under_masks_of_every_rank(shape, kind, Ev):
    mask = draw_mask(kind, *shape)
    assert_same_as_torch(*draw_qkv(Ev=Ev), mask, learned_mask="learned" in kind)


@both_paths_of_torch
@pytest.mark.parametrize("size", [(1, S), (L, 1), (1, 1), (S, L)], ids=str)
@pytest.mark.parametrize("kind", ["bool", "float", "learned float with -inf"])
def test_equals_torch_under_masks_of_single_rows_and_columns(kind, size, Ev):
    mask = draw_mask(kind, *size)
    tensors = draw_qkv(L=size[0], S=size[1], Ev=Ev)
    assert_same_as_torch(*tensors, mask, learned_mask="learned" in kind, scale=0.3)


@both_paths_of_torch
@pytest.mark.parametrize("kind", ["bool", "-inf", "learned -inf"])
@pytest.mark.parametrize("rows", [[2], [0, 4], [0, 1, 2, 3, 4]], ids=str)
def test_a_fully_blocked_row_gives_zero_and_finite_gradients_as_in_torch(rows, kind, Ev):
    mask = draw_bool(L, S)
    mask[rows] = False
    mask = mask if kind == "bool" else draw(L, S).masked_fill(~mask, -INF)
    tensors = draw_qkv(Ev=Ev)
    assert_same_as_torch(*tensors, mask, learned_mask="learned" in kind)

    parts = run(scaled_dot_product_attention, *tensors, mask, learned_mask="learned" in kind)
    assert all(tensor.isfinite().all() for tensor in parts.values())
    assert (parts["output"][..., rows, :] == 0).all()
    assert (parts["query"][..., rows, :] == 0).all()
    weights = trace_attention(*tensors, attn_mask=mask).weights
    assert (weights[..., rows, :] == 0).all()


@pytest.mark.parametrize("kind", ["none", "causal", "bool"])
@pytest.mark.parametrize(
    "leads",
    [
        [(), (), ()],
        [(3,), (3,), (3,)],
        [(2, 3), (2, 3), (2, 3)],
        [(2, 3, 17), (2, 3, 17), (2, 3, 17)],
        [(), (3,), (3,)],
        [(2, 3), (), ()],
        [(2, 1), (1, 3), (3,)],
        [(2, 1, 17), (3, 1), (17,)],
        [(1, 3), (2, 3), (2, 1)],
        [(3,), (3,), (2, 1)],
    ],
    ids=str,
)
def test_equals_torch_for_leading_dimensions_of_any_number(leads, kind):
    ends = [(L, E), (S, E), (S, EV)]
    tensors = [draw(*lead, *end) for lead, end in zip(leads, ends, strict=True)]
    mask = draw_bool(L, S) if kind == "bool" else None
    assert_same_as_torch(*tensors, mask, is_causal=kind == "causal")


@both_paths_of_torch
@pytest.mark.parametrize("size", [(L, 0), (0, S)], ids=["no keys", "no queries"])
@pytest.mark.parametrize("masked", [False, True])
def test_without_keys_or_queries_the_output_is_zero_or_empty_as_in_torch(size, masked, Ev):
    tensors = draw_qkv(L=size[0], S=size[1], Ev=Ev)
    mask = torch.ones(size, dtype=torch.bool) if masked else None
    output = scaled_dot_product_attention(*tensors, attn_mask=mask)
    assert output.shape == (N, H, size[0], Ev)
    assert torch.equal(output, torch.zeros_like(output))
    assert torch.equal(output, F.scaled_dot_product_attention(*tensors, attn_mask=mask))


def random_call(dice: random.Random) -> tuple[list[Tensor], dict[str, object]]:
    """Return tensors whose leading dimensions broadcast, and options that fit them."""
    full = dice.choice([(), (2,), (2, 3), (2, 3, 2)])

    def some_lead() -> tuple[int, ...]:
        kept = full[dice.randint(0, len(full)) :]
        return tuple(size if dice.random() < 0.6 else 1 for size in kept)

    rows, columns = dice.choice([(L, S), (S, L), (1, S), (L, 1), (L, L)])
    ends = [(rows, E), (columns, E), (columns, dice.choice([E, EV]))]
    tensors = [draw(*some_lead(), *end) for end in ends]
    kind = dice.choice(["none", "causal", "bool", "float", "-inf"])
    if kind in ("none", "causal"):
        return tensors, {"is_causal": kind == "causal", "scale": dice.choice([None, 0.5])}
    shape = (*some_lead(), dice.choice([1, rows]), dice.choice([1, columns]))
    return tensors, {"attn_mask": draw_mask(kind, *shape), "scale": dice.choice([None, 0.5])}


def test_every_valid_call_is_a_valid_call_of_torch_with_the_same_meaning():
    dice, valid = random.Random(0), 0
    for _ in range(400):
        tensors, options = random_call(dice)
        try:
            ours = scaled_dot_product_attention(*tensors, **options)
        except ValueError:
            continue  # a mask that does not fit
        valid += 1
        theirs = F.scaled_dot_product_attention(*tensors, **options)
        assert_close(ours, theirs, rtol=0, atol=1e-12)
    assert valid > 250


@pytest.mark.parametrize("shape", [(), (S,), (1, N, H, L, S), (1, 1, 1, L, S)], ids=str)
def test_masks_of_a_rank_that_torch_refuses_are_refused(shape):
    tensors, mask = draw_qkv(), torch.ones(shape, dtype=torch.bool)
    with pytest.raises((RuntimeError, IndexError)):
        F.scaled_dot_product_attention(*tensors, attn_mask=mask)
    with pytest.raises(ValueError, match="must have 2 to 4 dimensions"):
        scaled_dot_product_attention(*tensors, attn_mask=mask)


# --- lower precision: at most twice torch's own error ---------------------------------------------


def as_double(options: dict[str, object]) -> dict[str, object]:
    return {
        name: option.double()
        if isinstance(option, Tensor) and option.is_floating_point()
        else option
        for name, option in options.items()
    }


def squared_errors(tensors: list[Tensor], options: dict[str, object]) -> dict[str, Tensor]:
    """Return the mean squared errors [ours, torch's] against float64 on the same inputs."""
    exact = run(
        F.scaled_dot_product_attention, *(t.double() for t in tensors), **as_double(options)
    )
    ours = run(scaled_dot_product_attention, *tensors, **options)
    theirs = run(F.scaled_dot_product_attention, *tensors, **options)
    return {
        name: torch.stack(
            [(part[name].double() - exact[name]).square().mean() for part in (ours, theirs)]
        )
        for name in exact
    }


@pytest.mark.parametrize("spread", [1, 6], ids=["flat", "peaked"])
@pytest.mark.parametrize("kind", ["none", "causal", "bool", "float", "learned float with -inf"])
@both_paths_of_torch
@pytest.mark.parametrize("dtype", [torch.float32, *HALF], ids=str)
def test_error_is_at_most_twice_that_of_torch(dtype, Ev, kind, spread):
    totals: dict[str, Tensor] = {}
    for _ in range(8):
        query, key, value = draw_qkv(L=29, S=31, Ev=Ev)
        tensors = [tensor.to(dtype) for tensor in (query * spread, key, value)]
        options: dict[str, object] = {"is_causal": kind == "causal"}
        if kind not in ("none", "causal"):
            options["attn_mask"] = draw_mask(kind, 29, 31, dtype=dtype)
            options["learned_mask"] = "learned" in kind
        for name, errors in squared_errors(tensors, options).items():
            totals[name] = totals.get(name, 0) + errors
    ratios = {name: float((ours / theirs).sqrt()) for name, (ours, theirs) in totals.items()}
    assert max(ratios.values()) <= 2, ratios


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, *HALF], ids=str)
def test_every_result_has_the_dtype_of_the_input(dtype):
    query, key, value = (tensor.to(dtype) for tensor in draw_qkv())
    mask = draw_mask("float", L, S, dtype=dtype)
    trace = trace_attention(query, key, value, attn_mask=mask)
    assert {part.dtype for part in trace} == {dtype}
    assert attention_scores(query, key).dtype == dtype
    assert attention_weights(trace.scores, attn_mask=mask).dtype == dtype


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


def test_float16_scores_beyond_its_range_do_not_spoil_the_output():
    query, key, value = (tensor.half() for tensor in draw_qkv())
    query, key = query * 300, key * 300
    exact = F.scaled_dot_product_attention(query.double(), key.double(), value.double())
    assert attention_scores(query, key).isinf().any()
    output = scaled_dot_product_attention(query, key, value)
    assert_close(output.double(), exact, rtol=1e-3, atol=1e-3)


# --- the three steps ------------------------------------------------------------------------------


def test_scores_are_scaled_dot_products():
    query, key, _ = draw_qkv()
    scores = attention_scores(query, key)
    by_hand = (query[1, 2, 3] * key[1, 2, 4]).sum() / math.sqrt(E)
    assert scores.shape == (N, H, L, S)
    assert_close(scores[1, 2, 3, 4], by_hand)
    assert_close(attention_scores(query, key, scale=1.0), scores * math.sqrt(E))


@pytest.mark.parametrize("kind", ["bool", "float", "-inf"])
def test_trace_holds_the_three_steps_with_the_scores_before_the_mask(kind):
    query, key, value = draw_qkv()
    mask = draw_mask(kind, L, S)
    output, weights, scores = trace_attention(query, key, value, attn_mask=mask, scale=0.4)
    assert torch.equal(scores, attention_scores(query, key, scale=0.4))
    assert torch.equal(weights, attention_weights(scores, attn_mask=mask))
    assert torch.equal(output, weights @ value)


def test_trace_of_a_causal_call_is_that_of_the_causal_mask():
    tensors = draw_qkv()
    for ours, masked in zip(
        trace_attention(*tensors, is_causal=True),
        trace_attention(*tensors, attn_mask=causal_mask(L, S)),
        strict=True,
    ):
        assert torch.equal(ours, masked)


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


def test_a_boolean_mask_and_its_additive_twin_give_the_same_weights():
    scores, mask = draw(N, H, L, S), draw_bool(L, S)
    mask[2] = False
    additive = to_additive_mask(mask, torch.float64)
    assert torch.equal(
        attention_weights(scores, attn_mask=mask), attention_weights(scores, attn_mask=additive)
    )


def test_blocked_keys_and_values_are_irrelevant_bit_for_bit():
    query, key, value = draw_qkv()
    mask = draw_bool(L, S)
    mask[:, [1, 4]] = False
    before = trace_attention(query, key, value, attn_mask=mask)
    key[..., [1, 4], :] = 1e30
    value[..., [1, 4], :] = -1e30
    after = trace_attention(query, key, value, attn_mask=mask)
    assert torch.equal(before.output, after.output)
    assert torch.equal(before.weights, after.weights)


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


def test_shuffled_queries_shuffle_the_output_and_shuffled_keys_leave_it():
    query, key, value = draw_qkv()
    mask = draw_bool(L, S)
    rows, columns = torch.randperm(L), torch.randperm(S)
    output = scaled_dot_product_attention(query, key, value, attn_mask=mask)
    shuffled = scaled_dot_product_attention(
        query[..., rows, :],
        key[..., columns, :],
        value[..., columns, :],
        attn_mask=mask[rows][:, columns],
    )
    assert_close(shuffled, output[..., rows, :])


# --- NaN is never hidden, and stops where a mask says so ------------------------------------------


def nan_rows(tensor: Tensor) -> list[int]:
    """Return the rows (dimension -2) in which a NaN stands anywhere."""
    return tensor.isnan().any(dim=-1).flatten(0, -2).any(dim=0).nonzero().flatten().tolist()


@pytest.mark.parametrize("kind", ["none", "bool", "float"])
@pytest.mark.parametrize("where", ["query", "key", "value"])
def test_a_nan_in_an_allowed_place_stays_visible(where, kind):
    tensors = dict(zip(("query", "key", "value"), draw_qkv(), strict=True))
    tensors[where][1, 2, 3, 4] = NAN
    mask = None
    if kind != "none":
        mask = torch.ones(L, S, dtype=torch.bool)
        mask[1] = False  # a blocked row must not tempt anybody to wipe NaN away
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


def test_a_nan_in_a_key_that_a_boolean_mask_blocks_does_not_reach_the_output():
    query, key, value = draw_qkv()
    mask = torch.ones(L, S, dtype=torch.bool)
    mask[:, 3] = False
    clean = scaled_dot_product_attention(query, key, value, attn_mask=mask)
    key[..., 3, 0] = NAN
    assert torch.equal(scaled_dot_product_attention(query, key, value, attn_mask=mask), clean)
    assert F.scaled_dot_product_attention(query, key, value, attn_mask=mask).isnan().all()
    additive = to_additive_mask(mask, torch.float64)  # NaN - inf is NaN
    assert scaled_dot_product_attention(query, key, value, attn_mask=additive).isnan().all()


def test_a_nan_in_a_blocked_value_reaches_the_output_as_in_torch():
    query, key, value = draw_qkv()
    value[..., 3, 2] = NAN
    mask = torch.ones(L, S, dtype=torch.bool)
    mask[:, 3] = False
    for function in (scaled_dot_product_attention, F.scaled_dot_product_attention):
        output = function(query, key, value, attn_mask=mask)
        assert output[..., 2].isnan().all()
        assert not output[..., 3:].isnan().any()


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
    tensors = draw_qkv()
    plain, traced = trace_attention(*tensors), trace_attention(*tensors, dropout_p=p)
    assert torch.equal(plain.weights, traced.weights)
    assert torch.equal(plain.scores, traced.scores)
    assert torch.equal(plain.output, traced.output) == (p == 0)


def test_no_dropout_draws_no_random_number():
    before = torch.get_rng_state()
    tensors = [torch.ones(L, E) for _ in range(3)]
    scaled_dot_product_attention(*tensors)
    assert torch.equal(torch.get_rng_state(), before)


def test_dropping_everything_gives_zero():
    assert (scaled_dot_product_attention(*draw_qkv(), dropout_p=1.0) == 0).all()


# --- inputs of any kind, never modified -----------------------------------------------------------


def snapshot(tensors: list[Tensor]) -> list[tuple]:
    return [(t.detach().clone(), t._version, t.requires_grad, t.grad) for t in tensors]


def assert_unchanged(tensors: list[Tensor], before: list[tuple]) -> None:
    for tensor, (values, version, requires_grad, grad) in zip(tensors, before, strict=True):
        assert tensor._version == version
        assert tensor.requires_grad == requires_grad
        assert tensor.grad is grad
        assert_close(tensor.detach(), values, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("kind", ["none", "causal", "bool", "float", "-inf"])
def test_inputs_are_never_modified(kind, requires_grad, dtype):
    tensors = [tensor.to(dtype).requires_grad_(requires_grad) for tensor in draw_qkv()]
    mask = None if kind in ("none", "causal") else draw_mask(kind, L, S, dtype=dtype)
    everything = [*tensors, *([] if mask is None else [mask])]
    before = snapshot(everything)
    output = scaled_dot_product_attention(
        *tensors, attn_mask=mask, is_causal=kind == "causal", dropout_p=0.5
    )
    weights = attention_weights(attention_scores(*tensors[:2]), attn_mask=mask)
    if requires_grad:
        torch.autograd.grad((output.sum(), weights.square().sum()), tensors)
    else:
        assert not output.requires_grad
    assert_unchanged(everything, before)


def test_no_result_shares_memory_with_an_input():
    query, key, value = draw_qkv()
    mask = draw_mask("-inf", N, H, L, S)
    inputs = {tensor.untyped_storage().data_ptr() for tensor in (query, key, value, mask)}
    for part in trace_attention(query, key, value, attn_mask=mask):
        assert part.untyped_storage().data_ptr() not in inputs


def test_inputs_may_lie_in_memory_in_any_order():
    contiguous = draw_qkv()
    transposed = [tensor.transpose(-1, -2).contiguous().transpose(-1, -2) for tensor in contiguous]
    expanded = draw(1, 1, L, S).expand(N, H, L, S)
    assert not transposed[0].is_contiguous()
    assert_close(
        scaled_dot_product_attention(*transposed, attn_mask=expanded),
        scaled_dot_product_attention(*contiguous, attn_mask=expanded.contiguous()),
    )


@pytest.mark.parametrize("kind", ["none", "causal", "bool", "float"])
def test_shapes_can_be_worked_out_on_the_meta_device(kind):
    tensors = [tensor.to("meta") for tensor in draw_qkv()]
    mask = None if kind in ("none", "causal") else draw_mask(kind, L, S).to("meta")
    trace = trace_attention(*tensors, attn_mask=mask, is_causal=kind == "causal")
    assert [part.shape for part in trace] == [(N, H, L, EV), (N, H, L, S), (N, H, L, S)]
    assert {part.device.type for part in trace} == {"meta"}


def test_a_causal_call_stays_on_the_device_of_its_inputs():
    tensors = draw_qkv()
    with torch.device("meta"):  # torch's default device is another one
        output = scaled_dot_product_attention(*tensors, is_causal=True)
    assert output.device.type == "cpu"


# --- bad calls ------------------------------------------------------------------------------------

FITTING = {"query": (N, H, L, E), "key": (N, H, S, E), "value": (N, H, S, EV)}
BAD_CALLS = {
    "E differs": (
        {"key": torch.ones(N, H, S, 6)},
        ValueError,
        "query and key must share their last dimension E, got query (2, 3, 5, 11) "
        "and key (2, 3, 7, 6): 11 != 6.",
    ),
    "S differs": (
        {"value": torch.ones(N, H, 4, EV)},
        ValueError,
        "key and value must have the same length S (dimension -2), got key (2, 3, 7, 11) "
        "and value (2, 3, 4, 13): 7 != 4.",
    ),
    "mask shape": (
        {"attn_mask": torch.ones(3, 7, dtype=torch.bool)},
        ValueError,
        "attn_mask must broadcast to the weights' shape (..., L, S) = (2, 3, 5, 7), got (3, 7).",
    ),
    "mask larger than the weights": (
        {"query": torch.ones(1, 1, L, E), "key": torch.ones(1, 1, S, E)}
        | {"attn_mask": torch.ones(N, H, L, S, dtype=torch.bool)},
        ValueError,
        "= (1, 1, 5, 7), got (2, 3, 5, 7).",
    ),
    "mask of one dimension": (
        {"attn_mask": torch.ones(7, dtype=torch.bool)},
        ValueError,
        "attn_mask must have 2 to 4 dimensions to fit the weights' shape "
        "(..., L, S) = (2, 3, 5, 7), got (7,); it must end in (L, S) or (1, S).",
    ),
    "int mask": (
        {"attn_mask": torch.ones(N, 1, 1, S, dtype=torch.int64)},
        TypeError,
        "attn_mask must be bool (True = may attend) or torch.float32 (added to the scores), "
        "got torch.int64; for a Hugging Face attention_mask of 0s and 1s, use attn_mask.bool().",
    ),
    "mask of another float dtype": (
        {"attn_mask": torch.zeros(L, S, dtype=torch.float16)},
        TypeError,
        "or torch.float32 (added to the scores), got torch.float16; "
        "use attn_mask.to(torch.float32).",
    ),
    "mask as a list": (
        {"attn_mask": [[True]]},
        TypeError,
        "attn_mask must be a torch.Tensor, got list; use torch.as_tensor(attn_mask).",
    ),
    "both masks": (
        {"attn_mask": torch.ones(L, S, dtype=torch.bool), "is_causal": True},
        ValueError,
        "attn_mask and is_causal=True must not be given together; "
        "combine them with combine_masks(attn_mask, causal_mask(L, S)).",
    ),
    "one dimension": (
        {"query": torch.ones(E)},
        ValueError,
        "query must have at least 2 dimensions (L, E), got (11,).",
    ),
    "key of one dimension": (
        {"key": torch.ones(E)},
        ValueError,
        "key must have at least 2 dimensions (S, E), got (11,).",
    ),
    "value of one dimension": (
        {"value": torch.ones(EV)},
        ValueError,
        "value must have at least 2 dimensions (S, Ev), got (13,).",
    ),
    "no features": (
        {"query": torch.ones(N, H, L, 0), "key": torch.ones(N, H, S, 0)},
        ValueError,
        "query and key must have at least one feature E, got (2, 3, 5, 0).",
    ),
    "heads of query and key": (
        {"key": torch.ones(N, 4, S, E)},
        ValueError,
        "query and key must have leading dimensions that broadcast, "
        "got query (2, 3, 5, 11) and key (2, 4, 7, 11).",
    ),
    "heads of query and value": (
        {"value": torch.ones(N, 4, S, EV)},
        ValueError,
        "query and value must have leading dimensions that broadcast, "
        "got query (2, 3, 5, 11) and value (2, 4, 7, 13).",
    ),
    "heads of key and value": (
        {"query": torch.ones(N, 1, L, E), "value": torch.ones(N, 4, S, EV)},
        ValueError,
        "key and value must have leading dimensions that broadcast, "
        "got key (2, 3, 7, 11) and value (2, 4, 7, 13).",
    ),
    "key dtype": (
        {"key": torch.ones(N, H, S, E, dtype=torch.float64)},
        TypeError,
        "query and key must have the same dtype, got torch.float32 and torch.float64.",
    ),
    "value dtype": (
        {"value": torch.ones(N, H, S, EV, dtype=torch.bfloat16)},
        TypeError,
        "query and value must have the same dtype, got torch.float32 and torch.bfloat16.",
    ),
    "int query": (
        {"query": torch.ones(N, H, L, E, dtype=torch.int32)},
        TypeError,
        "query must be a floating-point tensor, got torch.int32; use query.float().",
    ),
    "int value": (
        {"value": torch.ones(N, H, S, EV, dtype=torch.int32)},
        TypeError,
        "value must be a floating-point tensor, got torch.int32; use value.float().",
    ),
    "query as a list": (
        {"query": [[1.0]]},
        TypeError,
        "query must be a torch.Tensor, got list; use torch.as_tensor(query).",
    ),
    "dropout above 1": (
        {"dropout_p": 1.5},
        ValueError,
        "dropout_p must be a probability between 0 and 1, got 1.5.",
    ),
    "dropout below 0": (
        {"dropout_p": -0.25},
        ValueError,
        "dropout_p must be a probability between 0 and 1, got -0.25.",
    ),
    "dropout NaN": (
        {"dropout_p": NAN},
        ValueError,
        "dropout_p must be a probability between 0 and 1, got nan.",
    ),
}


@pytest.mark.parametrize("name", BAD_CALLS)
def test_a_bad_call_raises_its_sentence_and_changes_nothing(name):
    changed, error, sentence = BAD_CALLS[name]
    arguments = {name: torch.ones(shape) for name, shape in FITTING.items()} | changed
    tensors = [value for value in arguments.values() if isinstance(value, Tensor)]
    before, random_state = snapshot(tensors), torch.get_rng_state()
    for function in (scaled_dot_product_attention, trace_attention):
        with pytest.raises(error, match=re.escape(sentence) + "$"):
            function(**arguments)
    assert_unchanged(tensors, before)
    assert torch.equal(torch.get_rng_state(), random_state)


@pytest.mark.parametrize("name", ["E differs", "heads of query and key", "key dtype", "int query"])
def test_bad_scores_raise_the_same_sentence(name):
    changed, error, sentence = BAD_CALLS[name]
    arguments = {name: torch.ones(FITTING[name]) for name in ("query", "key")} | changed
    with pytest.raises(error, match=re.escape(sentence)):
        attention_scores(**arguments)


@pytest.mark.parametrize("name", ["mask shape", "mask of one dimension", "int mask"])
def test_bad_masks_of_weights_raise_the_same_sentence(name):
    changed, error, sentence = BAD_CALLS[name]
    with pytest.raises(error, match=re.escape(sentence)):
        attention_weights(torch.ones(N, H, L, S), **changed)


def test_scores_for_weights_must_be_floating_point_with_two_dimensions():
    with pytest.raises(TypeError, match=r"scores must be .* got torch\.int64"):
        attention_weights(torch.ones(L, S, dtype=torch.int64))
    with pytest.raises(ValueError, match=re.escape("dimensions (L, S), got (7,).")):
        attention_weights(torch.ones(S))


def test_a_float32_mask_of_other_scores_is_refused():
    for dtype in (torch.float64, *HALF):
        with pytest.raises(
            TypeError, match=rf"or {dtype} \(added to the scores\), got torch.float32"
        ):
            attention_weights(torch.ones(L, S, dtype=dtype), attn_mask=torch.zeros(L, S))


def test_the_fix_that_the_error_names_works():
    query, key, value = draw_qkv()
    mask = draw_bool(L, S)
    mask[:, 0] = True
    both = combine_masks(mask, causal_mask(L, S))
    assert_same_as_torch(query, key, value, both)
