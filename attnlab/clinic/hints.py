"""What a function or a layer says about itself. Asked only where behaviour alone cannot decide."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable

from torch import nn

ADDED_WORDS = re.compile(
    r"additive|added to the scores|float mask|0 ?(/|,|or|and) ?(-inf|minus inf)|bias|"
    r"(floats?|numbers?)\b.{0,40}\badd",
    re.IGNORECASE,
)
ALLOWED = re.compile(
    r"\btrue\b.{0,30}?(may|allow|attend|keep|kept|visible|real|valid)", re.IGNORECASE
)
BOOLEAN = re.compile(r"bool|\btrue\b|\b1s?\b", re.IGNORECASE)
BLOCKED_NAME = re.compile(r"block|hid(e|den)|ignor|exclu|masked")
_HIDDEN = (
    r"mask(s|ed|ing)|block|ignor|hid(e|den)|exclu|pad|forbid|forbad|prevent|disallow|"
    r"not (be )?(attend|allow|seen|visible)"
)
SHAPE = re.compile(r"[(\[][^()\[\]]*,[^()\[\]]*,[^()\[\]]*[)\]]")
_NOT_HIDDEN = r"0|zero|false|not (mask|pad|ignor|hid|block)"
BLOCKED = re.compile(
    rf"\b(true|1s?)\b((?!\b({_NOT_HIDDEN}))[^.,;\n]){{0,40}}?({_HIDDEN})", re.IGNORECASE
)


@functools.lru_cache(maxsize=64)  # for a class Python parses its whole file
def text_of(code: object) -> str:
    """Return the docstring, the comments and the code; what there is of them."""
    code = _own(code)
    try:
        return inspect.getsource(code)
    except Exception:  # inspect raises many kinds for code that has no file
        return str(getattr(code, "__doc__", None) or "")


def _own(code: object) -> object:
    """Return what has a text: the class of a layer, the function of a partial."""
    return type(code) if isinstance(code, nn.Module) else getattr(code, "func", code)


def _words_of(code: object) -> str:
    """Return name, docstrings and comments, without the code."""
    comments = re.findall(r"#.*", text_of(code))
    code = _own(code)
    docs = [getattr(part, "__doc__", None) for part in (code, getattr(code, "forward", None))]
    words = [getattr(code, "__name__", ""), *docs, *comments]
    return " ".join(str(word or "") for word in words)


def says_additive(code: object, mask: str | None) -> bool:
    """Return whether the mask is named or described as one that is added to the scores."""
    words = _words_of(code)
    named = "bias" in (mask or "").lower() or ADDED_WORDS.search(f"{mask or ''} {words}")
    return bool(named) and not BOOLEAN.search(SHAPE.sub("", words))


def says_blocked(code: object, mask: str = "") -> bool:
    """Return whether True is described as blocked, by the name of the mask or in words only."""
    words = _words_of(code)
    described = BLOCKED.search(words) and not ALLOWED.search(words)
    return bool(BLOCKED_NAME.search(mask.lower()) or described)


def says_allowed(code: object, mask: str = "") -> bool:
    """Return whether True is described as allowed, by the name of the mask or in words."""
    words = _words_of(code)
    named = re.search(r"allow|keep|visible|may_attend", mask.lower())
    return bool(named or (ALLOWED.search(words) and not BLOCKED.search(words)))


def _says(pattern: str) -> Callable[[object], bool]:
    """Return a function that tells whether code speaks of something in its name or its words."""
    compiled = re.compile(pattern, re.IGNORECASE)
    return lambda code: bool(compiled.search(_words_of(code)))


says_unscaled = _says(
    r"\bt5\b|no (scaling|scale|factor)\b|un-?scaled|not (be )?scaled|without (the )?scal|"
    r"(n't|not) scale (the|it|them|by|q|s)\b"
)
says_newest = _says(r"queries are the (newest|latest|last)|(newest|latest) (quer|tok)")
_BATCH = r"(n|b|bs|bsz|batch\w*|num_batch\w*)"
_TOKENS = r"(l|t|s|n|q|i|\w*(seq|len|time|tokens|steps)\w*)"
_HEAD = r"(h|nh|\w*heads?\w*)"
says_heads = _says(r"\bheads?\b|n_heads|num_heads|\(N, H\b|\(B, H\b|4-?D|four dim")
tokens_before_heads = _says(rf"[(\[]\s*{_BATCH}\s*,\s*{_TOKENS}\s*,\s*{_HEAD}\s*,")
time_before_batch = _says(
    rf"[(\[]\s*{_TOKENS}\s*,\s*(b|bs|bsz|batch\w*)\s*,|(time|seq|sequence)[_ ]first"
)
