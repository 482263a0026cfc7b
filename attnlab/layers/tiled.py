"""Exact attention that never holds the L x S matrix: tile by tile, with an online softmax.

A block of queries attends to one block of keys after the other. Between blocks, three numbers are
kept per query: the largest score so far (top), the sum of the exponentials (total) and the sum of
the values weighted by them (output, before it is divided). When a later tile raises top, the other
two shrink by the same factor, so at the end they are what all keys at once would have given.

Scores are kept in base 2, where ``exp(x) = exp2(x * log2(e))``. Letters as in ``attention.py``;
H counts the heads of one sequence. A band ``(low, high)`` allows key j to query i where
``low <= j - i <= high``: causal masks and windows of any alignment are bands.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from attnlab.checks import (
    check_choice,
    check_flag,
    check_mask,
    check_query_key,
    check_same_device,
    check_scale,
    check_size,
    check_value,
    short,
)
from attnlab.masks import ALIGNMENTS

LOG2_E = math.log2(math.e)
Tensors = Sequence[Tensor]


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
    query, key, value, scale
        As in ``scaled_dot_product_attention``.
    attn_mask : Tensor of bool, broadcastable to (..., L, S), optional
        True where query i may attend to key j; at least two dimensions. It is read tile by tile
        and never expanded, so give a padding mask as (N, 1, 1, S).
    is_causal : bool
        Block every key that comes after the query, as ``causal_mask`` does.
    align : {"upper_left", "lower_right"}
        Which key a query is paired with when ``L != S``, for ``is_causal`` and ``window``.
    window : int, optional
        Allow only keys nearer than this, before or after, as ``sliding_window_mask`` does.
        ``attn_mask``, ``is_causal`` and ``window`` may be combined: all of them must allow a key.
    tile : tuple of int
        Queries and keys of a tile. Affects time and memory, and the result only by rounding.

    Returns
    -------
    Tensor, shape (..., L, Ev)
        0 in a row where every key is blocked.

    Raises
    ------
    TypeError
        If an argument is not a floating-point tensor, dtypes differ, ``attn_mask`` is not boolean,
        or an option has the wrong type.
    ValueError
        If shapes or devices do not fit, ``align`` is unknown, or a size is not positive.
    RuntimeError
        Under ``torch.jit.trace`` or a transform of ``torch.func``, such as ``grad`` or ``vmap``.

    See Also
    --------
    torch.nn.functional.scaled_dot_product_attention : the fused twin; no window, no alignment.
    attnlab.scaled_dot_product_attention : the plain kernel; also float masks and dropout.

    Notes
    -----
    Forward 2 L S (E + Ev) floating point operations per head, backward 2 L S (3 E + 2 Ev), since
    it computes the weights again; tiles in which every key is blocked cost nothing. Memory
    beyond inputs, output and gradients: H tile[0] tile[1] numbers for one tile (two in the
    backward pass), 4 MiB for 8 heads in float32, whatever L and S are, and 2 numbers per query and
    head for the backward pass. Half precision is copied to float32 and rounded at the end.

    Four things bring it near the fused kernel (``make bench`` measures how near): ``exp2``, which
    on a CPU takes a fraction of the time of ``exp`` and is not slow at -inf; one buffer for all
    tiles; tiles large enough for the matrix product and small enough for the cache; and one
    sequence at a time, so that a tile of all its heads stays there. If a mask excludes whole
    tiles, it can be faster.

    There is no dropout and no second derivative. A NaN at a blocked position reaches the output,
    as in torch, unless its whole tile is skipped. A row whose scores all overflow to -inf gives 0,
    as in torch; the plain kernel gives NaN.

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
    _check_not_transformed()
    check_query_key(query, key)
    check_value(query, key, value)
    check_scale(scale)
    tile = _check_tile(tile)
    L, S = query.shape[-2], key.shape[-2]
    band = _band(L, S, is_causal, align, window)
    lead = torch.broadcast_shapes(*(tensor.shape[:-2] for tensor in (query, key, value)))
    *groups, H = lead or (1,)  # without leading dimensions: one head
    if attn_mask is None:
        attn_mask = query.new_ones(1, 1, dtype=torch.bool)
    scores_shape = (*torch.broadcast_shapes(query.shape[:-2], key.shape[:-2]), L, S)
    check_mask(attn_mask, torch.Size(scores_shape), torch.bool)
    check_same_device("query", query, "attn_mask", attn_mask)
    attn_mask = attn_mask.expand(*groups, -1 if attn_mask.ndim > 2 else 1, L, S)  # a view: no copy
    options = _Options(
        scale=1 / math.sqrt(query.shape[-1]) if scale is None else float(scale),
        band=band,
        tile=(min(tile[0], max(L, 1)), min(tile[1], max(S, 1))),
    )
    dtype = torch.promote_types(query.dtype, torch.float32)  # half precision is computed in float32
    tensors = [tensor.to(dtype).expand(*groups, H, -1, -1) for tensor in (query, key, value)]
    output = _Tiled.apply(*tensors, attn_mask, options)  # (..., H, L, Ev)
    return output.reshape(*lead, L, value.shape[-1]).to(query.dtype)


class _Options(NamedTuple):
    scale: float
    band: tuple[int, int]
    tile: tuple[int, int]


class _Tiled(torch.autograd.Function):
    """One sequence after the other, so that the tile of all its heads stays in the cache."""

    @staticmethod
    def forward(ctx, query, key, value, mask, options):
        output = query.new_empty(*query.shape[:-1], value.shape[-1])  # (..., H, L, Ev)
        tops, totals = query.new_empty(2, *query.shape[:-1], 1)  # (..., H, L, 1)
        inputs, results = (query, key, value), (output, tops, totals)
        for at in _sequences(query):
            _forward(_part(inputs, at), mask[at], _part(results, at), options)
        ctx.save_for_backward(*inputs, mask, *results)
        ctx.options = options
        return output

    @staticmethod
    @once_differentiable
    def backward(ctx, pull):
        query, key, value, mask, *results = ctx.saved_tensors
        inputs = (query, key, value)
        gradients = [pull.new_zeros(tensor.shape) for tensor in inputs]
        for at in _sequences(query):
            parts = (_part(tensors, at) for tensors in (inputs, results, gradients))
            _backward(*parts, mask[at], pull[at], ctx.options)
        return *gradients, None, None


def _forward(inputs: Tensors, mask: Tensor, results: Tensors, options: _Options) -> None:
    """Fill output (H, L, Ev), and tops and totals (H, L, 1), of one sequence."""
    query, key, value = inputs
    output, tops, totals = results
    buffer = query.new_empty(len(query) * math.prod(options.tile))
    for rows in _blocks(0, query.shape[1], options.tile[0]):
        queries = query[:, rows] * (options.scale * LOG2_E)
        top = torch.full_like(queries[..., :1], torch.finfo(queries.dtype).min)
        total, summed = torch.zeros_like(top), torch.zeros_like(output[:, rows])
        for cols, allowed in _visible(key, mask, rows, options):
            scores = _scores(queries, key[:, cols], allowed, buffer)
            new_top = torch.maximum(top, scores.amax(dim=-1, keepdim=True))
            shrink = torch.exp2(top - new_top)  # what was summed before was too large
            exponentials = scores.sub_(new_top).exp2_()
            total = total * shrink + exponentials.sum(dim=-1, keepdim=True)
            summed = summed.mul_(shrink).baddbmm_(exponentials, value[:, cols])
            top = new_top
        total.masked_fill_(total == 0, 1)  # no allowed key: 0 / 1, not 0 / 0
        torch.div(summed, total, out=output[:, rows])
        tops[:, rows], totals[:, rows] = top, total


def _backward(
    inputs: Tensors,
    results: Tensors,
    gradients: Tensors,
    mask: Tensor,
    pull: Tensor,
    options: _Options,
) -> None:
    """Add up the gradients; the weights, exponentials / total, are made again tile by tile."""
    query, key, value = inputs
    output, tops, totals = results
    d_query, d_key, d_value = gradients
    buffer, second = query.new_empty(2, len(query) * math.prod(options.tile))
    for rows in _blocks(0, query.shape[1], options.tile[0]):
        queries = query[:, rows] * (options.scale * LOG2_E)
        pulls = pull[:, rows] / totals[:, rows]  # instead of dividing every tile of weights
        shift = (pulls * output[:, rows]).sum(dim=-1, keepdim=True)
        for cols, allowed in _visible(key, mask, rows, options):
            scores = _scores(queries, key[:, cols], allowed, buffer)
            exponentials = scores.sub_(tops[:, rows]).exp2_()
            d_value[:, cols].baddbmm_(exponentials.mT, pulls)
            d_scores = _scores(pulls, value[:, cols], None, second).sub_(shift).mul_(exponentials)
            d_query[:, rows].baddbmm_(d_scores, key[:, cols], alpha=options.scale)
            d_key[:, cols].baddbmm_(d_scores.mT, query[:, rows], alpha=options.scale)


def _visible(
    key: Tensor, mask: Tensor, rows: slice, options: _Options
) -> Iterator[tuple[slice, Tensor | None]]:
    """Yield (cols, allowed) of the tiles in which something is allowed; None if everything is."""
    band = options.band
    first, last = max(0, rows.start + band[0]), min(key.shape[1], rows.stop + band[1])
    for cols in _blocks(first, last, options.tile[1]):
        allowed = mask[:, rows, cols]  # (H or 1, rows, cols)
        least, most = allowed.view(torch.uint8).aminmax()  # a tenth of the time of all() and any()
        low, high = (bound + rows.start - cols.start for bound in band)  # counted in the tile
        height, width = allowed.shape[1:]
        if low > 1 - height or high < width - 1:  # the band cuts a corner off
            corner = key.new_ones(height, width, dtype=torch.bool).tril_(high).triu_(low)
            allowed, least = allowed & corner, 0
        if most:
            yield cols, None if least else allowed


def _scores(queries: Tensor, keys: Tensor, allowed: Tensor | None, buffer: Tensor) -> Tensor:
    """Return queries @ keys^T, written into the buffer, and -inf where nothing is allowed."""
    size = (*queries.shape[:2], keys.shape[1])  # (H, rows, cols)
    scores = torch.bmm(queries, keys.mT, out=buffer[: math.prod(size)].view(size))
    if allowed is not None:  # a tenth of the time of masked_fill
        scores.clamp_(max=torch.where(allowed, torch.inf, -torch.inf))
    return scores


def _band(L: int, S: int, is_causal: bool, align: str, window: int | None) -> tuple[int, int]:
    """Return (low, high): query i may attend to key j only where low <= j - i <= high."""
    check_flag("is_causal", is_causal)
    check_choice("align", align, ALIGNMENTS)
    if window is None:
        window = L + S + 1  # farther than any key
    window = check_size("window", window, at_least=1)
    opposite = S - L if align == "lower_right" else 0  # query i is paired with key i + opposite
    return opposite - window + 1, opposite if is_causal else opposite + window - 1


def _check_tile(tile: object) -> tuple[int, int]:
    """Return ``tile`` as two ints; raise TypeError or ValueError unless both are positive."""
    if not isinstance(tile, tuple | list) or len(tile) != 2:
        raise ValueError(f"tile must be a pair (queries, keys), got {short(tile)}.")
    rows, columns = tile
    return check_size("tile[0]", rows, at_least=1), check_size("tile[1]", columns, at_least=1)


def _check_not_transformed() -> None:
    """Raise RuntimeError where tensors stand for others, so that no mask can be looked at."""
    if torch.jit.is_tracing() or torch._C._are_functorch_transforms_active():
        raise RuntimeError(
            "tiled_attention works neither under torch.func nor under torch.jit.trace, because "
            "the mask decides which tiles it computes; use scaled_dot_product_attention there."
        )


def _blocks(first: int, last: int, size: int) -> Iterator[slice]:
    return (slice(start, min(start + size, last)) for start in range(first, last, size))


def _sequences(query: Tensor) -> Iterator[tuple[int, ...]]:
    """Return the index of every sequence, everything before (H, L, E), if there is a query."""
    return itertools.product(*map(range, query.shape[:-3] if query.numel() else [0]))


def _part(tensors: Tensors, at: tuple[int, ...]) -> Tensors:
    """Return the tensors of one sequence."""
    return [tensor[at] for tensor in tensors]
