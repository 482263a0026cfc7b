"""Attention layers with trainable projections, written to be read."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from attnlab.attention import trace_attention
from attnlab.checks import (
    TORCH_3D,
    check_exact_ndim,
    check_flag,
    check_mask,
    check_probability,
    check_same_device,
    check_same_kind,
    check_size,
    check_tensor,
    check_type,
    shape,
)
from attnlab.heads import merge_heads, split_heads
from attnlab.layers.cache import KeyValueCache
from attnlab.masks import causal_mask, sliding_window_mask


class AttentionOutput(NamedTuple):
    """What an attention layer returns.

    Attributes
    ----------
    output : Tensor, shape (N, L, out_dim)
        One new vector per query position.
    weights : Tensor, shape (N, H, L, S)
        After mask and softmax, before dropout.
    """

    output: Tensor
    weights: Tensor


class _AttentionLayer(nn.Module):
    """What the layers share: three projections, and attention in ``num_heads`` heads."""

    def __init__(
        self,
        embed_dim: int,
        inner_dim: int,
        num_heads: int,
        num_kv_heads: int,
        *,
        bias: bool,
        dropout: float,
    ) -> None:
        check_flag("bias", bias)
        check_probability("dropout", dropout)
        super().__init__()
        self.embed_dim = embed_dim
        self.num_heads = num_heads
        self.num_kv_heads = num_kv_heads
        self.dropout = dropout
        kv_dim = inner_dim // num_heads * num_kv_heads
        self.q_proj = nn.Linear(embed_dim, inner_dim, bias=bias)
        self.k_proj = nn.Linear(embed_dim, kv_dim, bias=bias)
        self.v_proj = nn.Linear(embed_dim, kv_dim, bias=bias)

    def forward(
        self,
        query: Tensor,
        key: Tensor | None = None,
        value: Tensor | None = None,
        *,
        attn_mask: Tensor | None = None,
        is_causal: bool = False,
        cache: KeyValueCache | None = None,
    ) -> AttentionOutput:
        """Return the attended tokens and the weights of every head.

        Parameters
        ----------
        query : Tensor, shape (N, L, embed_dim)
            Tokens that attend.
        key : Tensor, shape (N, S, embed_dim), optional
            Tokens that are attended to; the query's if not given.
        value : Tensor, shape (N, S, embed_dim), optional
            Tokens whose content is averaged; the key's if not given.
        attn_mask : Tensor, shape (L, S) or broadcastable (N, H, L, S), optional
            bool: True where query i may attend to key j. float: added to the scores.
        is_causal : bool
            Block every key that comes after the query.
        cache : KeyValueCache, optional
            The keys and values of earlier tokens; those of the query are appended. Each query then
            attends to itself and to the tokens before it, within the cache's window, whatever
            ``is_causal`` says. S counts the keys that ``append`` returns.

        Returns
        -------
        AttentionOutput
            ``output`` (N, L, out_dim) and ``weights`` (N, H, L, S), before dropout.

        Raises
        ------
        TypeError, ValueError
            If shapes, dtypes, devices, the mask or the cache do not fit. The cache then stays as
            it was.
        """
        check_flag("is_causal", is_causal)
        if cache is not None:
            _check_cache(cache, key, value)
        key = query if key is None else key
        value = key if value is None else value
        self._check(query, key, value, attn_mask)
        q = split_heads(self.q_proj(query), self.num_heads)  # (N, H, L, head_dim)
        k = split_heads(self.k_proj(key), self.num_kv_heads)  # (N, H_kv, S, head_dim)
        v = split_heads(self.v_proj(value), self.num_kv_heads)  # (N, H_kv, S, head_dim)
        if cache is not None:
            attn_mask, is_causal = _mask_with_cache(attn_mask, q, cache), False
            k, v = cache.append(k, v)  # S grows by what the cache held
        group = self.num_heads // self.num_kv_heads
        if group > 1:  # neighbouring heads share a key and a value
            k, v = k.repeat_interleave(group, dim=1), v.repeat_interleave(group, dim=1)
        output, weights, _ = trace_attention(
            q,
            k,
            v,
            attn_mask=attn_mask,
            dropout_p=self.dropout if self.training else 0.0,
            is_causal=is_causal,
        )
        return AttentionOutput(self._join(output), weights)

    def _join(self, heads: Tensor) -> Tensor:
        """Return (N, L, out_dim) for the outputs of the heads (N, H, L, head_dim)."""
        return merge_heads(heads)

    def _check(self, query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None) -> None:
        parameter = self.q_proj.weight
        for name, tokens in (("query", query), ("key", key), ("value", value)):
            _check_tokens(name, tokens, self.embed_dim)
            same = tokens.dtype == parameter.dtype
            if same or not torch.is_autocast_enabled(parameter.device.type):
                check_same_kind("the layer", parameter, name, tokens)
        if not len(query) == len(key) == len(value):
            raise ValueError(
                "query, key and value must have the same batch size N, "
                f"got {shape(query)}, {shape(key)} and {shape(value)}."
            )
        if key.shape[1] != value.shape[1]:
            raise ValueError(
                "key and value must have the same length S (dimension 1), "
                f"got {shape(key)} and {shape(value)}."
            )
        if attn_mask is not None:
            _check_layer_mask(attn_mask, len(query), self.num_heads)


class SelfAttention(_AttentionLayer):
    """One attention head with its own query, key and value projections.

    Parameters
    ----------
    embed_dim : int
        Features of an input token.
    out_dim : int
        Features of query, key, value and output.
    bias : bool
        Whether the projections add a bias; by default not, as in the formulas of the paper.
    dropout : float
        Probability with which a weight is dropped in training mode.

    Raises
    ------
    TypeError, ValueError
        If a size is not a positive integer or ``dropout`` is not a probability.

    See Also
    --------
    MultiHeadAttention : several heads and an output projection.
    torch.nn.functional.scaled_dot_product_attention : what it computes after the projections.

    Notes
    -----
    The projections cost 2 N (L + 2 S) embed_dim out_dim floating point operations, the attention
    4 N L S out_dim. Scores and weights take 2 N L S numbers: 8 N L S bytes in float32.

    References
    ----------
    Vaswani et al., "Attention Is All You Need", 2017, section 3.2.1.
    https://arxiv.org/abs/1706.03762

    Examples
    --------
    >>> layer = SelfAttention(embed_dim=8, out_dim=4)
    >>> output, weights = layer(torch.zeros(2, 5, 8))
    >>> output.shape, weights.shape
    (torch.Size([2, 5, 4]), torch.Size([2, 1, 5, 5]))
    """

    def __init__(
        self, embed_dim: int, out_dim: int, *, bias: bool = False, dropout: float = 0.0
    ) -> None:
        embed_dim = check_size("embed_dim", embed_dim, at_least=1)
        out_dim = check_size("out_dim", out_dim, at_least=1)
        super().__init__(embed_dim, out_dim, 1, 1, bias=bias, dropout=dropout)


class MultiHeadAttention(_AttentionLayer):
    """Attention in several heads that work side by side, joined by an output projection.

    Project, split into heads, attend in every head, merge the heads, project.

    Parameters
    ----------
    embed_dim : int
        Features of a token, at the input and at the output.
    num_heads : int
        Number of heads H; must divide ``embed_dim``.
    bias : bool
        Whether the four projections add a bias; by default they do, as in torch.
    dropout : float
        Probability with which a weight is dropped in training mode.
    num_kv_heads : int, optional
        Number of heads H_kv for keys and values; must divide ``num_heads``, and equals it if not
        given. With fewer, H / H_kv neighbouring heads share keys and values (grouped heads).

    Raises
    ------
    TypeError, ValueError
        If a size is not a positive integer, ``num_heads`` does not divide ``embed_dim``,
        ``num_kv_heads`` does not divide ``num_heads``, or ``dropout`` is not a probability.

    See Also
    --------
    torch.nn.MultiheadAttention : the same computation; True means *blocked* in its masks, and
        its weights are the mean over the heads unless ``average_attn_weights=False``.

    Notes
    -----
    4 embed_dim^2 weights (and 4 embed_dim biases), whatever the number of heads, unless heads are
    grouped. The projections are initialised as ``nn.Linear`` does it.

    The projections cost 4 N (L + S) embed_dim^2 floating point operations, the attention
    4 N L S embed_dim, whatever the number of heads: for L = S the projections are the larger part
    up to L = 2 embed_dim. Scores and weights take 2 N H L S numbers: 8 N H L S bytes in float32.

    References
    ----------
    Vaswani et al., "Attention Is All You Need", 2017, section 3.2.2.
    https://arxiv.org/abs/1706.03762

    Examples
    --------
    >>> layer = MultiHeadAttention(embed_dim=12, num_heads=3)
    >>> output, weights = layer(torch.zeros(2, 5, 12), is_causal=True)
    >>> output.shape, weights.shape
    (torch.Size([2, 5, 12]), torch.Size([2, 3, 5, 5]))
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        *,
        bias: bool = True,
        dropout: float = 0.0,
        num_kv_heads: int | None = None,
    ) -> None:
        embed_dim = check_size("embed_dim", embed_dim, at_least=1)
        num_heads = check_size("num_heads", num_heads, at_least=1)
        if num_kv_heads is None:
            num_kv_heads = num_heads
        num_kv_heads = check_size("num_kv_heads", num_kv_heads, at_least=1)
        if embed_dim % num_heads:
            raise ValueError(
                f"num_heads must divide embed_dim, got embed_dim {embed_dim} and "
                f"num_heads {num_heads}: the remainder is {embed_dim % num_heads}."
            )
        if num_heads % num_kv_heads:
            raise ValueError(
                f"num_kv_heads must divide num_heads, got num_heads {num_heads} and "
                f"num_kv_heads {num_kv_heads}: the remainder is {num_heads % num_kv_heads}."
            )
        super().__init__(embed_dim, embed_dim, num_heads, num_kv_heads, bias=bias, dropout=dropout)
        self.out_proj = nn.Linear(embed_dim, embed_dim, bias=bias)

    def _join(self, heads: Tensor) -> Tensor:
        return self.out_proj(merge_heads(heads))

    @classmethod
    def from_torch(cls, module: nn.MultiheadAttention) -> MultiHeadAttention:
        """Return a layer with copies of the weights of a ``torch.nn.MultiheadAttention``.

        Parameters
        ----------
        module : torch.nn.MultiheadAttention
            Without ``kdim``, ``vdim``, ``add_bias_kv`` or ``add_zero_attn``. Its ``in_proj_weight``
            holds the query, key and value weights, stacked in this order.

        Returns
        -------
        MultiHeadAttention
            Same numbers, device, dtype and mode; always batch first.

        Raises
        ------
        TypeError
            If ``module`` is not a ``torch.nn.MultiheadAttention``.
        ValueError
            If it uses one of the options above.

        See Also
        --------
        to_torch : the inverse.
        """
        check_type("module", module, nn.MultiheadAttention, "a torch.nn.MultiheadAttention")
        if module.in_proj_weight is None or module.bias_k is not None or module.add_zero_attn:
            raise ValueError(
                "module must be built without kdim, vdim, add_bias_kv and add_zero_attn; "
                "MultiHeadAttention has no such options."
            )
        bias = module.in_proj_bias is not None
        layer = cls(module.embed_dim, module.num_heads, bias=bias, dropout=module.dropout)
        layer.to(module.in_proj_weight).train(module.training)
        with torch.no_grad():
            for ours, theirs in _paired_parameters(layer, module):
                ours.copy_(theirs)
        return layer

    def to_torch(self) -> nn.MultiheadAttention:
        """Return a ``torch.nn.MultiheadAttention`` (batch first) with copies of these weights.

        Returns
        -------
        torch.nn.MultiheadAttention
            Same numbers, device, dtype and mode.

        Raises
        ------
        ValueError
            If heads share keys and values, which torch's layer cannot do.

        See Also
        --------
        from_torch : the inverse.
        """
        if self.num_kv_heads != self.num_heads:
            raise ValueError(
                "to_torch needs num_kv_heads equal to num_heads, because torch's layer has no "
                f"grouped heads, got {self.num_kv_heads} and {self.num_heads}."
            )
        bias = self.q_proj.bias is not None
        module = nn.MultiheadAttention(
            self.embed_dim, self.num_heads, dropout=self.dropout, bias=bias, batch_first=True
        )
        module.to(self.q_proj.weight).train(self.training)
        with torch.no_grad():
            for ours, theirs in _paired_parameters(self, module):
                theirs.copy_(ours)
        return module


def _check_tokens(name: str, tokens: Tensor, embed_dim: int) -> None:
    check_tensor(name, tokens)
    is_single = tokens.ndim == 2
    fix = "put every sequence into dimension 0."
    if is_single:
        fix = f"for one sequence use {name}[None]."
    check_exact_ndim(name, tokens, "(N, L, embed_dim)", ndim=3, fix=fix)
    if tokens.shape[-1] != embed_dim:
        raise ValueError(
            f"{name} must have embed_dim {embed_dim} features (dimension -1), "
            f"got {shape(tokens)}: {tokens.shape[-1]} != {embed_dim}."
        )


def _check_layer_mask(attn_mask: Tensor, N: int, H: int) -> None:
    check_tensor("attn_mask", attn_mask)
    if attn_mask.ndim == 3:
        fix = (
            "whose first dimension may count sequences or heads; use attn_mask[:, None] for "
            "sequences, attn_mask[None] for heads"
        )
        if len(attn_mask) == N * H and len(attn_mask) not in (N, H):
            fix = TORCH_3D
        raise ValueError(
            "attn_mask must have shape (L, S) or (N, H, L, S) with N or H possibly 1, "
            f"got {shape(attn_mask)}; {fix}."
        )


def _check_cache(cache: object, key: Tensor | None, value: Tensor | None) -> None:
    check_type("cache", cache, KeyValueCache, "a KeyValueCache")
    if key is not None or value is not None:
        raise ValueError(
            "key and value must not be given with a cache, which holds those of earlier queries; "
            "call the layer with the new tokens only."
        )


def _mask_with_cache(attn_mask: Tensor | None, q: Tensor, cache: KeyValueCache) -> Tensor:
    """Return the mask for new queries (N, H, L, head_dim) and the S keys that they can see."""
    L, S = q.shape[-2], cache.reach + q.shape[-2]
    where = {"align": "lower_right", "device": q.device}
    seen = causal_mask(L, S, **where)
    if cache.window is not None:
        seen = seen & sliding_window_mask(L, S, window=cache.window, **where)
    if attn_mask is None:
        return seen
    check_mask(attn_mask, torch.Size((*q.shape[:-1], S)), q.dtype)
    check_same_device("query", q, "attn_mask", attn_mask)
    if attn_mask.dtype == torch.bool:
        return attn_mask & seen
    return attn_mask.masked_fill(~seen, -torch.inf)


def _paired_parameters(
    layer: MultiHeadAttention, module: nn.MultiheadAttention
) -> list[tuple[Tensor, Tensor]]:
    """Return the parameters of both layers that hold the same numbers."""
    projections = (layer.q_proj, layer.k_proj, layer.v_proj)
    stacked = module.in_proj_weight.chunk(3)  # query, key, value
    pairs = [(proj.weight, part) for proj, part in zip(projections, stacked, strict=True)]
    pairs.append((layer.out_proj.weight, module.out_proj.weight))
    if module.in_proj_bias is not None:
        stacked = module.in_proj_bias.chunk(3)
        pairs += [(proj.bias, part) for proj, part in zip(projections, stacked, strict=True)]
        pairs.append((layer.out_proj.bias, module.out_proj.bias))
    return pairs
