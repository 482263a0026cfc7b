"""What bugs put into other people's code do not show: one table of behaviour, broken and correct.

Each row changes a step of the attention of ``parts``, or is a whole implementation. Its names are
those of findings that are true of it; a row without names is correct.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import nn

from attnlab import MultiHeadAttention, SelfAttention
from tests.clinic.parts import Cross, E, H, Layer, Masked, causal, kind, masked, right, scored

ROWS: list[tuple[str, object, dict]] = []


def row(names, *targets, **options):
    """Add functions, classes of layers and pairs, with options for ``diagnose``."""
    ROWS.extend((names, target, options) for target in targets)


def of_weights(weigh):
    """Return a function and a class of layers whose weights are made of query and key."""
    return (lambda query, key, value: weigh(query, key) @ value), kind(
        attend=lambda self, query, key, value: weigh(query, key) @ value
    )


def of_scores(score):
    """Return a function and a class of layers whose scores are made of query and key."""
    return of_weights(lambda query, key: score(query, key).softmax(-1))


def hiding(hide, base=Masked):
    """Return a function and a class of layers that hide keys by a mask, True = may attend."""

    def attention(query, key, value, mask=None):
        scores = scored(query, key)
        return (scores if mask is None else hide(scores, mask)).softmax(-1) @ value

    return attention, kind(base, attend=lambda self, *given: attention(*given))


def in_order(hide):
    """Return a function and a class of layers whose own names say that they are causal."""

    def causal_attention(queries, keys, values):
        return hide(scored(queries, keys)).softmax(-1) @ values

    attend = {"attend": lambda self, *parts: causal_attention(*parts)}
    return causal_attention, type("CausalLayer", (Layer,), attend)


def forward(forward, base=Layer):
    return kind(base, forward=forward)


class Padded(Layer):
    """Self-attention with a mask (N, L) of real tokens."""

    def forward(self, x, mask=None):
        mask = None if mask is None else mask[:, None, None]
        return self.o(self.join(self.attend(*self.parts(x), mask)))


# --- around the formula: errors, chance, memory, gradients, devices, dtypes -----------------------

row("raises", lambda q, k, v: (q @ k / q.size(-1) ** 0.5).softmax(-1) @ v)
row("raises", *of_scores(lambda q, k: q @ k.mT / math.sqrt(q.size())))
row("wrong-shape", lambda q, k, v: None, forward(lambda self, x: None))
row("wrong-shape", lambda q, k, v: [*right(q, k, v)])
row("wrong-shape", lambda q, k, v: right(q, k, v).mean(dim=-2))
row("wrong-shape", lambda q, k, v: right(q, k, v).squeeze())
row("modifies-input", lambda q, k, v: right(q.mul_(2), k, v))
row("modifies-input", hiding(lambda x, m: x.masked_fill(m.logical_not_(), -torch.inf))[0])
row("modifies-input", forward(lambda self, x: Layer.forward(self, x.mul_(2))))
row("random", *of_weights(lambda q, k: F.dropout(scored(q, k).softmax(-1), p=0.2)))
row("random", *of_scores(lambda q, k: scored(q + torch.randn_like(q), k)))
row("detached", lambda q, k, v: torch.tensor(scored(q, k).softmax(-1).tolist()).to(q) @ v)
row("detached", *of_weights(lambda q, k: scored(q, k).softmax(-1).detach()))
row("detached", forward(lambda self, x: Layer.forward(self, x.data)))


def dropout_of_the_fused_kernel(q, k, v, dropout_p=0.2):
    return F.scaled_dot_product_attention(q, k, v, dropout_p=dropout_p)


def never_empty_the_cache(self, query, key, value):
    kept = getattr(self, "cache", (key[:, :, :0], value[:, :, :0]))
    if len(kept[0]) == len(key):
        key, value = (torch.cat(both, dim=2) for both in zip(kept, (key, value), strict=True))
    self.cache = key.detach(), value.detach()
    return right(query, key, value)


def keep_the_mask_of_the_first_length(self, query, key, value):
    self.allowed = getattr(self, "allowed", torch.ones(query.shape[2], key.shape[2]).tril() > 0)
    return masked(query, key, value, self.allowed)


def loop_without_a_step(query, key, value):
    rows, i = [], 0
    while i < query.size(-2):
        rows[i:] = [right(query[..., i : i + 1, :], key, value)]
    return torch.cat(rows, dim=-2)


row("random", dropout_of_the_fused_kernel)
row("remembers", kind(attend=never_empty_the_cache))
row("remembers raises", kind(attend=keep_the_mask_of_the_first_length))
row("hangs", loop_without_a_step, time_limit=0.2)

# --- scores, softmax and the sides that they come from --------------------------------------------

row("scale-inverse", *of_scores(lambda q, k: q @ k.mT * q.size(-1) ** 0.5))
row("scale-other", *of_scores(lambda q, k: q * q.size(-1) ** -0.25 @ k.mT))
row("scale-length scale-other", *of_scores(lambda q, k: q @ k.mT / k.size(-2) ** 0.5))
row("scale-constant scale-other", *of_scores(lambda q, k: q @ k.mT / 8))
row("scale-other", *of_scores(lambda q, k: scored(q, k) / 0.7))
row("scores-not-dot-products", lambda q, k, v: (-torch.cdist(q, k)).softmax(-1) @ v)
row("scores-not-dot-products", lambda q, k, v: scored(q, k).clamp(-3, 3).softmax(-1) @ v)
row("query-key-swapped", lambda q, k, v: scored(k, q).softmax(-1) @ v)
row("key-value-swapped", lambda q, k, v: right(q, v, k))
row("wrong-source", lambda q, k, v: right(q, k, q), *of_scores(lambda q, k: scored(q, q)))
row("wrong-source", lambda q, k, v: right(q, k[..., 1:, :], v[..., 1:, :]))
row("wrong-source", forward(lambda self, q, k, v: Cross.forward(self, k, q, q), Cross))
row("wrong-source", forward(lambda self, q, k, v: Cross.forward(self, q, q, q), Cross))
row("wrong-source", forward(lambda self, q, k, v: Cross.forward(self, q, k, k), Cross))
row("key-value-swapped", forward(lambda self, q, k, v: Cross.forward(self, q, v, k), Cross))
row("softmax-axis", of_weights(lambda q, k: scored(q, k).softmax(0))[1])
row("not-normalised", *of_weights(lambda q, k: scored(q, k).sigmoid()))
row("not-normalised", lambda q, k, v: scored(q, k).log_softmax(-1) @ v)


class WeightsReturned(Layer):
    """Self-attention that returns its weights too, ``turned`` or as they are."""

    turned = False

    def forward(self, x):
        query, key, value = self.parts(x)
        weights = scored(query, key).softmax(-1)
        return self.o(self.join(weights @ value)), weights.mT if self.turned else weights


def unmasked_weights_returned(q, k, v, mask=None):
    return masked(q, k, v, mask), scored(q, k).softmax(dim=-1)


row("weights-differ", kind(WeightsReturned, turned=True), unmasked_weights_returned)

# --- masks and causality --------------------------------------------------------------------------


def required(Q, K, V, attn_mask):
    return (scored(Q, K) + (1 - attn_mask.to(Q)) * -torch.inf).softmax(-1) @ V


row("mask-added", *hiding(lambda x, mask: x + mask))
row("mask-queries mask-leak", hiding(lambda x, mask: x.masked_fill(~mask.mT, -1e9))[1])
row("nan", hiding(lambda x, mask: x + (1 - mask.to(x)) * -torch.inf)[0], required)
row("mask-queries mask-leak", hiding(lambda x, mask: x.masked_fill(~mask.mT, -1e9), Padded)[1])
row("causal-missing", *in_order(lambda x: x))
row("mask-finite mask-leak", *hiding(lambda x, mask: x.masked_fill(~mask, -7.3)))
row("causal-off-by-one", *in_order(lambda x: causal(x, 1)))


def hide_from_the_first_head_only(scores):
    first = torch.arange(scores.size(1)) == 0
    return torch.where(first[:, None, None], causal(scores), scores)


def centred(self, x):
    return Layer.forward(self, x - x.mean(1, keepdim=True))


row("causal-leak causal-missing", in_order(hide_from_the_first_head_only)[1])
row("causal-leak causal-missing", forward(centred, in_order(causal)[1]))


def repeat_the_whole_batch_of_masks(self, x, mask=None):
    if mask is not None:
        mask = mask.repeat(H, 1).view(len(x), H, 1, -1)
    return self.o(self.join(self.attend(*self.parts(x), mask)))


def allow_a_key_for_all_sequences(self, x, mask=None):
    mask = mask if mask is None else mask.any(dim=0).expand(x.size(1), -1)
    return Masked.forward(self, x, mask)


def centred_and_padded(self, x, mask):
    return Padded.forward(self, x - x.mean(1, keepdim=True), mask)


def rows_of_padding_blocked(query, key, value, key_padding_mask=None):
    scores = scored(query, key)
    if key_padding_mask is not None:
        scores = scores.masked_fill(key_padding_mask[:, :, None], -1e9)
    return scores.softmax(dim=-1) @ value


def second_mask_ignored(query, key, value, attn_mask=None, key_padding_mask=None):
    return F.scaled_dot_product_attention(query, key, value, attn_mask=attn_mask)


def mask_or_order(query, key, value, mask=None, is_causal=False):
    """Forget the order of the tokens where a mask is given."""
    if mask is None and is_causal:
        mask = torch.ones(query.shape[-2], key.shape[-2]).tril() > 0
    return masked(query, key, value, mask)


def slices_of_the_past(queries, keys, values):
    """Slice the past up to i + 2, one key too many."""
    rows = [right(q[None], keys[: i + 2], values[: i + 2]) for i, q in enumerate(queries)]
    return torch.cat(rows)


row("mask-broadcast mask-leak", forward(repeat_the_whole_batch_of_masks, Padded))
row("mask-leak mask-ignored", forward(allow_a_key_for_all_sequences, Padded))
row("mask-leak", forward(centred_and_padded, Padded))
row("mask-queries mask-leak", rows_of_padding_blocked, mask="blocked")
row("mask-ignored", second_mask_ignored)
row("causal-leak causal-missing", mask_or_order)
row("causal-off-by-one", slices_of_the_past, causal=True)

# --- heads, sequences and positions ---------------------------------------------------------------


def split(x, num_heads):
    return x.unflatten(-1, (num_heads, -1)).transpose(1, 2)


def merge(x):
    return x.transpose(1, 2).flatten(2)


def by_view(x, num_heads):
    n, length, width = x.shape
    return x.reshape(n, num_heads, length, width // num_heads)


def merge_by_view(x):
    n, heads, length, head_dim = x.shape
    return x.reshape(n, length, heads * head_dim)


def dealt_out(x, num_heads):
    """Give head h every H-th feature instead of its block of neighbours."""
    return x.unflatten(-1, (-1, num_heads)).permute(0, 3, 1, 2)


def gathered(x):
    return x.permute(0, 2, 3, 1).flatten(2)


def split_backwards(x, num_heads):
    return split(x, num_heads).flip(1)


def by_length(x, num_heads):
    """Read (N, L, E) as (L, N, E)."""
    return x.reshape(x.size(1), x.size(0), num_heads, -1).permute(1, 2, 0, 3)


def joined_by_length(x):
    return x.permute(2, 0, 1, 3).reshape(x.size(0), x.size(2), -1)


def headed(cut, join):
    """Return a pair, and a class of layers that cuts and joins heads so."""
    made = kind(cut=lambda self, x: cut(x, H), join=lambda self, x: join(x))
    return (cut, join), made


def heads_for_the_batch(self, x):
    return x.reshape(H, *x.shape[:2], -1).transpose(0, 1)


def one_long_sequence(self, x):
    return Layer.forward(self, x.reshape(1, -1, x.size(-1))).view(x.shape)


def length_first(self, x):
    return Layer.forward(self, x.transpose(0, 1)).transpose(0, 1)


row("split-without-transpose", *headed(by_view, merge), by_view)
row("merge-without-transpose", *headed(split, merge_by_view), merge_by_view)
row("split-without-transpose", *headed(by_view, merge_by_view))
row("split-without-transpose", (dealt_out, gathered))
row("wrong-shape", (split_backwards, merge), split_backwards, (by_length, joined_by_length))
row("batch-mixing", lambda q, k, v: right(q, k.sum(0), v))
row("batch-mixing raises", lambda q, k, v: (q @ k.T / q.shape[2] ** 0.5).softmax(-1) @ v)
row("position-mixing", lambda q, k, v: right(q, k, v).flip(-2))
row("position-mixing", kind(attend=lambda self, *parts: right(*parts).flip(-2)))
row("batch-mixing", kind(cut=heads_for_the_batch), forward(one_long_sequence))
row("batch-first", forward(length_first))
row("", forward(length_first), batch_first=False)


def output_as_wide_as_the_query(q, k, v):
    output = torch.zeros_like(q)
    output[:] = right(q, k, v)
    return output


def attention_between_heads(q, k, v):
    """Let heads attend to heads inside each token; q (N, H, L, d)."""
    assert q.ndim == 4
    return right(*(part.transpose(1, 2) for part in (q, k, v))).transpose(1, 2)


class HeadsByExpand(Layer):
    """Project to one head and repeat it, which looks like many heads."""

    def __init__(self):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(E, E // H) for _ in range(3))

    def cut(self, x):
        return x[:, None].expand(-1, H, -1, -1)


row("square-only", lambda q, k, v: right(q, k[..., : q.size(-2), :], v[..., : q.size(-2), :]))
row("square-only raises", output_as_wide_as_the_query)
row("head-mixing", attention_between_heads)
row("wrong-source", HeadsByExpand)

# --- correct, in unusual ways ---------------------------------------------------------------------


def renormalised(query, key, value, mask=None):
    """Zero the weights after the softmax, divide by what is left, and return the weights too."""
    weights = scored(query, key).softmax(dim=-1)
    if mask is not None:
        weights = weights * mask
        weights = weights / weights.sum(dim=-1, keepdim=True)
    return weights @ value, weights


def with_padding(self, x, key_padding_mask=None):
    return Padded.forward(self, x, None if key_padding_mask is None else ~key_padding_mask)


def fused(query, key, value, mask=None):
    return F.scaled_dot_product_attention(query, key, value, attn_mask=mask)


class BatchNormed(Layer):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(E)

    def forward(self, x):
        return self.norm(super().forward(x).mT).mT


class PrunedHead(Layer):
    """Have parameters of 0 in the last head; the code is correct."""

    def __init__(self):
        super().__init__()
        for part in self.v.parameters():
            nn.init.zeros_(part.data[8:])


row("", lambda: MultiHeadAttention(12, 3, dropout=0.5), lambda: SelfAttention(12, 5))
row("", lambda: nn.MultiheadAttention(12, 3, batch_first=True))
row("", lambda: nn.TransformerEncoderLayer(32, 4, 64))
row("", lambda: nn.TransformerDecoderLayer(32, 4, 64, batch_first=True))
row("", lambda: nn.Transformer(32, 4, 1, 1, 64, batch_first=True))
row("", right, masked, (split, merge), split, merge, *in_order(causal), renormalised, fused)
row("", Layer, Masked, Padded, Cross, WeightsReturned, BatchNormed, PrunedHead)
row("", headed(dealt_out, gathered)[1], forward(with_padding))
row("", *of_scores(lambda q, k: q * q.size(-1) ** -0.25 @ (k * k.size(-1) ** -0.25).mT))
row("", kind(attend=lambda self, q, k, v: right(k, q, v)))  # only the names are exchanged
row("", *of_weights(lambda q, k: scored(q, k).double().softmax(-1).to(q)))
row("", in_order(lambda x: causal(x).masked_fill(torch.ones_like(x).triu(-2) == 0, -torch.inf))[1])
row("", kind(Masked, attend=lambda self, *given: fused(*given)))
row("", kind(attend=lambda self, q, k, v: F.dropout(
    scored(q, k).softmax(-1), 0.1, self.training) @ v))  # fmt: skip
