"""Read from a signature which argument of a module takes what."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from torch import nn

from attnlab.clinic._results import Options

STACKS = (nn.TransformerEncoder, nn.TransformerDecoder, nn.Transformer)
TORCHS = (
    nn.MultiheadAttention,
    nn.TransformerEncoderLayer,
    nn.TransformerDecoderLayer,
    *STACKS,
)
MEMORY = re.compile(r"context|memory|enc|source|src|kv$|other|cond|^y$|x_?2|x_?kv")


@dataclass(frozen=True)
class Plan:
    """Which argument gets what."""

    kind: str = "x"  # "x", "memory" for (x, context), "triple" for (query, key, value)
    roles: tuple[tuple[str, str], ...] = (("x", "query"),)  # in the order of the call
    masks: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()  # is_causal and the like
    lengths: str | None = None
    required: tuple[str, ...] = ()  # extras without a default
    sequence_first: bool = False
    single: bool = False  # takes one sequence (L, E) only
    stand_in: tuple[str, bool] | None = None  # the mask it needs at all times: shape and content
    adapter: Callable | None = None


def role_of(name: str) -> str | None:
    """Return which of query, key and value an argument's name means, if it says so."""
    plain = re.sub(r"(^x_?)|(_?x$)|(_?(in|input|inputs|states?|seq|tokens?)$)", "", name.lower())
    for role in ("query", "key", "value"):
        if plain in (role[0], role, role + "s", role[:-1] + "ies") or plain.startswith(role):
            return role
    return None


def plans(module: object, options: Options) -> Iterator[Plan]:
    """Yield the ways to call it, the likeliest first."""
    base = _read_signature(module, options)
    first = options.batch_first
    if first is None:
        first = _says_first(module)
    base = replace(base, sequence_first=first is False)
    yield base
    if base.required:
        for shape in ("LS", "NS", "N11S"):
            for content in (True, False):
                yield replace(base, stand_in=(shape, content))
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
    function = module.forward if isinstance(module, nn.Module) else module
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    plan = _sort_parameters(parameters)
    if isinstance(module, nn.MultiheadAttention):
        return replace(plan, kind="triple", flags=(), masks=("attn_mask", "key_padding_mask"))
    if options.call is not None:
        kind = "x" if plan.kind == "x" else "triple"
        return Plan(kind=kind, masks=("attn_mask",), adapter=options.call)
    return plan


def _sort_parameters(parameters: list[inspect.Parameter]) -> Plan:
    masks, flags, required, data = [], [], [], []
    lengths = None
    for parameter in parameters:
        name, low = parameter.name, parameter.name.lower()
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        bare = parameter.default is parameter.empty
        if "causal" in low and "mask" not in low:
            flags.append(name)
        elif "len" in low:
            lengths = name
        elif "mask" in low or low in ("attn_bias", "padding", "pad"):
            masks.append(name)
        elif bare or role_of(low) or (MEMORY.search(low) and parameter.default is None):
            data.append(name)
            continue
        else:
            continue
        if bare:
            required.append(name)
    kind, roles = _roles(data)
    return Plan(kind, roles, tuple(masks), tuple(flags), lengths, tuple(required))


def _roles(names: list[str]) -> tuple[str, tuple[tuple[str, str], ...]]:
    """Return the kind and the role of each argument that takes tokens."""
    known = {name: role_of(name) for name in names}
    if len(names) >= 3:
        three = names[:3]
        if {known[name] for name in three} == {"query", "key", "value"}:
            return "triple", tuple((name, known[name]) for name in three)
        return "triple", tuple(zip(three, ("query", "key", "value"), strict=True))
    if len(names) == 2:
        first, second = (bool(MEMORY.search(name)) for name in names)
        swapped = known[names[1]] == "query" or (first and not second)  # (src, tgt)
        order = ("memory", "query") if swapped else ("query", "memory")
        return "memory", tuple(zip(names, order, strict=True))
    return "x", ((names[0] if names else "x", "query"),)
