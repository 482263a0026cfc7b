"""Batches, prints, memory, devices, types, and flags."""

import torch
import torch.nn.functional as F
from torch import nn

from tests.clinic.learners.base import Base, broken, right
from tests.clinic.learners.heads import Causal


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
        return self.run(x, m)


right(Flag)


@broken("causal-missing")
class Fl2(Flag):
    def hide(s, sc, m):
        return sc
