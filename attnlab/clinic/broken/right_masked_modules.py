"""Right: modules that are causal, masked, two-sided, sequence first or have dropout."""

# ruff: noqa: D102  (one sentence on the class says what its forward does)

import math

import torch
import torch.nn.functional as F
from torch import nn

from attnlab.clinic.broken._case import right
from attnlab.clinic.broken._heads import Heads, future

SIZES = {"embed_dim": 12, "num_heads": 3}


@right(arguments=SIZES)
class CausalSelfAttentionWithBuffer(Heads):
    """Keep a triangle in a buffer and cut it to the length."""

    def __init__(self, embed_dim, num_heads, max_len=64):
        super().__init__(embed_dim, num_heads)
        self.register_buffer("keep", torch.tril(torch.ones(max_len, max_len)))

    def forward(self, x):
        q, k, v = self.project(x)
        length = x.size(1)
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
        scores = scores.masked_fill(self.keep[:length, :length] == 0, float("-inf"))
        return self.w_o(self.from_heads(scores.softmax(dim=-1) @ v))


@right(arguments=SIZES)
class CausalSelfAttentionFused(Heads):
    """Use the fused kernel's flag, and dropout in training only."""

    def forward(self, x):
        q, k, v = self.project(x)
        rate = 0.1 if self.training else 0.0
        output = F.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=rate)
        return self.w_o(self.from_heads(output))


@right(arguments=SIZES)
class CausalSelfAttentionWithCachedMask(Heads):
    """Cache the mask of each length, which changes nothing."""

    def __init__(self, embed_dim, num_heads):
        super().__init__(embed_dim, num_heads)
        self.masks = {}

    def forward(self, x):
        q, k, v = self.project(x)
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
        blocked = self.masks.setdefault((x.size(1), x.device), future(scores))
        return self.w_o(self.from_heads(scores.masked_fill(blocked, -1e9).softmax(dim=-1) @ v))


@right(arguments=SIZES)
class CausalWhenAsked(Heads):
    """Take the flag as an argument."""

    def forward(self, x, is_causal=False):
        output = F.scaled_dot_product_attention(*self.project(x), is_causal=is_causal)
        return self.w_o(self.from_heads(output))


@right(arguments=SIZES)
class CrossAttention(Heads):
    """Ask from the text and answer from the memory."""

    def forward(self, x, memory):
        q = self.to_heads(self.w_q(x))
        k, v = self.to_heads(self.w_k(memory)), self.to_heads(self.w_v(memory))
        return self.w_o(self.from_heads(F.scaled_dot_product_attention(q, k, v)))


@right(arguments=SIZES)
class SelfAttentionWithPadding(Heads):
    """Take a mask (N, L) of real tokens and block the columns of the others."""

    def forward(self, x, mask=None):
        if mask is not None:
            mask = mask[:, None, None, :]
        output = F.scaled_dot_product_attention(*self.project(x), attn_mask=mask)
        return self.w_o(self.from_heads(output))


@right(arguments=SIZES, batch_first=False)
class SequenceFirst(Heads):
    """Read (L, N, D), and be told apart by the option of the caller."""

    def forward(self, x):
        q, k, v = self.project(x.transpose(0, 1))
        weights = torch.softmax(q @ k.transpose(-2, -1) / math.sqrt(q.size(-1)), dim=-1)
        return self.w_o(self.from_heads(weights @ v)).transpose(0, 1)


@right(arguments=SIZES)
class DropoutOnlyInTraining(Heads):
    """Drop weights with nn.Dropout, which eval mode switches off."""

    def __init__(self, embed_dim, num_heads, dropout=0.2):
        super().__init__(embed_dim, num_heads)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        q, k, v = self.project(x)
        weights = (q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))).softmax(dim=-1)
        return self.w_o(self.from_heads(self.dropout(weights) @ v))


@right(arguments=SIZES)
class TorchWithBatchFirst(nn.Module):
    """Wrap nn.MultiheadAttention with batch_first=True."""

    def __init__(self, embed_dim, num_heads):
        super().__init__()
        self.attention = nn.MultiheadAttention(embed_dim, num_heads, batch_first=True)

    def forward(self, query, key, value):
        return self.attention(query, key, value)
