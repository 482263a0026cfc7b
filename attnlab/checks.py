"""Argument checks. Each raises one sentence that names the argument, what it got and the fix."""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Sequence
from numbers import Real
from types import UnionType

import torch
from torch import Tensor

FLOAT_MAX = sys.float_info.max
FLOATING = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
TORCH_3D = (
    "nn.MultiheadAttention takes this shape (N * H, L, S), and True = blocked there: use "
    "attn_mask.view(N, H, L, S), and ~ of it if it is bool"
)
LARGEST_WEIGHT = 2.0  # dropout of one half makes it of a weight of 1


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


def check_choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    """Raise ValueError unless ``value`` is one of ``choices``."""
    if not isinstance(value, str) or value not in choices:
        allowed = " or ".join(repr(choice) for choice in choices)
        raise ValueError(f"{name} must be {allowed}, got {short(value)}.")


def short(value: object) -> str:
    """Return what a message shows of a value: at most thirty characters on one line."""
    if isinstance(value, Tensor):
        return f"of shape {shape(value)}"
    text = " ".join(repr(value).split())
    return text if len(text) <= 30 else f"{text[:20]}...{text[-5:]}"


# --- tensors --------------------------------------------------------------------------------------


def check_tensor(name: str, value: object) -> None:
    """Raise TypeError unless ``value`` is a dense tensor."""
    if value is None:
        raise TypeError(f"{name} must be a torch.Tensor, got None.")
    if not isinstance(value, Tensor):
        of_tensors = isinstance(value, list | tuple) and value and isinstance(value[0], Tensor)
        make = "stack" if of_tensors else "as_tensor"
        raise TypeError(
            f"{name} must be a torch.Tensor, got {type(value).__name__}; use torch.{make}({name})."
        )
    if value.is_nested:
        raise TypeError(
            f"{name} must be a dense tensor, got a nested one; use "
            f"torch.nested.to_padded_tensor({name}, 0.0), with a mask from sequence_mask."
        )
    if value.layout is not torch.strided:
        raise TypeError(
            f"{name} must be a dense tensor, got {value.layout}; use {name}.to_dense()."
        )


def check_floating(name: str, tensor: object) -> None:
    """Raise TypeError unless ``tensor`` is a real floating-point tensor."""
    check_tensor(name, tensor)
    if tensor.dtype not in FLOATING:
        raise TypeError(
            f"{name} must be a floating-point tensor, got {tensor.dtype}; use {name}.float()."
        )


def check_bool(name: str, mask: object) -> None:
    """Raise TypeError unless ``mask`` is boolean."""
    check_tensor(name, mask)
    if mask.dtype != torch.bool:
        raise TypeError(
            f"{name} must be a bool tensor (True = may attend), got {mask.dtype}; "
            "convert it with the function named after its convention, "
            "e.g. from_hf_attention_mask or from_key_padding_mask."
        )


def check_ndim(name: str, tensor: object, letters: str, *, at_least: int) -> None:
    """Raise ValueError unless ``tensor`` has at least the dimensions named by ``letters``."""
    check_tensor(name, tensor)
    if tensor.ndim < at_least:
        raise ValueError(
            f"{name} must have at least {at_least} dimensions {letters}, got {shape(tensor)}."
        )


def check_exact_ndim(name: str, tensor: object, letters: str, *, ndim: int, fix: str) -> None:
    """Raise ValueError unless ``tensor`` has exactly ``ndim`` dimensions; ``fix`` ends the text."""
    check_tensor(name, tensor)
    if tensor.ndim != ndim:
        raise ValueError(f"{name} must have shape {letters}, got {shape(tensor)}; {fix}")


def check_weights(weights: object, letters: str = "(L, S)", *, at_least: int = 2) -> None:
    """Raise unless ``weights`` can be attention weights of at least one key."""
    check_floating("weights", weights)
    check_ndim("weights", weights, letters, at_least=at_least)
    if not weights.shape[-1]:
        raise ValueError(f"weights must have at least one key S, got {shape(weights)}.")
    check_weight_range(weights, 0.0, LARGEST_WEIGHT)


def check_weight_range(weights: Tensor, low: float, high: float) -> None:
    """Raise ValueError if a weight lies outside ``low`` to ``high``; a NaN does not."""
    outside = weights[(weights < low) | (weights > high)]
    if outside.numel():
        raise ValueError(
            "weights must lie between 0 and 1 (2 after dropout), "
            f"got {outside[0].item():.4g}; pass the weights after the softmax, not the scores."
        )


# --- the arguments of attention -------------------------------------------------------------------


def check_query_key(query: object, key: object) -> None:
    """Raise unless ``query`` (..., L, E) and ``key`` (..., S, E) can be multiplied."""
    for name, tensor, letters in (("query", query, "(L, E)"), ("key", key, "(S, E)")):
        check_floating(name, tensor)
        check_ndim(name, tensor, letters, at_least=2)
    check_same_kind("query", query, "key", key)
    if query.shape[-1] != key.shape[-1]:
        raise ValueError(
            f"query and key must share their last dimension E, got query {shape(query)} "
            f"and key {shape(key)}: {query.shape[-1]} != {key.shape[-1]}."
        )
    if query.shape[-1] == 0:
        raise ValueError(f"query and key must have at least one feature E, got {shape(query)}.")
    _check_leading("query", query, "key", key)


def check_value(query: Tensor, key: Tensor, value: object) -> None:
    """Raise unless ``value`` (..., S, Ev) belongs to the keys of a checked query and key."""
    check_floating("value", value)
    check_ndim("value", value, "(S, Ev)", at_least=2)
    check_same_kind("query", query, "value", value)
    if key.shape[-2] != value.shape[-2]:
        raise ValueError(
            "key and value must have the same length S (dimension -2), "
            f"got key {shape(key)} and value {shape(value)}: "
            f"{key.shape[-2]} != {value.shape[-2]}."
        )
    _check_leading("query", query, "value", value)
    _check_leading("key", key, "value", value)


def check_scale(scale: object) -> None:
    """Raise TypeError or ValueError unless ``scale`` is None or a finite number."""
    if scale is not None:
        check_number("scale", scale)


def check_mask(attn_mask: object, weights_shape: torch.Size, dtype: torch.dtype) -> None:
    """Raise unless ``attn_mask`` is bool or ``dtype`` and broadcasts to ``weights_shape``."""
    check_tensor("attn_mask", attn_mask)
    if dtype == torch.bool:
        check_bool("attn_mask", attn_mask)
    if attn_mask.dtype not in (torch.bool, dtype):
        hint = f"use attn_mask.to({dtype})"
        if not attn_mask.is_floating_point():
            hint = "if 1 = may attend and it ends in (L, S), use attn_mask.bool()"
            if attn_mask.ndim == 2:
                hint += "; if it is a tokenizer's (N, S), use from_hf_attention_mask(attn_mask)"
        raise TypeError(
            f"attn_mask must be bool (True = may attend) or {dtype} (added to the scores), "
            f"got {attn_mask.dtype} {shape(attn_mask)}; {hint}."
        )
    wanted = tuple(weights_shape)
    if not 2 <= attn_mask.ndim <= len(wanted):
        raise ValueError(
            f"attn_mask must have 2 or more dimensions, at most {len(wanted)}, to fit (..., L, S) "
            f"= {wanted} of the weights, got {shape(attn_mask)}; it must end in (L, S) or (1, S)."
        )
    if not _broadcasts_to(attn_mask.shape, weights_shape):
        raise ValueError(
            "attn_mask must broadcast to the weights' shape "
            f"(..., L, S) = {wanted}, got {shape(attn_mask)}{_mask_hint(attn_mask, wanted)}."
        )


def _mask_hint(attn_mask: Tensor, wanted: tuple[int, ...]) -> str:
    """Return what makes a mask of another convention fit, if that can be seen."""
    *lead, L, S = wanted
    if lead and attn_mask.shape == (lead[0], S):
        return f"; for a row per sequence use attn_mask[{':, ' + 'None, ' * len(wanted[1:-1])}:]"
    return f"; {TORCH_3D}" if attn_mask.shape == (math.prod(lead), L, S) else ""


def check_same_kind(name: str, tensor: Tensor, second_name: str, second: Tensor) -> None:
    """Raise TypeError or ValueError unless two tensors have the same dtype and device."""
    if tensor.dtype != second.dtype:
        raise TypeError(
            f"{name} and {second_name} must have the same dtype, "
            f"got {tensor.dtype} and {second.dtype}."
        )
    check_same_device(name, tensor, second_name, second)


def check_same_device(name: str, tensor: Tensor, second_name: str, second: Tensor) -> None:
    """Raise ValueError unless two tensors are on the same device."""
    if tensor.device != second.device:
        raise ValueError(
            f"{name} and {second_name} must be on the same device, "
            f"got {tensor.device} and {second.device}; use {second_name}.to({name}.device)."
        )


def _broadcasts_to(small: torch.Size, large: torch.Size) -> bool:
    sizes = zip(reversed(small), reversed(large), strict=False)
    return len(small) <= len(large) and all(size in (1, wanted) for size, wanted in sizes)


def _check_leading(name: str, tensor: Tensor, second_name: str, second: Tensor) -> None:
    if tensor.shape[:-2] == second.shape[:-2]:
        return  # torch.broadcast_shapes takes longer than attention among ten tokens
    try:
        torch.broadcast_shapes(tensor.shape[:-2], second.shape[:-2])
    except RuntimeError:
        raise ValueError(
            f"{name} and {second_name} must have leading dimensions that broadcast, "
            f"got {name} {shape(tensor)} and {second_name} {shape(second)}."
        ) from None


def _wrong_type(name: str, value: object, what: str) -> TypeError:
    kind, text = type(value).__name__, short(value)
    got = text if text.startswith(kind) else f"{kind} {text}"
    return TypeError(f"{name} must be {what}, got {got}.")
