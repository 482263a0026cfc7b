"""Right: attention functions with a mask or a causal flag, none of which may be accused."""

import math

import torch
import torch.nn.functional as F

from attnlab.clinic.broken._case import right


@right()
def masked_with_infinity(query, key, value, mask=None):
    """Fill with -inf before the softmax."""
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.size(-1))
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    return torch.softmax(scores, dim=-1) @ value


@right()
def masked_with_a_billion(q, k, v, mask=None):
    """Fill with -1e9, enough for float32 and wider."""
    scores = torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(q.size(-1))
    if mask is not None:
        scores = scores.masked_fill(mask == 0, -1e9)
    p_attn = scores.softmax(dim=-1)
    return torch.matmul(p_attn, v), p_attn


@right()
def masked_with_the_smallest_number(Q, K, V, attn_mask):
    """Fill with finfo.min of the scores' own type."""
    scores = Q @ K.mT / math.sqrt(Q.size(-1))
    return scores.masked_fill(~attn_mask, torch.finfo(scores.dtype).min).softmax(-1) @ V


@right()
def masked_with_where(queries, keys, values, mask):
    """Choose between score and -inf with torch.where."""
    scores = queries @ keys.transpose(-2, -1) * queries.size(-1) ** -0.5
    return torch.where(mask, scores, -math.inf).softmax(dim=-1) @ values


@right(mask="additive")
def masked_by_adding(query, key, value, additive_mask=None):
    """Add a float mask that holds 0 or -inf (an additive mask)."""
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.size(-1))
    if additive_mask is not None:
        scores = scores + additive_mask
    return torch.softmax(scores, dim=-1) @ value


@right(mask="additive")
def masked_by_bias(q, k, v, mask):
    """Add the mask, which is additive: 0 where the query may attend, -inf elsewhere."""
    return F.softmax(torch.bmm(q, k.transpose(1, 2)) / math.sqrt(q.size(2)) + mask, dim=2) @ v


@right()
def masked_by_logarithm(query, key, value, mask=None):
    """Add the logarithm of the mask, which is 0 or -inf."""
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.size(-1))
    if mask is not None:
        scores = scores + mask.to(scores.dtype).log()
    return scores.softmax(dim=-1) @ value


@right()
def masked_after_softmax_and_renormalised(Q, K, V, mask=None):
    """Zero the weights after the softmax and divide by what is left."""
    weights = torch.softmax(Q @ K.transpose(-2, -1) / math.sqrt(Q.size(-1)), dim=-1)
    if mask is not None:
        weights = weights * mask
        weights = weights / weights.sum(dim=-1, keepdim=True)
    return weights @ V, weights


@right(mask="blocked")
def masked_as_in_multihead_attention(query, key, value, attn_mask=None):
    """Block where the mask is True, and be told apart by the option of the caller."""
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.size(-1))
    if attn_mask is not None:
        scores = scores.masked_fill(attn_mask, float("-inf"))
    return scores.softmax(dim=-1) @ value


@right(mask="blocked")
def masked_padding_of_a_batch(q, k, v, key_padding_mask=None):
    """Block the columns of padded keys; True means padding, as in torch."""
    scores = torch.bmm(q, k.transpose(1, 2)) / math.sqrt(q.size(-1))
    if key_padding_mask is not None:
        scores = scores.masked_fill(key_padding_mask[:, None, :], float("-inf"))
    return torch.bmm(scores.softmax(dim=-1), v)


@right(strict=True)
def masked_with_blocked_rows_zero(query, key, value, mask=None):
    """Give 0 for a query that may attend to nothing, as the fused kernel does."""
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.size(-1))
    if mask is None:
        return scores.softmax(dim=-1) @ value
    empty = ~mask.any(dim=-1, keepdim=True)
    weights = scores.masked_fill(~(mask | empty), float("-inf")).softmax(dim=-1)
    return weights.masked_fill(empty, 0.0) @ value


@right()
def causal_by_triangle(q, k, v):
    """Block the upper triangle above the diagonal."""
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
    blocked = torch.triu(torch.ones_like(scores), diagonal=1).bool()
    return scores.masked_fill(blocked, float("-inf")).softmax(dim=-1) @ v


@right()
def causal_if_asked(query, key, value, causal=False):
    """Compare positions, when causality is asked for."""
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.size(-1))
    if causal:
        rows = torch.arange(query.size(-2), device=query.device)
        columns = torch.arange(key.size(-2), device=query.device)
        scores = scores.masked_fill(columns > rows[:, None], -1e9)
    return F.softmax(scores, dim=-1) @ value


@right()
def causal_by_loop(queries, keys, values):
    """Attend to a slice that ends with the own key."""
    rows = []
    for i, query in enumerate(queries):
        scores = keys[: i + 1] @ query / math.sqrt(keys.size(1))
        rows.append(scores.softmax(dim=0) @ values[: i + 1])
    return torch.stack(rows)
