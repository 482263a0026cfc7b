"""What bugs put into other people's code do not show: one table of behaviour, broken and correct.

Each row changes one step of correct attention, or is a whole implementation. ``names`` are those
of findings that are true of it; a row without names is correct.
"""

# ruff: noqa: F811  (a step is named score, hide, soft, ... wherever it is replaced)

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnlab import MultiHeadAttention, SelfAttention

# --- correct attention, in steps that a row may replace -------------------------------------------


class Steps:
    """The six steps of attention with heads, each of them correct."""

    def split(self, x: Tensor, num_heads: int) -> Tensor:
        return x.unflatten(-1, (num_heads, -1)).transpose(1, 2)

    def merge(self, x: Tensor) -> Tensor:
        return x.transpose(1, 2).flatten(2)

    def score(self, query: Tensor, key: Tensor) -> Tensor:
        return query @ key.transpose(-2, -1) / math.sqrt(query.size(-1))

    def hide(self, scores: Tensor, mask: Tensor) -> Tensor:
        return scores.masked_fill(~mask, float("-inf"))

    def soft(self, scores: Tensor) -> Tensor:
        return scores.softmax(dim=-1)

    def attend(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
        scores = self.score(query, key)
        return self.soft(scores if mask is None else self.hide(scores, mask)) @ value


def lower_triangle(query: Tensor, key: Tensor) -> Tensor:
    size = query.size(-2), key.size(-2)
    return torch.ones(size, dtype=torch.bool, device=query.device).tril()


def plain(steps: Steps) -> Callable:
    return lambda query, key, value: steps.attend(query, key, value, None)


def masked(steps: Steps) -> Callable:
    return lambda query, key, value, mask=None: steps.attend(query, key, value, mask)


def required(steps: Steps) -> Callable:
    return lambda Q, K, V, attn_mask: steps.attend(Q, K, V, attn_mask)


def causal(steps: Steps) -> Callable:
    def causal_attention(queries, keys, values):
        return steps.attend(queries, keys, values, lower_triangle(queries, keys))

    return causal_attention


def pair(steps: Steps) -> tuple[Callable, Callable]:
    return steps.split, steps.merge


def splitting(steps: Steps) -> Callable:
    return steps.split


def merging(steps: Steps) -> Callable:
    def merge_heads(x):
        return steps.merge(x)

    return merge_heads


class Layer(Steps, nn.Module):
    """Self-attention with heads, from (N, L, E) to (N, L, E)."""

    def __init__(self, embed_dim: int = 12, num_heads: int = 3, inner: int | None = None) -> None:
        super().__init__()
        self.num_heads, inner = num_heads, inner or embed_dim
        self.q_proj, self.k_proj, self.v_proj = (nn.Linear(embed_dim, inner) for _ in range(3))
        self.out_proj = nn.Linear(inner, embed_dim)

    def forward(self, x):
        return self.run(x, x, x)

    def run(self, query, key, value, mask=None):
        """Return the output; each forward says where the arguments come from."""
        query = self.split(self.q_proj(query), self.num_heads)
        key = self.split(self.k_proj(key), self.num_heads)
        value = self.split(self.v_proj(value), self.num_heads)
        return self.out_proj(self.merge(self.attend(query, key, value, mask)))


class CausalLayer(Layer):
    """Self-attention with a causal mask."""

    def forward(self, x):
        return self.run(x, x, x, lower_triangle(x, x))


class MaskedLayer(Layer):
    """Self-attention with a mask (L, L) or (N, 1, L, L)."""

    def forward(self, x, mask=None):
        return self.run(x, x, x, mask)


class PaddedLayer(Layer):
    """Self-attention with a mask (N, L) of real tokens."""

    def forward(self, x, mask=None):
        return self.run(x, x, x, None if mask is None else mask[:, None, None, :])


class CrossLayer(Layer):
    """Attention of a query to a key and a value, with a mask."""

    def forward(self, query, key, value, mask=None):
        return self.run(query, key, value, mask)


class WeightsLayer(Layer):
    """Self-attention that returns its weights too."""

    def attend(self, query, key, value, mask):
        self.weights = self.soft(self.score(query, key))
        return self.weights @ value

    def forward(self, x):
        return super().forward(x), self.weights


# --- the table ------------------------------------------------------------------------------------


class Row(NamedTuple):
    """One implementation.

    Attributes
    ----------
    title : str
        For the name of its test.
    make : callable
        Returns what is examined, in its initial state.
    names : list of str
        Of findings that are true of it; empty for correct code.
    options : dict
        For ``diagnose``.
    """

    title: str
    make: Callable[[], object]
    names: list[str]
    options: dict[str, object]


ROWS: list[Row] = []


def row(
    names: str,
    templates: tuple[Callable, ...],
    steps: dict[str, Callable],
    **options: object,
) -> None:
    """Add templates whose steps of these names are replaced."""
    for template in templates:
        of_layer = inspect.isclass(template)
        base, name = (template, template.__name__) if of_layer else (Steps, "Changed")
        made = type(name, (base,), steps)
        make = made if of_layer else lambda template=template, made=made: template(made())
        title = f"{template.__name__}: {' and '.join(steps)}, {names or 'correct'}"
        ROWS.append(Row(title, make, names.split(), options))


def step(names: str, *templates: Callable, **how: object) -> Callable[[Callable], Callable]:
    """Add templates with the decorated function as the step of its name."""
    return lambda function: row(names, templates, {function.__name__: function}, **how) or function


def whole(names: str, **options: object) -> Callable[[Callable[..., object]], Callable]:
    """Add a whole implementation, a function or a layer."""

    def declare(target: Callable) -> Callable:
        make = target if inspect.isclass(target) else lambda: target
        ROWS.append(Row(target.__name__, make, names.split(), options))
        return target

    return declare


def scores(names: str, score: Callable[[Tensor, Tensor], Tensor], *templates: Callable) -> None:
    """Add templates with other scores, made of query and key."""
    row(names, templates, {"score": lambda _, q, k: score(q, k)})


def softs(
    names: str, soft: Callable[[Tensor], Tensor], *templates: Callable, **how: object
) -> None:
    """Add templates with other weights, made of the scores."""
    row(names, templates, {"soft": lambda _, x: soft(x)}, **how)


def hides(
    names: str, hide: Callable[[Tensor, Tensor], Tensor], *templates: Callable, **how: object
) -> None:
    """Add templates with other hidden scores, made of scores and mask (True = may attend)."""
    row(names, templates, {"hide": lambda _, x, mask: hide(x, mask)}, **how)


def outputs(names: str, attend: Callable[..., object], *templates: Callable, **how: object) -> None:
    """Add templates with another output, made of the right function and query, key, value."""

    def changed(steps: Steps, query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> object:
        return attend(lambda q, k, v: Steps.attend(steps, q, k, v, mask), query, key, value)

    row(names, templates, {"attend": changed}, **how)


def forwards(names: str, forward: Callable, *templates: type, **how: object) -> None:
    """Add layers with another forward."""
    row(names, templates, {"forward": forward}, **how)


LEAK = "mask-leak"

# --- around the formula: errors, chance, memory, gradients, devices, dtypes -----------------------

scores("raises", lambda q, k: q @ k / math.sqrt(q.size(-1)), plain)
scores("raises", lambda q, k: q @ k.mT / math.sqrt(q.size()), plain, Layer)
outputs("not-done wrong-shape raises", lambda attend, q, k, v: None, plain)
forwards("not-done wrong-shape raises", lambda self, x: None, Layer)
outputs("wrong-type wrong-shape", lambda attend, q, k, v: [*attend(q, k, v)], plain)
outputs("wrong-shape", lambda attend, q, k, v: attend(q, k, v).mean(dim=-2), plain)
outputs("wrong-shape", lambda attend, q, k, v: attend(q, k, v).squeeze(), plain)
outputs("wrong-shape", lambda attend, q, k, v: (q @ k.mT).softmax(-1), plain)
outputs("nan", lambda attend, q, k, v: attend(q, k, v) * torch.nan, plain)
scores("modifies-input", lambda q, k: q.div_(math.sqrt(q.size(-1))) @ k.mT, plain)
hides("modifies-input", lambda x, mask: x.masked_fill(mask.logical_not_(), -torch.inf), masked)
forwards("modifies-input", lambda self, x: self.run(x.mul_(2), x, x), Layer)
softs("random", lambda x: F.dropout(x.softmax(-1), p=0.2), plain, Layer)
outputs("random", lambda attend, q, k, v: attend(q + torch.randn_like(q), k, v), plain, Layer)
softs("detached", lambda x: torch.tensor(x.softmax(-1).tolist()).to(x), plain)
softs("detached", lambda x: x.softmax(-1).detach(), plain, Layer)
forwards("detached", lambda self, x: self.run(x.data, x.data, x.data), Layer)


@whole("random")
def dropout_of_the_fused_kernel(q, k, v, dropout_p=0.2):
    return F.scaled_dot_product_attention(q, k, v, dropout_p=dropout_p)


@step("remembers", Layer)
def attend(self, query, key, value, mask):
    """Never empty the cache."""
    kept = getattr(self, "cache", (key[:, :, :0], value[:, :, :0]))
    if len(kept[0]) == len(key):
        key, value = (torch.cat(both, dim=2) for both in zip(kept, (key, value), strict=True))
    self.cache = key.detach(), value.detach()
    return Steps.attend(self, query, key, value, mask)


@step("remembers raises", CausalLayer)
def attend(self, query, key, value, mask):
    """Keep the mask of the first length."""
    self.allowed = getattr(self, "allowed", mask)
    return Steps.attend(self, query, key, value, self.allowed)


@whole("hangs", time_limit=0.2)
def loop_without_a_step(query, key, value):
    rows, i = [], 0
    while i < query.size(-2):
        rows[i:] = [plain(Steps())(query[..., i : i + 1, :], key, value)]
    return torch.cat(rows, dim=-2)


# --- scores, softmax and the sides that they come from --------------------------------------------

scores("scale-inverse scale-other", lambda q, k: q @ k.mT * q.size(-1) ** 0.5, plain, Layer)
scores("scale-quarter scale-other", lambda q, k: q * q.size(-1) ** -0.25 @ k.mT, plain, Layer)
scores("scale-length scale-other", lambda q, k: q @ k.mT / k.size(-2) ** 0.5, plain, Layer)
scores("scale-constant scale-other", lambda q, k: q @ k.mT / 8, plain, Layer)
scores("scale-other", lambda q, k: q @ k.mT / (0.7 * q.size(-1) ** 0.5), plain, Layer)
scores("scores-not-dot-products", lambda q, k: -torch.cdist(q, k) / q.size(-1) ** 0.5, plain)
scores("scores-not-dot-products", lambda q, k: (q @ k.mT / q.size(-1) ** 0.5).clamp(-3, 3), plain)
scores("query-key-swapped", lambda q, k: k @ q.mT / q.size(-1) ** 0.5, plain)
scores("wrong-source", lambda q, k: q @ q.mT / q.size(-1) ** 0.5, plain, Layer)
outputs("key-value-swapped", lambda attend, q, k, v: attend(q, v, k), plain)
outputs("wrong-source", lambda attend, q, k, v: attend(q, k, q), plain)
outputs("wrong-source", lambda attend, q, k, v: attend(q, k[..., 1:, :], v[..., 1:, :]), plain)
forwards("cross-side wrong-source", lambda self, q, k, v: self.run(k, q, q), CrossLayer)
forwards("cross-side wrong-source", lambda self, q, k, v: self.run(q, q, q), CrossLayer)
forwards("cross-side wrong-source", lambda self, q, k, v: self.run(q, k, k), CrossLayer)
forwards("key-value-swapped", lambda self, q, k, v: self.run(q, v, k), CrossLayer)
softs("softmax-axis", lambda x: x.softmax(0), Layer)
softs("not-normalised", lambda x: x.sigmoid(), plain, Layer)
softs("not-normalised", lambda x: x.log_softmax(-1), plain)
forwards("weights-differ", lambda self, x: (self.run(x, x, x), self.weights.mT), WeightsLayer)


@whole("weights-differ")
def unmasked_weights_returned(q, k, v, mask=None):
    output = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    return output, Steps().score(q, k).softmax(dim=-1)


# --- masks and causality --------------------------------------------------------------------------

hides("mask-added", lambda x, mask: x + mask, masked, MaskedLayer)
hides("mask-transposed mask-leak", lambda x, mask: x.masked_fill(~mask.mT, -1e9), MaskedLayer)
hides("nan", lambda x, mask: x + (1 - mask.to(x)) * -torch.inf, masked, required)
hides(f"mask-queries {LEAK}", lambda x, mask: x.masked_fill(~mask.mT, -1e9), PaddedLayer)
hides("causal-missing", lambda x, mask: x, causal, CausalLayer)
hides("mask-finite mask-leak", lambda x, mask: x.masked_fill(~mask, -7.3), masked, MaskedLayer)


@step("causal-off-by-one", causal, CausalLayer)
def hide(self, scores, mask):
    return Steps.hide(self, scores, torch.ones_like(scores).tril(1) > 0)


@step("causal-eval causal-missing", CausalLayer)
def hide(self, scores, mask):
    return Steps.hide(self, scores, mask) if self.training else scores


@step("causal-leak causal-missing", CausalLayer)
def hide(self, scores, mask):
    """Hide later tokens from the first head only."""
    first = torch.arange(scores.size(1)) == 0
    return Steps.hide(self, scores, mask | ~first[:, None, None])


@step("causal-leak causal-missing", CausalLayer)
def forward(self, x):
    return CausalLayer.forward(self, x - x.mean(1, keepdim=True))


@step(f"mask-broadcast {LEAK}", PaddedLayer)
def forward(self, x, mask=None):
    """Repeat the whole batch of masks, so that heads get the masks of other sequences."""
    if mask is not None:
        mask = mask.repeat(self.num_heads, 1).view(len(x), self.num_heads, 1, -1)
    return self.run(x, x, x, mask)


@step(f"{LEAK} mask-ignored", PaddedLayer)
def forward(self, x, mask=None):
    """Allow a key for all sequences of a batch as soon as one has a token there."""
    return self.run(x, x, x, mask if mask is None else mask.any(dim=0).expand(x.size(1), -1))


@step("mask-leak", PaddedLayer)
def forward(self, x, mask):
    return PaddedLayer.forward(self, x - x.mean(1, keepdim=True), mask)


@whole(f"mask-queries {LEAK}", mask="blocked")
def rows_of_padding_blocked(query, key, value, key_padding_mask=None):
    scores = Steps().score(query, key)
    if key_padding_mask is not None:
        scores = scores.masked_fill(key_padding_mask[:, :, None], -1e9)
    return scores.softmax(dim=-1) @ value


@whole("mask-ignored")
def second_mask_ignored(query, key, value, attn_mask=None, key_padding_mask=None):
    return F.scaled_dot_product_attention(query, key, value, attn_mask=attn_mask)


@whole("causal-leak causal-missing")
def mask_or_order(query, key, value, mask=None, is_causal=False):
    """Forget the order of the tokens where a mask is given."""
    if mask is None and is_causal:
        mask = lower_triangle(query, key)
    return F.scaled_dot_product_attention(query, key, value, attn_mask=mask)


@whole("causal-off-by-one", causal=True)
def slices_of_the_past(queries, keys, values):
    """Slice the past up to i + 2, one key too many."""
    rows = []
    for i, query in enumerate(queries):
        scores = keys[: i + 2] @ query / math.sqrt(keys.shape[1])
        rows.append(scores.softmax(dim=0) @ values[: i + 2])
    return torch.stack(rows)


# --- heads, sequences and positions ---------------------------------------------------------------


def by_view(self, x, num_heads):
    n, length, width = x.shape
    return x.reshape(n, num_heads, length, width // num_heads)


def by_reshape(self, x):
    n, heads, length, head_dim = x.shape
    return x.reshape(n, length, heads * head_dim)


def dealt_out(self, x, num_heads):
    """Give head h every H-th feature instead of its block of neighbours."""
    return x.unflatten(-1, (-1, num_heads)).permute(0, 3, 1, 2)


def gathered(self, x):
    return x.permute(0, 2, 3, 1).flatten(2)


def backwards(self, x, num_heads):
    return Steps.split(self, x, num_heads).flip(1)


def by_length(self, x, num_heads):
    """Read (N, L, E) as (L, N, E)."""
    return x.reshape(x.size(1), x.size(0), num_heads, -1).permute(1, 2, 0, 3)


def joined_by_length(self, x):
    return x.permute(2, 0, 1, 3).reshape(x.size(0), x.size(2), -1)


BOTH = "split-and-merge split-without-transpose"
row("split-without-transpose", (pair, splitting, Layer), {"split": by_view})
row("merge-without-transpose", (pair, merging, Layer), {"merge": by_reshape})
row(BOTH, (pair, Layer), {"split": by_view, "merge": by_reshape})
row(
    "heads-order split-without-transpose wrong-shape",
    (pair,),
    {"split": dealt_out, "merge": gathered},
)
row("heads-order split-without-transpose wrong-shape", (pair, splitting), {"split": backwards})
row("batch-mixing wrong-shape", (pair,), {"split": by_length, "merge": joined_by_length})
scores("batch-mixing", lambda q, k: q @ k.sum(0).mT / q.size(-1) ** 0.5, plain)
scores("transposed-batch batch-mixing raises", lambda q, k: q @ k.T / q.shape[2] ** 0.5, plain)
outputs("position-mixing", lambda attend, q, k, v: attend(q, k, v).flip(-2), plain, Layer)


@step("batch-mixing", Layer)
def split(self, x, num_heads):
    return x.reshape(num_heads, *x.shape[:2], -1).transpose(0, 1)


@step("batch-mixing", Layer)
def forward(self, x):
    return self.run(*[x.reshape(1, -1, x.size(-1))] * 3).view(x.shape)


def length_first(self, x):
    return self.run(*[x.transpose(0, 1)] * 3).transpose(0, 1)


forwards("batch-first batch-mixing", length_first, Layer)
forwards("", length_first, Layer, batch_first=False)


@whole("square-only raises wrong-shape")
def first_keys_only(q, k, v):
    """Take the number of keys from the query."""
    length = q.size(-2)
    return plain(Steps())(q, k[..., :length, :], v[..., :length, :])


@whole("square-only raises")
def output_as_wide_as_the_query(q, k, v):
    output = torch.zeros_like(q)
    output[:] = plain(Steps())(q, k, v)
    return output


@whole("head-mixing")
def attention_between_heads(q, k, v):
    """Move the heads next to the features, so that heads attend to heads inside each token."""
    _, _, _, d = q.shape
    q, k, v = (t.transpose(1, 2) for t in (q, k, v))
    return ((q @ k.mT / math.sqrt(d)).softmax(dim=-1) @ v).transpose(1, 2)


@whole("heads-shared wrong-source")
class HeadsByExpand(Layer):
    """Project to one head and repeat it, which looks like many heads."""

    def __init__(self):
        super().__init__()
        self.q_proj, self.k_proj, self.v_proj = (nn.Linear(12, 4) for _ in range(3))

    def split(self, x, num_heads):
        return x[:, None].expand(-1, num_heads, -1, -1)


# --- correct, in unusual ways ---------------------------------------------------------------------


def of_torch(layer: type, *sizes: int, **how: object) -> None:
    ROWS.append(Row(layer.__name__, lambda: layer(*sizes, **how), [], {}))


of_torch(MultiHeadAttention, 12, 3, dropout=0.5)
of_torch(SelfAttention, 12, 5)
of_torch(nn.MultiheadAttention, 12, 3, batch_first=True)
of_torch(nn.TransformerEncoderLayer, 32, 4, 64)
of_torch(nn.TransformerDecoderLayer, 32, 4, 64, batch_first=True)
of_torch(nn.Transformer, 32, 4, 1, 1, 64, batch_first=True)
row("", (plain, masked, required, causal, pair, splitting, merging), {})
row("", (Layer, CausalLayer, MaskedLayer, PaddedLayer, CrossLayer, WeightsLayer), {})
row("", (Layer,), {"split": dealt_out, "merge": gathered})
scores("", lambda q, k: q * q.size(-1) ** -0.25 @ (k * k.size(-1) ** -0.25).mT, plain, Layer)
outputs("", lambda attend, q, k, v: attend(k, q, v), Layer)  # only the names are exchanged
softs("", lambda x: x.double().softmax(-1).to(x), plain, Layer)
hides("", lambda x, mask: x.masked_fill(~mask.triu(-2), -torch.inf), CausalLayer)  # a window


@step("", masked, causal, MaskedLayer)
def attend(self, query, key, value, mask):
    return F.scaled_dot_product_attention(query, key, value, attn_mask=mask)


@step("", Layer)
def soft(self, scores):
    return F.dropout(scores.softmax(dim=-1), 0.1, self.training)


@step("", Layer)
def forward(self, x, key_padding_mask=None):
    mask = None if key_padding_mask is None else ~key_padding_mask[:, None, None]
    return self.run(x, x, x, mask)


@whole("")
def renormalised(query, key, value, mask=None):
    """Zero the weights after the softmax, divide by what is left, and return the weights too."""
    weights = Steps().score(query, key).softmax(dim=-1)
    if mask is not None:
        weights = weights * mask
        weights = weights / weights.sum(dim=-1, keepdim=True)
    return weights @ value, weights


@whole("")
class BatchNormed(Layer):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(12)

    def forward(self, x):
        return self.norm(super().forward(x).mT).mT


@whole("")
class PrunedHead(Layer):
    """Have parameters of 0 in the last head; the code is correct."""

    def __init__(self):
        super().__init__(12, 3, inner=24)
        for part in self.v_proj.parameters():
            nn.init.zeros_(part.data[16:])
