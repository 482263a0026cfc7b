"""Broken: functions that promise causality and let the future in, or shut the present out."""

import math

import torch
import torch.nn.functional as F

from attnlab.clinic.broken._case import broken


@broken("causal-missing", misconception="M11", met="argument accepted, never used")
def attend_and_ignore_the_flag(query, key, value, is_causal=False):
    """Accept is_causal and never look at it."""
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.size(-1))
    return scores.softmax(dim=-1) @ value


@broken("causal-missing", misconception="masked_fill is in place", met="result of masked_fill lost")
def causal_attention_without_the_fill(q, k, v):
    """Build the causal mask and drop the masked scores."""
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
    future = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).triu(1)
    scores.masked_fill(future, float("-inf"))
    return scores.softmax(dim=-1) @ v


@broken("causal-off-by-one", misconception="which diagonal", met="triu with the wrong diagonal")
def causal_attention_with_next_key(Q, K, V):
    """Block from the second key after the query on, so the next token is seen."""
    scores = Q @ K.transpose(-2, -1) / math.sqrt(Q.size(-1))
    blocked = torch.ones_like(scores, dtype=torch.bool).triu(diagonal=2)
    weights = scores.masked_fill(blocked, float("-inf")).softmax(dim=-1)
    return weights @ V, weights


@broken("causal-off-by-one", misconception="which diagonal", met="tril with the wrong diagonal")
def attend_strictly_before(query, key, value, is_causal=False):
    """Allow earlier keys only, so a token cannot see itself."""
    mask = None
    if is_causal:
        size = (query.size(-2), key.size(-2))
        mask = torch.ones(size, dtype=torch.bool, device=query.device).tril(diagonal=-1)
    return F.scaled_dot_product_attention(query, key, value, attn_mask=mask)


@broken("causal-off-by-one", misconception="which diagonal", met="triu without diagonal=1")
def causal_attention_without_itself(q, k, v):
    """Block the own key too; the first row has nothing left and is NaN."""
    scores = torch.bmm(q, k.transpose(1, 2)) / math.sqrt(q.size(-1))
    blocked = torch.triu(torch.ones_like(scores[0])) == 1
    return scores.masked_fill(blocked, float("-inf")).softmax(dim=-1) @ v


@broken("causal-off-by-one", misconception="range stops early", met="loop over the past")
def causal_attention_by_loop(queries, keys, values):
    """Slice the past up to i + 2, one key too many."""
    rows = []
    for i in range(queries.shape[0]):
        scores = keys[: i + 2] @ queries[i] / math.sqrt(keys.shape[1])
        rows.append(scores.softmax(dim=0) @ values[: i + 2])
    return torch.stack(rows)


@broken("causal-flipped", misconception="M1", met="LLMs-from-scratch issue 1061 (anchors B1)")
def causal_attention_with_blocked_triangle(query, key, value):
    """Hand the fused kernel a triangle of blocked places, which it reads as allowed."""
    size = (query.size(-2), key.size(-2))
    blocked = torch.ones(size, dtype=torch.bool, device=query.device).triu(diagonal=1)
    return F.scaled_dot_product_attention(query, key, value, attn_mask=blocked)


@broken("causal-flipped", misconception="triu for tril", met="triu for tril")
def attend_to_the_future(q, k, v, causal=False):
    """Keep the upper triangle, so a token sees itself and what follows."""
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
    if causal:
        keep = torch.triu(torch.ones_like(scores))
        scores = scores.masked_fill(keep == 0, float("-inf"))
    return scores.softmax(dim=-1) @ v


@broken(
    "causal-leak", misconception="a window looks both ways", met="sliding window, causal forgotten"
)
def attend_in_a_window(query, key, value, is_causal=False):
    """Allow two neighbours on either side, so two later tokens are seen."""
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.size(-1))
    if is_causal:
        rows = torch.arange(query.size(-2), device=query.device)[:, None]
        columns = torch.arange(key.size(-2), device=query.device)
        scores = scores.masked_fill((rows - columns).abs() > 2, float("-inf"))
    return scores.softmax(dim=-1) @ value


@broken("causal-leak", misconception="M10", met="a mask meant for all heads, indexed with 0")
def causal_attention_in_one_head(q, k, v):
    """Mask the first head only, so the other heads see later tokens."""
    scores = q @ k.transpose(2, 3) / math.sqrt(q.size(3))  # (N, H, L, S)
    blocked = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).triu(1)
    scores[:, 0] = scores[:, 0].masked_fill(blocked, float("-inf"))
    return scores.softmax(dim=-1) @ v


@broken(
    "mask-multiplied", misconception="a score of 0 is no attention", met="torch.tril of the scores"
)
def causal_attention_with_zero_scores(Q, K, V):
    """Set later scores to 0 with tril, which the softmax does not read as blocked."""
    scores = torch.tril(Q @ K.transpose(-2, -1) / math.sqrt(Q.size(-1)))
    return F.softmax(scores, dim=-1) @ V
