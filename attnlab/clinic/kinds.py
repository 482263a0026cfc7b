"""What kind of target something is, and which examination belongs to it."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator

from torch import nn

from attnlab.clinic.examine import examine
from attnlab.clinic.names import arguments
from attnlab.clinic.probes.pieces import examine_merge, examine_pair, examine_split
from attnlab.clinic.results import Fact, Results, unexamined
from attnlab.clinic.signature import Options
from attnlab.sandbox import name_of


def _too_small(target: object, options: Options, seen: Results) -> Iterator[Fact]:
    """Yield that a piece of attention is not examined."""
    yield unexamined(
        "A softmax by itself and a function that builds a mask are not examined.",
        remedy="Print what it gives, or use the checks of lesson 1 and lesson 3.",
    )


KINDS: dict[str, tuple[str, Callable]] = {
    "attention": ("attention function", examine),
    "module": ("attention layer", examine),
    "heads": ("pair (split, merge)", examine_pair),
    "split": ("head split", examine_split),
    "merge": ("head merge", examine_merge),
    "mask": ("mask builder", _too_small),
    "softmax": ("softmax", _too_small),
}
NAMED = (("softmax", "softmax"), ("merge", "merge|combine|join|unsplit|concat"), ("split", "split"))
SIZE_NAMES = re.compile(r"^(n|l|s|t|size|length|lengths|lens|seq_len|max_len|window|ids|tokens)$")
HEAD_COUNTS = re.compile(r"^(num_heads|n_heads?|nhead|heads?|h)$", re.IGNORECASE)


def unusable(target: object) -> Fact | None:
    """Return why a target cannot be examined, if it cannot."""
    pair = isinstance(target, tuple | list)
    if inspect.isclass(target) and issubclass(target, nn.Module):
        sentence = f"{target.__name__} is a class: make a layer first, {target.__name__}(...)."
    elif pair and (len(target) != 2 or not all(map(callable, target))):
        sentence = "A pair must be two functions: (split, merge)."
    elif not pair and not callable(target):
        sentence = f"{type(target).__name__} cannot be called."
    else:
        return None
    return unexamined(sentence, remedy="Pass a function, a module or a pair (split, merge).")


def kind_of(target: object) -> str:
    """Return which of KINDS a target is, told by its type, its arguments and its name."""
    if isinstance(target, tuple | list):
        return "heads"
    known = arguments(target) or []
    required = sum(arg.required for arg in known)
    if isinstance(target, nn.Module):  # without parameters it may be an attention function
        weights = any(True for _ in target.parameters())
        return "module" if weights or required < 3 else "attention"
    name, names = name_of(target).lower(), [arg.name.lower() for arg in known]
    if sorted(part.removeprefix("x_")[:1] for part in names[:3]) == ["k", "q", "v"]:
        return "attention"
    for kind, words in NAMED:
        if re.search(words, name):
            return kind
    if "mask" in name or ("causal" in name and len(names) < 3):
        return "mask"
    if len(names) >= 2 and HEAD_COUNTS.match(names[1]) and required <= 3:
        return "split"
    if names and SIZE_NAMES.match(names[0]) and required <= 2:
        return "mask"
    if names and names[0] in ("scores", "logits"):
        return "softmax"
    return "module" if required == 1 and len(names) <= 2 else "attention"
