"""Scores, weights and output agree with torch; where torch gives NaN, they are as documented."""

import math
import random
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
from tests.helper.common import (
    HALF,
    INF,
    NAN,
    assert_refused,
    assert_same,
    draw,
    draw_leads,
    draw_mask,
    nan_rows,
    refuses,
    reorder,
    run,
)

N, H, L, S, E, EV = 2, 3, 5, 7, 11, 13  # distinct primes: no axis can pass for another
SIZES = [(L, S), (S, L), (L, L), (1, S), (L, 1), (1, 1)]

TORCH = F.scaled_dot_product_attention
KERNELS = {"plain": scaled_dot_product_attention, "tiled": partial(tiled_attention, tile=(2, 3))}
both_kernels = pytest.mark.parametrize("kernel", KERNELS.values(), ids=list(KERNELS))


def draw_qkv(lead: tuple[int, ...] = (N, H)) -> list[Tensor]:
    return [draw(*lead, L, E), draw(*lead, S, E), draw(*lead, S, EV)]


def half_blocked() -> Tensor:
    """Return a mask in which row 1 is empty, and row 0 is neither empty nor full."""
    mask = torch.rand(L, S) < 0.6
    mask[0, 0], mask[0, -1], mask[1] = True, False, False
    return mask


# --- equal to torch in float64, values and gradients ----------------------------------------------


def draw_call(dice: random.Random) -> tuple[list[Tensor], Tensor | None, dict[str, object]]:
    """Return tensors whose leading dimensions broadcast, a mask of any kind, and options."""
    some_lead, (rows, columns) = draw_leads(dice), dice.choice(SIZES)
    features = dice.choice([E, EV])  # torch takes its fused kernel for Ev = E, if at all
    ends = [(rows, E), (columns, E), (columns, features)]
    tensors = [reorder(draw(*some_lead(), *end), dice) for end in ends]
    kind = dice.choice(["none", "causal", "bool", "added", "-inf"])
    options = {"is_causal": kind == "causal", "scale": dice.choice([None, 0.5, 2, -1.0])}
    if kind in ("none", "causal"):
        return tensors, None, options
    lead = torch.broadcast_shapes(*(tensor.shape[:-2] for tensor in tensors[:2]))
    mask = draw_mask(dice, lead, rows, columns)
    if kind != "bool":
        mask = draw(*mask.shape).masked_fill(~mask & (kind == "-inf"), -INF)
    return tensors, mask, options


@pytest.mark.parametrize("seed", range(10))
def test_drawn_calls_equal_torch_with_gradients_and_change_no_argument(seed):
    dice = random.Random(seed)
    for _ in range(30):
        tensors, mask, options = draw_call(dice)
        learned = mask is not None and mask.is_floating_point() and dice.random() < 0.5
        before = [tensor.clone() for tensor in (*tensors, mask) if tensor is not None]
        ours = run(scaled_dot_product_attention, tensors, mask, learned=learned, **options)
        for tensor, values in zip((*tensors, mask), before, strict=False):
            assert torch.equal(tensor, values)
        assert_same(ours, run(TORCH, tensors, mask, learned=learned, **options))
        assert all(tensor.isfinite().all() for tensor in ours.values())


EMPTY = [((N, H), L, 0), ((N, H), 0, S), ((N, 0), L, S), ((0, H), L, S), ((0,), L, S), ((), 0, 0)]


@both_kernels
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize(("lead", "rows", "columns"), EMPTY)
def test_without_batch_heads_queries_or_keys_the_output_is_torchs(
    kernel, masked, lead, rows, columns
):
    tensors = [draw(*lead, rows, E), draw(*lead, columns, E), draw(*lead, columns, EV)]
    mask = torch.ones(*lead, rows, columns, dtype=torch.bool) if masked else None
    ours = run(kernel, tensors, mask)
    assert_same(ours, run(TORCH, tensors, mask))
    assert ours["output"].shape == (*lead, rows, EV)
    assert not any(part.any() for part in ours.values())


@pytest.mark.parametrize("function", [scaled_dot_product_attention, trace_attention])
def test_what_torch_takes_by_position_is_taken_by_position(function):
    tensors, mask = draw_qkv(), half_blocked()
    for more in ((None,), (mask,), (mask, 0.0), (mask, 0.0, False), (None, 0.0, True)):
        result = function(*tensors, *more, scale=0.5)
        assert_close(getattr(result, "output", result), TORCH(*tensors, *more, scale=0.5))
    assert not function(*tensors, None, 1.0)[0].any()


@both_kernels
@pytest.mark.parametrize("dtype", HALF, ids=str)
def test_half_precision_is_computed_in_float32_and_rounded_once_at_the_end(kernel, dtype):
    tensors, mask = [tensor.to(dtype) for tensor in draw_qkv()], half_blocked()
    wide = [tensor.float() for tensor in tensors]
    for options in ({}, {"is_causal": True}, {"attn_mask": mask}):
        exact = kernel(*wide, **options).to(dtype)
        assert torch.equal(kernel(*tensors, **options), exact)
    assert {part.dtype for part in run(kernel, tensors, mask).values()} == {dtype}
    exact = trace_attention(*wide, attn_mask=mask)
    for part, other in zip(trace_attention(*tensors, mask), exact, strict=True):
        assert torch.equal(part, other.to(dtype))
    assert torch.equal(attention_scores(*tensors[:2]), exact.scores.to(dtype))
    weights = attention_weights(wide[0], attn_mask=wide[0]).to(dtype)
    assert torch.equal(attention_weights(tensors[0], attn_mask=tensors[0]), weights)


# --- the three steps ------------------------------------------------------------------------------


def test_the_trace_holds_the_steps_and_the_scores_are_those_before_the_mask():
    (query, key, value), mask = draw_qkv(), causal_mask(L, S)
    added = to_additive_mask(mask, torch.float64)
    for options in ({"is_causal": True}, {"attn_mask": mask}, {"attn_mask": added}):
        output, weights, scores = trace_attention(query, key, value, scale=0.4, **options)
        assert_close(scores, query @ key.mT * 0.4)
        assert torch.equal(scores, attention_scores(query, key, scale=0.4))
        assert torch.equal(weights, attention_weights(scores, attn_mask=mask))
        assert torch.equal(output, weights @ value)
    assert_close(attention_scores(query, key), query @ key.mT / math.sqrt(E))
    assert not attention_scores(query, key, scale=0.0).any()


@pytest.mark.parametrize("kind", ["bool", "added"])
def test_a_row_of_weights_sums_to_one_or_to_zero_if_every_key_is_blocked(kind):
    mask = half_blocked()
    given = mask if kind == "bool" else to_additive_mask(mask, torch.float64)
    scores = draw(N, H, L, S)
    weights = attention_weights(scores, attn_mask=given)
    assert scores._version == 0  # nothing was written into it
    assert (weights >= 0).all()
    assert (weights[..., ~mask] == 0).all()
    assert_close(weights.sum(dim=-1), mask.any(dim=-1).double().expand(N, H, L))


def test_only_minus_infinity_blocks_and_it_blocks_beside_any_score():
    scores, mask = torch.tensor([[-1e30, 5.0]]), torch.tensor([[True, False]])
    for given in (mask, to_additive_mask(mask)):
        assert attention_weights(scores, attn_mask=given).tolist() == [[1, 0]]
    small = torch.full((L, S), -1e9, dtype=torch.float64)
    weights = attention_weights(draw(L, S), attn_mask=small)
    assert_close(weights.sum(dim=-1), torch.ones(L, dtype=torch.float64))


# --- NaN is never hidden, and stops where a mask says so ------------------------------------------

ALL, BLOCKED = list(range(L)), 1  # row 1 of half_blocked() sees nothing
NAN_ROWS = [  # where the NaN is, the kind of mask, and the rows of the output that show it
    ("key", "none", ALL),
    ("query", "bool", [3]),
    ("key", "bool", [0, 2, 3, 4]),
    ("value", "bool", ALL),  # 0 * NaN is NaN, in the blocked row too
    ("query", "added", [3]),
    ("key", "added", [0, 2, 3, 4]),
    ("value", "added", ALL),
]


@pytest.mark.parametrize(("where", "kind", "rows"), NAN_ROWS)
def test_a_nan_in_an_allowed_place_stays_visible(where, kind, rows):
    tensors = dict(zip(("query", "key", "value"), draw_qkv(), strict=True))
    tensors[where][..., 3, 4] = NAN
    mask = torch.ones(L, S, dtype=torch.bool)
    mask[BLOCKED] = False
    masks = {"none": None, "bool": mask, "added": to_additive_mask(mask, torch.float64)}
    output = scaled_dot_product_attention(**tensors, attn_mask=masks[kind])
    assert nan_rows(output) == rows


def test_a_nan_that_a_boolean_mask_blocks_passes_through_a_value_only():
    (query, key, value), mask = draw_qkv(), torch.ones(L, S, dtype=torch.bool)
    mask[2], mask[:, 3] = False, False
    clean = scaled_dot_product_attention(query, key, value, attn_mask=mask)
    query[..., 2, 0] = key[..., 3, 0] = NAN
    assert torch.equal(scaled_dot_product_attention(query, key, value, attn_mask=mask), clean)
    assert TORCH(query, key, value, attn_mask=mask).isnan().all()
    added = to_additive_mask(mask, torch.float64)  # NaN - inf is NaN
    seen = scaled_dot_product_attention(query, key, value, attn_mask=added)
    assert nan_rows(seen) == [0, 1, 3, 4]
    added[2, 3] = NAN  # in a row of minus infinity
    assert 2 in nan_rows(scaled_dot_product_attention(query, key, value, attn_mask=added))
    value[..., 3, 2] = NAN
    output = scaled_dot_product_attention(query, key, value, attn_mask=mask)
    assert nan_rows(output.mT) == [2]


# --- dropout --------------------------------------------------------------------------------------


def test_dropout_zeroes_a_share_of_the_weights_and_keeps_their_expectation():
    copies, p = 4000, 0.3
    query, key = draw(L, E).expand(copies, L, E), draw(S, E)
    value = torch.eye(S, dtype=torch.float64)  # the output is what became of the weights
    dropped, weights, _ = trace_attention(query, key, value, dropout_p=p)
    assert_close(weights.sum(dim=-1), torch.ones(copies, L, dtype=torch.float64))
    kept = dropped != 0
    assert_close(dropped[kept], weights[kept] / (1 - p))
    assert abs(float(kept.double().mean()) - (1 - p)) < 0.005  # four standard deviations


def test_dropout_takes_whole_keys_away_and_draws_nothing_at_zero():
    query, key, value = draw_qkv()
    value[:] = value[..., :1]  # every feature holds the same
    output = scaled_dot_product_attention(query, key, value, dropout_p=0.5)
    assert_close(output, output[..., :1].expand(N, H, L, EV))
    before = torch.get_rng_state()
    scaled_dot_product_attention(query, key, value)
    assert torch.equal(torch.get_rng_state(), before)


# --- devices and transformations of torch ---------------------------------------------------------


@both_kernels
def test_a_causal_call_stays_on_the_device_of_its_inputs(kernel):
    tensors = draw_qkv()
    with torch.device("meta"):  # torch's default device is another one
        assert kernel(*tensors, is_causal=True).device.type == "cpu"
    shapes = trace_attention(*(tensor.to("meta") for tensor in tensors), is_causal=True)
    assert shapes.output.is_meta
    assert shapes.output.shape == (N, H, L, EV)


@pytest.mark.filterwarnings("ignore")  # torch.jit is deprecated, and says which sizes it looks at
@pytest.mark.parametrize("is_causal", [True, False])
def test_a_traced_kernel_is_right_for_other_sizes(is_causal):
    traced = torch.jit.trace(
        lambda *tensors: scaled_dot_product_attention(*tensors, is_causal=is_causal),
        [tensor[:1, ..., :3, :] for tensor in draw_qkv()],
    )
    tensors = draw_qkv()
    assert_close(traced(*tensors), TORCH(*tensors, is_causal=is_causal))


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")  # jvp uses it
def test_the_transformations_of_torch_func_give_what_autograd_gives():
    (query, key, value), mask = draw_qkv(()), half_blocked()

    def loss(query: Tensor) -> Tensor:
        return scaled_dot_product_attention(query, key, value, mask).square().sum()

    leaf = query.clone().requires_grad_()
    (wanted,) = torch.autograd.grad(loss(leaf), leaf)
    assert_close(torch.func.grad(loss)(query), wanted)
    assert_close(torch.func.vmap(torch.func.grad(loss))(torch.stack([query, query]))[1], wanted)
    assert_close(torch.func.jvp(loss, (query,), (query,))[1], (wanted * query).sum())


# --- what is refused ------------------------------------------------------------------------------

Q, K, V = torch.ones(N, H, L, E), torch.ones(N, H, S, E), torch.ones(N, H, S, EV)
GIVEN = {"query": Q, "key": K, "value": V}
MASK = torch.ones(L, S, dtype=torch.bool)
BAD = [  # the arguments of a call that differ, the kind of error, and how its sentence begins
    ({"key": K[..., :6]}, ValueError, r"query and key must share .* E, .*: 11 != 6"),
    ({"value": V[:, :, :4]}, ValueError, r"key and value must .* length S .*: 7 != 4"),
    ({"query": torch.ones(E)}, ValueError, r"query must have at least 2 .* \(L, E\), got \(11,\)"),
    ({"key": torch.ones(E)}, ValueError, r"key must have at least 2 dimensions \(S, E\), got"),
    ({"query": Q[..., :0], "key": K[..., :0]}, ValueError, r"query and key .* one feature E, got"),
    ({"key": K[:, :2]}, ValueError, r"query and key .* leading .* \(2, 3, 5, 11\) and key \(2, 2"),
    ({"value": V[:, :2]}, ValueError, r"query and value must have leading dimen"),
    ({"query": Q[:, :1], "value": V[:, :2]}, ValueError, r"key and value must have leading dimen"),
    ({"key": K.double()}, TypeError, r"query and key .* dtype, .*float32 and .*float64"),
    ({"value": V.half()}, TypeError, r"query and value must have the same dtype"),
    ({"query": Q.int()}, TypeError, r"query must be a floating-.*; use query.float"),
    ({"key": K.to("meta")}, ValueError, r"query and key .* same device, .*; use key.to"),
    ({"attn_mask": MASK.to("meta")}, ValueError, r"query and attn_mask must be on the same dev"),
    ({"scale": "1"}, TypeError, r"scale must be a number, got str '1'"),
    ({"scale": -INF}, ValueError, r"scale must be finite, got -inf"),
    ({"dropout_p": 1.5}, ValueError, r"dropout_p must be a probability .* got 1.5"),
    ({"is_causal": 1}, TypeError, r"is_causal must be True or False, got int 1"),
    ({"attn_mask": MASK, "is_causal": True}, ValueError, r"attn_mask and is_causal=True .* S\)\)"),
    ({"attn_mask": MASK[:3]}, ValueError, r"attn_mask .* \(2, 3, 5, 7\), got \(3, 7\)"),
    (
        {"query": Q[:1], "key": K[:1], "value": V[:1], "attn_mask": MASK.expand(N, 1, L, S)},
        ValueError,
        r"attn_mask must broadcast .* \(1, 3, 5, 7\), got \(2, 1",
    ),
    ({"attn_mask": MASK[0]}, ValueError, r"attn_mask must have 2 or .* most 4, .* \(1, S\)"),
    ({"attn_mask": MASK.expand(1, 1, 1, L, S)}, ValueError, r"attn_mask must have 2 or more dim"),
    ({"attn_mask": MASK.int()}, TypeError, r"attn_mask must be bool .* use attn_mask.bool\(\)"),
    ({"attn_mask": MASK.half()}, TypeError, r"attn_mask .* use attn_mask.to\(torch.float32\)"),
]


@pytest.mark.parametrize(("changed", "kind", "words"), BAD)
def test_a_bad_call_gets_a_sentence_and_draws_no_random_number(changed, kind, words):
    before = torch.get_rng_state()
    assert_refused(lambda: scaled_dot_product_attention(**GIVEN | changed), kind, words)
    assert torch.equal(torch.get_rng_state(), before)


X = torch.ones(L, S)
STEPS = [  # a call, the kind of error, and how its sentence begins
    (lambda: attention_scores(X, X, scale="1"), TypeError, r"scale must be a number"),
    (lambda: attention_weights(X.int()), TypeError, r"scores must be a floating-point tensor"),
    (lambda: attention_weights(X[0]), ValueError, r"scores .* at least 2 dimensions \(L, S\), got"),
    (
        lambda: attention_weights(X, attn_mask=MASK[None]),
        ValueError,
        r"attn_mask must have 2 or more",
    ),
    (lambda: attention_weights(X.double(), attn_mask=X), TypeError, r"attn_mask .* torch.float64"),
    (lambda: attention_weights(X, attn_mask=MASK.to("meta")), ValueError, r"scores and attn_mask"),
]


test_a_bad_step_gets_a_sentence = refuses(STEPS)
