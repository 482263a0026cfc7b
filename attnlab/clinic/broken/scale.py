"""Broken: the scores are divided by the wrong number, or are no dot products at all."""

import math

import torch
import torch.nn.functional as F

from attnlab.clinic.broken._case import broken


@broken("scale-missing", misconception="M5", met="the first version most people write")
def attend_unscaled(query, key, value):
    """Leave the scores undivided."""
    scores = torch.matmul(query, key.transpose(-2, -1))
    return torch.matmul(F.softmax(scores, dim=-1), value)


@broken(
    "scale-missing",
    misconception="M5",
    met="Neuromatch W2D5, exercise 2: its check cannot see the scale (anchors B3)",
)
def attend_unscaled_with_weights(Q, K, V):
    """Leave the scores undivided, by hand and with a safe softmax."""
    scores = torch.einsum("bqd,bkd->bqk", Q, K)
    exps = (scores - scores.amax(dim=-1, keepdim=True)).exp()
    weights = exps / exps.sum(dim=-1, keepdim=True)
    return torch.einsum("bqk,bkd->bqd", weights, V), weights


@broken("scale-missing", misconception="M5", met="fused call with scale=1")
def attend_unscaled_fused(q, k, v):
    """Switch the fused kernel's own scale off."""
    return F.scaled_dot_product_attention(q, k, v, scale=1.0)


@broken("scale-d", misconception="M5", met="misread formula")
def attend_divided_by_d(queries, keys, values):
    """Divide by d instead of its square root."""
    d_k = queries.size(-1)
    weights = torch.softmax(queries @ keys.transpose(-2, -1) / d_k, dim=-1)
    return weights @ values


@broken("scale-d", misconception="M5", met="a fused kernel that already scales")
def attend_scaled_twice(query, key, value):
    """Scale the query and then call a kernel that scales again: together a division by d."""
    query = query / math.sqrt(query.size(-1))
    return F.scaled_dot_product_attention(query, key, value)


@broken("scale-inverse", misconception="M5", met="** -0.5 misread, ng-video-lecture issue 46")
def attend_with_inverse_scale(q, k, v):
    """Divide by d ** -0.5, which multiplies by the square root."""
    wei = q @ k.transpose(-2, -1) / k.shape[-1] ** -0.5
    return F.softmax(wei, dim=-1) @ v


@broken("scale-inverse", misconception="M5", met="typing slip")
def attend_multiplied(Q, K, V):
    """Multiply by the square root of d instead of dividing."""
    scores = torch.bmm(Q, K.transpose(1, 2)) * math.sqrt(Q.size(-1))
    attn = scores.softmax(-1)
    return attn, torch.bmm(attn, V)


@broken("scale-model", misconception="M4", met="ng-video-lecture pull request 6 (anchors B12)")
def attend_divided_by_model_width(q, k, v):
    """Divide by the root of the whole model's width, heads times head width."""
    _, num_heads, _, head_dim = q.shape
    scores = q @ k.transpose(2, 3) / math.sqrt(num_heads * head_dim)
    return scores.softmax(dim=3) @ v


@broken("scale-quarter", misconception="M5", met="rule for scaling both sides, applied to one")
def attend_with_half_the_scale(query, key, value):
    """Scale only the query by d ** -0.25; the key should get the same factor."""
    query = query * query.size(-1) ** -0.25
    return torch.softmax(query @ key.transpose(-2, -1), dim=-1) @ value


@broken("scale-quarter", misconception="M5", met="the root taken twice")
def attend_with_root_of_root(q, k, v):
    """Take the square root twice before dividing."""
    d_k = math.sqrt(q.size(-1))
    scores = torch.einsum("...qd,...kd->...qk", q, k) / math.sqrt(d_k)
    return torch.einsum("...qk,...kd->...qd", scores.softmax(-1), v)


@broken("scale-length", misconception="which axis is d_k", met="uvadlc issue 72: which dim is d_k")
def attend_scaled_by_key_count(Q, K, V):
    """Divide by the root of the number of keys."""
    d_k = K.shape[-2]
    scores = Q @ K.transpose(-2, -1) / math.sqrt(d_k)
    return torch.softmax(scores, dim=-1) @ V


@broken("scale-length", misconception="which axis is d_k", met="size(1) kept from 2-D code")
def attend_scaled_by_axis_one(query, key, value):
    """Take size(1) for d, which on a batch is the number of queries."""
    scores = torch.bmm(query, key.transpose(1, 2)) / math.sqrt(query.size(1))
    return torch.bmm(scores.softmax(dim=2), value)


@broken("scale-length", misconception="d_k and d_v are the same", met="wrong variable")
def attend_scaled_by_value_width(q, k, v):
    """Divide by the root of the value's width."""
    dim = v.size(-1)
    weights = F.softmax(q @ k.mT / dim**0.5, dim=-1)
    return weights @ v, weights


@broken("scale-length", misconception="which axis is d_k", met="shape[0] kept from 1-D code")
def attend_scaled_by_batch_size(queries, keys, values):
    """Divide by the root of the batch size."""
    n, _, _ = queries.shape
    scores = torch.einsum("nld,nsd->nls", queries, keys) / math.sqrt(n)
    return scores.softmax(dim=-1) @ values


@broken("scale-constant", misconception="the 8 of the paper", met="the paper's d_k = 64")
def attend_divided_by_eight(query, key, value):
    """Divide by 8, which is right for d = 64 only."""
    scores = query @ key.transpose(-2, -1) / 8
    return scores.softmax(dim=-1) @ value


@broken("scale-constant", misconception="the paper's width is everybody's", met="copied constant")
def attend_with_constant_model_width(Q, K, V):
    """Divide by the root of 512 whatever the input is."""
    scale = 1 / math.sqrt(512)
    return F.scaled_dot_product_attention(Q, K, V, scale=scale)


@broken("scale-other", misconception="any factor near the root will do", met="whole-number root")
def attend_with_whole_number_root(q, k, v):
    """Round the square root down to a whole number, right only for square numbers."""
    scores = q @ k.transpose(-2, -1) / int(q.size(-1) ** 0.5)
    return torch.softmax(scores, dim=-1) @ v


@broken("scale-other", misconception="log for root", met="misread formula")
def attend_divided_by_log(query, key, value):
    """Divide by the logarithm of d instead of its square root."""
    d = query.shape[-1]
    weights = torch.softmax(query @ key.transpose(-2, -1) / math.log(d), dim=-1)
    return weights @ value


@broken("scale-other", misconception="a temperature is harmless", met="forgotten temperature")
def attend_with_forgotten_temperature(q, k, v):
    """Keep a temperature of 0.5 beside the square root."""
    temperature = 0.5
    scores = torch.bmm(q, k.transpose(1, 2)) / (temperature * math.sqrt(q.size(-1)))
    return torch.bmm(scores.softmax(-1), v)


@broken("scores-not-dot-products", misconception="cosine is the same", met="similarity search")
def attend_by_cosine(query, key, value):
    """Normalise query and key first, so their lengths no longer count."""
    scores = F.normalize(query, dim=-1) @ F.normalize(key, dim=-1).transpose(-2, -1)
    return torch.softmax(scores / math.sqrt(query.size(-1)), dim=-1) @ value


@broken("scores-not-dot-products", misconception="near means similar", met="kernel regression")
def attend_by_distance(queries, keys, values):
    """Score by the negative distance instead of the dot product."""
    scores = -torch.cdist(queries, keys) / math.sqrt(queries.size(-1))
    return F.softmax(scores, dim=-1) @ values


@broken("scores-not-dot-products", misconception="scores are positive", met="forum question")
def attend_by_absolute_score(q, k, v):
    """Take the absolute value of every score, so opposites attract."""
    scores = (q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))).abs()
    return scores.softmax(dim=-1) @ v
