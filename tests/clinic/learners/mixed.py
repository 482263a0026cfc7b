"""Mistakes that mix several others, and plain functions."""

import math

import torch
import torch.nn.functional as F
from torch import nn

from attnlab.modules import MultiHeadAttention, SelfAttention
from tests.clinic.learners.base import BROKEN, RIGHT, Base, broken, right
from tests.clinic.learners.heads import Causal
from tests.clinic.learners.masked import Pad, Tri


@broken("causal-off-by-one")
class C2n(Causal):
    diagonal = -1


@broken("causal-eval")
class CEv(Causal):
    def attend(s, q, k, v, m):
        return F.scaled_dot_product_attention(q, k, v, is_causal=s.training)


@broken("split-and-merge")
class NH(Base):
    def forward(s, x):
        n, length, e = x.shape
        q, k, v = [
            f(x).reshape(n * s.num_heads, length, s.head_dim)
            for f in (s.q_proj, s.k_proj, s.v_proj)
        ]
        return s.out_proj(((q @ k.mT) / 2).softmax(-1).bmm(v).view(n, length, e))


@broken("merge-without-transpose")
class NH2(Base):
    def merge(s, x):
        return x.reshape(-1, *x.shape[-2:]).view(x.shape[0], x.shape[2], -1)


@broken("heads-from-input")
class HI2(Base):
    def __init__(s):
        super().__init__()
        s.qs = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))
        s.ks = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))
        s.vs = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))

    def forward(s, x):
        return s.out_proj(
            torch.cat(
                [
                    F.scaled_dot_product_attention(q(c), k(c), v(c))
                    for c, q, k, v in zip(x.chunk(3, -1), s.qs, s.ks, s.vs, strict=False)
                ],
                -1,
            )
        )


@broken("softmax-axis")
class SH(Tri):
    def soft(s, x):
        return x.softmax(1)


@broken("scale-missing")
class ST(Tri):
    def score(s, q, k):
        return q @ k.mT


@broken("attends-over-heads")
class AH(nn.Module):
    def __init__(s):
        super().__init__()
        s.num_heads = 3
        s.qkv = nn.Linear(12, 36)
        s.o = nn.Linear(12, 12)

    def forward(s, x):
        q, k, v = s.qkv(x).unflatten(-1, (3, 3, 4)).unbind(-3)
        return s.o(F.scaled_dot_product_attention(q, k, v).flatten(-2))


@broken("mask-transposed")
class TM(Tri):
    def hide(s, sc, m):
        return sc if m is None else sc.masked_fill(~m.mT, -1e9)


@broken("position-mixing")
class PM(Base):
    def merge(s, x):
        return super().merge(x).flip(1)


@broken("mask-after-softmax")
class PAS(Pad):
    def attend(s, q, k, v, m):
        w = s.score(q, k).softmax(-1)
        return (w if m is None else w.masked_fill(~m, 0)) @ v


@broken("scale-missing")
class ResK(Base):
    def __init__(s):
        super().__init__()
        s.norm = nn.LayerNorm(12)

    def score(s, q, k):
        return q @ k.mT

    def forward(s, x):
        return x + super().forward(s.norm(x))


@right
class Fake(nn.Module):
    def __init__(s):
        super().__init__()
        s.lin = nn.Linear(5, 5)

    def forward(s, x):
        return s.lin(x) + x.mean(1, keepdim=True)


def f_right(x):
    return torch.softmax(x @ x.transpose(-2, -1) / math.sqrt(x.shape[-1]), -1) @ x


def f_scale(x):
    return torch.softmax(x @ x.transpose(-2, -1), -1) @ x


def f_axis(x):
    return torch.softmax(x @ x.transpose(-2, -1) / math.sqrt(x.shape[-1]), -2) @ x


def f_batch(x):
    return torch.softmax(torch.einsum("nld,mld->lnm", x, x), -1) @ x.transpose(0, 1)


W = torch.randn(7, 7)


def f_w(x):
    q = x @ W
    return torch.softmax(q @ x.transpose(-2, -1) / math.sqrt(7), -1) @ x


def f_causal(x):
    s = x @ x.transpose(-2, -1) / math.sqrt(x.shape[-1])
    return (
        s.masked_fill(torch.ones(x.shape[-2], x.shape[-2]).triu(1) == 1, -torch.inf).softmax(-1) @ x
    )


RIGHT += [((lambda f=f: f), {}) for f in (f_right, f_w, f_causal)]
BROKEN += [
    ("scale-missing", lambda: f_scale, {}),
    ("softmax-axis", lambda: f_axis, {}),
    ("batch-mixing", lambda: f_batch, {}),
]

RIGHT += [
    (lambda: MultiHeadAttention(12, 3), {}),
    (lambda: SelfAttention(8, 4), {}),
    (lambda: nn.MultiheadAttention(12, 3), {}),
    (lambda: nn.MultiheadAttention(12, 3, batch_first=True), {"strict": False}),
    (lambda: nn.TransformerEncoderLayer(12, 3, 16, batch_first=True), {}),
]
