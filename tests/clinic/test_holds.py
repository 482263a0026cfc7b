"""No line under "Checked and found to hold" is written where it is false.

For each line there are functions or layers in which just this does not hold; none may get it. A
correct one of the same kind gets it, so that the line is not simply missing.
"""

import math
import re
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import attnlab.clinic
from attnlab.clinic import diagnose
from tests.clinic.parts import (
    Cross,
    E,
    H,
    Layer,
    Masked,
    causal,
    causal_attention,
    hidden,
    layer,
    masked,
    names,
    right,
    rotary,
    scored,
)


def attend(**changes):
    return layer(attend=changes["by"])


class Memory(Cross):
    """Cross-attention with a mask of its memory, of which a mean leaks by ``leak``."""

    leak = 0.1

    def forward(self, query, key, value, key_padding_mask=None):
        """key_padding_mask is True for tokens that may be attended."""
        query, key, value = self.parts(query, key, value)
        scores = scored(query, key)
        if key_padding_mask is not None:
            scores = scores.masked_fill(~key_padding_mask[:, None, None], -math.inf)
        heads = scores.softmax(-1) @ value
        return self.o(self.join(heads)) + self.leak * self.join(value).mean(1, keepdim=True)


class TwoMasks(Layer):
    lost = ""

    def forward(self, x, attn_mask=None, key_padding_mask=None):
        """In both masks True may be attended."""
        query, key, value = self.parts(x)
        scores = scored(query, key)
        masks = {"attn": attn_mask, "pad": key_padding_mask}
        if None not in masks.values():
            masks.pop(self.lost, None)
        if masks.get("attn") is not None:
            scores = scores.masked_fill(~masks["attn"], -math.inf)
        if masks.get("pad") is not None:
            scores = scores.masked_fill(~masks["pad"][:, None, None], -math.inf)
        return self.o(self.join(scores.softmax(-1) @ value))


def two_masks(lost):
    return type("TwoMasks", (TwoMasks,), {"lost": lost})()


def weighed(how):
    """Return an attention that returns weights beside its output."""

    def attention(query, key, value):
        weights = scored(query, key).softmax(-1)
        return weights @ value, how(weights)

    return attention


class Cached(Layer):
    """Causal self-attention that goes on from a cache."""

    def old(self, past):
        return past

    def order(self, L, S):
        return torch.ones(L, S).tril(S - L) > 0

    def forward(self, x, past=None, use_cache=False):
        query, key, value = self.parts(x)
        if past is not None:
            past = self.old(past)
            key, value = (torch.cat([a, b], 2) for a, b in zip(past, (key, value), strict=True))
        scores = scored(query, key).masked_fill(~self.order(*query.shape[2:3], key.shape[2]),
                                                -math.inf)  # fmt: skip
        out = self.o(self.join(scores.softmax(-1) @ value))
        return (out, (key, value)) if use_cache else out


def grouped(key_by, value_by):
    """Return attention with fewer heads of keys and values."""

    def attention(q, k, v):
        """Take q (B, heads, L, D), and fewer heads of k and v."""
        groups = q.shape[1] // k.shape[1]
        return F.scaled_dot_product_attention(q, key_by(k, groups), value_by(v, groups))

    return attention


def near(x, groups):
    return x.repeat_interleave(groups, dim=1)


def far(x, groups):
    return x.repeat(1, groups, 1, 1)


def in_place(change):
    def attention(query, key, value, mask=None):
        output = masked(query, key, value, mask)
        change(query, key, value, mask)
        return output

    return attention


def clear(mask):
    if mask is not None:
        mask.fill_(True)


def split(x, heads):
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


def merge(x):
    return x.transpose(1, 2).flatten(2)


def by_heads(how):
    """Return a layer whose heads are joined in its own way."""
    return layer(join=lambda self, x: how(x))


def one_head(x):
    """Give every head what the first gives."""
    return x[:, :1].expand_as(x).transpose(1, 2).flatten(2)


def of_the_first(width):
    """Return a layer whose projection behind the heads is ``width`` features wide."""
    made = by_heads(lambda x: x.transpose(1, 2).flatten(2)[..., :width])
    made.o = nn.Linear(width, E)
    return made


def narrow(how):
    made = by_heads(how)
    made.o = nn.Linear(E // H, E)
    return made


def last_mean(self, x):
    return Layer.forward(self, x) + 0.1 * x.mean(1, keepdim=True)


def ordered(self, query, key, value):
    return causal_attention(query, key, value)


def moved(attention):
    return lambda q, k, v: attention(q, k, v) + 0.1 * v.mean(dim=0, keepdim=True)[..., :1, :]


HOLDS = {
    "sums": right,
    "products": right,
    "scale": right,
    "average": right,
    "causal": causal_attention,
    "heads": layer(),
    "apart": right,
    "weights": weighed(lambda weights: weights),
    "blocked-keys": masked,
    "empty-row": hidden,
    "both-masks": two_masks(""),
    "cache": layer(Cached),
    "groups": grouped(near, near),
    "positions": rotary(1, 1, 0),
    "sides": Cross(),
    "arguments": masked,
    "gradients": layer(),
    "pieces": split,
}
FALSE = {
    "sums": [
        lambda q, k, v: scored(q, k).sigmoid() @ v,
        lambda q, k, v: scored(q, k).softmax(-2) @ v,
        lambda q, k, v: scored(q, k).exp() / (2 + scored(q, k).exp().sum(-1, keepdim=True)) @ v,
        lambda q, k, v: 0.9 * scored(q, k).softmax(-1) @ v,
        layer(attend=lambda self, q, k, v: scored(q, k).softmax(1) @ v),
        layer(attend=lambda self, q, k, v: scored(q, k).relu() @ v),
    ],
    "products": [
        lambda q, k, v: (-torch.cdist(q, k)).softmax(-1) @ v,
        lambda q, k, v: (F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).mT).softmax(-1) @ v,
        lambda q, k, v: scored(q, k).tanh().softmax(-1) @ v,
        lambda q, k, v: scored(q + q.mean(-2, keepdim=True).relu(), k).softmax(-1) @ v,
        lambda q, k, v: scored(q.relu(), k).softmax(-1) @ v,
    ],
    "scale": [
        lambda q, k, v: (q @ k.mT).softmax(-1) @ v,
        lambda q, k, v: (q @ k.mT / q.shape[-1]).softmax(-1) @ v,
        lambda q, k, v: (q @ k.mT / 11**0.5).softmax(-1) @ v,
        lambda q, k, v: (scored(q, k) * 1.1).softmax(-1) @ v,
        layer(attend=lambda self, q, k, v: (q @ k.mT / E**0.5).softmax(-1) @ v),
        layer(attend=lambda self, q, k, v: right(q / 2, k, v)),
    ],
    "average": [
        lambda q, k, v: right(q, k, v) + 1,
        lambda q, k, v: right(q, k, v).tanh(),
        lambda q, k, v: right(q, k, k),
        lambda q, k, v: right(q, k, v.flip(-2)),
        lambda q, k, v: right(q, k, v) * 1.2,
        lambda q, k, v: F.layer_norm(right(q, k, v), v.shape[-1:]),
    ],
    "causal": [
        lambda q, k, v: causal(scored(q, k), 1).softmax(-1) @ v,
        lambda q, k, v: causal_attention(q, k, v) + 0.1 * v.mean(-2, keepdim=True),
        lambda q, k, v: scored(q, k).softmax(-1).tril() @ v,
        lambda q, k, v: scored(q, k).masked_fill(
            torch.ones(q.shape[-2], k.shape[-2]).triu(1) > 0, -3.0).softmax(-1) @ v,
        layer(attend=ordered, forward=last_mean),
        layer(attend=ordered, parts=lambda self, x: [p - p.mean(2, keepdim=True) for p in
                                                     Layer.parts(self, x)]),
        layer(Masked, forward=lambda self, x, mask=None: Masked.forward(
            self, x, torch.ones(x.shape[1], x.shape[1]).tril() > 0 if mask is None else mask)),
        layer(attend=lambda self, q, k, v: torch.cat(
            [causal_attention(q, k, v)[:, :-1], right(q, k, v)[:, -1:]], 1)),
    ],
    "heads": [
        narrow(lambda x: x.mean(1)),
        narrow(lambda x: x.sum(1)),
        narrow(lambda x: x[:, 0]),
        narrow(lambda x: x.amax(1)),
        by_heads(one_head),
        by_heads(lambda x: x.mean(1, keepdim=True).expand_as(x).transpose(1, 2).flatten(2)),
        by_heads(lambda x: x.mean(1).repeat(1, 1, H)),
        by_heads(lambda x: x.flip(1).roll(1, 2).transpose(1, 2).flatten(2)),
        by_heads(lambda x: x.reshape(len(x), x.shape[2], -1)),
        by_heads(lambda x: F.pad(x[:, :2].transpose(1, 2).flatten(2), (0, E // H))),
        of_the_first(8),
        layer(cut=lambda self, x: x.reshape(len(x), H, x.shape[1], -1)),
        layer(cut=lambda self, x: x[..., : E // H][:, None].expand(-1, H, -1, -1)),
    ],
    "apart": [
        moved(right),
        lambda q, k, v: right(q, k.flip(0), v.flip(0)),
        lambda q, k, v: right(q, k, v) + 0.1 * v.std() * v.mean(-2, keepdim=True),
        lambda q, k, v: right(q - q.mean(0, keepdim=True), k, v),
        lambda q, k, v: right(q, k, v).roll(1, 0),
        lambda q, k, v: right(q, k, v) if len(q) < 3 else right(q, k, v).flip(0),
    ],
    "weights": [
        weighed(lambda weights: weights.mT),
        weighed(lambda weights: weights.log()),
        weighed(lambda weights: weights * 1.1),
        weighed(lambda weights: weights.roll(1, -1)),
        weighed(lambda weights: weights.softmax(-1)),
    ],
    "blocked-keys": [
        lambda q, k, v, mask=None: right(q, k, v),
        lambda q, k, v, mask=None: masked(q, k, v, None if mask is None else ~mask),
        lambda q, k, v, mask=None: right(q, k, v) if mask is None else (
            (scored(q, k) * mask).softmax(-1) @ v),
        lambda q, k, v, mask=None: right(q, k, v) if mask is None else (
            (scored(q, k).masked_fill(~mask, -4.0)).softmax(-1) @ v),
        lambda q, k, v, mask=None: right(q, k, v) if mask is None else (
            scored(q, k).softmax(-1) * mask @ v),
        lambda q, k, v, mask=None: masked(q, k, v, mask) + (
            0 if mask is None else 0.01 * v.mean(-2, keepdim=True)),
        Memory(),
        layer(Masked, forward=lambda self, x, mask=None: Masked.forward(self, x)),
        layer(Masked, forward=lambda self, x, key_padding_mask=None: Masked.forward(
            self, x, None if key_padding_mask is None else key_padding_mask[:, None, None])
            + 0.1 * x.mean(1, keepdim=True)),
        layer(Masked, forward=lambda self, x, mask=None: Masked.forward(
            self, x, None if mask is None else mask | (torch.arange(x.shape[1]) == 1))),
    ],
    "empty-row": [
        masked,
        lambda q, k, v, mask=None: right(q, k, v) if mask is None else (
            scored(q, k).masked_fill(~mask, -1e9).softmax(-1) @ v),
        lambda q, k, v, mask=None: hidden(q, k, v, mask) + (
            0 if mask is None else (~mask.any(-1, keepdim=True)).to(v)),
        lambda q, k, v, mask=None: masked(q, k, v, mask).nan_to_num(1.0),
    ],
    "both-masks": [
        two_masks("attn"),
        two_masks("pad"),
        layer(TwoMasks, forward=lambda self, x, attn_mask=None, key_padding_mask=None:
              TwoMasks.forward(self, x, attn_mask, None if attn_mask is not None
                               else key_padding_mask)),
        layer(TwoMasks, forward=lambda self, x, attn_mask=None, key_padding_mask=None:
              TwoMasks.forward(self, x, attn_mask) if key_padding_mask is None or attn_mask is None
              else TwoMasks.forward(self, x, attn_mask | key_padding_mask[:, None, None])),
    ],
    "cache": [
        layer(Cached, old=lambda self, past: (past[0], past[1].flip(2))),
        layer(Cached, old=lambda self, past: past[::-1]),
        layer(Cached, order=lambda self, L, S: torch.ones(L, S).tril() > 0),
        layer(Cached, old=lambda self, past: [p[:, :, 1:] for p in past]),
    ],
    "groups": [
        grouped(near, far), grouped(far, near), grouped(far, far),
        grouped(lambda x, groups: near(x, groups).flip(1), near),
    ],
    "positions": [
        layer(), rotary(1, 0, 0), rotary(1, -1, 0), rotary(1, 1, 1), rotary(0, 0, 1),
        rotary(1, 2, 0),
    ],
    "sides": [
        layer(Cross, forward=lambda self, query, key, value: Cross.forward(
            self, query, value, key)),
        layer(Cross, forward=lambda self, query, key, value: Cross.forward(
            self, key, query, query)),
        layer(Cross, forward=lambda self, query, key, value: Cross.forward(self, query, key, key)),
        layer(Cross, forward=lambda self, query, key, value: Cross.forward(
            self, query, query, query) + 0 * key.sum()),
    ],
    "arguments": [
        in_place(lambda q, k, v, mask: q.zero_()), in_place(lambda q, k, v, mask: k.mul_(2)),
        in_place(lambda q, k, v, mask: v.add_(1)), in_place(lambda q, k, v, mask: clear(mask)),
    ],
    "gradients": [
        layer(attend=lambda self, q, k, v: right(q, k.detach(), v)),
        layer(attend=lambda self, q, k, v: right(q, k, v.detach())),
        lambda q, k, v: right(q, k, v).detach(),
        lambda q, k, v: right(q, torch.tensor(k.tolist(), dtype=k.dtype), v),
        lambda query: right(query, query.detach(), query),
        layer(forward=lambda self, x: Layer.forward(self, x) + x - x.detach()),
        lambda q, k, v: right(q, k, v) + 0 * (q - q).abs().sqrt().sum(),
    ],
    "pieces": [
        lambda x, heads: x.reshape(len(x), heads, x.shape[1], -1),
        lambda x, heads: x.unflatten(-1, (-1, heads)).permute(0, 3, 1, 2),
        lambda x, heads: split(x, heads).flip(1),
        lambda x, heads: split(x, heads) * 2,
    ],
}  # fmt: skip
CASES = [(key, target) for key, targets in FALSE.items() for target in targets]


def held(target):
    return [said.key for said in diagnose(target).properties]


@pytest.mark.parametrize("key", HOLDS)
def test_the_line_is_written_where_it_is_true(key):
    assert key in held(HOLDS[key])
    assert len(FALSE[key]) >= 4


@pytest.mark.parametrize(("key", "target"), CASES, ids=[key for key, _ in CASES])
def test_the_line_is_not_written_where_it_is_false(key, target):
    report = diagnose(target)
    assert key not in [said.key for said in report.properties], repr(report)


def test_every_line_of_the_clinic_is_tried():
    files = Path(attnlab.clinic.__file__).parent.rglob("*.py")
    keys = {key for f in files for key in re.findall(r'held\(\s*"([\w-]+)"', f.read_text())}
    assert keys == FALSE.keys() == HOLDS.keys()


class CausalMean(nn.Module):
    """A mean of values, without queries and keys: of no later token if it is causal."""

    def __init__(self, causal):
        super().__init__()
        self.values, self.causal = nn.Linear(E, E), causal

    def forward(self, x):
        values = self.values(x) if self.causal else self.values(x).flip(-2)
        return values.cumsum(-2) / torch.arange(1, x.shape[-2] + 1)[:, None]


@pytest.mark.parametrize("is_causal", [True, False])
def test_a_layer_whose_attention_is_not_found_is_as_causal_as_its_name_says(is_causal):
    report = diagnose(CausalMean(is_causal))
    assert report.gap
    assert names(report) == ["causal-leak"] * (not is_causal)
    assert ("causal" in [said.key for said in report.properties]) == is_causal
