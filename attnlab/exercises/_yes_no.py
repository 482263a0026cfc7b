"""Ask a learner's test about several cases: each answer must be True or False."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from attnlab.exercises._answers import Answer, NotDone, Wrong, article


def opinions(answer: Answer, cases: Mapping[str, object]) -> dict[str, bool | None]:
    """Return what a test says of every case.

    Parameters
    ----------
    answer : Answer
        A function of one argument.
    cases : mapping from str to object
        What it gets, by the name of the case.

    Returns
    -------
    dict from str to bool or None
        None where it returns nothing, as after an ``if`` without an ``else``.

    Raises
    ------
    NotDone
        If it returns nothing for any case.
    Wrong
        If it raises, hangs, or gives something else.
    """
    said: dict[str, bool | None] = {}
    for name, given in cases.items():
        try:
            said[name] = answer.ask(given, read=yes_or_no, case=name)
        except NotDone:
            said[name] = None
    if all(one is None for one in said.values()):
        raise NotDone
    return said


def yes_or_no(value: object) -> bool:
    """Return True or False, also from a tensor or an array with a single entry.

    Parameters
    ----------
    value : object
        What a learner's function returned.

    Returns
    -------
    bool
        Its truth.

    Raises
    ------
    Wrong
        If it is something else, such as a number or a row of truths.
    """
    if isinstance(value, bool):
        return value
    kind = article(type(value).__name__)
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        entries = value if isinstance(value, Tensor) else torch.as_tensor(value)
        if entries.numel() != 1:
            shape = tuple(entries.shape)
            raise Wrong(f"It gives the shape {shape}; return one True or False for all of it.")
        if entries.dtype == torch.bool:
            return bool(entries.item())
        kind = f"{kind} of {entries.dtype}"
    raise Wrong(f"It gives {kind}; return True or False.")
