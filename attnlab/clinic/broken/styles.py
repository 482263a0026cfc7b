"""Correct functions and layers in many styles, none of which may be accused."""

# ruff: noqa: D102, D103  (a docstring says what the name does not)

import math

import torch
import torch.nn.functional as F
from torch import nn

from attnlab.clinic.broken._case import broken, correct
from attnlab.clinic.broken._templates import (
    LAYERS,
    CausalLayer,
    CrossLayer,
    DropoutLayer,
    Layer,
    MaskedLayer,
    PaddedLayer,
    StackedLayer,
    Steps,
    WeightsLayer,
    causal,
    flagged,
    lower_triangle,
    masked,
    of_itself,
    pair,
    plain,
    required,
    softmax,
    split,
)


@correct(plain, masked, required, flagged, causal, of_itself, pair, split, softmax)
class Unchanged:
    """Replace nothing."""


@correct()
def attention_of_one_sequence(Q, K, V):
    """Write the formula for two axes, with .T."""
    _, d_k = Q.shape
    return torch.softmax(Q @ K.T / math.sqrt(d_k), dim=1) @ V


@correct()
def attention_with_bmm(q, k, v):
    attn = F.softmax(torch.bmm(q, k.transpose(1, 2)) / k.size(2) ** 0.5, dim=2)
    return attn, torch.bmm(attn, v)


@correct()
def attention_with_einsum(queries, keys, values):
    scores = torch.einsum("nhqd,nhkd->nhqk", queries, keys) * queries.shape[-1] ** -0.5
    return torch.einsum("nhqk,nhkd->nhqd", scores.softmax(dim=3), values)


@correct()
def attention_in_keras_argument_order(query, value, key):
    return F.scaled_dot_product_attention(query, key, value)


@correct(kind="function")
class DotProductAttention(nn.Module):
    """Wrap the formula in a module without parameters."""

    def __init__(self, dropout=0.1):
        super().__init__()
        self.dropout = nn.Dropout(dropout)

    def forward(self, queries, keys, values):
        return self.dropout(Steps().score(queries, keys).softmax(dim=-1)) @ values


@correct(mask="blocked")
def attention_with_padding(q, k, v, key_padding_mask=None):
    """Block the columns of padded keys in a batch; True means padding, as in torch."""
    scores = torch.bmm(q, k.transpose(1, 2)) / math.sqrt(q.size(2))
    if key_padding_mask is not None:
        scores = scores.masked_fill(key_padding_mask[:, None, :], float("-inf"))
    return torch.bmm(scores.softmax(dim=2), v)


@correct(causal=True)
def attention_query_by_query(queries, keys, values):
    """Attend to a slice that ends with the own key."""
    rows = []
    for i, query in enumerate(queries):
        scores = keys[: i + 1] @ query / math.sqrt(keys.size(1))
        rows.append(scores.softmax(dim=0) @ values[: i + 1])
    return torch.stack(rows)


# --- layers: the templates, and those of torch ----------------------------------------------------

HEADS = {"embed_dim": 12, "num_heads": 3}
BATCH_FIRST = {"batch_first": True}
SMALL = {"d_model": 32, "nhead": 4, "dim_feedforward": 64}
ONE_EACH = {"num_encoder_layers": 1, "num_decoder_layers": 1}

for template in LAYERS:
    correct()(template)
correct(name="LargeLayer", arguments={"embed_dim": 64, "num_heads": 8})(Layer)
correct(name="LayerOfOneHead", arguments={"embed_dim": 10, "num_heads": 1})(Layer)
correct(name="LayerWithoutBias", arguments={"embed_dim": 8, "num_heads": 2, "bias": False})(Layer)
correct(arguments=HEADS)(nn.MultiheadAttention)
for extra in ("add_bias_kv", "add_zero_attn"):
    correct(name=extra, arguments=HEADS | {extra: True}, strict=True)(nn.MultiheadAttention)
correct(arguments=SMALL)(nn.TransformerEncoderLayer)
correct(arguments=SMALL | BATCH_FIRST)(nn.TransformerDecoderLayer)
correct(arguments=SMALL | BATCH_FIRST | ONE_EACH)(nn.Transformer)


@correct(arguments=SMALL | BATCH_FIRST)
class OwnEncoder(nn.TransformerEncoderLayer):
    """Inherit from a layer of torch."""


@correct(arguments=SMALL | BATCH_FIRST)
class OppositeEncoder(OwnEncoder):
    """Inherit from a layer of torch and turn its mask around: True means may attend."""

    def forward(self, src, src_mask=None):
        return super().forward(src, None if src_mask is None else ~src_mask)


@correct()
class StackOfEncoders(nn.Module):
    """Wrap an encoder whose fast path sets padded rows to 0 in eval mode only."""

    def __init__(self):
        super().__init__()
        self.embed_dim = 12
        layer = nn.TransformerEncoderLayer(12, 2, 20, batch_first=True)
        self.stack = nn.TransformerEncoder(layer, 2)

    def forward(self, x, key_padding_mask=None):
        return self.stack(x, src_key_padding_mask=key_padding_mask)


@correct()
class SelfAttentionOfTorch(nn.Module):
    """Wrap nn.MultiheadAttention for one argument, without weights."""

    def __init__(self):
        super().__init__()
        self.attn = nn.MultiheadAttention(12, 3, batch_first=True)

    def forward(self, x, key_padding_mask=None):
        return self.attn(x, x, x, key_padding_mask=key_padding_mask, need_weights=False)


# --- layers with other arguments ------------------------------------------------------------------


@correct(PaddedLayer, step="forward")
def key_padding_mask(self, x, key_padding_mask=None):
    mask = None if key_padding_mask is None else ~key_padding_mask[:, None, None, :]
    return self.run(x, x, x, mask)


@correct(PaddedLayer, step="forward")
def numbers_for_a_mask(self, x, attention_mask):
    """Take a mask of 1 for tokens and 0 for padding, and always one."""
    return self.run(x, x, x, attention_mask[:, None, None, :] == 1)


@correct(PaddedLayer, step="hide")
def padding_hidden_on_both_sides(self, scores, mask):
    return scores.masked_fill(~(mask & mask.mT), -1e9)


@correct(CausalLayer, step="forward")
def causal_and_padded(self, x, mask=None):
    triangle = lower_triangle(x, x)
    return self.run(x, x, x, triangle if mask is None else triangle & mask[:, None, None, :])


@correct(CrossLayer, step="forward")
def context_if_given(self, x, context=None):
    context = x if context is None else context
    return self.run(x, context, context)


@correct(CrossLayer, step="forward")
@broken("causal-missing", CrossLayer, step="forward", name="flag_not_used", causal=True)
def flag_as_a_hint(self, query, key, value, mask=None, is_causal=False):
    """Take is_causal and leave the masking to the caller, as torch's own layers do."""
    return self.run(query, key, value, mask)


@correct(CrossLayer, step="forward")
def flag_as_a_hint_that_raises(self, query, key, value, mask=None, is_causal=False):
    if is_causal and mask is None:
        raise ValueError("nothing to go by")
    return self.run(query, key, value, mask)


@correct(WeightsLayer, step="forward")
def mean_of_the_weights(self, x):
    return self.run(x, x, x), self.weights.mean(dim=1)


@correct()
class AdditiveMask(MaskedLayer):
    """Add attention_mask, which is additive: 0 for allowed, -inf for blocked; return a tuple."""

    def hide(self, scores, mask):
        return scores + mask

    def forward(self, hidden_states, attention_mask=None, output_attentions=False):
        return (super().forward(hidden_states, attention_mask),)


# --- layers that attend in other ways -------------------------------------------------------------


@correct(Layer, step="attend")
def names_exchanged(self, query, key, value, mask):
    """Ask with the layer of the key; the layers are learned, so their names do not matter."""
    return Steps.attend(self, key, query, value, mask)


@correct(CausalLayer, step="attend")
def masks_cached_by_length(self, query, key, value, mask):
    self.masks = getattr(self, "masks", {})
    mask = self.masks.setdefault((query.size(-2), query.device), mask)
    return Steps.attend(self, query, key, value, mask)


@correct(CausalLayer, step="hide")
def causal_window(self, scores, mask):
    return scores.masked_fill(~mask.triu(-2), float("-inf"))


@correct(CausalLayer, step="score")
def linear_biases(self, query, key):
    """Lower the scores of distant keys, most in the first head (ALiBi)."""
    positions = torch.arange(query.size(-2), device=query.device)
    slopes = torch.tensor([0.5, 0.25, 0.125], device=query.device)[:, None, None]
    return Steps.score(self, query, key) + (positions - positions[:, None]) * slopes


@correct(Layer, step="score")
def rotated_by_position(self, query, key):
    """Turn pairs of features by an angle that grows with the position (RoPE)."""
    half = query.size(-1) // 2
    positions = torch.arange(query.size(-2), device=query.device)[:, None]
    angle = (positions * 0.3 ** torch.arange(half, device=query.device)).to(query.dtype)

    def turned(x):
        one, two = x[..., :half], x[..., half:]
        cos, sin = angle.cos(), angle.sin()
        return torch.cat([one * cos - two * sin, one * sin + two * cos], dim=-1)

    return Steps.score(self, turned(query), turned(key))


@correct()
class CausalDropoutLayer(DropoutLayer, CausalLayer):
    """Drop weights while training, and hide later tokens."""


@correct()
class DropoutByHand(DropoutLayer):
    """Drop weights while training, with random numbers of its own."""

    def __init__(self):
        super().__init__()
        self.dropout_p = 0.2

    def soft(self, scores):
        keep = torch.rand_like(scores) >= self.dropout_p
        weights = super().soft(scores)
        return weights * keep / (1 - self.dropout_p) if self.training else weights


@correct(Layer, step="soft")
def dropout_by_number(self, scores):
    """Drop weights while training, with a rate that no attribute holds."""
    return F.dropout(scores.softmax(dim=-1), 0.1, self.training)


@correct()
class LayerWithBatchNorm(Layer):
    """Normalise the output over the batch."""

    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(12)

    def forward(self, x):
        return self.norm(super().forward(x).mT).mT


@correct()
class PrunedHead(Layer):
    """Have parameters of 0 in the last head; the code is correct."""

    def __init__(self):
        super().__init__()
        nn.init.zeros_(self.v_proj.weight.data[8:])
        nn.init.zeros_(self.v_proj.bias.data[8:])


# --- layers with other parameters -----------------------------------------------------------------


@correct(StackedLayer, step="forward")
def stacked_inside_each_head(self, x):
    """Stack query, key and value inside each head, a layout of its own."""
    qkv = self.split(self.c_attn(x), self.n_head).chunk(3, dim=-1)
    return self.c_proj(self.merge(F.scaled_dot_product_attention(*qkv, is_causal=True)))


@correct(name="OneKey", arguments={"num_keys": 1})
@correct()
class FewKeys(Layer):
    """Share each head of the keys and values among the heads of several queries."""

    def __init__(self, num_keys=2):
        super().__init__(16, 4)
        self.k_proj, self.v_proj = (nn.Linear(16, 4 * num_keys) for _ in range(2))

    def split(self, x, num_heads):
        heads = x.unflatten(-1, (-1, 4)).transpose(1, 2)
        return heads.repeat_interleave(num_heads // heads.size(1), dim=1)


@correct(name="WideLayer", arguments={"inner": 24})
@correct(arguments={"inner": 6})
class NarrowLayer(Layer):
    """Attend in fewer features than the tokens have, or in more."""

    def __init__(self, inner):
        super().__init__(12, 2)
        self.q_proj, self.k_proj, self.v_proj = (nn.Linear(12, inner) for _ in range(3))
        self.out_proj = nn.Linear(inner, 12)


@correct(Layer, step="attend")
def heads_in_the_batch(self, query, key, value, mask):
    """Fold the heads into the batch, and scale query and key by a fourth root each."""
    query, key, value = (part.flatten(0, 1) for part in (query, key, value))
    query, key = (part / part.size(-1) ** 0.25 for part in (query, key))
    heads = torch.bmm(torch.bmm(query, key.transpose(1, 2)).softmax(dim=2), value)
    return heads.unflatten(0, (-1, self.num_heads))


@correct()
class KeysAndValuesStacked(Steps, nn.Module):
    """Make key and value with one layer from a context, which may come with a mask."""

    def __init__(self):
        super().__init__()
        self.heads = 3
        self.to_q = nn.Linear(12, 12, bias=False)
        self.to_kv = nn.Linear(12, 24, bias=False)
        self.to_out = nn.Sequential(nn.Linear(12, 12), nn.Dropout(0.1))

    def forward(self, x, context=None, mask=None):
        parts = self.to_q(x), *self.to_kv(x if context is None else context).chunk(2, dim=-1)
        mask = None if mask is None else mask[:, None, None]
        heads = self.attend(*(self.split(part, self.heads) for part in parts), mask)
        return self.to_out(self.merge(heads))


@broken("mask-broadcast", arguments={"interleaved": False}, name="LengthsForTheWrongHeads")
@correct()
class LengthsForHeads(Steps, nn.Module):
    """Fold heads into the batch and repeat the lengths for them, as in Dive into Deep Learning."""

    def __init__(self, num_hiddens=12, num_heads=3, interleaved=True):
        super().__init__()
        self.num_hiddens, self.num_heads, self.interleaved = num_hiddens, num_heads, interleaved
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.LazyLinear(num_hiddens) for _ in range(4))

    def forward(self, queries, keys, values, valid_lens=None):
        sides = self.W_q(queries), self.W_k(keys), self.W_v(values)
        q, k, v = (self.split(side, self.num_heads).flatten(0, 1) for side in sides)
        mask = None
        if valid_lens is not None:
            repeat = torch.repeat_interleave if self.interleaved else torch.Tensor.repeat
            lengths = repeat(valid_lens, self.num_heads)[:, None, None]
            mask = torch.arange(k.size(1), device=k.device) < lengths
        heads = self.attend(q, k, v, mask).unflatten(0, (-1, self.num_heads))
        return self.W_o(self.merge(heads))

    def hide(self, scores, mask):
        return scores.masked_fill(~mask, -1e6)
