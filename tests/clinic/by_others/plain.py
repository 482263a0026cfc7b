"""What the cases of the panel must give, by torch's own attention, and tensors for their calls.

Nothing here is shared with the code of the panel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
import torch.nn.functional as F
from torch import Tensor


def rand(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def qkv(*lead: int, L: int = 4, S: int = 6, E: int = 8, V: int = 5) -> tuple[Tensor, ...]:
    return rand(*lead, L, E, seed=1), rand(*lead, S, E, seed=2), rand(*lead, S, V, seed=3)


def xyz(L: int = 4, S: int = 6, E: int = 24) -> tuple[Tensor, ...]:
    return rand(2, L, E), rand(2, S, E, seed=1), rand(2, S, E, seed=2)


def some(*shape: int) -> Tensor:
    """Return a mask, True = may attend, with at least one key for every query."""
    allowed = rand(*shape, seed=4) > 0
    allowed[..., 1] = True
    return allowed


def real(*lengths: int, size: int) -> Tensor:
    """Return (N, S): True for the tokens of each text, False for its padding."""
    return torch.arange(size) < torch.tensor(lengths)[:, None]


def causal(L: int, S: int | None = None) -> Tensor:
    """Return (L, S): the last query sees every key."""
    S = L if S is None else S
    return torch.ones(L, S, dtype=torch.bool).tril(S - L)


def near(L: int, before: int, after: int = 0) -> Tensor:
    """Return (L, L): keys at most ``before`` steps back and ``after`` steps ahead."""
    return torch.ones(L, L, dtype=torch.bool).tril(after).triu(-before)


def turned(*parts: Tensor) -> Iterable[Tensor]:
    """Exchange batch and length."""
    return (part.transpose(0, 1) for part in parts)


def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    allowed: Tensor | None = None,
    *,
    bias: Tensor | float = 0.0,
    scale: float | None = None,
) -> Tensor:
    """Return scaled dot-product attention."""
    allowed = torch.ones(()) if allowed is None else allowed
    mask = torch.where(allowed.bool(), torch.as_tensor(bias).double(), -torch.inf)
    mask = mask.expand(*query.shape[:-1], key.shape[-2])
    return F.scaled_dot_product_attention(query, key, value, attn_mask=mask, scale=scale)


def cut(x: Tensor, heads: int) -> Tensor:
    """Return (N, H, L, d) of (N, L, H * d): head h has features h * d to (h + 1) * d."""
    return torch.stack(x.chunk(heads, dim=-1), dim=1)


def join(x: Tensor) -> Tensor:
    return torch.cat(x.unbind(dim=1), dim=-1)


def layer(
    x: Tensor | tuple[Tensor, Tensor, Tensor],
    parts: tuple[Callable, ...],
    heads: int,
    allowed: Tensor | None = None,
    *,
    kv_heads: int | None = None,
    turn: Callable[[Tensor], Tensor] = lambda part: part,
    past: tuple[Tensor, ...] = (),
    **how: object,
) -> Tensor:
    """Return multi-head attention.

    ``x`` is (N, L, E) or a triple; ``parts`` project query, key, value and, if there is a fourth,
    the output; ``turn`` changes queries and keys behind the split; ``past``: earlier keys, values.
    """
    sources = x if isinstance(x, tuple) else (x, x, x)
    counts = heads, kv_heads or heads, kv_heads or heads
    q, k, v = (cut(parts[i](sources[i]), counts[i]) for i in range(3))
    if past:
        k, v = (torch.cat(pair, dim=2) for pair in zip(past, (k, v), strict=True))
    k, v = (part.repeat_interleave(heads // counts[1], dim=1) for part in (k, v))
    joined = join(attend(turn(q), turn(k), v, allowed, **how))
    return parts[3](joined) if len(parts) > 3 else joined


def listed(
    x: Tensor, heads: Iterable[Iterable[Callable]], last: Callable, allowed: Tensor
) -> Tensor:
    """Return multi-head attention of heads that have their own (query, key, value) each."""
    return last(torch.cat([attend(*(part(x) for part in one), allowed) for one in heads], dim=-1))


def parts_of(linear: Callable, count: int) -> list[Callable]:
    """Return the projections that a fused one is made of, one behind the other."""
    return [lambda x, place=place: linear(x).chunk(count, -1)[place] for place in range(count)]


def rotated(x: Tensor, *, halves: bool, base: float = 10000.0) -> Tensor:
    """Return ``x`` with its pairs of features turned by their position, one pair at a time."""
    made, d = x.clone(), x.shape[-1]
    for pair in range(d // 2):
        a, b = (pair, pair + d // 2) if halves else (2 * pair, 2 * pair + 1)
        angle = torch.arange(x.shape[-2]).double() * base ** (-2 * pair / d)
        made[..., a] = x[..., a] * angle.cos() - x[..., b] * angle.sin()
        made[..., b] = x[..., b] * angle.cos() + x[..., a] * angle.sin()
    return made
