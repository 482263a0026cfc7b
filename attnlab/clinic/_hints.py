"""What a function or a layer says about itself. Asked only where behaviour alone cannot decide."""

from __future__ import annotations

import functools
import inspect
import re

from torch import nn

ADDITIVE = re.compile(
    r"additive|added to the scores|float mask|0 ?(/|,|or|and) ?(-inf|minus inf)|bias|"
    r"(floats?|numbers?)\b.{0,40}\badd",
    re.IGNORECASE,
)
PADDED = re.compile(
    r"\btrue\b\W*((at|for|on|is|means|marks|where|there|it|a|the|an?|tokens?|keys?)\s+){0,4}pad",
    re.IGNORECASE,
)
NEWEST = re.compile(
    r"\b(cached?|past|newest|latest|most recent|last (ones|quer|token))", re.IGNORECASE
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
BLOCKED = re.compile(
    rf"\b(true|1s?|ones?)\b((?!\b(0|zero|false))[^.,;\n]){{0,40}}?({_HIDDEN})|key_padding",
    re.IGNORECASE,
)
NARROW = re.compile(r"narrow", re.IGNORECASE)
HEADS = re.compile(r"\bheads?\b|n_heads|num_heads|\(N, H\b|\(B, H\b|4-?D|four dim", re.IGNORECASE)
_BATCH = r"(n|b|bs|bsz|batch\w*|num_batch\w*)"
_TOKENS = r"(l|t|s|n|q|i|\w*(seq|len|time|tokens|steps)\w*)"
_HEAD = r"(h|nh|\w*heads?\w*)"
TOKENS_FIRST = re.compile(rf"[(\[]\s*{_BATCH}\s*,\s*{_TOKENS}\s*,\s*{_HEAD}\s*,", re.IGNORECASE)
TIME_FIRST = re.compile(
    rf"[(\[]\s*{_TOKENS}\s*,\s*(b|bs|bsz|batch\w*)\s*,|(time|seq|sequence)[_ ]first", re.IGNORECASE
)
BATCH = re.compile(r"batch|\(N,|\(B,|\.\.\.|\bbmm\b|3-?D|4-?D", re.IGNORECASE)


def text_of(code: object) -> str:
    """Return the docstring, the comments and the code; what there is of them."""
    code = _own(code)
    try:
        return source_of(code)
    except Exception:  # inspect raises many kinds for code that has no file
        return str(getattr(code, "__doc__", None) or "")


def _own(code: object) -> object:
    """Return what has a text: the class of a layer, the function of a partial."""
    return type(code) if isinstance(code, nn.Module) else getattr(code, "func", code)


@functools.lru_cache(maxsize=64)
def source_of(thing: object) -> str:
    """Return ``inspect.getsource(thing)``; for a class Python parses its whole file.

    One examination asks for the same source up to four times.
    """
    return inspect.getsource(thing)


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
    named = "bias" in (mask or "").lower() or ADDITIVE.search(f"{mask or ''} {words}")
    return bool(named) and not BOOLEAN.search(SHAPE.sub("", words))


def says_blocked(code: object, mask: str = "") -> bool:
    """Return whether True is described as blocked, by the name of the mask or in words only."""
    words = _words_of(code)
    described = BLOCKED.search(words) and not ALLOWED.search(words)
    return bool(BLOCKED_NAME.search(mask.lower()) or described)


def says_narrow(code: object) -> bool:
    """Return whether a layer says that its heads are meant to see a slice of the input each."""
    return bool(NARROW.search(_words_of(code)))


def says_true_is_padding(function: object) -> bool:
    """Return whether True is described as padding, in so many words."""
    return bool(PADDED.search(_words_of(function)))


def says_newest(function: object) -> bool:
    """Return whether the queries are described as the last tokens, as with a cache."""
    return bool(NEWEST.search(_words_of(function)))


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
