"""Modules with a mask, and with three inputs."""

import torch

from tests.clinic.learners.base import Base, broken, right
from tests.clinic.learners.heads import Causal


# ---- masks
class Masked(Base):
    def forward(self, x, mask=None):
        return self.run(x, mask)


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
