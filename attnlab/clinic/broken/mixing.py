"""Broken: sequences, heads or positions that should be apart are mixed, or a shape is assumed."""

import math

import torch
import torch.nn.functional as F

from attnlab.clinic.broken._case import broken


@broken(
    "batch-mixing", misconception="a batch is one long text", met="reshape(-1, d) before matmul"
)
def attend_across_the_batch(q, k, v):
    """Flatten the batch first, so every sentence attends to all the others."""
    n, length, d = q.shape
    scores = q.reshape(-1, d) @ k.reshape(-1, d).t() / math.sqrt(d)
    output = scores.softmax(dim=-1) @ v.reshape(-1, v.shape[-1])
    return output.view(n, length, v.shape[-1])


@broken("batch-mixing", misconception="letters of an einsum", met="einsum slip")
def attend_with_summed_keys(Q, K, V):
    """Sum the keys over the batch, because c stands on one side only."""
    scores = torch.einsum("bqd,ckd->bqk", Q, K) / math.sqrt(Q.size(-1))
    return torch.einsum("bqk,bkd->bqd", scores.softmax(-1), V)


@broken("head-mixing", misconception="heads share one map", met="averaging maps for a plot")
def attend_with_averaged_heads(query, key, value):
    """Average the weights over the heads before they are used."""
    scores = torch.einsum("nhqd,nhkd->nhqk", query, key) / math.sqrt(query.size(-1))
    weights = scores.softmax(dim=-1).mean(dim=1, keepdim=True)
    return weights @ value


@broken("head-mixing", misconception="M3", met="one transpose too many")
def attend_between_heads(q, k, v):
    """Move the heads next to the features, so heads attend to heads inside each token."""
    q, k, v = (t.transpose(1, 2) for t in (q, k, v))
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
    return (scores.softmax(dim=-1) @ v).transpose(1, 2)


@broken("position-mixing", misconception="reshape is transpose", met="column formula, half undone")
def attend_with_columns(query, key, value):
    """Compute the output as columns and reshape it back where a transpose is needed."""
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.size(-1))
    columns = value.transpose(-2, -1) @ scores.softmax(dim=-1).transpose(-2, -1)
    return columns.reshape(*query.shape[:-1], value.shape[-1])


@broken(
    "position-mixing", misconception="order does not matter", met="sorted queries never put back"
)
def attend_in_reverse(q, k, v):
    """Return the rows of the output from last to first."""
    rows = []
    for i in reversed(range(q.size(-2))):
        scores = q[..., i : i + 1, :] @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
        rows.append(scores.softmax(dim=-1) @ v)
    return torch.cat(rows, dim=-2)


@broken("transposed-batch", misconception="transpose on a batch", met="2-D code moved to a batch")
def attend_with_axes_zero_and_one(q, k, v):
    """Exchange batch and length of the key instead of length and features."""
    _, _, d = q.shape
    scores = torch.matmul(q, k.transpose(0, 1)) / math.sqrt(d)
    return torch.matmul(F.softmax(scores, dim=-1), v)


@broken(
    "transposed-batch",
    misconception="transpose on a batch",
    met="keys.T for one text, given a batch",
)
def attend_with_capital_t(queries, keys, values):
    """Use .T on a batch, which reverses all three axes."""
    batch, length, d = queries.shape
    scores = queries @ keys.T / math.sqrt(d)
    return (scores.softmax(dim=-1) @ values).view(batch, length, -1)


@broken(
    "square-only", misconception="attention tables are square", met="self-attention code reused"
)
def attend_in_a_square(query, key, value):
    """Fill a table as long as the queries on both sides; further keys are never seen."""
    length, d = query.shape
    scores = torch.zeros(length, length, dtype=query.dtype, device=query.device)
    for i in range(length):
        for j in range(length):
            scores[i, j] = query[i] @ key[j] / math.sqrt(d)
    return scores.softmax(dim=-1) @ value[:length]


@broken("square-only", misconception="values are as wide as queries", met="zeros_like(query)")
def attend_into_zeros_like_query(q, k, v):
    """Write into zeros shaped like the query, so values of another width do not fit."""
    output = torch.zeros_like(q)
    for i in range(q.size(-2)):
        scores = (k * q[..., i : i + 1, :]).sum(-1) / math.sqrt(q.size(-1))
        output[..., i, :] = (scores.softmax(-1).unsqueeze(-1) * v).sum(-2)
    return output


@broken("square-only", misconception="attention tables are square", met="view with one length")
def attend_with_one_length(Q, K, V):
    """View the weights as length by length, which fails for another number of keys."""
    n, length, d = Q.shape
    weights = torch.softmax(Q @ K.transpose(1, 2) / math.sqrt(d), dim=-1)
    weights = weights.view(n, length, length)
    return weights @ V, weights


@broken("weights-differ", misconception="scores are weights", met="the wrong variable returned")
def attend_and_return_scores(query, key, value):
    """Return the scores where the weights belong."""
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.size(-1))
    output = torch.softmax(scores, dim=-1) @ value
    return output, scores


@broken(
    "weights-differ",
    misconception="M13",
    met="maps drawn without the mask, UvA tutorial 6 (anchors B7)",
)
def attend_and_return_unmasked_map(q, k, v, mask=None):
    """Return the map of the unmasked scores beside the masked output."""
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
    attn_map = scores.softmax(dim=-1)
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    return scores.softmax(dim=-1) @ v, attn_map


@broken("weights-differ", misconception="M13", met="fused kernel, map computed a second time")
def attend_fused_with_own_map(query, key, value):
    """Recompute the weights for the reader and forget the scale."""
    output = F.scaled_dot_product_attention(query, key, value)
    weights = torch.softmax(query @ key.transpose(-2, -1), dim=-1)
    return output, weights
