"""Broken: query, key and value play each other's part."""

import math

import torch
import torch.nn.functional as F

from attnlab.clinic.broken._case import broken


@broken("key-value-swapped", misconception="roles of key and value", met="forum question")
def attend_with_key_as_value(query, key, value):
    """Compare with the values and average the keys."""
    scores = query @ value.transpose(-2, -1) / math.sqrt(query.size(-1))
    return torch.softmax(scores, dim=-1) @ key


@broken("key-value-swapped", misconception="order of arguments", met="Keras order in a torch call")
def attend_in_keras_order(q, k, v):
    """Hand the value to the fused kernel where it expects the key."""
    return F.scaled_dot_product_attention(q, v, k)


@broken("query-key-swapped", misconception="K Q^T is Q K^T", met="transposed formula")
def attend_from_the_keys(Q, K, V):
    """Form K Q^T, so a row of the scores belongs to a key and not to a query."""
    scores = K @ Q.transpose(-2, -1) / math.sqrt(K.size(-1))
    return F.softmax(scores, dim=-1) @ V


@broken("query-key-swapped", misconception="letters of an einsum", met="einsum slip")
def attend_with_exchanged_letters(queries, keys, values):
    """Write the scores as bkq, so query and key exchange their places."""
    scores = torch.einsum("bqd,bkd->bkq", queries, keys) / math.sqrt(queries.size(2))
    weights = scores.softmax(dim=2)
    return torch.bmm(weights, values), weights


@broken("wrong-source", misconception="self-attention compares with itself", met="typing slip")
def attend_query_with_query(query, key, value):
    """Compare the queries with the queries; the keys are never used."""
    scores = query @ query.transpose(-2, -1) / math.sqrt(query.size(-1))
    return torch.softmax(scores, dim=-1) @ value


@broken("wrong-source", misconception="self-attention compares with itself", met="typing slip")
def attend_key_with_key(q, k, v):
    """Compare the keys with the keys; the queries are never used."""
    scores = torch.einsum("...ld,...sd->...ls", k, k) / k.size(-1) ** 0.5
    return scores.softmax(-1) @ v


@broken("wrong-source", misconception="what is averaged", met="the first version most people write")
def attend_and_average_keys(Q, K, V):
    """Average the keys; the values are never used."""
    weights = F.softmax(Q @ K.transpose(-2, -1) / math.sqrt(Q.size(-1)), dim=-1)
    return weights @ K


@broken("wrong-source", misconception="attention reweighs the query", met="forum question")
def attend_and_average_queries(query, key, value):
    """Average the queries; the values are never used."""
    weights = torch.softmax(query @ key.transpose(-2, -1) / math.sqrt(query.size(-1)), dim=-1)
    return weights @ query
