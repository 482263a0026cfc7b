"""Broken: modules with a wrong factor, a wrong source, a wrong axis or bad manners."""

# ruff: noqa: D102  (one sentence on the class says what its forward does)

import math

import torch
import torch.nn.functional as F
from torch import nn

from attnlab.clinic.broken._case import broken
from attnlab.clinic.broken._heads import Heads

SIZES = {"embed_dim": 12, "num_heads": 3}


@broken("scale-model", misconception="M4", met="forum question", arguments=SIZES)
class ScaledByEmbedDim(Heads):
    """Divide by the root of embed_dim although each head is only embed_dim / num_heads wide."""

    def forward(self, x):
        q, k, v = self.project(x)
        scores = q @ k.transpose(-2, -1) / math.sqrt(x.size(-1))
        return self.w_o(self.from_heads(scores.softmax(dim=-1) @ v))


@broken(
    "scale-model",
    misconception="M4",
    met="ng-video-lecture pull request 6, Colab still so in issue 55 (anchors B12)",
    arguments={"n_embd": 12, "n_head": 3},
)
class HeadsScaledByC(nn.Module):
    """Take C for the scale, the width of the whole model, in every small head."""

    def __init__(self, n_embd, n_head):
        super().__init__()
        size = n_embd // n_head
        self.key = nn.ModuleList([nn.Linear(n_embd, size, bias=False) for _ in range(n_head)])
        self.query = nn.ModuleList([nn.Linear(n_embd, size, bias=False) for _ in range(n_head)])
        self.value = nn.ModuleList([nn.Linear(n_embd, size, bias=False) for _ in range(n_head)])
        self.proj = nn.Linear(n_embd, n_embd)

    def forward(self, x):
        _, _, C = x.shape
        outputs = []
        for key, query, value in zip(self.key, self.query, self.value, strict=True):
            wei = query(x) @ key(x).transpose(-2, -1) * C**-0.5
            outputs.append(F.softmax(wei, dim=-1) @ value(x))
        return self.proj(torch.cat(outputs, dim=-1))


@broken("scale-missing", misconception="M5", met="first version in a class", arguments=SIZES)
class HeadsUnscaled(Heads):
    """Leave the scores of every head undivided."""

    def forward(self, x):
        q, k, v = self.project(x)
        return self.w_o(self.from_heads((q @ k.transpose(-2, -1)).softmax(dim=-1) @ v))


@broken("scale-d", misconception="M5", met="a fused kernel that already scales", arguments=SIZES)
class HeadsScaledTwice(Heads):
    """Scale the query by hand and let the fused kernel scale again."""

    def forward(self, x):
        q, k, v = self.project(x)
        q = q * q.size(-1) ** -0.5
        return self.w_o(self.from_heads(F.scaled_dot_product_attention(q, k, v)))


@broken("softmax-axis", misconception="M6", met="dim=1 kept from one head", arguments=SIZES)
class HeadsCompete(Heads):
    """Softmax with dim=1, right for nothing with four axes: the heads compete."""

    def forward(self, query, key, value):
        q, k, v = (
            self.to_heads(self.w_q(query)),
            self.to_heads(self.w_k(key)),
            self.to_heads(self.w_v(value)),
        )
        weights = torch.softmax(q @ k.mT / math.sqrt(q.size(-1)), dim=1)
        return self.w_o(self.from_heads(weights @ v)), weights


@broken(
    "wrong-source",
    misconception="copy and paste",
    met="AnnotatedTransformer issue 1",
    arguments=SIZES,
)
class ValueFromKeyLayer(Heads):
    """Make the value with the key's layer; the value's own layer is never used."""

    def forward(self, x):
        q, k, v = self.to_heads(self.w_q(x)), self.to_heads(self.w_k(x)), self.to_heads(self.w_k(x))
        return self.w_o(self.from_heads(F.scaled_dot_product_attention(q, k, v)))


@broken(
    "cross-side",
    misconception="which side asks",
    met="decoder written from memory",
    arguments=SIZES,
)
class QueriesFromMemory(Heads):
    """Ask from the memory and answer from the text: the two sides are exchanged."""

    def forward(self, x, memory):
        q = self.to_heads(self.w_q(memory))
        k, v = self.to_heads(self.w_k(x)), self.to_heads(self.w_v(x))
        return self.w_o(self.from_heads(F.scaled_dot_product_attention(q, k, v)))


@broken("cross-side", misconception="which side asks", met="uvadlc issue 68", arguments=SIZES)
class MemoryIgnored(Heads):
    """Accept key and value and make everything from the query."""

    def forward(self, query, key, value, mask=None):
        q, k, v = self.project(query)
        return self.w_o(self.from_heads(F.scaled_dot_product_attention(q, k, v, attn_mask=mask)))


@broken("batch-first", misconception="M12", met="nn.MultiheadAttention's default", arguments=SIZES)
class TorchWithoutBatchFirst(nn.Module):
    """Wrap nn.MultiheadAttention without batch_first, so a batch attends over its sentences."""

    def __init__(self, embed_dim, num_heads):
        super().__init__()
        self.attention = nn.MultiheadAttention(embed_dim, num_heads)

    def forward(self, x):
        output, _ = self.attention(x, x, x)
        return output


@broken(
    "batch-first", misconception="M12", met="as in Neuromatch W2D5 (anchors B4)", arguments=SIZES
)
class SequenceFirstByHand(Heads):
    """Read axis 0 as the length and axis 1 as the batch."""

    def forward(self, x):
        length, batch, width = x.shape
        q, k, v = (
            layer(x).reshape(length, batch * self.num_heads, -1).transpose(0, 1)
            for layer in (self.w_q, self.w_k, self.w_v)
        )
        output = F.scaled_dot_product_attention(q, k, v).transpose(0, 1)
        return self.w_o(output.reshape(length, batch, width))


@broken("batch-mixing", misconception="a batch is one long text", met="flatten", arguments=SIZES)
class BatchAsOneText(Heads):
    """Join the sentences of a batch into one text and attend over all of it."""

    def forward(self, x):
        joined = x.reshape(1, -1, x.size(-1))
        output = F.scaled_dot_product_attention(*self.project(joined))
        return self.w_o(self.from_heads(output)).view(x.shape)


@broken(
    "transposed-batch",
    misconception="transpose on a batch",
    met="chapter code for one text, given a batch",
    arguments={"d_in": 12, "d_out": 12},
)
class SelfAttentionWithCapitalT(nn.Module):
    """Use keys.T, which is the transpose for one text only."""

    def __init__(self, d_in, d_out):
        super().__init__()
        self.w_query = nn.Linear(d_in, d_out, bias=False)
        self.w_key = nn.Linear(d_in, d_out, bias=False)
        self.w_value = nn.Linear(d_in, d_out, bias=False)

    def forward(self, x):
        _, _, _ = x.shape
        queries, keys, values = self.w_query(x), self.w_key(x), self.w_value(x)
        weights = torch.softmax(queries @ keys.T / keys.shape[-1] ** 0.5, dim=-1)
        return weights @ values


@broken("random", misconception="M13", met="vjepa2 pull request 160", arguments=SIZES)
class DropoutInEval(Heads):
    """Pass the dropout rate to the fused kernel in eval mode too."""

    def __init__(self, embed_dim, num_heads, dropout=0.2):
        super().__init__(embed_dim, num_heads)
        self.dropout = dropout

    def forward(self, x):
        q, k, v = self.project(x)
        output = F.scaled_dot_product_attention(q, k, v, dropout_p=self.dropout)
        return self.w_o(self.from_heads(output))


@broken(
    "remembers", misconception="a cache is harmless", met="cache never emptied", arguments=SIZES
)
class CacheNeverEmptied(Heads):
    """Append to a cache of keys and values that no call ever empties."""

    def __init__(self, embed_dim, num_heads):
        super().__init__(embed_dim, num_heads)
        self.cache = None

    def forward(self, x):
        q, k, v = self.project(x)
        if self.cache is not None and self.cache[0].size(0) == x.size(0):
            k = torch.cat([self.cache[0], k], dim=2)
            v = torch.cat([self.cache[1], v], dim=2)
        self.cache = k.detach(), v.detach()
        return self.w_o(self.from_heads(F.scaled_dot_product_attention(q, k, v)))


@broken(
    "detached",
    misconception="weights need no gradient",
    met=".data to save memory",
    arguments=SIZES,
)
class InputDetached(Heads):
    """Read x.data, so nothing below this layer learns."""

    def forward(self, x):
        q, k, v = self.project(x.data)
        return self.w_o(self.from_heads(F.scaled_dot_product_attention(q, k, v)))


@broken("prints", misconception="shapes are watched by printing", met="debugging", arguments=SIZES)
class PrintsItsShapes(Heads):
    """Print the shape of the heads on every call."""

    def forward(self, x):
        q, k, v = self.project(x)
        print(f"{q.shape=} {k.shape=} {v.shape=}")
        return self.w_o(self.from_heads(F.scaled_dot_product_attention(q, k, v)))


@broken("not-normalised", misconception="softmax is exp", met="softmax by hand", arguments=SIZES)
class HeadsWithBareExp(Heads):
    """Take exponentials and never divide by the sum of the row."""

    def forward(self, x):
        q, k, v = self.project(x)
        weights = torch.exp(q @ k.transpose(-2, -1) / math.sqrt(q.size(-1)))
        return self.w_o(self.from_heads(weights @ v))
