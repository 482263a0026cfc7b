"""Attention in steps that the tests of the clinic change one at a time."""

import math

import torch
from torch import nn

E, H = 12, 3


def names(report):
    """Return what the findings of a report are called."""
    return [finding.name for finding in report.findings]


def answer(report):
    """Return the name of the first finding, or of the question that is asked; None if neither."""
    return (*names(report), report.gap and report.gap.name)[0]


def scored(query, key):
    return query @ key.mT / query.shape[-1] ** 0.5


def right(query, key, value):
    return scored(query, key).softmax(-1) @ value


def masked(query, key, value, mask=None):
    scores = scored(query, key)
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
    return scores.softmax(-1) @ value


def hidden(query, key, value, mask=None):
    """Attention whose rows without a key are 0."""
    return masked(query, key, value, mask).nan_to_num(0.0)


def causal(scores, diagonal=0):
    return scores.masked_fill(torch.ones_like(scores).tril(diagonal) == 0, -math.inf)


def causal_attention(query, key, value, bias=0.0):
    return (causal(scored(query, key)) + bias).softmax(-1) @ value


class Layer(nn.Module):
    """Self-attention; each class below changes one step."""

    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(E, E) for _ in range(4))

    def cut(self, x):
        return x.unflatten(-1, (H, -1)).transpose(1, 2)

    def join(self, x):
        return x.transpose(1, 2).flatten(2)

    def attend(self, query, key, value, mask=None):
        return masked(query, key, value, mask)

    def parts(self, x, y=None, z=None):
        y = x if y is None else y
        sides = (self.q, x), (self.k, y), (self.v, y if z is None else z)
        return [self.cut(f(t)) for f, t in sides]

    def forward(self, x):
        return self.o(self.join(self.attend(*self.parts(x))))


def kind(base=Layer, **methods):
    """Return a class of layers with some methods replaced."""
    return type("Layer", (base,), methods)


def layer(base=Layer, **methods):
    """Return a layer with some methods replaced."""
    return kind(base, **methods)()


class Causal(Layer):
    def attend(self, query, key, value):
        return causal_attention(query, key, value)


class Cross(Layer):
    def forward(self, query, key, value):
        return self.o(self.join(self.attend(*self.parts(query, key, value))))


class Masked(Layer):
    def forward(self, x, mask=None):
        return self.o(self.join(self.attend(*self.parts(x), mask)))


def turned(x, by=1.0):
    angle = by * torch.arange(x.shape[-2]).to(x)[:, None] / torch.tensor([1.0, 7.0]).to(x)
    a, b = x.chunk(2, dim=-1)
    return torch.cat([a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin()], -1)


def rotary(*by):
    def attend(self, *parts):
        return right(*map(turned, parts, by))

    return layer(attend=attend)
