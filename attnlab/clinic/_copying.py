"""Copies of the module under examination: each examination makes about ten."""

from __future__ import annotations

import contextlib
import copy
import warnings
from collections import OrderedDict
from collections.abc import Iterator

import torch
from torch import nn

from attnlab.clinic._results import Results

CONTAINERS = (OrderedDict, dict, set)


def copy_of(module: nn.Module) -> nn.Module:
    """Return ``copy.deepcopy(module)``, in half the time.

    Every part of a module has a dozen empty containers for hooks: their copies are made here and
    passed to ``deepcopy`` as already made.

    Parameters
    ----------
    module : nn.Module
        What to copy.

    Returns
    -------
    nn.Module
        The copy, which shares nothing with it.
    """
    made = {}
    for part in module.modules():
        for value in vars(part).values():
            if type(value) in CONTAINERS and not value:
                made[id(value)] = type(value)()
    return copy.deepcopy(module, made)


@contextlib.contextmanager
def set_aside(module: nn.Module, results: Results) -> Iterator[nn.Module]:
    """Yield what is examined in place of a module: a copy in eval mode, on the CPU.

    A module that cannot be copied is yielded itself, with a note; its parameters, buffers and modes
    are put back.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            own = copy_of(module).eval().to("cpu")
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
