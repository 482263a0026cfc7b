"""What is taken for what, what the caller may tell, and what is left as it was."""

import functools
import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from attnlab import MultiHeadAttention, causal_mask, merge_heads, split_heads
from attnlab.clinic import diagnose
from attnlab.clinic.kinds import KINDS, kind_of


def attention(query, key, value, mask=None):
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf)
    return scores.softmax(dim=-1) @ value


def my_softmax(scores):
    return scores.softmax(dim=-1)


def padding_mask(lengths, max_len):
    return torch.arange(max_len) < lengths[:, None]


TARGETS = [
    (attention, "attention"),
    (F.scaled_dot_product_attention, "attention"),
    (lambda Q, K, V: None, "attention"),
    (lambda queries, keys, values, d_k: None, "attention"),
    (functools.partial(attention, mask=None), "attention"),
    (MultiHeadAttention(12, 3), "module"),
    (nn.MultiheadAttention(12, 3), "module"),
    ((split_heads, merge_heads), "heads"),
    (split_heads, "split"),
    (merge_heads, "merge"),
    (lambda x, h: None, "split"),
    (causal_mask, "mask"),
    (padding_mask, "mask"),
    (lambda lengths: None, "mask"),
    (my_softmax, "softmax"),
    (lambda scores, dim: None, "softmax"),
    (lambda x: None, "module"),
]


@pytest.mark.parametrize(("target", "kind"), TARGETS)
def test_a_target_is_taken_for_what_it_is(target, kind):
    assert kind_of(target) == kind


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"kind": "layer"}, "kind must be one of 'attention', .* got 'layer'"),
        (
            {"mask": "inverted"},
            "mask must be 'allowed', 'blocked', 'additive' or None, got 'inverted'",
        ),
    ],
)
def test_unknown_options_are_refused(option, message):
    with pytest.raises(ValueError, match=message):
        diagnose(attention, **option)


@pytest.mark.parametrize(
    ("target", "sentence"),
    [
        (nn.MultiheadAttention, "MultiheadAttention is a class: make a layer first"),
        (3, "int cannot be called"),
        ((split_heads, 3), "A pair must be two functions"),
        ((split_heads,), "A pair must be two functions"),
    ],
)
def test_what_cannot_be_examined_is_said_in_words(target, sentence):
    report = diagnose(target)
    assert report.ok is None
    assert sentence in report.summary


def test_the_adapter_makes_another_call_possible():
    def packed(tensors, block):
        return {"result": attention(*tensors, mask=None if block is None else ~block)}

    def call(target, query, key, value, attn_mask):
        block = None if attn_mask is None else ~attn_mask
        return target((query, key, value), block)["result"]

    report = diagnose(packed, kind="attention", call=call)
    assert report.ok, repr(report)
    assert any("blocked key" in held for held in report.properties)
    wrong = diagnose(packed, kind="attention", call=lambda *a: call(*a[:4], None))
    assert wrong.findings[0].name == "mask-ignored"


def test_the_caller_may_tell_that_it_is_causal():
    assert diagnose(lambda q, k, v: attention(q, k, v)).ok
    report = diagnose(lambda q, k, v: attention(q, k, v), causal=True)
    assert report.findings[0].name == "causal-missing"


def test_a_row_without_keys_is_a_note():
    report = diagnose(attention)
    assert report.ok
    assert "A row with no allowed key gives NaN." in report.notes
    fused = diagnose(F.scaled_dot_product_attention)
    assert "empty-row" in [held.key for held in fused.properties]


def test_the_same_report_twice_and_the_random_numbers_left_alone():
    torch.manual_seed(3)
    state = torch.get_rng_state()
    one = repr(diagnose(attention))
    assert torch.equal(torch.get_rng_state(), state)
    torch.manual_seed(4)
    assert repr(diagnose(attention)) == one


def test_a_layer_is_left_as_it_was():
    layer = MultiHeadAttention(12, 3, dropout=0.1)
    before = {name: part.clone() for name, part in layer.state_dict().items()}
    diagnose(layer)
    assert layer.training
    assert all(torch.equal(part, before[name]) for name, part in layer.state_dict().items())
    assert all(part.grad is None for part in layer.parameters())


def test_a_wrong_shape_is_told_with_the_shapes_of_the_call():
    report = diagnose(lambda query, key, value: query @ key.mT)
    assert report.findings[0].name == "wrong-shape"
    assert "query: (2, 5, 11), key: (2, 7, 11), value: (2, 7, 13)" in report.summary
    assert "(2, 5, 7); it should be (2, 5, 13)" in report.summary


class Keeping(nn.Module):
    """Attention that keeps its weights, with their graph."""

    def __init__(self):
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(12, 12) for _ in range(3))
        self.weights = None

    def forward(self, x):
        query, key, value = self.query(x), self.key(x), self.value(x)
        self.weights = (query @ key.mT / math.sqrt(12)).softmax(dim=-1)
        return self.weights @ value


def test_a_layer_that_keeps_a_result_is_examined_and_keeps_it():
    layer = Keeping()
    layer(torch.randn(2, 5, 12))
    kept = layer.weights
    assert diagnose(layer).ok
    assert layer.weights is kept
    assert kept.requires_grad


class Uncopied(Keeping):
    """Attention that cannot be copied."""

    def __deepcopy__(self, memo):
        raise TypeError("no copies")


def test_a_layer_that_cannot_be_copied_is_left_alone():
    report = diagnose(Uncopied())
    assert report.ok is None
    assert "copied" in report.gap.why


def test_a_failed_clinic_is_not_ok(monkeypatch):
    def broken(*_):
        raise RuntimeError("a probe failed")

    monkeypatch.setitem(KINDS, "attention", ("attention function", broken))
    report = diagnose(attention)
    assert report.ok is None
    assert "RuntimeError" in report.gap.why


@pytest.mark.parametrize("target", [nn.Conv2d(3, 4, 3), len], ids=["Conv2d", "len"])
def test_what_is_no_attention_is_told_in_plain_words(target):
    text = repr(diagnose(target))
    assert "returns RuntimeError" not in text
    assert "a int" not in text
