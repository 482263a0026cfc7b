"""How attention functions are called, what is asked for, and which conventions are understood."""

import warnings
from dataclasses import dataclass
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnlab.clinic import diagnose


def scores_of(query, key):
    return query @ key.transpose(-2, -1) / query.shape[-1] ** 0.5


def scripted_by_torch(function):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return torch.jit.script(function)


def attend(query, key, value, blocked=None):
    scores = scores_of(query, key)
    if blocked is not None:
        scores = scores.masked_fill(blocked, -1e9)
    return scores.softmax(dim=-1) @ value


# --- correct ones that are called as they want ----------------------------------------------------


def scale_and_past(query, key, value, scale=None, past=None):
    return (query @ key.mT * (scale or query.shape[-1] ** -0.5)).softmax(dim=-1) @ value


def factor_given(query, key, value, scale):
    return (query @ key.mT * scale).softmax(dim=-1) @ value


def divisor_given(query, key, value, mask, scale):
    scores = query @ key.mT / scale
    scores = scores if mask is None else scores.masked_fill(mask == 0, -1e9)
    return scores.softmax(dim=-1) @ value


def module_for_dropout(query, key, value, dropout: nn.Dropout):
    return dropout(scores_of(query, key).softmax(dim=-1)) @ value


def mask_of_sequences(q, k, v, mask):
    return attend(q, k, v, ~mask.view(len(q), -1, k.shape[-2]))


def mask_of_numbers(q, k, v, mask):
    return (scores_of(q, k) + (1.0 - mask) * -1e9).softmax(dim=-1) @ v


def mask_of_another_name(q, k, v, m=None):
    return attend(q, k, v, None if m is None else ~m)


def names_only(*, query, key, value, mask=None):
    return attend(query, key, value, None if mask is None else ~mask)


def heads_to_split(q, k, v, num_heads):
    q, k, v = (part.unflatten(-1, (num_heads, -1)).transpose(1, 2) for part in (q, k, v))
    return F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)


def order_of_the_last_queries(q, k, v):
    scores = scores_of(q, k)
    L, S = scores.shape[-2:]
    return scores.masked_fill(torch.ones_like(scores).tril(S - L) == 0, -torch.inf).softmax(-1) @ v


def true_is_blocked_in_words(q, k, v, mask=None):
    """Attend; True in mask indicates masking."""
    return attend(q, k, v, mask)


def two_masks(q, k, v, attn_mask=None, key_padding_mask=None):
    blocked = torch.zeros(len(q), q.shape[-2], k.shape[-2], dtype=torch.bool, device=q.device)
    if attn_mask is not None:
        blocked = blocked | ~attn_mask
    if key_padding_mask is not None:
        blocked = blocked | key_padding_mask[:, None, :]
    return attend(q, k, v, blocked)


def biases_by_distance(q, k, v):
    L, S = q.shape[-2], k.shape[-2]
    apart = (torch.arange(L, device=q.device)[:, None] - torch.arange(S, device=q.device)).abs()
    return (scores_of(q, k) - 0.5 * apart).softmax(dim=-1) @ v


def one_head_of_keys(q, k, v):
    scores = torch.einsum("nhld,nsd->nhls", q, k) * q.shape[-1] ** -0.5
    return torch.einsum("nhls,nsd->nhld", scores.softmax(dim=-1), v)


def heads_behind_the_tokens(q, k, v):
    """q, k, v: [batch, query_len, heads, head_dim]."""
    scores = torch.einsum("nqhd,nkhd->nhqk", q, k) * q.shape[-1] ** -0.5
    return torch.einsum("nhqk,nkhd->nqhd", scores.softmax(dim=-1), v)


@dataclass
class Attended:
    output: Tensor
    weights: Tensor


def dataclass_returned(q, k, v):
    weights = scores_of(q, k).softmax(dim=-1)
    return Attended(weights @ v, weights)


@scripted_by_torch
def scripted(q, k, v, mask: Tensor | None = None):
    scores = q @ k.transpose(-2, -1) / float(q.size(-1)) ** 0.5
    if mask is not None:
        scores = scores.masked_fill(~mask, -1e9)
    return scores.softmax(-1) @ v


CORRECT = (
    scale_and_past,
    factor_given,
    divisor_given,
    module_for_dropout,
    mask_of_sequences,
    mask_of_numbers,
    mask_of_another_name,
    names_only,
    heads_to_split,
    order_of_the_last_queries,
    true_is_blocked_in_words,
    two_masks,
    biases_by_distance,
    one_head_of_keys,
    heads_behind_the_tokens,
    dataclass_returned,
    scripted,
)


@pytest.mark.parametrize("function", CORRECT, ids=lambda one: getattr(one, "__name__", "scripted"))
def test_a_correct_function_is_called_as_it_wants(function):
    report = diagnose(function)
    assert report.ok, repr(report)


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (factor_given, "scale = 1/sqrt(d_k)"),
        (divisor_given, "scale = sqrt(d_k)"),
        (true_is_blocked_in_words, "True means blocked"),
        (biases_by_distance, "depends on the positions alone"),
        (one_head_of_keys, "one head of keys and values"),
        (heads_behind_the_tokens, "heads behind the tokens"),
    ],
)
def test_a_convention_is_good_to_know(function, words):
    assert any(words in note for note in diagnose(function).notes)


# --- wrong ones -----------------------------------------------------------------------------------


def thrown_away(query, key, value, mask, dropout):
    scores = scores_of(query, key)
    if mask is not None:
        scores.masked_fill(mask == 0, -1e9)
    weights = scores.softmax(dim=-1)
    return (weights if dropout is None else dropout(weights)) @ value


def second_mask_from_raw_scores(q, k, v, attn_mask=None, key_padding_mask=None):
    raw = scores = scores_of(q, k)
    if attn_mask is not None:
        scores = raw.masked_fill(~attn_mask, -1e9)
    if key_padding_mask is not None:
        scores = raw.masked_fill(~key_padding_mask[:, None, :], -1e9)
    return scores.softmax(dim=-1) @ v


def softmax_twice(q, k, v):
    return scores_of(q, k).softmax(dim=-1).softmax(dim=-1) @ v


def keys_with_keys_and_biases(q, k, v):
    return biases_by_distance(k, k, v)


def low_fill_under_another_name(q, k, v, m=None):
    scores = scores_of(q, k)
    return (scores if m is None else scores.masked_fill(~m, -3.0)).softmax(dim=-1) @ v


def masks_repeated_as_a_whole(q, k, v, mask=None):
    """Attention with heads, (N, H, L, E)."""
    n, heads = q.shape[:2]
    if mask is not None:
        mask = ~mask.repeat(heads, 1, 1).view(n, heads, -1, k.shape[-2])
    return attend(q, k, v, mask)


@scripted_by_torch
def scripted_without_its_mask(q, k, v, mask: Tensor | None = None):
    return (q @ k.transpose(-2, -1) / float(q.size(-1)) ** 0.5).softmax(-1) @ v


WRONG = {
    thrown_away: ("mask-ignored", "returns a new tensor: assign it"),
    second_mask_from_raw_scores: ("mask-ignored", "to the masked scores"),
    softmax_twice: ("scores-not-dot-products", "softmax once"),
    keys_with_keys_and_biases: ("wrong-source", "compare query with key"),
    low_fill_under_another_name: ("mask-finite", "-torch.inf"),
    masks_repeated_as_a_whole: ("mask-broadcast", "repeat_interleave"),
    scripted_without_its_mask: ("mask-ignored", "masked_fill(~mask, -torch.inf)"),
}


@pytest.mark.parametrize("function", WRONG, ids=lambda one: getattr(one, "__name__", "scripted"))
def test_a_wrong_function_is_named_and_gets_advice_that_fits(function):
    report = diagnose(function)
    name, advice = WRONG[function]
    assert [finding.name for finding in report.findings][:1] == [name], repr(report)
    assert advice in report.findings[0].fix


def test_a_mask_of_the_other_meaning_is_told_as_a_convention():
    def attention(q, k, v, mask=None):
        return attend(q, k, v, mask)

    sentence = diagnose(attention).findings[0].sentence
    assert "nn.MultiheadAttention" in sentence
    assert 'mask="blocked"' in sentence
    assert diagnose(attention, mask="blocked").ok
    (finding,) = diagnose(mask_of_another_name, mask="blocked").findings
    assert "True means “may attend” in this mask" in str(finding)


# --- what some code insists on --------------------------------------------------------------------


def fewer_heads_of_keys(query, key, value):
    """q: (N, H, L, E), with fewer heads of keys and values."""
    groups = query.size(1) // key.size(1)
    key, value = (part.repeat_interleave(groups, dim=1) for part in (key, value))
    return attend(query, key, value)


def window_on_both_sides(q, k, v, radius=2):
    ones = torch.ones(q.shape[-2], q.shape[-2], dtype=torch.bool, device=q.device)
    return attend(q, k, v, ~ones.triu(-radius).tril(radius))


def mask_of_batches(q, k, v, mask=None):
    return attend(q, k, v, None if mask is None else ~mask.unsqueeze(1))


def numbers_to_add(q, k, v, attn_mask=None):
    """attn_mask: floats of (batch, L, S) to add."""
    scores = scores_of(q, k)
    return (scores if attn_mask is None else scores + attn_mask).softmax(dim=-1) @ v


def even_widths(q, k, v):
    halves = q.unflatten(-1, (2, -1)), k.unflatten(-1, (2, -1))
    return attend(*(part.flatten(-2) for part in halves), v)


class Tempered(nn.Module):
    def __init__(self, temperature):
        super().__init__()
        self.temperature = temperature

    def forward(self, q, k, v):
        return (q / self.temperature @ k.transpose(-2, -1)).softmax(dim=-1) @ v


class OfOneWidth(nn.Module):
    def __init__(self, d_k):
        super().__init__()
        self.d_k = d_k

    def forward(self, q, k, v):
        return (q @ k.transpose(-2, -1) / self.d_k).softmax(dim=-1) @ v


def factor_by_default(q, k, v, scale=0.25):
    return (q @ k.transpose(-2, -1) * scale).softmax(dim=-1) @ v


def aligned_above(q, k, v):
    """Causal."""
    scores = scores_of(q, k)
    return scores.masked_fill(torch.ones_like(scores).tril() == 0, -torch.inf).softmax(-1) @ v


@pytest.mark.parametrize(
    ("function", "note"),
    [
        (fewer_heads_of_keys, "(N, H, L, E)"),
        (window_on_both_sides, "It works only with L = S"),
        (mask_of_batches, "One sequence alone"),
        (numbers_to_add, "is added to the scores"),
        (even_widths, "powers of two"),
        (Tempered(8**0.5), "temperature = 2.828"),
        (factor_by_default, "scale = 0.25"),
        (partial(factor_given, scale=0.25), "scale = 0.25"),
        (aligned_above, "upper left"),
        (partial(F.scaled_dot_product_attention, is_causal=True), "upper left"),
        (F.scaled_dot_product_attention, "upper left"),
    ],
)
def test_what_code_insists_on_is_a_note(function, note):
    report = diagnose(function)
    assert report.ok, repr(report)
    assert any(note in one for one in report.notes), report.notes


def after_a_cache(q, k, v):
    """Causal; the queries are the newest tokens, and keys and values those of all tokens."""
    return aligned_above(q, k, v)


def padding_in_words(q, k, v, key_padding_mask=None):
    """key_padding_mask: (batch, keys), True at padding."""
    return attend(q, k, v, None if key_padding_mask is None else ~key_padding_mask[:, None])


@pytest.mark.parametrize(
    ("function", "name", "words"),
    [
        (after_a_cache, "causal-off-by-one", "the last"),
        (padding_in_words, "mask-inverted", "its own words"),
        (OfOneWidth(64), "scale-constant", "right for d_k"),
    ],
)
def test_words_of_its_own_decide_what_behaviour_cannot(function, name, words):
    (finding,) = diagnose(function).findings
    assert finding.name == name
    assert words in str(finding)


def eight_heads_of_64(q, k, v):
    q, k, v = (part.view(*part.shape[:-1], 8, 64).transpose(1, 2) for part in (q, k, v))
    return F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(-2)


def not_transposed(q, k, v):
    return (q @ k / q.shape[-1] ** 0.5).softmax(dim=-1) @ v


def misspelt(q, k, v):
    return attend(q, k, value)  # noqa: F821


def test_only_its_own_fault_is_a_finding_where_no_call_works():
    report = diagnose(eight_heads_of_64)
    assert report.ok is None
    assert "RuntimeError" in report.gap.why
    assert "call=" in report.gap.remedy
    for function in (not_transposed, misspelt):
        assert [one.name for one in diagnose(function).findings] == ["raises"]


# --- what is asked for ----------------------------------------------------------------------------


def window_wanted(q, k, v, w):
    i, j = torch.arange(q.shape[-2])[:, None], torch.arange(k.shape[-2])
    return attend(q, k, v, (i - j).abs() >= w)


def rotations_wanted(q, k, v, cos, sin):
    return attend(q * cos + q.flip(-1) * sin, k * cos + k.flip(-1) * sin, v)


def refuses_the_width(q, k, v):
    assert q.shape[-1] == 64, "64 features only"
    return attend(q, k, v)


def blocks_whatever_it_gets(q, k, v, mask):
    return attend(q, k, v, torch.ones_like(scores_of(q, k), dtype=torch.bool) | (mask == 0))


@pytest.mark.parametrize(
    ("function", "call"),
    [
        (window_wanted, "w="),
        (rotations_wanted, "cos=None, sin=None"),
        (refuses_the_width, "refuses_the_width(query, key, value)"),
        (blocks_whatever_it_gets, "mask="),
    ],
)
def test_what_nobody_can_know_is_asked_for(function, call):
    report = diagnose(function)
    assert report.ok is None, repr(report)
    assert not report.findings
    assert call in report.gap.call
    assert "call=" in report.gap.remedy


def test_an_adapter_without_a_mask_leaves_the_mask_unexamined():
    for call in (
        lambda target, q, k, v: target(q, k, v),
        lambda target, q, k, v, attn_mask: target(q, k, v),
    ):
        report = diagnose(thrown_away_if_given, call=call)
        assert report.ok
        assert any("no mask" in note for note in report.notes)


def thrown_away_if_given(query, key, value, mask=None):
    return thrown_away(query, key, value, mask, None)


def test_rotated_queries_and_keys_are_not_called_wrong():
    def rotated(q, k, v):
        def turned(x):
            angle = 0.3 * torch.arange(x.shape[-2], device=x.device)[:, None]
            one, two = x[..., :5], x[..., 5:10]
            parts = one * angle.cos() - two * angle.sin(), one * angle.sin() + two * angle.cos()
            return torch.cat([*parts, x[..., 10:]], dim=-1)

        return attend(turned(q), turned(k), v)

    report = diagnose(rotated)
    assert report.ok is None
    assert not report.findings
