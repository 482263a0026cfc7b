"""What is measured beside the output at ordinary scores: fills, biases, divisors and bare views."""

import math

import pytest
import torch

from attnlab.clinic import diagnose
from tests.clinic.parts import H, causal_attention, kind, names, scored, turned


def triangle(scores):
    return torch.ones(scores.shape[-2:]).triu(1) > 0


def causal(fill):
    def causal_attention(q, k, v):
        scores = scored(q, k)
        return scores.masked_fill(triangle(scores), fill).softmax(-1) @ v

    return causal_attention


def layer(fill):
    return kind(attend=lambda self, *parts: causal(fill)(*parts))()


def masked(fill):
    def attention(q, k, v, mask=None):
        scores = scored(q, k)
        return (scores if mask is None else scores.masked_fill(~mask, fill)).softmax(-1) @ v

    return attention


@pytest.mark.parametrize("make", [causal, layer, masked])
@pytest.mark.parametrize("fill", [-50, -1000, -1e4, -65504, -1e9, -math.inf])
def test_a_fill_that_large_scores_outdo_is_noted(make, fill):
    report = diagnose(make(fill), mask="allowed")
    assert report.ok is True, repr(report)
    noted = [str(note) for note in report.notes if note.key == "mask-finite"]
    assert bool(noted) == (fill >= -65504)
    assert all("take up to 1 of its weight" in note for note in noted)


def renormalised(q, k, v, mask=None):
    weights = scored(q, k).softmax(-1)
    if mask is not None:
        weights = weights * mask / (weights * mask).sum(-1, keepdim=True)
    return weights @ v


def renormalised_causal(q, k, v):
    return renormalised(q, k, v, ~triangle(scored(q, k)))


@pytest.mark.parametrize("attention", [renormalised, renormalised_causal])
def test_weights_that_are_divided_anew_are_right_until_nothing_is_left_of_them(attention):
    report = diagnose(attention, mask="allowed")
    assert report.ok is True
    assert "large-scores" in [note.key for note in report.notes]


def minus(q, k, v, bias=None):
    return (scored(q, k) - (0 if bias is None else bias)).softmax(-1) @ v


def test_a_bias_that_is_subtracted_is_told_of_as_such():
    report = diagnose(minus)
    assert names(report) == ["mask-inverted"]
    assert "subtracted" in report.summary
    assert report.findings[0].fix == "add it: scores + bias."


def test_a_divisor_of_the_width_of_value_is_a_scale():
    report = diagnose(lambda q, k, v: (q @ k.mT / v.shape[-1] ** 0.5).softmax(-1) @ v)
    assert names(report) == ["scale-other"]
    assert "root of Ev" in report.summary


def viewed(which):
    """Return a layer that cuts some of q, k, v by a bare view, and rotates queries and keys."""

    def parts(self, x):
        made = zip("qkv", (self.q(x), self.k(x), self.v(x)), strict=True)
        return [part.reshape(len(x), H, x.shape[1], -1) if name in which else self.cut(part)
                for name, part in made]  # fmt: skip

    def attend(self, query, key, value):
        return causal_attention(turned(query), turned(key), value)

    return kind(parts=parts, attend=attend)()


@pytest.mark.parametrize("which", ["q", "qk", "qkv", "v"])
def test_a_bare_view_behind_a_rotation_has_its_own_name(which):
    report = diagnose(viewed(which), causal=True)
    assert names(report) == ["split-without-transpose"]
