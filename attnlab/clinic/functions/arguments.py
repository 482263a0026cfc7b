"""What a function takes, told by the names of its arguments."""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable
from typing import NamedTuple

from torch import Tensor

from attnlab.clinic._calling import parameters

CAUSAL_NAMES = ("is_causal", "causal", "use_causal_mask", "causal_mask")
FEATURE_NAMES = ("d_k", "dk", "d", "dim", "head_dim", "d_head")
SCALE_NAMES = ("scale", "scaling", "factor")
NO_DROPOUT = ("dropout", "dropout_p", "p", "attn_dropout")
OPEN = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


class Arguments(NamedTuple):
    """What a function takes; names are None where it has no such argument."""

    order: tuple[int, ...]  # the places of query, key and value among its first three arguments
    mask: str | None
    causal: str | None
    fixed: dict[str, Callable[[Tensor], object]]
    required_mask: bool
    keywords: bool
    further: tuple[str, ...] = ()  # more masks


def arguments(function: Callable) -> Arguments:
    """Return what a function takes after query, key and value, told by the names."""
    known = parameters(function)
    given = getattr(function, "keywords", {}) if isinstance(function, functools.partial) else {}
    if known is None:  # a function written in C, such as torch's own
        free = not any(given.get(name) for name in CAUSAL_NAMES)  # else it takes no mask beside
        mask = "attn_mask" if free and "attn_mask" not in given else None
        causal = None if "is_causal" in given or mask is None else "is_causal"
        return Arguments((0, 1, 2), mask, causal, {}, False, True)
    known = [one for one in known if one.name not in given]
    rest = [one for one in known[3:] if one.kind in (*OPEN, inspect.Parameter.KEYWORD_ONLY)]
    causal = next((one.name for one in rest if one.name in CAUSAL_NAMES), None)
    mask = next(
        (one for one in rest if ("mask" in one.name and one.name != causal) or "bias" in one.name),
        None,
    )
    fixed = {}
    for one in rest:
        if one.name in FEATURE_NAMES and one.default is one.empty:
            fixed[one.name] = lambda query: query.shape[-1]
        elif one.name in SCALE_NAMES and one.default is one.empty:
            fixed[one.name] = lambda query: 1 / math.sqrt(query.shape[-1])
        elif one.name in NO_DROPOUT and one.default is one.empty:
            fixed[one.name] = lambda query: 0.0
    if mask is None:  # an argument of unknown name, the next in line
        spare = [
            one
            for one in rest
            if one.name not in fixed and one.name != causal and "len" not in one.name
        ]
        mask = next((one for one in spare if one.default in (None, one.empty)), None)
    required = mask is not None and mask.default is mask.empty
    keywords = all(one.kind is not inspect.Parameter.POSITIONAL_ONLY for one in rest)
    order = _order([one.name for one in known[:3]])
    further = tuple(
        one.name
        for one in rest
        if "mask" in one.name and one not in (mask, None) and one.name != causal
    )
    name = mask.name if mask else None
    return Arguments(order, name, causal, fixed, required, keywords, further)


def _order(names: list[str]) -> tuple[int, ...]:
    """Return the places of query, key and value, where the names start with q, k and v."""
    initials = [name.lower().removeprefix("x_")[:1] for name in names]
    if sorted(initials) != ["k", "q", "v"]:
        return (0, 1, 2)
    return tuple(initials.index(letter) for letter in "qkv")


def heads_in_front(function: Callable) -> Callable:
    """Return a function of (N, H, L, E) made from one of (N, L, H, E)."""

    def turn(part: object) -> object:
        return part.transpose(1, 2) if isinstance(part, Tensor) and part.ndim == 4 else part

    @functools.wraps(function)
    def turned(*arguments: object, **named: object) -> object:
        result = function(*map(turn, arguments[:3]), *arguments[3:], **named)
        return (turn(result[0]), *result[1:]) if isinstance(result, tuple) else turn(result)

    return turned
