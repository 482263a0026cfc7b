"""Measure what a black box does: the weights behind an output, and the scores behind weights."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from attnlab.clinic._report import Evidence
from attnlab.clinic.functions.calls import Attention

SURE = 1e-3  # relative: far above the rounding of float32, far below any bug
VISIBLE = 1e-4  # a weight above this has a logarithm worth reading


def weights_of(
    attention: Attention,
    query: Tensor,
    key: Tensor,
    *,
    mask: Tensor | None = None,
    causal: bool = False,
    source: Tensor | None = None,
) -> Tensor:
    """Return the weights that the function gives to the rows of ``source``, found from its output.

    With one value row per unit vector the output *is* the weights. Where the value must be as wide
    as the query, the weights follow from an output that combines rows that are independent.

    Parameters
    ----------
    attention : Attention
        The function.
    query, key : Tensor, shapes (..., L, E) and (..., S, E)
        What it gets.
    mask : Tensor, optional
        What it gets as a mask.
    causal : bool
        Whether to switch its causal argument on.
    source : Tensor, shape (..., S, Ev), optional
        The value; unit vectors if not given.

    Returns
    -------
    Tensor, shape (..., L, S)
        Any numbers: nothing says that they are nonnegative or sum to 1.

    See Also
    --------
    torch.linalg.lstsq : solves for weights as well, one system at a time.
    """
    value = attention.independent_rows(key) if source is None else source
    output = attention(query, key, value, mask=mask, causal=causal).output
    return output.double() @ torch.linalg.pinv(value.double())


class Fit(NamedTuple):
    """How far the logarithms of weights follow scores: ``log w = factor * score`` in each row."""

    factor: float
    residual: float  # relative to the spread of the logarithms; 0 is a perfect fit

    @property
    def good(self) -> bool:
        """Whether the weights are a softmax of these scores."""
        return self.residual < 0.01


def fit_scores(weights: Tensor, scores: Tensor, *, dim: int = -1) -> Fit:
    """Return the factor between scores and the logarithms of weights.

    Parameters
    ----------
    weights, scores : Tensor, shape (..., L, S)
        What the function gave, and what it may have been made from.
    dim : int
        The dimension that softmax ran over: logarithms are known up to a constant along it.

    Returns
    -------
    Fit
        Of the weights above rounding only.

    See Also
    --------
    weights_of : finds the weights.
    """
    scores = scores.double()
    visible = weights > VISIBLE * weights.amax(dim=dim, keepdim=True)
    logs = weights.clamp_min(1e-300).log()
    best = weights.argmax(dim=dim, keepdim=True)
    y = (logs - logs.gather(dim, best))[visible]
    x = (scores - scores.gather(dim, best))[visible]
    if not y.numel() or float(x.norm()) == 0 or not (x.isfinite().all() and y.isfinite().all()):
        return Fit(float("nan"), float("inf"))
    factor = float((x * y).sum() / (x * x).sum())
    spread = float(y.norm())
    return Fit(factor, float((y - factor * x).norm()) / spread if spread > 1e-6 else float("inf"))


def products(query: Tensor, key: Tensor) -> Tensor:
    """Return the dot products of every query with every key, in float64."""
    return query.double() @ key.double().transpose(-2, -1)


def close(one: Tensor, other: Tensor, tolerance: float = SURE) -> bool:
    """Return whether two tensors are the same up to rounding; NaN is never the same."""
    if one.shape != other.shape:
        return False
    one, other = one.detach(), other.detach()
    size = max(1e-6, float(other.abs().max())) if other.numel() else 1.0
    return bool(((one - other).abs() <= tolerance * size).all())


def first(tensor: Tensor) -> Tensor:
    """Return the last two dimensions of the first sequence and head."""
    return tensor.reshape(-1, *tensor.shape[-2:])[0]


def weights_table(caption: str, weights: Tensor, *, sums: bool = False) -> Evidence:
    """Return the weights of the first sequence as a table, with the sums of its rows if wanted."""
    table = first(weights).detach().double()
    rows = tuple(f"query {i}" for i in range(table.shape[0]))
    columns = tuple(f"key {j}" for j in range(table.shape[1]))
    if sums:
        table, columns = torch.cat([table, table.sum(-1, keepdim=True)], -1), (*columns, "sum")
    return Evidence(caption, table, rows, columns, shaded=True)


def number_table(caption: str, rows: dict[str, list[float]], columns: tuple[str, ...]) -> Evidence:
    """Return rows of plain numbers as a table."""
    values = torch.tensor(list(rows.values()), dtype=torch.float64)
    return Evidence(caption, values, tuple(rows), columns)


def perturbed(tensor: Tensor, where: tuple, seed: int = 7) -> Tensor:
    """Return a copy with new random numbers at one place."""
    changed = tensor.clone()
    generator = torch.Generator().manual_seed(seed)
    part = changed[where]
    changed[where] = torch.randn(part.shape, generator=generator, dtype=torch.float64).to(part)
    return changed
