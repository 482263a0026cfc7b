"""Broken code whose formula is correct, or nearly, and which behaves badly around it."""

# ruff: noqa: D102, D103  (a docstring says what the name does not)

import math

import torch
import torch.nn.functional as F
from torch import nn

from attnlab.clinic.broken._case import broken
from attnlab.clinic.broken._templates import (
    CrossLayer,
    DropoutLayer,
    Layer,
    PaddedLayer,
    StackedLayer,
    Steps,
    masked,
    plain,
    softmax,
)


@broken("raises", plain, step="score")
def no_transpose(self, query, key):
    return torch.matmul(query, key) / math.sqrt(query.size(-1))


@broken("raises", plain, Layer, step="score")
def root_of_a_shape(self, query, key):
    return query @ key.transpose(-2, -1) / math.sqrt(query.size())


@broken("raises", CrossLayer, step="forward")
def flag_raises(self, query, key, value, mask=None, is_causal=False):
    return self.triangle() if is_causal else self.run(query, key, value, mask)


@broken("not-done", plain, step="attend")
def no_return(self, query, key, value, mask):
    self.soft(self.score(query, key)) @ value


@broken("not-done", Layer, step="forward")
def nothing_done(self, x):
    pass
    """Do nothing at all."""


@broken("wrong-type", plain, step="attend")
def list_of_rows(self, query, key, value, mask):
    return list(Steps.attend(self, query, key, value, mask))


@broken("wrong-shape", plain, step="attend")
def rows_averaged(self, query, key, value, mask):
    return Steps.attend(self, query, key, value, mask).mean(dim=-2)


@broken("wrong-shape", plain, step="attend")
def weights_only(self, query, key, value, mask):
    return self.soft(self.score(query, key))


@broken("wrong-shape", Layer, step="merge")
def first_token_only(self, x):
    return Steps.merge(self, x)[:, 0]


@broken("prints", plain, Layer, step="score")
def shape_printed(self, query, key):
    print("query", query.shape)
    return Steps.score(self, query, key)


@broken("modifies-input", plain, step="score")
def query_divided_in_place(self, query, key):
    query /= math.sqrt(query.size(-1))
    return query @ key.transpose(-2, -1)


@broken("modifies-input", masked, step="hide")
def mask_negated_in_place(self, scores, mask):
    return scores.masked_fill(mask.logical_not_(), float("-inf"))


@broken("modifies-input", Layer, step="forward")
def input_doubled_in_place(self, x):
    x *= 2
    return self.run(x, x, x)


@broken("random", plain, Layer, StackedLayer, step="soft")
def dropout_always(self, scores):
    """Drop weights in every call: F.dropout is on unless told otherwise."""
    return F.dropout(scores.softmax(dim=-1), p=0.2)


@broken("random")
def dropout_of_the_fused_kernel(q, k, v, dropout_p=0.2):
    """Pass a dropout rate to the fused kernel, which applies it always."""
    return F.scaled_dot_product_attention(q, k, v, dropout_p=dropout_p)


@broken("random", plain, step="score")
def new_layer_in_every_call(self, query, key):
    layer = nn.Linear(query.size(-1), query.size(-1)).to(query)
    return Steps.score(self, layer(query), key)


@broken("remembers", kind="function")
class CachedKeys(nn.Module):
    """Keep the first keys of each shape and use them for every later call."""

    def __init__(self):
        super().__init__()
        self.cache = {}

    def forward(self, query, key, value):
        key = self.cache.setdefault(key.shape, key)
        return Steps().attend(query, key, value, None)


@broken("remembers", Layer, step="attend")
def cache_never_emptied(self, query, key, value, mask):
    kept = getattr(self, "cache", (key[:, :, :0], value[:, :, :0]))
    if len(kept[0]) == len(key):
        key, value = (torch.cat(pair, dim=2) for pair in zip(kept, (key, value), strict=True))
    self.cache = key.detach(), value.detach()
    return Steps.attend(self, query, key, value, mask)


@broken("hangs", plain, step="attend")
def loop_without_a_step(self, query, key, value, mask):
    rows, i = [], 0
    while i < query.size(-2):
        rows[i:] = [Steps.attend(self, query[..., i : i + 1, :], key, value, mask)]
    return torch.cat(rows, dim=-2)


@broken("detached", plain, softmax, step="soft")
def softmax_in_numpy(self, scores):
    return torch.from_numpy(scores.softmax(dim=-1).detach().cpu().numpy()).to(scores)


@broken("detached", plain, Layer, step="soft")
def weights_detached(self, scores):
    return scores.softmax(dim=-1).detach()


@broken("detached", plain, step="attend")
def output_rebuilt(self, query, key, value, mask):
    output = Steps.attend(self, query, key, value, mask)
    return torch.tensor(output.tolist(), dtype=value.dtype, device=value.device)


@broken("detached", Layer, step="forward")
def input_detached(self, x):
    return self.run(x.data, x.data, x.data)


@broken("contiguity")
def batch_and_heads_viewed_as_one(q, k, v):
    """Flatten with view, which fails on a transposed input."""
    n, heads, length, d = q.shape
    q, k, v = (t.view(n * heads, -1, t.size(-1)) for t in (q, k, v))
    weights = torch.softmax(torch.bmm(q, k.transpose(1, 2)) / math.sqrt(d), dim=-1)
    return torch.bmm(weights, v).view(n, heads, length, -1)


@broken("contiguity", plain, step="score")
def transposed_by_strides(self, query, key):
    """Read the memory of the key as if it were contiguous: a transposed key gives wrong numbers."""
    s, d = key.shape
    return query @ key.as_strided((d, s), (1, d)) / math.sqrt(d)


@broken("contiguity", Layer, step="forward")
def input_viewed(self, x):
    """View the input as one table, which fails on a transposed input."""
    x = x.view(-1, x.size(-1)).view(x.shape)
    return self.run(x, x, x)


@broken("device", plain, Layer, step="score")
def bias_on_the_cpu(self, query, key):
    bias = torch.zeros(query.size(-2), key.size(-2), dtype=query.dtype)
    return Steps.score(self, query, key) + bias


@broken("dtype", plain, step="attend")
def everything_in_float32(self, query, key, value, mask):
    return Steps.attend(self, query.float(), key.float(), value.float(), mask)


@broken("dtype", Layer, softmax, step="soft")
def weights_in_float32(self, scores):
    return scores.softmax(dim=-1).float()


@broken("dtype", plain, step="attend")
def everything_in_bfloat16(self, query, key, value, mask):
    low = (tensor.to(torch.bfloat16) for tensor in (query, key, value))
    return Steps.attend(self, *low, mask).to(query.dtype)


# --- train mode and eval mode ---------------------------------------------------------------------


@broken("train-eval", Layer, DropoutLayer, step="score")
def scaled_in_eval_mode(self, query, key):
    return query @ key.mT * (1 if self.training else query.size(-1) ** -0.5)


@broken("train-eval", Layer, step="attend")
def centred_in_train_mode(self, query, key, value, mask):
    return Steps.attend(self, query, key, value - value.mean(0) * self.training, mask)


@broken("train-eval", PaddedLayer, step="hide")
def padding_hidden_in_eval_mode(self, scores, mask):
    return scores if self.training else Steps.hide(self, scores, mask)


@broken("train-eval", CrossLayer, step="forward")
def memory_flipped_in_train_mode(self, query, key, value, mask=None):
    return self.run(query, key.flip(2) if self.training else key, value, mask)
