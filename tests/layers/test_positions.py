"""Positions: each scheme against another way to compute it, and the property it is made for."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from attnlab import alibi_bias, rotate, sinusoidal_positions
from tests.helper.common import draw, refuses

N, H, L, E = 2, 3, 7, 10
LAYOUTS = ["pairs", "halves"]
BASES = [10_000.0, 100, 1.0]


def turning(positions: Tensor, size: int, base: float = 10_000.0) -> Tensor:
    """Return a complex number of length 1 for each position and pair of features."""
    angles = torch.outer(positions.double(), base ** -(torch.arange(0, size, 2).double() / size))
    return torch.polar(torch.ones_like(angles), angles)


def partners(layout: str, size: int = E) -> tuple[list[int], list[int]]:
    """Return the first features of all pairs, and the second ones."""
    if layout == "pairs":
        return [*range(0, size, 2)], [*range(1, size, 2)]
    return [*range(size // 2)], [*range(size // 2, size)]


# --- sinusoidal -----------------------------------------------------------------------------------


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("size", [2, E])
def test_waves_are_the_parts_of_complex_numbers_that_turn(size, base):
    numbers = turning(torch.arange(100), size, base)
    waves = sinusoidal_positions(torch.tensor(100), np.int64(size), base=base)
    assert_close(waves[:, ::2].double(), numbers.imag, rtol=1e-5, atol=1e-6)
    assert_close(waves[:, 1::2].double(), numbers.real, rtol=1e-5, atol=1e-6)


def test_waves_come_in_the_default_dtype_and_all_numbers_on_the_device_that_is_asked_for():
    assert sinusoidal_positions(3, 4).dtype == torch.float32
    assert sinusoidal_positions(3, 4, device="meta").is_meta
    torch.set_default_dtype(torch.float64)
    try:
        assert sinusoidal_positions(3, 4).dtype == torch.float64
    finally:
        torch.set_default_dtype(torch.float32)
    with torch.device("meta"):
        assert sinusoidal_positions(3, 4).is_meta
        assert sinusoidal_positions(3, 4, device="cpu").is_cpu
        assert alibi_bias(H, L).is_meta
        assert alibi_bias(H, L, device="cpu").is_cpu
    assert sinusoidal_positions(0, 4).shape == (0, 4)
    assert sinusoidal_positions(3, 0).shape == (3, 0)


# --- rotary ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shift", [0, 1000, -17, 0.25])
def test_a_rotation_is_a_product_of_complex_numbers(layout, base, shift):
    x, (first, second), places = draw(N, H, L, E), partners(layout), torch.arange(L) + shift
    points = torch.complex(x[..., first], x[..., second]) * turning(places, E, base)
    turned = rotate(x, places if shift else None, base=base, layout=layout)
    assert_close(turned[..., first], points.real)
    assert_close(turned[..., second], points.imag)
    if (layout, base, shift) == ("pairs", 10_000, 0):
        assert torch.equal(rotate(x), turned)


def test_positions_may_differ_between_sentences_and_a_cache_asks_for_one():
    x = draw(N, H, L, E)
    padded = torch.stack([torch.arange(L), torch.arange(L) - 2])[:, None]  # (N, 1, L)
    turned = rotate(x, padded)
    assert_close(turned[0], rotate(x[0]))
    assert_close(turned[1, :, 2:], rotate(x[1, :, 2:]))
    assert_close(rotate(x[:, :, -1:], torch.tensor([L - 1])), rotate(x)[:, :, -1:])
    assert rotate(x[..., :0]).shape == (N, H, L, 0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_far_positions_keep_their_angle_in_every_dtype(dtype):
    turned = rotate(torch.tensor([[1.0, 0.0]], dtype=dtype), torch.tensor([100_003]))
    assert turned.dtype == dtype
    wanted = torch.tensor([[math.cos(100_003), math.sin(100_003)]])
    assert_close(turned.float(), wanted, rtol=0, atol=0.01)


def test_gradients_are_turned_back_and_the_device_stays():
    x, passed = draw(L, E).requires_grad_(), draw(L, E)
    rotate(x).backward(passed)
    assert_close(x.grad, rotate(passed, -torch.arange(L)))
    with torch.device("meta"):
        assert rotate(passed).is_cpu
    assert rotate(passed.to("meta")).is_meta


# --- ALiBi ----------------------------------------------------------------------------------------


def slopes_of_the_authors(n: int) -> list[float]:
    """Return the slopes as the published program computes them."""
    if math.log2(n).is_integer():
        start = 2 ** (-(2 ** -(math.log2(n) - 3)))
        return [start * start**i for i in range(n)]
    closest = 2 ** math.floor(math.log2(n))
    return slopes_of_the_authors(closest) + slopes_of_the_authors(2 * closest)[::2][: n - closest]


@pytest.mark.parametrize("heads", [1, 2, 3, 4, 6, 8, np.int64(12), torch.tensor(16), 20, 40])
def test_a_bias_is_the_distance_times_the_slopes_of_the_paper(heads):
    slopes = torch.tensor(slopes_of_the_authors(int(heads)))
    for size, align, places in (
        ((L,), "upper_left", range(L)),
        ((3, L), "upper_left", range(3)),
        ((np.uint8(3), L), "lower_right", range(L - 3, L)),
        ((L, np.uint8(3)), "lower_right", range(3 - L, 3)),
    ):
        distance = torch.tensor([[abs(j - i) for j in range(size[-1])] for i in places])
        bias = alibi_bias(heads, *size, align=align)
        assert_close(bias, -slopes[:, None, None] * distance)
        assert not torch.signbit(bias[bias == 0]).any()  # 0, not -0


# --- what is refused ------------------------------------------------------------------------------

X, FLAGS = torch.ones(2, 3, 5, 8), torch.ones(5, dtype=torch.bool)
BAD = [  # a call, the kind of error, and how its sentence begins
    (lambda: rotate(X[..., :7]), ValueError, r"the number of features of x .* even, .* got 7"),
    (lambda: rotate(X[0, 0, 0]), ValueError, r"x must have at least 2 dimensions \(L, E\), got"),
    (lambda: rotate(X.int()), TypeError, r"x must be a floating-point tensor, got torch.int32"),
    (lambda: rotate(X, [0, 1]), TypeError, r"positions must be a torch.Tensor, got list"),
    (lambda: rotate(X, base="10"), TypeError, r"base must be a number, got str '10'"),
    (lambda: rotate(X, FLAGS), TypeError, r"positions must be numbers, got torch.bool"),
    (lambda: rotate(X, FLAGS.int()[:3]), ValueError, r"positions .* \(2, 3, 5\), got \(3,\)"),
    (lambda: rotate(X, X[None, ..., 0]), ValueError, r"positions .* got \(1, 2, 3, 5\)"),
    (lambda: rotate(X, layout="mixed"), ValueError, r"layout must be 'pairs' or 'halves', got"),
    (lambda: rotate(X, base=0), ValueError, r"base must be positive, got 0"),
    (lambda: sinusoidal_positions(5, 11), ValueError, r"embed_dim must be even, .* got 11"),
    (lambda: sinusoidal_positions(-1, 4), ValueError, r"L must be at least 0, got -1"),
    (lambda: sinusoidal_positions(1, -2), ValueError, r"embed_dim must be at least 0, got -2"),
    (lambda: sinusoidal_positions(1, 2, base=-1), ValueError, r"base must be positive, got -1"),
    (lambda: alibi_bias(0, 3), ValueError, r"num_heads must be at least 1, got 0"),
    (lambda: alibi_bias(2, 3, align="left"), ValueError, r"align must be 'upper_left' or"),
]


test_a_bad_call_gets_a_sentence = refuses(BAD)
