"""Right ways to add positions, scale and return weights, and weights that lie."""

import torch
import torch.nn.functional as F
from torch import nn

from tests.clinic.learners.base import Base, broken, right
from tests.clinic.learners.heads import Causal


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
