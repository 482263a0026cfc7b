"""Positions: each scheme against two other ways to compute it, and the property it is made for."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from attnlab import alibi_bias, causal_mask, rotate, sinusoidal_positions, to_additive_mask
from tests.kernels import draw

N, H, L, E = 2, 3, 7, 10
LAYOUTS = ["pairs", "halves"]
BASES = [10_000.0, 100.0, 1.0]
NEAR = {"rtol": 1e-5, "atol": 1e-6}


# --- sinusoidal -----------------------------------------------------------------------------------


def test_waves_are_the_parts_of_complex_numbers_that_turn():
    step = torch.polar(
        torch.ones(E // 2).double(), 10_000.0 ** -(torch.arange(0, E, 2) / E).double()
    )
    turning = torch.ones(E // 2, dtype=torch.complex128)
    for row in sinusoidal_positions(100, E):
        assert_close(row.double(), torch.stack([turning.imag, turning.real], -1).flatten(), **NEAR)
        turning = turning * step


def test_a_dot_product_of_two_positions_depends_on_their_distance_only():
    waves = sinusoidal_positions(40, E).double()
    products = waves @ waves.T
    for far in range(40):
        diagonal = products.diagonal(far)
        assert_close(diagonal, diagonal[:1].expand_as(diagonal), **NEAR)
    assert_close(products.diagonal(), torch.full((40,), E / 2).double(), **NEAR)


def test_the_same_matrix_takes_every_position_a_step_further():
    waves = sinusoidal_positions(60, E).double()
    angle = 3 * 10_000.0 ** -(torch.arange(0, E, 2) / E)
    blocks = [torch.tensor([[a.cos(), -a.sin()], [a.sin(), a.cos()]]) for a in angle]
    assert_close(waves[:-3] @ torch.block_diag(*blocks).double(), waves[3:], **NEAR)


def test_waves_come_in_the_default_dtype():
    assert sinusoidal_positions(3, 4).dtype == torch.float32
    torch.set_default_dtype(torch.float64)
    try:
        assert sinusoidal_positions(3, 4).dtype == torch.float64
    finally:
        torch.set_default_dtype(torch.float32)


# --- rotary ---------------------------------------------------------------------------------------


def partners(layout: str, size: int = E) -> list[tuple[int, int]]:
    half = size // 2
    return [(2 * i, 2 * i + 1) if layout == "pairs" else (i, i + half) for i in range(half)]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_rotation_is_a_product_of_complex_numbers(layout):
    x = draw(N, H, L, E)
    first, second = (list(features) for features in zip(*partners(layout), strict=True))
    points = torch.complex(x[..., first], x[..., second])
    angles = torch.outer(
        torch.arange(L).double(), 10_000.0 ** -(torch.arange(E // 2) * 2 / E).double()
    )
    points = points * torch.polar(torch.ones_like(angles), angles)
    turned = rotate(x, layout=layout)
    assert_close(turned[..., first], points.real)
    assert_close(turned[..., second], points.imag)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shift", [1, 1000, -17, 0.25])
def test_moving_all_positions_by_the_same_number_changes_no_score(layout, shift):
    q, k, places = draw(L, E), draw(L + 1, E)[1:], torch.arange(L).double()
    before = rotate(q, places, layout=layout) @ rotate(k, places, layout=layout).T
    moved = rotate(q, places + shift, layout=layout) @ rotate(k, places + shift, layout=layout).T
    assert_close(moved, before)
    assert not torch.allclose(q @ k.T, before)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_no_row_changes_its_length_and_the_first_stays_as_it_is(layout):
    x = draw(N, H, L, E)
    turned = rotate(x, layout=layout)
    assert_close(turned.norm(dim=-1), x.norm(dim=-1))
    assert torch.equal(turned[..., 0, :], x[..., 0, :])


def test_the_layouts_are_one_rotation_of_features_in_another_order():
    x = draw(L, E)
    order = [*range(0, E, 2), *range(1, E, 2)]  # firsts, then seconds
    assert_close(rotate(x, layout="pairs")[:, order], rotate(x[:, order], layout="halves"))
    assert not torch.allclose(rotate(x, layout="pairs"), rotate(x, layout="halves"))
    assert_close(rotate(x[:, :2], layout="pairs"), rotate(x[:, :2], layout="halves"))


def test_positions_are_0_to_l_unless_given_and_may_differ_between_sentences():
    x = draw(N, H, L, E)
    assert torch.equal(rotate(x), rotate(x, torch.arange(L)))
    padded = torch.stack([torch.arange(L), torch.arange(L) - 2])[:, None]  # (N, 1, L)
    turned = rotate(x, padded)
    assert_close(turned[0], rotate(x[0]))
    assert_close(turned[1, :, 2:], rotate(x[1, :, 2:]))
    one_more = rotate(x[:, :, -1:], torch.tensor([L - 1]))  # a cache asks for one position
    assert_close(one_more, rotate(x)[:, :, -1:])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_far_positions_keep_their_angle_in_every_dtype(dtype):
    x = torch.tensor([[1.0, 0.0]], dtype=dtype)
    turned = rotate(x, torch.tensor([100_003]))
    assert turned.dtype == dtype
    wanted = torch.tensor([[math.cos(100_003), math.sin(100_003)]])
    assert_close(turned.float(), wanted, rtol=0, atol=0.01)


def test_gradients_are_turned_back():
    x = draw(L, E).requires_grad_()
    passed = draw(L, E)
    rotate(x).backward(passed)
    assert_close(x.grad, rotate(passed, -torch.arange(L)))
    torch.autograd.gradcheck(lambda one: rotate(one, layout="halves"), draw(3, 4).requires_grad_())


def test_a_pair_of_waves_is_a_turned_arrow():
    """Sinusoidal vectors are what rotations make of one vector, sine and cosine swapped."""
    up = torch.tensor([1.0, 0.0]).repeat(E // 2).expand(L, E)
    cosines_first = sinusoidal_positions(L, E).unflatten(-1, (-1, 2)).flip(-1).flatten(-2)
    assert_close(rotate(up), cosines_first)


# --- ALiBi ----------------------------------------------------------------------------------------


def slopes_of_the_authors(n: int) -> list[float]:
    """Return the slopes as the published program computes them."""
    if math.log2(n).is_integer():
        start = 2 ** (-(2 ** -(math.log2(n) - 3)))
        return [start * start**i for i in range(n)]
    closest = 2 ** math.floor(math.log2(n))
    return slopes_of_the_authors(closest) + slopes_of_the_authors(2 * closest)[::2][: n - closest]


@pytest.mark.parametrize("heads", [1, 2, 3, 4, 6, 8, 12, 16, 20, 40])
def test_slopes_are_those_of_the_paper(heads):
    slopes = -alibi_bias(heads, 1, 2)[:, 0, 1]
    assert_close(slopes, torch.tensor(slopes_of_the_authors(heads)))
    if heads == 8:
        assert slopes.tolist() == [2.0**-h for h in range(1, 9)]


def test_lower_right_puts_the_last_query_opposite_the_last_key():
    whole = alibi_bias(H, L)
    assert torch.equal(alibi_bias(H, 2, L, align="lower_right"), whole[:, -2:])
    assert not torch.signbit(whole[whole == 0]).any()  # 0, not -0


def test_on_top_of_a_causal_mask_a_bias_for_each_key_is_enough():
    """Rows of scores may be shifted: the published program adds slope * j, which is the same."""
    q, k, v = (draw(N, 4, L, E, dtype=torch.float32) for _ in range(3))
    later = to_additive_mask(causal_mask(L))
    slopes = torch.tensor(slopes_of_the_authors(4))[:, None, None]
    of_keys = slopes * torch.arange(L) + later
    wanted = F.scaled_dot_product_attention(q, k, v, attn_mask=of_keys)
    assert_close(
        F.scaled_dot_product_attention(q, k, v, attn_mask=alibi_bias(4, L) + later), wanted
    )
