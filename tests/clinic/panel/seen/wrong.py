"""Wrong code of kinds that no injection makes; ``expected`` is what would be right."""

import math

import torch
import torch.nn.functional as F
from torch import nn

from tests.clinic.panel._case import given, wrong
from tests.clinic.panel._plain import attend, causal, layer, parts_of, qkv, rand, real, some, thirds


@wrong(
    "softmax_over_heads_by_view",
    "heads",
    cause=("attends-over-heads", "head-mixing"),
    make=lambda Layer: Layer(24, 3),
    sample=lambda: given(rand(2, 5, 24)),
    expected=lambda m, x: layer(x, (*thirds(m.qkv), m.out), 3),
)
class HeadsBehindTokens(nn.Module):
    def __init__(self, dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)

    def forward(self, x):
        n, length, dim = x.shape
        q, k, v = self.qkv(x).view(n, length, 3, self.num_heads, -1).unbind(2)
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        weights = torch.softmax(scores, dim=-1)
        return self.out((weights @ v).reshape(n, length, dim))


@wrong(
    "scale_twice",
    "scales",
    cause=("scale-d", "scale-other"),
    sample=lambda: given(*qkv(2), some(4, 6)),
    expected=lambda q, k, v, mask: attend(q, k, v, allowed=mask),
)
def twice_scaled(query, key, value, mask=None):
    scale = query.shape[-1] ** -0.5
    query = query * scale
    scores = (query @ key.mT) * scale
    if mask is not None:
        scores = scores.masked_fill(mask == 0, -torch.inf)
    return scores.softmax(dim=-1) @ value


@wrong(
    "scale_after_softmax",
    "scales",
    cause=("not-normalised", "scale-missing"),
    make=lambda Layer: Layer(24, 3),
    sample=lambda: given(rand(2, 5, 24)),
    expected=lambda m, x: layer(x, (m.q, m.k, m.v, m.o), 3),
)
class ScaledTooLate(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads, self.width = heads, dim // heads
        self.q, self.k, self.v, self.o = (nn.Linear(dim, dim) for _ in range(4))

    def forward(self, x):
        n, t, e = x.shape
        q, k, v = (
            f(x).view(n, t, self.heads, -1).transpose(1, 2) for f in (self.q, self.k, self.v)
        )
        attention = F.softmax(q @ k.transpose(-2, -1), dim=-1) / math.sqrt(self.width)
        return self.o((attention @ v).transpose(1, 2).reshape(n, t, e))


@wrong(
    "fill_not_kept",
    "masks lost",
    cause=("mask-ignored",),
    make=lambda Layer: Layer(24, 3),
    sample=lambda: given(rand(2, 5, 24), some(5, 5)),
    expected=lambda m, x, mask: layer(
        x, (m.to_q, *parts_of(m.to_kv, 2), m.to_out), 3, allowed=mask
    ),
)
class FilledAside(nn.Module):
    """mask: (L, S), True = may attend."""

    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.to_q = nn.Linear(dim, dim)
        self.to_kv = nn.Linear(dim, 2 * dim)
        self.to_out = nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        b, n, d = x.shape
        q, (k, v) = self.to_q(x), self.to_kv(x).chunk(2, dim=-1)
        q, k, v = (t.view(b, n, self.heads, -1).transpose(1, 2) for t in (q, k, v))
        dots = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
        if mask is not None:
            masked = dots.masked_fill(~mask, float("-inf"))
            assert masked.shape == dots.shape
        attn = dots.softmax(dim=-1)
        return self.to_out((attn @ v).transpose(1, 2).reshape(b, n, d))


def used_once(module):
    """Return a module after its first call."""
    with torch.no_grad():
        module(torch.randn(2, 5, 24))
    return module


@wrong(
    "cache_never_emptied",
    "cache",
    cause=("remembers",),
    make=lambda Layer: used_once(Layer(24, 3)),
    sample=lambda: given(rand(2, 5, 24)),
    expected=lambda m, x: layer(x, (*thirds(m.qkv), m.out), 3, allowed=causal(5)),
    options={"causal": True},
)
class EverGrowingCache(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)
        self.keys = self.values = None

    def forward(self, x):
        n, t, dim = x.shape
        q, k, v = self.qkv(x).view(n, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        if self.keys is not None and self.keys.shape[0] == n:
            k, v = torch.cat([self.keys, k], dim=2), torch.cat([self.values, v], dim=2)
        self.keys, self.values = k.detach(), v.detach()
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        seen = torch.ones_like(scores, dtype=torch.bool).tril(k.shape[2] - t)
        out = scores.masked_fill(~seen, -torch.inf).softmax(dim=-1) @ v
        return self.out(out.transpose(1, 2).reshape(n, t, dim))


@wrong(
    "mask_repeated_wrongly",
    "padding",
    cause=("mask-broadcast",),
    make=lambda Layer: Layer(24, 3),
    sample=lambda: given(rand(2, 5, 24), real(5, 2, size=5)),
    expected=lambda m, x, mask: layer(x, (m.q, m.k, m.v, m.out), 3, allowed=mask[:, None, None]),
)
class FoldedHeads(nn.Module):
    """mask: (batch, length), True = token. Heads lie next to each other in the batch."""

    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.out = (nn.Linear(dim, dim, bias=False) for _ in range(4))

    def fold(self, x):
        n, t, _ = x.shape
        x = x.view(n, t, self.heads, -1).permute(0, 2, 1, 3)
        return x.reshape(n * self.heads, t, -1)

    def forward(self, x, mask=None):
        n, t, dim = x.shape
        q, k, v = self.fold(self.q(x)), self.fold(self.k(x)), self.fold(self.v(x))
        scores = torch.bmm(q, k.transpose(1, 2)) / math.sqrt(q.shape[-1])
        if mask is not None:
            scores = scores.masked_fill(~mask.repeat(self.heads, 1)[:, None, :], -1e9)
        out = torch.bmm(scores.softmax(dim=-1), v)
        out = out.view(n, self.heads, t, -1).transpose(1, 2).reshape(n, t, dim)
        return self.out(out)


@wrong(
    "value_from_key_projection",
    "projections",
    cause=("wrong-source",),
    make=lambda Layer: Layer(24, 3),
    sample=lambda: given(rand(2, 5, 24)),
    expected=lambda m, x: layer(x, (m.query, m.key, m.value, m.dense), 3),
)
class KeyTwice(nn.Module):
    def __init__(self, hidden, heads):
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(hidden, hidden)
        self.key = nn.Linear(hidden, hidden)
        self.value = nn.Linear(hidden, hidden)
        self.dense = nn.Linear(hidden, hidden)

    def heads_of(self, x):
        return x.view(*x.shape[:2], self.heads, -1).transpose(1, 2)

    def forward(self, x):
        query = self.heads_of(self.query(x))
        key = self.heads_of(self.key(x))
        value = self.heads_of(self.key(x))
        out = F.scaled_dot_product_attention(query, key, value)
        return self.dense(out.transpose(1, 2).flatten(2))


@wrong(
    "softmax_over_batch_order",
    "batch",
    cause=("softmax-axis", "batch-mixing"),
    sample=lambda: given(*qkv(3)),
    expected=attend,
)
def over_the_batch(query, key, value):
    """query: (N, L, E); key, value: (N, S, E)."""
    scores = torch.bmm(query, key.transpose(1, 2)) / math.sqrt(query.shape[-1])
    return torch.bmm(nn.Softmax(dim=0)(scores), value)


@wrong(
    "normalised_by_total",
    "softmax",
    cause=("not-normalised", "softmax-axis"),
    sample=lambda: given(*qkv(2), some(2, 4, 6)),
    expected=lambda q, k, v, mask: attend(q, k, v, allowed=mask),
)
def divided_by_everything(query, key, value, mask=None):
    """mask: (N, L, S), True = may attend."""
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    weights = torch.exp(scores - scores.amax(dim=(-2, -1), keepdim=True))
    if mask is not None:
        weights = weights * mask
    return weights / weights.sum(dim=(-2, -1), keepdim=True) @ value
