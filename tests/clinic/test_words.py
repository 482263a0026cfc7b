"""Words mislead: what computes attention is never accused for what is written around it."""

import functools
import math

import pytest
import torch.nn.functional as F
from torch import nn

from attnlab.clinic import diagnose
from tests.clinic.parts import Cross, Layer, causal_attention, layer, masked, right, scored


def with_text(text, function=masked, name="attention"):
    """Return a function of its own that says so."""

    def attention(query, key, value, mask=None):
        return function(query, key, value, mask)

    attention.__doc__, attention.__name__ = text, name
    return attention


def blocking(query, key, value, mask=None):
    return masked(query, key, value, None if mask is None else ~mask)


def adding(query, key, value, mask=None):
    return (scored(query, key) + (0 if mask is None else mask)).softmax(-1) @ value


TEXTS = [
    "Scaled dot-product attention; cheaper than additive attention.",
    "Attention of one sentence with padding.",
    "Each row sums to one after masking.",
    "There is 1 mask, which ignores nothing by itself.",
    "True attention, with keys that the mask blocks hidden from every query.",
    "Not causal; the decoder has one of its own.",
    "The bias is left out here; see figure 1 for padding.",
    "Like T5 it keeps what the mask allows.",
    "Takes 2 masks or 1, 0 or -inf as float mask in other versions.",
    "Queries are the latest tokens of (seq, batch, dim).",
]


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("function", [masked, blocking, adding])
def test_text_accuses_nobody(text, function):
    report = diagnose(with_text(text, function))
    assert not report.findings, repr(report)


@pytest.mark.parametrize("text", TEXTS[:3])
def test_loose_words_leave_what_is_usual_right(text):
    assert diagnose(with_text(text)).ok is True


NAMES = (
    "causal_mask blocked attn_bias keep key_padding_mask padding_mask allowed hidden_mask".split()
)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("function", [masked, blocking])
def test_the_name_of_a_mask_accuses_nobody(name, function):
    space = {"function": function}
    exec(f"def attention(q, k, v, {name}=None): return function(q, k, v, {name})", space)
    assert not diagnose(space["attention"]).findings


@pytest.mark.parametrize("name", ["DecoderCrossAttention", "EncoderDecoderAttention", "CausalBlock",
                                  "CrossAttentionOfADecoder", "NonCausalAttention", "Decoder",
                                  "RotaryFreeAttention", "AdditiveAttention"])  # fmt: skip
def test_the_name_of_a_class_accuses_nobody(name):
    class Memory(Cross):
        def forward(self, x, enc_out):
            return Cross.forward(self, x, enc_out, enc_out)

    if name != "CausalBlock":
        assert not diagnose(type(name, (Memory,), {})()).findings
        plain = diagnose(type(name, (Layer,), {})())
        assert not plain.findings
    assert not diagnose(type(name, (Block,), {})()).findings


class Block(nn.Module):
    """A block of a decoder: causal self-attention, then attention to a memory."""

    def __init__(self):
        super().__init__()
        own = layer(attend=lambda self, q, k, v: causal_attention(q, k, v))
        self.own, self.cross = own, Cross()
        self.first, self.second = nn.LayerNorm(12), nn.LayerNorm(12)

    def forward(self, x, memory):
        x = self.first(x + self.own(x))
        return self.second(x + self.cross(x, memory, memory))


def test_a_decoder_whose_tokens_see_later_ones_is_asked_about():
    report = diagnose(type("DecoderSelfAttention", (Layer,), {})())
    assert (report.ok, report.gap.name) == (None, "causal-missing")
    assert (
        diagnose(type("CausalSelfAttention", (Layer,), {})()).findings[0].name == "causal-missing"
    )


def test_words_excuse_no_bug():
    def attention(query, key, value, mask=None):
        """Attention does not scale to long texts, and T50 pads with 1s; True is masked, or not."""
        scores = query @ key.mT
        if mask is not None:
            scores = scores.masked_fill(~mask, -math.inf)
        return scores.softmax(-1) @ value

    assert diagnose(attention).findings[0].name == "scale-missing"
    for text in TEXTS:
        ignored = with_text(text, lambda q, k, v, mask: right(q, k, v))
        assert diagnose(ignored).findings[0].name == "mask-ignored", text


def test_what_is_said_by_an_option_is_a_finding():
    assert diagnose(blocking, mask="allowed").findings[0].name == "mask-inverted"
    assert diagnose(masked, mask="blocked").findings[0].name == "mask-inverted"
    assert diagnose(F.scaled_dot_product_attention).ok is True


class Tempered(nn.Module):
    """The form of a widely used implementation; what it is called differs."""

    def __init__(self, name):
        super().__init__()
        self.name, self.dropout = name, nn.Dropout(0.1)
        setattr(self, name, 8**0.5)

    def forward(self, q, k, v, mask=None):
        scores = q / getattr(self, self.name) @ k.transpose(-2, -1)
        if mask is not None:
            scores = scores.masked_fill(mask == 0, -1e9)
        weights = self.dropout(scores.softmax(-1))
        return weights @ v, weights


def of_a_closure(factor):
    return lambda q, k, v: (q @ k.mT * factor).softmax(-1) @ v


def of_a_default(q, k, v, tau=4.0):
    return (q @ k.mT / tau).softmax(-1) @ v


@pytest.mark.parametrize(
    "made",
    [Tempered("temperature"), Tempered("t"), Tempered("root"), of_a_closure(0.3), of_a_default,
     functools.partial(lambda q, k, v, norm: (q @ k.mT / norm).softmax(-1) @ v, norm=3.0)],
)  # fmt: skip
def test_a_factor_from_outside_is_asked_about(made):
    report = diagnose(made)
    assert report.ok is None
    assert report.gap.name == "scale-constant"
    assert "mask" not in report.untried
    assert diagnose(made, meant={"scale-constant"}).ok is True


def test_a_constant_of_its_own_is_a_finding():
    report = diagnose(lambda q, k, v: (q @ k.mT / 8).softmax(-1) @ v)
    assert report.findings[0].name == "scale-constant"
