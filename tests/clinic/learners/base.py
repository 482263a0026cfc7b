"""The right module from which most others inherit, and the lists that every theme fills."""

import math

from torch import nn


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
        return self.run(x, None)

    def run(self, x, mask):
        """Do what forward does; subclasses differ in where the mask comes from."""
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
