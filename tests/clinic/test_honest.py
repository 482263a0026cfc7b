"""What the clinic does not know it does not say: sizes, arguments, conventions, what is meant."""

import math
import time

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from attnlab.clinic import diagnose
from attnlab.clinic.causes import CAUSES
from tests.clinic.parts import (
    Causal,
    E,
    H,
    Masked,
    answer,
    causal_attention,
    kind,
    names,
    scored,
    turned,
)


def asked(report):
    return report.ok is None and report.gap.name


# --- sizes ----------------------------------------------------------------------------------------


class SizeOfTheBatch(Causal):
    def attend(self, query, key, value):
        N = len(query)
        scores = query @ key.mT / 2
        return scores.masked_fill(torch.ones(N, N).triu(1) == 1, -math.inf).softmax(-1) @ value


class BatchForLength(Causal):
    def forward(self, x):
        T, B, C = x.shape  # should be B, T, C
        parts = (f(x).view(B, T, H, -1).transpose(1, 2) for f in (self.q, self.k, self.v))
        return self.o(self.attend(*parts).transpose(1, 2).reshape(B, T, C))


class TurnedAtTheEnd(Causal):
    def forward(self, x):
        N, L, C = x.shape
        return super().forward(x).reshape(L, N, C)


@pytest.mark.parametrize("make", [SizeOfTheBatch, BatchForLength, TurnedAtTheEnd])
def test_what_works_only_for_as_many_tokens_as_sequences_is_not_ok(make):
    report = diagnose(make(), causal=True)
    assert report.ok is not True
    assert names(report) or report.gap


def test_causality_that_was_not_checked_leaves_the_outcome_open():
    class Sums(Causal):
        def attend(self, query, key, value):
            products = (query[..., :, None, :] * key[..., None, :, :]).sum(-1) / 2
            return products.softmax(-1) @ value

    assert diagnose(Causal(), causal=True).ok is True
    assert diagnose(Sums(), causal=True).ok is not True


# --- what was not tried ---------------------------------------------------------------------------


def test_the_first_line_names_the_sizes_and_what_was_not_tried():
    class Cached(Causal):
        def forward(self, x, past_key_value=None, use_cache=False):
            return super().forward(x)

    report = diagnose(Cached())
    first = repr(report).splitlines()[0]
    assert "x (2, 5, 12)" in first
    assert "Not tried: past_key_value, use_cache, train mode." in first
    assert "Not tried: past_key_value, use_cache, train mode." in report._repr_html_()


def test_a_declared_mask_that_is_not_found_leaves_the_outcome_open():
    def bloom(q, k, v, alibi=None):
        return F.scaled_dot_product_attention(q, k, v)

    assert diagnose(bloom).ok is True
    assert diagnose(bloom, mask="additive").ok is None


# --- how it is called -----------------------------------------------------------------------------


def test_arguments_before_query_are_no_trouble():
    def eager(module, query, key, value, attention_mask, scaling, dropout=0.0, **kwargs):
        """attention_mask is added to the scores."""
        weights = query @ key.transpose(2, 3) * scaling
        if attention_mask is not None:
            weights = weights + attention_mask
        weights = F.dropout(weights.softmax(-1), dropout, training=module.training)
        return (weights @ value).transpose(1, 2), weights

    assert diagnose(eager).findings == ()
    assert diagnose(lambda config, query, key, value: eager(None, query, key, value, None, 1)).gap


def test_tokens_may_be_called_h():
    class Hidden(Causal):
        def forward(self, h):
            return super().forward(h)

    assert diagnose(Hidden(), causal=True).ok is True


# --- names ----------------------------------------------------------------------------------------


class WrongMerge(Causal):
    def forward(self, x):
        joined = self.attend(*self.parts(x)).transpose(2, 3).contiguous()
        return self.o(joined.view(x.shape))


WRONG = {
    "wrong-source": lambda q, k, v: v[:, :1].expand(-1, q.shape[1], -1),
    "nan": lambda q, k, v: F.scaled_dot_product_attention(q, k, v) * math.nan,
    "not-normalised": lambda q, k, v: (lambda s: s / s.sum(-1, keepdim=True))(scored(q, k)) @ v,
    "mask-finite": lambda q, k, v: (
        scored(q, k).masked_fill(torch.ones(q.shape[-2], k.shape[-2]).triu(1) > 0, -10).softmax(-1)
        @ v
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_the_name_is_that_of_the_bug(name):
    report = diagnose(WRONG[name])
    assert names(report)[:1] == [name]
    assert "sum to 1.00 instead" not in report.summary


def test_a_merge_that_leaks_is_no_missing_mask():
    assert names(diagnose(WrongMerge(), causal=True))[:1] == ["merge-without-transpose"]


def test_lengths_used_the_wrong_way_around_are_told_of_as_lengths():
    def attention(queries, keys, values, valid_lens):
        places = torch.arange(keys.shape[1])
        blocked = (places < valid_lens[:, None])[:, None]
        return scored(queries, keys).masked_fill(blocked, -1e9).softmax(-1) @ values

    report = diagnose(attention)
    assert names(report) == ["mask-inverted"]
    assert "True" not in report.summary


# --- grouped heads, positions, caches -------------------------------------------------------------


class Grouped(Causal):
    """Six heads of queries, three of keys and values."""

    tiled = False

    def __init__(self):
        super().__init__()
        self.q, self.o = nn.Linear(E, 24), nn.Linear(24, E)

    def parts(self, x):
        query = self.q(x).unflatten(-1, (6, 4)).transpose(1, 2)
        key, value = self.cut(self.k(x)), self.cut(self.v(x))
        key = key.repeat_interleave(2, dim=1)
        value = value.repeat(1, 2, 1, 1) if self.tiled else value.repeat_interleave(2, dim=1)
        return query, key, value


class Tiled(Grouped):
    tiled = True


def rotated(*by):
    """Return causal attention whose queries, keys and values are turned by their positions."""

    def attend(self, *parts):
        return causal_attention(*map(turned, parts, by))

    return kind(attend=attend)


class Past(Causal):
    """Return its keys and values, and go on from those of before."""

    order, always = 1, True

    def forward(self, x, layer_past=None, use_cache=False):
        query, key, value = self.parts(x)
        if layer_past is not None:
            key, value = (torch.cat([old, new][:: self.order], dim=2)
                          for old, new in zip(layer_past, (key, value), strict=True))  # fmt: skip
        L, S = query.shape[-2], key.shape[-2]
        later = (torch.ones(L, S).triu(S - L + 1) > 0) & (self.always or L == S)
        weights = scored(query, key).masked_fill(later, -math.inf).softmax(-1)
        out = self.o(self.join(weights @ value))
        return (out, (key, value)) if use_cache else (out,)


class WrongOrder(Past):
    def forward(self, x, layer_past=None, use_cache=False):
        if layer_past is not None:
            layer_past = layer_past[0], layer_past[1].flip(2)
        return super().forward(x, layer_past, use_cache)


class OneByOne(Past):
    """Leave out the causal mask behind a cache, as one may for single tokens."""

    always = False


class Stretched(Causal):
    """Turn features the wrong way around, which changes their lengths."""

    def attend(self, query, key, value):
        angle = torch.arange(query.shape[-2]).to(query)[:, None]
        query, key = (x * angle.cos() + x.flip(-1) * angle.sin() for x in (query, key))
        return super().attend(query, key, value)


def spun(x, sign=1):
    """Turn neighbouring features as complex numbers."""
    speeds = 1e4 ** (-torch.arange(0, x.shape[-1], 2) / x.shape[-1])
    angles = sign * torch.arange(x.shape[-2])[:, None] * speeds
    pairs = torch.view_as_complex(x.unflatten(-1, (-1, 2)).contiguous())
    return torch.view_as_real(pairs * torch.polar(torch.ones_like(angles), angles)).flatten(-2)


@pytest.mark.parametrize(
    ("signs", "scale", "name"),
    [
        ((1, 1), None, None),
        ((1, 1), 1.0, "scale-missing"),
        ((1, 0), None, "positions"),
        ((1, -1), None, "positions"),
    ],
)
def test_positions_in_a_function_are_examined(signs, scale, name):
    def attention(q, k, v):
        q, k = map(spun, (q, k), signs)
        return F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=scale)

    report = diagnose(attention, causal=True)
    assert names(report) == ([name] if name else [])
    assert report.ok is (name is None)


def test_heads_inside_a_function_are_not_accused():
    def attention(*parts):
        heads = (part.unflatten(-1, (2, -1)).transpose(1, 2) for part in parts)
        return F.scaled_dot_product_attention(*heads).transpose(1, 2).flatten(2)

    report = diagnose(lambda query, key, value: attention(query, key, value))
    assert report.ok is None
    assert not report.findings


def test_where_a_causal_mask_lies_is_told():
    def causal_attention(q, k, v):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)

    report = diagnose(causal_attention)
    assert report.ok is True
    assert "aligned" in [note.key for note in report.notes]
    causal_attention.__doc__ = "The queries are the newest tokens."
    assert asked(diagnose(causal_attention)) == "cache"


@pytest.mark.parametrize(("tiled", "name"), [(False, None), (True, "wrong-source")])
def test_a_function_may_have_fewer_heads_of_keys(tiled, name):
    def attention(q, k, v):
        """Take q (B, heads, L, D), and fewer heads of k and v."""
        groups = q.shape[1] // k.shape[1]
        key = k.repeat(1, groups, 1, 1) if tiled else k.repeat_interleave(groups, dim=1)
        return F.scaled_dot_product_attention(q, key, v.repeat_interleave(groups, dim=1))

    report = diagnose(attention)
    assert names(report) == ([name] if name else []), repr(report)
    assert report.ok is (name is None)


def test_what_turns_features_without_keeping_their_lengths_is_asked_about():
    assert asked(diagnose(Stretched(), causal=True)) == "positions"


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (Grouped, None), (Tiled, "wrong-source"), (rotated(1, 1, 0), None),
        (rotated(1, 0, 0), "positions"), (rotated(-1, 1, 0), "positions"),
        (rotated(1, 1, 1), "positions"), (Past, None), (WrongOrder, "cache"), (OneByOne, None),
    ],
)  # fmt: skip
def test_grouped_heads_positions_and_caches_are_probed(make, name):
    report = diagnose(make(), causal=True)
    assert names(report)[:1] == ([name] if name else [])
    assert name or report.ok is True
    assert ("cache" in [note.key for note in report.notes]) == (make is OneByOne)


# --- what one call does not show ------------------------------------------------------------------

ALLOWED = {"mask": "allowed"}
CAUSAL_TOO = {"mask": "allowed", "causal": True}


class InPlaceOfTheOrder(Masked):
    def forward(self, x, mask=None):
        order = torch.ones(x.shape[1], x.shape[1]).tril() > 0
        return super().forward(x, order if mask is None else mask)


class Squeezed(Masked):
    def forward(self, x, mask=None):
        return super().forward(x, mask).squeeze(0)


class Constant(Causal):
    def __init__(self, factor):
        super().__init__()
        self.by = lambda scores: scores / factor

    def attend(self, query, key, value):
        return self.by(query @ key.mT).softmax(-1) @ value


def with_the_first_mask():
    kept = {}

    def attention(query, key, value, mask=None):
        if mask is not None:
            mask = kept.setdefault(mask.shape, mask)
        return F.scaled_dot_product_attention(query, key, value, mask)

    return attention


def with_keys_by_shape():
    kept = {}
    return lambda q, k, v: F.scaled_dot_product_attention(q, kept.setdefault(k.shape, k), v)


def of_positive_scores(query, key, value):
    shares = scored(query, key).relu()
    return shares / shares.sum(-1, keepdim=True).clamp_min(1e-9) @ value


@pytest.mark.parametrize(
    ("make", "name", "options"),
    [
        (Masked, None, ALLOWED), (InPlaceOfTheOrder, "causal-leak", CAUSAL_TOO),
        (Squeezed, "wrong-shape", ALLOWED),
        (lambda: Constant(8), "scale-constant", {}), (lambda: Constant(0.7), "scale-other", {}),
        (with_the_first_mask, "remembers", ALLOWED),
        (with_keys_by_shape, "scores-not-dot-products", {}),
        (lambda: of_positive_scores, "scores-not-dot-products", {}),
    ],
)  # fmt: skip
def test_what_one_call_does_not_show_is_looked_for(make, name, options):
    report = diagnose(make(), **options)
    assert answer(report) == name, repr(report)
    assert (report.ok is True) == (name is None)


# --- what is meant, and what is asked -------------------------------------------------------------


def capped(q, k, v):
    return (3 * torch.tanh(scored(q, k) / 3)).softmax(-1) @ v


def capped_high(q, k, v):
    return (50 * torch.tanh(scored(q, k) / 50)).softmax(-1) @ v


def with_a_sink(q, k, v):
    scores = scored(q, k)
    return scores.exp() / (1 + scores.exp().sum(-1, keepdim=True)) @ v


def mine(q, k, v):
    return (q @ k.mT).softmax(-1) @ v


@pytest.mark.parametrize(
    ("attention", "name"),
    [
        (capped, "scores-not-dot-products"),
        (capped_high, "scores-not-dot-products"),
        (with_a_sink, "not-normalised"),
        (mine, "scale-missing"),
    ],
)
def test_a_convention_of_its_own_ends_well_if_it_is_meant(attention, name):
    report = diagnose(attention)
    assert answer(report) == name
    assert f'meant={{"{name}"}}' in repr(report)
    meant = diagnose(attention, meant={name})
    assert meant.ok is True
    assert any(note.key == "meant" for note in meant.notes)


class Sunk(Causal):
    """Causal attention of which a learned part of each weight goes to a sink."""

    def __init__(self):
        super().__init__()
        self.sinks = nn.Parameter(torch.arange(float(H)))

    def attend(self, query, key, value, diagonal=1):
        scores = scored(query, key)
        later = torch.ones(scores.shape[-2:], device=scores.device).triu(diagonal) > 0
        shares = scores.masked_fill(later, -math.inf).exp()
        return shares / (shares.sum(-1, keepdim=True) + self.sinks[:, None, None].exp()) @ value


class SunkAhead(Sunk):
    def attend(self, query, key, value):
        return super().attend(query, key, value, diagonal=2)


def test_a_sink_is_asked_about_and_the_rest_examined():
    assert asked(diagnose(Sunk(), causal=True)) == "not-normalised"
    meant = {"causal": True, "meant": {"not-normalised"}}
    assert diagnose(Sunk(), **meant).ok is True
    assert names(diagnose(SunkAhead(), **meant))


@pytest.mark.parametrize("used", [True, False])
def test_a_mask_is_examined_beside_scores_without_a_name(used):
    def attention(query, key, value, mask=None):
        scores = 3 * torch.tanh(scored(query, key) / 3)
        if mask is not None and used:
            scores = scores.masked_fill(~mask, -math.inf)
        return scores.softmax(-1) @ value

    report = diagnose(attention, meant={"scores-not-dot-products"})
    assert names(report) == ([] if used else ["mask-ignored"])
    assert report.ok is used


@pytest.mark.parametrize("sign", ["padding", "real tokens, which may be attended"])
def test_a_docstring_says_what_a_padding_mask_means(sign):
    def forward(self, x, key_padding_mask=None):
        mask = None
        if key_padding_mask is not None:
            mask = (key_padding_mask if "real" in sign else ~key_padding_mask)[:, None, None]
        return self.o(self.join(F.scaled_dot_product_attention(*self.parts(x), mask)))

    forward.__doc__ = f"Attend; key_padding_mask is True for {sign}."
    assert diagnose(type("Padded", (Causal,), {"forward": forward})()).ok is True


def test_a_factor_that_cannot_be_told_leaves_the_outcome_open():
    class Normed(Causal):
        def attend(self, query, key, value):
            return super().attend(query / query.norm(dim=-1, keepdim=True), key, value)

    assert diagnose(Normed(), causal=True).ok is None


def test_lazy_layers_are_examined():
    class Lazy(Causal):
        def __init__(self):
            super().__init__()
            self.q, self.embed_dim = nn.LazyLinear(E), E

    assert diagnose(Lazy(), causal=True).ok is True


def test_only_names_of_findings_can_be_meant():
    with pytest.raises(ValueError, match="no-such-name"):
        diagnose(mine, meant={"no-such-name"})
    assert len(CAUSES) <= 45


def blocks(query, key, value, mask):
    return scored(query, key).masked_fill(mask, -math.inf).softmax(-1) @ value


def adds(query, key, value, mask):
    return (scored(query, key) + mask).softmax(-1) @ value


@pytest.mark.parametrize(
    ("attention", "name", "option"),
    [(blocks, "mask-inverted", "blocked"), (adds, "mask-added", "additive")],
)
def test_what_a_mask_means_is_asked_and_not_accused(attention, name, option):
    report = diagnose(attention)
    assert asked(report) == name
    assert f'mask="{option}"' in report.gap.remedy
    assert diagnose(attention, mask=option).ok is True
    assert names(diagnose(attention, mask="allowed")) == [name]


def test_which_axis_is_the_batch_is_asked():
    class Second(Causal):
        def forward(self, x):
            return super().forward(x.transpose(0, 1)).transpose(0, 1)

    assert asked(diagnose(Second(), causal=True)) == "batch-first"
    assert diagnose(Second(), causal=True, batch_first=False).ok is True


def test_numpy_is_examined_through_an_adapter():
    def of_numpy(query, key, value):
        scores = np.einsum("nle,nse->nls", query, key) / np.sqrt(query.shape[-1])
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        return (weights / weights.sum(-1, keepdims=True)) @ value

    assert asked(diagnose(of_numpy)) == "raises"
    through = diagnose(
        of_numpy, call=lambda f, q, k, v, mask: torch.from_numpy(f(q.numpy(), k.numpy(), v.numpy()))
    )
    assert through.ok is True, repr(through)


# --- time and hostile targets ---------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_compiled_code_is_unwrapped():
    assert diagnose(torch.compile(mine)).findings[0].name == "scale-missing"
    assert diagnose(nn.Sequential(torch.compile(Causal())), causal=True).ok is True


def test_what_is_slow_is_not_accused():
    def slow(query, key, value):
        end = time.process_time() + 0.5  # on any processor five times the limit
        while time.process_time() < end:
            pass
        return F.scaled_dot_product_attention(query, key, value)

    report = diagnose(slow, time_limit=0.1)
    assert (report.ok, names(report), report.gap.name) == (None, [], "hangs")
    assert "time_limit=0.4" in report.gap.remedy


def test_a_large_layer_takes_two_seconds():
    layer = nn.MultiheadAttention(4096, 32, batch_first=True)
    start = time.process_time()
    assert diagnose(layer).findings == ()
    assert time.process_time() - start < 6  # 2 on a quiet machine


def test_pieces_of_attention_are_not_accused():
    def attention_scores(query, key):
        return scored(query, key)

    def make_causal_mask(length):
        return torch.ones(length, length).tril()

    def no_peak(trg):
        return torch.ones(trg.shape[1], trg.shape[1]).tril()

    for piece in (attention_scores, no_peak, make_causal_mask):
        report = diagnose(piece)
        assert report.ok is None
        assert not report.findings
    assert "lesson 3" in report.gap.remedy


def resized(query, key, value):
    query.resize_(0)
    return value


def to_do(query, key, value):
    raise NotImplementedError


@pytest.mark.parametrize("target", [resized, to_do, int, 3, nn.Linear, "text"])
def test_hostile_targets_do_no_harm(target):
    report = diagnose(target)
    assert report.ok is not True
    assert "clinic itself" not in repr(report)
