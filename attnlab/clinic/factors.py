"""By what projections were multiplied before query met key, and whether heads are cut from them."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor


def factor_of(part: Tensor, projected: tuple[Tensor, ...]) -> tuple[float | None, bool | None]:
    """Return by what a projection was multiplied to give (N, H, L, d), and if it lies in place.

    Norms alone tell, so it is right behind a rotation, too. False says that heads are cut by a bare
    view, None that it cannot be told.
    """
    part = _unrepeated(part).double()
    moved, viewed = part.transpose(1, 2).flatten(2).norm(dim=-1), part.norm(dim=-1)
    length, size, elsewhere = part.norm(), part.abs().sum(), None
    for rows in _pieces(projected, part):
        for norms, own, right in ((moved, rows, True), (viewed, rows.reshape(part.shape), False)):
            ratio = norms / own.norm(dim=-1)
            if ((ratio / ratio.mean() - 1).abs() < 1e-5).all():
                return float(ratio.mean()), right
        total = length / rows.norm()
        if abs(size / rows.abs().sum() / total - 1) < 1e-7:
            elsewhere = float(total)  # the same numbers at other places
    return elsewhere, None


def turned(part: Tensor, projected: tuple[Tensor, ...]) -> bool:
    """Return whether heads (N, H, L, d) are those of a projection, but with other directions."""
    part = _unrepeated(part).double()
    rows, lengths = part.transpose(1, 2).flatten(2), factor_of(part, projected)[0]
    if lengths is None:
        return False
    pieces = (piece * lengths for piece in _pieces(projected, part))
    return not any((rows - piece).norm() < 1e-3 * rows.norm() for piece in pieces)


def _unrepeated(part: Tensor) -> Tensor:
    """Return the heads (N, H, L, d) without those that only repeat another."""
    heads = part.shape[1]
    for groups in range(1, heads):
        if heads % groups == 0:
            if torch.equal(part, part[:, :groups].repeat(1, heads // groups, 1, 1)):
                return part[:, :groups]
            kept = part[:, :: heads // groups]
            if torch.equal(part, kept.repeat_interleave(heads // groups, dim=1)):
                return kept
    return part


def _pieces(projected: tuple[Tensor, ...], part: Tensor) -> Iterator[Tensor]:
    """Yield every piece (N, L, H * d) of projections that heads (N, H, L, d) may be made of."""
    N, H, L, d = part.shape
    width = H * d
    for whole in projected:
        if whole.numel() % (N * L):
            continue
        rows = whole.double()
        if rows.ndim == 4 and rows.shape == part.shape:  # of a norm of each head
            rows = rows.transpose(1, 2)
        if rows.ndim == 3 and len(rows) != N and rows.shape[1] == L and len(rows) % N == 0:
            rows = rows.reshape(N, -1, L, rows.shape[-1]).transpose(1, 2)
        for turned in (rows.reshape(N, L, -1), rows.reshape(L, N, -1).transpose(0, 1)):
            for start in range(0, turned.shape[-1] - width + 1, d):
                yield turned[..., start : start + width]
            count, rest = divmod(turned.shape[-1], width)
            if count > 1 and not rest:  # query, key and value of each head side by side
                side_by_side = turned.unflatten(-1, (H, count, -1)).unbind(-2)
                last = turned.unflatten(-1, (-1, count)).unbind(-1)
                yield from (piece.flatten(2) for piece in (*side_by_side, *last))
