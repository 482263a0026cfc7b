"""Guess the sizes that a module wants from its own numbers."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import Tensor, nn

from attnlab.clinic._results import Options
from attnlab.clinic.names import HEADS, LENGTHS, WIDTHS


@dataclass
class Guesses:
    """Numbers to try, the likeliest first."""

    embeds: list[int] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)
    heads: int | None = None
    sides: tuple[int | None, int | None] = (None, None)  # widths of keys and values, if their own


def guess_sizes(module: object, options: Options) -> Guesses:
    """Return the widths, lengths and number of heads that a module's own numbers suggest."""
    heads = options.num_heads or next(iter(_integers(module, HEADS)), None)
    embeds = [options.embed_dim] if options.embed_dim else _integers(module, WIDTHS)
    if not options.embed_dim and isinstance(module, nn.Module):
        inner = list(module.modules())[1:]
        embeds += [part.in_features for part in inner if isinstance(part, nn.Linear)]
        embeds += [number for part in inner for number in _integers(part, WIDTHS[:4])]
        for part in module.parameters():
            embeds += [] if is_lazy(part) else [size for size in part.shape if size > 1]
        embeds += [value for value in vars(module).values() if _size(value)]
        if heads is None:
            heads = next((n for part in inner for n in _integers(part, HEADS)), None)
        if heads is None:
            heads = next(
                (
                    len(p)
                    for p in vars(module).get("_modules", {}).values()
                    if isinstance(p, nn.ModuleList) and len(p) > 1
                ),
                None,
            )
        if heads is None:
            heads = next((len(p) for p in inner if isinstance(p, nn.ModuleList) and len(p)), None)
    elif not options.embed_dim:
        embeds += [*_enclosed(module), 12]
    taken = {options.embed_dim or (embeds or [0])[0], heads, 2}
    taken |= {size // heads for size in list(taken) if size and heads and size > heads}
    lengths = [5, 7, 9, 6, 11, 13, 17]
    lengths.sort(key=lambda size: (size in taken, size <= (heads or 1)))
    lengths += [4, 3, 8, 2, *_integers(module, LENGTHS)]
    sides = getattr(module, "kdim", None), getattr(module, "vdim", None)
    sides = sides if all(map(_size, sides)) else (None, None)
    return Guesses(list(dict.fromkeys(embeds))[:8], list(dict.fromkeys(lengths)), heads, sides)


def is_lazy(parameter: Tensor) -> bool:
    """Return whether a parameter gets its shape only with the first call."""
    return isinstance(parameter, nn.parameter.UninitializedTensorMixin)


def _size(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value <= 4096


def _integers(module: object, names: list[str]) -> list[int]:
    found = [getattr(module, name, None) for name in names]
    return [value for value in found if _size(value)]


def _enclosed(function: object) -> list[int]:
    """Return the first sizes of tensors and layers that a function uses from outside."""
    code = getattr(function, "__code__", None)
    cells = [cell.cell_contents for cell in getattr(function, "__closure__", None) or ()]
    known = getattr(function, "__globals__", {})
    used = [*cells, *(known.get(name) for name in getattr(code, "co_names", ()))]
    sizes = [item.shape[0] for item in used if isinstance(item, Tensor) and item.ndim == 2]
    return sizes + [item.in_features for item in used if isinstance(item, nn.Linear)]
