"""More attention layers as other people write them."""

import math
from types import SimpleNamespace

import torch
import torch.nn.functional as F
from torch import nn

from tests.clinic.by_others.case import foreign


@foreign("tokeys_unify", make=lambda Layer: Layer(24, heads=3))
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


@foreign("bert_residual")
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


@foreign("timm_unbind", make=lambda Layer: Layer(24, num_heads=3, qkv_bias=True, qk_norm=True))
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


@foreign("fused_kv", make=lambda Layer: Layer(24, heads=3, dim_head=6))
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


@foreign("fairseq_first", batch_first=False)
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


@foreign("bfloat16_layer", make=lambda Layer: Layer(24, 3).bfloat16())
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


CONFIG = SimpleNamespace(n_embd=24, n_head=3, block_size=16, dropout=0.1, bias=False)


# In the manner of nanoGPT (MIT, Andrej Karpathy), with the fused kernel of torch.
@foreign("nanogpt", make=lambda Layer: Layer(CONFIG), causal=True)
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
    make=lambda Layer: Layer(20, 24, context_length=16, dropout=0.1, num_heads=3),
    causal=True,
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


@foreign("gqa_layer", make=lambda Layer: Layer(32, 4, 2), causal=True)
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


@foreign("mistral_window", make=lambda Layer: Layer(32, 4, window=2), causal=True)
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


@foreign("mask_and_padding", mask="blocked")
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


@foreign("second_mask_starts_again", cause=("mask-ignored", "mask-leak"))
class SecondMaskWins(nn.Module):
    """padding_mask: (N, S), attn_mask: (L, S); True = may attend."""

    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x, padding_mask=None, attn_mask=None):
        q, k, v = (
            part.unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for part in self.qkv(x).chunk(3, dim=-1)
        )
        raw = q @ k.mT / math.sqrt(q.shape[-1])
        scores = raw
        if padding_mask is not None:
            scores = raw.masked_fill(~padding_mask[:, None, None], -torch.inf)
        if attn_mask is not None:
            scores = raw.masked_fill(~attn_mask, -torch.inf)
        return self.out((scores.softmax(dim=-1) @ v).transpose(1, 2).flatten(2))
