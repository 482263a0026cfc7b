"""Tiled attention gives the numbers of the plain kernel and never makes an L x S tensor."""

import math
import random

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
from tests.kernels import INF, NAN, assert_same, draw, nan_rows, random_leads, run

N, H, L, S, E, EV = 2, 3, 13, 17, 5, 7  # distinct primes: no axis can pass for another
TILE = (5, 8)  # ragged at the end of all of them
DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]


def draw_qkv(lead: tuple[int, ...] = (N, H), L: int = L, S: int = S, Ev: int = EV) -> list[Tensor]:
    return [draw(*lead, L, E), draw(*lead, S, E), draw(*lead, S, Ev)]


def whole_mask(L: int, S: int, mask: Tensor | None, **options) -> Tensor:
    """Return in one L x S mask what the options of a tiled call allow together."""
    align = options.get("align", "upper_left")
    masks = [torch.ones(L, S, dtype=torch.bool)]
    if options.get("is_causal"):
        masks.append(causal_mask(L, S, align=align))
    if options.get("window") is not None:
        masks.append(sliding_window_mask(L, S, window=options["window"], align=align))
    if mask is not None:
        masks = [mask, *(other.to(mask.device) for other in masks)]
    return combine_masks(*masks)


def assert_same_as_plain(tensors, mask, **options) -> None:
    """Assert that values and gradients are those of the plain kernel under one whole mask.

    A query without an allowed key has 0 as output and as gradient, exactly.
    """
    whole = whole_mask(tensors[0].shape[-2], tensors[1].shape[-2], mask, **options)
    whole = whole.to(tensors[0].device)
    ours = run(tiled_attention, tensors, mask, **options)
    assert all(tensor.isfinite().all() for tensor in ours.values())
    assert_same(ours, run(scaled_dot_product_attention, tensors, whole, scale=options["scale"]))
    seeing = whole.any(dim=-1, keepdim=True)
    assert (ours["output"].masked_select(~seeing) == 0).all()
    nowhere = ~seeing.flatten(0, -3).any(dim=0) if seeing.ndim > 2 else ~seeing
    assert (ours["query"].masked_select(nowhere) == 0).all()


# --- the numbers of the plain kernel and of torch, values and gradients ---------------------------


def random_call(dice: random.Random) -> tuple[list[Tensor], Tensor | None, dict[str, object]]:
    """Return tensors, a mask and options of random shapes that fit each other."""
    some_lead = random_leads(dice)
    rows, columns = dice.randint(1, 20), dice.randint(1, 20)
    tensors = [draw(*some_lead(), *end) for end in ((rows, E), (columns, E), (columns, EV))]
    lead = torch.broadcast_shapes(*(tensor.shape[:-2] for tensor in tensors[:2]))
    kept = lead[dice.randint(0, len(lead)) :]
    shape = [size if dice.random() < 0.6 else 1 for size in (*kept, rows, columns)]
    mask = torch.rand(shape) < dice.choice([0.1, 0.5, 0.95]) if dice.random() < 0.7 else None
    options = {
        "is_causal": dice.random() < 0.4,
        "align": dice.choice(["upper_left", "lower_right"]),
        "window": dice.choice([None, None, dice.randint(1, 25)]),
        "scale": dice.choice([None, 0.7, 0.0]),
        "tile": (dice.randint(1, 12), dice.randint(1, 12)),
    }
    return tensors, mask, options


@pytest.mark.parametrize("device", DEVICES)
def test_equals_the_plain_kernel_for_random_shapes_tiles_and_masks(device):
    dice = random.Random(0)
    for _ in range(200):
        tensors, mask, options = random_call(dice)
        tensors = [tensor.to(device) for tensor in tensors]
        assert_same_as_plain(tensors, mask if mask is None else mask.to(device), **options)


@pytest.mark.parametrize("options", [{}, {"is_causal": True, "window": 3}], ids=str)
def test_the_gradients_are_those_of_finite_differences(options):
    tensors = [draw(4, 2), draw(5, 2), draw(5, 3)]
    mask = torch.rand(4, 5) < 0.6
    mask[2] = False
    assert torch.autograd.gradcheck(
        lambda *leaves: tiled_attention(*leaves, attn_mask=mask, tile=(3, 2), **options),
        [tensor.requires_grad_() for tensor in tensors],
    )


def test_gradients_for_some_of_the_inputs_only():
    query, key, value = draw_qkv()
    value.requires_grad_()
    (ours,) = torch.autograd.grad(tiled_attention(query, key, value, tile=TILE).sum(), value)
    (theirs,) = torch.autograd.grad(scaled_dot_product_attention(query, key, value).sum(), value)
    assert_close(ours, theirs)


def test_without_gradients_nothing_is_kept():
    leaves = [tensor.requires_grad_() for tensor in draw_qkv()]
    for context in (torch.no_grad(), torch.inference_mode()):
        with context:
            assert tiled_attention(*leaves, tile=TILE).grad_fn is None


def test_it_cannot_be_differentiated_twice_and_says_so():
    query, key, value = (tensor.requires_grad_() for tensor in draw_qkv())
    loss = tiled_attention(query, key, value).square().sum()
    (gradient,) = torch.autograd.grad(loss, query, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        gradient.sum().backward()


# --- rows that may look at nothing, and numbers at the edge ---------------------------------------


@pytest.mark.parametrize("size", [1e30, -1e30, 3e38, -3e38])
def test_scores_of_any_finite_size_give_the_weights_of_the_plain_kernel(size):
    query, value = torch.tensor([[1.0]]), torch.arange(4.0)[:, None]
    key = torch.tensor([[size], [size], [size], [5.0]])
    mask = torch.tensor([[True, True, False, True]])
    for allowed in (mask, torch.tensor([[True, True, False, False]])):
        options = {"attn_mask": allowed, "scale": 1 / math.log2(math.e)}
        ours = tiled_attention(query, key, value, tile=(1, 1), **options)
        assert_close(ours, scaled_dot_product_attention(query, key, value, **options))


def test_a_row_whose_scores_overflow_gives_zero_as_in_torch():
    query, key, value = torch.full((2, 4), -1e20), torch.full((3, 4), 1e20), torch.ones(3, 4)
    tensors = [tensor[None, None] for tensor in (query, key, value)]
    output = tiled_attention(*tensors)
    assert torch.equal(output, torch.zeros(1, 1, 2, 4))
    assert torch.equal(output, F.scaled_dot_product_attention(*tensors))


def test_a_nan_is_never_hidden():
    query, key, value = draw_qkv()
    query[..., 2, 0], key[0, 0, 0, 0] = NAN, INF  # infinite scores of both signs
    rows = nan_rows(tiled_attention(query, key, value, tile=TILE))
    assert rows == nan_rows(scaled_dot_product_attention(query, key, value))
    assert 2 in rows
    assert 2 < len(rows) < L


@pytest.mark.parametrize("place", ["key", "value"])
def test_a_blocked_nan_stays_in_the_tiles_that_are_skipped(place):
    query, key, value = draw_qkv(L=S)
    {"key": key, "value": value}[place][..., 9, :] = NAN  # in the tile of keys 6 ... 11
    output = tiled_attention(query, key, value, is_causal=True, tile=(6, 6))
    assert nan_rows(output) == list(range(6, S))


# --- memory and work, counted ---------------------------------------------------------------------


class Operations(TorchDispatchMode):
    """Remember the largest tensor of each dtype and the shapes of all matrix products."""

    def __init__(self, given: Tensor | None = None) -> None:
        super().__init__()
        self.given = given  # not counted: it is not made here
        self.largest: dict[torch.dtype, int] = {}  # numbers in one piece of memory
        self.products: list[tuple[int, ...]] = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        for tensor in result if isinstance(result, tuple | list) else [result]:
            if isinstance(tensor, Tensor):
                self.note(tensor)
        if function.__name__.startswith("bmm"):
            self.products.append(tuple(result.shape))
        return result

    def note(self, tensor: Tensor) -> None:
        memory = tensor.untyped_storage()
        if self.given is None or memory.data_ptr() != self.given.untyped_storage().data_ptr():
            numbers = memory.nbytes() // tensor.element_size()
            self.largest[tensor.dtype] = max(self.largest.get(tensor.dtype, 0), numbers)


def count(function, tensors, **options) -> Operations:
    """Count a call forward and backward."""
    with Operations(options.get("attn_mask")) as operations:
        run(function, tensors, **options)
    return operations


LONG = 101


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("mask", ["none", "padding", "causal", "window", "whole"])
def test_no_tensor_is_larger_than_a_tile_or_the_inputs(mask, dtype):
    tensors, tile = [tensor.to(dtype) for tensor in draw_qkv(L=LONG, S=LONG)], (16, 32)
    options = {
        "padding": {"attn_mask": sequence_mask([LONG, 60])[:, None, None, :]},
        "causal": {"is_causal": True},
        "window": {"window": 20, "align": "lower_right"},
        "whole": {"attn_mask": torch.rand(LONG, LONG) < 0.5},
    }.get(mask, {})
    largest = count(tiled_attention, tensors, tile=tile, **options).largest
    allowed = max(2 * H * math.prod(tile), N * H * LONG * EV)
    assert allowed < LONG * LONG / 2
    assert max(largest.values()) <= allowed
    assert largest.get(torch.bool, 0) <= H * math.prod(tile)  # the mask is read tile by tile


def test_the_memory_count_sees_the_matrices_of_the_plain_kernel():
    largest = count(scaled_dot_product_attention, draw_qkv(L=LONG, S=LONG), is_causal=True).largest
    assert largest[torch.float64] == N * H * LONG * LONG
    assert largest[torch.bool] == LONG * LONG


def tiles_with_something(whole: Tensor, tile: tuple[int, int]) -> int:
    """Return how many tiles of a grid hold an allowed key in some sequence and head."""
    rows = whole.split(tile[0], dim=-2)
    return sum(bool(part.any()) for row in rows for part in row.split(tile[1], dim=-1))


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
    ],
    ids=["none", "causal", "padding", "padding, causal", "blocked rows", "nothing", "diagonal"],
)
def test_tiles_in_which_nothing_is_allowed_are_not_computed(mask, is_causal, tiles):
    options = {"attn_mask": mask, "is_causal": is_causal}
    assert tiles_with_something(whole_mask(64, 64, mask, is_causal=is_causal), (8, 8)) == tiles
    products = count(tiled_attention, draw_qkv((1, H), 64, 64), tile=(8, 8), **options).products
    # forward: the scores; backward: the scores again and the gradient of the weights
    assert products == [(H, 8, 8)] * (3 * tiles)


def test_each_sequence_skips_its_own_padding():
    mask = sequence_mask([64, 9], 64)[:, None, None, :]
    tensors = draw_qkv((2, H), 64, 64)
    products = count(tiled_attention, tensors, attn_mask=mask, tile=(64, 8)).products
    assert len(products) == 3 * (8 + 2)


@pytest.mark.parametrize("align", ["upper_left", "lower_right"])
@pytest.mark.parametrize(("window", "is_causal", "width"), [(5, False, 16), (5, True, 12)])
def test_a_window_costs_its_width_and_not_the_length(window, is_causal, width, align):
    options = {"window": window, "is_causal": is_causal, "align": align, "tile": (8, 64)}
    for size in (64, 512):
        tensors = draw_qkv((1, 1), size, size)
        products = count(tiled_attention, tensors, **options).products
        assert len(products) == 3 * size // 8
        assert max(products) == (1, 8, width)  # 8 queries see 8 keys and 4 on each side
