"""Layers of language models: causal ones, with positions, with a cache."""

import math
from types import SimpleNamespace

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
    near,
    parts_of,
    project,
    rand,
    real,
    rotated,
    thirds,
)

CONFIG = SimpleNamespace(n_embd=24, n_head=3, block_size=16, dropout=0.1, bias=False)


# In the manner of nanoGPT (MIT, Andrej Karpathy), with the fused kernel of torch.
@foreign(
    "nanogpt",
    "gpt",
    make=lambda Layer: Layer(CONFIG),
    sample=lambda: given(rand(2, 6, 24)),
    expected=lambda m, x: layer(x, (*thirds(m.c_attn), m.c_proj), 3, allowed=causal(6)),
    options={"causal": True},
)
class CausalSelfAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.c_attn = nn.Linear(config.n_embd, 3 * config.n_embd, bias=config.bias)
        self.c_proj = nn.Linear(config.n_embd, config.n_embd, bias=config.bias)
        self.resid_dropout = nn.Dropout(config.dropout)
        self.n_head, self.n_embd, self.dropout = config.n_head, config.n_embd, config.dropout

    def forward(self, x):
        B, T, C = x.size()
        q, k, v = self.c_attn(x).split(self.n_embd, dim=2)
        k = k.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        q = q.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        v = v.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        y = F.scaled_dot_product_attention(
            q, k, v, dropout_p=self.dropout if self.training else 0.0, is_causal=True
        )
        y = y.transpose(1, 2).contiguous().view(B, T, C)
        return self.resid_dropout(self.c_proj(y))


# In the manner of Build a Large Language Model (Apache-2.0, Sebastian Raschka).
@foreign(
    "raschka_buffer",
    "gpt",
    make=lambda Layer: Layer(20, 24, context_length=16, dropout=0.1, num_heads=3),
    sample=lambda: given(rand(2, 6, 20)),
    expected=lambda m, x: layer(
        x, (m.W_query, m.W_key, m.W_value, m.out_proj), 3, allowed=causal(6)
    ),
    options={"causal": True},
)
class MultiHeadAttention(nn.Module):
    """Heads by view, the mask filled in place with the part above the diagonal."""

    def __init__(self, d_in, d_out, context_length, dropout, num_heads, qkv_bias=False):
        super().__init__()
        self.d_out, self.num_heads = d_out, num_heads
        self.head_dim = d_out // num_heads
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.out_proj = nn.Linear(d_out, d_out)
        self.dropout = nn.Dropout(dropout)
        self.register_buffer(
            "mask", torch.triu(torch.ones(context_length, context_length), diagonal=1)
        )

    def forward(self, x):
        b, num_tokens, _ = x.shape
        keys, queries, values = self.W_key(x), self.W_query(x), self.W_value(x)
        keys = keys.view(b, num_tokens, self.num_heads, self.head_dim)
        values = values.view(b, num_tokens, self.num_heads, self.head_dim)
        queries = queries.view(b, num_tokens, self.num_heads, self.head_dim)
        keys = keys.transpose(1, 2)
        queries = queries.transpose(1, 2)
        values = values.transpose(1, 2)
        attn_scores = queries @ keys.transpose(2, 3)
        mask_bool = self.mask.bool()[:num_tokens, :num_tokens]
        attn_scores.masked_fill_(mask_bool, -torch.inf)
        attn_weights = torch.softmax(attn_scores / keys.shape[-1] ** 0.5, dim=-1)
        attn_weights = self.dropout(attn_weights)
        context_vec = (attn_weights @ values).transpose(1, 2)
        context_vec = context_vec.reshape(b, num_tokens, self.d_out)
        return self.out_proj(context_vec)


@foreign(
    "head_dict",
    "heads in a list",
    make=lambda Layer: Layer(24, ["syntax", "topic", "place"], 8),
    sample=lambda: given(rand(2, 5, 24), real(5, 3, size=5)),
    expected=lambda m, x, mask: project(
        torch.cat(
            [
                attend(*(project(x, head[part]) for part in "qkv"), allowed=mask[:, None])
                for head in m.heads.values()
            ],
            dim=-1,
        ),
        m.combine,
    ),
)
class NamedHeads(nn.Module):
    """Every head is a dictionary of three linear layers; mask: (batch, length), True = token."""

    def __init__(self, width, names, head_width):
        super().__init__()
        self.head_width = head_width
        self.heads = nn.ModuleDict()
        for name in names:
            self.heads[name] = nn.ModuleDict(
                {part: nn.Linear(width, head_width, bias=False) for part in "qkv"}
            )
        self.combine = nn.Linear(head_width * len(names), width)

    def forward(self, x, mask=None):
        results = []
        for head in self.heads.values():
            q, k, v = head["q"](x), head["k"](x), head["v"](x)
            scores = torch.bmm(q, k.transpose(1, 2)) / math.sqrt(self.head_width)
            if mask is not None:
                scores = scores.masked_fill(~mask.unsqueeze(1), -torch.inf)
            results.append(torch.bmm(torch.softmax(scores, dim=-1), v))
        return self.combine(torch.cat(results, dim=-1))


def rotate_half(x):
    half = x.shape[-1] // 2
    return torch.cat((-x[..., half:], x[..., :half]), dim=-1)


def repeat_kv(hidden_states, n_rep):
    batch, num_kv, slen, head_dim = hidden_states.shape
    hidden_states = hidden_states[:, :, None].expand(batch, num_kv, n_rep, slen, head_dim)
    return hidden_states.reshape(batch, num_kv * n_rep, slen, head_dim)


@foreign(
    "llama_half",
    "llama",
    beside=(rotate_half, repeat_kv),
    make=lambda Layer: Layer(32, 4, 2),
    sample=lambda: given(
        rand(2, 5, 32), torch.where(causal(5) & real(5, 3, size=5)[:, None, None], 0.0, -1e30)
    ),
    expected=lambda m, x, mask: layer(
        x,
        (m.q_proj, m.k_proj, m.v_proj, m.o_proj),
        4,
        kv_heads=2,
        turn=lambda t: rotated(t, halves=True),
        allowed=mask == 0,
    ),
    options={"mask": "additive"},
    convention=True,
    tolerance=1e-5,
)
class LlamaAttention(nn.Module):
    """Rotary positions by halves, fewer key heads, softmax in float32, additive mask."""

    def __init__(self, hidden_size, num_heads, num_key_value_heads, rope_theta=10000.0):
        super().__init__()
        self.num_heads, self.num_key_value_heads = num_heads, num_key_value_heads
        self.head_dim = hidden_size // num_heads
        self.num_key_value_groups = num_heads // num_key_value_heads
        self.q_proj = nn.Linear(hidden_size, num_heads * self.head_dim, bias=False)
        self.k_proj = nn.Linear(hidden_size, num_key_value_heads * self.head_dim, bias=False)
        self.v_proj = nn.Linear(hidden_size, num_key_value_heads * self.head_dim, bias=False)
        self.o_proj = nn.Linear(num_heads * self.head_dim, hidden_size, bias=False)
        steps = torch.arange(0, self.head_dim, 2).float() / self.head_dim
        self.register_buffer("inv_freq", 1.0 / rope_theta**steps, persistent=False)

    def forward(self, hidden_states, attention_mask=None):
        bsz, q_len, _ = hidden_states.size()
        query_states = self.q_proj(hidden_states)
        key_states = self.k_proj(hidden_states)
        value_states = self.v_proj(hidden_states)
        query_states = query_states.view(bsz, q_len, self.num_heads, self.head_dim)
        query_states = query_states.transpose(1, 2)
        key_states = key_states.view(bsz, q_len, self.num_key_value_heads, self.head_dim)
        key_states = key_states.transpose(1, 2)
        value_states = value_states.view(bsz, q_len, self.num_key_value_heads, self.head_dim)
        value_states = value_states.transpose(1, 2)
        position_ids = torch.arange(q_len, device=hidden_states.device).to(self.inv_freq.dtype)
        freqs = torch.outer(position_ids, self.inv_freq)
        emb = torch.cat((freqs, freqs), dim=-1).to(hidden_states.dtype)
        cos, sin = emb.cos(), emb.sin()
        query_states = query_states * cos + rotate_half(query_states) * sin
        key_states = key_states * cos + rotate_half(key_states) * sin
        key_states = repeat_kv(key_states, self.num_key_value_groups)
        value_states = repeat_kv(value_states, self.num_key_value_groups)
        attn_weights = torch.matmul(query_states, key_states.transpose(2, 3))
        attn_weights = attn_weights / math.sqrt(self.head_dim)
        if attention_mask is not None:
            attn_weights = attn_weights + attention_mask
        attn_weights = F.softmax(attn_weights, dim=-1, dtype=torch.float32)
        attn_weights = attn_weights.to(query_states.dtype)
        attn_output = torch.matmul(attn_weights, value_states)
        attn_output = attn_output.transpose(1, 2).contiguous()
        attn_output = attn_output.reshape(bsz, q_len, -1)
        return self.o_proj(attn_output), attn_weights


@foreign(
    "gqa_layer",
    "llama",
    make=lambda Layer: Layer(32, 4, 2),
    sample=lambda: given(rand(2, 5, 32)),
    expected=lambda m, x: layer(
        x, (m.q, *parts_of(m.kv, 2), m.o), 4, kv_heads=2, allowed=causal(5)
    ),
    options={"causal": True},
)
class GroupedQueryAttention(nn.Module):
    """Groups of query heads share a head of keys; no key is repeated in memory."""

    def __init__(self, dim, heads, kv_heads):
        super().__init__()
        self.heads, self.kv_heads, self.d_head = heads, kv_heads, dim // heads
        self.q = nn.Linear(dim, dim, bias=False)
        self.kv = nn.Linear(dim, 2 * kv_heads * self.d_head, bias=False)
        self.o = nn.Linear(dim, dim, bias=False)

    def forward(self, x):
        b, t, c = x.shape
        groups = self.heads // self.kv_heads
        q = self.q(x).view(b, t, self.kv_heads, groups, self.d_head)
        k, v = self.kv(x).view(b, t, 2, self.kv_heads, self.d_head).unbind(dim=2)
        logits = torch.einsum("btkgd,bskd->bkgts", q, k) * self.d_head**-0.5
        visible = torch.tril(torch.ones(t, t, dtype=torch.bool, device=x.device))
        logits = logits.masked_fill(~visible, torch.finfo(logits.dtype).min)
        probs = torch.softmax(logits, dim=-1)
        out = torch.einsum("bkgts,bskd->btkgd", probs, v)
        return self.o(out.reshape(b, t, c))


@foreign(
    "alibi_layer",
    "bias on the scores",
    make=lambda Layer: Layer(24, 3),
    sample=lambda: given(rand(2, 5, 24), real(5, 3, size=5)),
    expected=lambda m, x, mask: layer(
        x,
        (*thirds(m.qkv_proj), m.o_proj),
        3,
        allowed=mask[:, None, None],
        bias=torch.stack(
            [
                -(2.0 ** -(h + 1)) * (torch.arange(5)[:, None] - torch.arange(5)).abs().double()
                for h in range(3)
            ]
        ),
    ),
)
class AlibiSelfAttention(nn.Module):
    """Not causal; a penalty that grows with the distance. mask: (batch, length), 1 = token."""

    def __init__(self, embed_dim, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.qkv_proj = nn.Linear(embed_dim, 3 * embed_dim)
        self.o_proj = nn.Linear(embed_dim, embed_dim)
        self.register_buffer("slopes", 0.5 ** torch.arange(1, n_heads + 1)[:, None, None])

    def forward(self, x, mask=None):
        n, t, e = x.size()
        q, k, v = self.qkv_proj(x).chunk(3, dim=-1)
        q = q.reshape(n, t, self.n_heads, -1).permute(0, 2, 1, 3)
        k = k.reshape(n, t, self.n_heads, -1).permute(0, 2, 1, 3)
        v = v.reshape(n, t, self.n_heads, -1).permute(0, 2, 1, 3)
        place = torch.arange(t, device=x.device)
        penalty = (place[None, :] - place[:, None]).abs() * self.slopes
        scores = q @ k.transpose(-1, -2) / (e // self.n_heads) ** 0.5 - penalty
        if mask is not None:
            scores = scores.masked_fill(mask.view(n, 1, 1, t) == 0, float("-inf"))
        y = torch.softmax(scores, dim=-1) @ v
        return self.o_proj(y.permute(0, 2, 1, 3).reshape(n, t, e))


@foreign(
    "mistral_window",
    "window layer",
    make=lambda Layer: Layer(32, 4, window=2),
    sample=lambda: given(rand(2, 6, 32)),
    expected=lambda m, x: layer(x, (m.wq, m.wk, m.wv, m.wo), 4, allowed=near(6, 1)),
    options={"causal": True},
)
class SlidingWindowAttention(nn.Module):
    """Causal, and at most the last window tokens, itself among them."""

    def __init__(self, dim, n_heads, window=4096):
        super().__init__()
        self.n_heads, self.head_dim, self.window = n_heads, dim // n_heads, window
        self.scale = self.head_dim**-0.5
        self.wq = nn.Linear(dim, dim, bias=False)
        self.wk = nn.Linear(dim, dim, bias=False)
        self.wv = nn.Linear(dim, dim, bias=False)
        self.wo = nn.Linear(dim, dim, bias=False)

    def forward(self, x):
        batch, seqlen, dim = x.shape
        shape = (batch, seqlen, self.n_heads, self.head_dim)
        xq, xk, xv = self.wq(x).view(shape), self.wk(x).view(shape), self.wv(x).view(shape)
        xq, xk, xv = xq.transpose(1, 2), xk.transpose(1, 2), xv.transpose(1, 2)
        tensor = torch.full((seqlen, seqlen), fill_value=1.0, device=x.device, dtype=x.dtype)
        mask = torch.tril(tensor, diagonal=0)
        mask = torch.triu(mask, diagonal=1 - self.window)
        mask = torch.log(mask)
        scores = torch.matmul(xq, xk.transpose(2, 3)) * self.scale
        scores = scores + mask[None, None]
        scores = F.softmax(scores, dim=-1)
        output = torch.matmul(scores, xv).transpose(1, 2).reshape(batch, seqlen, dim)
        return self.wo(output)


@foreign(
    "window_cache",
    "cache",
    make=lambda Layer: Layer(24, 3, window=3),
    sample=lambda: given(rand(2, 4, 24), cache=rand(2, 2, 2, 3, 8, seed=8)),
    expected=lambda m, x, cache: project(
        join(
            attend(
                cut(project(x, thirds(m.qkv)[0]), 3),
                torch.cat([cache[0].transpose(1, 2), cut(project(x, thirds(m.qkv)[1]), 3)], dim=2),
                torch.cat([cache[1].transpose(1, 2), cut(project(x, thirds(m.qkv)[2]), 3)], dim=2),
                allowed=near(6, 2)[2:],
            )
        ),
        m.proj,
    ),
    options={"causal": True},
)
class RollingCacheAttention(nn.Module):
    """A local causal layer for one piece of a text after the other.

    cache: (2, batch, earlier tokens, heads, head_dim), which comes back cut to the window.
    """

    def __init__(self, d_model, n_heads, window):
        super().__init__()
        self.n_heads, self.window = n_heads, window
        self.qkv = nn.Linear(d_model, 3 * d_model)
        self.proj = nn.Linear(d_model, d_model)

    def forward(self, x, cache=None):
        B, T, D = x.shape
        hd = D // self.n_heads
        q, k, v = self.qkv(x).reshape(B, T, 3, self.n_heads, hd).unbind(2)
        if cache is not None:
            k = torch.cat([cache[0], k], dim=1)
            v = torch.cat([cache[1], v], dim=1)
        new_cache = torch.stack([k, v])[:, :, -self.window :]
        cached = k.shape[1] - T
        att = torch.einsum("bthd,bshd->bhts", q, k) / math.sqrt(hd)
        row = torch.arange(cached, cached + T, device=x.device)[:, None]
        column = torch.arange(cached + T, device=x.device)[None, :]
        local = (column <= row) & (column > row - self.window)
        att = att.masked_fill(~local, float("-inf"))
        att = F.softmax(att, dim=-1)
        out = torch.einsum("bhts,bshd->bthd", att, v)
        return self.proj(out.reshape(B, T, D)), new_cache


@foreign(
    "mask_and_padding",
    "two masks",
    make=lambda Layer: Layer(24, 3),
    sample=lambda: given(
        *(rand(2, 6, 24, seed=s) for s in range(3)),
        attn_mask=~causal(6),
        key_padding_mask=~real(6, 4, size=6),
    ),
    expected=lambda m, q, k, v, attn_mask, key_padding_mask: layer(
        (q, k, v),
        (m.q_lin, m.k_lin, m.v_lin, m.out_lin),
        3,
        allowed=~attn_mask & ~key_padding_mask[:, None, None],
    ),
    options={"mask": "blocked"},
    convention=True,
)
class TwoMaskAttention(nn.Module):
    """Like nn.MultiheadAttention: True in attn_mask (L, S) or key_padding_mask (N, S) blocks."""

    def __init__(self, dim, n_heads, dropout=0.1):
        super().__init__()
        self.dim, self.n_heads = dim, n_heads
        self.dropout = nn.Dropout(p=dropout)
        self.q_lin = nn.Linear(dim, dim)
        self.k_lin = nn.Linear(dim, dim)
        self.v_lin = nn.Linear(dim, dim)
        self.out_lin = nn.Linear(dim, dim)

    def forward(self, query, key, value, attn_mask=None, key_padding_mask=None):
        bs = query.size(0)
        dim_per_head = self.dim // self.n_heads

        def shape(x):
            return x.view(bs, -1, self.n_heads, dim_per_head).transpose(1, 2)

        def unshape(x):
            return x.transpose(1, 2).contiguous().view(bs, -1, self.n_heads * dim_per_head)

        q, k, v = shape(self.q_lin(query)), shape(self.k_lin(key)), shape(self.v_lin(value))
        scores = torch.matmul(q / math.sqrt(dim_per_head), k.transpose(2, 3))
        if attn_mask is not None:
            scores = scores.masked_fill(attn_mask, float("-inf"))
        if key_padding_mask is not None:
            scores = scores.masked_fill(key_padding_mask[:, None, None, :], float("-inf"))
        weights = self.dropout(torch.softmax(scores, dim=-1))
        context = unshape(torch.matmul(weights, v))
        return self.out_lin(context), weights
