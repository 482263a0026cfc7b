"""Read what a builder returned: what it allows, and how it says so."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from attnlab.clinic._results import Options
from attnlab.clinic.pieces.builder_calls import Trial

DEEP = 1000.0  # a fill value this far below the others leaves nothing after the softmax
ADDED = "returns numbers to add to the scores"
TORCH = (
    "as in nn.MultiheadAttention; here, as in F.scaled_dot_product_attention, True means may attend"
)


class Mask(NamedTuple):
    """A mask that was read: what it allows, and what speaks against how it says so."""

    allowed: Tensor
    note: str = ""
    name: str = ""  # of the finding
    words: str = ""
    turned: str = (
        f"is True where a query must not look, {TORCH}"  # what to say if it is the wrong way round
    )


def read(core: Tensor, options: Options) -> Mask:
    """Return what a mask allows.

    Parameters
    ----------
    core : Tensor
        The mask as it was returned: bool, 0 and 1, or numbers to add to the scores.
    options : Options
        ``mask="blocked"`` where True is meant to say "blocked".

    Returns
    -------
    Mask
        With a note or a finding on its dtype.
    """
    blocked = options.mask == "blocked"
    mask = _read(core, options)
    if blocked and set(core.unique().tolist()) <= {0, 1}:
        return mask._replace(turned="is True where a query may look, and was said to mean blocked")
    if mask.note.startswith(ADDED) or mask.name == "mask-finite":
        return mask._replace(turned="adds 0 where a query must not look, and blocks the others")
    return mask


def _read(core: Tensor, options: Options) -> Mask:
    blocked = options.mask == "blocked"
    if core.dtype == torch.bool:
        return Mask(core ^ blocked)
    values = core.double()
    if values.isnan().any():
        words = "holds NaN: 0 times infinity is NaN; fill -inf with masked_fill instead"
        return Mask(~values.isnan(), name="nan", words=words)
    levels = values.unique().tolist()
    kind = f"holds {', '.join(f'{level:g}' for level in levels[:4])}"
    if len(levels) > 2:
        words = f"{kind} ...: {len(levels)} different numbers, where a mask says yes or no"
        return Mask(values > values.median(), name="mask-dtype", words=words)
    if set(levels) <= {0.0, 1.0} and (1.0 in levels or not core.is_floating_point()):
        return _zeros_and_ones(core, blocked, strict=options.strict)
    top = levels[-1]
    if len(levels) == 1 and top > -DEEP:
        return Mask(torch.ones_like(core, dtype=torch.bool), note=ADDED)
    bottom = levels[0]
    allowed = values > bottom if len(levels) == 2 else torch.zeros_like(core, dtype=torch.bool)
    if top == torch.inf:
        return Mask(allowed, name="nan", words="holds +inf, and softmax of it is NaN: -inf blocks")
    if top - bottom < DEEP and len(levels) == 2:
        words = f"blocks with {bottom:g} added to a score: a score that is larger leaks through"
        return Mask(allowed, name="mask-finite", words=words)
    exact = "-inf" if bottom == -torch.inf else f"{bottom:g}, which float16 may not hold,"
    exact = exact if bottom < -6e4 or bottom == -torch.inf else f"{bottom:g}"
    return Mask(allowed, note=f"{ADDED}: {exact} where blocked")


def _zeros_and_ones(core: Tensor, blocked: bool, *, strict: bool) -> Mask:
    allowed = core.bool() ^ blocked
    dtype = str(core.dtype).removeprefix("torch.")
    if core.is_floating_point():
        words = (
            f"returns 0 and 1 as {dtype}, neither bool nor 0 and -inf: torch would add "
            "them to the scores"
        )
        return (
            Mask(allowed, name="mask-dtype", words=words) if strict else Mask(allowed, note=words)
        )
    note = f"returns 0 and 1 as {dtype}; torch's own attention wants bool: mask.bool()"
    return Mask(allowed, note=note)


def reduced(value: Tensor, trial: Trial) -> Tensor | None:
    """Return the mask without dimensions that say nothing; None if it has the wrong shape.

    Parameters
    ----------
    value : Tensor
        What a builder returned.
    trial : Trial
        How it was called.

    Returns
    -------
    Tensor or None
        (L, S) for causal masks and windows; for padding (N, S), (S, N), (N, S, 1) or (N, S, S).
    """
    value = value.detach()
    if trial.real is None:
        fits = value.ndim >= 2 and tuple(value.shape[-2:]) == (trial.queries, trial.keys)
        if not fits or not value.numel():
            return None
        slices = value.reshape(-1, trial.queries, trial.keys)
        return slices[0] if _equal(slices, slices[:1].expand_as(slices)) else None
    n, size = trial.real.shape
    if tuple(value.shape) in ((n, size), (size, n)):
        return value
    if value.ndim < 3 or value.shape[0] != n or not value.numel():
        return None
    if value.shape[-1] == 1 and value.shape[-2] == size and value.numel() == n * size:
        return value.reshape(n, size, 1)
    if value.shape[-1] != size or value.shape[-2] not in (1, size):
        return None
    heads = value.reshape(n, -1, value.shape[-2], size)
    if not _equal(heads, heads[:, :1].expand_as(heads)):
        return None
    rows = heads[:, 0]
    return rows[:, 0] if _equal(rows, rows[:, :1].expand_as(rows)) else rows


def _equal(one: Tensor, other: Tensor) -> bool:
    return torch.equal(one.double().nan_to_num(0.5), other.double().nan_to_num(0.5))
