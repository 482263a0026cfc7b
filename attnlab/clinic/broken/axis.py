"""Broken: the softmax runs along the wrong axis, does not normalise, or picks a single key."""

import math

import torch
import torch.nn.functional as F

from attnlab.clinic.broken._case import broken


@broken("softmax-axis", misconception="M6", met="the first version most people write")
def attend_down_the_columns(query, key, value):
    """Softmax over the queries, so the columns sum to 1 and the rows do not."""
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])
    weights = torch.softmax(scores, dim=-2)
    return weights @ value


@broken("softmax-axis", misconception="M6", met="forum question")
def attend_with_axis_one(q, k, v):
    """Softmax with dim=1, which on a batch is the axis of the queries."""
    scores = torch.bmm(q, k.transpose(1, 2)) / k.size(2) ** 0.5
    attn = F.softmax(scores, dim=1)
    return torch.bmm(attn, v), attn


@broken("softmax-axis", misconception="M6", met="code for one sentence, moved to a batch")
def attend_with_axis_zero(Q, K, V):
    """Softmax with dim=0, so the sentences of a batch compete with each other."""
    _, _, d_k = Q.shape
    scores = torch.einsum("bqd,bkd->bqk", Q, K) / math.sqrt(d_k)
    return torch.einsum("bqk,bkd->bqd", scores.softmax(dim=0), V)


@broken("softmax-axis", misconception="M6", met="forum question")
def attend_with_four_axes(queries, keys, values):
    """Softmax with dim=1 on four axes, so the heads compete with each other."""
    head_dim = queries.size(3)
    scores = torch.einsum("nhqd,nhkd->nhqk", queries, keys) / math.sqrt(head_dim)
    weights = torch.softmax(scores, dim=1)
    return torch.einsum("nhqk,nhkd->nhqd", weights, values)


@broken("softmax-axis", misconception="M6", met="old tutorials, before dim had to be given")
def attend_without_naming_the_axis(q, k, v):
    """Softmax without dim: torch chooses axis 0 for three axes, that is the batch."""
    scores = torch.bmm(q, k.transpose(1, 2)) / math.sqrt(q.size(-1))
    return torch.bmm(F.softmax(scores), v)


@broken("softmax-axis", misconception="M6", met="softmax written by hand")
def attend_by_hand_over_queries(Q, K, V):
    """Divide by the sum over the queries instead of the sum over the keys."""
    scores = Q @ K.mT / math.sqrt(Q.size(-1))
    exps = torch.exp(scores - scores.max())
    return exps / exps.sum(dim=-2, keepdim=True) @ V


@broken("not-normalised", misconception="scores are weights", met="the first version most write")
def attend_with_raw_scores(query, key, value):
    """Use the scores themselves as weights: there is no softmax."""
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.size(-1))
    return scores @ value


@broken("not-normalised", misconception="any squashing will do", met="forum question")
def attend_with_sigmoid(queries, keys, values):
    """Squash each score on its own with a sigmoid, so a row has no fixed sum."""
    d = queries.shape[-1]
    weights = torch.sigmoid(queries @ keys.transpose(-1, -2) / d**0.5)
    return weights @ values, weights


@broken("not-normalised", misconception="softmax is exp", met="softmax written by hand")
def attend_with_bare_exp(q, k, v):
    """Take the exponential and forget to divide by the sum of the row."""
    scores = torch.einsum("...ld,...sd->...ls", q, k) * q.size(-1) ** -0.5
    return scores.exp() @ v


@broken("not-normalised", misconception="scale after softmax", met="misread formula")
def attend_scaled_too_late(Q, K, V):
    """Divide the weights by the root of d after the softmax instead of the scores before it."""
    d_k = Q.shape[-1]
    weights = F.softmax(Q @ K.transpose(-2, -1), dim=-1) / math.sqrt(d_k)
    return weights @ V


@broken("not-normalised", misconception="softmax, log_softmax, same thing", met="forum question")
def attend_with_log_softmax(query, key, value):
    """Average with log-probabilities, which are negative and do not sum to 1."""
    scores = query @ key.transpose(-2, -1) / math.sqrt(key.size(-1))
    return F.log_softmax(scores, dim=-1) @ value


@broken("hard", misconception="attention looks the best key up", met="dictionary analogy")
def attend_to_the_best_key(query, key, value):
    """Copy the value of the largest score only, as a dictionary would."""
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])
    best = scores.argmax(dim=-1)
    return F.one_hot(best, key.shape[-2]).to(value.dtype) @ value


@broken("hard", misconception="attention looks the best key up", met="word-alignment picture")
def attend_by_gathering(q, k, v):
    """Gather one value row per query with argmax."""
    scores = torch.bmm(q, k.transpose(1, 2)) / math.sqrt(q.size(2))
    best = scores.argmax(dim=2, keepdim=True)
    return torch.gather(v, 1, best.expand(-1, -1, v.size(2)))
