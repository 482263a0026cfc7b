"""Functions that were written to mislead the clinic and once did."""

import functools

import pytest
import torch
import torch.nn.functional as F

from attnlab import scaled_dot_product_attention as right
from attnlab.clinic import diagnose


def scores_of(query, key):
    return query @ key.mT / query.shape[-1] ** 0.5


def places(scores):
    """Return the positions of queries, as a column, and of keys."""
    L, S = scores.shape[-2:]
    return torch.arange(L, device=scores.device)[:, None], torch.arange(S, device=scores.device)


def blocking(blocked):
    """Return attention that blocks where ``blocked(i, j)`` says so."""

    def attention(query, key, value):
        scores = scores_of(query, key)
        return scores.masked_fill(blocked(*places(scores)), -torch.inf).softmax(dim=-1) @ value

    return attention


def without_first_key(query, key, value):
    return right(query, key[..., 1:, :], value[..., 1:, :])


def without_last_key(query, key, value):
    return right(query, key[..., :-1, :], value[..., :-1, :])


def mask_or_order(query, key, value, mask=None, is_causal=False):
    scores = scores_of(query, key)
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf)
    elif is_causal:
        scores = scores.masked_fill(~torch.ones_like(scores).bool().tril(), -torch.inf)
    return scores.softmax(dim=-1) @ value


def second_mask_ignored(query, key, value, attn_mask=None, key_padding_mask=None):
    return F.scaled_dot_product_attention(query, key, value, attn_mask=attn_mask)


def squeezed(query, key, value):
    return right(query, key, value).squeeze()


def weights_turned(query, key, value):
    weights = scores_of(query, key).softmax(dim=-1)
    return weights @ value, weights.mT


def clamped(query, key, value):
    return scores_of(query, key).clamp(-3, 3).softmax(dim=-1) @ value


def mask_of_first_head(query, key, value, mask=None):
    assert query.ndim == 4
    scores = scores_of(query, key)
    if mask is not None:
        scores = scores.masked_fill(~mask[:, :1], -torch.inf)
    return scores.softmax(dim=-1) @ value


def rounded_weights(query, key, value):
    return scores_of(query, key).softmax(dim=-1).half().to(value.dtype) @ value


BROKEN = {
    without_first_key: "wrong-source",
    without_last_key: "wrong-source",
    mask_or_order: "causal-leak",
    second_mask_ignored: "mask-ignored",
    squeezed: "wrong-shape",
    weights_turned: "weights-differ",
    clamped: "scores-not-dot-products",
    mask_of_first_head: "mask-leak",
    rounded_weights: "dtype",
}


@pytest.mark.parametrize("function", BROKEN, ids=lambda function: function.__name__)
def test_a_hidden_bug_is_named(function):
    report = diagnose(function)
    assert [finding.name for finding in report.findings][:1] == [BROKEN[function]]


def by_lengths(queries, keys, values, valid_lens=None):
    scores = scores_of(queries, keys)
    if valid_lens is not None:
        _, j = places(scores)
        scores = scores.masked_fill(j >= valid_lens[:, None, None], -1e6)
    return scores.softmax(dim=-1) @ values


def heads_behind(q, k, v):
    """q: (batch, seqlen, nheads, headdim), heads behind the tokens."""
    turned = (part.transpose(1, 2) for part in (q, k, v))
    return F.scaled_dot_product_attention(*turned).transpose(1, 2)


RIGHT = {
    "window": blocking(lambda i, j: (i - j).abs() >= 3),
    "prefix": blocking(lambda i, j: (j > i) & (j >= 2)),
    "packed texts": blocking(lambda i, j: (i < 3) != (j < 3)),
    "causal window": blocking(lambda i, j: (j > i) | (i - j >= 2)),
    "lengths": by_lengths,
    "heads behind": heads_behind,
    "partial": functools.partial(F.scaled_dot_product_attention, is_causal=True),
}


@pytest.mark.parametrize("name", RIGHT)
def test_an_unusual_right_one_is_not_accused(name):
    report = diagnose(RIGHT[name])
    assert report.ok, repr(report)


def test_what_looks_like_a_window_is_said():
    assert any("never seen" in note for note in diagnose(RIGHT["window"]).notes)
    assert any("window" in note for note in diagnose(RIGHT["causal window"]).notes)


def test_one_maximum_for_the_whole_batch_is_good_to_know():
    def attention(query, key, value):
        scores = scores_of(query, key)
        positive = (scores - scores.max()).exp()
        return positive / positive.sum(dim=-1, keepdim=True) @ value

    assert any("own maximum" in note for note in diagnose(attention).notes)
