"""Right: modules with learned projections in many layouts, none of which may be accused."""

# ruff: noqa: D102  (one sentence on the class says what its forward does)

import math

import torch
import torch.nn.functional as F
from torch import nn

from attnlab.clinic.broken._case import right
from attnlab.clinic.broken._heads import Heads

SIZES = {"embed_dim": 12, "num_heads": 3}

right(arguments={**SIZES, "batch_first": True}, mask="blocked")(nn.MultiheadAttention)


@right(arguments={"d_in": 12, "d_out": 12})
class OneHead(nn.Module):
    """Use three layers without bias and no heads."""

    def __init__(self, d_in, d_out):
        super().__init__()
        self.w_q = nn.Linear(d_in, d_out, bias=False)
        self.w_k = nn.Linear(d_in, d_out, bias=False)
        self.w_v = nn.Linear(d_in, d_out, bias=False)

    def forward(self, x):
        q, k, v = self.w_q(x), self.w_k(x), self.w_v(x)
        scores = q @ k.transpose(-2, -1) / q.size(-1) ** 0.5
        return scores.softmax(dim=-1) @ v


@right(arguments={"d_in": 12, "d_out": 12})
class OneHeadOfMatrices(nn.Module):
    """Use bare matrices instead of layers."""

    def __init__(self, d_in, d_out):
        super().__init__()
        self.W_query = nn.Parameter(torch.randn(d_in, d_out) / math.sqrt(d_in))
        self.W_key = nn.Parameter(torch.randn(d_in, d_out) / math.sqrt(d_in))
        self.W_value = nn.Parameter(torch.randn(d_in, d_out) / math.sqrt(d_in))

    def forward(self, x):
        keys, queries, values = x @ self.W_key, x @ self.W_query, x @ self.W_value
        weights = torch.softmax(queries @ keys.mT / keys.shape[-1] ** 0.5, dim=-1)
        return weights @ values


@right(arguments=SIZES)
class HeadsWithMask(Heads):
    """Take query, key, value and a boolean mask, and return the weights too."""

    def forward(self, query, key, value, mask=None):
        q = self.to_heads(self.w_q(query))
        k, v = self.to_heads(self.w_k(key)), self.to_heads(self.w_v(value))
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
        if mask is not None:
            scores = scores.masked_fill(~mask, float("-inf"))
        weights = scores.softmax(dim=-1)
        return self.w_o(self.from_heads(weights @ v)), weights


@right(arguments={"n_embd": 12, "n_head": 3})
class StackedLayer(nn.Module):
    """Make query, key and value with one layer and cut it with chunk(3)."""

    def __init__(self, n_embd, n_head):
        super().__init__()
        self.n_head = n_head
        self.c_attn = nn.Linear(n_embd, 3 * n_embd)
        self.c_proj = nn.Linear(n_embd, n_embd)

    def forward(self, x):
        B, T, C = x.size()
        q, k, v = self.c_attn(x).chunk(3, dim=2)
        q, k, v = (t.view(B, T, self.n_head, C // self.n_head).transpose(1, 2) for t in (q, k, v))
        att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        y = F.softmax(att, dim=-1) @ v
        return self.c_proj(y.transpose(1, 2).contiguous().view(B, T, C))


@right(arguments=SIZES)
class QkvInsideEachHead(nn.Module):
    """Stack query, key and value inside each head, a layout of its own and right."""

    def __init__(self, embed_dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.qkv_proj = nn.Linear(embed_dim, 3 * embed_dim)
        self.o_proj = nn.Linear(embed_dim, embed_dim)

    def forward(self, x, mask=None):
        batch, length, width = x.shape
        qkv = self.qkv_proj(x).reshape(batch, length, self.num_heads, -1).permute(0, 2, 1, 3)
        q, k, v = qkv.chunk(3, dim=-1)
        output = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.o_proj(output.permute(0, 2, 1, 3).reshape(batch, length, width))


@right(arguments=SIZES)
class HeadsInterleaved(nn.Module):
    """Give a head every H-th feature; the learned layers do not mind."""

    def __init__(self, embed_dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.w_qkv = nn.Linear(embed_dim, 3 * embed_dim, bias=False)
        self.w_o = nn.Linear(embed_dim, embed_dim, bias=False)

    def forward(self, x):
        q, k, v = (
            part.unflatten(-1, (-1, self.num_heads)).permute(0, 3, 1, 2)
            for part in self.w_qkv(x).chunk(3, dim=-1)
        )
        scores = torch.einsum("nhqd,nhkd->nhqk", q, k) / math.sqrt(q.size(-1))
        output = torch.einsum("nhqk,nhkd->nqdh", scores.softmax(dim=-1), v)
        return self.w_o(output.flatten(2))


@right(arguments=SIZES)
class ListOfHeads(nn.Module):
    """Give each head its own small layers, from the whole input."""

    def __init__(self, embed_dim, num_heads):
        super().__init__()
        d = embed_dim // num_heads
        self.queries = nn.ModuleList([nn.Linear(embed_dim, d) for _ in range(num_heads)])
        self.keys = nn.ModuleList([nn.Linear(embed_dim, d) for _ in range(num_heads)])
        self.values = nn.ModuleList([nn.Linear(embed_dim, d) for _ in range(num_heads)])
        self.out = nn.Linear(embed_dim, embed_dim)

    def forward(self, x):
        outputs = []
        for w_q, w_k, w_v in zip(self.queries, self.keys, self.values, strict=True):
            scores = w_q(x) @ w_k(x).transpose(1, 2) / math.sqrt(w_k.out_features)
            outputs.append(scores.softmax(dim=-1) @ w_v(x))
        return self.out(torch.cat(outputs, dim=-1))


@right(arguments=SIZES)
class HeadsOfThreeAxes(nn.Module):
    """Keep the matrices as (H, D, head_dim) and use einsum throughout."""

    def __init__(self, embed_dim, num_heads):
        super().__init__()
        shape = (num_heads, embed_dim, embed_dim // num_heads)
        self.W_Q, self.W_K, self.W_V = (
            nn.Parameter(torch.randn(shape) / math.sqrt(embed_dim)) for _ in range(3)
        )
        self.W_O = nn.Parameter(torch.randn(embed_dim, embed_dim) / math.sqrt(embed_dim))

    def forward(self, x):
        q, k, v = (torch.einsum("nle,hed->nhld", x, w) for w in (self.W_Q, self.W_K, self.W_V))
        scores = torch.einsum("nhqd,nhkd->nhqk", q, k) / math.sqrt(q.size(-1))
        return torch.einsum("nhqk,nhkd->nqhd", scores.softmax(-1), v).flatten(2) @ self.W_O


@right(arguments=SIZES)
class NamesExchanged(Heads):
    """Ask with the layer called w_k; the layers are learned, so their names do not matter."""

    def forward(self, x):
        q, k, v = self.project(x)
        weights = (k @ q.transpose(-2, -1) / math.sqrt(k.size(-1))).softmax(dim=-1)
        return self.w_o(self.from_heads(weights @ v))


@right(arguments=SIZES)
class ManyQueriesOneKey(nn.Module):
    """Share one key and value among all heads on purpose (multi-query attention)."""

    def __init__(self, embed_dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.w_q = nn.Linear(embed_dim, embed_dim)
        self.w_k = nn.Linear(embed_dim, embed_dim // num_heads)
        self.w_v = nn.Linear(embed_dim, embed_dim // num_heads)
        self.w_o = nn.Linear(embed_dim, embed_dim)

    def forward(self, x):
        q = self.w_q(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k, v = self.w_k(x).unsqueeze(1), self.w_v(x).unsqueeze(1)
        weights = torch.softmax(q @ k.mT / math.sqrt(q.size(-1)), dim=-1)
        return self.w_o((weights @ v).transpose(1, 2).flatten(2))
