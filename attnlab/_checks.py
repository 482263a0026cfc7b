"""Argument checks. Each raises one sentence that names the argument, what it got and the fix."""

from __future__ import annotations

import contextlib
import operator
import sys
from collections.abc import Iterator, Sequence
from numbers import Real
from types import UnionType

import torch
from torch import Tensor

FLOAT_MAX = sys.float_info.max


@contextlib.contextmanager
def lessons_extra() -> Iterator[None]:
    """Name the extra that brings a package if its import, in this context, fails."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f'{error.name} is not installed; use pip install ".[lessons]".', name=error.name
        ) from None


def shape(tensor: Tensor) -> str:
    """Return the shape of a tensor as plain text, such as ``(2, 3, 5)``."""
    return str(tuple(tensor.shape))


def check_type(name: str, value: object, kind: type | UnionType, what: str) -> None:
    """Raise TypeError unless ``value`` is of a type; True and False do not count as numbers."""
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise _wrong_type(name, value, what)


def check_list(name: str, value: object, what: str) -> None:
    """Raise TypeError unless ``value`` is a sequence of items, which a string is not."""
    check_type(name, value, Sequence, what)
    if isinstance(value, str | bytes):
        raise TypeError(f"{name} must be {what}, got {short(value)}.")


def as_integer(value: object) -> int | None:
    """Return an integer of Python, of numpy or of a tensor without dimensions as an int.

    Anything else gives None; True and False do not count as integers.
    """
    if isinstance(value, bool):
        return None
    if isinstance(value, Tensor) and (value.ndim or value.dtype == torch.bool):
        return None
    try:
        return operator.index(value)
    except (TypeError, RuntimeError):  # RuntimeError: a tensor that holds no number
        return None


def check_size(name: str, value: object, *, at_least: int, at_most: int = 2**31) -> int:
    """Return an integer in the given range as an int; raise TypeError or ValueError for others."""
    size = as_integer(value)
    if size is None:
        raise _wrong_type(name, value, "an integer")
    if size < at_least:
        raise ValueError(f"{name} must be at least {at_least}, got {short(size)}.")
    if size > at_most:
        raise ValueError(f"{name} must be at most {at_most}, got {short(size)}.")
    return size


def check_number(name: str, value: object) -> None:
    """Raise TypeError or ValueError unless ``value`` is a finite real number."""
    check_type(name, value, Real, "a number")
    if not -FLOAT_MAX <= value <= FLOAT_MAX:
        raise ValueError(f"{name} must be finite, got {short(value)}.")


def check_probability(name: str, value: object) -> None:
    """Raise TypeError or ValueError unless ``value`` is a number between 0 and 1."""
    check_type(name, value, Real, "a number")
    if not 0.0 <= value <= 1.0:
        raise ValueError(f"{name} must be a probability between 0 and 1, got {short(value)}.")


def check_flag(name: str, value: object) -> None:
    """Raise TypeError unless ``value`` is True or False."""
    check_type(name, value, bool, "True or False")


def check_text(name: str, value: object) -> None:
    """Raise TypeError or ValueError unless ``value`` is a string with something in it."""
    check_type(name, value, str, "a string")
    if not value.strip():
        raise ValueError(f"{name} must not be empty, got {value!r}.")


def check_choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    """Raise ValueError unless ``value`` is one of ``choices``."""
    if not isinstance(value, str) or value not in choices:
        allowed = " or ".join(repr(choice) for choice in choices)
        raise ValueError(f"{name} must be {allowed}, got {short(value)}.")


def check_tile(tile: object) -> tuple[int, int]:
    """Return ``tile`` as two ints; raise TypeError or ValueError unless both are positive."""
    if not isinstance(tile, tuple | list) or len(tile) != 2:
        raise ValueError(f"tile must be a pair (queries, keys), got {short(tile)}.")
    rows, columns = tile
    return check_size("tile[0]", rows, at_least=1), check_size("tile[1]", columns, at_least=1)


def short(value: object) -> str:
    """Return what a message shows of a value: at most thirty characters on one line."""
    if isinstance(value, Tensor):
        return f"of shape {shape(value)}"
    text = " ".join(repr(value).split())
    return text if len(text) <= 30 else f"{text[:20]}...{text[-5:]}"


def _wrong_type(name: str, value: object, what: str) -> TypeError:
    kind, text = type(value).__name__, short(value)
    got = text if text.startswith(kind) else f"{kind} {text}"
    return TypeError(f"{name} must be {what}, got {got}.")
