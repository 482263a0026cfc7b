"""A softmax by hand, with and without a mask: every mistake is named."""

import pytest
import torch
from torch.nn import functional

from attnlab.attention import attention_weights
from attnlab.clinic._results import Options, Results
from attnlab.clinic.pieces.softmaxes import examine_softmax

INF = torch.inf


def examined(function, **options) -> Results:
    results = Results()
    examine_softmax(function, Options(**{"time_limit": 5.0, **options}), results)
    return results


def names(function, **options) -> list[str]:
    return [finding.name for finding in examined(function, **options).findings]


def by_hand(x, shift=lambda x: x.amax(-1, keepdim=True)):
    e = (x - shift(x)).exp()
    return e / e.sum(-1, keepdim=True)


def without_maximum(x):
    return x.exp() / x.exp().sum(-1, keepdim=True)


def one_maximum(x):
    return by_hand(x, torch.max)


def masked(scores, mask):
    return scores.masked_fill(~mask, -INF).softmax(-1)


def filled(value):
    return lambda scores, mask: scores.masked_fill(~mask, value).softmax(-1)


def by_lengths(X, valid_lens, extra=0):
    blocked = torch.arange(X.shape[-1]) >= valid_lens[:, None, None] + extra
    return X.masked_fill(blocked, -1e6).softmax(-1)


def in_place(x):
    x -= x.amax(-1, keepdim=True)
    return x.softmax(-1)


def masked_in_place(scores, mask):
    scores[~mask.expand_as(scores)] = -1e9
    return scores.softmax(-1)


RIGHT = [
    torch.softmax,
    functional.softmax,
    torch.nn.Softmax(-1),
    lambda x, axis: x.softmax(axis),
    by_hand,
    without_maximum,
    one_maximum,
    lambda x: by_hand(x, lambda x: x.max().item()),
    lambda x: x.exp() / (x.exp().sum(-1, keepdim=True) + 1e-9),
    lambda scores: torch.exp(scores - torch.logsumexp(scores, -1, keepdim=True)),
    lambda x: x.softmax(2),
    masked,
    filled(-1e9),
    lambda scores, mask: scores.masked_fill(mask == 0, -1e9).softmax(-1),
    lambda scores, mask=None: scores.softmax(-1) if mask is None else masked(scores, mask),
    lambda scores, mask: scores.exp() * mask / (scores.exp() * mask).sum(-1, keepdim=True),
    lambda scores, mask: masked(scores, mask).nan_to_num(0),
    lambda scores, keep_these: masked(scores, keep_these),
    lambda scores, attn_mask: (scores + torch.where(attn_mask.bool(), 0, -INF)).softmax(-1),
    attention_weights,
    by_lengths,
]
WRONG = {
    "softmax-axis": [
        lambda x: x.softmax(-2),
        lambda x: x.softmax(0),
        lambda x: x.softmax(1),
        lambda x: x.exp() / x.exp().sum(),
        lambda x: x.flatten(-2).softmax(-1).view_as(x),
        lambda x, dim: x.softmax(-1),
        lambda scores, mask: scores.masked_fill(~mask, -1e9).softmax(-2),
    ],
    "not-normalised": [
        torch.exp,
        torch.sigmoid,
        lambda x: x,
        lambda x: (x - x.amax(-1, keepdim=True)).exp() / x.exp().sum(-1, keepdim=True),
        lambda x: x.exp() / (x.exp().sum(-1, keepdim=True) + 1),
        lambda x: x.log_softmax(-1),
        lambda x: x / x.sum(-1, keepdim=True),
        lambda scores, mask: scores.exp() * mask,
    ],
    "square-only": [lambda x: x.exp() / x.exp().sum(-1)],
    "hard": [lambda x: functional.one_hot(x.argmax(-1), x.shape[-1]).float()],
    "scale-other": [lambda x: (-x).softmax(-1), lambda x: (x * 0.5).softmax(-1)],
    "scale-length": [lambda x: (x / x.shape[-1] ** 0.5).softmax(-1)],
    "position-mixing": [lambda x: x.softmax(-1).sort(-1).values],
    "wrong-shape": [lambda x: x.softmax(-1).mT, lambda x: x.softmax(-1).sum(-1)],
    "modifies-input": [in_place, masked_in_place],
    "detached": [
        lambda x: x.detach().softmax(-1),
        lambda x: x.exp() / x.exp().sum(-1, keepdim=True).detach(),
        lambda x: torch.tensor(x.softmax(-1).tolist(), dtype=x.dtype),
    ],
    "dtype": [lambda x: x.float().softmax(-1)],
    "random": [lambda x: functional.dropout(x.softmax(-1), 0.5)],
    "prints": [lambda x: (print("hello"), x.softmax(-1))[1]],
    "nan": [lambda x: x * torch.nan],
    "not-done": [lambda x: None],
    "wrong-type": [lambda x: (row for row in x), lambda x: 1.0],
    "raises": [lambda x: 1 / 0, lambda: 1],
    "mask-inverted": [
        lambda scores, mask: masked(scores, ~mask),
        lambda scores, mask: (scores * ~mask).softmax(-1),
    ],
    "mask-ignored": [lambda scores, mask: scores.softmax(-1)],
    "mask-added": [lambda scores, mask: (scores + mask).softmax(-1)],
    "mask-multiplied": [lambda scores, mask: (scores * mask).softmax(-1), filled(0)],
    "mask-after-softmax": [lambda scores, mask: scores.softmax(-1) * mask],
    "mask-finite": [
        filled(-10),
        filled(1e-9),
        lambda scores, mask: (scores - 5 * (1 - mask.float())).softmax(-1),
    ],
    "length-off-by-one": [
        lambda X, lengths: by_lengths(X, lengths, 1),
        lambda X, lengths: by_lengths(X, lengths, -1),
    ],
}
CASES = [(name, function) for name, functions in WRONG.items() for function in functions]


@pytest.mark.parametrize("function", RIGHT)
def test_a_right_softmax_is_not_accused(function):
    results = examined(function)
    assert results.findings == []
    assert len(results.properties) >= 3


@pytest.mark.parametrize(("name", "function"), CASES)
def test_what_is_wrong_is_named_first(name, function):
    assert names(function)[:1] == [name]


def test_overflow_is_a_note_unless_strict():
    assert "overflows" in " ".join(examined(without_maximum).notes)
    assert names(without_maximum, strict=True) == ["nan"]
    assert "own maximum" in " ".join(examined(one_maximum).notes)
    assert names(one_maximum, strict=True) == ["underflow"]
    assert names(by_hand, strict=True) == []


def test_a_blocked_row_is_a_note_unless_strict():
    assert examined(masked).notes == ["A row in which no key is allowed gives NaN."]
    assert names(masked, strict=True) == ["blocked-row"]
    assert names(attention_weights, strict=True) == []


def test_the_sentence_tells_the_sums():
    finding = examined(lambda x: x.softmax(-2)).findings[0]
    sums = finding.evidence.values[:, -1]
    assert finding.evidence.columns[-1] == "sum"
    assert torch.allclose(sums, finding.evidence.values[:, :-1].sum(-1))
    assert "the queries (dimension -2)" in str(finding)


def test_true_may_be_said_to_mean_blocked():
    assert names(lambda scores, mask: masked(scores, ~mask), mask="blocked") == []
    assert names(masked, mask="blocked") == ["mask-inverted"]


def test_an_additive_mask_may_be_announced():
    assert names(lambda scores, mask: (scores + mask).softmax(-1), mask="additive") == []
