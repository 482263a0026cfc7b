"""The learner's own function inside an explorer: call it, say what went wrong, in which line."""

from __future__ import annotations

import traceback
from collections.abc import Callable

import torch
from torch import Tensor


def check_function(function: object, *, supported: bool) -> None:
    """Raise TypeError unless ``function`` can be called and the explorer has a use for it."""
    if not supported:
        raise TypeError("function is not supported here: this explorer draws its own numbers.")
    if not callable(function):
        kind = type(function).__name__
        raise TypeError(f"function must be callable, got {kind}; pass it without brackets.")


def name_of(function: Callable) -> str:
    """Return the name of a function, as it can be written into a line of code."""
    name = getattr(function, "__name__", "")
    return name if name.isidentifier() else "function"


def checked_weights(weights: object, shape: tuple[int, ...], function: Callable) -> Tensor:
    """Return what a function gave as a tensor of numbers of the wanted shape, or raise."""
    name = name_of(function)
    if weights is None:
        raise ValueError(f"{name} returns None: write it first.")
    if isinstance(weights, tuple):
        raise TypeError(f"{name} must return the weights alone, got a tuple of {len(weights)}.")
    if not isinstance(weights, Tensor):
        raise TypeError(f"{name} must return a torch.Tensor, got {type(weights).__name__}.")
    if tuple(weights.shape) != shape:
        raise ValueError(f"{name} must return weights {shape}, got {tuple(weights.shape)}.")
    if weights.is_complex():
        raise TypeError(f"{name} must return real numbers, got {weights.dtype}.")
    return weights.detach().to("cpu", torch.float64)


def failure(error: Exception, function: Callable) -> dict[str, object]:
    """Return the part of an answer that says what the function did wrong."""
    return {"name": name_of(function), "error": tell(error, function)}


def tell(error: Exception, function: Callable) -> str:
    """Return the error and the line of the learner's own code where it came from."""
    text = str(error)
    if error.__traceback__ is None or not _is_ours(error):
        text = f"{type(error).__name__}: {error}"
    return "\n".join([f"{text}{own_line(error, function)}", *getattr(error, "__notes__", ())])


def _is_ours(error: Exception) -> bool:
    """Return whether the error was raised by the checks of this file."""
    frames = traceback.extract_tb(error.__traceback__)
    return frames[-1].filename == __file__


def own_line(error: Exception, function: Callable) -> str:
    """Return the line of a function's own file that led to an error; empty if none took part."""
    code = getattr(function, "__code__", None)  # a partial or a callable object has none
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if code and frame.filename == code.co_filename]
    return f"\nline {own[-1].lineno}: {own[-1].line}" if own else ""
