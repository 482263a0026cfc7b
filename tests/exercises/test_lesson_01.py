"""The checks of lesson 1: what they accept, and what they say of answers that are not slips."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch.nn.functional import softmax as weigh

from attnlab import attention_weights, exercises, load_table
from tests.exercises.verdicts import accepted, accepts, names, refused

X = load_table("he_is_awesome.csv").values
SOFTMAXES = [
    lambda scores: weigh(scores, dim=-1),
    lambda scores: scores.log_softmax(-1).exp(),
    lambda scores: F.softmin(-scores, dim=-1),
    attention_weights,
]


def from_scores(weights):
    return lambda query, key, value: (
        weights(query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])) @ value
    )


def shared(positive):
    return positive / positive.sum(dim=-1, keepdim=True)


attention = from_scores(lambda scores: scores.softmax(dim=-1))


def broken(query, key, value):
    scores = query @ key.transpose(-2, -1) / math.sqrt(len(key))
    return scores.softmax(dim=0) @ value


def one_by_one(query, key, value):
    if query.ndim > 2:
        return torch.stack([one_by_one(*parts) for parts in zip(query, key, value, strict=True)])
    return attention(query, key, value)


def in_place(query, key, value):
    scores = (query @ key.mT).div_(math.sqrt(query.shape[-1]))
    positive = scores.sub_(scores.amax(-1, keepdim=True)).exp_()
    return positive.div_(positive.sum(-1, keepdim=True)) @ value


test_accepts = accepts({
    "check_query_for_awesome": [lambda: [10, -10, -10, -10], (20 * (X[2] - X[1])).requires_grad_()],
    "check_mended": [attention, one_by_one],
    "check_attention_from_exp": [
        from_scores(lambda scores: shared((scores - scores.amax(-1, keepdim=True)).exp())),
        from_scores(lambda s: (s - s.logsumexp(dim=-1, keepdim=True)).exp()),
    ],
})  # fmt: skip

test_names_the_mistake = names({
    "check_query_for_awesome": {
        "and “He” gets the most. A longer query will not help": [-5.0, 0, 0, 0],
        "and “He” as much. A longer query will not help": [-1, -4, 0, 0],
        "and “is” gets the most. A longer query will not help. Choose another": [1, -1, 0, 5],
        "prefers none": torch.zeros(4),
        "for each feature, not for each word": [0, 0, 1],
    },
    "check_mended": {
        ("query (5, 11)", "Count the dimensions from the end"): (
            from_scores(lambda s: s.softmax(dim=2))
        ),
        ("query (2, 5, 11)", "transpose(-2, -1)"): (
            lambda q, k, v: (q @ k.T / q.shape[-1] ** 0.5).softmax(-1) @ v
        ),
        ("query (2, 5, 11)", "Swap the last two with key.mT"): (
            lambda q, k, v: (q @ k.transpose(0, 1) / q.shape[-1] ** 0.5).softmax(-1) @ v
        ),
        ("query (3, 2, 5, 11)", "Swap the last two with key.mT"): (
            lambda q, k, v: (
                attention(q, k, v) if q.ndim == 3 else (q @ k.T / 11**0.5).softmax(-1) @ v
            )
        ),
        ("query (5, 11)", "Swap the last two dimensions with key.transpose(-2, -1)"): (
            lambda q, k, v: (q @ k.permute(0, 2, 1) / q.shape[-1] ** 0.5).softmax(-1) @ v
        ),
        "Give both factors of a product the same dtype": (
            lambda q, k, v: (q @ k.mT / q.shape[-1] ** 0.5).double().softmax(-1) @ v
        ),
        "value (7, 13), your function runs, but it returns None": (
            lambda q, k, v: attention(q, k, v) if q.ndim == 3 else None
        ),
    },
    "check_attention_from_exp": {
        "only if there is at most one batch dimension": from_scores(
            lambda s: (lambda dim: s.exp() / s.exp().sum(dim, keepdim=True))(min(s.ndim - 1, 2))
        ),
        "What may you subtract": from_scores(
            lambda s: s.exp() / (s.exp().sum(dim=-1, keepdim=True) + 1e-6)
        ),
        "without the exponential": from_scores(lambda s: shared(s - s.amax(-1, keepdim=True))),
        "Some score stays far above 0": from_scores(lambda s: shared((s - 50).exp())),
        "too small for float32": from_scores(lambda s: shared((s - 100).exp())),
        "take `.values`, or call `amax`": (
            from_scores(lambda s: shared((s - s.max(dim=-1, keepdim=True)).exp()))
        ),
        "You replaced NaN by 0": lambda q, k, v: (
            from_scores(lambda s: shared(s.exp()))(q, k, v).nan_to_num()
        ),
    },
})  # fmt: skip


@pytest.mark.parametrize("softmax", SOFTMAXES)
def test_a_softmax_is_noticed_under_every_name(softmax):
    refused(exercises.check_attention_from_exp, from_scores(softmax), "calls a softmax, perhaps")


def test_what_has_no_name_is_found_by_the_clinic():
    verdict = refused(exercises.check_mended, broken, "runs over the sequences of the batch")
    assert verdict.report.findings[0].name == "softmax-axis"
    assert verdict.evidence is not None


def test_what_is_good_to_know_is_a_remark():
    assert accepted(exercises.check_mended, F.scaled_dot_product_attention).remarks == ()
    (remark,) = accepted(exercises.check_mended, torch.no_grad()(attention)).remarks
    assert "No gradient" in remark
    (remark,) = accepted(exercises.check_attention_from_exp, in_place).remarks
    assert remark == "`backward()` fails, because a tensor that it needs was changed in place."
