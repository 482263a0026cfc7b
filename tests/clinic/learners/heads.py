"""Heads cut and joined rightly and wrongly, with positions and with a causal mask."""

import torch
from torch import nn

from tests.clinic.learners.base import Base, broken, right


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
