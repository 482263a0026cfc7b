"""Copies of the module under examination: each examination makes about ten."""

from __future__ import annotations

import copy
from collections import OrderedDict

from torch import nn

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
