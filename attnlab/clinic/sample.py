"""One observed attention, and one way to do a step of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

SURE = 1e-3  # relative: far above the rounding of float32, far below any bug
EXACT = 1e-6  # the same for float64
CLOSE = 1e-5  # above the rounding of float32


@dataclass(frozen=True)
class Sizes:
    """The sizes of one call, all unlike wherever they may be."""

    N: int = 2
    H: int = 3
    L: int = 5
    S: int = 7
    E: int = 11
    Ev: int = 13
    width: int | None = None  # of the tokens of a layer, where it is not H * E

    @property
    def even(self) -> int:
        """An even number of features."""
        return self.E + self.E % 2

    @property
    def model(self) -> int:
        """The width of all heads together."""
        return self.width or self.H * self.E


class Sample(NamedTuple):
    """One observed call of one attention: per head, after projection, before they are joined."""

    query: Tensor  # (N, H, L, E)
    key: Tensor  # (N, H, S, E)
    value: Tensor  # (N, H, S, Ev)
    output: Tensor  # (N, H, L, Ev)
    sizes: Sizes  # with one head where it knows none
    allowed: Tensor | None = None  # the mask that it got, (N, H, L, S), True = may attend
    seen: Tensor | None = None  # its weights, where they were seen

    @property
    def products(self) -> Tensor:
        """The dot products of every query with every key, in float64."""
        return self.query.double() @ self.key.double().mT

    @property
    def awake(self) -> Tensor | None:
        """The mask without the queries that stand for padded tokens, where it is one of keys."""
        may = self.allowed
        per_key = may is not None and bool((may == may[..., :1, :]).all())
        return may & may.mT if per_key and may.shape[-1] == may.shape[-2] else may


class Way(NamedTuple):
    """One way to do one step."""

    cause: str | None  # name of the finding; None where it is correct
    words: str  # ``{taken}`` and the like are filled with what was measured
    compute: Callable  # what the step gives; None where this way does not fit the sizes
    advice: str = ""  # how to mend it, where more is known than the usual repair
    asked: bool = False  # some mean it so: it is asked, not accused


# --- do numbers agree? ----------------------------------------------------------------------------


def agrees(output: Tensor, expected: Tensor) -> bool:
    """Return whether an output is what is expected, up to rounding.

    Rows of ``expected`` that are not finite belong to queries without a key and may hold anything.
    """
    if output.shape != expected.shape:
        return False
    known = expected.isfinite().all(dim=-1, keepdim=True).expand_as(expected)
    if not known.any() or not output[known].isfinite().all():
        return False
    tolerance = EXACT if output.dtype == torch.float64 else SURE
    output, expected = output.detach().double()[known], expected[known]
    return bool(
        ((output - expected).abs() <= tolerance * expected.abs().max().clamp_min(1e-6)).all()
    )


def close(output: Tensor | None, expected: Tensor | None, tolerance: float = SURE) -> bool:
    """Return whether two outputs agree; NaN equals NaN."""
    if output is None or expected is None or output.shape != expected.shape:
        return False
    output, expected = (
        part.detach().double().nan_to_num(7.0, 7e3, -7e3) for part in (output, expected)
    )
    largest = max(1e-9, float(expected.abs().max()))
    return bool((output - expected).abs().max() <= tolerance * largest)


def alike(part: Tensor, expected: Tensor) -> bool:
    """Return whether two parts of one call agree, up to the rounding of float32."""
    return part.shape == expected.shape and bool(
        (part - expected).abs().max() <= CLOSE * expected.abs().max().clamp_min(1e-9)
    )
