"""The probes for modules: broken ones are named by their cause, right ones are not accused."""

import copy
import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from attnlab.clinic._chart import Chart, Options
from attnlab.clinic.layers.examination import examine_module
from attnlab.modules import MultiHeadAttention, SelfAttention


class Base(nn.Module):
    """A right multi-head self-attention whose steps subclasses replace."""

    def __init__(self, embed_dim=12, num_heads=3, bias=True, dropout=0.0):
        super().__init__()
        self.embed_dim, self.num_heads, self.head_dim = embed_dim, num_heads, embed_dim // num_heads
        self.q_proj = nn.Linear(embed_dim, embed_dim, bias=bias)
        self.k_proj = nn.Linear(embed_dim, embed_dim, bias=bias)
        self.v_proj = nn.Linear(embed_dim, embed_dim, bias=bias)
        self.out_proj = nn.Linear(embed_dim, embed_dim, bias=bias)
        self.drop = nn.Dropout(dropout)

    def split(self, x):
        n, length, _ = x.shape
        return x.view(n, length, self.num_heads, self.head_dim).transpose(1, 2)

    def merge(self, x):
        n, h, length, d = x.shape
        return x.transpose(1, 2).reshape(n, length, h * d)

    def score(self, q, k):
        return q @ k.transpose(-2, -1) / math.sqrt(self.head_dim)

    def hide(self, s, mask):
        return s if mask is None else s.masked_fill(~mask, float("-inf"))

    def soft(self, s):
        return s.softmax(-1)

    def forward(self, x):
        return self.out_proj(
            self.merge(
                self.attend(
                    self.split(self.q_proj(x)),
                    self.split(self.k_proj(x)),
                    self.split(self.v_proj(x)),
                    None,
                )
            )
        )

    def attend(self, q, k, v, mask):
        return self.drop(self.soft(self.hide(self.score(q, k), mask))) @ v


BROKEN, RIGHT = [], []


def broken(name, **o):
    def deco(cls):
        BROKEN.append((name, cls, o))
        return cls

    return deco


def right(cls=None, **o):
    def deco(cls):
        RIGHT.append((cls, o))
        return cls

    return deco(cls) if cls else deco


right(Base)


@right
class E64(Base):
    def __init__(s):
        super().__init__(64, 8)


@right
class H1(Base):
    def __init__(s):
        super().__init__(10, 1)


@right
class H2(Base):
    def __init__(s):
        super().__init__(8, 2, bias=False)


@right
class Drop(Base):
    def __init__(s):
        super().__init__(12, 3, dropout=0.3)


@broken("split-without-transpose")
class S1(Base):
    def split(self, x):
        return x.view(x.shape[0], self.num_heads, x.shape[1], self.head_dim)


@broken("merge-without-transpose")
class S2(Base):
    def merge(self, x):
        return x.reshape(x.shape[0], x.shape[2], -1)


@broken("split-and-merge")
class S3(S1):
    def merge(self, x):
        return x.reshape(x.shape[0], x.shape[2], -1)


@broken("split-and-merge")
class S3b(S3):
    def __init__(s):
        super().__init__(64, 8)


@broken("split-without-transpose")
class S1b(S1):
    def __init__(s):
        super().__init__(64, 8)


@broken("merge-without-transpose")
class S2b(S2):
    def __init__(s):
        super().__init__(64, 8)


@broken("split-and-merge")
class S3c(S3):
    def __init__(s):
        super().__init__(8, 2)


@broken("attends-over-heads")
class S4(Base):
    def split(self, x):
        return x.view(*x.shape[:2], self.num_heads, self.head_dim)

    def merge(self, x):
        return x.flatten(2)


class Pos:
    def __init__(self):
        super().__init__()
        self.pos_emb = nn.Parameter(torch.randn(20, 12))

    def forward(self, x):
        return super().forward(x + self.pos_emb[: x.shape[1]])


@right
class R_pos(Pos, Base):
    pass


@broken("split-without-transpose")
class S1p(Pos, S1):
    pass


@broken("merge-without-transpose")
class S2p(Pos, S2):
    pass


class Causal(Base):
    diagonal = 0

    def __init__(self, *a):
        super().__init__(*a)
        self.register_buffer("tril", torch.ones(30, 30).tril(self.diagonal))

    def attend(self, q, k, v, mask):
        length = q.shape[-2]
        return super().attend(q, k, v, self.tril[:length, :length] == 1)


right(Causal)


@right
class CausalDrop(Causal):
    def __init__(self):
        super().__init__(12, 3, True, 0.2)


@broken("split-without-transpose")
class CS1(S1, Causal):
    pass


@broken("merge-without-transpose")
class CS2(S2, Causal):
    pass


@broken("split-and-merge")
class CS3(S3, Causal):
    pass


@broken("causal-off-by-one")
class C1(Causal):
    diagonal = 1


@broken("causal-off-by-one")
class C2(Causal):
    diagonal = -1

    def soft(self, s):
        return s.softmax(-1).nan_to_num()


@broken("causal-flipped")
class C3(Causal):
    def hide(self, s, m):
        return super().hide(s, m.mT)


@broken("causal-missing")
class CausalMissing(Base):
    pass


@broken("causal-missing")
class C4(Causal):
    def hide(self, s, m):
        s.masked_fill(~m, -1e9)
        return s


@broken("causal-eval")
class CausalEval(Causal):
    def hide(self, s, m):
        return super().hide(s, m) if self.training else s


@broken("mask-after-softmax")
class C5(Causal):
    def attend(self, q, k, v, mask):
        w = self.score(q, k).softmax(-1)
        length = q.shape[-2]
        return (w * self.tril[:length, :length]) @ v


@broken("mask-finite")
class C6(Causal):
    def hide(self, s, m):
        return s.masked_fill(~m, -5)


@broken("mask-finite")
class C6b(Causal):
    def hide(self, s, m):
        return s.masked_fill(~m, 1e-9)


@broken("mask-multiplied")
class C7(Causal):
    def hide(self, s, m):
        return s * m


@broken("mask-added")
class C8(Causal):
    def hide(self, s, m):
        return s + m


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


@right
class R_res(Base):
    def __init__(s):
        super().__init__()
        s.norm = nn.LayerNorm(12)
        s.ff = nn.Sequential(nn.Linear(12, 24), nn.GELU(), nn.Linear(24, 12))

    def forward(s, x):
        x = x + super().forward(s.norm(x))
        return x + s.ff(x)


@right
class R_rope(Base):
    def score(self, q, k):
        length, d = q.shape[-2:]
        t = torch.arange(length, device=q.device)[:, None] * 0.3 ** torch.arange(
            d // 2, device=q.device
        )
        c, s = t.cos().to(q.dtype), t.sin().to(q.dtype)

        def rot(z):
            return torch.cat(
                [
                    z[..., : d // 2] * c - z[..., d // 2 :] * s,
                    z[..., : d // 2] * s + z[..., d // 2 :] * c,
                ],
                -1,
            )

        return super().score(rot(q), rot(k))


@right
class R_rel(Base):
    def __init__(s):
        super().__init__()
        s.rel_bias = nn.Parameter(torch.randn(3, 41))

    def score(self, q, k):
        length = q.shape[-2]
        i = torch.arange(length, device=q.device)
        return super().score(q, k) + self.rel_bias[:, i[:, None] - i + 20]


@right
class R_alibi(Causal):
    def score(self, q, k):
        length = q.shape[-2]
        i = torch.arange(length, device=q.device)
        return (
            super().score(q, k)
            + (i - i[:, None]) * torch.tensor([0.5, 0.25, 0.125], device=q.device)[:, None, None]
        )


@right
class R_fused(Causal):
    def attend(self, q, k, v, m):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)


@right
class R_prescaled(Base):
    def score(self, q, k):
        return (q * self.head_dim**-0.25) @ (k * self.head_dim**-0.25).mT


@right
class R_weights(Base):
    def attend(self, q, k, v, m):
        self.w = self.soft(self.score(q, k))
        return self.w @ v

    def forward(self, x):
        y = super().forward(x)
        return y, self.w


@right
class R_weights_mean(R_weights):
    def forward(self, x):
        y, w = super().forward(x)
        return w.mean(1), y


@broken("softmax-axis")
class XW(R_weights):
    def soft(self, s):
        return s.softmax(-2)


@broken("weights-differ")
class WD(R_weights):
    def forward(self, x):
        y, w = super().forward(x)
        return y, w.mT


@broken("weights-differ")
class WD2(R_weights):
    def attend(self, q, k, v, m):
        self.w = self.score(q, k)
        return self.soft(self.w) @ v


# ---- masks
class Masked(Base):
    def forward(self, x, mask=None):
        return self.out_proj(
            self.merge(
                self.attend(
                    self.split(self.q_proj(x)),
                    self.split(self.k_proj(x)),
                    self.split(self.v_proj(x)),
                    mask,
                )
            )
        )


right(Masked)


@right
class M_fill(Masked):
    def hide(s, sc, m):
        return sc if m is None else sc.masked_fill(m == 0, -1e9)


@broken("mask-inverted")
class M1(Masked):
    def hide(s, sc, m):
        return sc if m is None else sc.masked_fill(m, float("-inf"))


right(mask="blocked")(M1)


@broken("mask-ignored")
class M2(Masked):
    def hide(s, sc, m):
        return sc


@broken("mask-transposed")
class M3(Masked):
    def hide(s, sc, m):
        return sc if m is None else sc.masked_fill(~m.transpose(-2, -1), float("-inf"))


@broken("mask-added")
class M4(Masked):
    def hide(s, sc, m):
        return sc if m is None else sc + m


right(mask="additive")(M4)


@broken("mask-multiplied")
class M5(Masked):
    def hide(s, sc, m):
        return sc if m is None else sc * m


@broken("mask-multiplied")
class M6(Masked):
    def hide(s, sc, m):
        return sc if m is None else sc.masked_fill(~m, 0.0)


@broken("mask-finite")
class M7(Masked):
    def hide(s, sc, m):
        return sc if m is None else sc.masked_fill(~m, -4.0)


@broken("mask-after-softmax")
class M8(Masked):
    def attend(s, q, k, v, m):
        w = s.score(q, k).softmax(-1)
        return (w if m is None else w * m) @ v


class Pad(Masked):
    def forward(self, x, mask=None):
        return super().forward(x, None if mask is None else mask[:, None, None, :])


right(Pad)


@broken("mask-queries")
class P1(Masked):
    def forward(self, x, mask=None):
        return super().forward(x, None if mask is None else mask[:, None, :, None])

    def hide(s, sc, m):
        return sc if m is None else sc.masked_fill(~m, -1e9)


@broken("mask-queries")
class P1b(Masked):
    def forward(self, x, mask=None):
        y = super().forward(x)
        return y if mask is None else y * mask[..., None]


@broken("mask-inverted")
class P2(Pad):
    def hide(s, sc, m):
        return sc if m is None else sc.masked_fill(m, -1e9)


@broken("mask-ignored")
class P3(Pad):
    def hide(s, sc, m):
        return sc


@broken("mask-broadcast")
class P4(Masked):
    def forward(self, x, key_padding_mask=None):
        return super().forward(
            x, None if key_padding_mask is None else ~key_padding_mask[:, None, :]
        )


@broken("mask-broadcast")
class P5(Masked):
    def forward(self, x, mask=None):
        if mask is not None:
            mask = mask.repeat(self.num_heads, 1).view(len(x), self.num_heads, 1, -1)
        return super().forward(x, mask)


@broken("mask-finite")
class P6(Pad):
    def hide(s, sc, m):
        return sc if m is None else sc.masked_fill(~m, -10.0)


@right
class P7(Masked):
    def forward(self, x, key_padding_mask=None):
        return super().forward(
            x, None if key_padding_mask is None else ~key_padding_mask[:, None, None, :]
        )


@right
class P8(Masked):
    def forward(self, x, lengths=None):
        m = (
            None
            if lengths is None
            else (torch.arange(x.shape[1], device=x.device) < lengths[:, None])[:, None, None]
        )
        return super().forward(x, m)


@right
class P9(Masked):
    def forward(self, x, attention_mask):
        return super().forward(x, (attention_mask[:, None, None, :] == 1))


@right
class PBoth(Masked):
    def forward(self, x, mask=None):
        return super().forward(
            x, None if mask is None else (mask[:, None, None, :] & mask[:, None, :, None])
        )

    def hide(s, sc, m):
        return sc if m is None else sc.masked_fill(~m, -1e9)


@right
class CMasked(Causal):
    def forward(self, x, mask=None):
        self.m = None if mask is None else mask[:, None, None, :]
        y = super().forward(x)
        self.m = None
        return y

    def attend(s, q, k, v, m):
        length = q.shape[-2]
        t = s.tril[:length, :length] == 1
        return super(Causal, s).attend(q, k, v, t if s.m is None else t & s.m)


# ---- triples
class Tri(Base):
    def forward(self, query, key, value, mask=None):
        return self.out_proj(
            self.merge(
                self.attend(
                    self.split(self.q_proj(query)),
                    self.split(self.k_proj(key)),
                    self.split(self.v_proj(value)),
                    mask,
                )
            )
        )


right(Tri)


@right
class TriVKQ(Tri):
    def forward(self, values, keys, query, mask):
        return super().forward(query, keys, values, mask)


@broken("key-value-swapped")
class T1(Tri):
    def forward(self, query, key, value, mask=None):
        return super().forward(query, value, key, mask)


@broken("cross-side")
class T2(Tri):
    def forward(self, query, key, value, mask=None):
        return super().forward(key, query, query, mask)


@broken("cross-side")
class T3(Tri):
    def forward(self, query, key, value, mask=None):
        return super().forward(query, query, query, mask)


@broken("cross-side")
class T4(Tri):
    def forward(self, query, key, value, mask=None):
        return super().forward(key, key, value, mask)


@broken("cross-side")
class T5(Tri):
    def forward(self, x, context):
        return super().forward(context, x, x)


@broken("cross-side")
class T7(Tri):
    def forward(self, query, key, value, mask=None):
        return super().forward(query, key, key, mask)


@right
class T6(Tri):
    def forward(self, x, context=None):
        c = x if context is None else context
        return super().forward(x, c, c)


@broken("mask-inverted")
class T8(Tri):
    def hide(s, sc, m):
        return sc if m is None else sc.masked_fill(m, -1e9)


# ---- batch
@broken("batch-first")
class B1(Base):
    def forward(s, x):
        return super().forward(x.transpose(0, 1)).transpose(0, 1)


@broken("batch-first")
class B2(nn.Module):
    def __init__(s):
        super().__init__()
        s.attn = nn.MultiheadAttention(12, 3)

    def forward(s, x):
        return s.attn(x, x, x)[0]


@right(batch_first=False)
class B3(B1):
    pass


@broken("batch-mixing")
class B4(Base):
    def split(self, x):
        return x.reshape(self.num_heads, x.shape[0], x.shape[1], self.head_dim).transpose(0, 1)


@broken("random")
class Z1(Base):
    def attend(s, q, k, v, m):
        return F.dropout(s.score(q, k).softmax(-1), 0.2) @ v


@broken("prints")
class Z2(Base):
    def forward(s, x):
        print("x", x.shape)
        return super().forward(x)


@broken("modifies-input")
class Z3(Base):
    def forward(s, x):
        x *= 2
        return super().forward(x)


@broken("detached")
class Z4(Base):
    def score(s, q, k):
        return super().score(q, k).detach()


@broken("detached")
class Z4b(Base):
    def forward(s, x):
        return super().forward(x.detach())


@broken("device")
class Z5(Base):
    def score(s, q, k):
        return super().score(q, k) + torch.zeros(q.shape[-2], q.shape[-2])


@broken("dtype")
class Z6(Base):
    def attend(s, q, k, v, m):
        return s.score(q, k).softmax(-1).float() @ v


@broken("contiguity")
class Z7(Base):
    def forward(s, x):
        return super().forward(x.view(-1, 12).view(x.shape))


@broken("remembers")
class Z8(Causal):
    def attend(self, q, k, v, mask):
        if not hasattr(self, "mm"):
            self.mm = torch.ones(q.shape[-2], q.shape[-2], dtype=torch.bool, device=q.device).tril()
        return super(Causal, self).attend(q, k, v, self.mm)


@broken("not-done")
class Z9(Base):
    def forward(s, x):
        pass


@broken("raises")
class Z10(Base):
    def forward(s, x):
        return s.nope(x)


@broken("wrong-shape")
class Z11(Base):
    def forward(s, x):
        return super().forward(x)[:, 0]


@broken("wrong-source")
class W1(Base):
    def score(s, q, k):
        return super().score(q, q)


@broken("wrong-source")
class W2(Base):
    def attend(s, q, k, v, m):
        return super().attend(q, k, k, m)


class Flag(Base):
    def forward(self, x, is_causal=False):
        length = x.shape[1]
        m = (
            torch.ones(length, length, dtype=torch.bool, device=x.device).tril()
            if is_causal
            else None
        )
        return self.out_proj(
            self.merge(
                self.attend(
                    self.split(self.q_proj(x)),
                    self.split(self.k_proj(x)),
                    self.split(self.v_proj(x)),
                    m,
                )
            )
        )


right(Flag)


@broken("causal-missing")
class Fl2(Flag):
    def hide(s, sc, m):
        return sc


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


@right
class Timm(nn.Module):
    def __init__(s, dim=24, num_heads=4):
        super().__init__()
        s.num_heads = num_heads
        s.head_dim = dim // num_heads
        s.scale = s.head_dim**-0.5
        s.qkv = nn.Linear(dim, dim * 3)
        s.q_norm = nn.Identity()
        s.proj = nn.Linear(dim, dim)
        s.attn_drop = nn.Dropout(0.0)

    def forward(s, x):
        B, N, C = x.shape
        q, k, v = (
            s.qkv(x).reshape(B, N, 3, s.num_heads, s.head_dim).permute(2, 0, 3, 1, 4).unbind(0)
        )
        x = ((q * s.scale) @ k.transpose(-2, -1)).softmax(-1) @ v
        return s.proj(x.transpose(1, 2).reshape(B, N, C))


@broken("split-without-transpose")
class TimmBad(Timm):
    def forward(s, x):
        B, N, C = x.shape
        q, k, v = s.qkv(x).reshape(B, 3, s.num_heads, N, s.head_dim).unbind(1)
        x = ((q * s.scale) @ k.transpose(-2, -1)).softmax(-1) @ v
        return s.proj(x.transpose(1, 2).reshape(B, N, C))


@right
class GQA(nn.Module):
    def __init__(s):
        super().__init__()
        s.q_proj = nn.Linear(16, 16)
        s.k_proj = nn.Linear(16, 8)
        s.v_proj = nn.Linear(16, 8)
        s.o_proj = nn.Linear(16, 16)
        s.num_heads = 4

    def forward(s, x):
        n, length, _ = x.shape
        q = s.q_proj(x).view(n, length, 4, 4).transpose(1, 2)
        k, v = [
            f(x).view(n, length, 2, 4).transpose(1, 2).repeat_interleave(2, 1)
            for f in (s.k_proj, s.v_proj)
        ]
        return s.o_proj(
            F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)
        )


@right
class SmallInner(nn.Module):
    def __init__(s):
        super().__init__()
        s.q_proj = nn.Linear(12, 6)
        s.k_proj = nn.Linear(12, 6)
        s.v_proj = nn.Linear(12, 6)
        s.o_proj = nn.Linear(6, 12)
        s.num_heads = 2
        s.embed_dim = 12

    def forward(s, x):
        n, length, _ = x.shape
        q, k, v = [
            f(x).view(n, length, 2, 3).transpose(1, 2) for f in (s.q_proj, s.k_proj, s.v_proj)
        ]
        return s.o_proj(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


@right
class EncLayer(nn.Module):
    def __init__(s):
        super().__init__()
        s.length = nn.TransformerEncoderLayer(12, 3, 20, batch_first=True)

    def forward(s, x):
        return s.length(x)


@right
class Wrap(nn.Module):
    def __init__(s):
        super().__init__()
        s.attn = nn.MultiheadAttention(12, 3, batch_first=True)

    def forward(s, x, key_padding_mask=None):
        return s.attn(x, x, x, key_padding_mask=key_padding_mask, need_weights=False)


@right
class Window(Causal):
    def attend(s, q, k, v, m):
        length = q.shape[-2]
        i = torch.arange(length, device=q.device)
        d = i[:, None] - i
        return F.scaled_dot_product_attention(q, k, v, attn_mask=(d >= 0) & (d < 3))


@right
class Perceiver(nn.Module):
    def __init__(s):
        super().__init__()
        s.to_q = nn.Linear(12, 12, bias=False)
        s.to_kv = nn.Linear(12, 24, bias=False)
        s.to_out = nn.Sequential(nn.Linear(12, 12), nn.Dropout(0.1))
        s.heads = 3
        s.scale = 4**-0.5

    def forward(s, x, context=None, mask=None):
        c = x if context is None else context
        q = s.to_q(x)
        k, v = s.to_kv(c).chunk(2, -1)

        def sp(t):
            return t.unflatten(-1, (3, 4)).transpose(1, 2)

        sim = torch.einsum("bhid,bhjd->bhij", sp(q), sp(k)) * s.scale
        if mask is not None:
            sim = sim.masked_fill(~mask[:, None, None], -torch.finfo(sim.dtype).max)
        return s.to_out((sim.softmax(-1) @ sp(v)).transpose(1, 2).flatten(2))


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


# ---- torch's own layers: is_causal is a hint beside a mask, True = blocked in masks
class OwnEncoder(nn.TransformerEncoderLayer):
    def __init__(s, **how):
        super().__init__(32, 4, 64, **how)


class Opposite(OwnEncoder):
    def forward(s, src, src_mask=None):
        return super().forward(src, None if src_mask is None else ~src_mask)


RIGHT += [
    (lambda: nn.TransformerEncoderLayer(32, 4, 64, batch_first=True), {}),
    (lambda: nn.TransformerEncoderLayer(32, 4, 64), {"strict": False}),
    (lambda: nn.TransformerDecoderLayer(32, 4, 64, batch_first=True), {}),
    (lambda: nn.Transformer(32, 4, 1, 1, 64, batch_first=True), {}),
    (lambda: OwnEncoder(batch_first=True), {}),
    (OwnEncoder, {}),
    (lambda: Opposite(batch_first=True), {}),
]


@right
class Hint(Tri):
    def forward(s, query, key, value, mask=None, is_causal=False):
        return super().forward(query, key, value, mask)


@right
class HintThatRaises(Tri):
    def forward(s, query, key, value, mask=None, is_causal=False):
        if is_causal and mask is None:
            raise ValueError("nothing to go by")
        return super().forward(query, key, value, mask)


@broken("causal-missing")
class CausalByFlag(Hint):
    pass


@broken("causal-missing")
class FlagOnly(Base):
    def forward(s, x, is_causal=False):
        return super().forward(x)


@broken("raises")
class FlagRaises(Tri):
    def forward(s, query, key, value, mask=None, is_causal=False):
        if is_causal:
            s.nope()
        return super().forward(query, key, value, mask)


# ---- train mode and eval mode
@broken("train-eval")
class ScaleInEval(Base):
    def score(s, q, k):
        return q @ k.mT * (1 if s.training else s.head_dim**-0.5)


@broken("train-eval")
class ScaleInTraining(Base):
    def score(s, q, k):
        return q @ k.mT * (s.head_dim**-0.5 if s.training else 1)


@broken("train-eval")
class ScaleInEvalWithDropout(ScaleInEval):
    def __init__(s):
        super().__init__(dropout=0.3)
        s.attn_dropout = 0.2

    def soft(s, scores):
        return F.dropout(super().soft(scores), s.attn_dropout, s.training)


@broken("train-eval")
class CentredInTraining(Base):
    def attend(s, q, k, v, m):
        return super().attend(q, k, v - v.mean(0) if s.training else v, m)


@broken("train-eval")
class PaddingInEval(Pad):
    def hide(s, scores, m):
        return scores if s.training else super().hide(scores, m)


@broken("train-eval")
class PaddingInTraining(Pad):
    def hide(s, scores, m):
        return super().hide(scores, m) if s.training else scores


@broken("train-eval")
class FlippedMemoryInTraining(Tri):
    def forward(s, query, key, value, mask=None):
        return super().forward(query, key.flip(2) if s.training else key, value, mask)


@right
class DropoutByHand(Drop):
    def __init__(s):
        super().__init__()
        s.dropout_p = 0.2

    def soft(s, scores):
        keep = torch.rand_like(scores) >= s.dropout_p
        weights = super().soft(scores)
        return weights * keep / (1 - s.dropout_p) if s.training else weights


@right
class NestedStack(nn.Module):
    """torch's fast path sets padded rows to 0 in eval mode only."""

    def __init__(s):
        super().__init__()
        s.embed_dim = 12
        layer = nn.TransformerEncoderLayer(12, 2, 20, batch_first=True)
        s.stack = nn.TransformerEncoder(layer, 2)

    def forward(s, x, key_padding_mask=None):
        return s.stack(x, src_key_padding_mask=key_padding_mask)


@right
class WithBatchNorm(Base):
    def __init__(s):
        super().__init__()
        s.norm = nn.BatchNorm1d(12)

    def forward(s, x):
        return s.norm(super().forward(x).mT).mT


@right
class DropoutByNumber(Base):
    def soft(s, scores):
        return F.dropout(super().soft(scores), 0.1, s.training)


# ---- a head that does nothing
@broken("wrong-source")
class LastHeadIdle(Base):
    idle = -1

    def attend(s, q, k, v, m):
        heads = super().attend(q, k, v, m).clone()
        heads[:, s.idle] = 0
        return heads


@broken("wrong-source")
class FirstHeadIdle(LastHeadIdle):
    idle = 0


@right
class PrunedHead(Base):
    """Its parameters are 0, its code is right."""

    def __init__(s):
        super().__init__()
        with torch.no_grad():
            s.v_proj.weight[8:] = 0
            s.v_proj.bias[8:] = 0


RIGHT += [
    (lambda: nn.MultiheadAttention(12, 3, add_bias_kv=True), {"strict": True}),
    (lambda: nn.MultiheadAttention(12, 3, add_zero_attn=True), {"strict": True}),
]


def examined(make, options):
    torch.manual_seed(1)
    chart = Chart()
    examine_module(make(), Options(**options), chart)
    return chart


def _called(case):
    return getattr(case, "__name__", str(case)) if callable(case) else str(case)


@pytest.mark.parametrize(("name", "make", "options"), BROKEN, ids=_called)
def test_a_broken_module_is_named_by_its_cause(name, make, options):
    chart = examined(make, options)
    assert [finding.name for finding in chart.findings][:1] == [name]


@pytest.mark.parametrize(("make", "options"), RIGHT, ids=_called)
def test_a_right_module_is_not_accused(make, options):
    chart = examined(make, options)
    assert [str(finding) for finding in chart.findings] == []
    assert chart.properties
    assert not any("could be checked" in note for note in chart.notes)


def notes_on(make, **options):
    return " ".join(examined(make, options).notes)


def test_a_flag_that_is_only_a_hint_is_noted():
    assert "is_causal=True without a mask does nothing" in notes_on(Hint)
    assert "is_causal=True without a mask does nothing" in notes_on(HintThatRaises)
    assert examined(Hint, {"causal": True}).has("causal-missing")


def test_an_extra_key_is_noted():
    for how in ("add_bias_kv", "add_zero_attn"):
        make = lambda how=how: nn.MultiheadAttention(12, 3, **{how: True})  # noqa: E731
        assert f"still sees the key that {how} adds" in notes_on(make, strict=True)


def test_why_train_mode_was_not_compared_is_noted():
    assert "still random in train mode" in notes_on(DropoutByNumber)
    assert "BatchNorm" in notes_on(WithBatchNorm)


def test_train_mode_and_eval_mode_are_shown_side_by_side():
    finding = examined(CentredInTraining, {}).findings[0]
    assert finding.evidence.rows == ("train mode", "eval mode")
    held = "computes the same in train mode and in eval mode, dropout aside"
    assert held in examined(Drop, {}).properties
    assert held in examined(DropoutByHand, {}).properties


def test_an_idle_head_is_counted():
    chart = examined(LastHeadIdle, {})
    assert "Head 2 contributes nothing (1 of 3)" in str(chart.findings[0])
    assert not chart.findings[0].evidence.values[2].any()
    assert "the heads compute different things" not in chart.properties


def test_the_module_stays_as_it_was():
    module = Raschka().train()
    before = copy.deepcopy(module.state_dict())
    examined(lambda: module, {})
    assert module.training
    assert module.dropout.training
    assert all(torch.equal(value, module.state_dict()[name]) for name, value in before.items())
    assert all(parameter.grad is None for parameter in module.parameters())


def test_the_global_random_state_stays_as_it_was():
    torch.manual_seed(3)
    state = torch.get_rng_state()
    examine_module(nn.MultiheadAttention(8, 2), Options(), Chart())
    torch.manual_seed(3)
    assert torch.equal(state, torch.get_rng_state())


def test_a_module_that_cannot_be_copied_is_examined_and_put_back():
    class Stubborn(Base):
        def __deepcopy__(self, memo):
            raise TypeError("no copies")

    module = Stubborn().train()
    chart = examined(lambda: module, {})
    assert module.training
    assert not chart.findings


def test_an_adapter_calls_what_the_clinic_cannot():
    class Odd(Tri):
        def forward(self, pack, *, flip):
            return {"y": super().forward(*pack)}

    def call(module, query, key, value, attn_mask):
        return module((query, key, value), flip=False)["y"]

    assert not examined(Odd, {"call": call, "embed_dim": 12}).has("raises", "wrong-type")


def test_a_blocked_row_is_a_finding_only_if_strict():
    assert not examined(Masked, {}).findings
    assert examined(Masked, {"strict": True}).has("blocked-row")


@pytest.mark.parametrize(
    "answer",
    [
        lambda x: None,
        lambda x: 3,
        lambda x: [],
        lambda x: x * float("nan"),
        lambda x: x.long(),
        lambda x: x.sum(),
        lambda x: x.to_sparse(),
        lambda x: x.detach().numpy(),
        lambda x: (x, x, x),
        lambda x: torch.empty(x.shape, device="meta"),
        lambda x: exit(),
    ],
)
def test_nothing_that_a_module_returns_makes_the_clinic_raise(answer):
    class Strange(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(6, 6)

        def forward(self, query, key=None, value=None, mask=None):
            return answer(self.layer(query))

    examined(Strange, {})
