"""Scaled dot-product attention in three steps: scores, weights, output.

Letters are torch's: N batch, H heads, L queries, S keys, E features of query and key, Ev features
of value. Any number of leading dimensions may come before (L, E). In a boolean mask True means
"may attend". A row with no allowed key gives weights 0 and output 0.

float16 and bfloat16 inputs are computed in float32 and rounded once, at the end.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from attnlab.checks import (
    check_flag,
    check_floating,
    check_mask,
    check_ndim,
    check_probability,
    check_query_key,
    check_same_device,
    check_scale,
    check_value,
)

HALF_PRECISION = (torch.float16, torch.bfloat16)


class AttentionTrace(NamedTuple):
    """What attention computed on its way.

    Attributes
    ----------
    output : Tensor, shape (..., L, Ev)
        ``weights @ value``.
    weights : Tensor, shape (..., L, S)
        After mask and softmax, before dropout.
    scores : Tensor, shape (..., L, S)
        Scaled dot products, before the mask.
    """

    output: Tensor
    weights: Tensor
    scores: Tensor


def attention_scores(query: Tensor, key: Tensor, *, scale: float | None = None) -> Tensor:
    """Return the scores: the scaled dot product of every query with every key.

    ``scores[i, j] = scale * (query[i] . key[j])``

    Parameters
    ----------
    query, key, scale
        As in ``scaled_dot_product_attention``.

    Returns
    -------
    Tensor, shape (..., L, S)
        Dimensionless and of any sign. Scores are not weights: their rows do not sum to 1.

    Raises
    ------
    TypeError
        If an argument is not a floating-point tensor, the dtypes differ, or ``scale`` is not a
        number.
    ValueError
        If the feature dimensions E or the devices differ, or the leading dimensions do not
        broadcast.

    See Also
    --------
    torch.nn.functional.scaled_dot_product_attention : computes them without returning them.

    Notes
    -----
    Costs 2 L S E floating point operations and L S numbers of memory per head: 4 L S bytes in
    float32.

    References
    ----------
    Vaswani et al., "Attention Is All You Need", 2017, section 3.2.1.
    https://arxiv.org/abs/1706.03762

    Examples
    --------
    >>> attention_scores(torch.eye(2), torch.ones(3, 2), scale=1.0)
    tensor([[1., 1., 1.],
            [1., 1., 1.]])
    """
    check_query_key(query, key)
    check_scale(scale)
    return _scores(_widen(query), _widen(key), scale).to(query.dtype)


def attention_weights(scores: Tensor, *, attn_mask: Tensor | None = None) -> Tensor:
    """Return the weights: the softmax of the scores over the allowed keys.

    Row i says how query i divides its attention among the keys, so every row sums to 1.

    Parameters
    ----------
    scores : Tensor, shape (..., L, S)
        Scaled dot products, one row per query, before masking.
    attn_mask : Tensor, broadcastable to (..., L, S), optional
        bool: True where query i may attend to key j.
        float (same dtype as ``scores``): added to the scores; use ``-inf`` to block.

    Returns
    -------
    Tensor, shape (..., L, S)
        Nonnegative; each row sums to 1, or to 0 where every key is blocked.

    Raises
    ------
    TypeError
        If ``scores`` is not a floating-point tensor, or ``attn_mask`` is neither bool nor of its
        dtype.
    ValueError
        If ``attn_mask`` does not broadcast to the shape of ``scores`` or is on another device.

    See Also
    --------
    torch.nn.functional.scaled_dot_product_attention : the fused version; same mask convention.
    torch.nn.MultiheadAttention : the opposite convention (True = blocked); pass ``~attn_mask``.

    Notes
    -----
    Rows without an allowed key are found from the mask, before the softmax. A NaN at an allowed
    position therefore stays visible in the result.

    Costs about 5 L S floating point operations, one in five an exponential, and L S numbers of
    memory per head: 4 L S bytes in float32.

    References
    ----------
    Vaswani et al., "Attention Is All You Need", 2017, section 3.2.1.
    https://arxiv.org/abs/1706.03762

    Examples
    --------
    >>> attention_weights(torch.zeros(2, 2), attn_mask=torch.tensor([[True, False], [True, True]]))
    tensor([[1.0000, 0.0000],
            [0.5000, 0.5000]])
    """
    check_floating("scores", scores)
    check_ndim("scores", scores, "(L, S)", at_least=2)
    if attn_mask is not None:
        check_mask(attn_mask, scores.shape, scores.dtype)
        check_same_device("scores", scores, "attn_mask", attn_mask)
    return _weights(_widen(scores), attn_mask).to(scores.dtype)


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
) -> Tensor:
    """Return the attention output: for every query a weighted average of the values.

    ``softmax(scale * query @ key^T) @ value``, the softmax taken over the allowed keys.

    Parameters
    ----------
    query : Tensor, shape (..., L, E)
        What each position asks for.
    key : Tensor, shape (..., S, E)
        What each position is found by.
    value : Tensor, shape (..., S, Ev)
        What each position contributes to the average.
    attn_mask : Tensor, broadcastable to (..., L, S), optional
        bool: True where query i may attend to key j.
        float (same dtype as ``query``): added to the scores; use ``-inf`` to block.
        At least two dimensions and no more than the query.
    dropout_p : float
        Probability with which a weight is set to 0; the others are multiplied by
        ``1 / (1 - dropout_p)``. Applied whenever it is not 0, so pass 0 in evaluation.
    is_causal : bool
        Block every key that comes after the query, aligned at the upper left corner.
    scale : float, optional
        Factor on the dot products; ``1 / sqrt(E)`` if not given.

    Returns
    -------
    Tensor, shape (..., L, Ev)
        0 in a row where every key is blocked.

    Raises
    ------
    TypeError
        If an argument is not a floating-point tensor, dtypes differ, the mask has another dtype,
        or an option has the wrong type.
    ValueError
        If shapes or devices do not fit, ``dropout_p`` is not a probability, or ``attn_mask`` and
        ``is_causal`` are both given.

    See Also
    --------
    torch.nn.functional.scaled_dot_product_attention : the fused twin, with the same arguments and
        ``enable_gqa``.
    tiled_attention : the same result without an L x S matrix.
    trace_attention : also returns the weights and the scores.

    Notes
    -----
    Costs 2 L S (E + Ev) floating point operations per head, and twice as many for the gradients.
    Holds scores and weights at once: 2 L S numbers per head, 8 L S bytes in float32, and at most
    twice that under a mask. ``tiled_attention`` holds neither.

    A NaN or infinity in a blocked *value* still reaches the output, since 0 * NaN is NaN. A NaN in
    the *query* of a row that is blocked entirely, or in a *key* that a boolean mask blocks, does
    not reach the output here and does in torch.

    Works under ``torch.func``. ``torch.jit.trace`` keeps E, and leaves all other sizes open.

    References
    ----------
    Vaswani et al., "Attention Is All You Need", 2017, section 3.2.1.
    https://arxiv.org/abs/1706.03762

    Examples
    --------
    >>> query, key, value = torch.zeros(1, 2), torch.eye(2), torch.tensor([[2.0], [4.0]])
    >>> scaled_dot_product_attention(query, key, value)
    tensor([[3.]])
    """
    trace = trace_attention(query, key, value, attn_mask, dropout_p, is_causal, scale=scale)
    return trace.output


def trace_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
) -> AttentionTrace:
    """Return output, weights and scores of ``scaled_dot_product_attention``.

    Parameters
    ----------
    query, key, value, attn_mask, dropout_p, is_causal, scale
        As in ``scaled_dot_product_attention``.

    Returns
    -------
    AttentionTrace
        ``output`` (..., L, Ev); ``weights`` (..., L, S) before dropout; ``scores`` (..., L, S)
        before the mask.

    Raises
    ------
    TypeError, ValueError
        As ``scaled_dot_product_attention``.

    See Also
    --------
    torch.nn.MultiheadAttention : with ``need_weights=True`` returns the mean over the heads.

    Notes
    -----
    Costs what ``scaled_dot_product_attention`` costs, and keeps scores and weights: 8 L S bytes
    per head in float32 for as long as the result lives.

    Examples
    --------
    >>> x = torch.eye(2)
    >>> output, weights, scores = trace_attention(x, x, x, is_causal=True)
    >>> weights[0]
    tensor([1., 0.])
    """
    check_query_key(query, key)
    check_value(query, key, value)
    check_scale(scale)
    check_probability("dropout_p", dropout_p)
    check_flag("is_causal", is_causal)
    if is_causal:
        attn_mask = _causal_instead_of(attn_mask, query, key)
    scores = _scores(_widen(query), _widen(key), scale)  # (..., L, S)
    if attn_mask is not None:
        check_mask(attn_mask, scores.shape, query.dtype)
        check_same_device("query", query, "attn_mask", attn_mask)
    weights = _weights(scores, attn_mask)  # (..., L, S)
    kept = F.dropout(weights, dropout_p) if dropout_p else weights
    output = kept @ _widen(value)  # (..., L, Ev)
    if query.dtype in HALF_PRECISION:
        return AttentionTrace(*(part.to(query.dtype) for part in (output, weights, scores)))
    return AttentionTrace(output, weights, scores)


# The steps without their checks, which take as long as attention among ten tokens.


def _scores(query: Tensor, key: Tensor, scale: float | None) -> Tensor:
    scale = 1 / math.sqrt(query.shape[-1]) if scale is None else float(scale)
    return query @ key.transpose(-2, -1) * scale  # (..., L, S)


def _weights(scores: Tensor, attn_mask: Tensor | None) -> Tensor:
    if attn_mask is None:
        return scores.softmax(dim=-1)
    if attn_mask.dtype == torch.bool:
        blocked = ~attn_mask
        scores = torch.where(blocked, -torch.inf, scores)
    else:
        blocked = attn_mask.isneginf()
        scores = scores + attn_mask
    # softmax of a row of -inf is 0 / 0: give such a row finite scores, and weights 0 afterwards
    empty = blocked.all(dim=-1, keepdim=True)
    weights = torch.where(empty, 0.0, scores).softmax(dim=-1)
    return torch.where(empty, 0.0, weights)


def _widen(tensor: Tensor) -> Tensor:
    """Return ``tensor`` in the dtype that attention is computed in."""
    return tensor.float() if tensor.dtype in HALF_PRECISION else tensor


def _causal_instead_of(attn_mask: Tensor | None, query: Tensor, key: Tensor) -> Tensor:
    if attn_mask is not None:
        raise ValueError(
            "attn_mask and is_causal=True must not be given together; "
            "combine them with combine_masks(attn_mask, causal_mask(L, S))."
        )
    # causal_mask(L, S), of sizes that torch.jit.trace keeps open
    return query.new_ones(query.shape[-2], key.shape[-2], dtype=torch.bool).tril()
