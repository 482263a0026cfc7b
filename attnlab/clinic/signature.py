"""What a target takes, and what each of its arguments means."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnlab.clinic import hints
from attnlab.clinic.forms import FORMS, Form, reads_mask
from attnlab.clinic.names import Argument, arguments
from attnlab.sandbox import name_of

PARTS = ("query", "key", "value")
MASK_KINDS = ("bool", "float", "blocked", "blocked float", "additive")
ADAPTED = Argument("attn_mask", "mask", False)  # what an adapter gets
LARGE = 2**23  # numbers in the parameters of a layer, of which every call takes long
KNOWN = "mask padding lengths causal dropout scale flag width heads size cache".split()


@dataclass(frozen=True)
class Options:
    """The options of ``diagnose``; its docstring explains each."""

    mask: str | None = None
    causal: bool | None = None
    batch_first: bool | None = None
    num_heads: int | None = None
    embed_dim: int | None = None
    call: Callable | None = None
    self_attention: bool = False
    time_limit: float = 1.0
    half: torch.dtype | None = None  # the dtype of a layer of half precision


@dataclass(frozen=True)
class Signature:
    """What is examined, its arguments by what they are for, and what its masks mean.

    ``sides`` are the names of query, key and value, or of tokens, each with the side that it plays;
    of a layer x is a query. ``followed`` says that its attention is seen only inside: a layer, or a
    function of tokens. ``swap`` are the axes of tokens that stand the other way around.
    """

    target: object
    options: Options
    arguments: tuple[Argument, ...]
    sides: dict[str, str]
    masks: tuple[Argument, ...]
    switches: tuple[Argument, ...]
    followed: bool
    large: bool
    swap: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        """How a report names it."""
        return name_of(self.target)

    @property
    def module(self) -> nn.Module | None:
        """The target, if it is a layer."""
        return self.target if isinstance(self.target, nn.Module) else None

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

    @property
    def masked(self) -> bool:
        """Whether it insists on a mask."""
        return any(mask.required for mask in self.masks)

    @property
    def strange(self) -> list[str]:
        """The names of arguments that it insists on and whose meaning is not known."""
        needed = [arg for arg in self.arguments if arg.required and arg.name not in self.sides]
        return [arg.name for arg in needed if arg.role not in KNOWN]

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
            if getattr(hints, f"says_{meaning}")(self.target, mask.name):
                return meaning, "words"
        return ("blocked", "name") if mask.name == "key_padding_mask" else (None, "")

    def mask_kinds(self, mask: Argument) -> tuple[str, ...]:
        """Return the kinds of masks to try: first what is said of it, then what it may be."""
        if self.options.call is not None or mask.role == "lengths":
            return ("bool",)
        meaning, by = self.said(mask)
        said = [kind for kind in MASK_KINDS if meaning_of(kind) == (meaning or "allowed")]
        free = [] if by in ("option", "torch") else MASK_KINDS
        return (*said, *(kind for kind in free if kind not in said))

    def mask_forms(self, mask: Argument, ndim: int) -> list[Form]:
        """Return the shapes and kinds that a mask may have, the likeliest first."""
        if mask.role == "lengths":
            return [form for form in FORMS if form.letters == "(N,)"]
        most = ndim + self.followed
        shapes = [form for form in FORMS if form.letters != "(N,)" and form.ndim <= most]
        if mask.role == "padding" or "pad" in mask.name.lower():
            shapes.sort(key=lambda form: not form.per_key)
        if self.options.call is not None:
            shapes = [form for form in shapes if form.letters in ("(L, S)", "(N, L, S)", "(N, S)")]
        return [form._replace(kind=kind) for kind in self.mask_kinds(mask) for form in shapes]


def read(target: object, options: Options) -> Signature:
    """Return what a target takes."""
    parameters = list(target.parameters()) if isinstance(target, nn.Module) else []
    known, followed = tuple(arguments(target) or ()), bool(parameters)
    sides = _sides(known, followed, self_attention=options.self_attention)
    if len(set(sides.values())) < 3 and options.call is None and not followed:
        followed = len(sides) < 3
    taken = [arg for arg in known if arg.name not in sides]
    masks = [
        arg
        for arg in taken
        if arg.role in ("mask", "padding", "lengths") and "head_mask" not in arg.name.lower()
    ]
    switches = [arg for arg in taken if arg.role == "causal"]
    if options.call is not None:
        masks, switches = [ADAPTED] if reads_mask(options.call) else [], []
    second = options.batch_first is False and followed
    second = second or (options.batch_first is None and _batch_first(target) is False)
    return Signature(
        target,
        options,
        known,
        sides,
        tuple(masks),
        tuple(switches),
        followed,
        sum(math.prod(known_shape(part)) for part in parameters) > LARGE,
        (0, 1) if second else (),
    )


def _sides(known: tuple[Argument, ...], followed: bool, *, self_attention: bool) -> dict[str, str]:
    """Return which argument is query, key or value; of a layer x is a query."""
    roles = {arg.role: arg.name for arg in reversed(known)}
    placed = [arg for arg in known if arg.by_place]
    letters = {arg.name.lower()[0]: arg.name for arg in reversed(placed[:4])}
    tokens = [arg for arg in known if arg.role in (*PARTS, "x", "memory")]
    tokens = [arg for arg in tokens if arg.required or arg.default is None]
    needed = [arg for arg in placed if arg.required]
    if roles.keys() >= set(PARTS):
        names = {side: roles[side] for side in PARTS}
    elif letters.keys() >= set("qkv"):
        names = {side: letters[side[0]] for side in PARTS}
    elif len(needed) == 3 and not followed and not tokens:
        names = dict(zip(PARTS, (arg.name for arg in needed), strict=True))
    elif len(tokens) == 2 or (len(needed) == 2 and _two_sequences(*needed)):
        names = _of_two(*(tokens if len(tokens) == 2 else needed))
    else:
        names = {"query": (tokens or needed or known)[0].name} if known else {}
    sides = {name: side for side, name in names.items()}
    if self_attention:
        return dict.fromkeys(sides, "query")
    if len(names) == 2 and not followed:
        return sides
    return {arg.name: sides[arg.name] for arg in known if arg.name in sides}


def _of_two(first: Argument, second: Argument) -> dict[str, str]:
    """Return which of two arguments is the memory, called key here."""
    memory = ("memory", "key", "value")
    turned = second.role == "query" or (first.role in memory and second.role not in memory)
    sides = ("key", "query") if turned else ("query", "key")
    return dict(zip(sides, (first.name, second.name), strict=True))


def _two_sequences(first: Argument, second: Argument) -> bool:
    """Return whether two arguments are two sequences of tokens, by their names."""
    names = [arg.name.lower().strip("_0123456789") for arg in (first, second)]
    return all(name in ("x", "y", "z", "a", "b", "other", "inputs") for name in names)


def _batch_first(target: object) -> bool | None:
    """Return what a module says of itself; torch's own layers may say it in a part."""
    if not isinstance(target, nn.Module):
        return None
    own = type(target).__module__.startswith("torch.nn")
    said = [getattr(part, "batch_first", None) for part in (target.modules() if own else [target])]
    return next((first for first in said if isinstance(first, bool)), None)


def meaning_of(kind: str) -> str:
    """Return what a kind of mask means, as the option ``mask`` says it."""
    return "allowed" if kind in ("bool", "float") else kind.split()[0]


def known_shape(part: Tensor) -> tuple[int, ...]:
    """Return the shape of a parameter; that of a lazy one is empty."""
    lazy = isinstance(part, nn.parameter.UninitializedTensorMixin)
    return () if lazy else tuple(part.shape)
