"""Exact attention that never holds the L x S matrix: tile by tile, with an online softmax.

A block of queries looks at one block of keys after the other. Between them three things are
remembered per query: the largest score so far (top), the sum of the exponentials (total) and the
sum of the values weighted by them (output, before it is divided). When a later tile raises top, the
other two shrink by the same factor, so at the end they are what one look at all keys would give.

Scores are kept in base 2, where ``exp(x) = exp2(x * log2(e))``. Letters as in ``attention.py``;
H are the heads of one sequence. A band ``(low, high)`` allows key j to query i where
``low <= j - i <= high``: causal masks and windows of any alignment are bands.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from attnlab._checks import (
    check_choice,
    check_mask,
    check_query_key,
    check_size,
    check_tensor,
    check_value,
)
from attnlab.masks import ALIGNMENTS

LOG2_E = math.log2(math.e)
HALF_PRECISION = (torch.float16, torch.bfloat16)


def tiled_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    attn_mask: Tensor | None = None,
    is_causal: bool = False,
    align: str = "upper_left",
    window: int | None = None,
    scale: float | None = None,
    tile: tuple[int, int] = (256, 512),
) -> Tensor:
    """Return the attention output, computed tile by tile without the L x S matrix.

    The numbers of ``scaled_dot_product_attention``, forward and backward, to rounding.

    Parameters
    ----------
    query : Tensor, shape (..., L, E)
        What each position asks for.
    key : Tensor, shape (..., S, E)
        What each position is found by.
    value : Tensor, shape (..., S, Ev)
        What each position hands over.
    attn_mask : Tensor of bool, broadcastable to (..., L, S), optional
        True where query i may attend to key j; at least two dimensions. It is read tile by tile
        and never expanded: give a padding mask as (N, 1, 1, S).
    is_causal : bool
        Block every key that comes after the query, as ``causal_mask`` does.
    align : {"upper_left", "lower_right"}
        Which key stands opposite a query when ``L != S``, for ``is_causal`` and ``window``.
    window : int, optional
        Allow only keys nearer than this, before or after, as ``sliding_window_mask`` does.
        ``attn_mask``, ``is_causal`` and ``window`` may be combined: all of them must allow a key.
    scale : float, optional
        Factor on the dot products; ``1 / sqrt(E)`` if not given.
    tile : tuple of int
        Queries and keys of a tile. Changes time and memory, and the result by rounding only.

    Returns
    -------
    Tensor, shape (..., L, Ev)
        0 in a row where every key is blocked.

    Raises
    ------
    TypeError
        If an argument is no floating point tensor, dtypes differ, ``attn_mask`` is not boolean, or
        a size is no integer.
    ValueError
        If shapes do not fit, ``align`` is unknown, or a size is not positive.

    See Also
    --------
    torch.nn.functional.scaled_dot_product_attention : the fused twin; no window, no alignment.
    attnlab.scaled_dot_product_attention : the plain kernel; also float masks and dropout.

    Notes
    -----
    Forward 2 L S (E + Ev) floating point operations per head, backward 2 L S (3 E + 2 Ev), since
    it computes the weights again; tiles in which nothing may be looked at cost nothing. Memory
    beyond inputs, output and gradients: H tile[0] tile[1] numbers for one tile, 4 MiB for 8 heads
    in float32, whatever L and S are, and 2 numbers per query and head for the backward pass.

    What makes it about as fast as the fused kernel: ``exp2``, which on a CPU takes a fraction of
    the time of ``exp`` and is not slow at -inf; one buffer for all tiles; tiles large enough
    for the matrix product and small enough for the cache; one sequence at a time, so that a tile
    of all its heads stays there; masked tiles skipped.

    There is no dropout. A NaN in a blocked value reaches the output only from a tile that is
    not skipped. A row whose scores all overflow to -inf gives 0, as in torch; the plain kernel
    gives NaN.

    References
    ----------
    Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018.
    https://arxiv.org/abs/1805.02867
    Dao et al., "FlashAttention", 2022, section 3.1. https://arxiv.org/abs/2205.14135

    Examples
    --------
    >>> x = torch.arange(6.0).reshape(3, 2)
    >>> tiled_attention(x, x, x, is_causal=True, window=1, tile=(2, 1))
    tensor([[0., 1.],
            [2., 3.],
            [4., 5.]])
    """
    check_query_key(query, key)
    check_value(query, key, value)
    _check_tile(tile)
    L, S = query.shape[-2], key.shape[-2]
    lead = torch.broadcast_shapes(query.shape[:-2], key.shape[:-2])
    if attn_mask is not None:
        _check_boolean_mask(attn_mask, torch.Size([*lead, L, S]))
    band = _band(L, S, is_causal, align, window)
    scale = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    lead = torch.broadcast_shapes(lead, value.shape[:-2])
    groups = lead or (1,)  # without leading dimensions: one head
    tensors = [_widen(tensor).expand(*groups, -1, -1) for tensor in (query, key, value)]
    if attn_mask is not None:
        attn_mask = attn_mask[(None,) * (len(groups) + 2 - attn_mask.ndim)]
        attn_mask = attn_mask.expand(*groups[:-1], -1, -1, -1)  # a view that copies nothing
    output = _Tiled.apply(*tensors, attn_mask, scale, band, tile)  # (..., H, L, Ev)
    return output.reshape(*lead, L, value.shape[-1]).to(query.dtype)


class _Tiled(torch.autograd.Function):
    """One sequence after the other, so that the tile of all its heads stays in the cache."""

    @staticmethod
    def forward(ctx, query, key, value, mask, scale, band, tile):
        output = query.new_zeros(*query.shape[:-1], value.shape[-1])  # (..., H, L, Ev)
        top = query.new_full((*query.shape[:-1], 1), torch.finfo(query.dtype).min)
        total = torch.zeros_like(top)
        for sequence in _sequences(query, key, value, mask, output, top, total):
            _forward(sequence, scale, band, tile)
        ctx.save_for_backward(query, key, value, mask, output, top, total)
        ctx.options = scale, band, tile
        return output

    @staticmethod
    @once_differentiable
    def backward(ctx, pull):
        tensors = ctx.saved_tensors
        gradients = [pull.new_zeros(tensor.shape) for tensor in tensors[:3]]
        for sequence in _sequences(*tensors, pull, *gradients):
            _backward(sequence, *ctx.options)
        return *gradients, None, None, None, None


def _forward(sequence: list[Tensor], scale: float, band: tuple, tile: tuple) -> None:
    """Fill output (H, L, Ev), and top and total (H, L, 1), of one sequence."""
    query, key, value, mask, output, top, total = sequence
    buffer = _buffer(query, key, tile)
    for rows in _blocks(0, query.shape[1], tile[0]):
        block_top, block_total, block_output = top[:, rows], total[:, rows], output[:, rows]
        queries = query[:, rows] * (scale * LOG2_E)
        for cols, scores in _score_tiles(queries, key, mask, rows, band, tile[1], buffer):
            new_top = torch.maximum(block_top, scores.amax(dim=-1, keepdim=True))
            shrink = torch.exp2(block_top - new_top)  # what was added up before was too large
            exponentials = scores.sub_(new_top).exp2_()
            block_total.mul_(shrink).add_(exponentials.sum(dim=-1, keepdim=True))
            block_output.mul_(shrink).baddbmm_(exponentials, value[:, cols])
            block_top.copy_(new_top)
        block_total.masked_fill_(block_total == 0, 1)  # nothing to look at: 0 / 1, not 0 / 0
        block_output.div_(block_total)


def _backward(sequence: list[Tensor], scale: float, band: tuple, tile: tuple) -> None:
    """Add up the gradients; the weights, exponentials / total, are made again tile by tile."""
    query, key, value, mask, output, top, total, pull, d_query, d_key, d_value = sequence
    buffer = _buffer(query, key, tile)
    for rows in _blocks(0, query.shape[1], tile[0]):
        queries = query[:, rows] * (scale * LOG2_E)
        pulls = pull[:, rows] / total[:, rows]  # instead of dividing every tile of weights
        shift = (pulls * output[:, rows]).sum(dim=-1, keepdim=True)
        for cols, scores in _score_tiles(queries, key, mask, rows, band, tile[1], buffer):
            exponentials = scores.sub_(top[:, rows]).exp2_()
            d_value[:, cols].baddbmm_(exponentials.mT, pulls)
            d_scores = torch.bmm(pulls, value[:, cols].mT).sub_(shift).mul_(exponentials)
            d_query[:, rows].baddbmm_(d_scores, key[:, cols], alpha=scale)
            d_key[:, cols].baddbmm_(d_scores.mT, query[:, rows], alpha=scale)


def _score_tiles(
    queries: Tensor,
    key: Tensor,
    mask: Tensor | None,
    rows: slice,
    band: tuple[int, int],
    width: int,
    buffer: Tensor,
) -> Iterator[tuple[slice, Tensor]]:
    """Yield (cols, scores), -inf where blocked, of the tiles in which some key is allowed."""
    first, last = max(0, rows.start + band[0]), min(key.shape[1], rows.stop + band[1])
    for cols in _blocks(first, last, width):
        allowed = _allowed(mask, rows, cols, band, key.device)
        if allowed is not None and not allowed.any():
            continue
        shape = (*queries.shape[:2], cols.stop - cols.start)  # (H, rows, cols)
        scores = buffer[: math.prod(shape)].view(shape)
        torch.bmm(queries, key[:, cols].mT, out=scores)
        yield cols, scores if allowed is None else scores.masked_fill_(~allowed, -torch.inf)


def _allowed(
    mask: Tensor | None, rows: slice, cols: slice, band: tuple[int, int], device: torch.device
) -> Tensor | None:
    """Return where a tile may be looked at, (rows, cols) or with heads; None if everywhere."""
    height, width = rows.stop - rows.start, cols.stop - cols.start
    low, high = (bound + rows.start - cols.start for bound in band)  # counted within the tile
    allowed = None
    if low > 1 - height or high < width - 1:
        allowed = torch.ones(height, width, dtype=torch.bool, device=device).tril_(high).triu_(low)
    if mask is None:
        return allowed
    part = mask[
        :,
        rows if mask.shape[1] > 1 else slice(None),
        cols if mask.shape[2] > 1 else slice(None),
    ]  # sides of length 1 stay so
    if part.all():
        return allowed
    return part if allowed is None else part & allowed


def _band(L: int, S: int, is_causal: bool, align: str, window: int | None) -> tuple[int, int]:
    """Return (low, high): query i may look at key j only where low <= j - i <= high."""
    check_choice("align", align, ALIGNMENTS)
    opposite = S - L if align == "lower_right" else 0  # query i stands opposite key i + opposite
    low, high = -L, S
    if window is not None:
        check_size("window", window, at_least=1)
        low, high = opposite - window + 1, opposite + window - 1
    return low, opposite if is_causal else high


def _blocks(first: int, last: int, size: int) -> Iterator[slice]:
    """Yield the slices of at most ``size`` positions that cover first ... last - 1."""
    for start in range(first, last, size):
        yield slice(start, min(start + size, last))


def _buffer(query: Tensor, key: Tensor, tile: tuple[int, int]) -> Tensor:
    """Return room for the scores of one tile of all heads."""
    rows, cols = min(tile[0], query.shape[1]), min(tile[1], key.shape[1])
    return query.new_empty(query.shape[0] * rows * cols)


def _sequences(*tensors: Tensor | None) -> Iterator[list[Tensor | None]]:
    """Yield the three-dimensional parts (H, ...) of the tensors, one sequence at a time."""
    for index in itertools.product(*map(range, tensors[0].shape[:-3])):
        yield [None if tensor is None else tensor[index] for tensor in tensors]


def _widen(tensor: Tensor) -> Tensor:
    return tensor.float() if tensor.dtype in HALF_PRECISION else tensor


def _check_boolean_mask(attn_mask: Tensor, weights_shape: torch.Size) -> None:
    check_tensor("attn_mask", attn_mask)
    if attn_mask.is_floating_point():
        raise TypeError(
            f"attn_mask must be a bool tensor (True = may attend), got {attn_mask.dtype}; "
            "for a mask that is added to the scores use scaled_dot_product_attention."
        )
    check_mask(attn_mask, weights_shape, torch.bool)


def _check_tile(tile: tuple[int, int]) -> None:
    if not isinstance(tile, tuple | list) or len(tile) != 2:
        raise ValueError(f"tile must be a pair (queries, keys), got {tile!r}.")
    for name, size in zip(("tile[0]", "tile[1]"), tile, strict=True):
        check_size(name, size, at_least=1)
