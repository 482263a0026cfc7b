"""Attention layers as other people write them."""

# ruff: noqa: RUF005, RUF059  (written as others write)

import copy
import math
from types import SimpleNamespace

import torch
import torch.nn.functional as F
from torch import nn

from tests.clinic.by_others.case import foreign


def clones(module, N):
    return nn.ModuleList([copy.deepcopy(module) for _ in range(N)])


@foreign("cloned_linears", make=lambda Layer: Layer(3, 24))
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


@foreign("bert_self", mask="additive")
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


@foreign("decoder_memory")
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


@foreign("class_token_pool")
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


@foreign("stacked_three")
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


CONFIG = SimpleNamespace(n_embd=24, n_head=3, block_size=16, attn_pdrop=0.1, resid_pdrop=0.1)


# In the manner of minGPT (MIT, Andrej Karpathy): three linear layers, the key first.
@foreign("mingpt", make=lambda Layer: Layer(CONFIG), causal=True)
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


@foreign("gpt2_conv1d", make=lambda Layer: Layer(24, 4, n_positions=32), causal=True)
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


@foreign("karpathy_heads", make=lambda Layer: Layer(4, 6, n_embd=24), causal=True)
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


@foreign("complex_rope", make=lambda Layer: Layer(32, 4, n_kv_heads=2), causal=True)
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


@foreign("t5_relative", make=lambda Layer: Layer(24, 8, 3))
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


@foreign("past_layer", causal=True)
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


@foreign("softmax_over_heads_by_view", cause=("attends-over-heads", "head-mixing"))
class HeadsBehindTokens(nn.Module):
    def __init__(self, dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)

    def forward(self, x):
        n, length, dim = x.shape
        q, k, v = self.qkv(x).view(n, length, 3, self.num_heads, -1).unbind(2)
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        weights = torch.softmax(scores, dim=-1)
        return self.out((weights @ v).reshape(n, length, dim))
