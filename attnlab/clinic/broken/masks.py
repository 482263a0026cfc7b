"""Masks, causality and functions that build masks (True = may attend), broken and correct."""

# ruff: noqa: D103  (a docstring says what the name does not)

import math

import torch
import torch.nn.functional as F

from attnlab.clinic.broken._case import broken, correct
from attnlab.clinic.broken._templates import (
    CausalLayer,
    CrossLayer,
    FlaggedLayer,
    Layer,
    MaskedLayer,
    PaddedLayer,
    StackedLayer,
    Steps,
    causal,
    flagged,
    lower_triangle,
    masked,
    plain,
    required,
)


@broken("causal-missing", CausalLayer, causal, step="hide")
@broken("mask-ignored", masked, MaskedLayer, step="hide")
def fill_thrown_away(self, scores, mask):
    scores.masked_fill(mask == 0, -1e9)
    return scores


@broken("causal-missing", flagged, FlaggedLayer, step="hide")
@broken("mask-ignored", required, PaddedLayer, CrossLayer, step="hide")
def mask_not_used(self, scores, mask):
    return scores


@correct(masked, MaskedLayer, step="hide", name="filled_where_blocked", mask="blocked")
@broken("mask-inverted", masked, required, MaskedLayer, PaddedLayer, CrossLayer, step="hide")
def filled_where_allowed(self, scores, mask):
    """Block where the mask is True, as nn.MultiheadAttention does."""
    return scores.masked_fill(mask, -1e9)


@correct(masked, MaskedLayer, step="hide", name="additive_mask_added", mask="additive")
@broken("mask-added", masked, required, MaskedLayer, CausalLayer, step="hide")
def mask_added(self, scores, mask):
    """Add True as 1 to the scores: a nudge instead of a block."""
    return scores + mask


@broken("mask-multiplied", required, MaskedLayer, CausalLayer, step="hide")
def mask_multiplied(self, scores, mask):
    """Multiply the scores by the mask: a score of 0 still gets a weight."""
    return scores * mask


@broken("mask-multiplied", masked, MaskedLayer, StackedLayer, step="hide")
def filled_with_zero(self, scores, mask):
    """Fill with 0 before the softmax, which leaves exp(0) = 1 behind."""
    return scores.masked_fill(~mask, 0.0)


@broken("mask-multiplied", masked, CausalLayer, step="hide")
def filled_with_a_tiny_number(self, scores, mask):
    """Fill with -1e-9 for -1e9, which is zero for the softmax."""
    return scores.masked_fill(mask == 0, -1e-9)


@broken("mask-after-softmax", masked, required, step="attend")
@broken("mask-after-softmax", MaskedLayer, PaddedLayer, CausalLayer, step="attend")
def weights_multiplied_by_the_mask(self, query, key, value, mask):
    """Zero the weights after the softmax and leave the rows short of 1."""
    weights = self.soft(self.score(query, key))
    return (weights if mask is None else weights * mask) @ value


@broken("mask-finite", masked, MaskedLayer, PaddedLayer, CausalLayer, step="hide")
def filled_with_minus_four(self, scores, mask):
    return scores.masked_fill(~mask, -4.0)


@broken("mask-finite", StackedLayer, step="hide")
def filled_with_minus_seven(self, scores, mask):
    return scores.masked_fill(~mask, -7.0)


@broken("mask-finite", required, step="hide")
def filled_with_minus_a_hundred(self, scores, mask):
    """Fill with -100, enough for small scores and too little for large ones."""
    return scores.masked_fill(~mask, -100.0)


@broken("causal-flipped", flagged, CausalLayer, step="hide")
@broken("mask-transposed", masked, MaskedLayer, CrossLayer, step="hide")
def mask_transposed(self, scores, mask):
    return scores.masked_fill(~mask.mT, -1e9)


@broken("blocked-row", masked, step="hide", name="row_without_keys_nan", strict=True)
def filled_with_minus_infinity(self, scores, mask):
    """Fill with -inf: a query that may attend to nothing gets NaN."""
    return scores.masked_fill(~mask, float("-inf"))


@broken("blocked-row", masked, step="hide", name="row_without_keys_averaged", strict=True)
@correct(masked, MaskedLayer, step="hide")
def filled_with_minus_a_billion(self, scores, mask):
    """Fill with -1e9: a query that may attend to nothing gets the average of all values."""
    return scores.masked_fill(mask == 0, -1e9)


@broken("nan", masked, step="hide")
def zero_times_infinity(self, scores, mask):
    """Turn the mask into 0 and -inf by a product: 0 times -inf is NaN."""
    return scores + (1 - mask.to(scores.dtype)) * float("-inf")


# --- masks of padding, and masks of the wrong axes ------------------------------------------------


@broken("mask-queries", mask="blocked")
def rows_of_padding_blocked(query, key, value, key_padding_mask=None):
    """Block the rows of padded queries and leave their columns open."""
    scores = torch.bmm(query, key.transpose(1, 2)) / math.sqrt(query.size(-1))
    if key_padding_mask is not None:
        scores = scores.masked_fill(key_padding_mask[:, :, None], -1e9)
    return torch.bmm(scores.softmax(dim=-1), value)


@broken("mask-broadcast")
def mask_of_sequences_for_heads(query, key, value, mask=None):
    """Give a mask of each sequence (N, L, S) to the heads instead of the batch."""
    scores = torch.einsum("nhld,nhsd->nhls", query, key) / math.sqrt(query.size(-1))
    if mask is not None:
        n, length, keys = mask.shape
        scores = scores.masked_fill(~mask.view(1, n, length, keys), float("-inf"))
    return scores.softmax(dim=-1) @ value


@broken("mask-queries", PaddedLayer, step="hide")
def rows_for_columns(self, scores, mask):
    """Block the rows of padded queries and leave their columns open."""
    return scores.masked_fill(~mask.mT, -1e9)


@broken("mask-queries", PaddedLayer, step="forward", mask="blocked")
def outputs_zeroed(self, x, key_padding_mask=None):
    """Set the output of padded queries to 0; the padding is still attended to."""
    output = self.run(x, x, x)
    if key_padding_mask is not None:
        output = output.masked_fill(key_padding_mask.unsqueeze(-1), 0.0)
    return output


@broken("mask-broadcast", MaskedLayer, step="forward")
def masks_for_heads(self, x, mask=None):
    """Put the axis for the heads before the batch, so that mask n goes to head n."""
    if mask is not None:
        n, length, keys = mask.shape
        mask = mask.view(1, n, length, keys)
    return self.run(x, x, x, mask)


@broken("mask-broadcast", PaddedLayer, step="forward")
def paddings_for_heads(self, x, key_padding_mask=None):
    """Unsqueeze a padding mask once, so that its batch axis lands on the heads."""
    mask = None if key_padding_mask is None else ~key_padding_mask[:, None, :]
    return self.run(x, x, x, mask)


@broken("mask-broadcast", PaddedLayer, step="forward")
def masks_in_the_wrong_order(self, x, mask=None):
    """Repeat the whole batch of masks, so that heads get the masks of other sequences."""
    if mask is not None:
        mask = mask.repeat(self.num_heads, 1).view(len(x), self.num_heads, 1, -1)
    return self.run(x, x, x, mask)


@broken("padding-leak", PaddedLayer, step="forward")
def padding_of_the_longest(self, x, mask=None):
    """Allow a key for all sequences of a batch as soon as one has a token there."""
    if mask is not None:
        mask = mask.any(dim=0).expand(x.size(1), -1)  # (N, L) -> (L, L)
    return self.run(x, x, x, mask)


@broken("padding-leak", PaddedLayer, step="forward")
def standardised_over_padding(self, x, mask):
    x = (x - x.mean(dim=1, keepdim=True)) / (x.std(dim=1, keepdim=True) + 1e-5)
    return self.run(x, x, x, mask[:, None, None, :])


@broken("causal-off-by-one", causal, step="hide")
def next_key_seen(self, scores, mask):
    later = torch.ones_like(scores, dtype=torch.bool).triu(diagonal=2)
    return scores.masked_fill(later, float("-inf"))


@broken("causal-off-by-one", causal, CausalLayer, step="hide")
def own_key_blocked(self, scores, mask):
    return scores.masked_fill(~mask.tril(diagonal=-1), float("-inf"))


@broken("causal-off-by-one", flagged, CausalLayer, step="attend")
def own_key_blocked_in_the_fused_kernel(self, query, key, value, mask):
    mask = None if mask is None else mask.tril(diagonal=-1)
    return F.scaled_dot_product_attention(query, key, value, attn_mask=mask)


@broken("causal-off-by-one", causal=True)
def attention_by_loop(queries, keys, values):
    """Slice the past up to i + 2, one key too many."""
    rows = []
    for i in range(queries.shape[0]):
        scores = keys[: i + 2] @ queries[i] / math.sqrt(keys.shape[1])
        rows.append(scores.softmax(dim=0) @ values[: i + 2])
    return torch.stack(rows)


@broken("causal-off-by-one")
class CausalLayerOneAhead(CausalLayer):
    """Keep one diagonal too many in the buffer, so that every token sees the next."""

    diagonal = 1


@broken("causal-flipped", causal, CausalLayer, step="attend")
def blocked_for_allowed(self, query, key, value, mask):
    return F.scaled_dot_product_attention(query, key, value, attn_mask=~mask)


@broken("causal-leak", flagged, step="hide")
def window_on_both_sides(self, scores, mask):
    near = torch.ones_like(scores, dtype=torch.bool).triu(-2).tril(2)
    return scores.masked_fill(~near, float("-inf"))


@broken("causal-leak", causal, step="hide")
def first_head_only(self, scores, mask):
    """Mask the first of the heads (N, H, L, S) only, so that the others see later tokens."""
    n, heads, _, _ = scores.shape
    later = torch.stack([~mask] + [torch.zeros_like(mask)] * (heads - 1)).expand(n, -1, -1, -1)
    return scores.masked_fill(later, float("-inf"))


@broken("mask-multiplied", causal, step="hide")
def triangle_of_scores(self, scores, mask):
    """Set later scores to 0 with tril, which the softmax does not read as blocked."""
    return torch.tril(scores)


@broken("causal-missing")
class CausalByNameOnly(Layer):
    """Promise causality in the name and mask nothing."""


@broken("causal-missing", CausalLayer, step="forward")
def buffer_not_used(self, x):
    return self.run(x, x, x)


@broken("causal-missing", FlaggedLayer, step="forward")
def flag_not_used(self, x, is_causal=False):
    return self.run(x, x, x)


@broken("causal-leak", CausalLayer, step="forward")
def standardised_over_the_sequence(self, x):
    x = (x - x.mean(dim=1, keepdim=True)) / (x.std(dim=1, keepdim=True) + 1e-5)
    return CausalLayer.forward(self, x)


@broken("causal-eval", CausalLayer, step="attend")
def causal_in_training(self, query, key, value, mask):
    return F.scaled_dot_product_attention(query, key, value, is_causal=self.training)


@broken("causal-eval", FlaggedLayer, step="forward", causal=True)
def masked_in_training(self, x):
    return self.run(x, x, x, lower_triangle(x, x) if self.training else None)


@broken("remembers", CausalLayer, step="attend")
def mask_of_the_first_length(self, query, key, value, mask):
    self.allowed = getattr(self, "allowed", lower_triangle(query, key))
    return Steps.attend(self, query, key, value, self.allowed)


@broken("device", flagged, CausalLayer, step="hide")
def mask_on_the_cpu(self, scores, mask):
    later = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
    return scores.masked_fill(later, float("-inf"))


@broken("mask-inverted", kind="builder")
def causal_mask_of_blocked(size):
    return torch.ones(size, size, dtype=torch.bool).triu(diagonal=1)


@broken("mask-inverted", kind="builder")
def padding_mask_of_padding(lengths, max_len):
    return torch.arange(max_len)[None, :] >= lengths[:, None]


@broken("causal-flipped", kind="builder")
def causal_mask_upper(L):
    return torch.triu(torch.ones(L, L)).bool()


@broken("mask-transposed", kind="builder")
def padding_mask_in_columns(lengths, max_len):
    """Put the sequences into the columns: (S, N) instead of (N, S)."""
    return torch.arange(max_len)[:, None] < lengths[None, :]


@broken("causal-off-by-one", kind="builder")
def causal_mask_one_ahead(length):
    return torch.ones(length, length, dtype=torch.bool).tril(diagonal=1)


@broken("causal-off-by-one", kind="builder")
def causal_mask_strict(n):
    positions = torch.arange(n)
    return positions[None, :] < positions[:, None]


@broken("length-off-by-one", kind="builder")
def padding_mask_one_more(lengths, max_len):
    """Allow the first padding token, because positions count from 0."""
    return torch.arange(max_len) <= lengths.unsqueeze(1)


@broken("length-off-by-one", kind="builder")
def sequence_mask_one_less(lengths, max_len):
    """Cut the last real token off, because positions are made to count from 1."""
    return torch.arange(1, max_len + 1)[None, :] < lengths[:, None]


@broken("mask-dtype", kind="builder", strict=True)
def causal_mask_of_floats(size):
    return torch.tril(torch.ones(size, size))


@broken("square-only", kind="builder")
def causal_mask_always_square(L, S=None):
    return torch.ones(L, L, dtype=torch.bool).tril()


@broken("nan", kind="builder")
def causal_mask_by_product(length):
    """Multiply 0 and 1 by -inf: 0 times -inf is NaN."""
    return torch.triu(torch.ones(length, length), diagonal=1) * float("-inf")


@correct(kind="builder")
def causal_mask_by_tril(size):
    return torch.tril(torch.ones(size, size, dtype=torch.bool))


@correct(kind="builder")
def causal_mask_by_inverted_triu(L, S=None):
    """Negate the upper triangle above the diagonal, for any number of keys."""
    return ~torch.ones(L, S or L, dtype=torch.bool).triu(diagonal=1)


@correct(kind="builder")
def padding_mask_from_lengths(lengths, max_len):
    return torch.arange(max_len)[None, :] < lengths[:, None]


@correct(required, step="hide")
def filled_with_the_smallest_number(self, scores, mask):
    return scores.masked_fill(~mask, torch.finfo(scores.dtype).min)


@correct(masked, step="hide")
def logarithm_of_the_mask_added(self, scores, mask):
    return scores + mask.to(scores.dtype).log()


@correct(masked, step="attend")
def renormalised(self, query, key, value, mask):
    """Zero the weights after the softmax, divide by what is left, and return the weights too."""
    weights = self.soft(self.score(query, key))
    if mask is not None:
        weights = weights * mask
        weights = weights / weights.sum(dim=-1, keepdim=True)
    return weights @ value, weights


@correct(plain, masked, flagged, causal, CausalLayer, step="attend", strict=True)
def fused(self, query, key, value, mask):
    """Call the fused kernel of torch, which gives 0 for a query that may attend to nothing."""
    return F.scaled_dot_product_attention(query, key, value, attn_mask=mask)
