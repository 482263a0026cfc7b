"""Attention by plain loops, and the tensors of the sample calls.

Nothing here is shared with the code of the panel: what its cases must give is computed query by
query in float64.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import torch
from torch import Tensor, nn


def rand(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def qkv(*lead: int, L: int = 4, S: int = 6, E: int = 8, V: int = 5) -> tuple[Tensor, ...]:
    return rand(*lead, L, E, seed=1), rand(*lead, S, E, seed=2), rand(*lead, S, V, seed=3)


def some(*shape: int, seed: int = 4) -> Tensor:
    """Return a mask, True = may attend, with at least one key for every query."""
    allowed = rand(*shape, seed=seed) > 0
    allowed[..., 1] = True
    return allowed


def real(*lengths: int, size: int) -> Tensor:
    """Return (N, S): True for the tokens of each text, False for its padding."""
    return torch.tensor([[place < length for place in range(size)] for length in lengths])


def causal(L: int, S: int | None = None) -> Tensor:
    """Return (L, S): the last query sees every key."""
    S = L if S is None else S
    return torch.tensor([[j <= i + S - L for j in range(S)] for i in range(L)])


def near(L: int, before: int, after: int = 0, step: int = 1) -> Tensor:
    """Return (L, L): keys at most ``before`` steps back and ``after`` steps ahead."""

    def seen(i: int, j: int) -> bool:
        return -after * step <= i - j <= before * step and (i - j) % step == 0

    return torch.tensor([[seen(i, j) for j in range(L)] for i in range(L)])


def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    allowed: Tensor | None = None,
    bias: Tensor | None = None,
    scale: float | Tensor | None = None,
) -> Tensor:
    """Return scaled dot-product attention, one query at a time."""
    query, key, value = (part.detach().double() for part in (query, key, value))
    lead, L, S = query.shape[:-2], query.shape[-2], key.shape[-2]
    scale = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    allowed = torch.ones(L, S) if allowed is None else allowed
    allowed = allowed.bool().expand(*lead, L, S)
    bias = (torch.zeros(L, S) if bias is None else bias.detach()).double().expand(*lead, L, S)
    output = query.new_zeros(*lead, L, value.shape[-1])
    for place in itertools.product(*map(range, (*lead, L))):
        row = place[:-1]
        scores = (key[row] * query[place]).sum(-1) * scale + bias[place]
        seen = allowed[place].nonzero().flatten()
        shares = torch.exp(scores[seen] - scores[seen].max())
        output[place] = (shares[:, None] * value[row][seen]).sum(0) / shares.sum()
    return output


def project(x: Tensor, linear: nn.Module | Tensor | None) -> Tensor:
    """Return ``x`` through a linear layer, or through a matrix (out, in)."""
    if linear is None:
        return x.double()
    weight = linear if isinstance(linear, Tensor) else linear.weight
    bias = getattr(linear, "bias", None)
    turned = x.double() @ weight.detach().double().mT
    return turned if bias is None else turned + bias.detach().double()


def cut(x: Tensor, heads: int) -> Tensor:
    """Return (N, H, L, d) of (N, L, H * d): head h has features h * d to (h + 1) * d."""
    d = x.shape[-1] // heads
    return torch.stack([x[..., h * d : (h + 1) * d] for h in range(heads)], dim=1)


def join(x: Tensor) -> Tensor:
    return torch.cat([x[:, head] for head in range(x.shape[1])], dim=-1)


def layer(
    x: Tensor | tuple[Tensor, Tensor, Tensor],
    linears: tuple,
    heads: int,
    *,
    kv_heads: int | None = None,
    turn: Callable[[Tensor], Tensor] | None = None,
    **how: object,
) -> Tensor:
    """Return multi-head attention.

    ``x`` is (N, L, E) or a triple; ``linears`` are those of query, key, value and output, None for
    none; ``turn`` changes queries and keys behind the split.
    """
    sources = x if isinstance(x, tuple) else (x, x, x)
    q, k, v = (project(*pair) for pair in zip(sources, linears[:3], strict=True))
    kv_heads = kv_heads or heads
    q, k, v = cut(q, heads), cut(k, kv_heads), cut(v, kv_heads)
    k, v = (torch.stack([t[:, h * kv_heads // heads] for h in range(heads)], 1) for t in (k, v))
    if turn is not None:
        q, k = turn(q), turn(k)
    return project(join(attend(q, k, v, **how)), linears[3])


def thirds(linear: nn.Linear) -> list[nn.Linear]:
    """Return the three linear layers that a fused one is made of."""
    return parts_of(linear, 3)


def parts_of(linear: nn.Linear, count: int) -> list[nn.Linear]:
    """Return the linear layers that a fused one is made of, one below the other."""
    size = linear.out_features // count
    made = []
    for rows in (slice(i * size, (i + 1) * size) for i in range(count)):
        part = nn.Linear(linear.in_features, size, bias=linear.bias is not None)
        part.weight = nn.Parameter(linear.weight.detach()[rows])
        if linear.bias is not None:
            part.bias = nn.Parameter(linear.bias.detach()[rows])
        made.append(part)
    return made


def rotated(x: Tensor, *, halves: bool, base: float = 10000.0) -> Tensor:
    """Return ``x`` with its pairs of features turned by their position, one pair at a time."""
    turned, d = x.clone(), x.shape[-1]
    for place, pair in itertools.product(range(x.shape[-2]), range(d // 2)):
        a, b = (pair, pair + d // 2) if halves else (2 * pair, 2 * pair + 1)
        angle = place * base ** (-2 * pair / d)
        first, second = x[..., place, a], x[..., place, b]
        turned[..., place, a] = first * math.cos(angle) - second * math.sin(angle)
        turned[..., place, b] = second * math.cos(angle) + first * math.sin(angle)
    return turned


def grid(L: int, S: int, rule: Callable[[int, int], bool]) -> Tensor:
    """Return (L, S): what a rule says of query i and key j."""
    return torch.tensor([[rule(i, j) for j in range(S)] for i in range(L)])
