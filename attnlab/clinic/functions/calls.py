"""How to call an attention function of (query, key, value): its arguments, shapes and results."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import torch
from torch import Tensor, nn

from attnlab._bounded import Caller, Outcome, Unusable, name_of
from attnlab.clinic._results import Options
from attnlab.clinic.behaviour import close
from attnlab.clinic.hypotheses import Sample, Sizes
from attnlab.clinic.masks import FORMS, Form, reads_mask
from attnlab.clinic.names import SIDES, Argument, arguments

GENERAL = Sizes()
# Every size differs in every call, so that no two laws agree by accident.
CALLS = (GENERAL, Sizes(3, 2, 7, 6, 32, 12), Sizes(5, 4, 6, 8, 64, 14))
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


class Layout(NamedTuple):
    """The order of dimensions that a function takes and gives, where it is not (N, H, L, E)."""

    words: str = ""
    swapped: dict[int, tuple[int, int]] = {}  # noqa: RUF012  (of ndim dimensions: these two)
    inputs: bool = True  # whether the inputs are swapped too, not only the output
    one_key: bool = False  # whether all heads share one head of keys and values

    def enter(self, side: str, part: Tensor) -> Tensor:
        """Return query, key or value as the function wants it."""
        if self.one_key and part.ndim == 4 and side != "query":
            return part[:, 0]
        return self.leave(part) if self.inputs else part

    def leave(self, part: Tensor) -> Tensor:
        """Return what the function gave, with dimensions in the usual order."""
        return part.transpose(*self.swapped[part.ndim]) if part.ndim in self.swapped else part


PLAIN = Layout()
HEADS_BEHIND = Layout("(N, L, H, E), heads behind the tokens", {4: (1, 2)})
TIME_FIRST = Layout("(L, N, E), tokens before the batch", {3: (0, 1)})
LAYOUTS = (
    Layout("(N, H, L, E), and returns (N, L, H, E)", {4: (1, 2)}, inputs=False),
    Layout("one head of keys and values (N, S, E) for all heads", one_key=True),
    HEADS_BEHIND,
    TIME_FIRST,
)


class Result(NamedTuple):
    """What one call gave."""

    output: Tensor
    weights: Tensor | None


@dataclass
class Takes:
    """What a function takes, and what is given for it."""

    sides: dict[str, Argument] = field(default_factory=dict)  # query, key and value, if it says so
    masks: list[Argument] = field(default_factory=list)
    causal: Argument | None = None
    lengths: Argument | None = None
    fixed: dict[str, str] = field(default_factory=dict)  # names of required arguments: their roles
    unknown: list[Argument] = field(default_factory=list)
    guessed: bool = False  # whether something else than query, key and value must be given
    placed: tuple[str, ...] = tuple(SIDES)  # the sides that are passed by place, in this order

    @property
    def unknown_required(self) -> list[Argument]:
        """What must be given and has no role that the clinic knows."""
        return [one for one in self.unknown if one.required]

    @property
    def mask(self) -> Argument | None:
        """The first of its masks."""
        return self.masks[0] if self.masks else None


def takes(function: Callable, call: Callable | None = None) -> Takes:
    """Return what a function takes, told by the names of its arguments; ``call`` is its adapter."""
    if call is not None:
        mask = Argument("attn_mask", "mask", False)
        return Takes(masks=[mask] if reads_mask(call) else [])
    known = arguments(function)
    if known is None:
        return Takes()
    sides, rest = _sides(known)
    first = [one.name for one in known if one.by_place][: len(sides)]
    order = {one.name: side for side, one in sides.items()}
    by_place = {*first} == {*order}
    placed = tuple(order[name] for name in first) or tuple(SIDES)
    found = Takes(sides, placed=placed if by_place else ())
    for one in rest:
        if one.role in ("mask", "padding"):
            found.masks.append(one)
        elif one.role in ("causal", "lengths") and getattr(found, one.role) is None:
            setattr(found, one.role, one)
        elif one.required and one.role in FIXED:
            found.fixed[one.name] = one.role
        elif one.required or (one.role == "unknown" and one.default is None):
            found.unknown.append(one)
        found.guessed |= one.required
    found.masks.sort(key=lambda one: one.role == "padding")
    return found


def _sides(known: list[Argument]) -> tuple[dict[str, Argument], list[Argument]]:
    """Return which arguments are query, key and value, and the others."""
    by_role = {one.role: one for one in reversed(known)}
    if by_role.keys() >= SIDES.keys():
        sides = {side: by_role[side] for side in SIDES}
    else:
        three = [one for one in known if one.by_place][:3]
        if len(three) < 3:  # *arguments, perhaps
            return {}, known[3:]
        initials = [one.name.lower().removeprefix("x_")[:1] for one in three]
        if sorted(initials) == ["k", "q", "v"]:
            three = [three[initials.index(letter)] for letter in "qkv"]
        sides = dict(zip(SIDES, three, strict=True))
    return sides, [one for one in known if one not in sides.values()]


# What is given for a required argument, by its role; None where one must be tried after the other.
FIXED: dict[str, Callable[[Tensor, Tensor], object]] = {
    "width": lambda query, key: query.shape[-1],
    "scale": lambda query, key: 1 / math.sqrt(query.shape[-1]),
    "heads": lambda query, key: 1,
    "size": lambda query, key: query.shape[-2],
    "flag": lambda query, key: False,
    "cache": lambda query, key: None,
    "dropout": lambda query, key: None,
}
NO_DROPOUT = (None, 0.0, nn.Identity())


class Given(NamedTuple):
    """What a function gets that insists on a mask or on dropout."""

    form: Form | None = None  # of a mask that ought to block nothing
    dropout: object = None


class Attention:
    """An attention function, called the way it wants; every call is watched."""

    def __init__(self, function: Callable, options: Options, layout: Layout = PLAIN) -> None:
        self.options, self.layout = options, layout
        self.caller = Caller(options.call or function, options.time_limit)
        self.function = function
        self.takes = takes(function, options.call)
        self.places: tuple[int | None, int | None] = (None, None)
        self.ndims: dict[int, Result] = {}  # the numbers of dimensions that it works with
        self.refused: dict[int, Outcome] = {}  # what came of the others
        self.blocked: dict[int, Result] = {}  # calls with a mask that blocked every key
        self.demand = ""  # which sizes must be equal, such as "L = S"
        self.powers = False  # whether E must be a power of two
        self.divisor = False  # whether a factor that it is given divides
        self.number = False  # whether it wants masks of 1 and 0
        self.given_always: dict[int, Given] = {}  # by the number of dimensions

    # --- the first contact ------------------------------------------------------------------------

    def find_shapes(self) -> bool:
        """Find the shapes that the function takes; return whether there are any."""
        for self.powers, self.demand in itertools.product((False, True), ("", *RELAXED)):
            for ndim in (3, 4, 2):
                self._find(ndim)
            if self.ndims or self.caller.out_of_time:
                # what is constant there was not made for so many dimensions
                depending = {n: one for n, one in self.ndims.items() if self.depends(n)}
                self.ndims = depending or self.ndims
                return bool(self.ndims)
        self.demand, self.powers = "", False
        return False

    def depends(self, ndim: int) -> bool:
        """Return whether its output depends on anything that it gets."""
        inputs = self.inputs(ndim)
        try:
            one, other = self(*inputs), self(*(part.flip(-1) - 1 for part in inputs))
        except Unusable:
            return True  # what fails now is told elsewhere
        return not close(one.output, other.output)

    def _find(self, ndim: int) -> None:
        """Try everything that may be given for what it insists on."""
        for given in self._tries(ndim):
            self.given_always[ndim] = given
            try:
                result = self(*self.inputs(ndim))
            except Unusable as trouble:
                self.refused.setdefault(ndim, trouble.outcome)
                if given.form is None and not self._insists():
                    break
                continue
            if not self._open_masks() or not _nothing_allowed(result.output):
                self.ndims[ndim] = result
                self.number |= given.form is not None and given.form.kind == "float"
                return
            self.blocked.setdefault(ndim, result)
        self.given_always.pop(ndim)
        if ndim in self.blocked and not self._insists():  # a mask makes no difference
            self.ndims[ndim] = self.blocked.pop(ndim)

    def _insists(self) -> bool:
        """Return whether it must be given a mask or dropout."""
        return "dropout" in self.takes.fixed.values() or any(
            one.required for one in self._open_masks()
        )

    def _tries(self, ndim: int) -> Iterator[Given]:
        """Yield no mask, or masks of all usual shapes that ought to block nothing; no dropout."""
        forms: list[Form | None] = [None]
        if self._open_masks():
            flips, kinds = (self.flipped, not self.flipped), ("bool", "float")
            if self.options.mask == "additive":
                flips, kinds = (False,), ("additive",)
            forms += [
                form._replace(flipped=flipped, kind=kind)
                for flipped in flips for form in FORMS[ndim] for kind in kinds
            ]  # fmt: skip
        dropouts = NO_DROPOUT if "dropout" in self.takes.fixed.values() else (None,)
        yield from (Given(form, dropout) for form in forms for dropout in dropouts)

    def _open_masks(self) -> list[Argument]:
        return [*self.takes.masks, *self.takes.unknown]

    @property
    def flipped(self) -> bool:
        """Whether the caller says that True means blocked."""
        return self.options.mask == "blocked"

    @property
    def main(self) -> int:
        """The number of dimensions that the probes use: a batch if there may be one."""
        return next((ndim for ndim in (3, 4, 2) if ndim in self.ndims), 3)

    def sizes(self, sizes: Sizes = GENERAL) -> Sizes:
        """Return ``sizes`` as the function insists on them."""
        if self.powers:
            sizes = replace(sizes, E=1 << (sizes.E - 1).bit_length())
        return relaxed(sizes, self.demand)

    def inputs(
        self, ndim: int, sizes: Sizes = GENERAL, *, seed: int = 0, spread: float = 2.0
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return random query, key and value; raw scores have the standard deviation ``spread``."""
        sizes = self.sizes(sizes)
        generator = torch.Generator().manual_seed(seed)
        lead, width = (sizes.N, sizes.H)[: ndim - 2], math.sqrt(spread) * sizes.E**-0.25
        shapes = ((sizes.L, sizes.E), (sizes.S, sizes.E), (sizes.S, sizes.Ev))
        query, key, value = (
            torch.randn(*lead, *shape, generator=generator, dtype=torch.float32) for shape in shapes
        )
        if self.layout.one_key and ndim == 4:
            key, value = (part[:, :1].expand_as(part).clone() for part in (key, value))
        return query * width, key * width, value

    def sample(
        self,
        ndim: int,
        sizes: Sizes = GENERAL,
        *,
        allowed: Tensor | None = None,
        mask: Tensor | None = None,
        causal: bool = False,
        **how: float,
    ) -> Sample:
        """Call it once, and return the call; ``allowed`` (N, H, L, S) is what ``mask`` means."""
        inputs = self.inputs(ndim, sizes, **how)
        output = self(*inputs, mask=mask, causal=causal).output
        return as_sample((*inputs, output), self.sizes(sizes), allowed)

    def name_of(self, place: str) -> str:
        """Return how a sentence names an argument: by its place in the call, or its own name."""
        if not place.isdigit():
            return next(
                (side for side, one in self.takes.sides.items() if one.name == place), place
            )
        number = int(place) - (self.options.call is not None)  # the adapter gets the target first
        return (*(self.takes.placed or SIDES), "the mask")[number]

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
        **named: object,
    ) -> Result:
        """Return output and weights; raise Unusable if there is nothing to measure."""
        inputs = [part if graph else part.clone() for part in (query, key, value)]
        with torch.set_grad_enabled(graph):
            outcome = self.outcome(*inputs, mask=mask, causal=causal, **named)
        if outcome.error is not None:
            raise Unusable(outcome)
        result = self.read(outcome, query, key, value)
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
        **named: object,
    ) -> Outcome:
        """Return what came of one call, whatever it is."""
        sides = dict(zip(SIDES, (query, key, value), strict=True))
        if self.options.call is not None:
            arguments = [self.function, *sides.values()]
            count = getattr(getattr(self.options.call, "__code__", None), "co_argcount", 5)
            always = self.given_always.get(query.ndim, Given())
            mask = self._neutral(always, query, key) if mask is None else mask
            return self.caller(*arguments, *([mask] if count != 4 else []))
        sides = {side: self.layout.enter(side, part) for side, part in sides.items()}
        placed, told = self.takes.placed, self.takes.sides
        given = self._extras(query, key, mask, causal) | named
        given |= {told[side].name: sides[side] for side in SIDES if side not in placed}
        return self.caller(*(sides[side] for side in placed), **given)

    def _extras(self, query: Tensor, key: Tensor, mask: Tensor | None, causal: bool) -> dict:
        """Return what it gets beside query, key and value, by name."""
        takes = self.takes
        given: dict[str, object] = {}
        always = self.given_always.get(query.ndim, Given())
        for name, role in takes.fixed.items():
            given[name] = always.dropout if role == "dropout" else FIXED[role](query, key)
            if role == "scale" and self.divisor:
                given[name] = 1 / given[name]
        for one in self._open_masks():
            if one.required or (always.form and one is takes.mask):
                given[one.name] = self._neutral(always, query, key)
        if takes.lengths is not None and takes.lengths.required:
            count = len(query) if query.ndim > 2 else 1
            given[takes.lengths.name] = torch.full((count,), key.shape[-2], device=query.device)
        if causal and takes.causal:
            given[takes.causal.name] = True
        elif takes.causal and takes.causal.required:
            given[takes.causal.name] = False
        main = takes.mask or takes.lengths
        if mask is not None and main:
            given[main.name] = mask.clone()
        return given

    def _neutral(self, always: Given, query: Tensor, key: Tensor) -> Tensor | None:
        """Return a mask that ought to block nothing, in the shape that it was found to want."""
        if always.form is None:
            return None
        lead = (*query.shape[:-2], 1, 1)[:2] if query.ndim > 2 else (1, 1)
        full = torch.ones(*lead, query.shape[-2], key.shape[-2], dtype=torch.bool)
        return always.form(full, query.dtype).to(query.device)

    def told(self, **given: str) -> str:
        """Return the first call as text, such as ``attention(query, key, value, p=None)``."""
        if self.options.call is not None:
            return "call(target, query, key, value, None)"
        tensors = torch.zeros(2, 2, 2)
        extras = self._extras(tensors, tensors, None, causal=False)
        written = {
            name: f"tensor {tuple(value.shape)}" if isinstance(value, Tensor) else repr(value)
            for name, value in extras.items()
        }
        rest = [f"{name}={value}" for name, value in (written | given).items()]
        return f"{name_of(self.function)}({', '.join(['query', 'key', 'value', *rest])})"

    def read(self, outcome: Outcome, query: Tensor, key: Tensor, value: Tensor) -> Result:
        """Return output and weights by their shapes, or by the place they had at first."""
        parts = _tensors(outcome.value)
        wanted = (*query.shape[:-1], value.shape[-1])
        square = (*query.shape[:-1], key.shape[-2])
        weights = (square, (*square[:-2], square[-1], square[-2]))  # as they should be, or turned
        if self.places[0] is None:
            fitting = [p for p, part in parts.items() if self._left(part, query) == wanted]
            if not fitting:
                raise Unusable(outcome)
            others = (p for p, part in parts.items() if tuple(part.shape) in weights)
            self.places = fitting[0], next((p for p in others if p != fitting[0]), None)
        output = parts.get(self.places[0])
        if output is None or self._left(output, query) != wanted:
            raise Unusable(outcome)
        output = self.layout.leave(output)
        other = parts.get(self.places[1])
        fits = other is not None and tuple(other.shape) in weights
        return Result(output, other if fits else None)

    def _left(self, part: Tensor, query: Tensor) -> tuple[int, ...] | None:
        """Return the shape of a result in the usual order; None where it cannot be the output."""
        return tuple(self.layout.leave(part).shape) if part.ndim == query.ndim else None


def _nothing_allowed(output: Tensor) -> bool:
    """Return whether no query made a difference: the mask that was given blocks every key."""
    same = (output - output[..., :1, :]).abs().max() < 1e-6
    return bool(same) or not bool(output.isfinite().any())


def as_sample(call: tuple, sizes: Sizes, allowed: Tensor | None = None) -> Sample:
    """Return query, key, value and output of a call with all four dimensions."""
    ndim = call[0].ndim
    full = {2: lambda part: part[None, None], 3: lambda part: part[:, None], 4: lambda part: part}
    known = replace(sizes, N=sizes.N if ndim > 2 else 1, H=sizes.H if ndim > 3 else 1)
    return Sample(*map(full[ndim], call), known, allowed)


def _tensors(value: object) -> dict[int, Tensor]:
    """Return the tensors of a result by their place in it."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = {one.name: getattr(value, one.name) for one in dataclasses.fields(value)}
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
