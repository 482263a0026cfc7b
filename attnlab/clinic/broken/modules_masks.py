"""Broken: modules whose mask or causality does not do what its name says."""

# ruff: noqa: D102  (one sentence on the class says what its forward does)

import math

import torch
import torch.nn.functional as F

from attnlab.clinic.broken._case import broken
from attnlab.clinic.broken._heads import Heads, future

SIZES = {"embed_dim": 12, "num_heads": 3}


@broken(
    "causal-missing",
    misconception="a buffer works by itself",
    met="buffer never used",
    arguments=SIZES,
)
class CausalSelfAttentionWithIdleBuffer(Heads):
    """Register a causal mask and never apply it."""

    def __init__(self, embed_dim, num_heads, max_len=64):
        super().__init__(embed_dim, num_heads)
        self.register_buffer("bias", torch.tril(torch.ones(max_len, max_len)))

    def forward(self, x):
        q, k, v = self.project(x)
        weights = (q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))).softmax(dim=-1)
        return self.w_o(self.from_heads(weights @ v))


@broken(
    "causal-eval",
    misconception="M11",
    met="PyTorch's own tutorial on the fused kernel (anchors B2), Kronos issue 199",
    arguments=SIZES,
)
class CausalSelfAttentionInTraining(Heads):
    """Switch causality off together with dropout in eval mode."""

    def forward(self, x):
        q, k, v = self.project(x)
        output = F.scaled_dot_product_attention(q, k, v, is_causal=self.training)
        return self.w_o(self.from_heads(output))


@broken(
    "causal-eval",
    misconception="M11",
    met="mask seen as regularisation",
    arguments=SIZES,
    causal=True,
)
class MaskedWhileTraining(Heads):
    """Mask the future only while training."""

    def forward(self, x):
        q, k, v = self.project(x)
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
        if self.training:
            scores = scores.masked_fill(future(scores), float("-inf"))
        return self.w_o(self.from_heads(scores.softmax(dim=-1) @ v))


@broken(
    "causal-off-by-one",
    misconception="which diagonal",
    met="buffer with diagonal=1",
    arguments=SIZES,
)
class CausalSelfAttentionOneAhead(Heads):
    """Keep one diagonal too many, so every token sees the next."""

    def __init__(self, embed_dim, num_heads, max_len=64):
        super().__init__(embed_dim, num_heads)
        self.register_buffer("keep", torch.ones(max_len, max_len).tril(diagonal=1))

    def forward(self, x):
        q, k, v = self.project(x)
        length = x.size(1)
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
        scores = scores.masked_fill(self.keep[:length, :length] == 0, float("-inf"))
        return self.w_o(self.from_heads(scores.softmax(dim=-1) @ v))


@broken(
    "causal-flipped",
    misconception="M1",
    met="LLMs-from-scratch issue 1061 (anchors B1)",
    arguments={"d_in": 12, "num_heads": 3},
)
class CausalMultiHeadSDPA(torch.nn.Module):
    """Hand the fused kernel the book's buffer of blocked places, which it reads as allowed."""

    def __init__(self, d_in, num_heads, context_length=64):
        super().__init__()
        self.num_heads = num_heads
        self.qkv = torch.nn.Linear(d_in, 3 * d_in, bias=False)
        self.proj = torch.nn.Linear(d_in, d_in)
        self.register_buffer(
            "mask", torch.triu(torch.ones(context_length, context_length), 1).bool()
        )

    def forward(self, x):
        batch, num_tokens, width = x.shape
        qkv = self.qkv(x).view(batch, num_tokens, 3, self.num_heads, -1)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        mask = self.mask[:num_tokens, :num_tokens]
        context = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.proj(context.transpose(1, 2).reshape(batch, num_tokens, width))


@broken(
    "causal-leak",
    misconception="normalising is harmless",
    met="norm over the text",
    arguments=SIZES,
)
class CausalSelfAttentionOnStandardised(Heads):
    """Standardise the input over the whole text before the causal attention."""

    def forward(self, x):
        x = (x - x.mean(dim=1, keepdim=True)) / (x.std(dim=1, keepdim=True) + 1e-5)
        output = F.scaled_dot_product_attention(*self.project(x), is_causal=True)
        return self.w_o(self.from_heads(output))


@broken("remembers", misconception="all texts are as long", met="mask built once", arguments=SIZES)
class CausalSelfAttentionOfFirstLength(Heads):
    """Build the causal mask on the first call and keep that length for ever."""

    def __init__(self, embed_dim, num_heads):
        super().__init__(embed_dim, num_heads)
        self.blocked = None

    def forward(self, x):
        q, k, v = self.project(x)
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
        if self.blocked is None:
            self.blocked = future(scores)
        scores = scores.masked_fill(self.blocked, float("-inf"))
        return self.w_o(self.from_heads(scores.softmax(dim=-1) @ v))


@broken(
    "device", misconception="tensors follow the module", met="works on the laptop", arguments=SIZES
)
class CausalSelfAttentionOnCpu(Heads):
    """Build the causal mask on the CPU in every call."""

    def forward(self, x):
        q, k, v = self.project(x)
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
        keep = torch.tril(torch.ones(x.size(1), x.size(1)))
        scores = scores.masked_fill(keep == 0, float("-inf"))
        return self.w_o(self.from_heads(scores.softmax(dim=-1) @ v))


@broken(
    "mask-ignored", misconception="M9", met="argument accepted, never passed on", arguments=SIZES
)
class MaskAccepted(Heads):
    """Accept a mask and never use it."""

    def forward(self, query, key, value, mask=None):
        q, k, v = (
            self.to_heads(self.w_q(query)),
            self.to_heads(self.w_k(key)),
            self.to_heads(self.w_v(value)),
        )
        return self.w_o(self.from_heads(F.scaled_dot_product_attention(q, k, v)))


@broken(
    "mask-inverted", misconception="M1", met="nn.MultiheadAttention's convention", arguments=SIZES
)
class MaskUpsideDown(Heads):
    """Block where the mask is True."""

    def forward(self, x, mask=None):
        q, k, v = self.project(x)
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
        if mask is not None:
            scores = scores.masked_fill(mask, -1e9)
        return self.w_o(self.from_heads(scores.softmax(dim=-1) @ v))


@broken(
    "mask-added", misconception="M1", met="a boolean mask in a formula that adds", arguments=SIZES
)
class MaskAsNudge(Heads):
    """Add True as 1 to the scores of every head."""

    def forward(self, x, attn_mask=None):
        q, k, v = self.project(x)
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
        if attn_mask is not None:
            scores = scores + attn_mask
        return self.w_o(self.from_heads(F.softmax(scores, dim=-1) @ v))


@broken(
    "mask-after-softmax", misconception="before or after is the same", met="forum", arguments=SIZES
)
class MaskTooLate(Heads):
    """Zero the weights of blocked keys after the softmax and leave the rows short of 1."""

    def forward(self, x, mask):
        q, k, v = self.project(x)
        weights = (q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))).softmax(dim=-1)
        return self.w_o(self.from_heads((weights * mask) @ v))


@broken(
    "mask-queries", misconception="M8", met="padded rows set to 0", arguments=SIZES, mask="blocked"
)
class PaddedRowsZeroed(Heads):
    """Zero the rows of padded queries and let everybody attend to the padding."""

    def forward(self, x, key_padding_mask=None):
        output = self.w_o(self.from_heads(F.scaled_dot_product_attention(*self.project(x))))
        if key_padding_mask is not None:
            output = output.masked_fill(key_padding_mask.unsqueeze(-1), 0.0)
        return output


@broken(
    "mask-broadcast", misconception="M10", met="a mask for each text, four axes", arguments=SIZES
)
class MaskOverHeads(Heads):
    """Put the axis for the heads before the batch, so mask n goes to head n."""

    def forward(self, x, mask=None):
        q, k, v = self.project(x)
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
        if mask is not None:
            n, length, keys = mask.shape
            scores = scores.masked_fill(~mask.view(1, n, length, keys), -1e9)
        return self.w_o(self.from_heads(scores.softmax(dim=-1) @ v))


@broken("padding-leak", misconception="M9", met="one mask for a whole batch", arguments=SIZES)
class PaddingOfTheLongest(Heads):
    """Allow a key for all texts of a batch as soon as one text has a word there."""

    def forward(self, x, mask=None):
        if mask is not None:
            mask = mask.any(dim=0)  # (N, L) -> (L,)
            mask = mask.expand(x.size(1), -1)
        output = F.scaled_dot_product_attention(*self.project(x), attn_mask=mask)
        return self.w_o(self.from_heads(output))


@broken("padding-leak", misconception="M9", met="statistics over a padded batch", arguments=SIZES)
class StandardisedOverPadding(Heads):
    """Standardise the input over the whole row, padding included, before masking it."""

    def forward(self, x, mask):
        x = (x - x.mean(dim=1, keepdim=True)) / (x.std(dim=1, keepdim=True) + 1e-5)
        keep = mask[:, None, None, :]
        output = F.scaled_dot_product_attention(*self.project(x), attn_mask=keep)
        return self.w_o(self.from_heads(output))
