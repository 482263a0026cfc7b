"""Tiled attention gives the numbers of the plain kernel and never makes an L x S tensor."""

import math
import random

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.testing import assert_close
from torch.utils._python_dispatch import TorchDispatchMode

from attnlab import (
    causal_mask,
    combine_masks,
    scaled_dot_product_attention,
    sequence_mask,
    sliding_window_mask,
    tiled_attention,
)
from tests.helper.common import (
    INF,
    NAN,
    assert_refused,
    assert_same,
    draw,
    draw_leads,
    draw_mask,
    nan_rows,
    reorder,
    run,
)

N, H, L, S, E, EV = 2, 3, 13, 17, 5, 7  # distinct primes: no axis can pass for another
TILE = (5, 8)  # ragged at the end of all of them
DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]


def draw_qkv(lead: tuple[int, ...] = (N, H), L: int = L, S: int = S) -> list[Tensor]:
    return [draw(*lead, L, E), draw(*lead, S, E), draw(*lead, S, EV)]


def whole_mask(L: int, S: int, mask: Tensor | None, is_causal, align, window) -> Tensor:
    """Return in one L x S mask what the options of a tiled call allow together."""
    masks = [torch.ones(L, S, dtype=torch.bool) if mask is None else mask.cpu()]
    if is_causal:
        masks.append(causal_mask(L, S, align=align))
    if window is not None:
        masks.append(sliding_window_mask(L, S, window=window, align=align))
    return combine_masks(*masks).expand(*masks[0].shape[:-2], L, S)


# --- the numbers of the plain kernel, values and gradients ----------------------------------------


def draw_call(dice: random.Random) -> tuple[list[Tensor], Tensor | None, dict, dict]:
    """Return tensors and a mask that broadcast, what is allowed beside it, and other options."""
    some_lead, rows, columns = draw_leads(dice), dice.randint(1, 20), dice.randint(1, 20)
    ends = ((rows, E), (columns, E), (columns, EV))
    tensors = [reorder(draw(*some_lead(), *end), dice) for end in ends]
    lead = torch.broadcast_shapes(*(tensor.shape[:-2] for tensor in tensors[:2]))
    mask = draw_mask(dice, lead, rows, columns) if dice.random() < 0.7 else None
    band = {
        "is_causal": dice.random() < 0.4,
        "align": dice.choice(["upper_left", "lower_right"]),
        "window": dice.choice([None, None, dice.randint(1, 25)]),
    }
    tile = [np.int64(dice.randint(1, 12)), torch.tensor(dice.randint(1, 12))]
    return tensors, mask, band, {"scale": dice.choice([None, 0.7, 0.0, -2]), "tile": tile}


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("seed", range(5))
def test_drawn_calls_equal_the_plain_kernel_with_gradients(seed, device):
    dice = random.Random(seed)
    for _ in range(40):
        tensors, mask, band, more = draw_call(dice)
        tensors = [tensor.to(device) for tensor in tensors]
        mask = mask if mask is None else mask.to(device)
        whole = whole_mask(tensors[0].shape[-2], tensors[1].shape[-2], mask, **band).to(device)
        ours = run(tiled_attention, tensors, mask, **band, **more)
        theirs = run(scaled_dot_product_attention, tensors, whole, scale=more["scale"])
        assert_same(ours, theirs)
        blocked = ~whole.any(dim=-1, keepdim=True)
        assert (ours["output"].masked_select(blocked) == 0).all()


def test_tiles_of_the_default_size_and_gradients_for_one_of_the_inputs():
    query, key, value = draw_qkv((H,), 300, 600)
    value.requires_grad_()
    outputs = [
        function(query, key, value, is_causal=True)
        for function in (tiled_attention, scaled_dot_product_attention)
    ]
    assert_close(*outputs)
    assert_close(*(torch.autograd.grad(output.sum(), value)[0] for output in outputs))


def test_it_cannot_be_differentiated_twice_and_says_so():
    query, key, value = (tensor.requires_grad_() for tensor in draw_qkv())
    loss = tiled_attention(query, key, value).square().sum()
    (gradient,) = torch.autograd.grad(loss, query, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        gradient.sum().backward()


# --- numbers at the edge --------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1e30, -1e30, 3e38, -3e38])
def test_scores_of_any_finite_size_give_the_weights_of_the_plain_kernel(size):
    query, value = torch.tensor([[1.0]]), torch.arange(4.0)[:, None]
    key = torch.tensor([[size], [size], [size], [5.0]])
    for last in (True, False):
        allowed = torch.tensor([[True, True, False, last]])
        options = {"attn_mask": allowed, "scale": 1 / math.log2(math.e)}
        ours = tiled_attention(query, key, value, tile=(1, 1), **options)
        assert_close(ours, scaled_dot_product_attention(query, key, value, **options))


def test_a_row_whose_scores_overflow_gives_zero_as_in_torch():
    tensors = [torch.full((1, 1, 3, 4), number) for number in (-1e20, 1e20, 1.0)]
    assert not tiled_attention(*tensors).any()
    assert not F.scaled_dot_product_attention(*tensors).any()


def test_a_nan_is_never_hidden():
    query, key, value = draw_qkv()
    query[..., 2, 0], key[0, 0, 0, 0] = NAN, INF  # infinite scores of both signs
    rows = nan_rows(tiled_attention(query, key, value, tile=TILE))
    assert rows == nan_rows(scaled_dot_product_attention(query, key, value))
    assert 2 in rows
    assert 2 < len(rows) < L


@pytest.mark.parametrize("place", [1, 2], ids=["key", "value"])
def test_a_blocked_nan_stays_in_the_tiles_that_are_skipped(place):
    tensors = draw_qkv(L=S)
    tensors[place][..., 9, :] = NAN  # in the tile of keys 6 ... 11
    output = tiled_attention(*tensors, is_causal=True, tile=(6, 6))
    assert nan_rows(output) == list(range(6, S))


# --- memory and work, counted ---------------------------------------------------------------------


class Operations(TorchDispatchMode):
    """Note how many numbers the largest tensor holds, and the shapes of all matrix products."""

    def __init__(self) -> None:
        super().__init__()
        self.largest: dict[torch.dtype, int] = {}  # numbers in one piece of memory
        self.products: list[tuple[int, ...]] = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        for tensor in result if isinstance(result, tuple | list) else [result]:
            if isinstance(tensor, Tensor):
                numbers = tensor.untyped_storage().nbytes() // tensor.element_size()
                self.largest[tensor.dtype] = max(self.largest.get(tensor.dtype, 0), numbers)
        if function.__name__.startswith("bmm"):
            self.products.append(tuple(result.shape))
        return result


def count(function, tensors, **options) -> Operations:
    """Count a call forward and backward."""
    with Operations() as operations:
        run(function, tensors, **options)
    return operations


LONG = 101
PADDING = sequence_mask([LONG, 60])[:, None, None, :]


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize(
    "options",
    [{}, {"attn_mask": PADDING}, {"is_causal": True}, {"window": 20, "align": "lower_right"}],
    ids=["none", "padding", "causal", "window"],
)
def test_no_tensor_is_larger_than_a_tile_or_the_inputs(options, dtype):
    tensors, tile = [tensor.to(dtype) for tensor in draw_qkv(L=LONG, S=LONG)], (16, 32)
    largest = count(tiled_attention, tensors, tile=tile, **options).largest
    assert max(largest.values()) <= max(2 * H * math.prod(tile), N * H * LONG * EV)
    assert largest.get(torch.bool, 0) <= H * math.prod(tile)  # the mask is read tile by tile
    plain = count(scaled_dot_product_attention, tensors, is_causal=True).largest
    assert plain[torch.bool] == LONG * LONG  # the count sees such a tensor


@pytest.mark.parametrize(
    ("mask", "is_causal", "tiles"),
    [
        (None, False, 64),
        (None, True, 36),
        (sequence_mask([45], 64)[:, None, None, :], False, 8 * 6),
        (sequence_mask([45], 64)[:, None, None, :], True, 8 * 9 // 2 - 3),
        (torch.arange(64)[:, None] >= 16, False, 6 * 8),
        (torch.zeros(64, 64, dtype=torch.bool), False, 0),
        (torch.eye(64, dtype=torch.bool), False, 8),
        (sequence_mask([64, 9], 64)[:, None, None, :], False, 64 + 8 * 2),
    ],
    ids=["none", "causal", "padding", "both", "rows", "nothing", "diagonal", "two sequences"],
)
def test_tiles_in_which_nothing_is_allowed_are_not_computed(mask, is_causal, tiles):
    tensors = draw_qkv((len(mask) if mask is not None and mask.ndim == 4 else 1, H), 64, 64)
    options = {"attn_mask": mask, "is_causal": is_causal, "tile": (8, 8)}
    # forward: the scores; backward: the scores again and the gradient of the weights
    assert count(tiled_attention, tensors, **options).products == [(H, 8, 8)] * (3 * tiles)


@pytest.mark.parametrize("align", ["upper_left", "lower_right"])
@pytest.mark.parametrize(("window", "is_causal", "width"), [(5, False, 16), (5, True, 12)])
def test_a_window_costs_its_width_and_not_the_length(window, is_causal, width, align):
    options = {"window": window, "is_causal": is_causal, "align": align, "tile": (8, 64)}
    for size in (64, 512):
        products = count(tiled_attention, draw_qkv((1, 1), size, size), **options).products
        assert len(products) == 3 * size // 8
        assert max(products) == (1, 8, width)  # 8 queries see 8 keys and 4 on each side


# --- what is refused ------------------------------------------------------------------------------

Q, K, V = (torch.ones(tensor.shape) for tensor in draw_qkv())
MASK = torch.ones(L, S, dtype=torch.bool)
BAD = [  # the arguments of a call that differ, the kind of error, and how its sentence begins
    ({"value": V[..., :2, :]}, ValueError, r"key and value must have the same length S"),
    ({"attn_mask": MASK.float()}, TypeError, r"attn_mask must be a bool .* from_key_padding_mask"),
    ({"attn_mask": MASK[:3]}, ValueError, r"attn_mask must broadcast .* \(2, 3, 13, 17\), got"),
    ({"attn_mask": MASK.to("meta")}, ValueError, r"query and attn_mask .* same device"),
    ({"scale": "big"}, TypeError, r"scale must be a number, got str 'big'"),
    ({"is_causal": 1}, TypeError, r"is_causal must be True or False, got int 1"),
    ({"align": "left"}, ValueError, r"align must be 'upper_left' or 'lower_right', got 'left'"),
    ({"window": 0}, ValueError, r"window must be at least 1, got 0"),
    ({"tile": 64}, ValueError, r"tile must be a pair \(queries, keys\), got 64"),
    ({"tile": (0, 8)}, ValueError, r"tile\[0\] must be at least 1, got 0"),
    ({"tile": (8, 0)}, ValueError, r"tile\[1\] must be at least 1, got 0"),
]


@pytest.mark.parametrize(("changed", "kind", "words"), BAD)
def test_a_bad_call_gets_a_sentence(changed, kind, words):
    given = {"query": Q, "key": K, "value": V}
    assert_refused(lambda: tiled_attention(**given | changed), kind, words)


@pytest.mark.filterwarnings("ignore")  # torch.jit is deprecated
@pytest.mark.parametrize(
    "transform",
    [
        lambda loss: torch.func.grad(loss)(Q),
        lambda loss: torch.func.vmap(loss)(Q[None]),
        lambda loss: torch.func.jvp(loss, (Q,), (Q,)),
        lambda loss: torch.jit.trace(loss, [Q]),
    ],
    ids=["grad", "vmap", "jvp", "trace"],
)
def test_under_a_transformation_it_names_the_kernel_that_works(transform):
    words = r"tiled_attention works neither .* torch.func .* use scaled_dot_product_attention"
    assert_refused(
        lambda: transform(lambda query: tiled_attention(query, K, V).sum()), RuntimeError, words
    )
