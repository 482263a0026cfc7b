"""Broken: the formula is right, or nearly, and the function behaves badly around it."""

# ruff: noqa: D102  (one sentence on the class says what its forward does)

import math

import torch
import torch.nn.functional as F

from attnlab.clinic.broken._case import broken


@broken("raises", misconception="matmul transposes by itself", met="the first version most write")
def attend_without_transposing(query, key, value):
    """Multiply query and key without a transpose."""
    scores = torch.matmul(query, key) / math.sqrt(query.size(-1))
    return torch.matmul(scores.softmax(dim=-1), value)


@broken("raises", misconception="size() is a number", met="forum question")
def attend_with_root_of_a_shape(q, k, v):
    """Take the root of the whole shape, because size() has no axis."""
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size())
    return scores.softmax(dim=-1) @ v


@broken("not-done", misconception="printing is returning", met="forgotten return")
def attend_without_return(Q, K, V):
    """Compute everything and return nothing."""
    scores = Q @ K.transpose(-2, -1) / math.sqrt(Q.size(-1))
    output = scores.softmax(dim=-1) @ V  # noqa: F841  (the forgotten return is the bug)


@broken("not-done", misconception="stub", met="exercise left as it was")
def attend_later(query, key, value):
    """Do nothing at all."""


@broken("wrong-type", misconception="a list is a tensor", met="loop over the queries")
def attend_row_by_row(queries, keys, values):
    """Return a list of rows instead of one tensor."""
    rows = []
    for query in queries:
        weights = torch.softmax(keys @ query / math.sqrt(keys.shape[-1]), dim=0)
        rows.append(weights @ values)
    return rows


@broken("wrong-type", misconception="yield is return", met="forum question")
def attend_lazily(q, k, v):
    """Yield the rows, so the caller gets a generator."""
    for i in range(q.size(-2)):
        scores = k @ q[..., i, :, None] / math.sqrt(q.size(-1))
        yield (scores.softmax(dim=-2) * v).sum(dim=-2)


@broken("wrong-shape", misconception="one vector for a text", met="context vector of one query")
def attend_and_pool(query, key, value):
    """Average the rows of the output, so the text becomes one vector."""
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.size(-1))
    return (scores.softmax(dim=-1) @ value).mean(dim=-2)


@broken("wrong-shape", misconception="attention is its weights", met="the wrong variable returned")
def attend_and_return_weights_only(q, k, v):
    """Return the weights alone; the values are never averaged."""
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
    return scores.softmax(dim=-1)


@broken("prints", misconception="shapes are watched by printing", met="debugging left behind")
def attend_aloud(Q, K, V):
    """Print the shape of the scores on every call."""
    scores = Q @ K.transpose(-2, -1) / math.sqrt(Q.size(-1))
    print("scores", scores.shape)
    return F.softmax(scores, dim=-1) @ V


@broken("modifies-input", misconception="q /= c makes a new q", met="in-place division")
def attend_and_shrink_the_query(q, k, v):
    """Divide the caller's query in place."""
    q /= math.sqrt(q.size(-1))
    return torch.softmax(q @ k.transpose(-2, -1), dim=-1) @ v


@broken("modifies-input", misconception="names are copies", met="d2l masked_softmax (anchors B5)")
def attend_and_flip_the_mask(query, key, value, mask=None):
    """Negate the caller's mask in place."""
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.size(-1))
    if mask is not None:
        blocked = mask.logical_not_()
        scores = scores.masked_fill(blocked, float("-inf"))
    return scores.softmax(dim=-1) @ value


@broken("random", misconception="M13", met="F.dropout without training=, nanoGPT pull request 240")
def attend_with_dropout(query, key, value):
    """Drop weights on every call: F.dropout is on unless told otherwise."""
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.size(-1))
    weights = F.dropout(scores.softmax(dim=-1), p=0.1)
    return weights @ value


@broken("random", misconception="M13", met="dropout_p in eval, pytorch issue 124464")
def attend_fused_with_dropout(q, k, v, dropout_p=0.2):
    """Pass a dropout rate to the fused kernel, which applies it always."""
    return F.scaled_dot_product_attention(q, k, v, dropout_p=dropout_p)


@broken("random", misconception="a layer can be made anywhere", met="nn.Linear made inside a call")
def attend_with_new_layer(queries, keys, values):
    """Make a new random layer on every call."""
    d = queries.size(-1)
    layer = torch.nn.Linear(d, d).to(queries)
    scores = layer(queries) @ keys.transpose(-2, -1) / math.sqrt(d)
    return scores.softmax(dim=-1) @ values


@broken("remembers", misconception="a cache is harmless", met="keys cached by shape only")
class AttentionWithCachedKeys(torch.nn.Module):
    """Keep the first keys of each shape and use them for every later call."""

    def __init__(self):
        super().__init__()
        self.cache = {}

    def forward(self, query, key, value):
        key = self.cache.setdefault(key.shape, key)
        scores = query @ key.transpose(-2, -1) / math.sqrt(query.size(-1))
        return scores.softmax(dim=-1) @ value


@broken("hangs", misconception="while needs a step", met="i += 1 forgotten")
def attend_forever(q, k, v):
    """Never move on to the next query."""
    rows, i = [], 0
    while i < q.size(-2):
        scores = k @ q[..., i, :, None] / math.sqrt(q.size(-1))
        rows[i:] = [(scores.softmax(dim=-2) * v).sum(dim=-2)]
    return torch.stack(rows, dim=-2)


@broken("detached", misconception="numpy and torch are the same", met="softmax done in numpy")
def attend_in_numpy(query, key, value):
    """Leave torch for numpy, so no gradient comes back."""
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.size(-1))
    weights = torch.from_numpy(scores.softmax(dim=-1).detach().cpu().numpy())
    return (weights @ value.detach().cpu()).to(query)


@broken("detached", misconception="weights need no gradient", met="detach before plotting")
def attend_with_detached_weights(q, k, v):
    """Detach the weights, so query and key never learn."""
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
    weights = scores.softmax(dim=-1).detach()
    return weights @ v, weights


@broken("detached", misconception="torch.tensor keeps the graph", met="forum question")
def attend_and_rebuild_tensor(queries, keys, values):
    """Rebuild the output with torch.tensor, which starts a new graph."""
    output = F.scaled_dot_product_attention(queries, keys, values)
    return torch.tensor(output.tolist(), dtype=values.dtype, device=values.device)


@broken("contiguity", misconception="M15", met="view of a transposed tensor")
def attend_with_views(q, k, v):
    """Flatten with view, which fails on a transposed input."""
    n, heads, length, d = q.shape
    q, k, v = (t.view(n * heads, -1, t.size(-1)) for t in (q, k, v))
    weights = torch.softmax(torch.bmm(q, k.transpose(1, 2)) / math.sqrt(d), dim=-1)
    return torch.bmm(weights, v).view(n, heads, length, -1)


@broken("contiguity", misconception="M15", met="as_strided instead of transpose")
def attend_with_strides(query, key, value):
    """Read the key's memory as if it were contiguous; a transposed key gives wrong numbers."""
    s, d = key.shape
    turned = key.as_strided((d, s), (1, d))
    return torch.softmax(query @ turned / math.sqrt(d), dim=-1) @ value


@broken("device", misconception="tensors are born on the right device", met="works on the laptop")
def attend_with_mask_on_cpu(q, k, v, is_causal=False):
    """Make the causal mask on the CPU wherever the input is."""
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
    if is_causal:
        blocked = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
        scores = scores.masked_fill(blocked, float("-inf"))
    return scores.softmax(dim=-1) @ v


@broken("device", misconception="tensors are born on the right device", met="works on the laptop")
def attend_with_bias_on_cpu(query, key, value):
    """Add a table of zeros that lives on the CPU."""
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.size(-1))
    bias = torch.zeros(query.size(-2), key.size(-2), dtype=query.dtype)
    return torch.softmax(scores + bias, dim=-1) @ value


@broken("dtype", misconception="float32 is everything", met=".float() for safety")
def attend_in_float32(Q, K, V):
    """Return float32 whatever came in."""
    Q, K, V = Q.float(), K.float(), V.float()
    scores = Q @ K.transpose(-2, -1) / math.sqrt(Q.size(-1))
    return scores.softmax(dim=-1) @ V


@broken("dtype", misconception="torch.zeros follows the input", met="rows filled into torch.zeros")
def attend_into_default_zeros(q, k, v):
    """Collect the rows in a float32 table, whatever came in."""
    output = torch.zeros(*q.shape[:-1], v.size(-1), device=q.device, dtype=torch.float32)
    for i in range(q.size(-2)):
        scores = q[..., i : i + 1, :] @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
        output[..., i, :] = (scores.softmax(dim=-1) @ v).squeeze(-2)
    return output


@broken("dtype", misconception="half is free", met="autocast written by hand")
def attend_in_half(query, key, value):
    """Compute in bfloat16 and cast back, so two digits are left."""
    low = (t.to(torch.bfloat16) for t in (query, key, value))
    return F.scaled_dot_product_attention(*low).to(query.dtype)
