"""Correct attention in six steps, as functions and as layers: most entries replace one step."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn


class Steps:
    """The six steps of attention with heads, each of them correct."""

    def split(self, x: Tensor, num_heads: int) -> Tensor:
        return x.unflatten(-1, (num_heads, -1)).transpose(1, 2)

    def merge(self, x: Tensor) -> Tensor:
        return x.transpose(1, 2).flatten(2)

    def score(self, query: Tensor, key: Tensor) -> Tensor:
        return query @ key.transpose(-2, -1) / math.sqrt(query.size(-1))

    def hide(self, scores: Tensor, mask: Tensor) -> Tensor:
        return scores.masked_fill(~mask, float("-inf"))

    def soft(self, scores: Tensor) -> Tensor:
        return scores.softmax(dim=-1)

    def attend(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
        scores = self.score(query, key)
        return self.soft(scores if mask is None else self.hide(scores, mask)) @ value


def lower_triangle(query: Tensor, key: Tensor) -> Tensor:
    """Return the causal mask (L, S) of query and key."""
    size = query.size(-2), key.size(-2)
    return torch.ones(size, dtype=torch.bool, device=query.device).tril()


# --- functions ------------------------------------------------------------------------------------


def plain(steps: Steps) -> Callable:
    """Return attention without a mask."""
    return lambda query, key, value: steps.attend(query, key, value, None)


def masked(steps: Steps) -> Callable:
    """Return attention with a mask that may be left out."""
    return lambda query, key, value, mask=None: steps.attend(query, key, value, mask)


def required(steps: Steps) -> Callable:
    """Return attention with a mask that must be given."""
    return lambda Q, K, V, attn_mask: steps.attend(Q, K, V, attn_mask)


def flagged(steps: Steps) -> Callable:
    """Return attention that is causal where its flag is set."""
    return lambda q, k, v, is_causal=False: steps.attend(
        q, k, v, lower_triangle(q, k) if is_causal else None
    )


def causal(steps: Steps) -> Callable:
    """Return attention that is always causal."""

    def causal_attention(queries, keys, values):
        return steps.attend(queries, keys, values, lower_triangle(queries, keys))

    return causal_attention


def of_itself(steps: Steps) -> Callable:
    """Return self-attention without parameters."""
    return lambda x: steps.attend(x, x, x, None)


def pair(steps: Steps) -> tuple[Callable, Callable]:
    """Return the two functions that split features into heads and merge heads."""
    return steps.split, steps.merge


def split(steps: Steps) -> Callable:
    """Return the function that splits features into heads."""
    return steps.split


def merge(steps: Steps) -> Callable:
    """Return the function that merges heads."""
    return steps.merge


def softmax(steps: Steps) -> Callable:
    """Return the softmax."""
    return steps.soft


def kind_of(template: Callable) -> str:
    """Return the kind of what a template makes."""
    if isinstance(template, type) or template is of_itself:
        return "layer"
    return template.__name__ if template in (pair, split, merge, softmax) else "function"


# --- layers ---------------------------------------------------------------------------------------


class Layer(Steps, nn.Module):
    """Self-attention with heads, from (N, L, E) to (N, L, E)."""

    def __init__(self, embed_dim: int = 12, num_heads: int = 3, bias: bool = True) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.q_proj = nn.Linear(embed_dim, embed_dim, bias=bias)
        self.k_proj = nn.Linear(embed_dim, embed_dim, bias=bias)
        self.v_proj = nn.Linear(embed_dim, embed_dim, bias=bias)
        self.out_proj = nn.Linear(embed_dim, embed_dim, bias=bias)

    def forward(self, x):
        return self.run(x, x, x)

    def run(self, query, key, value, mask=None):
        """Return the output; each forward says where the arguments come from."""
        query = self.split(self.q_proj(query), self.num_heads)
        key = self.split(self.k_proj(key), self.num_heads)
        value = self.split(self.v_proj(value), self.num_heads)
        return self.out_proj(self.merge(self.attend(query, key, value, mask)))


class CausalLayer(Layer):
    """Self-attention with a causal mask in a buffer."""

    diagonal = 0

    def __init__(self, **sizes) -> None:
        super().__init__(**sizes)
        self.register_buffer("keep", torch.ones(64, 64).tril(self.diagonal))

    def forward(self, x):
        length = x.size(1)
        return self.run(x, x, x, self.keep[:length, :length] == 1)


class FlaggedLayer(Layer):
    """Self-attention that is causal where its flag is set."""

    def forward(self, x, is_causal=False):
        return self.run(x, x, x, lower_triangle(x, x) if is_causal else None)


class MaskedLayer(Layer):
    """Self-attention with a mask (L, L)."""

    def forward(self, x, mask=None):
        return self.run(x, x, x, mask)


class PaddedLayer(Layer):
    """Self-attention with a mask (N, L) of real tokens."""

    def forward(self, x, mask=None):
        return self.run(x, x, x, None if mask is None else mask[:, None, None, :])


class CrossLayer(Layer):
    """Attention of a query to a key and a value, with a mask."""

    def forward(self, query, key, value, mask=None):
        return self.run(query, key, value, mask)


class DropoutLayer(Layer):
    """Self-attention that drops weights while training."""

    def __init__(self, **sizes) -> None:
        super().__init__(**sizes)
        self.dropout = nn.Dropout(0.3)

    def soft(self, scores):
        return self.dropout(super().soft(scores))


class WeightsLayer(Layer):
    """Self-attention that returns its weights too."""

    def attend(self, query, key, value, mask):
        self.weights = self.soft(self.score(query, key))
        return self.weights @ value

    def forward(self, x):
        return super().forward(x), self.weights


class ResidualLayer(Layer):
    """Self-attention of normalised tokens, added to the tokens."""

    def __init__(self, **sizes) -> None:
        super().__init__(**sizes)
        self.norm = nn.LayerNorm(self.q_proj.in_features)

    def forward(self, x):
        return x + super().forward(self.norm(x))


class PositionedLayer(Layer):
    """Self-attention of tokens with learned positions."""

    def __init__(self, **sizes) -> None:
        super().__init__(**sizes)
        self.pos_emb = nn.Parameter(torch.randn(20, self.q_proj.in_features))

    def forward(self, x):
        return super().forward(x + self.pos_emb[: x.size(1)])


class StackedLayer(Layer):
    """Causal self-attention that makes query, key and value with one layer, as in GPT-2."""

    def __init__(self, n_embd: int = 16, n_head: int = 4) -> None:
        nn.Module.__init__(self)
        self.n_head = n_head
        self.c_attn = nn.Linear(n_embd, 3 * n_embd)
        self.c_proj = nn.Linear(n_embd, n_embd)
        self.resid_dropout = nn.Dropout(0.1)
        self.register_buffer("bias", torch.tril(torch.ones(8, 8)).view(1, 1, 8, 8))

    def forward(self, x):
        length = x.size(1)
        parts = self.c_attn(x).chunk(3, dim=-1)
        query, key, value = (self.split(part, self.n_head) for part in parts)
        keep = self.bias[:, :, :length, :length] == 1
        output = self.merge(self.attend(query, key, value, keep))
        return self.resid_dropout(self.c_proj(output))


class MatrixLayer(Steps, nn.Module):
    """Self-attention in one head, with matrices instead of layers."""

    def __init__(self, d_in: int = 8, d_out: int = 4) -> None:
        super().__init__()
        self.W_query = nn.Parameter(torch.rand(d_in, d_out))
        self.W_key = nn.Parameter(torch.rand(d_in, d_out))
        self.W_value = nn.Parameter(torch.rand(d_in, d_out))

    def forward(self, x):
        return self.attend(x @ self.W_query, x @ self.W_key, x @ self.W_value, None)


class CubeLayer(Steps, nn.Module):
    """Self-attention with the matrices of all heads in one tensor (H, E, d)."""

    def __init__(self, embed_dim: int = 10, num_heads: int = 2, head_dim: int = 5) -> None:
        super().__init__()
        shape = num_heads, embed_dim, head_dim
        self.W_Q, self.W_K, self.W_V = (nn.Parameter(torch.randn(shape) * 0.3) for _ in range(3))
        self.W_O = nn.Parameter(torch.randn(num_heads, head_dim, embed_dim) * 0.3)

    def forward(self, x):
        q, k, v = (torch.einsum("nle,hed->nhld", x, w) for w in (self.W_Q, self.W_K, self.W_V))
        return torch.einsum("nhld,hde->nle", self.attend(q, k, v, None), self.W_O)


class AnnotatedLayer(Steps, nn.Module):
    """Attention with its four layers in a list, as in the Annotated Transformer."""

    def __init__(self, h: int = 3, d_model: int = 12) -> None:
        super().__init__()
        self.h = h
        self.linears = nn.ModuleList([nn.Linear(d_model, d_model) for _ in range(4)])
        self.dropout = nn.Dropout(0.1)

    def forward(self, query, key, value, mask=None):
        mask = None if mask is None else mask.unsqueeze(1)  # the same for all heads
        sides = zip(self.linears, (query, key, value), strict=False)
        heads = self.attend(*(self.split(linear(x), self.h) for linear, x in sides), mask)
        return self.linears[-1](self.merge(heads))


class ValuesKeysQuery(Steps, nn.Module):
    """Attention whose arguments come in the order values, keys, query."""

    def __init__(self, embed_size: int = 12, heads: int = 3) -> None:
        super().__init__()
        self.heads = heads
        self.values = nn.Linear(embed_size, embed_size)
        self.keys = nn.Linear(embed_size, embed_size)
        self.queries = nn.Linear(embed_size, embed_size)
        self.fc_out = nn.Linear(embed_size, embed_size)

    def forward(self, values, keys, query, mask):
        sides = self.queries(query), self.keys(keys), self.values(values)
        sides = (self.split(side, self.heads) for side in sides)
        return self.fc_out(self.merge(self.attend(*sides, mask)))


class SmallHead(Steps, nn.Module):
    """One causal head that is narrower than the model."""

    def __init__(self, n_embd: int = 12, head_size: int = 5) -> None:
        super().__init__()
        self.key = nn.Linear(n_embd, head_size, bias=False)
        self.query = nn.Linear(n_embd, head_size, bias=False)
        self.value = nn.Linear(n_embd, head_size, bias=False)
        self.register_buffer("tril", torch.tril(torch.ones(8, 8)))

    def forward(self, x):
        length = x.size(1)
        keep = self.tril[:length, :length] == 1
        return self.attend(self.query(x), self.key(x), self.value(x), keep)


LAYERS = [Layer, *Layer.__subclasses__(), MatrixLayer, CubeLayer, AnnotatedLayer]
LAYERS += [ValuesKeysQuery, SmallHead]
