"""How to call an attention function of (query, key, value): its arguments, shapes and results."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from attnlab.clinic._calling import Caller, Outcome, Unusable
from attnlab.clinic._results import Options
from attnlab.clinic.functions.arguments import Arguments, arguments


@dataclass(frozen=True)
class Sizes:
    """The sizes of one call; all different unless the function insists."""

    N: int = 2
    H: int = 3
    L: int = 5
    S: int = 7
    E: int = 11
    Ev: int = 13

    def lead(self, ndim: int) -> tuple[int, ...]:
        """Return the leading dimensions of a call with ``ndim`` dimensions."""
        return {2: (), 3: (self.N,), 4: (self.N, self.H)}[ndim]


GENERAL = Sizes()
WIDER = 6  # Ev - S, in every call that measures
# What a function may insist on, the mildest first: each is tried if the ones before it failed.
RELAXED = {
    "Ev = E": {"Ev": "E"},
    "L = S": {"L": "S"},
    "L = S and Ev = E": {"L": "S", "Ev": "E"},
}


def relaxed(sizes: Sizes, demand: str) -> Sizes:
    """Return ``sizes`` with those made equal that ``demand`` names (``""`` for none)."""
    equal = RELAXED.get(demand, {})
    return replace(sizes, **{name: getattr(sizes, other) for name, other in equal.items()})


def _neutral(shape: Callable[[Tensor, Tensor], tuple[int, ...]], may: bool) -> Callable:
    """Return a maker of masks that ought to block nothing, for functions that insist on one."""

    def make(query: Tensor, key: Tensor) -> Tensor:
        return torch.full(shape(query, key), may, dtype=torch.bool, device=query.device)

    return make


NEUTRAL = tuple(
    _neutral(shape, may)
    for may in (True, False)
    for shape in (
        lambda query, key: (query.shape[-2], key.shape[-2]),
        lambda query, key: (query.shape[0], key.shape[-2]),
        lambda query, key: (*query.shape[:-1], key.shape[-2]),
        lambda query, key: (query.shape[0], 1, 1, key.shape[-2]),
    )
)


class Result(NamedTuple):
    """What one call gave."""

    output: Tensor
    weights: Tensor | None
    turned: bool = False  # something has the shape of weights with queries and keys exchanged


class Attention:
    """An attention function, called the way it wants; every call is watched.

    Attributes
    ----------
    ndims : dict from int to Result
        The numbers of dimensions it works with.
    refused : dict from int to Outcome
        What came of the others.
    demand : str
        Which sizes must be equal, such as ``"L = S"``; empty if none.
    """

    def __init__(self, function: Callable, options: Options) -> None:
        self.options = options
        self.caller = Caller(options.call or function, options.time_limit)
        self.function = function
        self.takes = Arguments((0, 1, 2), "attn_mask", None, {}, False, True)
        if options.call is None:
            self.takes = arguments(function)
        self.places: tuple[int | str | None, int | None] = (None, None)
        self.ndims: dict[int, Result] = {}
        self.refused: dict[int, Outcome] = {}
        self.blocked: dict[int, Result] = {}
        self.demand = ""
        self.dtype = torch.float32
        self.neutral = NEUTRAL[0]

    # --- the first contact ------------------------------------------------------------------------

    def find_shapes(self) -> bool:
        """Find the shapes that the function takes; return whether there are any."""
        masks = NEUTRAL if self.takes.required_mask else NEUTRAL[:1]
        for self.dtype in (torch.float32, torch.float64):
            for self.demand in ("", *RELAXED):
                for self.neutral in masks:
                    for ndim in (3, 4, 2):
                        self._try(ndim)
                    if self.ndims or self.caller.out_of_time:
                        return bool(self.ndims)
        self.dtype, self.demand, self.neutral = torch.float32, "", NEUTRAL[0]
        self.ndims = self.blocked  # whatever mask it gets, it sees nothing
        return bool(self.ndims)

    def _try(self, ndim: int) -> None:
        try:
            query, key, value = self.inputs(ndim)
            self.ndims[ndim] = self(query, key, value)
            if self.takes.required_mask and self._nothing_allowed(self.ndims[ndim].output):
                self.blocked.setdefault(ndim, self.ndims.pop(ndim))
        except Unusable as trouble:
            self.refused.setdefault(ndim, trouble.outcome)

    @staticmethod
    def _nothing_allowed(output: Tensor) -> bool:
        """Return whether no query made a difference: the mask that was given blocks every key."""
        same = (output - output[..., :1, :]).abs().max() < 1e-6
        return bool(same) or not bool(output.isfinite().any())

    @property
    def main(self) -> int:
        """The number of dimensions that the probes use: a batch if there may be one."""
        return next(ndim for ndim in (3, 4, 2) if ndim in self.ndims)

    def sizes(self, sizes: Sizes = GENERAL) -> Sizes:
        """Return ``sizes`` with those made equal that the function insists on."""
        return relaxed(sizes, self.demand)

    def inputs(
        self, ndim: int, sizes: Sizes = GENERAL, *, seed: int = 0, spread: float = 2.0
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return random query, key and value; raw scores have the standard deviation ``spread``."""
        sizes = self.sizes(sizes)
        generator = torch.Generator().manual_seed(seed)
        lead, width = sizes.lead(ndim), math.sqrt(spread) * sizes.E**-0.25
        shapes = ((sizes.L, sizes.E), (sizes.S, sizes.E), (sizes.S, sizes.Ev))
        query, key, value = (
            torch.randn(*lead, *shape, generator=generator, dtype=self.dtype) for shape in shapes
        )
        return query * width, key * width, value

    def name_of(self, place: str) -> str:
        """Return how a sentence names an argument: by its place in the call, or its own name."""
        if not place.isdigit():
            return place
        number = int(place) - (self.options.call is not None)  # the adapter gets the target first
        if number == 3:
            return "the mask"
        return ("query", "key", "value")[self.takes.order.index(number)]

    def independent_rows(self, key: Tensor) -> Tensor:
        """Return a value whose rows are independent: unit vectors, if the width is free."""
        rows, width = key.shape[-2], key.shape[-1]
        free = self.demand in ("", "L = S")
        size = (rows, rows + WIDER if free else max(width, rows))
        if free:
            return torch.eye(*size, dtype=self.dtype).expand(*key.shape[:-2], *size).clone()
        generator = torch.Generator().manual_seed(5)
        return torch.randn(*key.shape[:-2], *size, generator=generator, dtype=self.dtype)

    # --- calls ------------------------------------------------------------------------------------

    def __call__(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        *,
        mask: Tensor | None = None,
        causal: bool = False,
        graph: bool = False,
    ) -> Result:
        """Return output and weights; raise Unusable if there is nothing to measure."""
        inputs = [part if graph else part.clone() for part in (query, key, value)]
        with torch.set_grad_enabled(graph):
            outcome = self.outcome(*inputs, mask=mask, causal=causal)
        if outcome.error is not None:
            raise Unusable(outcome)
        result = self._read(outcome, query, key, value)
        if graph:
            return result
        weights = None if result.weights is None else result.weights.detach()
        return result._replace(output=result.output.detach(), weights=weights)

    def outcome(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        *,
        mask: Tensor | None = None,
        causal: bool = False,
    ) -> Outcome:
        """Return what came of one call, whatever it is."""
        if self.options.call is not None:
            return self.caller(self.function, query, key, value, mask)
        takes = self.takes
        named = {name: make(query) for name, make in takes.fixed.items()}
        if mask is None and takes.required_mask:
            mask = self.neutral(query, key)
            if self.options.mask == "additive":
                mask = torch.zeros_like(mask, dtype=query.dtype)
        if causal and takes.causal:
            named[takes.causal] = True
        positional = tuple((query, key, value)[takes.order.index(place)] for place in range(3))
        if mask is not None and takes.mask and takes.keywords:
            named[takes.mask] = mask
        elif mask is not None:
            positional = (*positional, mask)
        return self.caller(*positional, **named)

    def _read(self, outcome: Outcome, query: Tensor, key: Tensor, value: Tensor) -> Result:
        """Return output and weights by their shapes, or by the place they had at first."""
        parts = _tensors(outcome.value)
        wanted = (*query.shape[:-1], value.shape[-1])
        square = (*query.shape[:-1], key.shape[-2])
        if self.places[0] is None:
            fitting = [place for place, part in parts.items() if tuple(part.shape) == wanted]
            if not fitting:
                raise Unusable(outcome)
            others = [
                place
                for place, part in parts.items()
                if tuple(part.shape) == square and place != fitting[0]
            ]
            self.places = fitting[0], next(iter(others), None)
        output = parts.get(self.places[0])
        if output is None or tuple(output.shape) != wanted:
            raise Unusable(outcome)
        weights = parts.get(self.places[1]) if self.places[1] is not None else None
        fits = weights is not None and tuple(weights.shape) == square
        turned = (*square[:-2], square[-1], square[-2])
        exchanged = any(tuple(part.shape) == turned != square for part in parts.values())
        return Result(output, weights if fits else None, exchanged)


def _tensors(value: object) -> dict[int, Tensor]:
    """Return the tensors of a result by their place in it."""
    parts = value.values() if isinstance(value, dict) else value
    if isinstance(value, Tensor) or not isinstance(value, tuple | list | dict):
        parts = (value,)
    return {place: part for place, part in enumerate(parts) if measurable(part)}


def measurable(value: object) -> bool:
    """Return whether this is a tensor of plain real numbers."""
    return (
        isinstance(value, Tensor)
        and value.layout is torch.strided
        and value.is_floating_point()
        and not value.is_meta
    )
