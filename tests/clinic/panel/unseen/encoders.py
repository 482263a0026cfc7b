"""Layers of encoders, of images and of sets."""

import math

import torch
import torch.nn.functional as F
from torch import nn

from tests.clinic.panel._case import foreign, given
from tests.clinic.panel._plain import (
    attend,
    causal,
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
from tests.clinic.panel.injection import MASKS


@foreign(
    "tokeys_unify",
    "list of linears",
    make=lambda Layer: Layer(24, heads=3),
    sample=lambda: given(rand(2, 5, 24)),
    expected=lambda m, x: project(
        join(
            attend(
                *(
                    torch.stack([project(part, one) for part in x.split(8, dim=-1)], dim=1)
                    for one in (m.toqueries, m.tokeys, m.tovalues)
                )
            )
        ),
        m.unifyheads,
    ),
)
class SelfAttentionNarrow(nn.Module):
    """The input is cut into heads first, and all heads share their small projections."""

    def __init__(self, emb, heads=8):
        super().__init__()
        self.emb, self.heads = emb, heads
        s = emb // heads
        self.tokeys = nn.Linear(s, s, bias=False)
        self.toqueries = nn.Linear(s, s, bias=False)
        self.tovalues = nn.Linear(s, s, bias=False)
        self.unifyheads = nn.Linear(emb, emb)

    def forward(self, x):
        b, t, _ = x.size()
        h, s = self.heads, self.emb // self.heads
        x = x.view(b, t, h, s)
        keys, queries, values = self.tokeys(x), self.toqueries(x), self.tovalues(x)
        keys = keys.transpose(1, 2).contiguous().view(b * h, t, s)
        queries = queries.transpose(1, 2).contiguous().view(b * h, t, s)
        values = values.transpose(1, 2).contiguous().view(b * h, t, s)
        queries = queries / (s ** (1 / 4))
        keys = keys / (s ** (1 / 4))
        dot = torch.bmm(queries, keys.transpose(1, 2))
        dot = F.softmax(dot, dim=2)
        out = torch.bmm(dot, values).view(b, h, t, s)
        out = out.transpose(1, 2).contiguous().view(b, t, s * h)
        return self.unifyheads(out)


@foreign(
    "qkv_nets",
    "list of linears",
    make=lambda Layer: Layer(24, 3, 0.1),
    sample=lambda: given(
        rand(2, 4, 24),
        rand(2, 6, 24, seed=1),
        rand(2, 6, 24, seed=2),
        real(6, 4, size=6)[:, None, None],
    ),
    expected=lambda m, q, k, v, mask: layer(
        (q, k, v), (*m.qkv_nets, m.out_projection_net), 3, allowed=mask
    ),
)
class MultiHeadedAttention(nn.Module):
    """mask: (batch, 1, 1, length) or (batch, 1, length, length), True for visible tokens."""

    def __init__(self, model_dimension, number_of_heads, dropout_probability):
        super().__init__()
        self.head_dimension = int(model_dimension / number_of_heads)
        self.number_of_heads = number_of_heads
        nets = [nn.Linear(model_dimension, model_dimension) for _ in range(3)]
        self.qkv_nets = nn.ModuleList(nets)
        self.out_projection_net = nn.Linear(model_dimension, model_dimension)
        self.attention_dropout = nn.Dropout(p=dropout_probability)
        self.softmax = nn.Softmax(dim=-1)

    def attention(self, query, key, value, mask):
        scores = torch.matmul(query, key.transpose(-2, -1)) / math.sqrt(self.head_dimension)
        if mask is not None:
            scores = scores.masked_fill(mask == torch.tensor(False), float("-inf"))
        attention_weights = self.attention_dropout(self.softmax(scores))
        return torch.matmul(attention_weights, value)

    def forward(self, query, key, value, mask=None):
        batch_size = query.shape[0]
        query, key, value = [
            net(x).view(batch_size, -1, self.number_of_heads, self.head_dimension).transpose(1, 2)
            for net, x in zip(self.qkv_nets, (query, key, value), strict=True)
        ]
        gathered = self.attention(query, key, value, mask)
        width = self.number_of_heads * self.head_dimension
        reshaped = gathered.transpose(1, 2).reshape(batch_size, -1, width)
        return self.out_projection_net(reshaped)


@foreign(
    "bert_residual",
    "bert",
    make=lambda Layer: Layer(24, 3),
    sample=lambda: given(rand(2, 6, 24), real(6, 4, size=6).long()),
    expected=lambda m, x, mask: m.layer_norm(
        x + layer(x, (m.query, m.key, m.value, m.dense), 3, allowed=mask[:, None, None] == 1)
    ),
)
class BertAttentionBlock(nn.Module):
    """Attention, residual and norm; attention_mask: (batch, length) of 1 and 0."""

    def __init__(self, hidden_size, num_attention_heads):
        super().__init__()
        self.num_attention_heads = num_attention_heads
        self.size_per_head = hidden_size // num_attention_heads
        self.query = nn.Linear(hidden_size, hidden_size)
        self.key = nn.Linear(hidden_size, hidden_size)
        self.value = nn.Linear(hidden_size, hidden_size)
        self.dense = nn.Linear(hidden_size, hidden_size)
        self.layer_norm = nn.LayerNorm(hidden_size, eps=1e-12)
        self.dropout = nn.Dropout(0.1)

    def split_heads(self, x):
        n, t, _ = x.shape
        return x.view(n, t, self.num_attention_heads, self.size_per_head).transpose(1, 2)

    def forward(self, hidden_states, attention_mask=None):
        query = self.split_heads(self.query(hidden_states))
        key = self.split_heads(self.key(hidden_states))
        value = self.split_heads(self.value(hidden_states))
        scores = torch.matmul(query, key.transpose(-1, -2)) / math.sqrt(self.size_per_head)
        if attention_mask is not None:
            extended_mask = attention_mask[:, None, None, :].to(scores.dtype)
            scores = scores + (1.0 - extended_mask) * -10000.0
        probs = self.dropout(F.softmax(scores, dim=-1))
        context = torch.matmul(probs, value).transpose(1, 2).contiguous()
        context = context.view(hidden_states.shape)
        return self.layer_norm(hidden_states + self.dropout(self.dense(context)))


def normed(norm, x):
    """Return RMS-normed features, by hand."""
    root = (x.double() ** 2).mean(-1, keepdim=True) + norm.eps
    return x / root.sqrt() * norm.weight.detach().double()


@foreign(
    "timm_unbind",
    "vision",
    make=lambda Layer: Layer(24, num_heads=3, qkv_bias=True, qk_norm=True),
    sample=lambda: given(rand(2, 5, 24)),
    expected=lambda m, x: project(
        join(
            attend(
                m.q_norm(cut(project(x, thirds(m.qkv)[0]), 3)),
                m.k_norm(cut(project(x, thirds(m.qkv)[1]), 3)),
                cut(project(x, thirds(m.qkv)[2]), 3),
            )
        ),
        m.proj,
    ),
)
class Attention(nn.Module):
    """Fused projection, unbound; queries and keys normalised in each head."""

    def __init__(self, dim, num_heads=8, qkv_bias=False, qk_norm=False, attn_drop=0.0):
        super().__init__()
        self.num_heads = num_heads
        self.head_dim = dim // num_heads
        self.scale = self.head_dim**-0.5
        self.qkv = nn.Linear(dim, dim * 3, bias=qkv_bias)
        self.q_norm = nn.LayerNorm(self.head_dim) if qk_norm else nn.Identity()
        self.k_norm = nn.LayerNorm(self.head_dim) if qk_norm else nn.Identity()
        self.attn_drop = nn.Dropout(attn_drop)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x):
        B, N, C = x.shape
        qkv = self.qkv(x).reshape(B, N, 3, self.num_heads, self.head_dim).permute(2, 0, 3, 1, 4)
        q, k, v = qkv.unbind(0)
        q, k = self.q_norm(q), self.k_norm(k)
        q = q * self.scale
        attn = q @ k.transpose(-2, -1)
        attn = attn.softmax(dim=-1)
        attn = self.attn_drop(attn)
        x = attn @ v
        x = x.transpose(1, 2).reshape(B, N, C)
        return self.proj(x)


@foreign(
    "fused_kv",
    "cross",
    make=lambda Layer: Layer(24, heads=3, dim_head=6),
    sample=lambda: given(rand(2, 4, 24), rand(2, 6, 24, seed=1), mask=some(2, 4, 6)),
    expected=lambda m, x, context, mask: layer(
        (x, context, context), (m.to_q, *parts_of(m.to_kv, 2), m.to_out), 3, allowed=mask[:, None]
    ),
)
class CrossAttention(nn.Module):
    """Without context it attends to itself; mask: (batch, queries, keys), True = attend."""

    def __init__(self, query_dim, context_dim=None, heads=8, dim_head=64):
        super().__init__()
        inner_dim = dim_head * heads
        context_dim = query_dim if context_dim is None else context_dim
        self.scale, self.heads = dim_head**-0.5, heads
        self.to_q = nn.Linear(query_dim, inner_dim, bias=False)
        self.to_kv = nn.Linear(context_dim, inner_dim * 2, bias=False)
        self.to_out = nn.Linear(inner_dim, query_dim)

    def forward(self, x, context=None, mask=None):
        h = self.heads
        q = self.to_q(x)
        context = x if context is None else context
        k, v = self.to_kv(context).chunk(2, dim=-1)
        q, k, v = (t.unflatten(-1, (h, -1)).transpose(1, 2).flatten(0, 1) for t in (q, k, v))
        sim = torch.einsum("b i d, b j d -> b i j", q, k) * self.scale
        if mask is not None:
            mask = mask.repeat_interleave(h, dim=0)
            sim = sim.masked_fill(~mask, -torch.finfo(sim.dtype).max)
        attn = sim.softmax(dim=-1)
        out = torch.einsum("b i j, b j d -> b i d", attn, v)
        out = out.unflatten(0, (-1, h)).transpose(1, 2).flatten(2)
        return self.to_out(out)


@foreign(
    "learned_query_pool",
    "pooling",
    make=lambda Layer: Layer(24, 3),
    sample=lambda: given(rand(2, 6, 24), real(6, 4, size=6)),
    expected=lambda m, x, mask: layer(
        (m.probe.detach().expand(2, 1, 24), x, x),
        (m.to_query, *parts_of(m.to_key_value, 2), m.output),
        3,
        allowed=mask[:, None, None],
    )[:, 0],
)
class AttentionPooling(nn.Module):
    """A learned query summarises a text in one vector; mask: (batch, length), True = token."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.probe = nn.Parameter(torch.randn(1, 1, width))
        self.to_query = nn.Linear(width, width)
        self.to_key_value = nn.Linear(width, 2 * width)
        self.output = nn.Linear(width, width)

    def forward(self, x, mask=None):
        n, length, width = x.shape
        q = self.to_query(self.probe).expand(n, 1, width)
        q = q.view(n, 1, self.heads, -1).transpose(1, 2)
        k, v = self.to_key_value(x).chunk(2, dim=-1)
        k = k.view(n, length, self.heads, -1).transpose(1, 2)
        v = v.view(n, length, self.heads, -1).transpose(1, 2)
        scores = q @ k.mT / math.sqrt(q.size(-1))
        if mask is not None:
            scores = scores.masked_fill(~mask[:, None, None, :], -torch.inf)
        pooled = torch.softmax(scores, dim=-1) @ v
        return self.output(pooled.transpose(1, 2).reshape(n, width))


class DotProduct(nn.Module):
    def __init__(self, temperature, attn_dropout=0.1):
        super().__init__()
        self.temperature = temperature
        self.dropout = nn.Dropout(attn_dropout)

    def forward(self, q, k, v, mask=None):
        attn = torch.matmul(q / self.temperature, k.transpose(2, 3))
        if mask is not None:
            attn = attn.masked_fill(mask == 0, -1e9)
        attn = self.dropout(F.softmax(attn, dim=-1))
        return torch.matmul(attn, v), attn


@foreign(
    "jadore_residual",
    "residual",
    beside=(DotProduct,),
    make=lambda Layer: Layer(3, 24, 8, 10),
    sample=lambda: given(
        rand(2, 5, 24), rand(2, 5, 24, seed=1), rand(2, 5, 24, seed=2), causal(5)[None]
    ),
    expected=lambda m, q, k, v, mask: m.layer_norm(
        q + layer((q, k, v), (m.w_qs, m.w_ks, m.w_vs, m.fc), 3, allowed=mask)
    ),
)
class MultiHeadAttention(nn.Module):
    """Values of another width than keys, residual and norm behind; mask: (batch or 1, L, S)."""

    def __init__(self, n_head, d_model, d_k, d_v, dropout=0.1):
        super().__init__()
        self.n_head, self.d_k, self.d_v = n_head, d_k, d_v
        self.w_qs = nn.Linear(d_model, n_head * d_k, bias=False)
        self.w_ks = nn.Linear(d_model, n_head * d_k, bias=False)
        self.w_vs = nn.Linear(d_model, n_head * d_v, bias=False)
        self.fc = nn.Linear(n_head * d_v, d_model, bias=False)
        self.attention = DotProduct(temperature=d_k**0.5)
        self.dropout = nn.Dropout(dropout)
        self.layer_norm = nn.LayerNorm(d_model, eps=1e-6)

    def forward(self, q, k, v, mask=None):
        d_k, d_v, n_head = self.d_k, self.d_v, self.n_head
        sz_b, len_q, len_k, len_v = q.size(0), q.size(1), k.size(1), v.size(1)
        residual = q
        q = self.w_qs(q).view(sz_b, len_q, n_head, d_k)
        k = self.w_ks(k).view(sz_b, len_k, n_head, d_k)
        v = self.w_vs(v).view(sz_b, len_v, n_head, d_v)
        q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
        if mask is not None:
            mask = mask.unsqueeze(1)
        q, attn = self.attention(q, k, v, mask=mask)
        q = q.transpose(1, 2).contiguous().view(sz_b, len_q, -1)
        q = self.dropout(self.fc(q))
        q += residual
        return self.layer_norm(q), attn


@foreign(
    "per_head_parameters",
    "stacked",
    make=lambda Layer: Layer(24, 3, 8),
    sample=lambda: given(rand(2, 5, 24)),
    expected=lambda m, x: (
        torch.einsum(
            "nhld,hde->nle",
            attend(
                *(
                    torch.einsum("nle,hed->nhld", x, weight) + bias[:, None]
                    for weight, bias in ((m.W_Q, m.b_Q), (m.W_K, m.b_K), (m.W_V, m.b_V))
                ),
                allowed=causal(5),
            ),
            m.W_O,
        )
        + m.b_O
    ),
    options={"causal": True},
)
class HookedAttention(nn.Module):
    """One matrix (heads, d_model, d_head) for each role, as interpreters of models write it."""

    def __init__(self, d_model, n_heads, d_head):
        super().__init__()
        self.n_heads, self.d_head = n_heads, d_head
        self.W_Q = nn.Parameter(torch.randn(n_heads, d_model, d_head) * 0.2)
        self.W_K = nn.Parameter(torch.randn(n_heads, d_model, d_head) * 0.2)
        self.W_V = nn.Parameter(torch.randn(n_heads, d_model, d_head) * 0.2)
        self.W_O = nn.Parameter(torch.randn(n_heads, d_head, d_model) * 0.2)
        self.b_Q = nn.Parameter(torch.zeros(n_heads, d_head))
        self.b_K = nn.Parameter(torch.zeros(n_heads, d_head))
        self.b_V = nn.Parameter(torch.zeros(n_heads, d_head))
        self.b_O = nn.Parameter(torch.zeros(d_model))
        self.register_buffer("IGNORE", torch.tensor(-1e5))

    def apply_causal_mask(self, attn_scores):
        mask = torch.triu(torch.ones_like(attn_scores), diagonal=1).bool()
        attn_scores = attn_scores.masked_fill(mask, self.IGNORE)
        return attn_scores

    def forward(self, normalized_resid_pre):
        x = normalized_resid_pre
        q = torch.einsum("bpm,nmh->bpnh", x, self.W_Q) + self.b_Q
        k = torch.einsum("bpm,nmh->bpnh", x, self.W_K) + self.b_K
        v = torch.einsum("bpm,nmh->bpnh", x, self.W_V) + self.b_V
        attn_scores = torch.einsum("bqnh,bknh->bnqk", q, k)
        attn_scores = attn_scores / math.sqrt(self.d_head)
        pattern = self.apply_causal_mask(attn_scores).softmax(dim=-1)
        z = torch.einsum("bnqk,bknh->bqnh", pattern, v)
        return torch.einsum("bqnh,nhm->bqm", z, self.W_O) + self.b_O


def of_conv(conv):
    """Return a 1x1 convolution as a linear layer."""
    weight = conv.weight.detach().flatten(1)
    linear = nn.Linear(*reversed(weight.shape), dtype=weight.dtype)
    linear.weight, linear.bias = nn.Parameter(weight), nn.Parameter(conv.bias.detach())
    return linear


@foreign(
    "sagan_conv",
    "image",
    make=lambda Layer: Layer(16),
    sample=lambda: given(rand(2, 16, 2, 3)),
    expected=lambda m, x: (
        x
        + m.gamma.detach()
        * layer(
            x.flatten(2).mT, (*map(of_conv, (m.query_conv, m.key_conv, m.value_conv)), None), 1
        ).mT.unflatten(2, (2, 3))
    ),
    options={
        "call": lambda target, q, k, v, mask: target(q.mT.unsqueeze(-1)).squeeze(-1).mT,
        "embed_dim": 16,
    },
    convention=True,
)
class SelfAttention2d(nn.Module):
    """Attention over the places of an image: narrow queries and keys, a learned gate."""

    def __init__(self, in_channels):
        super().__init__()
        self.query_conv = nn.Conv2d(in_channels, in_channels // 4, kernel_size=1)
        self.key_conv = nn.Conv2d(in_channels, in_channels // 4, kernel_size=1)
        self.value_conv = nn.Conv2d(in_channels, in_channels, kernel_size=1)
        self.gamma = nn.Parameter(torch.full((1,), 0.5))
        self.softmax = nn.Softmax(dim=-1)

    def forward(self, x):
        batch, channels, height, width = x.size()
        places = height * width
        query = self.query_conv(x).view(batch, -1, places).permute(0, 2, 1)
        key = self.key_conv(x).view(batch, -1, places)
        value = self.value_conv(x).view(batch, -1, places).permute(0, 2, 1)
        energy = torch.bmm(query, key) / math.sqrt(key.size(1))
        attention = self.softmax(energy)
        out = torch.bmm(attention, value).permute(0, 2, 1)
        return self.gamma * out.view(batch, channels, height, width) + x


@foreign(
    "fairseq_first",
    "order of a layer",
    make=lambda Layer: Layer(24, 3),
    sample=lambda: given(
        rand(4, 2, 24), rand(6, 2, 24, seed=1), rand(6, 2, 24, seed=2), ~real(6, 4, size=6)
    ),
    expected=lambda m, q, k, v, mask: layer(
        tuple(x.transpose(0, 1) for x in (q, k, v)),
        (m.q_proj, m.k_proj, m.v_proj, m.out_proj),
        3,
        allowed=~mask[:, None, None],
    ).transpose(0, 1),
    options={"batch_first": False},
    convention=True,
)
class MultiheadAttention(nn.Module):
    """Time x Batch x Channel; key_padding_mask: (batch, src_len), True at padding."""

    def __init__(self, embed_dim, num_heads, dropout=0.0, bias=True):
        super().__init__()
        self.embed_dim, self.num_heads = embed_dim, num_heads
        self.dropout = dropout
        self.head_dim = embed_dim // num_heads
        self.scaling = self.head_dim**-0.5
        self.k_proj = nn.Linear(embed_dim, embed_dim, bias=bias)
        self.v_proj = nn.Linear(embed_dim, embed_dim, bias=bias)
        self.q_proj = nn.Linear(embed_dim, embed_dim, bias=bias)
        self.out_proj = nn.Linear(embed_dim, embed_dim, bias=bias)

    def forward(self, query, key, value, key_padding_mask=None):
        tgt_len, bsz, embed_dim = query.size()
        src_len = key.size(0)
        q = self.q_proj(query) * self.scaling
        k, v = self.k_proj(key), self.v_proj(value)
        heads = bsz * self.num_heads
        q = q.contiguous().view(tgt_len, heads, self.head_dim).transpose(0, 1)
        k = k.contiguous().view(-1, heads, self.head_dim).transpose(0, 1)
        v = v.contiguous().view(-1, heads, self.head_dim).transpose(0, 1)
        attn_weights = torch.bmm(q, k.transpose(1, 2))
        if key_padding_mask is not None:
            attn_weights = attn_weights.view(bsz, self.num_heads, tgt_len, src_len)
            attn_weights = attn_weights.masked_fill(
                key_padding_mask.unsqueeze(1).unsqueeze(2), float("-inf")
            )
            attn_weights = attn_weights.view(heads, tgt_len, src_len)
        attn_probs = F.softmax(attn_weights, dim=-1)
        attn_probs = F.dropout(attn_probs, p=self.dropout, training=self.training)
        attn = torch.bmm(attn_probs, v)
        attn = attn.transpose(0, 1).contiguous().view(tgt_len, bsz, embed_dim)
        return self.out_proj(attn), None


@foreign(
    "quarter_root",
    "scale of a layer",
    make=lambda Layer: Layer(24, 3),
    sample=lambda: given(rand(2, 4, 24), rand(2, 6, 24, seed=1)),
    expected=lambda m, x, xa: layer((x, xa, xa), (m.query, m.key, m.value, m.out), 3),
)
class AudioAttention(nn.Module):
    """Queries and keys are each scaled by the fourth root; the key has no bias."""

    def __init__(self, n_state, n_head):
        super().__init__()
        self.n_head = n_head
        self.query = nn.Linear(n_state, n_state)
        self.key = nn.Linear(n_state, n_state, bias=False)
        self.value = nn.Linear(n_state, n_state)
        self.out = nn.Linear(n_state, n_state)

    def forward(self, x, xa=None):
        q = self.query(x)
        k = self.key(x if xa is None else xa)
        v = self.value(x if xa is None else xa)
        return self.out(self.qkv_attention(q, k, v))

    def qkv_attention(self, q, k, v):
        n_state = q.shape[-1]
        scale = (n_state // self.n_head) ** -0.25
        q = q.view(*q.shape[:2], self.n_head, -1).permute(0, 2, 1, 3) * scale
        k = k.view(*k.shape[:2], self.n_head, -1).permute(0, 2, 3, 1) * scale
        v = v.view(*v.shape[:2], self.n_head, -1).permute(0, 2, 1, 3)
        w = F.softmax(q @ k, dim=-1)
        return (w @ v).permute(0, 2, 1, 3).flatten(start_dim=2)


class RMSNorm(nn.Module):
    def __init__(self, dim, eps=1e-6):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight


@foreign(
    "qk_norm",
    "gates and norms",
    beside=(RMSNorm,),
    make=lambda Layer: Layer(24, 3),
    sample=lambda: given(rand(2, 5, 24), some(5, 5)),
    expected=lambda m, x, mask: project(
        join(
            attend(
                normed(m.norm_q, cut(project(x, m.wq), 3)),
                normed(m.norm_k, cut(project(x, m.wk), 3)),
                cut(project(x, m.wv), 3),
                allowed=mask,
            )
        ),
        m.wo,
    ),
)
class NormedAttention(nn.Module):
    """Queries and keys pass an RMS norm; mask: (L, S), True = may attend."""

    def __init__(self, dim, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(dim, dim, bias=False) for _ in range(4))
        self.norm_q, self.norm_k = RMSNorm(dim // n_heads), RMSNorm(dim // n_heads)

    def forward(self, x, mask=None):
        n, t, _ = x.shape
        q = self.norm_q(self.wq(x).view(n, t, self.n_heads, -1)).transpose(1, 2)
        k = self.norm_k(self.wk(x).view(n, t, self.n_heads, -1)).transpose(1, 2)
        v = self.wv(x).view(n, t, self.n_heads, -1).transpose(1, 2)
        att = torch.einsum("bhqd,bhkd->bhqk", q, k).div(math.sqrt(q.shape[-1]))
        if mask is not None:
            att = att.masked_fill(mask == 0, float("-inf"))
        y = torch.einsum("bhqk,bhkd->bhqd", att.softmax(dim=-1), v)
        return self.wo(y.transpose(1, 2).reshape(n, t, -1))


@foreign(
    "bfloat16_layer",
    "precision of a layer",
    make=lambda Layer: Layer(24, 3).bfloat16(),
    sample=lambda: given(rand(2, 5, 24).bfloat16(), real(5, 3, size=5)),
    expected=lambda m, x, mask: layer(x, (m.wq, m.wk, m.wv, m.wo), 3, allowed=mask[:, None, None]),
    tolerance=0.03,
    double=False,
)
class HalfPrecisionAttention(nn.Module):
    """Kept in bfloat16; key_mask: (batch, length), True = token."""

    def __init__(self, dim, heads):
        super().__init__()
        self.heads, self.dim_head = heads, dim // heads
        self.wq = nn.Linear(dim, dim)
        self.wk = nn.Linear(dim, dim)
        self.wv = nn.Linear(dim, dim)
        self.wo = nn.Linear(dim, dim)

    def forward(self, x, key_mask=None):
        b, n, d = x.shape
        q = self.wq(x).view(b, n, self.heads, self.dim_head).transpose(1, 2)
        k = self.wk(x).view(b, n, self.heads, self.dim_head).transpose(1, 2)
        v = self.wv(x).view(b, n, self.heads, self.dim_head).transpose(1, 2)
        logits = torch.matmul(q, k.transpose(-1, -2)) * self.dim_head**-0.5
        if key_mask is not None:
            logits = logits.masked_fill(~key_mask[:, None, None], torch.finfo(logits.dtype).min)
        weights = torch.softmax(logits, dim=-1)
        out = torch.matmul(weights, v).transpose(1, 2).reshape(b, n, d)
        return self.wo(out)


@foreign(
    "dict_layer",
    "results of a layer",
    make=lambda Layer: Layer(24, 3),
    sample=lambda: given({"tokens": rand(2, 6, 24), "mask": real(6, 4, size=6)}),
    expected=lambda m, batch: layer(
        batch["tokens"],
        (m.proj["query"], m.proj["key"], m.proj["value"], m.proj["out"]),
        3,
        allowed=batch["mask"][:, None, None],
    ),
    options={
        "call": lambda target, q, k, v, mask: target({"tokens": q})["tokens"],
        "embed_dim": 24,
    },
    convention=True,
    spared=MASKS,
)
class DictionaryAttention(nn.Module):
    """Takes and returns a dictionary: "tokens" and, if there is padding, "mask"."""

    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.proj = nn.ModuleDict(
            {name: nn.Linear(dim, dim) for name in ("query", "key", "value", "out")}
        )

    def forward(self, batch):
        x, mask = batch["tokens"], batch.get("mask")
        q, k, v = (
            self.proj[name](x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for name in ("query", "key", "value")
        )
        scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
        if mask is not None:
            scores = scores.masked_fill(~mask[:, None, None, :], -torch.inf)
        weights = scores.softmax(dim=-1)
        out = (weights @ v).transpose(1, 2).flatten(2)
        return {**batch, "tokens": self.proj["out"](out), "weights": weights}
