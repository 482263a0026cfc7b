"""Layers that inherit from torch's, train mode and eval mode, and heads that do nothing."""

import torch
import torch.nn.functional as F
from torch import nn

from tests.clinic.learners.base import RIGHT, Base, broken, right
from tests.clinic.learners.heads import Drop
from tests.clinic.learners.masked import Pad, Tri


# ---- torch's own layers: is_causal is a hint beside a mask, True = blocked in masks
class OwnEncoder(nn.TransformerEncoderLayer):
    def __init__(s, **how):
        super().__init__(32, 4, 64, **how)


class Opposite(OwnEncoder):
    def forward(s, src, src_mask=None):
        return super().forward(src, None if src_mask is None else ~src_mask)


RIGHT += [
    (lambda: nn.TransformerEncoderLayer(32, 4, 64, batch_first=True), {}),
    (lambda: nn.TransformerEncoderLayer(32, 4, 64), {"strict": False}),
    (lambda: nn.TransformerDecoderLayer(32, 4, 64, batch_first=True), {}),
    (lambda: nn.Transformer(32, 4, 1, 1, 64, batch_first=True), {}),
    (lambda: OwnEncoder(batch_first=True), {}),
    (OwnEncoder, {}),
    (lambda: Opposite(batch_first=True), {}),
]


@right
class Hint(Tri):
    def forward(s, query, key, value, mask=None, is_causal=False):
        return super().forward(query, key, value, mask)


@right
class HintThatRaises(Tri):
    def forward(s, query, key, value, mask=None, is_causal=False):
        if is_causal and mask is None:
            raise ValueError("nothing to go by")
        return super().forward(query, key, value, mask)


@broken("causal-missing")
class CausalByFlag(Hint):
    pass


@broken("causal-missing")
class FlagOnly(Base):
    def forward(s, x, is_causal=False):
        return super().forward(x)


@broken("raises")
class FlagRaises(Tri):
    def forward(s, query, key, value, mask=None, is_causal=False):
        if is_causal:
            s.nope()
        return super().forward(query, key, value, mask)


# ---- train mode and eval mode
@broken("train-eval")
class ScaleInEval(Base):
    def score(s, q, k):
        return q @ k.mT * (1 if s.training else s.head_dim**-0.5)


@broken("train-eval")
class ScaleInTraining(Base):
    def score(s, q, k):
        return q @ k.mT * (s.head_dim**-0.5 if s.training else 1)


@broken("train-eval")
class ScaleInEvalWithDropout(ScaleInEval):
    def __init__(s):
        super().__init__(dropout=0.3)
        s.attn_dropout = 0.2

    def soft(s, scores):
        return F.dropout(super().soft(scores), s.attn_dropout, s.training)


@broken("train-eval")
class CentredInTraining(Base):
    def attend(s, q, k, v, m):
        return super().attend(q, k, v - v.mean(0) if s.training else v, m)


@broken("train-eval")
class PaddingInEval(Pad):
    def hide(s, scores, m):
        return scores if s.training else super().hide(scores, m)


@broken("train-eval")
class PaddingInTraining(Pad):
    def hide(s, scores, m):
        return super().hide(scores, m) if s.training else scores


@broken("train-eval")
class FlippedMemoryInTraining(Tri):
    def forward(s, query, key, value, mask=None):
        return super().forward(query, key.flip(2) if s.training else key, value, mask)


@right
class DropoutByHand(Drop):
    def __init__(s):
        super().__init__()
        s.dropout_p = 0.2

    def soft(s, scores):
        keep = torch.rand_like(scores) >= s.dropout_p
        weights = super().soft(scores)
        return weights * keep / (1 - s.dropout_p) if s.training else weights


@right
class NestedStack(nn.Module):
    """torch's fast path sets padded rows to 0 in eval mode only."""

    def __init__(s):
        super().__init__()
        s.embed_dim = 12
        layer = nn.TransformerEncoderLayer(12, 2, 20, batch_first=True)
        s.stack = nn.TransformerEncoder(layer, 2)

    def forward(s, x, key_padding_mask=None):
        return s.stack(x, src_key_padding_mask=key_padding_mask)


@right
class WithBatchNorm(Base):
    def __init__(s):
        super().__init__()
        s.norm = nn.BatchNorm1d(12)

    def forward(s, x):
        return s.norm(super().forward(x).mT).mT


@right
class DropoutByNumber(Base):
    def soft(s, scores):
        return F.dropout(super().soft(scores), 0.1, s.training)


# ---- a head that does nothing
@broken("wrong-source")
class LastHeadIdle(Base):
    idle = -1

    def attend(s, q, k, v, m):
        heads = super().attend(q, k, v, m).clone()
        heads[:, s.idle] = 0
        return heads


@broken("wrong-source")
class FirstHeadIdle(LastHeadIdle):
    idle = 0


@right
class PrunedHead(Base):
    """Its parameters are 0, its code is right."""

    def __init__(s):
        super().__init__()
        with torch.no_grad():
            s.v_proj.weight[8:] = 0
            s.v_proj.bias[8:] = 0


RIGHT += [
    (lambda: nn.MultiheadAttention(12, 3, add_bias_kv=True), {"strict": True}),
    (lambda: nn.MultiheadAttention(12, 3, add_zero_attn=True), {"strict": True}),
]
