"""Layers of language models: causal ones, with positions, with a cache."""

# ruff: noqa: RUF005, RUF059  (written as others write)

import math
from dataclasses import dataclass
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
    project,
    rand,
    real,
    rotated,
    thirds,
)
from tests.clinic.panel.injection import MASKS

CONFIG = SimpleNamespace(n_embd=24, n_head=3, block_size=16, attn_pdrop=0.1, resid_pdrop=0.1)


# In the manner of minGPT (MIT, Andrej Karpathy): three linear layers, the key first.
@foreign(
    "mingpt",
    "gpt",
    make=lambda Layer: Layer(CONFIG),
    sample=lambda: given(rand(2, 6, 24)),
    expected=lambda m, x: layer(x, (m.query, m.key, m.value, m.proj), 3, allowed=causal(6)),
    options={"causal": True},
)
class CausalSelfAttention(nn.Module):
    """Masked multi-head self-attention with a projection at the end."""

    def __init__(self, config):
        super().__init__()
        assert config.n_embd % config.n_head == 0
        self.key = nn.Linear(config.n_embd, config.n_embd)
        self.query = nn.Linear(config.n_embd, config.n_embd)
        self.value = nn.Linear(config.n_embd, config.n_embd)
        self.attn_drop = nn.Dropout(config.attn_pdrop)
        self.resid_drop = nn.Dropout(config.resid_pdrop)
        self.proj = nn.Linear(config.n_embd, config.n_embd)
        size = config.block_size
        self.register_buffer("mask", torch.tril(torch.ones(size, size)).view(1, 1, size, size))
        self.n_head = config.n_head

    def forward(self, x, layer_past=None):
        B, T, C = x.size()
        k = self.key(x).view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        q = self.query(x).view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        v = self.value(x).view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        att = att.masked_fill(self.mask[:, :, :T, :T] == 0, float("-inf"))
        att = F.softmax(att, dim=-1)
        att = self.attn_drop(att)
        y = att @ v
        y = y.transpose(1, 2).contiguous().view(B, T, C)
        return self.resid_drop(self.proj(y))


class Conv1D(nn.Module):
    """A linear layer whose weight is (in, out)."""

    def __init__(self, nf, nx):
        super().__init__()
        self.nf = nf
        self.weight = nn.Parameter(torch.randn(nx, nf) * 0.2)
        self.bias = nn.Parameter(torch.randn(nf) * 0.1)

    def forward(self, x):
        size_out = (*x.size()[:-1], self.nf)
        x = torch.addmm(self.bias, x.reshape(-1, x.size(-1)), self.weight)
        return x.view(*size_out)


def of_conv1d(module):
    """Return the three thirds and the output of a GPT-2 layer as linear layers."""

    def linear(weight, bias):
        made = nn.Linear(*weight.shape, dtype=weight.dtype)
        made.weight, made.bias = nn.Parameter(weight.detach().T), nn.Parameter(bias.detach())
        return made

    pairs = zip(module.c_attn.weight.chunk(3, 1), module.c_attn.bias.chunk(3), strict=True)
    return (*(linear(*pair) for pair in pairs), linear(module.c_proj.weight, module.c_proj.bias))


@foreign(
    "gpt2_conv1d",
    "gpt",
    beside=(Conv1D,),
    make=lambda Layer: Layer(24, 4, n_positions=32),
    sample=lambda: given(rand(2, 6, 24), real(6, 4, size=6)),
    expected=lambda m, x, mask: layer(x, of_conv1d(m), 4, allowed=causal(6) & mask[:, None, None]),
    options={"causal": True},
)
class GPT2SelfAttention(nn.Module):
    def __init__(self, hidden_size, num_heads, n_positions=1024):
        super().__init__()
        mask = torch.tril(torch.ones((n_positions, n_positions), dtype=torch.bool))
        self.register_buffer("bias", mask.view(1, 1, n_positions, n_positions), persistent=False)
        self.embed_dim = hidden_size
        self.num_heads = num_heads
        self.split_size = hidden_size
        self.c_attn = Conv1D(3 * hidden_size, hidden_size)
        self.c_proj = Conv1D(hidden_size, hidden_size)
        self.attn_dropout = nn.Dropout(0.1)

    def _split_heads(self, tensor):
        new_shape = tensor.size()[:-1] + (self.num_heads, self.embed_dim // self.num_heads)
        return tensor.view(new_shape).permute(0, 2, 1, 3)

    def _merge_heads(self, tensor):
        tensor = tensor.permute(0, 2, 1, 3).contiguous()
        return tensor.view(tensor.size()[:-2] + (self.embed_dim,))

    def _attn(self, query, key, value, attention_mask=None):
        attn_weights = torch.matmul(query, key.transpose(-1, -2))
        attn_weights = attn_weights / value.size(-1) ** 0.5
        length = query.size(-2)
        causal_mask = self.bias[:, :, :length, :length]
        mask_value = torch.finfo(attn_weights.dtype).min
        attn_weights = torch.where(causal_mask, attn_weights, mask_value)
        if attention_mask is not None:
            kept = attention_mask[:, None, None, :].to(torch.bool)
            attn_weights = attn_weights.masked_fill(~kept, mask_value)
        attn_weights = self.attn_dropout(nn.functional.softmax(attn_weights, dim=-1))
        return torch.matmul(attn_weights, value), attn_weights

    def forward(self, hidden_states, attention_mask=None):
        query, key, value = self.c_attn(hidden_states).split(self.split_size, dim=2)
        query, key, value = map(self._split_heads, (query, key, value))
        attn_output, attn_weights = self._attn(query, key, value, attention_mask)
        return self.c_proj(self._merge_heads(attn_output)), attn_weights


class Head(nn.Module):
    """One head of causal self-attention."""

    def __init__(self, n_embd, head_size, block_size, dropout):
        super().__init__()
        self.key = nn.Linear(n_embd, head_size, bias=False)
        self.query = nn.Linear(n_embd, head_size, bias=False)
        self.value = nn.Linear(n_embd, head_size, bias=False)
        self.register_buffer("tril", torch.tril(torch.ones(block_size, block_size)))
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        B, T, C = x.shape
        k = self.key(x)
        q = self.query(x)
        wei = q @ k.transpose(-2, -1) * k.shape[-1] ** -0.5
        wei = wei.masked_fill(self.tril[:T, :T] == 0, float("-inf"))
        wei = F.softmax(wei, dim=-1)
        wei = self.dropout(wei)
        v = self.value(x)
        return wei @ v


@foreign(
    "karpathy_heads",
    "heads in a list",
    beside=(Head,),
    make=lambda Layer: Layer(4, 6, n_embd=24),
    sample=lambda: given(rand(2, 6, 24)),
    expected=lambda m, x: project(
        torch.cat(
            [
                attend(
                    *(project(x, part) for part in (head.query, head.key, head.value)),
                    allowed=causal(6),
                )
                for head in m.heads
            ],
            dim=-1,
        ),
        m.proj,
    ),
    options={"causal": True},
)
class MultiHeadAttention(nn.Module):
    """Several heads of self-attention side by side."""

    def __init__(self, num_heads, head_size, n_embd=32, block_size=64, dropout=0.0):
        super().__init__()
        self.heads = nn.ModuleList(
            [Head(n_embd, head_size, block_size, dropout) for _ in range(num_heads)]
        )
        self.proj = nn.Linear(head_size * num_heads, n_embd)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        out = torch.cat([h(x) for h in self.heads], dim=-1)
        return self.dropout(self.proj(out))


def precompute_freqs_cis(dim, end, theta=10000.0):
    freqs = 1.0 / (theta ** (torch.arange(0, dim, 2)[: (dim // 2)].float() / dim))
    angles = torch.outer(torch.arange(end).float(), freqs)
    return torch.polar(torch.ones_like(angles), angles)


def apply_rotary_emb(xq, xk, freqs_cis):
    """Turn neighbouring features as complex numbers; (batch, length, heads, head_dim)."""
    xq_ = torch.view_as_complex(xq.float().reshape(*xq.shape[:-1], -1, 2))
    xk_ = torch.view_as_complex(xk.float().reshape(*xk.shape[:-1], -1, 2))
    freqs_cis = freqs_cis[: xq.shape[1]].view(1, xq.shape[1], 1, -1)
    xq_out = torch.view_as_real(xq_ * freqs_cis).flatten(3)
    xk_out = torch.view_as_real(xk_ * freqs_cis).flatten(3)
    return xq_out.type_as(xq), xk_out.type_as(xk)


@foreign(
    "complex_rope",
    "llama",
    beside=(precompute_freqs_cis, apply_rotary_emb),
    make=lambda Layer: Layer(32, 4, n_kv_heads=2),
    sample=lambda: given(rand(2, 5, 32)),
    expected=lambda m, x: layer(
        x,
        (m.wq, m.wk, m.wv, m.wo),
        4,
        kv_heads=2,
        turn=lambda t: rotated(t, halves=False),
        allowed=causal(5),
    ),
    options={"causal": True},
    tolerance=1e-5,
)
class Attention(nn.Module):
    """Grouped-query attention of a Llama with rotary positions, as complex numbers."""

    def __init__(self, dim, n_heads, n_kv_heads=None, max_seq_len=64):
        super().__init__()
        self.n_kv_heads = n_heads if n_kv_heads is None else n_kv_heads
        self.n_local_heads = n_heads
        self.n_rep = n_heads // self.n_kv_heads
        self.head_dim = dim // n_heads
        self.wq = nn.Linear(dim, n_heads * self.head_dim, bias=False)
        self.wk = nn.Linear(dim, self.n_kv_heads * self.head_dim, bias=False)
        self.wv = nn.Linear(dim, self.n_kv_heads * self.head_dim, bias=False)
        self.wo = nn.Linear(n_heads * self.head_dim, dim, bias=False)
        freqs_cis = precompute_freqs_cis(self.head_dim, max_seq_len)
        self.register_buffer("freqs_cis", freqs_cis, persistent=False)

    def repeat_kv(self, x):
        bs, slen, heads, head_dim = x.shape
        x = x[:, :, :, None, :].expand(bs, slen, heads, self.n_rep, head_dim)
        return x.reshape(bs, slen, heads * self.n_rep, head_dim)

    def forward(self, x):
        bsz, seqlen, _ = x.shape
        xq, xk, xv = self.wq(x), self.wk(x), self.wv(x)
        xq = xq.view(bsz, seqlen, self.n_local_heads, self.head_dim)
        xk = xk.view(bsz, seqlen, self.n_kv_heads, self.head_dim)
        xv = xv.view(bsz, seqlen, self.n_kv_heads, self.head_dim)
        xq, xk = apply_rotary_emb(xq, xk, self.freqs_cis)
        keys, values = self.repeat_kv(xk), self.repeat_kv(xv)
        xq = xq.transpose(1, 2)
        keys = keys.transpose(1, 2)
        values = values.transpose(1, 2)
        scores = torch.matmul(xq, keys.transpose(2, 3)) / math.sqrt(self.head_dim)
        mask = torch.full((seqlen, seqlen), float("-inf"), device=x.device)
        mask = torch.triu(mask, diagonal=1)
        scores = scores + mask.type_as(scores)
        scores = F.softmax(scores.float(), dim=-1).type_as(xq)
        output = torch.matmul(scores, values)
        output = output.transpose(1, 2).contiguous().view(bsz, seqlen, -1)
        return self.wo(output)


def bias_of_distances(table, L):
    """Return (H, L, L): the entry of each distance, at most 3 to either side."""
    rows = [[table[min(max(j - i, -3), 3) + 3] for j in range(L)] for i in range(L)]
    return torch.stack([torch.stack(row) for row in rows]).permute(2, 0, 1)


@foreign(
    "t5_relative",
    "bias on the scores",
    make=lambda Layer: Layer(24, 8, 3),
    sample=lambda: given(rand(2, 6, 24), real(6, 4, size=6)),
    expected=lambda m, x, mask: layer(
        x,
        (m.q, m.k, m.v, m.o),
        3,
        scale=1.0,
        bias=bias_of_distances(m.relative_attention_bias.weight, 6),
        allowed=mask[:, None, None],
    ),
)
class T5Attention(nn.Module):
    """No factor on the scores (it is in the initial weights), and a learned bias per distance."""

    def __init__(self, d_model, d_kv, num_heads, max_distance=3):
        super().__init__()
        self.inner_dim = num_heads * d_kv
        self.n_heads, self.key_value_proj_dim = num_heads, d_kv
        self.max_distance = max_distance
        self.q = nn.Linear(d_model, self.inner_dim, bias=False)
        self.k = nn.Linear(d_model, self.inner_dim, bias=False)
        self.v = nn.Linear(d_model, self.inner_dim, bias=False)
        self.o = nn.Linear(self.inner_dim, d_model, bias=False)
        self.relative_attention_bias = nn.Embedding(2 * max_distance + 1, num_heads)

    def compute_bias(self, length, device):
        context = torch.arange(length, device=device)[:, None]
        memory = torch.arange(length, device=device)[None, :]
        bucket = (memory - context).clamp(-self.max_distance, self.max_distance)
        values = self.relative_attention_bias(bucket + self.max_distance)
        return values.permute(2, 0, 1).unsqueeze(0)

    def forward(self, hidden_states, mask=None):
        """mask: (batch, length), 1 for a token and 0 for padding."""
        batch_size, length = hidden_states.shape[:2]
        shape = (batch_size, -1, self.n_heads, self.key_value_proj_dim)
        query = self.q(hidden_states).view(shape).transpose(1, 2)
        key = self.k(hidden_states).view(shape).transpose(1, 2)
        value = self.v(hidden_states).view(shape).transpose(1, 2)
        scores = torch.matmul(query, key.transpose(3, 2))
        scores = scores + self.compute_bias(length, scores.device)
        if mask is not None:
            scores = scores.masked_fill(mask[:, None, None, :] == 0, -1e9)
        weights = nn.functional.softmax(scores, dim=-1)
        context = torch.matmul(weights, value)
        context = context.transpose(1, 2).contiguous().view(batch_size, -1, self.inner_dim)
        return self.o(context)


@foreign(
    "past_layer",
    "cache",
    make=lambda Layer: Layer(24, 3),
    sample=lambda: given(rand(2, 4, 24), past=(rand(2, 3, 2, 8, seed=8), rand(2, 3, 2, 8, seed=9))),
    expected=lambda m, x, past: project(
        join(
            attend(
                cut(project(x, thirds(m.qkv)[0]), 3),
                torch.cat([past[0], cut(project(x, thirds(m.qkv)[1]), 3)], dim=2),
                torch.cat([past[1], cut(project(x, thirds(m.qkv)[2]), 3)], dim=2),
                allowed=causal(4, 6),
            )
        ),
        m.out,
    ),
    options={"causal": True},
)
class CachedSelfAttention(nn.Module):
    """Causal self-attention; past is (key, value) of the earlier tokens and comes back longer."""

    def __init__(self, n_state, n_head):
        super().__init__()
        self.n_head = n_head
        self.qkv = nn.Linear(n_state, 3 * n_state)
        self.out = nn.Linear(n_state, n_state)

    def split_heads(self, x):
        return x.unflatten(-1, (self.n_head, -1)).transpose(1, 2)

    def forward(self, x, past=None):
        q, k, v = (self.split_heads(part) for part in self.qkv(x).chunk(3, dim=-1))
        if past is not None:
            past_key, past_value = past
            k = torch.cat([past_key, k], dim=-2)
            v = torch.cat([past_value, v], dim=-2)
        present = (k, v)
        w = q @ k.transpose(-1, -2)
        w = w / math.sqrt(k.size(-1))
        nd, ns = w.size(-2), w.size(-1)
        allowed = torch.ones(nd, ns, device=x.device, dtype=torch.bool).tril(diagonal=ns - nd)
        w = w.masked_fill(~allowed, float("-inf"))
        a = w.softmax(dim=-1) @ v
        a = a.transpose(1, 2).flatten(2)
        return self.out(a), present


@dataclass
class AttentionOutput:
    hidden_states: torch.Tensor
    attentions: torch.Tensor | None = None


@foreign(
    "dataclass_layer",
    "results of a layer",
    make=lambda Layer: Layer(24, 3),
    sample=lambda: given(rand(2, 6, 24), attention_mask=real(6, 4, size=6)),
    expected=lambda m, x, attention_mask: layer(
        x, (m.q_proj, m.k_proj, m.v_proj, m.out_proj), 3, allowed=attention_mask[:, None, None]
    ),
    options={"call": lambda target, q, k, v, mask: target(q).hidden_states},
    spared=MASKS,
    convention=True,
)
class EncoderSelfAttention(nn.Module):
    """Returns an AttentionOutput; attention_mask is (batch, length) with True for tokens."""

    def __init__(self, hidden_size, num_heads):
        super().__init__()
        self.num_heads, self.head_dim = num_heads, hidden_size // num_heads
        self.scaling = self.head_dim**-0.5
        self.q_proj = nn.Linear(hidden_size, hidden_size)
        self.k_proj = nn.Linear(hidden_size, hidden_size)
        self.v_proj = nn.Linear(hidden_size, hidden_size)
        self.out_proj = nn.Linear(hidden_size, hidden_size)

    def forward(self, hidden_states, attention_mask=None, output_attentions=False):
        input_shape = hidden_states.shape[:-1]
        hidden_shape = (*input_shape, -1, self.head_dim)
        queries = self.q_proj(hidden_states).view(hidden_shape).transpose(1, 2)
        keys = self.k_proj(hidden_states).view(hidden_shape).transpose(1, 2)
        values = self.v_proj(hidden_states).view(hidden_shape).transpose(1, 2)
        logits = torch.matmul(queries, keys.mT) * self.scaling
        if attention_mask is not None:
            logits = logits.masked_fill(~attention_mask[:, None, None, :], float("-inf"))
        attn = torch.softmax(logits, dim=-1, dtype=logits.dtype)
        context = torch.matmul(attn, values)
        context = context.transpose(1, 2).reshape(*input_shape, -1).contiguous()
        return AttentionOutput(self.out_proj(context), attn if output_attentions else None)


@foreign(
    "causal_and_padding",
    "two masks",
    make=lambda Layer: Layer(n_heads=3, d_model=24),
    sample=lambda: given(rand(2, 6, 24), real(6, 4, size=6)),
    expected=lambda m, x, mask: layer(
        x, (m.w_q, m.w_k, m.w_v, m.w_o), 3, allowed=causal(6) & mask[:, None, None]
    ),
    options={"causal": True},
    spared=("mask inverted",),  # many take True for padding
)
class MaskedSelfAttention(nn.Module):
    """Self-attention of a decoder: no later token, and no padding.

    pad_mask: (batch, length), True for real tokens.
    """

    def __init__(self, n_heads, d_model, dropout=0.1):
        super().__init__()
        self.n_heads = n_heads
        self.d_head = d_model // n_heads
        self.w_q, self.w_k, self.w_v = (nn.Linear(d_model, d_model, bias=False) for _ in range(3))
        self.w_o = nn.Linear(d_model, d_model, bias=False)
        self.dropout = dropout

    def heads_of(self, x):
        return x.reshape(x.shape[0], x.shape[1], self.n_heads, self.d_head).permute(0, 2, 1, 3)

    def forward(self, x, pad_mask=None):
        q, k, v = self.heads_of(self.w_q(x)), self.heads_of(self.w_k(x)), self.heads_of(self.w_v(x))
        scores = q.matmul(k.transpose(-1, -2)) / self.d_head**0.5
        length = x.shape[1]
        subsequent = torch.triu(
            torch.ones(length, length, dtype=torch.bool, device=x.device), diagonal=1
        )
        scores = scores.masked_fill(subsequent, -1e9)
        if pad_mask is not None:
            scores = scores.masked_fill(~pad_mask[:, None, None, :], -1e9)
        weights = F.dropout(scores.softmax(-1), self.dropout, training=self.training)
        merged = weights.matmul(v).permute(0, 2, 1, 3).reshape(x.shape)
        return self.w_o(merged)
