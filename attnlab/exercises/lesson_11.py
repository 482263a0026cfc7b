"""The checks of lesson 11: positions."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial

import torch
from torch import Tensor

from attnlab.attention import scaled_dot_product_attention
from attnlab.exercises.frame.forms import Compared, Either, Value, bugs_left, randoms
from attnlab.layers.positions import rotate

# --- an angle -------------------------------------------------------------------------------------

POSITION, PAIR, SIZE, BASE = 40, 1, 8, 10_000.0
ANGLE = POSITION * BASE ** (-2 * PAIR / SIZE)


@Value(
    right=ANGLE,
    near=partial(math.isclose, rel_tol=1e-3),  # up to rounding
    slips={
        "Pair 0 turns by 1 radian a step. Pairs are counted from 0, so pair 1 is the second.": 40.0,
        "The exponent is wrong. Pair 1 has i = 1 and d = 8, so −2i / d is −1/4.": Either(
            40 * BASE ** (-1 / 8), 40 * BASE ** (-4 / 8)
        ),
        "The exponent must be negative, because later pairs turn more slowly, not faster.": 400.0,
        "The angle is 4 radians. You have converted it to degrees.": math.degrees(4),
        "That is the angle in turns. Multiply it by 2π.": 4 / math.tau,
    },
    verified="Pair 1 turns by 0.1 radians a step, so after 40 steps it has made almost two thirds "
    "of a turn.",
    otherwise="Pair i turns by base^(−2i / d) radians a step. How many steps are there?",
)
def check_angle_of_pair(_angle: float) -> None:
    """Check by how many radians pair 1 of 8 features is turned at position 40.

    Verified: the angle, up to a thousandth of it.

    Parameters
    ----------
    answer
        The number, or a function without arguments that returns it.

    See Also
    --------
    attnlab.rotate : turns all pairs of all rows.
    """


# --- a rotation at given positions ----------------------------------------------------------------


def turned(x: Tensor, positions: Tensor, base: float = BASE, layout: str = "pairs") -> Tensor:
    """Return the rows, turned by their positions."""
    return rotate(x, positions, base=base, layout=layout)


def with_signs(first: int, second: int) -> Callable[..., Tensor]:
    """Return a rotation that turns the first and the second number of a pair in some direction."""
    return lambda x, positions, base=BASE: torch.where(
        torch.arange(x.shape[-1]) % 2 == 0,
        turned(x, first * positions, base),
        turned(x, second * positions, base),
    )


def overwritten(x: Tensor, positions: Tensor, base: float = BASE) -> Tensor:
    """Turn the second number of a pair with a first one that has been turned already."""
    first = torch.arange(x.shape[-1]) % 2 == 0
    half_done = torch.where(first, turned(x, positions, base), x)
    return torch.where(first, half_done, turned(half_done, positions, base))


@Compared(
    right=turned,
    what="result",
    slips={
        "The second number of a pair is computed with a first one that has been turned already. "
        "x[..., 0::2] is a view, so copy it before you write into it.": overwritten,
        "The pairs and the angles are correct, but your function reflects each pair. A pair (a, b) "
        "becomes (a cos − b sin, a sin + b cos).": lambda x, positions, base=BASE: turned(
            x * (1 - 2 * (torch.arange(x.shape[-1]) % 2)), positions, base
        ),
        "Your function rotates the tokens as if their positions were 0, 1, 2, ..., whatever "
        "positions it is given.": lambda x, _positions, base=BASE: rotate(x, base=base),
        "The positions are shifted. Use them as they are; position 0 turns nothing.": Either(
            lambda x, positions, base=BASE: turned(x, positions + 1, base),
            lambda x, positions, base=BASE: turned(x, positions - positions[0], base),
        ),
        "Your function pairs features of the two halves, i and i + d / 2, but it should pair "
        "neighbouring features.": partial(turned, layout="halves"),
        "A sign is wrong. A pair (a, b) becomes (a cos − b sin, a sin + b cos).": Either(
            with_signs(-1, -1), with_signs(-1, 1), with_signs(1, -1)
        ),
        "The angle has the wrong exponent. A step turns pair i by base^(−2i / d), where d is the "
        "number of features, not of pairs.": Either(
            # the exponents 2i / d, −i / d and −4i / d
            lambda x, positions, base=BASE: turned(x, positions, 1 / base),
            lambda x, positions, base=BASE: turned(x, positions, base**0.5),
            lambda x, positions, base=BASE: turned(x, positions, base**2),
        ),
        "The pairs are turned correctly, but they are not put back as neighbours. Feature 2i and "
        "feature 2i + 1 of the result belong to pair i.": (
            lambda x, positions, base=BASE: (
                turned(x, positions, base).unflatten(-1, (-1, 2)).mT.flatten(-2)
            )
        ),
        "Your function always uses the base 10,000, whatever the base is.": (
            lambda x, positions, base=BASE: turned(x, positions)
        ),
    },
    verified="Your function turns each pair of neighbours by the correct angle in every case we "
    "tried: positions with gaps, a single row, several heads, and another base.",
    otherwise="Work through one row by hand. Which two numbers form pair 0, and by which angle are "
    "they turned?",
    axes=("sequence", "head", "row", "feature"),
    atol=2e-3,
    rtol=1e-3,
    keeps_inputs=True,
)
def check_rotate_at() -> Iterator[tuple[str, tuple]]:
    """Check a rotation of neighbouring features at positions that are given.

    Verified: positions with gaps, a single row, several heads, and another base.

    Parameters
    ----------
    answer
        A function of x (..., L, d), positions (L,) and a base that returns (..., L, d).

    See Also
    --------
    attnlab.rotate : the same, for positions of any shape.
    """
    (x,) = randoms((3, 8))
    yield "positions 2, 3 and 7", (x, torch.tensor([2, 3, 7]))
    yield "one row at position 57", (x[:1], torch.tensor([57]))
    (heads,) = randoms((2, 3, 4, 6), seed=1)
    yield "heads (2, 3, 4, 6)", (heads, torch.arange(4) + 5)
    yield "the base 100", (x, torch.tensor([1, 4, 9]), 100.0)


# --- a broken rotary attention --------------------------------------------------------------------

Turn = Callable[[Tensor], Tensor]


def along_heads(x: Tensor) -> Tensor:
    """Rotate by the index of the head instead of the position."""
    return rotate(x.transpose(1, 2)).transpose(1, 2)


in_halves = partial(rotate, layout="halves")


def rotary(
    query_turn: Turn = rotate,
    key_turn: Turn = rotate,
    value_turn: Turn = torch.clone,
    *,
    is_causal: bool = True,
) -> Callable[..., Tensor]:
    """Return causal attention with rotary positions, perhaps with mistakes."""

    def attend(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        turned = query_turn(query), key_turn(key), value_turn(value)
        return scaled_dot_product_attention(*turned, is_causal=is_causal)

    return attend


BUGS = {
    "the query is rotated by the index of its head instead of the position of its token.": {
        "query_turn": along_heads
    },
    "query and key are rotated in different layouts.": {"key_turn": in_halves},
    "the values are rotated, but only queries and keys should be.": {"value_turn": rotate},
}


@Compared(
    right=rotary(),
    slips={
        **bugs_left(rotary, BUGS),
        "The mask is missing. Pass is_causal=True.": rotary(is_causal=False),
        "The result is the same as without positions. Rotate query and key, each by the position "
        "of its token. If both are rotated by the index of their head, the rotations are equal "
        "within a head and cancel.": rotary(torch.clone, torch.clone),
        "Query and key are rotated in halves, but the task asks for pairs of neighbours.": rotary(
            in_halves, in_halves
        ),
        "The values are still rotated, and query and key are rotated in halves, but the task asks "
        "for pairs of neighbours.": rotary(in_halves, in_halves, rotate),
    },
    verified="All three bugs are gone.",
    otherwise="Follow one tensor at a time. Is it rotated, along which axis, and in which layout? "
    "If all three are correct, look at the mask and the scale.",
    keeps_inputs=True,
)
def check_mended_rotary() -> Iterator[tuple[str, tuple]]:
    """Check causal attention with rotary positions that had three bugs.

    Verified: the output for two shapes of queries, keys and values.

    Parameters
    ----------
    answer
        A function of query, key and value, (N, H, L, head_dim) each.

    See Also
    --------
    attnlab.rotate : turns the last axis by the position on the axis before it.
    """
    yield "query, key and value (2, 3, 5, 8)", randoms(*3 * [(2, 3, 5, 8)])
    yield "query, key and value (1, 4, 4, 6)", randoms(*3 * [(1, 4, 4, 6)], seed=1)


# --- rows in another layout -----------------------------------------------------------------------


def to_halves(weight: Tensor, num_heads: int) -> Tensor:
    """Return the even rows of each head, and then its odd ones."""
    heads = weight.unflatten(0, (num_heads, -1))  # (H, head_dim, E)
    return torch.cat([heads[:, ::2], heads[:, 1::2]], dim=1).flatten(0, 1)


@Compared(
    right=to_halves,
    what="result",
    slips={
        "All rows are reordered at once. Reorder them within each head.": (
            lambda weight, num_heads: to_halves(weight, 1)
        ),
        "Your order of the rows leads from halves back to pairs. The task asks for the "
        "opposite.": lambda weight, num_heads: (
            weight.unflatten(0, (num_heads, 2, -1)).transpose(1, 2).flatten(0, 2)
        ),
        "The columns are reordered, but nn.Linear has a row for each feature of its output.": (
            lambda weight, num_heads: to_halves(weight.T, num_heads).T
        ),
    },
    verified="With a rotation in halves, a layer without biases now gives the same scores as it "
    "gave before with pairs of neighbours.",
    otherwise="Within each head, rows 0, 2, 4, ... must come first, and rows 1, 3, 5, ... must "
    "follow.",
    axes=("row", "column"),
    keeps_inputs=True,
)
def check_to_halves() -> Iterator[tuple[str, tuple]]:
    """Check a function that reorders the rows of a projection from pairs to halves.

    Verified: every row, for 1, 2 and 3 heads.

    Parameters
    ----------
    answer
        A function of weight (E, E) and num_heads that returns a matrix (E, E).

    See Also
    --------
    attnlab.rotate : layout='pairs' and layout='halves'.
    """
    for size, num_heads in ((8, 2), (18, 3), (6, 1)):
        (weight,) = randoms((size, size), seed=size)
        yield f"a matrix ({size}, {size}) and num_heads {num_heads}", (weight, num_heads)
