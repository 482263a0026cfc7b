"""Broken: the mask is ignored, read the wrong way round, applied too late or to the wrong axis."""

import math

import torch
import torch.nn.functional as F

from attnlab.clinic.broken._case import broken


@broken("mask-ignored", misconception="masked_fill is in place", met="the first version most write")
def attend_without_keeping_the_fill(query, key, value, mask=None):
    """Call masked_fill and drop its result."""
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.size(-1))
    if mask is not None:
        scores.masked_fill(mask == 0, -1e9)
    return scores.softmax(dim=-1) @ value


@broken("mask-ignored", misconception="M9", met="argument accepted, never passed on")
def attend_and_drop_the_mask(q, k, v, attn_mask=None):
    """Accept a mask and never hand it to the kernel."""
    return F.scaled_dot_product_attention(q, k, v)


@broken("mask-inverted", misconception="M1", met="LLMs-from-scratch issue 1061 (anchors B1)")
def attend_with_blocked_mask(query, key, value, attn_mask):
    """Block where the mask is True, as nn.MultiheadAttention would."""
    return F.scaled_dot_product_attention(query, key, value, attn_mask=~attn_mask)


@broken("mask-inverted", misconception="M1", met="cs249r_book pull request 1785 (anchors B9)")
def attend_with_mask_upside_down(Q, K, V, mask=None):
    """Fill the places that the mask allows."""
    scores = torch.matmul(Q, K.transpose(-2, -1)) / math.sqrt(K.size(-1))
    if mask is not None:
        scores = scores.masked_fill(mask == 1, -1e9)
    weights = F.softmax(scores, dim=-1)
    return torch.matmul(weights, V), weights


@broken("mask-inverted", misconception="M1", met="torch.where with its branches exchanged")
def attend_where_not(queries, keys, values, mask):
    """Exchange the two branches of torch.where."""
    scores = queries @ keys.mT * queries.size(-1) ** -0.5
    scores = torch.where(mask, torch.full_like(scores, -1e9), scores)
    return scores.softmax(dim=-1) @ values


@broken("mask-added", misconception="M1", met="a boolean mask given to a formula that adds")
def attend_with_mask_plus_scores(query, key, value, mask=None):
    """Add True as 1 to the scores: a nudge instead of a block."""
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.size(-1))
    if mask is not None:
        scores = scores + mask
    return torch.softmax(scores, dim=-1) @ value


@broken("mask-added", misconception="M1", met="a 0/1 float mask handed to the fused kernel")
def attend_with_float_mask(q, k, v, attn_mask):
    """Turn the mask into floats, which the fused kernel adds to the scores."""
    return F.scaled_dot_product_attention(q, k, v, attn_mask=attn_mask.to(q.dtype))


@broken("mask-multiplied", misconception="a score of 0 is no attention", met="forum question")
def attend_with_mask_times_scores(Q, K, V, mask):
    """Multiply the scores by the mask: a score of 0 still gets a weight."""
    scores = Q @ K.transpose(-2, -1) / math.sqrt(Q.size(-1))
    return (scores * mask).softmax(dim=-1) @ V


@broken("mask-multiplied", misconception="a score of 0 is no attention", met="the first version")
def attend_with_zero_fill(query, key, value, mask=None):
    """Fill with 0 before the softmax, which leaves exp(0) = 1 behind."""
    scores = torch.bmm(query, key.transpose(1, 2)) / math.sqrt(query.size(2))
    if mask is not None:
        scores = scores.masked_fill(~mask, 0.0)
    weights = scores.softmax(dim=2)
    return torch.bmm(weights, value), weights


@broken(
    "mask-after-softmax",
    misconception="before or after is the same",
    met="the first version most write",
)
def attend_then_mask(queries, keys, values, mask):
    """Zero the weights after the softmax and leave the rows short of 1."""
    scores = queries @ keys.transpose(-2, -1) / math.sqrt(queries.size(-1))
    weights = scores.softmax(dim=-1) * mask
    return weights @ values


@broken("mask-after-softmax", misconception="before or after is the same", met="forum question")
def attend_then_fill(q, k, v, mask=None):
    """Fill the weights with 0 after the softmax."""
    attn = F.softmax(torch.einsum("...ld,...sd->...ls", q, k) / q.size(-1) ** 0.5, dim=-1)
    if mask is not None:
        attn = attn.masked_fill(mask.logical_not(), 0)
    return attn @ v


@broken("mask-finite", misconception="any negative number blocks", met="forum question")
def attend_with_minus_ten(query, key, value, mask=None):
    """Fill with -10, which large scores outrun."""
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.size(-1))
    if mask is not None:
        scores = scores.masked_fill(~mask, -10.0)
    return scores.softmax(dim=-1) @ value


@broken("mask-finite", misconception="any negative number blocks", met="-1 read as blocked")
def attend_with_minus_one(q, k, v, mask):
    """Fill with -1, an ordinary score."""
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
    return torch.where(mask, scores, -1.0).softmax(dim=-1) @ v


@broken("mask-multiplied", misconception="M7", met="-1e9 mistyped")
def attend_with_tiny_fill(Q, K, V, mask=None):
    """Fill with -1e-9, which is zero for the softmax."""
    scores = Q @ K.transpose(-2, -1) / math.sqrt(Q.shape[-1])
    if mask is not None:
        scores = scores.masked_fill(mask == 0, -1e-9)
    return F.softmax(scores, dim=-1) @ V


@broken("mask-multiplied", misconception="M7", met="finfo.tiny taken for finfo.min")
def attend_with_finfo_tiny(query, key, value, attn_mask=None):
    """Fill with finfo.tiny, the smallest positive number, instead of finfo.min."""
    scores = query @ key.transpose(-2, -1) * query.size(-1) ** -0.5
    if attn_mask is not None:
        scores = scores.masked_fill(~attn_mask, torch.finfo(scores.dtype).tiny)
    return scores.softmax(dim=-1) @ value


@broken("mask-finite", misconception="M7", met="-100 taken from ignore_index")
def attend_with_minus_hundred(q, k, v, mask):
    """Fill with -100, enough for small scores and too little for large ones."""
    scores = (q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))).masked_fill(~mask, -100.0)
    return scores.softmax(dim=-1) @ v


@broken("mask-queries", misconception="M8", met="uvadlc issue 67", mask="blocked")
def attend_with_padded_rows(query, key, value, key_padding_mask=None):
    """Block the rows of padded queries and leave their columns open."""
    scores = torch.bmm(query, key.transpose(1, 2)) / math.sqrt(query.size(-1))
    if key_padding_mask is not None:
        scores = scores.masked_fill(key_padding_mask[:, :, None], -1e9)
    return torch.bmm(scores.softmax(dim=-1), value)


@broken("mask-queries", misconception="M8", met="padding zeroed at the end", mask="blocked")
def attend_with_zeroed_rows(q, k, v, key_padding_mask):
    """Set the output of padded queries to 0; the padding is still attended to."""
    output = F.scaled_dot_product_attention(q, k, v)
    return output.masked_fill(key_padding_mask.unsqueeze(-1), 0.0)


@broken("mask-transposed", misconception="M10", met="rows taken for keys")
def attend_with_mask_transposed(query, key, value, mask=None):
    """Use mask[j, i] for query i and key j."""
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.size(-1))
    if mask is not None:
        scores = scores.masked_fill(~mask.transpose(-2, -1), -1e9)
    return scores.softmax(dim=-1) @ value


@broken("mask-transposed", misconception="M10", met="scores kept as keys by queries")
def attend_with_scores_as_columns(Q, K, V, mask):
    """Keep the scores as keys by queries and apply a queries-by-keys mask to them."""
    scores = K @ Q.mT / math.sqrt(Q.size(-1))
    scores = scores.masked_fill(~mask, float("-inf"))
    return scores.softmax(dim=-2).mT @ V


@broken("mask-broadcast", misconception="M10", met="a mask for each sentence, no axis for heads")
def attend_with_mask_over_heads(query, key, value, mask=None):
    """Give a mask of each sentence (N, L, S) to the heads instead of the batch."""
    scores = torch.einsum("nhld,nhsd->nhls", query, key) / math.sqrt(query.size(-1))
    if mask is not None:
        n, length, keys = mask.shape
        scores = scores.masked_fill(~mask.view(1, n, length, keys), float("-inf"))
    return scores.softmax(dim=-1) @ value


@broken(
    "mask-broadcast", misconception="M10", met="unsqueeze once instead of twice", mask="blocked"
)
def attend_with_padding_over_heads(q, k, v, key_padding_mask=None):
    """Unsqueeze a padding mask (N, S) once, so its batch axis lands on the heads."""
    scores = torch.einsum("nhld,nhsd->nhls", q, k) / math.sqrt(q.size(-1))
    if key_padding_mask is not None:
        scores = scores.masked_fill(key_padding_mask.unsqueeze(1), float("-inf"))
    return torch.einsum("nhls,nhsd->nhld", scores.softmax(dim=-1), v)


@broken("blocked-row", misconception="M2", met="every library, in its own way", strict=True)
def attend_with_infinite_fill(query, key, value, mask=None):
    """Give NaN for a query that may attend to nothing."""
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.size(-1))
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    return torch.softmax(scores, dim=-1) @ value


@broken("blocked-row", misconception="M7", met="d2l valid_len 0 (anchors B5)", strict=True)
def attend_with_large_fill(q, k, v, mask=None):
    """Give the plain average of all values, padding too, for a fully masked query."""
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
    if mask is not None:
        scores = scores.masked_fill(~mask, -1e6)
    return F.softmax(scores, dim=-1) @ v


@broken("nan", misconception="0 times infinity is 0", met="forum question")
def attend_with_zero_times_infinity(query, key, value, mask=None):
    """Turn the mask into 0 and -inf by a product: 0 times -inf is NaN."""
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.size(-1))
    if mask is not None:
        scores = scores + (1 - mask.to(scores.dtype)) * float("-inf")
    return scores.softmax(dim=-1) @ value
