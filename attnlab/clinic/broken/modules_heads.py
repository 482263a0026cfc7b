"""Broken: modules that cut, scale, share or merge their heads in the wrong way."""

# ruff: noqa: D102  (one sentence on the class says what its forward does)

import math

import torch
import torch.nn.functional as F
from torch import nn

from attnlab.clinic.broken._case import broken

SIZES = {"embed_dim": 12, "num_heads": 3}


@broken("split-without-transpose", misconception="M3", met="forum question", arguments=SIZES)
class HeadsByView(nn.Module):
    """View straight as (N, H, L, head_dim), so a head holds pieces of neighbouring tokens."""

    def __init__(self, embed_dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.w_q, self.w_k, self.w_v = (nn.Linear(embed_dim, embed_dim) for _ in range(3))
        self.w_o = nn.Linear(embed_dim, embed_dim)

    def forward(self, x):
        n, length, width = x.shape
        shape = (n, self.num_heads, length, width // self.num_heads)
        q, k, v = (layer(x).view(shape) for layer in (self.w_q, self.w_k, self.w_v))
        weights = torch.softmax(q @ k.transpose(-2, -1) / math.sqrt(shape[3]), dim=-1)
        output = (weights @ v).transpose(1, 2).reshape(n, length, width)
        return self.w_o(output)


@broken(
    "merge-without-transpose",
    misconception="M3",
    met="Transformer-Neural-Network pull request 4 (anchors B13)",
    arguments={"d_model": 12, "num_heads": 3},
)
class HeadsMergedByReshape(nn.Module):
    """Reshape (N, H, L, head_dim) straight back to (N, L, D)."""

    def __init__(self, d_model, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.head_dim = d_model // num_heads
        self.qkv_layer = nn.Linear(d_model, 3 * d_model)
        self.linear_layer = nn.Linear(d_model, d_model)

    def forward(self, x, mask=None):
        batch, length, width = x.size()
        qkv = self.qkv_layer(x).reshape(batch, length, self.num_heads, 3 * self.head_dim)
        q, k, v = qkv.permute(0, 2, 1, 3).chunk(3, dim=-1)
        scores = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(self.head_dim)
        if mask is not None:
            scores = scores.masked_fill(~mask, -1e9)
        values = torch.matmul(F.softmax(scores, dim=-1), v)
        return self.linear_layer(values.reshape(batch, length, width))


@broken(
    "merge-without-transpose",
    misconception="M3",
    met="jsbaan/transformer-from-scratch pull request 6 (anchors B13)",
    arguments=SIZES,
)
class HeadsMergedByView(nn.Module):
    """Make the output contiguous, which silences the view error, and merge the wrong axes."""

    def __init__(self, embed_dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.w_q = nn.Linear(embed_dim, embed_dim, bias=False)
        self.w_k = nn.Linear(embed_dim, embed_dim, bias=False)
        self.w_v = nn.Linear(embed_dim, embed_dim, bias=False)
        self.w_o = nn.Linear(embed_dim, embed_dim, bias=False)

    def forward(self, query, key, value):
        q, k, v = (
            layer(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
            for layer, x in ((self.w_q, query), (self.w_k, key), (self.w_v, value))
        )
        output = F.scaled_dot_product_attention(q, k, v)
        return self.w_o(output.contiguous().view(query.shape))


@broken(
    "split-and-merge",
    misconception="M3",
    met="Chinese-Text-Classification-Pytorch issue 53",
    arguments={"dim_model": 12, "num_head": 3},
)
class HeadsInTheBatch(nn.Module):
    """View as (N * H, L, head_dim) and back, so each head attends inside one block of the text."""

    def __init__(self, dim_model, num_head):
        super().__init__()
        self.num_head = num_head
        self.dim_head = dim_model // num_head
        self.w_q = nn.Linear(dim_model, dim_model)
        self.w_k = nn.Linear(dim_model, dim_model)
        self.w_v = nn.Linear(dim_model, dim_model)
        self.w_o = nn.Linear(dim_model, dim_model)

    def forward(self, x):
        batch = x.size(0)
        q = self.w_q(x).view(batch * self.num_head, -1, self.dim_head)
        k = self.w_k(x).view(batch * self.num_head, -1, self.dim_head)
        v = self.w_v(x).view(batch * self.num_head, -1, self.dim_head)
        scores = torch.bmm(q, k.permute(0, 2, 1)) * self.dim_head**-0.5
        context = torch.bmm(F.softmax(scores, dim=-1), v)
        return self.w_o(context.view(batch, -1, self.dim_head * self.num_head))


@broken(
    "attends-over-heads",
    misconception="M3",
    met="the series' own reference experiment S1",
    arguments=SIZES,
)
class HeadsMeetInsideTokens(nn.Module):
    """Leave the heads behind the tokens, so heads attend to heads and tokens never meet."""

    def __init__(self, embed_dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.head_dim = embed_dim // num_heads
        self.w_q = nn.Linear(embed_dim, embed_dim)
        self.w_k = nn.Linear(embed_dim, embed_dim)
        self.w_v = nn.Linear(embed_dim, embed_dim)
        self.w_o = nn.Linear(embed_dim, embed_dim)

    def forward(self, x):
        n, length, width = x.shape
        q = self.w_q(x).view(n, length, self.num_heads, self.head_dim)
        k = self.w_k(x).view(n, length, self.num_heads, self.head_dim)
        v = self.w_v(x).view(n, length, self.num_heads, self.head_dim)
        scores = q @ k.transpose(-2, -1) / math.sqrt(self.head_dim)
        weights = scores.softmax(dim=-1)
        return self.w_o((weights @ v).reshape(n, length, width)), weights


@broken("heads-shared", misconception="M14", met="[head] * num_heads", arguments=SIZES)
class HeadsFromOneLayer(nn.Module):
    """Multiply a list that holds one head, so every head is the same object."""

    def __init__(self, embed_dim, num_heads):
        super().__init__()
        head_dim = embed_dim // num_heads
        head = nn.ModuleList([nn.Linear(embed_dim, head_dim) for _ in range(3)])
        self.heads = nn.ModuleList([head] * num_heads)
        self.w_o = nn.Linear(embed_dim, embed_dim)

    def forward(self, x):
        outputs = []
        for w_q, w_k, w_v in self.heads:
            q, k, v = w_q(x), w_k(x), w_v(x)
            weights = torch.softmax(q @ k.transpose(1, 2) / math.sqrt(q.size(-1)), dim=-1)
            outputs.append(weights @ v)
        return self.w_o(torch.cat(outputs, dim=-1))


@broken("heads-shared", misconception="M14", met="expand in place of a split", arguments=SIZES)
class HeadsByExpand(nn.Module):
    """Project to one head and repeat it, which looks like many heads."""

    def __init__(self, embed_dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.to_qkv = nn.Linear(embed_dim, 3 * (embed_dim // num_heads), bias=False)
        self.to_out = nn.Linear(embed_dim, embed_dim)

    def forward(self, x):
        q, k, v = self.to_qkv(x).unsqueeze(1).expand(-1, self.num_heads, -1, -1).chunk(3, dim=-1)
        output = F.scaled_dot_product_attention(q, k, v)
        return self.to_out(output.transpose(1, 2).flatten(2))


@broken(
    "heads-from-input",
    misconception="M14",
    met="Machine-Learning-Collection issue 3",
    arguments={"embed_size": 12, "heads": 3},
)
class HeadsCutFromInput(nn.Module):
    """Cut the input into heads first and project each slice with one small layer."""

    def __init__(self, embed_size, heads):
        super().__init__()
        self.heads = heads
        self.head_dim = embed_size // heads
        self.values = nn.Linear(self.head_dim, self.head_dim, bias=False)
        self.keys = nn.Linear(self.head_dim, self.head_dim, bias=False)
        self.queries = nn.Linear(self.head_dim, self.head_dim, bias=False)
        self.fc_out = nn.Linear(embed_size, embed_size)

    def forward(self, values, keys, query):
        n = query.shape[0]
        values, keys, query = (
            layer(x.reshape(n, x.shape[1], self.heads, self.head_dim))
            for layer, x in ((self.values, values), (self.keys, keys), (self.queries, query))
        )
        energy = torch.einsum("nqhd,nkhd->nhqk", query, keys) / math.sqrt(self.head_dim)
        out = torch.einsum("nhqk,nkhd->nqhd", torch.softmax(energy, dim=3), values)
        return self.fc_out(out.flatten(2))


@broken(
    "heads-from-input",
    misconception="M14",
    met="episodic-transformer-memory-ppo pull request 22",
    arguments=SIZES,
)
class HeadsFromSlices(nn.Module):
    """Give each head its own layers and only its slice of the input."""

    def __init__(self, embed_dim, num_heads):
        super().__init__()
        d = embed_dim // num_heads
        self.w_q = nn.ModuleList([nn.Linear(d, d) for _ in range(num_heads)])
        self.w_k = nn.ModuleList([nn.Linear(d, d) for _ in range(num_heads)])
        self.w_v = nn.ModuleList([nn.Linear(d, d) for _ in range(num_heads)])
        self.w_o = nn.Linear(embed_dim, embed_dim)

    def forward(self, x):
        outputs = []
        slices = x.chunk(len(self.w_q), dim=-1)
        for w_q, w_k, w_v, part in zip(self.w_q, self.w_k, self.w_v, slices, strict=True):
            outputs.append(F.scaled_dot_product_attention(w_q(part), w_k(part), w_v(part)))
        return self.w_o(torch.cat(outputs, dim=-1))


@broken("raises", misconception="M15", met="LLMs-from-scratch issue 61", arguments=SIZES)
class HeadsMergedWithoutContiguous(nn.Module):
    """View a transposed tensor, which torch refuses on every call."""

    def __init__(self, embed_dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.w_qkv = nn.Linear(embed_dim, 3 * embed_dim)
        self.w_o = nn.Linear(embed_dim, embed_dim)

    def forward(self, x):
        n, length, width = x.shape
        q, k, v = (
            part.view(n, length, self.num_heads, -1).transpose(1, 2)
            for part in self.w_qkv(x).chunk(3, dim=-1)
        )
        weights = torch.softmax(q @ k.transpose(-2, -1) / math.sqrt(q.size(-1)), dim=-1)
        return self.w_o((weights @ v).transpose(1, 2).view(n, length, width))
