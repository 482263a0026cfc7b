"""Read from a layer which argument takes what, and which sizes it wants."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from torch import Tensor, nn

from attnlab.clinic._results import Options
from attnlab.clinic.names import HEADS, LENGTHS, WIDTHS, Argument, arguments

STACKS = (nn.TransformerEncoder, nn.TransformerDecoder, nn.Transformer)
TORCHS = (nn.MultiheadAttention, nn.TransformerEncoderLayer, nn.TransformerDecoderLayer, *STACKS)
SIDES = ("query", "key", "value")
SHAPES = ("LS", "NS", "N11S", "NLS", "N1S")  # of a mask that is always wanted


@dataclass(frozen=True)
class Plan:
    """Which argument gets what."""

    kind: str = "x"  # "x", "memory" for (x, context), "triple" for (query, key, value)
    roles: tuple[tuple[str, str], ...] = (("x", "query"),)  # in the order of the call
    masks: tuple[str, ...] = ()  # of lengths too, and they come last
    flags: tuple[str, ...] = ()  # is_causal and the like
    lengths: str | None = None
    required: tuple[Argument, ...] = ()  # what it wants beside tokens
    first: bool = True  # whether its first argument is given by its place
    sequence_first: bool = False
    single: bool = False  # takes one sequence (L, E) only
    stand_in: tuple[str, object] | None = None  # the mask it wants always: shape and content
    dropout: object = None  # what it gets for a dropout that it wants
    adapter: object = None


@dataclass(frozen=True)
class Sizes:
    """The sizes that a module was found to accept."""

    embed: int
    length: int
    batch: int = 2
    heads: int | None = None
    key: int | None = None  # the width of keys, where it is not that of queries
    value: int | None = None

    def other(self) -> int:
        """Return a number of keys unlike every other size."""
        taken = (self.embed, self.length, self.batch, self.heads or 0)
        return next(size for size in (7, 6, 9, 8, 10, 11, 13) if size not in taken)

    def sequences(self) -> int:
        """Return a number of sequences unlike the sizes of a mask: a mask then fits one way."""
        return next(n for n in (3, 4, 2, 6, 7) if n not in (self.length, self.heads))


# --- the arguments --------------------------------------------------------------------------------


def plans(module: object, options: Options) -> Iterator[Plan]:
    """Yield the ways to call it, the likeliest first."""
    base = _read_signature(module, options)
    first = options.batch_first
    first = _says_first(module) if first is None else first
    base = replace(base, sequence_first=first is False)
    yield base
    if any(one.role in ("mask", "padding", "unknown") for one in base.required):
        for content in (True, False, 0.0):
            for shape in SHAPES:
                yield replace(base, stand_in=(shape, content))
    if any(one.role == "dropout" for one in base.required):
        yield replace(base, dropout=nn.Identity())
    if base.adapter is None:
        yield replace(base, single=True)


def is_torchs(module: object) -> bool:
    """Return whether it is, or inherits from, a layer of torch with masks, True where blocked."""
    own = isinstance(module, nn.Module) and type(module).__module__.startswith("torch.nn")
    return own or isinstance(module, TORCHS)


def _says_first(module: object) -> bool | None:
    """Return batch_first of a module; torch's own layers may keep it in a part."""
    parts = module.modules() if is_torchs(module) else [module]
    told = (getattr(part, "batch_first", None) for part in parts)
    return next((one for one in told if isinstance(one, bool)), None)


def _read_signature(module: object, options: Options) -> Plan:
    plan = _sorted(arguments(module) or [])
    if isinstance(module, nn.MultiheadAttention):
        return replace(plan, kind="triple", flags=(), masks=("attn_mask", "key_padding_mask"))
    if options.call is not None:
        alone = options.self_attention or plan.kind == "x"
        return Plan(kind="x" if alone else "triple", masks=("attn_mask",), adapter=options.call)
    if options.self_attention:
        return replace(plan, kind="x", roles=tuple((name, "query") for name, _ in plan.roles))
    return plan


def _sorted(known: list[Argument]) -> Plan:
    """Return the plan of a signature."""
    data = _data(known)
    kind, roles = _roles(data)
    named = {
        role: [one.name for one in known if one.role in role.split()]
        for role in ("mask padding", "causal", "lengths")
    }
    masks = [name for name in named["mask padding"] if "head_mask" not in name.lower()]
    return Plan(
        kind,
        roles,
        (*masks, *named["lengths"][:1]),
        tuple(named["causal"]),
        next(iter(named["lengths"]), None),
        tuple(one for one in known if one.required and one not in data),
        not known or (known[0] in data and known[0].by_place),
    )


def _data(known: list[Argument]) -> list[Argument]:
    """Return the arguments that take tokens, in the order of the signature."""
    named = [one for one in known if one.role in (*SIDES, "x")]
    unnamed = [one for one in known if one.role == "unknown" and one.required]
    if len({one.role for one in named} & set(SIDES)) < 3:  # a memory, where no key and value are
        open_ones = [one for one in known if one.required or one.default is None]
        named += [one for one in open_ones if one.role == "memory"]
    if len(named) == 1 and named[0].role == "query":
        named += unnamed
    if not any(one.required for one in named):  # f(a), f(a, b), f(a, b, c)
        named += unnamed[:3]
    elif len(named) == 1 and len(unnamed) == 1 and named[0].role == "x":
        second = unnamed[0].name.lower().strip("_0123456789")
        named += unnamed if second in ("x", "y", "z", "b", "other") else []
    return [one for one in known if one in named][:3]


def _roles(data: list[Argument]) -> tuple[str, tuple[tuple[str, str], ...]]:
    """Return the kind and the role of each argument that takes tokens."""
    names, known = [one.name for one in data], [one.role for one in data]
    if len(data) >= 3:
        roles = known if set(known) == set(SIDES) else SIDES
        return "triple", tuple(zip(names, roles, strict=True))
    if len(data) == 2:
        first, second = (role in ("memory", "key", "value") for role in known)
        swapped = known[1] == "query" or (first and not second)  # (src, tgt)
        order = ("memory", "query") if swapped else ("query", "memory")
        return "memory", tuple(zip(names, order, strict=True))
    return "x", ((names[0] if names else "x", "query"),)


# --- the sizes ------------------------------------------------------------------------------------


def sizes_of(module: object, options: Options) -> list[Sizes]:
    """Return the sizes that a module's own numbers suggest, the likeliest first."""
    inner = list(module.modules())[1:] if isinstance(module, nn.Module) else []
    heads = options.num_heads or _heads(module, inner)
    embeds = [options.embed_dim] if options.embed_dim else _widths(module, inner)
    taken = {(embeds or [0])[0], heads, 2}
    taken |= {size // heads for size in list(taken) if size and heads and size > heads}
    lengths = [5, 7, 9, 6, 11, 13, 17]
    lengths.sort(key=lambda size: (size in taken, size <= (heads or 1)))
    lengths += [4, 3, 8, 2, *_integers(module, LENGTHS)]
    sides = getattr(module, "kdim", None), getattr(module, "vdim", None)
    sides = sides if all(map(_is_size, sides)) else (None, None)
    batch, embeds = 2 if heads != 2 else 3, list(dict.fromkeys(embeds))[:8]
    lengths = list(dict.fromkeys(lengths))
    return [Sizes(embed, length, batch, heads, *sides) for embed in embeds for length in lengths]


def _heads(module: object, inner: list[nn.Module]) -> int | None:
    """Return the number of heads that the attributes or the lists of a layer tell."""
    told = [n for part in (module, *inner) for n in _integers(part, HEADS)]
    own = list(module.children()) if inner else []
    lists = [len(part) for part in own if isinstance(part, nn.ModuleList) and len(part) > 1]
    lists += [len(part) for part in inner if isinstance(part, nn.ModuleList) and len(part)]
    return next(iter([*told, *lists]), None)


def _widths(module: object, inner: list[nn.Module]) -> list[int]:
    embeds = _integers(module, WIDTHS)
    if not isinstance(module, nn.Module):
        return [*embeds, *_enclosed(module), 12]
    embeds += [part.in_features for part in inner if isinstance(part, nn.Linear)]
    embeds += [number for part in inner for number in _integers(part, WIDTHS[:4])]
    for part in module.parameters():
        embeds += [] if is_lazy(part) else [size for size in part.shape if size > 1]
    return embeds + [value for value in vars(module).values() if _is_size(value)]


def is_lazy(parameter: Tensor) -> bool:
    """Return whether a parameter gets its shape only with the first call."""
    return isinstance(parameter, nn.parameter.UninitializedTensorMixin)


def _is_size(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value <= 4096


def _integers(module: object, names: list[str]) -> list[int]:
    found = [getattr(module, name, None) for name in names]
    return [value for value in found if _is_size(value)]


def _enclosed(function: object) -> list[int]:
    """Return the first sizes of tensors and layers that a function uses from outside."""
    code = getattr(function, "__code__", None)
    cells = [cell.cell_contents for cell in getattr(function, "__closure__", None) or ()]
    known = getattr(function, "__globals__", {})
    used = [*cells, *(known.get(name) for name in getattr(code, "co_names", ()))]
    sizes = [item.shape[0] for item in used if isinstance(item, Tensor) and item.ndim == 2]
    return sizes + [item.in_features for item in used if isinstance(item, nn.Linear)]
