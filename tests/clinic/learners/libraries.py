"""Modules as libraries publish them."""

import torch
import torch.nn.functional as F
from torch import nn

from tests.clinic.learners.base import broken, right
from tests.clinic.learners.heads import Causal


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
