"""More than one size, dtype, batch and range of numbers: what one of them hides, another shows."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from attnlab.clinic import diagnose
from tests.clinic.parts import H, Layer, Masked, answer, layer, masked, names, right, scored

# --- sizes ----------------------------------------------------------------------------------------


def of_a_square(offset):
    def attention(q, k, v):
        length, scores = q.shape[-2], scored(q, k)
        i, j = torch.triu_indices(length, length, offset=offset)
        scores[..., i, j] = -math.inf
        return scores.softmax(-1) @ v

    return attention


def wrong_if_square(q, k, v):
    return right(q, k, v) if q.shape[-2] != k.shape[-2] else (q @ k.mT).softmax(-1) @ v


def empty_if_square(q, k, v):
    L, S = q.shape[-2], k.shape[-2]
    return scored(q, k).masked_fill(torch.ones(L, S).tril(-1 if L == S else S) == 0, -math.inf)


@pytest.mark.parametrize("name", ["attention", "causal_attention"])
@pytest.mark.parametrize(
    ("offset", "cause"),
    [(-1, "causal-off-by-one"), (0, "causal-off-by-one"), (1, None), (2, "causal-off-by-one")],
)
def test_as_many_keys_as_queries_show_an_order(name, offset, cause):
    attention = of_a_square(offset)
    attention.__name__ = name
    report = diagnose(attention)
    assert answer(report) == cause
    assert ["keys 5 to 6 stay visible" in n for n in report.notes if n.key == "square"] == [True]
    assert offset > 0 or "uery 0 sees no" in report.summary


def test_what_is_wrong_only_where_keys_equal_queries_is_seen():
    assert answer(diagnose(wrong_if_square)) == "scale-missing"
    assert diagnose(lambda q, k, v: empty_if_square(q, k, v).softmax(-1) @ v).ok is False


# --- sequences ------------------------------------------------------------------------------------


def heads_as_sequences(number, in_front, read, order):
    """Return a layer whose heads are sequences, (N * H, L, d) or (H * N, L, d), and read again."""

    def forward(self, x):
        parts = (part.transpose(0, 1) if in_front else part for part in self.parts(x))
        out = right(*(part.flatten(0, 1) for part in parts))
        out = out.unflatten(0, (number, -1) if read == "HN" else (-1, number))
        return self.o(out.permute(order).reshape(x.shape))

    made = layer(forward=forward, cut=lambda self, x: x.unflatten(-1, (number, -1)).transpose(1, 2))
    made.num_heads = number
    return made


@pytest.mark.parametrize("number", [2, 3, 4])
@pytest.mark.parametrize(
    ("in_front", "read", "order"),
    [(False, "HN", (0, 2, 1, 3)), (False, "HN", (1, 2, 0, 3)), (True, "NH", (0, 2, 1, 3))],
)
def test_heads_and_sequences_that_are_exchanged_are_named(number, in_front, read, order):
    report = diagnose(heads_as_sequences(number, in_front, read, order))
    assert names(report) == ["batch-mixing"]
    right_reading, wrong_one = ("H, N", "N, H")[:: 1 if in_front else -1]
    assert report.findings[0].fix == f"view({right_reading}, L, d), not view({wrong_one}, L, d)."
    seen_with_three = "shows with 3 sequences, and not with 2" in report.summary
    assert seen_with_three == (number == 4 and order[0] == 0 and not in_front)


@pytest.mark.parametrize("number", [2, 3, 4])
def test_heads_as_sequences_are_right_in_either_order(number):
    assert diagnose(heads_as_sequences(number, False, "NH", (0, 2, 1, 3))).ok is True
    assert diagnose(heads_as_sequences(number, True, "HN", (1, 2, 0, 3))).ok is True


def exchanged_in_a_function(q, k, v):
    """Take q (N, H, L, d)."""
    out = right(*(part.flatten(0, 1) for part in (q, k, v)))
    return out.unflatten(0, (q.shape[1], -1)).transpose(0, 1)


def test_three_sequences_show_what_two_hide():
    assert "not view(H, N, L, d)" in diagnose(exchanged_in_a_function).findings[0].fix
    for count in (3, 5):
        only = diagnose(
            lambda q, k, v, N=count: right(q, k, v) + (v.mean() if len(q) == N else 0.0)
        )
        assert answer(only) == "batch-mixing"
    assert diagnose(lambda q, k, v: right(q, k, v)).ok is True


class General(nn.Module):
    """Attention with one projection, over scores that are flattened first."""

    def __init__(self, dim):
        super().__init__()
        self.dim, self.linear = dim, nn.Linear(12, 12, bias=False)

    def forward(self, query, context):
        scores = self.linear(query) @ context.mT / 12**0.5
        weights = scores.flatten(0, 1).softmax(self.dim).view_as(scores)
        return weights @ context, weights


def test_a_softmax_over_flattened_scores_is_told_from_a_right_one():
    assert answer(diagnose(General(0))) == "softmax-axis"
    assert diagnose(General(-1)).ok is True


# --- dtypes and the size of numbers ---------------------------------------------------------------


def far_below(fill):
    """Return causal attention that subtracts a large number from every score."""

    def attend(self, query, key, value):
        scores = scored(query, key)
        later = torch.ones_like(scores).triu(1) * fill
        return (scores + fill + later.nan_to_num(0.0)).softmax(-1) @ value

    return layer(attend=attend)


def naive(q, k, v):
    weights = scored(q, k).exp()
    return weights / weights.sum(-1, keepdim=True) @ v


def steady(q, k, v):
    weights = (scored(q, k) - scored(q, k).amax(-1, keepdim=True)).exp()
    return weights / weights.sum(-1, keepdim=True) @ v


def test_float32_shows_what_float64_hides():
    for made in (far_below(-1e9), lambda q, k, v: (scored(q, k) - 1e9).softmax(-1) @ v):
        report = diagnose(made)
        assert report.ok is False
        assert "float32" in report.summary


def test_large_scores_show_an_exponential_that_overflows():
    report = diagnose(naive)
    assert answer(report) == "nan"
    assert "float32" in report.summary
    assert diagnose(steady).ok is True
    assert answer(diagnose(layer(attend=lambda self, *parts: naive(*parts)))) == "nan"


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_a_half_precision_layer_is_called_as_it_is(dtype):
    def attend(self, query, key, value):
        return scored(query, key).masked_fill(torch.zeros(1) > 0, -1e9).softmax(-1) @ value

    def mixed(self, query, key, value):
        return right(query, key, value).float() @ torch.eye(4, dtype=value.dtype)

    assert answer(diagnose(layer(attend=mixed).to(dtype))) == "raises"
    assert diagnose(Layer().to(dtype)).ok is True
    assert answer(diagnose(layer(attend=attend).half())) == "raises"


def test_the_first_line_names_dtypes_mode_and_sizes_of_numbers():
    first_line = repr(diagnose(Layer())).splitlines()[0]
    for words in ("x (2, 5, 12)", "float64 and float32", "eval mode", "ordinary and large scores"):
        assert words in first_line


# --- masks ----------------------------------------------------------------------------------------


def of_both(fill, causal):
    """Return a layer in which padded tokens neither ask nor answer."""

    def forward(self, x, mask=None):
        query, key, value = self.parts(x)
        may = torch.ones(x.shape[1], x.shape[1]).tril(0 if causal else x.shape[1]) > 0
        if mask is not None:
            may = may & (mask[:, None] & mask[:, :, None])[:, None]
        return self.o(self.join(scored(query, key).masked_fill(~may, fill).softmax(-1) @ value))

    return layer(Masked, forward=forward)


@pytest.mark.parametrize("fill", [-math.inf, -1e9])
@pytest.mark.parametrize("causal", [False, True])
def test_padded_tokens_are_not_judged_as_queries(fill, causal):
    assert diagnose(of_both(fill, causal)).ok is True


def repeated(repeat):
    def forward(self, x, mask=None):
        query, key, value = (part.flatten(0, 1) for part in self.parts(x))
        blocked = torch.zeros(1) > 0 if mask is None else ~repeat(mask)[:, None]
        heads = scored(query, key).masked_fill(blocked, -math.inf).softmax(-1) @ value
        return self.o(self.join(heads.unflatten(0, (-1, H))))

    return layer(Masked, forward=forward)


def test_a_mask_in_a_wrong_order_of_heads_is_answered_with_the_right_one():
    report = diagnose(repeated(lambda mask: mask.repeat(H, 1)))
    assert "repeat_interleave" in report.findings[0].fix
    assert diagnose(repeated(lambda mask: mask.repeat_interleave(H, dim=0))).ok is True


class Sometimes(Layer):
    """Causal with a mask; without one only if it is right."""

    right = False

    def forward(self, x, mask=None):
        query, key, value = self.parts(x)
        may = torch.ones(x.shape[1], x.shape[1]).tril() > 0
        if mask is not None:
            may = may & mask[:, None, None]
        elif not self.right:
            may = may | True
        return self.o(self.join(scored(query, key).masked_fill(~may, -1e9).softmax(-1) @ value))


def test_an_order_that_comes_only_with_a_mask_is_named():
    assert answer(diagnose(Sometimes())) == "causal-missing"
    assert diagnose(layer(Sometimes, right=True)).ok is True


def both_at_once(self, x, mask=None):
    mask = None if mask is None else mask.view(len(x), 1, 1, -1).bool()
    heads = F.scaled_dot_product_attention(*self.parts(x), mask, is_causal=True)
    return self.o(self.join(heads))


def test_a_mask_beside_is_causal_is_told_as_torch_tells_it():
    report = diagnose(layer(Masked, forward=both_at_once))
    assert answer(report) == "raises"
    assert "is_causal" in report.summary
    assert "combine" in report.findings[0].fix


# --- what a call leaves behind --------------------------------------------------------------------


def assigning(name, before, after):
    """Return a layer of which every call sets an attribute."""

    def forward(self, x):
        setattr(self, name, after)
        return Layer.forward(self, x)

    made = layer(forward=forward)
    setattr(made, name, before)
    return made


@pytest.mark.parametrize(
    ("name", "before", "after", "cause"),
    [
        ("dropout_p", 0.1, 0.0, "remembers"), ("is_causal", False, True, "remembers"),
        ("scale", 0.5, 0.25, "remembers"), ("num_heads", 3, 1, "remembers"),
        ("calls", 0, 1, None), ("last", None, 3.0, None),
    ],
)  # fmt: skip
def test_settings_that_a_call_changes_are_named(name, before, after, cause):
    assert answer(diagnose(assigning(name, before, after))) == cause


def cached(causal, query, key, value, past_key=None, past_value=None):
    if past_key is not None:
        key, value = torch.cat([past_key, key], -2), torch.cat([past_value, value], -2)
    L, S = query.shape[-2], key.shape[-2]
    return masked(query, key, value, torch.ones(L, S).tril(causal(L, S)) > 0)


@pytest.mark.parametrize(
    ("causal", "cause"), [(lambda L, S: 0, "cache"), (lambda L, S: S - L, None)]
)
def test_the_cache_of_a_function_is_tried(causal, cause):
    def attention(query, key, value, past_key=None, past_value=None):
        return cached(causal, query, key, value, past_key, past_value)

    def of_a_pair(query, key, value, past_kv=None):
        return cached(causal, query, key, value, *(past_kv or ()))

    for made in (attention, of_a_pair):
        report = diagnose(made)
        assert answer(report) == cause
        assert not report.untried
