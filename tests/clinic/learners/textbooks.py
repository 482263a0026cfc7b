"""Modules as textbooks and papers with code publish them."""

import copy
import math

import torch
import torch.nn.functional as F
from torch import nn

from tests.clinic.learners.base import broken, right


@right
class D2l(nn.Module):
    def __init__(self, num_hiddens=12, num_heads=3):
        super().__init__()
        self.num_heads = num_heads
        self.W_q = nn.LazyLinear(num_hiddens)
        self.W_k = nn.LazyLinear(num_hiddens)
        self.W_v = nn.LazyLinear(num_hiddens)
        self.W_o = nn.LazyLinear(num_hiddens)
        self.num_hiddens = num_hiddens

    rep = 1

    def t(self, X):
        return (
            X.reshape(X.shape[0], X.shape[1], self.num_heads, -1)
            .permute(0, 2, 1, 3)
            .reshape(-1, X.shape[1], self.num_hiddens // self.num_heads)
        )

    def forward(self, queries, keys, values, valid_lens=None):
        q, k, v = self.t(self.W_q(queries)), self.t(self.W_k(keys)), self.t(self.W_v(values))
        s = torch.bmm(q, k.transpose(1, 2)) / math.sqrt(q.shape[-1])
        if valid_lens is not None:
            vl = (
                torch.repeat_interleave(valid_lens, self.num_heads)
                if self.rep
                else valid_lens.repeat(self.num_heads)
            )
            m = torch.arange(s.shape[-1], device=s.device)[None] < vl[:, None]
            s = s.masked_fill(~m[:, None], -1e6)
        o = torch.bmm(s.softmax(-1), v)
        o = o.reshape(-1, self.num_heads, o.shape[1], o.shape[2]).permute(0, 2, 1, 3)
        return self.W_o(o.reshape(o.shape[0], o.shape[1], -1))


@broken("mask-broadcast")
class D2lB(D2l):
    rep = 0


@right
class MultiHeadedAttention(nn.Module):
    def __init__(self, h=3, d_model=12, dropout=0.1):
        super().__init__()
        self.d_k = d_model // h
        self.h = h
        self.linears = nn.ModuleList([copy.deepcopy(nn.Linear(d_model, d_model)) for _ in range(4)])
        self.attn = None
        self.dropout = nn.Dropout(dropout)

    dim = -1

    def forward(self, query, key, value, mask=None):
        if mask is not None:
            mask = mask.unsqueeze(1)
        n = query.size(0)
        q, k, v = [
            layer(x).view(n, -1, self.h, self.d_k).transpose(1, 2)
            for layer, x in zip(self.linears, (query, key, value), strict=False)
        ]
        s = torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(self.div())
        if mask is not None:
            s = s.masked_fill(mask == 0, -1e9)
        self.attn = self.dropout(s.softmax(self.dim))
        x = self.attn @ v
        return self.linears[-1](x.transpose(1, 2).contiguous().view(n, -1, self.h * self.d_k))

    def div(self):
        return self.d_k


@broken("scale-model")
class AT1(MultiHeadedAttention):
    def div(self):
        return self.h * self.d_k


@broken("softmax-axis")
class AT2(MultiHeadedAttention):
    dim = -2


@broken("softmax-axis")
class AT3(MultiHeadedAttention):
    dim = 1


@right
class BertSA(nn.Module):
    """attention_mask is additive: 0 for allowed, -inf for blocked."""

    def __init__(s):
        super().__init__()
        s.num_attention_heads = 3
        s.query = nn.Linear(12, 12)
        s.key = nn.Linear(12, 12)
        s.value = nn.Linear(12, 12)

    def forward(s, hidden_states, attention_mask=None, output_attentions=False):
        def sp(t):
            return t.view(*t.shape[:2], 3, 4).transpose(1, 2)

        sc = sp(s.query(hidden_states)) @ sp(s.key(hidden_states)).mT / 2
        if attention_mask is not None:
            sc = sc + attention_mask
        return ((sc.softmax(-1) @ sp(s.value(hidden_states))).transpose(1, 2).flatten(2),)


@right
class Bloem(nn.Module):
    def __init__(s, emb=12, heads=3):
        super().__init__()
        s.emb = emb
        s.heads = heads
        s.tokeys = nn.Linear(emb, emb, bias=False)
        s.toqueries = nn.Linear(emb, emb, bias=False)
        s.tovalues = nn.Linear(emb, emb, bias=False)
        s.unifyheads = nn.Linear(emb, emb)

    p = 0.25

    def forward(s, x):
        b, t, e = x.size()
        h = s.heads
        d = e // h
        k = s.tokeys(x).view(b, t, h, d).transpose(1, 2).contiguous().view(b * h, t, d)
        q = s.toqueries(x).view(b, t, h, d).transpose(1, 2).contiguous().view(b * h, t, d)
        v = s.tovalues(x).view(b, t, h, d).transpose(1, 2).contiguous().view(b * h, t, d)
        q = q / (e // h if s.p == 0.25 else e) ** 0.25
        k = k / (e // h if s.p == 0.25 else e) ** 0.25
        o = (
            torch.bmm(F.softmax(torch.bmm(q, k.transpose(1, 2)), dim=2), v)
            .view(b, h, t, d)
            .transpose(1, 2)
            .contiguous()
            .view(b, t, d * h)
        )
        return s.unifyheads(o)


@broken("scale-model")
class BloemE(Bloem):
    p = 1


class Wide(nn.Module):
    """wide: every head on full E"""

    def __init__(s, emb=6, heads=4):
        super().__init__()
        s.emb = emb
        s.heads = heads
        s.tokeys = nn.Linear(emb, emb * heads, bias=False)
        s.toqueries = nn.Linear(emb, emb * heads, bias=False)
        s.tovalues = nn.Linear(emb, emb * heads, bias=False)
        s.unifyheads = nn.Linear(emb * heads, emb)

    def forward(s, x):
        b, t, e = x.size()
        h = s.heads
        q, k, v = [
            f(x).view(b, t, h, e).transpose(1, 2) for f in (s.toqueries, s.tokeys, s.tovalues)
        ]
        return s.unifyheads(
            F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, t, -1)
        )


right(Wide)


class Ein(nn.Module):
    def __init__(s, E=10, H=2, d=5):
        super().__init__()
        s.E = E
        s.WQ = nn.Parameter(torch.randn(H, E, d) * 0.3)
        s.WK = nn.Parameter(torch.randn(H, E, d) * 0.3)
        s.WV = nn.Parameter(torch.randn(H, E, d) * 0.3)
        s.WO = nn.Parameter(torch.randn(H, d, E) * 0.3)
        s.d = d

    e = 0.5

    def forward(s, x):
        q = torch.einsum("ble,hed->bhld", x, s.WQ)
        k = torch.einsum("ble,hed->bhld", x, s.WK)
        v = torch.einsum("ble,hed->bhld", x, s.WV)
        return torch.einsum("bhld,hde->ble", (q @ k.mT / s.d**s.e).softmax(-1) @ v, s.WO)


right(Ein)


@broken("scale-d")
class EinD(Ein):
    e = 1


@broken("scale-missing")
class EinM(Ein):
    e = 0
