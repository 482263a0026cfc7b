"""Right: attention functions in many styles, none of which may be accused."""

import math

import torch
import torch.nn.functional as F

from attnlab.clinic.broken._case import right


@right()
def attention_for_one_text(Q, K, V):
    """Write the formula for two axes, with .T."""
    _, d_k = Q.shape
    weights = torch.softmax(Q @ K.T / math.sqrt(d_k), dim=1)
    return weights @ V


@right()
def attention_for_any_axes(query, key, value):
    """Write the formula with negative axes, so any number of axes in front will do."""
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.size(-1))
    return torch.softmax(scores, dim=-1) @ value


@right()
def attention_with_bmm(q, k, v):
    """Use bmm on three axes and return the weights first."""
    attn = F.softmax(torch.bmm(q, k.transpose(1, 2)) / k.size(2) ** 0.5, dim=2)
    return attn, torch.bmm(attn, v)


@right()
def attention_with_einsum(queries, keys, values):
    """Use einsum on four axes."""
    scores = torch.einsum("nhqd,nhkd->nhqk", queries, keys) * queries.shape[-1] ** -0.5
    return torch.einsum("nhqk,nhkd->nhqd", scores.softmax(dim=3), values)


@right()
def attention_with_ellipsis(Q, K, V):
    """Use einsum with an ellipsis and return the weights too."""
    weights = (torch.einsum("...qd,...kd->...qk", Q, K) / math.sqrt(Q.size(-1))).softmax(-1)
    return torch.einsum("...qk,...kd->...qd", weights, V), weights


@right()
def attention_fused(query, key, value, attn_mask=None):
    """Wrap torch's own function."""
    return F.scaled_dot_product_attention(query, key, value, attn_mask=attn_mask)


@right()
def attention_fused_causal(q, k, v, is_causal=False):
    """Wrap torch's own function and its flag."""
    return F.scaled_dot_product_attention(q, k, v, is_causal=is_causal)


@right()
def attention_with_safe_softmax(q, k, v):
    """Write the softmax by hand and subtract the maximum."""
    scores = q @ k.mT / math.sqrt(q.size(-1))
    exps = torch.exp(scores - scores.amax(dim=-1, keepdim=True))
    return exps / exps.sum(dim=-1, keepdim=True) @ v


@right()
def attention_with_plain_softmax(query, key, value):
    """Write the softmax by hand without the maximum, right for moderate scores."""
    exps = torch.exp(query @ key.transpose(-2, -1) / math.sqrt(query.size(-1)))
    return exps / exps.sum(dim=-1, keepdim=True) @ value


@right()
def attention_with_logsumexp(Q, K, V):
    """Subtract the logarithm of the sum and take the exponential last."""
    scores = Q @ K.transpose(-1, -2) / Q.size(-1) ** 0.5
    return torch.exp(scores - scores.logsumexp(dim=-1, keepdim=True)) @ V


@right()
def attention_in_tiles(query, key, value):
    """Visit the keys two at a time and correct the sums on the way."""
    query = query / math.sqrt(query.size(-1))
    top = torch.full_like(query[..., :1], -math.inf)
    total = torch.zeros_like(top)
    output = torch.zeros_like(query[..., :1]) * value[..., :1, :]
    for start in range(0, key.size(-2), 2):
        scores = query @ key[..., start : start + 2, :].transpose(-2, -1)
        new_top = torch.maximum(top, scores.amax(dim=-1, keepdim=True))
        exps, shrink = torch.exp(scores - new_top), torch.exp(top - new_top)
        total = total * shrink + exps.sum(dim=-1, keepdim=True)
        output = output * shrink + exps @ value[..., start : start + 2, :]
        top = new_top
    return output / total


@right()
def attention_query_by_query(queries, keys, values):
    """Loop over the queries of one text."""
    rows = []
    for query in queries:
        weights = torch.softmax(keys @ query / math.sqrt(query.numel()), dim=0)
        rows.append(weights @ values)
    return torch.stack(rows)


@right()
def attention_head_by_head(q, k, v):
    """Loop over the heads of four axes."""
    heads = []
    for h in range(q.size(1)):
        scores = torch.bmm(q[:, h], k[:, h].transpose(1, 2)) / math.sqrt(q.size(3))
        heads.append(torch.bmm(scores.softmax(dim=-1), v[:, h]))
    return torch.stack(heads, dim=1)


@right()
def attention_with_scaled_query(query, key, value):
    """Fold the scale into the query, on a copy."""
    query = query * query.size(-1) ** -0.5
    return (query @ key.transpose(-2, -1)).softmax(dim=-1) @ value


@right()
def attention_with_scaled_key(q, k, v):
    """Fold the scale into the key, on a copy."""
    k = k / math.sqrt(k.size(-1))
    return F.softmax(torch.matmul(q, k.transpose(-2, -1)), dim=-1) @ v


@right()
def attention_scaled_on_both_sides(Q, K, V):
    """Give query and key d ** -0.25 each, which makes the square root."""
    factor = Q.size(-1) ** -0.25
    return torch.softmax((Q * factor) @ (K * factor).mT, dim=-1) @ V


@right()
def attention_with_tensor_root(query, key, value):
    """Take the root with torch.sqrt of a small tensor."""
    d_k = torch.tensor(query.size(-1), dtype=torch.float32)
    scores = query @ key.transpose(-2, -1) / torch.sqrt(d_k)
    return scores.softmax(dim=-1) @ value


@right()
def attention_with_float32_softmax(query, key, value, attn_mask=None):
    """Compute the softmax of low precision in float32 and cast back."""
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.size(-1))
    if attn_mask is not None:
        scores = scores.masked_fill(~attn_mask, torch.finfo(scores.dtype).min)
    wide = torch.promote_types(scores.dtype, torch.float32)
    return F.softmax(scores, dim=-1, dtype=wide).to(query.dtype) @ value


@right()
def attention_with_columns(query, key, value):
    """Keep the scores as keys by queries and turn everything back at the end."""
    scores = key @ query.transpose(-2, -1) / math.sqrt(key.size(-1))
    columns = value.transpose(-2, -1) @ scores.softmax(dim=-2)
    return columns.transpose(-2, -1)


@right()
def attention_in_keras_argument_order(query, value, key):
    """Take the value before the key, as Keras does."""
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.size(-1))
    return torch.softmax(scores, dim=-1) @ value


@right()
class DotProductAttention(torch.nn.Module):
    """Wrap the formula in a module without parameters."""

    def __init__(self, dropout=0.1):
        super().__init__()
        self.dropout = torch.nn.Dropout(dropout)

    def forward(self, queries, keys, values):  # noqa: D102  (the class says it)
        scores = queries @ keys.transpose(-2, -1) / math.sqrt(queries.size(-1))
        return self.dropout(scores.softmax(dim=-1)) @ values
