"""Read from a signature which argument of a layer takes what."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from torch import nn

from attnlab.clinic._results import Options
from attnlab.clinic.names import Argument, arguments

STACKS = (nn.TransformerEncoder, nn.TransformerDecoder, nn.Transformer)
TORCHS = (nn.MultiheadAttention, nn.TransformerEncoderLayer, nn.TransformerDecoderLayer, *STACKS)
SIDES = ("query", "key", "value")
SHAPES = ("LS", "NS", "N11S", "NLS", "N1S")  # of a mask that is always wanted


@dataclass(frozen=True)
class Plan:
    """Which argument gets what."""

    kind: str = "x"  # "x", "memory" for (x, context), "triple" for (query, key, value)
    roles: tuple[tuple[str, str], ...] = (("x", "query"),)  # in the order of the call
    masks: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()  # is_causal and the like
    lengths: str | None = None
    required: tuple[Argument, ...] = ()  # what it wants beside tokens
    first: bool = True  # whether its first argument is given by its place
    sequence_first: bool = False
    single: bool = False  # takes one sequence (L, E) only
    stand_in: tuple[str, object] | None = None  # the mask it wants always: shape and content
    dropout: object = None  # what it gets for a dropout that it wants
    adapter: object = None


def plans(module: object, options: Options) -> Iterator[Plan]:
    """Yield the ways to call it, the likeliest first."""
    base = _read_signature(module, options)
    first = options.batch_first
    if first is None:
        first = _says_first(module)
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


def extra_key(module: object) -> str:
    """Return what gives every row one more key than there are tokens, or nothing."""
    for part in module.modules() if isinstance(module, nn.Module) else ():
        if getattr(part, "bias_k", None) is not None:
            return "add_bias_kv"
        if getattr(part, "add_zero_attn", False) is True:
            return "add_zero_attn"
    return ""


def _says_first(module: object) -> bool | None:
    """Return batch_first of a module; torch's own layers may keep it in a part."""
    for part in module.modules() if is_torchs(module) else [module]:
        if isinstance(getattr(part, "batch_first", None), bool):
            return part.batch_first
    return None


def _read_signature(module: object, options: Options) -> Plan:
    known = arguments(module) or []
    plan = _sorted(known)
    if isinstance(module, nn.MultiheadAttention):
        return replace(plan, kind="triple", flags=(), masks=("attn_mask", "key_padding_mask"))
    if options.call is not None:
        alone = options.self_attention or plan.kind == "x"
        return Plan(kind="x" if alone else "triple", masks=("attn_mask",), adapter=options.call)
    if options.self_attention:
        alike = tuple((name, "query") for name, _ in plan.roles)
        return replace(plan, kind="x", roles=alike)
    return plan


def _sorted(known: list[Argument]) -> Plan:
    """Return the plan of a signature."""
    by_role: dict[str, list[Argument]] = {}
    for one in known:
        by_role.setdefault(one.role, []).append(one)
    data = _data(known, by_role)
    kind, roles = _roles(data)
    left = [one for one in known if one.required and one not in data]
    lengths = next((one.name for one in by_role.get("lengths", ())), None)
    return Plan(
        kind,
        roles,
        tuple(
            one.name
            for one in known
            if one.role in ("mask", "padding") and "head_mask" not in one.name.lower()
        ),
        tuple(one.name for one in by_role.get("causal", ())),
        lengths,
        tuple(left),
        not known or (known[0] in data and known[0].by_place),
    )


def _data(known: list[Argument], by_role: dict[str, list[Argument]]) -> list[Argument]:
    """Return the arguments that take tokens, in the order of the signature."""
    named = [one for one in known if one.role in (*SIDES, "x")]
    sides = {one.role for one in named} & set(SIDES)
    if len(sides) < 3:  # a memory, where no key and value say what the query looks at
        named += [one for one in by_role.get("memory", ()) if one.required or one.default is None]
    if len(named) == 1 and named[0].role == "query":
        named += [one for one in by_role.get("unknown", ()) if one.required]
    unnamed = [one for one in by_role.get("unknown", ()) if one.required]
    if not any(one.required for one in named):  # f(a), f(a, b), f(a, b, c)
        named += unnamed[:3]
    elif len(named) == 1 and len(unnamed) == 1 and named[0].role == "x" and _other(unnamed[0]):
        named += unnamed
    return [one for one in known if one in named][:3]


def _other(argument: Argument) -> bool:
    """Return whether an unknown argument is called like a second sequence, such as y or x2."""
    return argument.name.lower().strip("_0123456789") in ("x", "y", "z", "b", "other")


def _roles(data: list[Argument]) -> tuple[str, tuple[tuple[str, str], ...]]:
    """Return the kind and the role of each argument that takes tokens."""
    names = [one.name for one in data]
    known = [one.role for one in data]
    if len(data) >= 3:
        roles = known if set(known) == set(SIDES) else SIDES
        return "triple", tuple(zip(names, roles, strict=True))
    if len(data) == 2:
        first, second = (role in ("memory", "key", "value") for role in known)
        swapped = known[1] == "query" or (first and not second)  # (src, tgt)
        order = ("memory", "query") if swapped else ("query", "memory")
        return "memory", tuple(zip(names, order, strict=True))
    return "x", ((names[0] if names else "x", "query"),)
