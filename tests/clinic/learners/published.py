"""Modules as courses and small language models publish them."""

import math

import torch
import torch.nn.functional as F
from torch import nn

from tests.clinic.learners.base import BROKEN, broken, right


class Persson(nn.Module):
    def __init__(self, embed_size=12, heads=3):
        super().__init__()
        self.embed_size = embed_size
        self.heads = heads
        self.head_dim = embed_size // heads
        self.values = nn.Linear(embed_size, embed_size)
        self.keys = nn.Linear(embed_size, embed_size)
        self.queries = nn.Linear(embed_size, embed_size)
        self.fc_out = nn.Linear(embed_size, embed_size)

    s_dim = 1

    def forward(self, values, keys, query, mask):
        N = query.shape[0]
        vl, kl, ql = values.shape[1], keys.shape[1], query.shape[1]
        v = self.values(values).reshape(N, vl, self.heads, self.head_dim)
        k = self.keys(keys).reshape(N, kl, self.heads, self.head_dim)
        q = self.queries(query).reshape(N, ql, self.heads, self.head_dim)
        e = torch.einsum("nqhd,nkhd->nhqk", [q, k])
        if mask is not None:
            e = e.masked_fill(mask == 0, float("-1e20"))
        a = torch.softmax(e / ((self.embed_size if self.s_dim else self.head_dim) ** 0.5), dim=3)
        return self.fc_out(
            torch.einsum("nhql,nlhd->nqhd", [a, v]).reshape(N, ql, self.heads * self.head_dim)
        )


BROKEN.append(("scale-model", Persson, {}))


@right
class PerssonR(Persson):
    s_dim = 0


class Raschka(nn.Module):
    def __init__(self, d_in=3, d_out=4, context_length=6, dropout=0.1, num_heads=2, qkv_bias=False):
        super().__init__()
        self.d_out = d_out
        self.num_heads = num_heads
        self.head_dim = d_out // num_heads
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.out_proj = nn.Linear(d_out, d_out)
        self.dropout = nn.Dropout(dropout)
        self.register_buffer(
            "mask", torch.triu(torch.ones(context_length, context_length), diagonal=self.diag)
        )

    diag = 1
    merge = 0

    def forward(self, x):
        b, t, _d = x.shape
        k = self.W_key(x).view(b, t, self.num_heads, self.head_dim).transpose(1, 2)
        q = self.W_query(x).view(b, t, self.num_heads, self.head_dim).transpose(1, 2)
        v = self.W_value(x).view(b, t, self.num_heads, self.head_dim).transpose(1, 2)
        s = q @ k.transpose(2, 3)
        s.masked_fill_(self.mask.bool()[:t, :t], -torch.inf)
        w = self.dropout(torch.softmax(s / k.shape[-1] ** 0.5, dim=-1))
        c = w @ v
        c = c.transpose(1, 2) if not self.merge else c
        return self.out_proj(c.contiguous().view(b, t, self.d_out))


right(Raschka)


@broken("causal-off-by-one")
class Ra2(Raschka):
    diag = 2


@broken("causal-off-by-one")
class Ra0(Raschka):
    diag = 0


@broken("merge-without-transpose")
class RaM(Raschka):
    merge = 1


class CausalSelfAttention(nn.Module):
    def __init__(self, n_embd=16, n_head=4, block=8):
        super().__init__()
        self.c_attn = nn.Linear(n_embd, 3 * n_embd)
        self.c_proj = nn.Linear(n_embd, n_embd)
        self.n_head = n_head
        self.n_embd = n_embd
        self.attn_dropout = nn.Dropout(0.1)
        self.resid_dropout = nn.Dropout(0.1)
        self.register_buffer("bias", torch.tril(torch.ones(block, block)).view(1, 1, block, block))

    def sc(self, k):
        return 1 / math.sqrt(k.size(-1))

    def fin(self, y, B, T, C):
        return y.transpose(1, 2).contiguous().view(B, T, C)

    fill = float("-inf")

    def forward(self, x):
        B, T, C = x.size()
        q, k, v = self.c_attn(x).split(self.n_embd, dim=2)
        k = k.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        q = q.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        v = v.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        att = (q @ k.transpose(-2, -1)) * self.sc(k)
        att = att.masked_fill(self.bias[:, :, :T, :T] == 0, self.fill)
        att = F.softmax(att, dim=-1)
        att = self.attn_dropout(att)
        return self.resid_dropout(self.c_proj(self.fin(att @ v, B, T, C)))


right(CausalSelfAttention)


@broken("scale-model")
class G1(CausalSelfAttention):
    def sc(self, k):
        return self.n_embd**-0.5


@broken("merge-without-transpose")
class G2(CausalSelfAttention):
    def fin(self, y, B, T, C):
        return y.contiguous().view(B, T, C)


@broken("mask-finite")
class G3(CausalSelfAttention):
    fill = -7.0


@broken("mask-multiplied")
class G4(CausalSelfAttention):
    fill = 0.0


@broken("random")
class G5(CausalSelfAttention):
    def fin(self, y, B, T, C):
        return super().fin(F.dropout(y, 0.1), B, T, C)


@right
class Head(nn.Module):
    def __init__(s, n=12, hs=5):
        super().__init__()
        s.key = nn.Linear(n, hs, bias=False)
        s.query = nn.Linear(n, hs, bias=False)
        s.value = nn.Linear(n, hs, bias=False)
        s.register_buffer("tril", torch.tril(torch.ones(8, 8)))

    d = None

    def forward(s, x):
        _B, T, C = x.shape
        k = s.key(x)
        q = s.query(x)
        wei = q @ k.transpose(-2, -1) * (C if s.d else k.shape[-1]) ** -0.5
        wei = F.softmax(wei.masked_fill(s.tril[:T, :T] == 0, float("-inf")), dim=-1)
        return wei @ s.value(x)


@broken("scale-model")
class HeadC(Head):
    d = 1
