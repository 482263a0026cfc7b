"""Layers of encoders, of images and of sets."""

# ruff: noqa: RUF059  (written as others write)

import copy
import math

import torch
import torch.nn.functional as F
from torch import nn

from tests.clinic.panel._case import foreign, given, scripted
from tests.clinic.panel._plain import (
    attend,
    cut,
    join,
    layer,
    parts_of,
    project,
    rand,
    real,
    some,
    thirds,
)


def clones(module, N):
    return nn.ModuleList([copy.deepcopy(module) for _ in range(N)])


@foreign(
    "cloned_linears",
    "list of linears",
    beside=(clones,),
    make=lambda Layer: Layer(3, 24),
    sample=lambda: given(
        rand(2, 4, 24), rand(2, 6, 24, seed=1), rand(2, 6, 24, seed=2), some(2, 1, 6)
    ),
    expected=lambda m, q, k, v, mask: layer((q, k, v), tuple(m.linears), 3, allowed=mask[:, None]),
)
class MultiHeadedAttention(nn.Module):
    "Four equal linear layers in one list, in the manner of the Annotated Transformer."

    def __init__(self, h, d_model, dropout=0.1):
        super().__init__()
        assert d_model % h == 0
        self.d_k = d_model // h
        self.h = h
        self.linears = clones(nn.Linear(d_model, d_model), 4)
        self.attn = None
        self.dropout = nn.Dropout(p=dropout)

    def attention(self, query, key, value, mask=None):
        scores = torch.matmul(query, key.transpose(-2, -1)) / math.sqrt(self.d_k)
        if mask is not None:
            scores = scores.masked_fill(mask == 0, -1e9)
        p_attn = self.dropout(scores.softmax(dim=-1))
        return torch.matmul(p_attn, value), p_attn

    def forward(self, query, key, value, mask=None):
        if mask is not None:
            mask = mask.unsqueeze(1)  # the same for all heads
        nbatches = query.size(0)
        query, key, value = [
            lin(x).view(nbatches, -1, self.h, self.d_k).transpose(1, 2)
            for lin, x in zip(self.linears, (query, key, value), strict=False)
        ]
        x, self.attn = self.attention(query, key, value, mask=mask)
        x = x.transpose(1, 2).contiguous().view(nbatches, -1, self.h * self.d_k)
        return self.linears[-1](x)


class SingleAttention(nn.Module):
    def forward(self, query, key, value, mask=None, dropout=None):
        scores = torch.matmul(query, key.transpose(-2, -1)) / math.sqrt(query.size(-1))
        if mask is not None:
            scores = scores.masked_fill(mask == 0, -1e9)
        p_attn = F.softmax(scores, dim=-1)
        if dropout is not None:
            p_attn = dropout(p_attn)
        return torch.matmul(p_attn, value), p_attn


@foreign(
    "linear_list_and_out",
    "list of linears",
    beside=(SingleAttention,),
    make=lambda Layer: Layer(4, 32),
    sample=lambda: given(*(rand(2, 5, 32, seed=s) for s in range(3)), some(2, 1, 5, 5)),
    expected=lambda m, q, k, v, mask: layer(
        (q, k, v), (*m.linear_layers, m.output_linear), 4, allowed=mask
    ),
)
class MultiHeadedAttention3(nn.Module):
    """Three linear layers in a list, one for the output, attention as a module of its own."""

    def __init__(self, h, d_model, dropout=0.1):
        super().__init__()
        self.d_k, self.h = d_model // h, h
        self.linear_layers = nn.ModuleList([nn.Linear(d_model, d_model) for _ in range(3)])
        self.output_linear = nn.Linear(d_model, d_model)
        self.attention = SingleAttention()
        self.dropout = nn.Dropout(p=dropout)

    def forward(self, query, key, value, mask=None):
        batch_size = query.size(0)
        query, key, value = [
            linear(x).view(batch_size, -1, self.h, self.d_k).transpose(1, 2)
            for linear, x in zip(self.linear_layers, (query, key, value), strict=True)
        ]
        x, _ = self.attention(query, key, value, mask=mask, dropout=self.dropout)
        x = x.transpose(1, 2).contiguous().view(batch_size, -1, self.h * self.d_k)
        return self.output_linear(x)


@foreign(
    "bert_self",
    "bert",
    make=lambda Layer: Layer(24, 3),
    sample=lambda: given(
        rand(2, 6, 24),
        attention_mask=(~real(6, 4, size=6)[:, None, None]).double()
        * torch.finfo(torch.float32).min,
    ),
    expected=lambda m, x, attention_mask: layer(
        x, (m.query, m.key, m.value, None), 3, allowed=attention_mask == 0
    ),
    options={"mask": "additive"},
    convention=True,
)
class BertSelfAttention(nn.Module):
    """The heads of a BERT without the output projection, which lies in another module."""

    def __init__(self, hidden_size, num_attention_heads, attention_probs_dropout_prob=0.1):
        super().__init__()
        self.num_attention_heads = num_attention_heads
        self.attention_head_size = int(hidden_size / num_attention_heads)
        self.all_head_size = self.num_attention_heads * self.attention_head_size
        self.query = nn.Linear(hidden_size, self.all_head_size)
        self.key = nn.Linear(hidden_size, self.all_head_size)
        self.value = nn.Linear(hidden_size, self.all_head_size)
        self.dropout = nn.Dropout(attention_probs_dropout_prob)

    def transpose_for_scores(self, x):
        x = x.view(*x.size()[:-1], self.num_attention_heads, self.attention_head_size)
        return x.permute(0, 2, 1, 3)

    def forward(self, hidden_states, attention_mask=None):
        query_layer = self.transpose_for_scores(self.query(hidden_states))
        key_layer = self.transpose_for_scores(self.key(hidden_states))
        value_layer = self.transpose_for_scores(self.value(hidden_states))
        attention_scores = torch.matmul(query_layer, key_layer.transpose(-1, -2))
        attention_scores = attention_scores / math.sqrt(self.attention_head_size)
        if attention_mask is not None:
            # computed beforehand: 0 for tokens, the smallest number for padding
            attention_scores = attention_scores + attention_mask
        attention_probs = nn.functional.softmax(attention_scores, dim=-1)
        attention_probs = self.dropout(attention_probs)
        context_layer = torch.matmul(attention_probs, value_layer)
        context_layer = context_layer.permute(0, 2, 1, 3).contiguous()
        return context_layer.view(*context_layer.size()[:-2], self.all_head_size)


def bias_of_a_window(table, side):
    """Return (H, side², side²): one entry for each offset of two places in a window."""
    places = [(row, column) for row in range(side) for column in range(side)]
    width = 2 * side - 1
    index = [
        [(a - c + side - 1) * width + (b - d + side - 1) for c, d in places] for a, b in places
    ]
    return table[torch.tensor(index)].permute(2, 0, 1)


@foreign(
    "swin_window",
    "window layer",
    make=lambda Layer: Layer(24, (2, 2), 3),
    sample=lambda: given(rand(6, 4, 24), torch.zeros(3, 4, 4).masked_fill(~some(3, 4, 4), -100.0)),
    expected=lambda m, x, mask: layer(
        x,
        (*thirds(m.qkv), m.proj),
        3,
        bias=bias_of_a_window(m.relative_position_bias_table, 2) + mask.repeat(2, 1, 1)[:, None],
    ),
    options={"mask": "additive"},
    convention=True,
)
class WindowAttention(nn.Module):
    """Attention inside windows of an image, with a bias for each offset.

    x: (windows * batch, places, dim); mask: (windows, places, places) with 0 or -100, or None.
    """

    def __init__(self, dim, window_size, num_heads, qkv_bias=True, attn_drop=0.0):
        super().__init__()
        self.num_heads = num_heads
        self.scale = (dim // num_heads) ** -0.5
        high, wide = window_size
        self.relative_position_bias_table = nn.Parameter(
            torch.randn((2 * high - 1) * (2 * wide - 1), num_heads)
        )
        grid = torch.meshgrid(torch.arange(high), torch.arange(wide), indexing="ij")
        coords = torch.stack(grid).flatten(1)
        offsets = (coords[:, :, None] - coords[:, None, :]).permute(1, 2, 0).contiguous()
        offsets[:, :, 0] += high - 1
        offsets[:, :, 1] += wide - 1
        offsets[:, :, 0] *= 2 * wide - 1
        self.register_buffer("relative_position_index", offsets.sum(-1))
        self.qkv = nn.Linear(dim, dim * 3, bias=qkv_bias)
        self.attn_drop = nn.Dropout(attn_drop)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        B_, N, C = x.shape
        qkv = self.qkv(x).reshape(B_, N, 3, self.num_heads, C // self.num_heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        q = q * self.scale
        attn = q @ k.transpose(-2, -1)
        bias = self.relative_position_bias_table[self.relative_position_index.view(-1)]
        attn = attn + bias.view(N, N, -1).permute(2, 0, 1).contiguous().unsqueeze(0)
        if mask is not None:
            nW = mask.shape[0]
            attn = attn.view(B_ // nW, nW, self.num_heads, N, N) + mask.unsqueeze(1).unsqueeze(0)
            attn = attn.view(-1, self.num_heads, N, N)
        attn = self.attn_drop(attn.softmax(dim=-1))
        x = (attn @ v).transpose(1, 2).reshape(B_, N, C)
        return self.proj(x)


@foreign(
    "vit_chunk",
    "vision",
    make=lambda Layer: Layer(24, heads=4, dim_head=8),
    sample=lambda: given(rand(2, 5, 24)),
    expected=lambda m, x: layer(m.norm(x), (*thirds(m.to_qkv), m.to_out[0]), 4),
)
class VisionAttention(nn.Module):
    """Normalised input, heads wider than dim / heads, one fused projection without bias."""

    def __init__(self, dim, heads=8, dim_head=64, dropout=0.0):
        super().__init__()
        inner_dim = dim_head * heads
        project_out = not (heads == 1 and dim_head == dim)
        self.heads = heads
        self.scale = dim_head**-0.5
        self.norm = nn.LayerNorm(dim)
        self.attend = nn.Softmax(dim=-1)
        self.dropout = nn.Dropout(dropout)
        self.to_qkv = nn.Linear(dim, inner_dim * 3, bias=False)
        self.to_out = (
            nn.Sequential(nn.Linear(inner_dim, dim), nn.Dropout(dropout))
            if project_out
            else nn.Identity()
        )

    def forward(self, x):
        x = self.norm(x)
        b, n, _ = x.shape
        qkv = self.to_qkv(x).chunk(3, dim=-1)
        q, k, v = (t.reshape(b, n, self.heads, -1).transpose(1, 2) for t in qkv)
        dots = torch.matmul(q, k.transpose(-1, -2)) * self.scale
        attn = self.dropout(self.attend(dots))
        out = torch.matmul(attn, v)
        out = out.transpose(1, 2).reshape(b, n, -1)
        return self.to_out(out)


@foreign(
    "decoder_memory",
    "cross",
    make=lambda Layer: Layer(24, 3),
    sample=lambda: given(rand(2, 4, 24), rand(2, 6, 24, seed=1), real(6, 4, size=6)[:, None]),
    expected=lambda m, x, memory, mask: layer(
        (x, memory, memory), (m.wq, m.wk, m.wv, m.wo), 3, allowed=mask[:, None]
    ),
)
class EncoderDecoderAttention(nn.Module):
    """x asks, memory answers; memory_mask: (batch, 1, memory length), True for tokens."""

    def __init__(self, d_model, num_heads):
        super().__init__()
        self.d_model, self.num_heads, self.depth = d_model, num_heads, d_model // num_heads
        self.wq = nn.Linear(d_model, d_model)
        self.wk = nn.Linear(d_model, d_model)
        self.wv = nn.Linear(d_model, d_model)
        self.wo = nn.Linear(d_model, d_model)

    def split_heads(self, x):
        batch, length, _ = x.size()
        return x.view(batch, length, self.num_heads, self.depth).transpose(1, 2)

    def forward(self, x, memory, memory_mask=None):
        q = self.split_heads(self.wq(x))
        k = self.split_heads(self.wk(memory))
        v = self.split_heads(self.wv(memory))
        scores = torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(self.depth)
        if memory_mask is not None:
            scores = scores.masked_fill(~memory_mask.unsqueeze(1), float("-inf"))
        attn = torch.softmax(scores, dim=-1)
        out = torch.matmul(attn, v).transpose(1, 2).contiguous()
        return self.wo(out.view(x.size(0), -1, self.d_model)), attn


@foreign(
    "class_token_pool",
    "pooling",
    make=lambda Layer: Layer(24, 3),
    sample=lambda: given(rand(2, 6, 24)),
    expected=lambda m, x: layer((x[:, :1], x, x), (m.q, m.k, m.v, m.proj), 3)[:, 0],
)
class ClassAttention(nn.Module):
    """Only the first token, the class token, asks; the result is (batch, dim)."""

    def __init__(self, dim, num_heads=8):
        super().__init__()
        self.num_heads = num_heads
        self.scale = (dim // num_heads) ** -0.5
        self.q = nn.Linear(dim, dim)
        self.k = nn.Linear(dim, dim)
        self.v = nn.Linear(dim, dim)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x):
        B, N, C = x.shape
        q = self.q(x[:, 0]).unsqueeze(1)
        q = q.reshape(B, 1, self.num_heads, C // self.num_heads).permute(0, 2, 1, 3) * self.scale
        k = self.k(x).reshape(B, N, self.num_heads, C // self.num_heads).permute(0, 2, 1, 3)
        v = self.v(x).reshape(B, N, self.num_heads, C // self.num_heads).permute(0, 2, 1, 3)
        attn = (q @ k.transpose(-2, -1)).softmax(dim=-1)
        cls = (attn @ v).transpose(1, 2).reshape(B, 1, C)
        return self.proj(cls).squeeze(1)


def block_of_a_set(m, Q, K):
    q = project(Q, m.fc_q)
    seen = layer((Q, K, K), (m.fc_q, m.fc_k, m.fc_v, None), 3)
    return q + seen + torch.relu(project(q + seen, m.fc_o))


@foreign(
    "mab",
    "residual",
    make=lambda Layer: Layer(16, 20, 24, 3),
    sample=lambda: given(rand(2, 4, 16), rand(2, 6, 20, seed=1)),
    expected=block_of_a_set,
)
class MAB(nn.Module):
    """Block of a set transformer: heads are stacked along the batch, and the queries stay."""

    def __init__(self, dim_Q, dim_K, dim_V, num_heads):
        super().__init__()
        self.dim_V, self.num_heads = dim_V, num_heads
        self.fc_q = nn.Linear(dim_Q, dim_V)
        self.fc_k = nn.Linear(dim_K, dim_V)
        self.fc_v = nn.Linear(dim_K, dim_V)
        self.fc_o = nn.Linear(dim_V, dim_V)

    def forward(self, Q, K):
        Q = self.fc_q(Q)
        K, V = self.fc_k(K), self.fc_v(K)
        dim_split = self.dim_V // self.num_heads
        Q_ = torch.cat(Q.split(dim_split, 2), 0)
        K_ = torch.cat(K.split(dim_split, 2), 0)
        V_ = torch.cat(V.split(dim_split, 2), 0)
        A = torch.softmax(Q_.bmm(K_.transpose(1, 2)) / math.sqrt(dim_split), 2)
        O = torch.cat((Q_ + A.bmm(V_)).split(Q.size(0), 0), 2)  # noqa: E741
        return O + F.relu(self.fc_o(O))


@foreign(
    "stacked_three",
    "stacked",
    make=lambda Layer: Layer(24, 3),
    sample=lambda: given(rand(2, 5, 24), mask=some(5, 5)),
    expected=lambda m, x, mask: torch.einsum(
        "nhld,hde->nle",
        attend(*(torch.einsum("nle,hed->nhld", x, weight) for weight in m.w_qkv), allowed=mask),
        m.w_out,
    ),
)
class StackedHeads(nn.Module):
    """All projections in one parameter (3, heads, dim, head_dim)."""

    def __init__(self, dim, heads):
        super().__init__()
        self.heads, self.head_dim = heads, dim // heads
        self.w_qkv = nn.Parameter(torch.randn(3, heads, dim, self.head_dim) * dim**-0.5)
        self.w_out = nn.Parameter(torch.randn(heads, self.head_dim, dim) * dim**-0.5)

    def forward(self, x, mask=None):
        q, k, v = torch.einsum("bte,shed->sbhtd", x, self.w_qkv).unbind(0)
        logits = torch.einsum("bhid,bhjd->bhij", q, k) / math.sqrt(self.head_dim)
        if mask is not None:
            logits = logits.masked_fill(~mask, float("-inf"))
        weights = logits.softmax(dim=-1)
        out = torch.einsum("bhij,bhjd->bhid", weights, v)
        return torch.einsum("bhid,hde->bie", out, self.w_out)


def of_conv(conv, count=1):
    """Return the linear layers that a 1x1 convolution is made of."""
    weight = conv.weight.detach().flatten(1)
    linear = nn.Linear(*reversed(weight.shape), bias=conv.bias is not None, dtype=weight.dtype)
    linear.weight = nn.Parameter(weight)
    if conv.bias is not None:
        linear.bias = nn.Parameter(conv.bias.detach())
    return parts_of(linear, count)


@foreign(
    "conv_heads",
    "image",
    make=lambda Layer: Layer(24, heads=3, dim_head=6),
    sample=lambda: given(rand(2, 24, 2, 3)),
    expected=lambda m, x: layer(
        x.flatten(2).mT, (*of_conv(m.to_qkv, 3), *of_conv(m.to_out)), 3
    ).mT.unflatten(2, (2, 3)),
    options={
        "call": lambda target, q, k, v, mask: target(q.mT.unsqueeze(-1)).squeeze(-1).mT,
        "embed_dim": 24,
    },
    convention=True,
)
class ImageAttention(nn.Module):
    """Self-attention over the places of (batch, channels, height, width), with heads."""

    def __init__(self, dim, heads=4, dim_head=32):
        super().__init__()
        self.scale = dim_head**-0.5
        self.heads = heads
        hidden_dim = dim_head * heads
        self.to_qkv = nn.Conv2d(dim, hidden_dim * 3, 1, bias=False)
        self.to_out = nn.Conv2d(hidden_dim, dim, 1)

    def forward(self, x):
        b, c, h, w = x.shape
        qkv = self.to_qkv(x).chunk(3, dim=1)
        q, k, v = (t.reshape(b, self.heads, -1, h * w) for t in qkv)
        q = q * self.scale
        sim = torch.einsum("b h d i, b h d j -> b h i j", q, k)
        attn = sim.softmax(dim=-1)
        out = torch.einsum("b h i j, b h d j -> b h d i", attn, v)
        out = out.reshape(b, -1, h, w)
        return self.to_out(out)


class PrepareForMultiHeadAttention(nn.Module):
    """A linear layer that cuts the last axis into heads."""

    def __init__(self, d_model, heads, d_k, bias):
        super().__init__()
        self.linear = nn.Linear(d_model, heads * d_k, bias=bias)
        self.heads, self.d_k = heads, d_k

    def forward(self, x):
        head_shape = x.shape[:-1]
        return self.linear(x).view(*head_shape, self.heads, self.d_k)


# In the manner of labml's annotated implementations (MIT): (time, batch, features), keywords only.
@foreign(
    "labml_keywords",
    "order of a layer",
    beside=(PrepareForMultiHeadAttention,),
    make=lambda Layer: Layer(3, 24),
    sample=lambda: given(
        query=rand(4, 2, 24),
        key=rand(6, 2, 24, seed=1),
        value=rand(6, 2, 24, seed=2),
        mask=some(4, 6, 2),
    ),
    expected=lambda m, query, key, value, mask: layer(
        tuple(x.transpose(0, 1) for x in (query, key, value)),
        (m.query.linear, m.key.linear, m.value.linear, m.output),
        3,
        allowed=mask.permute(2, 0, 1)[:, None],
    ).transpose(0, 1),
    options={
        "call": lambda target, q, k, v, mask: target(
            query=q.transpose(0, 1),
            key=k.transpose(0, 1),
            value=v.transpose(0, 1),
            mask=None
            if mask is None
            else mask.expand(len(q), q.shape[1], k.shape[1]).permute(1, 2, 0),
        ).transpose(0, 1)
    },
    convention=True,
)
class MultiHeadAttentionModule(nn.Module):
    """query, key, value: [seq_len, batch_size, d_model]; mask: [query, key, batch], 1 = visible."""

    def __init__(self, heads, d_model, dropout_prob=0.1, bias=True):
        super().__init__()
        self.d_k, self.heads = d_model // heads, heads
        self.query = PrepareForMultiHeadAttention(d_model, heads, self.d_k, bias=bias)
        self.key = PrepareForMultiHeadAttention(d_model, heads, self.d_k, bias=bias)
        self.value = PrepareForMultiHeadAttention(d_model, heads, self.d_k, bias=True)
        self.softmax = nn.Softmax(dim=1)
        self.output = nn.Linear(d_model, d_model)
        self.dropout = nn.Dropout(dropout_prob)
        self.scale = 1 / math.sqrt(self.d_k)

    def forward(self, *, query, key, value, mask=None):
        seq_len, batch_size, _ = query.shape
        query, key, value = self.query(query), self.key(key), self.value(value)
        scores = torch.einsum("ibhd,jbhd->ijbh", query, key) * self.scale
        if mask is not None:
            scores = scores.masked_fill(mask.unsqueeze(-1) == 0, float("-inf"))
        attn = self.dropout(self.softmax(scores))
        x = torch.einsum("ijbh,jbhd->ibhd", attn, value)
        return self.output(x.reshape(seq_len, batch_size, -1))


@foreign(
    "learned_temperature",
    "scale of a layer",
    make=lambda Layer: Layer(24, heads=3),
    sample=lambda: given(rand(2, 5, 24)),
    expected=lambda m, x: layer(
        x,
        (*thirds(m.to_qkv), m.to_out),
        3,
        scale=m.temperature.exp(),
        allowed=~torch.eye(5, dtype=torch.bool),
    ),
    convention=True,
)
class LSA(nn.Module):
    """Locality self-attention: a learned temperature, and no token looks at itself."""

    def __init__(self, dim, heads=4):
        super().__init__()
        self.heads = heads
        self.temperature = nn.Parameter(torch.log(torch.tensor((dim // heads) ** -0.5)))
        self.to_qkv = nn.Linear(dim, dim * 3, bias=False)
        self.to_out = nn.Linear(dim, dim)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.to_qkv(x).view(b, n, 3, self.heads, d // self.heads).unbind(2)
        q, k, v = (t.transpose(1, 2) for t in (q, k, v))
        dots = torch.matmul(q, k.transpose(-1, -2)) * self.temperature.exp()
        itself = torch.eye(n, device=x.device, dtype=torch.bool)
        dots = dots.masked_fill(itself, -torch.finfo(dots.dtype).max)
        out = torch.matmul(dots.softmax(dim=-1), v)
        return self.to_out(out.transpose(1, 2).flatten(2))


@foreign(
    "buffer_scale",
    "scale of a layer",
    make=lambda Layer: Layer(24, 24, 3),
    sample=lambda: given(
        rand(3, 4, 24), rand(3, 6, 24, seed=1), rand(3, 6, 24, seed=2), some(4, 6)
    ),
    tolerance=1e-7,  # its root is float32
    expected=lambda m, q, k, v, mask: layer(
        (q, k, v), (m.fc_q, m.fc_k, m.fc_v, m.fc_o), 3, allowed=mask
    ),
)
class MultiHeadAttentionLayer(nn.Module):
    """Queries and memory may differ in width; the root of head_dim is a buffer."""

    def __init__(self, query_dim, memory_dim, n_heads, head_dim=8, dropout=0.1):
        super().__init__()
        self.n_heads, self.head_dim = n_heads, head_dim
        self.fc_q = nn.Linear(query_dim, n_heads * head_dim)
        self.fc_k = nn.Linear(memory_dim, n_heads * head_dim)
        self.fc_v = nn.Linear(memory_dim, n_heads * head_dim)
        self.fc_o = nn.Linear(n_heads * head_dim, query_dim)
        self.dropout = nn.Dropout(dropout)
        self.register_buffer("scale", torch.sqrt(torch.FloatTensor([head_dim])))

    def forward(self, query, key, value, mask=None):
        batch_size = query.shape[0]
        Q, K, V = self.fc_q(query), self.fc_k(key), self.fc_v(value)
        Q = Q.view(batch_size, -1, self.n_heads, self.head_dim).permute(0, 2, 1, 3)
        K = K.view(batch_size, -1, self.n_heads, self.head_dim).permute(0, 2, 1, 3)
        V = V.view(batch_size, -1, self.n_heads, self.head_dim).permute(0, 2, 1, 3)
        energy = torch.matmul(Q, K.permute(0, 1, 3, 2)) / self.scale
        if mask is not None:
            energy = energy.masked_fill(mask == 0, -1e10)
        attention = torch.softmax(energy, dim=-1)
        x = torch.matmul(self.dropout(attention), V)
        x = x.permute(0, 2, 1, 3).contiguous()
        x = x.view(batch_size, -1, self.n_heads * self.head_dim)
        return self.fc_o(x), attention


@foreign(
    "gated_output",
    "gates and norms",
    make=lambda Layer: Layer(24, num_heads=3, c_hidden=6),
    sample=lambda: given(rand(2, 5, 24), real(5, 3, size=5)),
    expected=lambda m, x, mask: project(
        torch.sigmoid(project(x, m.linear_g))
        * join(
            attend(
                *(cut(project(x, part), 3) for part in (m.linear_q, m.linear_k, m.linear_v)),
                allowed=mask[:, None, None],
            )
        ),
        m.linear_o,
    ),
)
class GatedAttention(nn.Module):
    """Attention whose output is gated by the input; mask: (batch, length), 1 = token."""

    def __init__(self, c_in, num_heads, c_hidden):
        super().__init__()
        self.no_heads, self.c_hidden = num_heads, c_hidden
        self.linear_q = nn.Linear(c_in, num_heads * c_hidden, bias=False)
        self.linear_k = nn.Linear(c_in, num_heads * c_hidden, bias=False)
        self.linear_v = nn.Linear(c_in, num_heads * c_hidden, bias=False)
        self.linear_g = nn.Linear(c_in, num_heads * c_hidden)
        self.linear_o = nn.Linear(num_heads * c_hidden, c_in)

    def forward(self, x, mask=None):
        heads = (self.no_heads, -1)
        q = self.linear_q(x).unflatten(-1, heads).transpose(-2, -3) / math.sqrt(self.c_hidden)
        k = self.linear_k(x).unflatten(-1, heads).transpose(-2, -3)
        v = self.linear_v(x).unflatten(-1, heads).transpose(-2, -3)
        a = torch.matmul(q, k.transpose(-1, -2))
        if mask is not None:
            a = a.masked_fill(mask[:, None, None, :] == 0, -1e9)
        a = F.softmax(a, dim=-1)
        o = torch.matmul(a, v).transpose(-2, -3)
        g = torch.sigmoid(self.linear_g(x)).unflatten(-1, heads)
        return self.linear_o((o * g).flatten(-2))


@foreign(
    "double_layer",
    "precision of a layer",
    make=lambda Layer: Layer(24, 3).double(),
    sample=lambda: given(rand(2, 5, 24), some(2, 5, 5)),
    expected=lambda m, x, mask: layer(
        x, (m.to_q, *parts_of(m.to_kv, 2), m.to_out), 3, allowed=mask[:, None]
    ),
)
class DoubleAttention(nn.Module):
    """Keys and values from one projection; used in float64. mask: (N, L, L), True = may attend."""

    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.to_q = nn.Linear(dim, dim, bias=False)
        self.to_kv = nn.Linear(dim, 2 * dim, bias=False)
        self.to_out = nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        n, length, dim = x.shape
        q = self.to_q(x)
        k, v = self.to_kv(x).chunk(2, dim=-1)
        q, k, v = (t.view(n, length, self.heads, -1).transpose(1, 2) for t in (q, k, v))
        sim = torch.einsum("nhid,nhjd->nhij", q, k) / q.shape[-1] ** 0.5
        if mask is not None:
            sim = sim.masked_fill(~mask[:, None], -torch.finfo(sim.dtype).max)
        out = torch.einsum("nhij,nhjd->nhid", sim.softmax(dim=-1), v)
        return self.to_out(out.transpose(1, 2).reshape(n, length, dim))


@foreign(
    "scripted_layer",
    "script",
    make=lambda Layer: scripted(Layer(24, 3)),
    sample=lambda: given(rand(2, 5, 24), some(5, 5)),
    expected=lambda m, x, mask: layer(x, (*thirds(m.in_proj), m.out_proj), 3, allowed=mask),
)
class ScriptedSelfAttention(nn.Module):
    """Self-attention compiled by TorchScript; attn_mask: (L, L), True = may attend."""

    def __init__(self, embed_dim: int, num_heads: int):
        super().__init__()
        self.num_heads = num_heads
        self.head_dim = embed_dim // num_heads
        self.in_proj = nn.Linear(embed_dim, 3 * embed_dim)
        self.out_proj = nn.Linear(embed_dim, embed_dim)

    def forward(self, x: torch.Tensor, attn_mask: torch.Tensor | None = None) -> torch.Tensor:
        n, length, width = x.shape
        qkv = self.in_proj(x).view(n, length, 3, self.num_heads, self.head_dim)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        scores = torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(self.head_dim)
        if attn_mask is not None:
            scores = scores.masked_fill(~attn_mask, float("-inf"))
        weights = torch.softmax(scores, dim=-1)
        out = torch.matmul(weights, v).transpose(1, 2).reshape(n, length, width)
        return self.out_proj(out)
