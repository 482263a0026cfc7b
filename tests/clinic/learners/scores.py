"""Scores with every factor, a softmax along every axis, and where q, k and v come from."""

import math

import torch
import torch.nn.functional as F
from torch import nn

from tests.clinic.learners.base import Base, broken, right
from tests.clinic.learners.heads import Causal


@broken("scale-missing")
class K1(Base):
    def score(self, q, k):
        return q @ k.mT


@broken("scale-d")
class K2(Base):
    def score(self, q, k):
        return q @ k.mT / self.head_dim


@broken("scale-model")
class K3(Base):
    def score(self, q, k):
        return q @ k.mT / math.sqrt(self.embed_dim)


@broken("scale-inverse")
class K4(Base):
    def score(self, q, k):
        return q @ k.mT * math.sqrt(self.head_dim)


@broken("scale-quarter")
class K5(Base):
    def score(self, q, k):
        return q @ k.mT * self.head_dim**-0.25


@broken("scale-constant")
class K6(Base):
    def score(self, q, k):
        return q @ k.mT / 8


@broken("scale-length")
class K7(Base):
    def score(self, q, k):
        return q @ k.mT / math.sqrt(k.shape[-2])


@broken("scale-other")
class K8(Base):
    def score(self, q, k):
        return q @ k.mT / 3.3


@broken("scale-missing")
class K9(Causal):
    def score(self, q, k):
        return q @ k.mT


@broken("softmax-axis")
class X1(Base):
    def soft(self, s):
        return s.softmax(-2)


@broken("softmax-axis")
class X2(Base):
    def soft(self, s):
        return s.softmax(1)


@broken("softmax-axis")
class X2c(Causal):
    def soft(self, s):
        return s.softmax(-2).nan_to_num()


@broken("not-normalised")
class X3(Base):
    def soft(self, s):
        return s


@broken("not-normalised")
class X4(Base):
    def soft(self, s):
        return s.sigmoid()


@broken("softmax-axis")
class X5(Base):
    def soft(self, s):
        return s.softmax(0)


@broken("heads-shared")
class Sh1(Base):
    def __init__(s):
        super().__init__()
        d = s.head_dim
        s.q_proj, s.k_proj, s.v_proj = nn.Linear(12, d), nn.Linear(12, d), nn.Linear(12, d)

    def split(self, x):
        return x[:, None].expand(-1, self.num_heads, -1, -1)


class OneHead(nn.Module):
    def __init__(s, e, d):
        super().__init__()
        s.query = nn.Linear(e, d, bias=False)
        s.key = nn.Linear(e, d, bias=False)
        s.value = nn.Linear(e, d, bias=False)

    def forward(s, x):
        q, k, v = s.query(x), s.key(x), s.value(x)
        return (q @ k.mT * k.shape[-1] ** -0.5).softmax(-1) @ v


@broken("heads-shared")
class Sh2(nn.Module):
    def __init__(s, n_embd=12, n_head=3):
        super().__init__()
        s.n_embd = n_embd
        s.heads = nn.ModuleList([OneHead(n_embd, n_embd // n_head)] * n_head)
        s.proj = nn.Linear(n_embd, n_embd)

    def forward(s, x):
        return s.proj(torch.cat([h(x) for h in s.heads], -1))


@right
class R_list(Sh2):
    def __init__(s):
        super().__init__()
        s.heads = nn.ModuleList([OneHead(12, 4) for _ in range(3)])


@right
class R_list_noproj(R_list):
    def __init__(s):
        super().__init__()
        del s.proj

    def forward(s, x):
        return torch.cat([h(x) for h in s.heads], -1)


@broken("heads-from-input")
class HI(Base):
    def __init__(s):
        super().__init__()
        d = s.head_dim
        s.q_proj, s.k_proj, s.v_proj = nn.Linear(d, d), nn.Linear(d, d), nn.Linear(d, d)

    def forward(self, x):
        xs = self.split(x)
        return self.out_proj(
            self.merge(self.attend(self.q_proj(xs), self.k_proj(xs), self.v_proj(xs), None))
        )


@right
class R_qkv(nn.Module):
    def __init__(s, d_model=12, h=3):
        super().__init__()
        s.d_model = d_model
        s.h = h
        s.qkv = nn.Linear(d_model, 3 * d_model)
        s.o = nn.Linear(d_model, d_model)

    def forward(s, x):
        n, length, e = x.shape
        q, k, v = s.qkv(x).view(n, length, s.h, -1).transpose(1, 2).chunk(3, -1)
        return s.o(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(n, length, e))


@right
class R_qkv2(R_qkv):
    def forward(s, x):
        n, length, e = x.shape
        q, k, v = s.qkv(x).view(n, length, 3, s.h, e // s.h).permute(2, 0, 3, 1, 4)
        return s.o(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(n, length, e))


@broken("scale-model")
class K_qkv(R_qkv):
    def forward(s, x):
        n, length, e = x.shape
        q, k, v = s.qkv(x).view(n, length, 3, s.h, e // s.h).permute(2, 0, 3, 1, 4)
        return s.o(
            ((q @ k.mT) / math.sqrt(e)).softmax(-1).matmul(v).transpose(1, 2).reshape(n, length, e)
        )


@right
class R_mqa(Base):
    def __init__(s):
        super().__init__()
        s.k_proj, s.v_proj = nn.Linear(12, 4), nn.Linear(12, 4)

    def split(self, x):
        return x[:, None] if x.shape[-1] == 4 else super().split(x)


@right
class R_param(nn.Module):
    def __init__(s, d_in=8, d_out=4):
        super().__init__()
        s.W_query = nn.Parameter(torch.rand(d_in, d_out))
        s.W_key = nn.Parameter(torch.rand(d_in, d_out))
        s.W_value = nn.Parameter(torch.rand(d_in, d_out))

    def sc(s, q, k):
        return q @ k.mT / k.shape[-1] ** 0.5

    def forward(s, x):
        q, k, v = x @ s.W_query, x @ s.W_key, x @ s.W_value
        return torch.softmax(s.sc(q, k), -1) @ v


@broken("scale-missing")
class K_param(R_param):
    def sc(s, q, k):
        return q @ k.mT


@broken("softmax-axis")
class X_param(R_param):
    def forward(s, x):
        q, k, v = x @ s.W_query, x @ s.W_key, x @ s.W_value
        return torch.softmax(s.sc(q, k), 1) @ v


@right
class R_2d(R_param):
    def forward(s, x):
        q, k, v = x @ s.W_query, x @ s.W_key, x @ s.W_value
        assert x.ndim == 2
        return torch.softmax(q @ k.T / k.shape[-1] ** 0.5, -1) @ v
