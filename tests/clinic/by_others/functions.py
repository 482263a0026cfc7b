"""Attention functions as other people write them."""

import math

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from tests.clinic.by_others.case import foreign


@foreign("annotated")
def attention(query, key, value, mask=None, dropout=None):
    "Scaled dot-product attention in the manner of the Annotated Transformer."
    d_k = query.size(-1)
    scores = torch.matmul(query, key.transpose(-2, -1)) / math.sqrt(d_k)
    if mask is not None:
        scores = scores.masked_fill(mask == 0, -1e9)
    p_attn = scores.softmax(dim=-1)
    if dropout is not None:
        p_attn = dropout(p_attn)
    return torch.matmul(p_attn, value), p_attn


@foreign(
    "einsum_lnhd",
    call=lambda target, q, k, v, mask: target(*(x.unsqueeze(2) for x in (q, k, v))).squeeze(2),
)
def einsum_attention(queries, keys, values):
    """queries: [batch, query_len, heads, head_dim]."""
    energy = torch.einsum("nqhd,nkhd->nhqk", [queries, keys])
    weights = torch.softmax(energy / (keys.shape[-1] ** (1 / 2)), dim=3)
    return torch.einsum("nhqk,nkhd->nqhd", [weights, values])


@foreign("bmm_plain")
def dot_attention(query, key, value):
    """query: (B, L, D); key, value: (B, S, D)."""
    scores = torch.bmm(query, key.transpose(1, 2)) / np.sqrt(query.size(-1))
    weights = F.softmax(scores, dim=-1)
    return torch.bmm(weights, value)


@foreign(
    "eager_min",
    call=lambda target, q, k, v, mask: target(
        *(part.unsqueeze(1) for part in (q, k, v)),
        None if mask is None else torch.where(mask, 0.0, -1e30)[..., None, :, :],
    )[0].squeeze(2),
)
def eager_attention_forward(
    query_states, key_states, value_states, attention_mask, scaling=None, dropout=0.0
):
    """attention_mask: additive, (batch, 1, query_length, key_length), or None."""
    if scaling is None:
        scaling = query_states.size(-1) ** -0.5
    attn_weights = torch.matmul(query_states, key_states.transpose(2, 3)) * scaling
    if attention_mask is not None:
        attn_weights = attn_weights + attention_mask[:, :, :, : key_states.shape[-2]]
    attn_weights = nn.functional.softmax(attn_weights, dim=-1)
    attn_weights = nn.functional.dropout(attn_weights, p=dropout, training=False)
    attn_output = torch.matmul(attn_weights, value_states)
    return attn_output.transpose(1, 2).contiguous(), attn_weights


@foreign("exp_and_sum")
def attention_by_hand(Q, K, V, mask=None):
    """Softmax written out; mask is True where attention is allowed."""
    logits = Q @ K.mT / math.sqrt(Q.shape[-1])
    if mask is not None:
        logits = logits.masked_fill(~mask, -float("inf"))
    logits = logits - logits.amax(dim=-1, keepdim=True)
    weights = logits.exp()
    weights = weights / weights.sum(dim=-1, keepdim=True)
    return weights @ V


@foreign("query_chunks", causal=True)
def chunked_attention(q, k, v, chunk_size=4):
    """Causal attention that never holds more than chunk_size rows of scores."""
    n, scale = q.shape[-2], q.shape[-1] ** -0.5
    outputs = []
    for start in range(0, n, chunk_size):
        stop = min(start + chunk_size, n)
        sim = torch.einsum("...id,...jd->...ij", q[..., start:stop, :] * scale, k[..., :stop, :])
        future = torch.ones(stop - start, stop, dtype=torch.bool, device=q.device)
        future = future.triu(diagonal=start + 1)
        sim = sim.masked_fill(future, float("-inf"))
        outputs.append(torch.einsum("...ij,...jd->...id", sim.softmax(dim=-1), v[..., :stop, :]))
    return torch.cat(outputs, dim=-2)


@foreign("mqa_einsum", call=lambda target, q, k, v, mask: target(q.unsqueeze(1), k, v).squeeze(1))
def multi_query_attention(q, k, v):
    """q: (b, h, i, d); one head of keys and values for all, k and v: (b, j, d)."""
    sim = torch.einsum("b h i d, b j d -> b h i j", q, k) * q.shape[-1] ** -0.5
    attn = sim.softmax(dim=-1)
    return torch.einsum("b h i j, b j d -> b h i d", attn, v)


@foreign("alibi_function", causal=True)
def alibi_attention(q, k, v):
    """Causal attention with linear biases; q, k, v are (batch, heads, time, head_dim)."""
    heads, T = q.size(1), q.size(2)
    slopes = 2.0 ** (-8.0 * torch.arange(1, heads + 1, dtype=q.dtype, device=q.device) / heads)
    position = torch.arange(T, device=q.device)
    distance = (position[:, None] - position[None, :]).abs()
    att = (q @ k.transpose(-2, -1)) / math.sqrt(q.size(-1))
    att = att - slopes[:, None, None] * distance
    att = att.masked_fill(torch.tril(torch.ones_like(distance)) == 0, float("-inf"))
    return F.softmax(att, dim=-1) @ v


# In the manner of Dive into Deep Learning: lengths of one dimension or one for every query.
def masked_softmax(X, valid_lens):
    """Softmax over the last axis of X, of which only the first valid_lens places count."""
    if valid_lens is None:
        return F.softmax(X, dim=-1)
    if valid_lens.dim() == 1:
        valid_lens = torch.repeat_interleave(valid_lens, X.shape[1])
    else:
        valid_lens = valid_lens.reshape(-1)
    flat = X.reshape(-1, X.shape[-1])
    steps = torch.arange(flat.shape[1], device=X.device)
    flat = flat.masked_fill(steps[None, :] >= valid_lens[:, None], -1e6)
    return F.softmax(flat.reshape(X.shape), dim=-1)


@foreign("masked_softmax")
def attention_of_lengths(queries, keys, values, valid_lens=None):
    scores = torch.bmm(queries, keys.transpose(1, 2)) / math.sqrt(queries.shape[-1])
    return torch.bmm(masked_softmax(scores, valid_lens), values)


@foreign("dict_result", call=lambda target, q, k, v, mask: target(q, k, v, mask)["output"])
def attend_to(query, key, value, attn_mask=None):
    """Return a dictionary with the output, the attention weights and the logits."""
    logits = torch.matmul(query, key.transpose(-1, -2)).div(query.shape[-1] ** 0.5)
    if attn_mask is not None:
        logits = logits.masked_fill(attn_mask.logical_not(), torch.finfo(logits.dtype).min)
    attention = torch.nn.functional.softmax(logits, -1)
    return {"output": attention.matmul(value), "attention": attention, "logits": logits}


@foreign("where_kept")
def attention_where(query, key, value, keep):
    """keep: (L, S), True where a query may look at a key."""
    scale = 1.0 / torch.sqrt(torch.tensor(query.size(-1), dtype=query.dtype))
    scores = torch.matmul(query * scale, key.transpose(-2, -1))
    blocked = torch.tensor(float("-inf"), dtype=scores.dtype)
    scores = torch.where(keep, scores, blocked)
    return torch.matmul(torch.nn.Softmax(dim=-1)(scores), value)


@foreign("normalised_by_total", cause=("not-normalised", "softmax-axis"))
def divided_by_everything(query, key, value, mask=None):
    """mask: (N, L, S), True = may attend."""
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    weights = torch.exp(scores - scores.amax(dim=(-2, -1), keepdim=True))
    if mask is not None:
        weights = weights * mask
    return weights / weights.sum(dim=(-2, -1), keepdim=True) @ value
