"""Three ways to tell attention where words are: add to the tokens, turn q and k, or add to scores.

Attention itself cannot tell one order of its keys from another. A model is told the order by

- vectors that are added to its tokens: ``sinusoidal_positions``, or trained ones (an
  ``nn.Embedding``),
- a rotation of each query and key by an angle that grows with its position: ``rotate``,
- a number that is added to each score and falls with the distance: ``alibi_bias``.
"""

from __future__ import annotations

import torch
from torch import Tensor

from attnlab.checks import (
    check_choice,
    check_floating,
    check_ndim,
    check_number,
    check_size,
    check_tensor,
    shape,
    short,
)
from attnlab.masks import distance

LAYOUTS = ("pairs", "halves")
BASE = 10_000.0


def sinusoidal_positions(
    L: int, embed_dim: int, *, base: float = BASE, device: torch.device | str | None = None
) -> Tensor:
    """Return a vector for each position: sines and cosines of the position, slower and slower.

    Features 2i and 2i + 1 of position m are sin(m w) and cos(m w), where w = base^(-2i / E).

    Parameters
    ----------
    L : int
        Number of positions; the first is 0.
    embed_dim : int
        Number of features E, which must be even.
    base : float
        The larger it is, the more slowly the last features change. Positive.
    device : torch.device or str, optional
        Device of the result; torch's default device if not given.

    Returns
    -------
    Tensor, shape (L, E)
        To be added to the tokens. Of torch's default dtype; every number is between -1 and 1.

    Raises
    ------
    TypeError, ValueError
        If a size is not a nonnegative integer, ``embed_dim`` is odd, ``base`` is not a positive
        number, or ``device`` is unknown.

    See Also
    --------
    torch.nn.Embedding : one trained vector for each position, up to a longest length.
    rotate : turns queries and keys by the same angles instead.

    References
    ----------
    Vaswani et al., "Attention Is All You Need", 2017, section 3.5. https://arxiv.org/abs/1706.03762

    Examples
    --------
    >>> sinusoidal_positions(2, 4)
    tensor([[0.0000, 1.0000, 0.0000, 1.0000],
            [0.8415, 0.5403, 0.0100, 0.9999]])
    """
    L = check_size("L", L, at_least=0)
    embed_dim = check_size("embed_dim", embed_dim, at_least=0)
    _check_even("embed_dim", embed_dim)
    _check_base(base)
    angles = _angles(torch.arange(L, device="cpu"), embed_dim, base)  # (L, E / 2)
    waves = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(-2)  # (L, E)
    return waves.to(device or torch.get_default_device(), torch.get_default_dtype())


def rotate(
    x: Tensor, positions: Tensor | None = None, *, base: float = BASE, layout: str = "pairs"
) -> Tensor:
    """Return queries or keys in which each pair of features is turned by an angle.

    At position m, pair i is turned by m w radians, where w = base^(-2i / E). A dot product of a
    turned query and a turned key depends on their positions through the difference alone.

    Parameters
    ----------
    x : Tensor, shape (..., L, E)
        Queries or keys of one head or of several; E, in a layer head_dim, must be even.
    positions : Tensor of numbers, broadcastable to (..., L), optional
        The position of each row; 0 to L - 1 if not given.
    base : float
        The larger it is, the more slowly the last pairs turn. Positive.
    layout : {"pairs", "halves"}
        Which features make a pair: neighbours, 2i and 2i + 1, or one of each half, i and
        i + E / 2. A model needs the layout with which it was trained.

    Returns
    -------
    Tensor, shape (..., L, E)
        Of the dtype of ``x``; no row changes its length.

    Raises
    ------
    TypeError
        If ``x`` is not a floating-point tensor, or ``positions`` is not a tensor of numbers.
    ValueError
        If ``x`` has fewer than two dimensions or an odd E, ``positions`` does not fit it, ``base``
        is not positive, or ``layout`` is unknown.

    See Also
    --------
    torch.nn.functional.scaled_dot_product_attention : takes the turned queries and keys; values
        are not turned.

    Notes
    -----
    Angles are computed in float64 whatever the dtype of ``x``: in float16 a position above 2,048
    would be rounded.

    References
    ----------
    Su et al., "RoFormer: Enhanced Transformer with Rotary Position Embedding", 2021, section 3.
    https://arxiv.org/abs/2104.09864

    Examples
    --------
    >>> x = torch.ones(3, 2)  # the same vector at three positions
    >>> rotate(x)
    tensor([[ 1.0000,  1.0000],
            [-0.3012,  1.3818],
            [-1.3254,  0.4932]])
    """
    check_floating("x", x)
    check_ndim("x", x, "(L, E)", at_least=2)
    _check_even("the number of features of x (dimension -1)", x.shape[-1])
    _check_base(base)
    check_choice("layout", layout, LAYOUTS)
    if positions is None:
        positions = torch.arange(x.shape[-2], device="cpu")
    else:
        _check_positions(positions, x)
    angles = _angles(positions, x.shape[-1], base)  # (..., L, E / 2)
    cos, sin = angles.cos().to(x), angles.sin().to(x)
    if layout == "pairs":
        first, second = x[..., ::2], x[..., 1::2]
    else:
        first, second = x.chunk(2, dim=-1)
    turned = (first * cos - second * sin, first * sin + second * cos)
    if layout == "halves":
        return torch.cat(turned, dim=-1)
    return torch.stack(turned, dim=-1).flatten(-2)


def alibi_bias(
    num_heads: int,
    L: int,
    S: int | None = None,
    *,
    align: str = "upper_left",
    device: torch.device | str | None = None,
) -> Tensor:
    """Return what to add to the scores so that they fall in proportion to the distance.

    Query i and key j of head h get -slope(h) |i - j|. With H heads, H being a power of 2, the
    slopes are 2^(-8/H), 2^(-16/H), ..., 2^(-8).

    Parameters
    ----------
    num_heads : int
        Number of heads H.
    L : int
        Number of queries.
    S : int, optional
        Number of keys; ``L`` if not given.
    align : {"upper_left", "lower_right"}
        Which query is opposite which key when ``L != S``, as in ``causal_mask``.
    device : torch.device or str, optional
        Device of the result; torch's default device if not given.

    Returns
    -------
    Tensor, shape (H, L, S)
        To be added to the scaled scores, or to be passed as a floating-point ``attn_mask``. Of
        torch's default dtype; every number is 0 or negative.

    Raises
    ------
    TypeError, ValueError
        If a size is not a nonnegative integer, there is no head, or ``align`` or ``device`` is
        unknown.

    See Also
    --------
    torch.nn.functional.scaled_dot_product_attention : adds a floating-point ``attn_mask``.
    to_additive_mask : turns a causal mask into numbers that can be added to the bias.

    Notes
    -----
    If H is not a power of 2, the first slopes are those of the largest power of 2 below H, and the
    others are every second slope of the next power of 2, as in the code of the authors. Their bias
    was made for causal attention, so what later keys get does not matter there.

    References
    ----------
    Press, Smith and Lewis, "Train Short, Test Long: Attention with Linear Biases Enables Input
    Length Extrapolation", 2022, section 3. https://arxiv.org/abs/2108.12409

    Examples
    --------
    >>> alibi_bias(8, 3)[0]  # the first slope is a half
    tensor([[ 0.0000, -0.5000, -1.0000],
            [-0.5000,  0.0000, -0.5000],
            [-1.0000, -0.5000,  0.0000]])
    """
    num_heads = check_size("num_heads", num_heads, at_least=1)
    far = distance(L, S, align, device).abs()  # (L, S)
    slopes = torch.tensor(_slopes(num_heads), device=device)
    return slopes[:, None, None] * -far  # (H, L, S)


# --- helpers --------------------------------------------------------------------------------------


def _angles(positions: Tensor, features: int, base: float) -> Tensor:
    """Return by how many radians each pair of features is turned, (..., features / 2)."""
    exponents = torch.arange(0, features, 2, dtype=torch.float64, device="cpu") / max(features, 1)
    return positions.to("cpu", torch.float64)[..., None] * float(base) ** -exponents


def _slopes(num_heads: int) -> list[float]:
    """Return one slope for each head."""
    power = 2 ** (num_heads.bit_length() - 1)  # the largest power of 2 that is not above H
    slopes = [2 ** (-8 * h / power) for h in range(1, power + 1)]
    more = range(1, 2 * (num_heads - power), 2)  # every second one of twice as many heads
    return slopes + [2 ** (-4 * h / power) for h in more]


def _check_even(name: str, size: int) -> None:
    if size % 2:
        raise ValueError(f"{name} must be even, because features are used in pairs, got {size}.")


def _check_base(base: object) -> None:
    check_number("base", base)
    if base <= 0:
        raise ValueError(f"base must be positive, got {short(base)}.")


def _check_positions(positions: object, x: Tensor) -> None:
    """Raise unless positions are real numbers, one for each row of ``x`` after broadcasting."""
    check_tensor("positions", positions)
    if positions.is_complex() or positions.dtype == torch.bool:
        raise TypeError(f"positions must be numbers, got {positions.dtype}.")
    rows = x.shape[:-1]
    try:
        fits = torch.broadcast_shapes(positions.shape, rows) == rows
    except RuntimeError:
        fits = False
    if not fits:
        raise ValueError(
            f"positions must broadcast to the rows of x, (..., L) = {tuple(rows)}, "
            f"got {shape(positions)}."
        )
