"""What a function says about itself. Asked only where behaviour alone cannot decide."""

from __future__ import annotations

import functools
import inspect
import re

ADDITIVE = re.compile(r"additive|float mask|0 ?(/|,|or|and) ?(-inf|minus inf)|bias", re.IGNORECASE)
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
BLOCKED = re.compile(
    rf"\b(true|1s?|ones?)\b[^.,;\n]{{0,40}}?({_HIDDEN})|key_padding", re.IGNORECASE
)
HEADS = re.compile(r"\bheads?\b|n_heads|num_heads|\(N, H\b|\(B, H\b|4-?D|four dim", re.IGNORECASE)
_BATCH = r"(n|b|bs|bsz|batch\w*|num_batch\w*)"
_TOKENS = r"(l|t|s|n|q|i|\w*(seq|len|time|tokens|steps)\w*)"
_HEAD = r"(h|nh|\w*heads?\w*)"
TOKENS_FIRST = re.compile(rf"[(\[]\s*{_BATCH}\s*,\s*{_TOKENS}\s*,\s*{_HEAD}\s*,", re.IGNORECASE)
TIME_FIRST = re.compile(
    rf"[(\[]\s*{_TOKENS}\s*,\s*(b|bs|bsz|batch\w*)\s*,|(time|seq|sequence)[_ ]first", re.IGNORECASE
)
BATCH = re.compile(r"batch|\(N,|\(B,|\.\.\.|\bbmm\b|3-?D|4-?D", re.IGNORECASE)


def text_of(function: object) -> str:
    """Return the docstring, the comments and the code of a function; what there is of them."""
    function = getattr(function, "func", function)  # a partial
    try:
        return source_of(function)
    except Exception:  # inspect raises many kinds for code that has no file
        return str(getattr(function, "__doc__", None) or "")


@functools.lru_cache(maxsize=64)
def source_of(thing: object) -> str:
    """Return ``inspect.getsource(thing)``; for a class Python parses its whole file.

    One examination asks for the same source up to four times.
    """
    return inspect.getsource(thing)


def _words_of(function: object) -> str:
    """Return name, docstring and comments, without the code."""
    text = text_of(function)
    comments = re.findall(r"#.*", text)
    doc = str(getattr(function, "__doc__", None) or "")
    return " ".join([str(getattr(function, "__name__", "")), doc, *comments])


def says_additive(function: object, mask: str | None) -> bool:
    """Return whether the mask is described as one that is added to the scores."""
    words = f"{mask or ''} {_words_of(function)}"
    return bool(ADDITIVE.search(words)) and not BOOLEAN.search(SHAPE.sub("", words))


def says_blocked(function: object, mask: str = "") -> bool:
    """Return whether True is described as blocked, by the name of the mask or in words only."""
    words = _words_of(function)
    described = BLOCKED.search(words) and not ALLOWED.search(words)
    return bool(BLOCKED_NAME.search(mask.lower()) or described)


def says_heads(function: object) -> bool:
    """Return whether the function speaks of heads or four dimensions."""
    return bool(HEADS.search(_words_of(function)))


def tokens_before_heads(function: object) -> bool:
    """Return whether tensors are described as (N, L, H, E), heads behind the tokens."""
    return bool(TOKENS_FIRST.search(_words_of(function)))


def time_before_batch(function: object) -> bool:
    """Return whether tensors are described as (L, N, E), tokens before the batch."""
    return bool(TIME_FIRST.search(_words_of(function)))


def says_batch(function: object) -> bool:
    """Return whether the function speaks of a batch."""
    return bool(BATCH.search(_words_of(function)))
