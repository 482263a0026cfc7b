"""A target and the way to call it that was found; functions and layers alike."""

from __future__ import annotations

import copy
import functools
import itertools
import math
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnlab.clinic import _hints
from attnlab.clinic._results import Options
from attnlab.clinic.forms import FORMS, Form, reads_mask
from attnlab.clinic.hypotheses import Sizes
from attnlab.clinic.names import HEADS, LENGTHS, WIDTHS, Argument, arguments
from attnlab.sandbox import Caller, Outcome

SIDES = ("query", "key", "value")
SIZES = (Sizes(), Sizes(N=3, H=2, L=7, S=6, E=32, Ev=12), Sizes(N=5, H=4, L=6, S=8, E=64, Ev=14))
KINDS = ("bool", "float", "blocked", "blocked float", "additive")
DEMANDS = (  # what a function may insist on
    {},
    {"Ev": "E"},
    {"L": "S"},
    {"L": "S", "Ev": "E"},
    {"E": "even"},
    {"L": "S", "E": "even"},
    {"L": "S", "E": "even", "Ev": "even"},
)
ADAPTED = Argument("attn_mask", "mask", False)  # what an adapter gets
LARGE = 2**23  # numbers in the parameters of a layer, of which every call takes long


class Reply(NamedTuple):
    """What one call gave back."""

    output: Tensor  # (..., L, Ev)
    others: list[Tensor]  # every other tensor of numbers that came back
    value: object  # all of it


class StandIn(nn.Module):
    """What a function gets for a module of which it reads a few settings."""

    training, num_key_value_groups, is_causal = False, 1, False


class Subject:
    """A target, what its arguments are for, and the sizes and forms with which it works.

    ``followed`` says that its attention is seen only inside: a layer, or a function of tokens.
    """

    def __init__(self, target: object, options: Options) -> None:
        self.target, self.options = target, options
        self.caller = Caller(target, options.time_limit)
        self.known = arguments(target) or []
        self.module = target if isinstance(target, nn.Module) else None
        self.origin = self.module  # which is never called itself
        self.large = sum(math.prod(_shape(part)) for part in self.parameters()) > LARGE
        self.caller.time_limit *= 4 if self.large else 1
        self.followed = bool(self.parameters())
        self.dtype, self.stand_in = torch.float64, None
        self.ndim, self.demand, self.swap = 3, {}, ()
        self.embed, self.wide = 0, 0  # the numbers of features of queries and of keys
        self.length, self.memory, self.batch = 5, 7, 2
        self.inside = False  # whether a function is followed too, since it turns query and key
        self.rough = False  # whether it computes in lower precision than it is given
        self.worked: dict[str, Tensor] = {}  # masks that are used as they should be, for N = 3
        self.loose = False  # whether any output will do, such as one for each sequence
        self.form: Form | None = None  # of a mask that must always be given
        self.moving: dict[int, list] = {}  # which factors of its products move
        self.given: set[str] = set()  # arguments that some call was given
        self.first: Outcome | None = None  # of the likeliest call
        self.outcome = Outcome()
        self.sides = self._sides()
        if len(set(self.sides.values())) < 3 and options.call is None and not self.followed:
            self.followed = len(self.sides) < 3
        taken = [one for one in self.known if one.name not in self.sides]
        self.masks = [
            one
            for one in taken
            if one.role in ("mask", "padding", "lengths") and "head_mask" not in one.name.lower()
        ]
        self.switches = [one for one in taken if one.role == "causal"]
        if options.call is not None:
            self.masks = [ADAPTED] if reads_mask(options.call) else []
            self.switches = []
        if options.batch_first is False and self.followed:
            self.swap = (0, 1)
        elif options.batch_first is None and _batch_first(self.module) is False:
            self.swap = (0, 1)

    def parameters(self) -> list[Tensor]:
        """Return the parameters of a module."""
        return list(self.module.parameters()) if self.module is not None else []

    @property
    def torchs(self) -> bool:
        """Whether it is a layer of torch's own, or inherits from one; True blocks in its masks."""
        if self.module is None:
            return False
        own = type(self.module).__module__.startswith("torch.nn")
        return own or isinstance(self.module, (nn.MultiheadAttention, nn.TransformerEncoderLayer))

    @property
    def alone(self) -> bool:
        """Whether query, key and value are the same tokens."""
        return set(self.sides.values()) == {"query"}

    def needed(self) -> list[Argument]:
        """Return the arguments that it insists on and whose meaning is not known."""
        known = "mask padding lengths causal dropout scale flag width heads size cache".split()
        return [
            one
            for one in self.known
            if one.required and one.name not in self.sides and one.role not in known
        ]

    # --- what its arguments are for ---------------------------------------------------------------

    def _sides(self) -> dict[str, str]:
        """Return which argument is query, key or value; of a layer x is a query."""
        known = self.known
        roles = {one.role: one.name for one in reversed(known)}
        placed = [one for one in known if one.by_place]
        letters = {one.name.lower()[0]: one.name for one in reversed(placed[:4])}
        tokens = [one for one in known if one.role in (*SIDES, "x", "memory")]
        tokens = [one for one in tokens if one.required or one.default is None]
        needed = [one for one in placed if one.required]
        if roles.keys() >= set(SIDES):
            found = {name: roles[name] for name in SIDES}
        elif letters.keys() >= set("qkv"):
            found = {side: letters[side[0]] for side in SIDES}
        elif len(needed) == 3 and not self.followed and not tokens:
            found = dict(zip(SIDES, (one.name for one in needed), strict=True))
        elif len(tokens) == 2 or (len(needed) == 2 and _alike(*needed)):
            found = self._of_two(tokens if len(tokens) == 2 else needed)
        else:
            found = {"query": (tokens or needed or known)[0].name} if known else {}
        sides = {name: side for side, name in found.items()}
        if self.options.self_attention or (len(found) == 2 and not self.followed):
            return dict.fromkeys(sides, "query") if self.options.self_attention else sides
        return {one.name: sides[one.name] for one in known if one.name in sides}

    def _of_two(self, tokens: list[Argument]) -> dict[str, str]:
        """Return which of two arguments is the memory, called key here."""
        one, other = tokens
        memory = ("memory", "key", "value")
        turned = other.role == "query" or (one.role in memory and other.role not in memory)
        sides = ("key", "query") if turned else ("query", "key")
        return dict(zip(sides, (one.name, other.name), strict=True))

    # --- what it is called with -------------------------------------------------------------------

    def sizes(self, sizes: Sizes = SIZES[0]) -> Sizes:
        """Return sizes as it insists on them."""
        changed = {name: getattr(sizes, other) for name, other in self.demand.items()}
        return replace(sizes, **changed)

    def inputs(self, sizes: Sizes = SIZES[0], seed: int = 0, N: int | None = None) -> dict:
        """Return tokens, or query, key and value, by sides."""
        draw = torch.Generator().manual_seed(seed)
        if self.followed:
            batch = (N or self.batch,) if self.ndim > 2 else ()
            shapes = dict.fromkeys(SIDES, (*batch, self.memory, self.wide))
            shapes["query"] = (*batch, self.length, self.embed)
            for side, name in (("key", "kdim"), ("value", "vdim")):
                width = getattr(self.module, name, None)
                if isinstance(width, int) and width != self.embed:
                    shapes[side] = (*batch, self.memory, width)
        else:
            one = self.sizes(sizes)
            lead = (one.N, one.H)[: self.ndim - 2]
            shapes = {"query": (*lead, one.L, one.E), "key": (*lead, one.S, one.E)}
            shapes["value"] = (*lead, one.S, one.Ev)
        parts = {
            side: torch.randn(shape, generator=draw, dtype=torch.float64)
            for side, shape in shapes.items()
        }
        if not self.followed:  # scores as wide at every size
            width = 2**0.5 * parts["query"].shape[-1] ** -0.25
            parts = {s: part if s == "value" else part * width for s, part in parts.items()}
        if self.alone:
            parts = dict.fromkeys(SIDES, parts["query"])
        elif set(self.sides.values()) == {"query", "key"}:
            parts["value"] = parts["key"]
        return {side: part.to(self.dtype) for side, part in parts.items()}

    def louder(self, factor: float, **how: int | None) -> dict:
        """Return inputs whose scores are those of ``inputs`` times the square of a factor."""
        kept = ("value",) if not self.followed else ()
        parts = self.inputs(**how)
        return {side: part if side in kept else factor * part for side, part in parts.items()}

    def rest(self, parts: dict, masks: dict, causal: bool) -> dict:
        """Return what is given beside the tokens, by name."""
        query, key = parts["query"], parts["key"]
        width, size = query.shape[-1], query.shape[-2]
        fixed = {
            "width": width,
            "scale": width**-0.5,
            "heads": self.options.num_heads or 1,
            "size": size,
            "flag": False,
            "causal": causal,
            "cache": None,
            "lengths": torch.full((len(query),), key.shape[-2]),
            "dropout": nn.Identity() if self.module is not None else None,
        }
        given = {}
        for one in self.known:
            if one.name in self.sides:
                continue
            if one.name in masks:
                given[one.name] = masks[one.name]
            elif one.role == "causal" and causal:
                given[one.name] = True
            elif one.required and one in self.masks and (self.form or one.role != "lengths"):
                given[one.name] = self.form and self.form.whole(query, key, self.dtype)
            elif one.required:
                given[one.name] = fixed.get(one.role, self.stand_in)
        return given

    def __call__(
        self,
        parts: dict,
        *,
        masks: dict | None = None,
        causal: bool = False,
        graph: bool = False,
        **more: object,
    ) -> Reply | None:
        """Call it; return None where no output comes back, and remember why."""
        query, value = parts["query"], parts["value"]
        given = {side: self._dressed(part) for side, part in parts.items()}
        with torch.set_grad_enabled(graph):
            if self.options.call is not None:
                mask = next(iter((masks or {}).values()), None)
                adapt = functools.partial(self.options.call, self.target)
                watched, self.caller.function = self.caller.function, adapt
                self.outcome = self.caller(*given.values(), *self._for_adapter(mask))
                self.caller.function = watched
            else:
                named = {name: given[side] for name, side in self.sides.items()}
                named |= self.rest(parts, masks or {}, causal) | more
                self.given |= {name for name, value in named.items() if value is not None}
                placed = itertools.takewhile(
                    lambda one: one.by_place and one.name in named, self.known
                )
                self.outcome = self.caller(*[named.pop(one.name) for one in placed], **named)
        self.given |= {one.name for one in (self.masks if masks else ())}
        wanted = query.shape[:-1] if self.followed else (*query.shape[:-1], value.shape[-1])
        return self._reply(self.outcome.value, wanted)

    def _for_adapter(self, mask: Tensor | None) -> tuple:
        code = getattr(self.options.call, "__code__", None)
        return () if code is not None and code.co_argcount == 4 else (mask,)

    def _dressed(self, part: Tensor) -> Tensor:
        return part.transpose(*self.swap).clone() if self.swap else part.clone()

    def _reply(self, value: object, wanted: tuple[int, ...]) -> Reply | None:
        """Return the output among what came back: the first tensor of the shape wanted."""
        found = []
        for part in _flat(value):
            if isinstance(part, Tensor) and (part.is_floating_point() or part.is_complex()):
                found.append(part)
        for place, part in enumerate(found):
            output = self._placed(part, wanted)
            if output is not None:
                return Reply(output, found[:place] + found[place + 1 :], value)
        return None

    def _placed(self, part: Tensor, wanted: tuple[int, ...]) -> Tensor | None:
        """Return a tensor as an output (..., L, Ev), however its dimensions are arranged."""
        if self.swap and part.ndim == len(wanted) + self.followed:
            part = part.transpose(*self.swap)
        if part.ndim == len(wanted) + self.followed and part.shape[: len(wanted)] == wanted:
            return part
        if self.loose and part.ndim in (2, 3) and len(part) == wanted[0] and not self.swap:
            return part if part.ndim == 3 else part[:, None]
        if self.followed or len(wanted) != 4:
            return None
        N, H, L, Ev = wanted
        if part.shape == (N, L, H, Ev):  # as many libraries return it
            return part.transpose(1, 2)
        if part.shape == (N, L, H * Ev):
            return part.unflatten(-1, (H, Ev)).transpose(1, 2)
        return None

    # --- the search for a call --------------------------------------------------------------------

    def find_call(self) -> bool:
        """Find sizes and forms with which it works; the likeliest first."""
        for dtype in (torch.float64, torch.float32):
            if dtype == torch.float64 and self.large:
                continue
            self._convert(dtype)
            kept = None
            for plan in self._plans():
                vars(self).update(plan)
                reply = self(self.inputs())
                self.first = self.first or self.outcome
                free = self.followed and not self.masked
                if reply is not None and (free or self.alive(reply)):
                    if self.module is not None and not all(map(_shape, self.origin.parameters())):
                        self.origin = copy_of(self.module)  # a lazy layer
                    return True
                kept = kept or (reply is not None and plan)
                if self.caller.out_of_time:
                    return False
            if kept:
                vars(self).update(kept)
                return True
        if self.followed and not self.loose:
            self.loose = True
            return self.find_call()
        return False

    @property
    def masked(self) -> bool:
        """Whether it insists on a mask."""
        return any(one.required for one in self.masks)

    def alive(self, reply: Reply) -> bool:
        """Return whether its query makes a difference, as it does not where all is blocked."""
        parts = self.inputs()
        parts["query"] = self.inputs(seed=4)["query"]
        other = self(dict.fromkeys(parts, parts["query"]) if self.alone else parts)
        finite = reply.output.isfinite().all() and other is not None
        return bool(finite and not torch.allclose(reply.output, other.output))

    def _plans(self) -> Iterator[dict]:
        """Yield the settings of a call."""
        forms: list[Form | None] = [None]
        if self.masked:
            some = self.forms(self.masks[0])
            others = [kind for kind in KINDS if kind not in self.kinds(self.masks[0])]
            forms += [*some, *(form._replace(kind=kind) for kind in others for form in some[:8])]
        stands = [None, StandIn().eval()] if self.needed() and not self.followed else [None]
        if self.followed:
            heads = self.heads()
            batch = 2 if heads != 2 else 3
            widths = self.widths()[:8] or [12]
            lengths, alone = self.lengths(widths[0]), self.alone
            more = [] if alone else widths[:4]
            for form, length, ndim in itertools.product(forms, lengths, (3, 2)):
                memory = length + (2 if length + 2 not in (widths[0], batch, heads) else 3)
                for embed, wide in [(n, n) for n in widths] + list(itertools.permutations(more, 2)):
                    for other in (memory, length)[alone:]:
                        sizes = {"embed": embed, "wide": wide, "batch": batch}
                        sizes |= {"length": length, "memory": other, "ndim": ndim}
                        yield {**sizes, "form": form}
            return
        ndims = (4, 3, 2) if _hints.says_heads(self.target) else (3, 4, 2)
        for stand, demand, ndim, form in itertools.product(stands, DEMANDS, ndims, forms):
            yield {"stand_in": stand, "demand": demand, "ndim": ndim, "form": form}

    def _convert(self, dtype: torch.dtype) -> None:
        self.dtype = dtype
        if self.module is not None:
            self.target = self.module = self._copied()
            self.caller.function = self.target

    def _copied(self) -> nn.Module:
        """Return a copy that was never called."""
        return self.origin if self.large else converted(copy_of(self.origin), self.dtype)

    def heads(self) -> int | None:
        """Return the number of heads that the attributes of a layer tell."""
        parts = list(self.module.modules()) if self.module is not None else []
        told = [n for part in parts for n in _integers(part, HEADS)]
        return self.options.num_heads or next(iter(told), None)

    def widths(self) -> list[int]:
        """Return the numbers of features that a layer may want, the likeliest first."""
        if self.options.embed_dim:
            return [self.options.embed_dim]
        if self.module is None:
            return [12]
        parts = list(self.module.modules())
        found = _integers(self.module, WIDTHS)
        found += [part.in_features for part in parts if isinstance(part, nn.Linear)]
        found += [n for part in parts[1:] for n in _integers(part, WIDTHS[:4])]
        found += [n for part in self.parameters() for n in _shape(part) if n > 1]
        found += [value for value in vars(self.module).values() if _is_size(value)]
        return list(dict.fromkeys(found))

    def lengths(self, embed: int) -> list[int]:
        """Return numbers of tokens, those first that no other size has."""
        heads = self.heads() or 0
        taken = {embed, heads, 2, 3, embed // heads if heads else 0}
        found = [n for n in (5, 7, 9, 6, 11, 13, 8) if n not in taken]
        own = _integers(self.module, LENGTHS) if self.module is not None else []
        tables = list(self.module.buffers()) if self.module is not None else []
        own += [part.shape[-1] for part in tables if part.ndim > 1 and part.shape[-1] < 400]
        return list(dict.fromkeys([*found[:5], *own, 4, 16, 3]))[:9]

    def forms(self, mask: Argument) -> list[Form]:
        """Return the shapes and kinds that a mask may have, the likeliest first."""
        if mask.role == "lengths":
            return [form for form in FORMS if form.letters == "(N,)"]
        most = self.ndim + self.followed
        shapes = [form for form in FORMS if form.letters != "(N,)" and form.ndim <= most]
        if mask.role == "padding" or "pad" in mask.name.lower():
            shapes.sort(key=lambda form: not form.per_key)
        if self.options.call is not None:
            shapes = [form for form in shapes if form.letters in ("(L, S)", "(N, L, S)", "(N, S)")]
        return [form._replace(kind=kind) for kind in self.kinds(mask) for form in shapes]

    def kinds(self, mask: Argument) -> tuple[str, ...]:
        """Return the kinds of masks to try, by what is said of it; see ``said``."""
        if self.options.call is not None:
            return ("bool",)
        meaning, _ = self.said(mask)
        if meaning == "additive":
            return ("additive",)
        return ("blocked", "blocked float") if meaning == "blocked" else ("bool", "float")

    def said(self, mask: Argument) -> tuple[str | None, str]:
        """Return what a mask means, and who says so: an option, torch, words, its name, nobody."""
        if self.options.call is not None:
            return "allowed", "option"
        padding = "pad" in mask.name.lower()
        if self.options.mask and not (padding and self.options.mask == "additive"):
            return self.options.mask, "option"
        if self.torchs:
            return "blocked", "torch"
        if self.target is F.scaled_dot_product_attention:
            return "allowed", "torch"
        for meaning in ("additive", "blocked", "allowed"):
            if getattr(_hints, f"says_{meaning}")(self.target, mask.name):
                return meaning, "words"
        return ("blocked", "name") if mask.name == "key_padding_mask" else (None, "")

    # --- variants ---------------------------------------------------------------------------------

    def again(self, **changes: object) -> Subject:
        """Return a subject that is called alike, with a fresh copy of the module."""
        other = copy.copy(self)
        other.caller = Caller(self.target, self.options.time_limit)
        if self.module is not None:
            other.target = other.module = self._copied()
            other.caller = Caller(other.target, self.options.time_limit)
        vars(other).update(changes)
        return other

    @property
    def shapes(self) -> str:
        """The shapes of its main call, in words."""
        parts = self.inputs()
        if self.alone:
            name = next(iter(self.sides), "x")
            return f"{name} {_written(parts['query'], self.swap)}"
        sides = {side: name for name, side in self.sides.items()}
        return ", ".join(
            f"{sides[side]} {_written(parts[side], self.swap)}" for side in SIDES if side in sides
        )


def _written(part: Tensor, swap: tuple) -> str:
    return str(tuple((part.transpose(*swap) if swap else part).shape))


def _alike(one: Argument, other: Argument) -> bool:
    """Return whether two arguments are two sequences of tokens, by their names."""
    names = [part.name.lower().strip("_0123456789") for part in (one, other)]
    return all(name in ("x", "y", "z", "a", "b", "other", "inputs") for name in names)


def _batch_first(module: nn.Module | None) -> bool | None:
    """Return what a module says of itself; torch's own layers may say it in a part."""
    if module is None:
        return None
    own = type(module).__module__.startswith("torch.nn")
    told = [getattr(part, "batch_first", None) for part in (module.modules() if own else [module])]
    return next((one for one in told if isinstance(one, bool)), None)


def _flat(value: object) -> Iterator[object]:
    """Yield what came back, one after the other."""
    if hasattr(value, "__dataclass_fields__"):
        value = vars(value)
    if isinstance(value, dict):
        value = tuple(value.values())
    if isinstance(value, (tuple, list)):
        for part in value:
            yield from _flat(part)
    else:
        yield value


def _is_size(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 1 < value <= 8192


def _shape(part: Tensor) -> tuple[int, ...]:
    lazy = isinstance(part, nn.parameter.UninitializedTensorMixin)
    return () if lazy else tuple(part.shape)


def _integers(module: object, names: list[str]) -> list[int]:
    return [n for n in (getattr(module, name, None) for name in names) if _is_size(n)]


# --- copies ---------------------------------------------------------------------------------------


def copy_of(module: nn.Module) -> nn.Module | None:
    """Return a copy that shares nothing with a module, or None; kept results lose their graphs."""
    kept = [value for part in module.modules() for value in vars(part).values()]
    memo = {
        id(value): value.detach().clone()
        for value in kept
        if isinstance(value, Tensor) and not value.is_leaf
    }
    try:
        with torch.no_grad():  # TorchScript clones its parameters, and would remember from which
            copied = copy.deepcopy(module, memo)
    except Exception:
        return None
    for one, other in zip(module.parameters(), copied.parameters(), strict=True):
        if one.requires_grad and not other.requires_grad:
            other.requires_grad_()
    return copied


def converted(module: nn.Module, dtype: torch.dtype) -> nn.Module:
    """Make the numbers of a module those of another dtype; complex ones stay complex."""
    wide = torch.complex128 if dtype == torch.float64 else torch.complex64

    def convert(part: Tensor) -> Tensor:
        if part.is_complex():
            return part.to(wide)
        return part.to(dtype) if part.is_floating_point() else part

    return module._apply(convert)
