"""More attention functions as other people write them."""

import math

import torch
import torch.nn.functional as F
from torch import nn

from tests.clinic.by_others.case import foreign


@foreign("extended_mask")
def self_attention(query, key, value, attention_mask):
    """attention_mask: (batch, key_length) of 1 for tokens and 0 for padding.

    query, key, value: (batch, heads, length, head_size).
    """
    extended = attention_mask.unsqueeze(1).unsqueeze(2).to(query.dtype)
    extended = (1.0 - extended) * torch.finfo(query.dtype).min
    scores = torch.matmul(query, key.transpose(-1, -2)) / math.sqrt(query.size(-1))
    probs = nn.Softmax(dim=-1)(scores + extended)
    return torch.matmul(probs, value)


@foreign("tutorial_d_k", call=lambda target, q, k, v, mask: target(q, k, v, q.shape[-1], mask))
def attention(q, k, v, d_k, mask=None, dropout=None):
    scores = torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(d_k)
    if mask is not None:
        mask = mask.unsqueeze(1)
        scores = scores.masked_fill(mask == 0, -1e9)
    scores = F.softmax(scores, dim=-1)
    if dropout is not None:
        scores = dropout(scores)
    return torch.matmul(scores, v)


@foreign(
    "keyword_only",
    call=lambda target, q, k, v, mask: target(
        queries=q, keys=k, values=v, blocked=None if mask is None else ~mask
    ),
)
def attend_with(*, queries, keys, values, blocked=None):
    """Everything by keyword; blocked is True where nobody may look."""
    similarity = torch.einsum("...qd,...kd->...qk", queries, keys)
    similarity = similarity * queries.shape[-1] ** -0.5
    if blocked is not None:
        similarity = similarity.masked_fill(blocked, -torch.inf)
    shares = similarity.softmax(-1)
    return torch.einsum("...qk,...kd->...qd", shares, values)


@foreign("baddbmm_bias", mask="additive")
def memory_bound_attention(q, k, v, attn_mask=None):
    """q, k, v: (batch * heads, length, dim); attn_mask: floats of (batch * heads, L, S) to add."""
    _, _, E = q.shape
    q_scaled = q * math.sqrt(1.0 / float(E))
    if attn_mask is not None:
        weights = torch.baddbmm(attn_mask.to(q), q_scaled, k.transpose(-2, -1))
    else:
        weights = torch.bmm(q_scaled, k.transpose(-2, -1))
    weights = F.softmax(weights, dim=-1)
    return torch.bmm(weights, v), weights


@foreign("streaming")
def streaming_attention(q, k, v, mask=None, block=16):
    """Keys come in blocks; maximum, sum and output are kept up to date.

    mask: True where attention is allowed, of (queries, keys) or with a batch in front.
    """
    scale = q.shape[-1] ** -0.5
    shape = q.shape[:-1]
    best = q.new_full((*shape, 1), -1e30)
    total = q.new_zeros((*shape, 1))
    out = q.new_zeros((*shape, v.shape[-1]))
    for start in range(0, k.shape[-2], block):
        stop = start + block
        s = q @ k[..., start:stop, :].transpose(-1, -2) * scale
        if mask is not None:
            s = s.masked_fill(~mask[..., start:stop], float("-inf"))
        new_best = torch.maximum(best, s.amax(dim=-1, keepdim=True))
        p = torch.exp(s - new_best)
        shrink = torch.exp(best - new_best)
        total = total * shrink + p.sum(dim=-1, keepdim=True)
        out = out * shrink + p @ v[..., start:stop, :]
        best = new_best
    return out / total


@foreign("cache_offset", causal=True)
def causal_attention(q, k, v):
    """The queries are the last ones: k and v also hold what was cached before."""
    i, j = q.shape[-2], k.shape[-2]
    sim = torch.einsum("...id,...jd->...ij", q, k) / math.sqrt(q.shape[-1])
    causal_mask = torch.ones((i, j), dtype=torch.bool, device=q.device).triu(j - i + 1)
    sim = sim.masked_fill(causal_mask, -torch.finfo(sim.dtype).max)
    attn = sim.softmax(dim=-1)
    return torch.einsum("...ij,...jd->...id", attn, v)


@foreign("gqa_repeat")
def grouped_query_attention(query, key, value, mask=None):
    """(batch, heads, length, dim) with fewer heads of keys and values; mask: True = keep."""
    groups = query.size(1) // key.size(1)
    key = key.repeat_interleave(groups, dim=1)
    value = value.repeat_interleave(groups, dim=1)
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.size(-1))
    if mask is not None:
        scores = scores.masked_fill(mask.logical_not(), float("-inf"))
    return torch.softmax(scores, dim=-1) @ value


def rotate_half(x):
    x1, x2 = x.chunk(2, dim=-1)
    return torch.cat((-x2, x1), dim=-1)


@foreign("rope_function")
def rotary_attention(q, k, v, theta=10000.0):
    """Queries and keys are turned by their position, the halves of the features together."""
    n, d = q.shape[-2:]
    inv_freq = theta ** (-torch.arange(0, d, 2, device=q.device, dtype=q.dtype) / d)
    angles = torch.arange(n, device=q.device, dtype=q.dtype)[:, None] * inv_freq[None, :]
    angles = torch.cat((angles, angles), dim=-1)
    cos, sin = angles.cos(), angles.sin()
    q = q * cos + rotate_half(q) * sin
    k = k * cos + rotate_half(k) * sin
    dots = (q @ k.transpose(-1, -2)) * d**-0.5
    return dots.softmax(dim=-1) @ v


@foreign("key_lengths")
def attention_with_lengths(query, key, value, key_lengths=None):
    """key_lengths: (batch,), how many keys of each sequence are real."""
    batch, _, dim = query.size()
    attn = torch.bmm(query, key.transpose(1, 2)) / dim**0.5
    if key_lengths is not None:
        positions = torch.arange(key.size(1), device=key.device).expand(batch, -1)
        is_pad = positions >= key_lengths.unsqueeze(1)
        attn = attn.masked_fill(is_pad.unsqueeze(1), -float("inf"))
    attn = F.softmax(attn, dim=2)
    return torch.bmm(attn, value), attn


@foreign("float32_softmax", mask="blocked")
def stable_attention(q, k, v, mask=None):
    """The softmax is taken in float32 whatever q is; mask: True entries are hidden."""
    scores = torch.matmul(q, k.mT) * (q.size(-1) ** -0.5)
    if mask is not None:
        scores = scores.masked_fill(mask, torch.finfo(scores.dtype).min)
    probs = F.softmax(scores, dim=-1, dtype=torch.float32).to(q.dtype)
    return torch.matmul(probs, v)


@foreign(
    "temperature_module",
    make=lambda Module: Module(temperature=8**0.5),
    call=lambda target, q, k, v, mask: type(target)(q.shape[-1] ** 0.5).train(target.training)(
        q, k, v, mask
    ),
)
class ScaledDotProductAttention(nn.Module):
    """Attention whose divisor is given when it is made, for one width."""

    def __init__(self, temperature, attn_dropout=0.1):
        super().__init__()
        self.temperature = temperature
        self.dropout = nn.Dropout(attn_dropout)

    def forward(self, q, k, v, mask=None):
        attn = torch.matmul(q / self.temperature, k.transpose(-2, -1))
        if mask is not None:
            attn = attn.masked_fill(mask == 0, -1e9)
        attn = self.dropout(F.softmax(attn, dim=-1))
        output = torch.matmul(attn, v)
        return output, attn


@foreign("banded")
def banded_attention(query, key, value, radius=2):
    """Every position sees its neighbours up to radius on both sides."""
    n = query.shape[-2]
    ones = torch.ones(n, n, dtype=torch.bool, device=query.device)
    band = torch.tril(torch.triu(ones, diagonal=-radius), diagonal=radius)
    logits = torch.matmul(query, key.transpose(-2, -1)) / math.sqrt(query.shape[-1])
    logits = logits.where(band, torch.full_like(logits, -float("inf")))
    return torch.matmul(F.softmax(logits, -1), value)


@foreign(
    "cache_upper_left",
    cause=("cache", "causal-off-by-one", "causal-flipped", "square-only"),
    causal=True,
)
def attention_after_cache(query, key, value):
    """Causal; the queries are the newest tokens, keys and values are those of all tokens."""
    L, S = query.shape[-2], key.shape[-2]
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    visible = torch.ones(L, S, dtype=torch.bool, device=query.device).tril()
    return scores.masked_fill(~visible, -torch.inf).softmax(dim=-1) @ value


@foreign("renormalised_blocked", cause=("mask-after-softmax", "mask-leak", "not-normalised"))
def divided_by_blocked_too(query, key, value, mask=None):
    """mask: (L, S), True = may attend."""
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    weights = (scores - scores.amax(dim=-1, keepdim=True)).exp()
    total = weights.sum(dim=-1, keepdim=True)
    if mask is not None:
        weights = weights * mask
    return weights / total @ value
