"""The sizes and forms with which a target may work, the likeliest first, and inputs by them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor, nn

from attnlab.clinic import hints
from attnlab.clinic.forms import Form
from attnlab.clinic.names import HEADS, LENGTHS, WIDTHS
from attnlab.clinic.sample import Sizes
from attnlab.clinic.signature import MASK_KINDS, PARTS, Signature, known_shape

SIZES = (Sizes(), Sizes(N=3, H=2, L=7, S=6, E=32, Ev=12), Sizes(N=5, H=4, L=6, S=8, E=64, Ev=14))
DEMANDS = (  # what a function may insist on
    {},
    {"Ev": "E"},
    {"L": "S"},
    {"L": "S", "Ev": "E"},
    {"E": "even"},
    {"L": "S", "E": "even"},
    {"L": "S", "E": "even", "Ev": "even"},
)


class StandIn(nn.Module):
    """What a function gets for a module of which it reads a few settings."""

    training, num_key_value_groups, is_causal = False, 1, False


@dataclass(frozen=True)
class Plan:
    """The sizes and forms of a call.

    ``demand`` says which sizes of a function must equal others; ``embed``, ``wide``, ``length``,
    ``memory`` and ``batch`` are the sizes of a layer; ``form`` is that of a mask that must always
    be given. ``loose``: any output will do, such as one for each sequence. ``inside``: a function
    is followed too, since it turns query and key.
    """

    ndim: int = 3
    demand: dict[str, str] = field(default_factory=dict)
    swap: tuple[int, ...] = ()
    embed: int = 0
    wide: int = 0
    widths: tuple[tuple[str, int], ...] = ()  # of sides of a layer that have their own
    length: int = 5
    memory: int = 7
    batch: int = 2
    form: Form | None = None
    dtype: torch.dtype = torch.float64
    stand_in: object = None
    loose: bool = False
    inside: bool = False

    def sizes(self, sizes: Sizes = SIZES[0]) -> Sizes:
        """Return sizes as the target insists on them."""
        changed = {name: getattr(sizes, equal) for name, equal in self.demand.items()}
        return replace(sizes, **changed)


def plans(signature: Signature) -> Iterator[Plan]:
    """Yield the plans of a call, the likeliest first."""
    forms = _forms(signature)
    if signature.followed:
        yield from _of_layers(signature, forms)
        return
    stands = [None, StandIn().eval()] if signature.strange else [None]
    ndims = (4, 3, 2) if hints.says_heads(signature.target) else (3, 4, 2)
    for stand, demand, ndim, form in itertools.product(stands, DEMANDS, ndims, forms):
        yield Plan(ndim, demand, signature.swap, form=form, stand_in=stand)


def _forms(signature: Signature) -> list[Form | None]:
    """Return the forms of a mask that must always be given, first that it is left out."""
    if not signature.masked:
        return [None]
    mask = signature.masks[0]
    forms = signature.mask_forms(mask, Plan.ndim)
    known = [kind for kind in MASK_KINDS if kind not in signature.mask_kinds(mask)]
    return [None, *forms, *(form._replace(kind=kind) for kind in known for form in forms[:8])]


def _of_layers(signature: Signature, forms: list[Form | None]) -> Iterator[Plan]:
    """Yield plans of what is followed."""
    heads, widths = heads_of(signature), widths_of(signature)[:8]
    batch = 2 if heads != 2 else 3
    more = [] if signature.alone else widths[:4]
    pairs = [(width, width) for width in widths] + list(itertools.permutations(more, 2))
    own = _own_widths(signature.module)
    for form, length, ndim in itertools.product(forms, lengths_of(signature, widths[0]), (3, 2)):
        memory = length + (2 if length + 2 not in (widths[0], batch, heads) else 3)
        for embed, wide in pairs:
            for keys in (memory, length)[signature.alone :]:
                more = tuple((side, width) for side, width in own if width != embed)
                yield Plan(ndim, {}, signature.swap, embed, wide, more, length, keys, batch, form)


# --- the sizes that a layer tells -----------------------------------------------------------------


def heads_of(signature: Signature) -> int | None:
    """Return the number of heads that the attributes of a layer tell."""
    parts = list(signature.module.modules()) if signature.module is not None else []
    numbers = [number for part in parts for number in _integers(part, HEADS)]
    return signature.options.num_heads or next(iter(numbers), None)


def widths_of(signature: Signature) -> list[int]:
    """Return the numbers of features that a layer may want, the likeliest first."""
    module = signature.module
    if signature.options.embed_dim:
        return [signature.options.embed_dim]
    if module is None:
        return [12]
    parts = list(module.modules())
    widths = _integers(module, WIDTHS)
    widths += [part.in_features for part in parts if isinstance(part, nn.Linear)]
    widths += [number for part in parts[1:] for number in _integers(part, WIDTHS[:4])]
    widths += [n for part in module.parameters() for n in known_shape(part) if n > 1]
    widths += [value for value in vars(module).values() if _is_size(value)]
    return list(dict.fromkeys(widths)) or [12]


def lengths_of(signature: Signature, embed: int) -> list[int]:
    """Return numbers of tokens, those first that no other size has."""
    module, heads = signature.module, heads_of(signature) or 0
    taken = {embed, heads, 2, 3, embed // heads if heads else 0}
    free = [length for length in (5, 7, 9, 6, 11, 13, 8) if length not in taken]
    own = _integers(module, LENGTHS) if module is not None else []
    tables = list(module.buffers()) if module is not None else []
    own += [part.shape[-1] for part in tables if part.ndim > 1 and part.shape[-1] < 400]
    return list(dict.fromkeys([*free[:5], *own, 4, 16, 3]))[:9]


def _own_widths(module: nn.Module | None) -> list[tuple[str, int]]:
    """Return the numbers of features of keys and of values that a layer gives by name."""
    named = [
        (side, getattr(module, name, None)) for side, name in (("key", "kdim"), ("value", "vdim"))
    ]
    return [(side, width) for side, width in named if isinstance(width, int)]


def _is_size(value: object) -> bool:
    """Return whether an attribute may be a size."""
    return isinstance(value, int) and not isinstance(value, bool) and 1 < value <= 8192


def _integers(module: object, names: list[str]) -> list[int]:
    """Return the sizes that attributes of these names hold."""
    return [size for size in (getattr(module, name, None) for name in names) if _is_size(size)]


# --- inputs ---------------------------------------------------------------------------------------


def inputs(
    signature: Signature,
    plan: Plan,
    sizes: Sizes = SIZES[0],
    *,
    seed: int = 0,
    N: int | None = None,
    factor: float = 1.0,
    equal: bool = False,
) -> dict[str, Tensor]:
    """Return tokens, or query, key and value, by sides.

    ``factor`` multiplies them, but not the value of a function: scores grow by its square.
    ``equal`` puts the first token at every place.
    """
    draw = torch.Generator().manual_seed(seed)
    if signature.followed:
        batch = (N or plan.batch,) if plan.ndim > 2 else ()
        widths = {"query": plan.embed, "key": plan.wide, "value": plan.wide} | dict(plan.widths)
        lengths = {"query": plan.length, "key": plan.memory, "value": plan.memory}
        shapes = {side: (*batch, lengths[side], widths[side]) for side in PARTS}
    else:
        size = plan.sizes(sizes)
        lead = (size.N, size.H)[: plan.ndim - 2]
        shapes = {"query": (*lead, size.L, size.E), "key": (*lead, size.S, size.E)}
        shapes["value"] = (*lead, size.S, size.Ev)
    parts = {
        side: torch.randn(shape, generator=draw, dtype=torch.float64)
        for side, shape in shapes.items()
    }
    if not signature.followed:  # scores as wide at every size
        width = 2**0.5 * parts["query"].shape[-1] ** -0.25
        parts = {s: part if s == "value" else part * width for s, part in parts.items()}
    if signature.alone:
        parts = dict.fromkeys(PARTS, parts["query"])
    elif set(signature.sides.values()) == {"query", "key"}:
        parts["value"] = parts["key"]
    if equal:
        parts = {side: part[..., :1, :].expand_as(part).clone() for side, part in parts.items()}
    kept = () if signature.followed else ("value",)
    return {
        side: (part if side in kept or factor == 1 else factor * part.to(plan.dtype)).to(plan.dtype)
        for side, part in parts.items()
    }
