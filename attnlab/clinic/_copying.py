"""Copies of the module under examination."""

from __future__ import annotations

import contextlib
import copy
import warnings
from collections.abc import Iterator

import torch
from torch import Tensor, nn

from attnlab.clinic._results import Results

HALVES = (torch.float16, torch.bfloat16)


def dtype_of(module: object) -> torch.dtype:
    """Return the dtype of the parameters of a layer."""
    parts = module.parameters() if isinstance(module, nn.Module) else ()
    kinds = [part.dtype for part in parts if part.is_floating_point()]
    return kinds[0] if kinds else torch.float32


def copy_of(module: nn.Module) -> nn.Module:
    """Return a copy that shares nothing with a module; of a kept result without its graph."""
    kept = [value for part in module.modules() for value in vars(part).values()]
    memo = {id(value): value.detach().clone() for value in kept
            if isinstance(value, Tensor) and not value.is_leaf}  # fmt: skip
    with torch.no_grad():  # TorchScript clones its parameters, and would remember from which
        copied = copy.deepcopy(module, memo)
    for one, other in zip(module.parameters(), copied.parameters(), strict=True):
        if one.requires_grad and not other.requires_grad:
            other.requires_grad_()
    return copied


def converted(module: nn.Module, dtype: torch.dtype) -> nn.Module:
    """Make the numbers of a module those of another dtype; complex ones stay complex.

    ``module.to(dtype)`` drops their imaginary parts.
    """
    wide = torch.complex128 if dtype == torch.float64 else torch.complex64

    def convert(part: Tensor) -> Tensor:
        if part.is_complex():
            return part.to(wide)
        return part.to(dtype) if part.is_floating_point() else part

    return module._apply(convert)


@contextlib.contextmanager
def set_aside(module: object, results: Results) -> Iterator[object]:
    """Yield what is examined in place of a module: a copy in eval mode, on the CPU.

    Half precision becomes float32: with three digits small bugs and rounding look alike. A module
    that cannot be copied is yielded itself, with a note; its parameters, buffers and modes are put
    back. What is no module is yielded as it is.
    """
    if not isinstance(module, nn.Module):
        yield module
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            own = copy_of(module).eval().to("cpu")
            own = converted(own, torch.float32) if dtype_of(own) in HALVES else own
        except Exception:
            own = None
    if own is not None:
        yield own
        return
    results.note(
        "in-place",
        "It cannot be copied, so it was examined itself. Its parameters, buffers and modes were "
        "put back; anything else that a call changes in it stays changed.",
    )
    modes = [(part, part.training) for part in module.modules()]
    kept = [(part, part.detach().clone()) for part in (*module.parameters(), *module.buffers())]
    try:
        yield module.eval()
    finally:
        for part, training in modes:
            part.training = training
        with torch.no_grad():
            for part, before in kept:
                part.copy_(before)
