"""Wrong code of kinds that no injection makes; ``expected`` is what would be right."""

import math

import torch
import torch.nn.functional as F
from torch import nn

from tests.clinic.panel._case import given, wrong
from tests.clinic.panel._plain import (
    attend,
    causal,
    layer,
    parts_of,
    project,
    qkv,
    rand,
    real,
    some,
    thirds,
)


@wrong(
    "heads_folded_into_batch",
    "heads",
    cause=("split-without-transpose", "split-and-merge"),
    make=lambda Layer: Layer(24, 3),
    sample=lambda: given(rand(2, 5, 24)),
    expected=lambda m, x: layer(x, (m.wq, m.wk, m.wv, m.wo), 3),
)
class FoldedByView(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(dim, dim) for _ in range(4))

    def forward(self, x):
        n, t, dim = x.shape
        q = self.wq(x).view(n * self.heads, t, -1)
        k = self.wk(x).view(n * self.heads, t, -1)
        v = self.wv(x).view(n * self.heads, t, -1)
        weights = torch.softmax(torch.bmm(q, k.mT) / math.sqrt(dim // self.heads), dim=-1)
        return self.wo(torch.bmm(weights, v).view(n, t, dim))


@wrong(
    "dim_v_scale",
    "scales",
    cause=("scale-model", "scale-other"),
    make=lambda Layer: Layer(24, 3),
    sample=lambda: given(rand(2, 5, 24)),
    expected=lambda m, x: project(x, m.fc_q) + layer(x, (m.fc_q, m.fc_k, m.fc_v, None), 3),
)
class SetAttention(nn.Module):
    def __init__(self, dim_V, num_heads):
        super().__init__()
        self.dim_V, self.num_heads = dim_V, num_heads
        self.fc_q, self.fc_k, self.fc_v = (nn.Linear(dim_V, dim_V) for _ in range(3))

    def forward(self, X):
        Q, K, V = self.fc_q(X), self.fc_k(X), self.fc_v(X)
        size = self.dim_V // self.num_heads
        Q_, K_, V_ = (torch.cat(part.split(size, 2), 0) for part in (Q, K, V))
        A = torch.softmax(Q_.bmm(K_.transpose(1, 2)) / math.sqrt(self.dim_V), 2)
        return torch.cat((Q_ + A.bmm(V_)).split(X.size(0), 0), 2)


@wrong(
    "second_mask_starts_again",
    "masks lost",
    cause=("mask-ignored", "padding-leak", "mask-leak"),
    make=lambda Layer: Layer(24, 3),
    sample=lambda: given(rand(2, 5, 24), padding_mask=real(5, 3, size=5), attn_mask=causal(5)),
    expected=lambda m, x, padding_mask, attn_mask: layer(
        x, (*thirds(m.qkv), m.out), 3, allowed=padding_mask[:, None, None] & attn_mask
    ),
)
class SecondMaskWins(nn.Module):
    """padding_mask: (N, S), attn_mask: (L, S); True = may attend."""

    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x, padding_mask=None, attn_mask=None):
        q, k, v = (
            part.unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for part in self.qkv(x).chunk(3, dim=-1)
        )
        raw = q @ k.mT / math.sqrt(q.shape[-1])
        scores = raw
        if padding_mask is not None:
            scores = raw.masked_fill(~padding_mask[:, None, None], -torch.inf)
        if attn_mask is not None:
            scores = raw.masked_fill(~attn_mask, -torch.inf)
        return self.out((scores.softmax(dim=-1) @ v).transpose(1, 2).flatten(2))


@wrong(
    "cache_upper_left",
    "cache",
    cause=("causal-off-by-one", "causal-leak", "causal-flipped", "square-only"),
    sample=lambda: given(*qkv(2)),
    expected=lambda q, k, v: attend(q, k, v, allowed=causal(4, 6)),
    options={"causal": True},
)
def attention_after_cache(query, key, value):
    """Causal; the queries are the newest tokens, keys and values are those of all tokens."""
    L, S = query.shape[-2], key.shape[-2]
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    visible = torch.ones(L, S, dtype=torch.bool, device=query.device).tril()
    return scores.masked_fill(~visible, -torch.inf).softmax(dim=-1) @ value


@wrong(
    "padding_of_queries",
    "padding",
    cause=("mask-queries",),
    make=lambda Layer: Layer(24, 3),
    sample=lambda: given(rand(2, 5, 24), real(5, 3, size=5)),
    expected=lambda m, x, mask: layer(
        x, (m.to_q, *parts_of(m.to_kv, 2), m.to_out), 3, allowed=mask[:, None, None]
    ),
)
class PaddedQueries(nn.Module):
    """mask: (batch, length), True = token."""

    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.to_q = nn.Linear(dim, dim, bias=False)
        self.to_kv = nn.Linear(dim, 2 * dim, bias=False)
        self.to_out = nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        b, n, d = x.shape
        q, (k, v) = self.to_q(x), self.to_kv(x).chunk(2, dim=-1)
        q, k, v = (t.view(b, n, self.heads, -1).transpose(1, 2) for t in (q, k, v))
        dots = q @ k.transpose(-1, -2) * (d // self.heads) ** -0.5
        if mask is not None:
            dots = dots.masked_fill(~mask[:, None, :, None], -1e9)
        return self.to_out((dots.softmax(dim=-1) @ v).transpose(1, 2).reshape(b, n, d))


@wrong(
    "one_head_for_all",
    "projections",
    cause=("heads-shared",),
    make=lambda Layer: Layer(24, 3),
    sample=lambda: given(rand(2, 5, 24)),
    expected=lambda m, x: project(
        torch.cat([attend(*(project(x, head[i]) for i in range(3))) for head in m.heads], dim=-1),
        m.join,
    ),
)
class FirstHeadOnly(nn.Module):
    def __init__(self, dim, count):
        super().__init__()
        size = dim // count
        self.heads = nn.ModuleList(
            nn.ModuleList(nn.Linear(dim, size) for _ in range(3)) for _ in range(count)
        )
        self.join = nn.Linear(dim, dim)

    def forward(self, x):
        outputs = []
        for _ in self.heads:
            query, key, value = self.heads[0]
            outputs.append(F.scaled_dot_product_attention(query(x), key(x), value(x)))
        return self.join(torch.cat(outputs, dim=-1))


@wrong(
    "causal_only_in_training",
    "batch",
    cause=("causal-eval", "causal-missing"),
    make=lambda Layer: Layer(24, 3),
    sample=lambda: given(rand(2, 5, 24)),
    expected=lambda m, x: layer(x, (*thirds(m.c_attn), m.c_proj), 3, allowed=causal(5)),
    options={"causal": True},
)
class TrainedCausally(nn.Module):
    def __init__(self, n_embd, n_head):
        super().__init__()
        self.n_head = n_head
        self.c_attn, self.c_proj = nn.Linear(n_embd, 3 * n_embd), nn.Linear(n_embd, n_embd)

    def forward(self, x):
        B, T, C = x.size()
        q, k, v = (
            part.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
            for part in self.c_attn(x).split(C, dim=2)
        )
        att = (q @ k.transpose(-2, -1)) / math.sqrt(k.size(-1))
        if self.training:
            future = torch.ones(T, T, dtype=torch.bool, device=x.device).triu(1)
            att = att.masked_fill(future, float("-inf"))
        y = (att.softmax(dim=-1) @ v).transpose(1, 2).contiguous().view(B, T, C)
        return self.c_proj(y)


@wrong(
    "renormalised_blocked",
    "softmax",
    cause=("mask-after-softmax", "mask-leak", "not-normalised"),
    sample=lambda: given(*qkv(2, 3), some(4, 6)),
    expected=lambda q, k, v, mask: attend(q, k, v, allowed=mask),
)
def divided_by_blocked_too(query, key, value, mask=None):
    """mask: (L, S), True = may attend."""
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    weights = (scores - scores.amax(dim=-1, keepdim=True)).exp()
    total = weights.sum(dim=-1, keepdim=True)
    if mask is not None:
        weights = weights * mask
    return weights / total @ value
