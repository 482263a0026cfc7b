"""The shapes in which a mask may be given, and calls with one."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from attnlab.clinic._calling import Unusable
from attnlab.clinic.functions.calls import GENERAL, Attention, Sizes, relaxed
from attnlab.clinic.functions.measure import products, weights_of
from attnlab.masks import to_additive_mask

SQUARE = relaxed(GENERAL, "L = S")


class Form(NamedTuple):
    """A shape in which a mask may be given, and what it means for the weights (..., L, S)."""

    letters: str
    cut: Callable[[Tensor], Tensor]  # from a mask (*lead, L, S) to what the function gets
    per_key: bool = False  # the same keys are blocked for every query


FORMS: dict[int, tuple[Form, ...]] = {
    2: (
        Form("(L, S)", lambda full: full),
        Form("(S,)", lambda full: full[0], per_key=True),
    ),
    3: (
        Form("(N, L, S)", lambda full: full),
        Form("(L, S)", lambda full: full[0]),
        Form("(N, 1, S)", lambda full: full[:, :1], per_key=True),
        Form("(N, S)", lambda full: full[:, 0], per_key=True),
    ),
    4: (
        Form("(N, H, L, S)", lambda full: full),
        Form("(L, S)", lambda full: full[0, 0]),
        Form("(N, 1, 1, S)", lambda full: full[:, :1, :1], per_key=True),
        Form("(N, S)", lambda full: full[:, 0, 0], per_key=True),
    ),
}


class Trial(NamedTuple):
    """One accepted call with a mask."""

    form: Form
    sizes: Sizes
    allowed: Tensor
    scores: Tensor
    weights: Tensor


def pattern(lead: tuple[int, ...], L: int, S: int, *, per_key: bool) -> Tensor:
    """Return a mask (*lead, L, S) without symmetry, with at least one True in every row."""
    generator = torch.Generator().manual_seed(3)
    rows = 1 if per_key else L
    allowed = torch.rand(*lead, rows, S, generator=generator) < 0.55
    turn = torch.arange(rows)[:, None] % S
    allowed |= torch.arange(S) == (turn + 2) % S
    allowed &= torch.arange(S) != (turn + 4) % S
    return allowed.expand(*lead, L, S).clone()


def first_accepted(attention: Attention, ndim: int, factor: float) -> Trial | None:
    """Return the first call that the function takes, of all the forms; None if it takes none."""
    forms = FORMS[ndim]
    if "padding" in (attention.takes.mask or ""):
        forms = tuple(sorted(forms, key=lambda form: not form.per_key))
    for sizes in (GENERAL, SQUARE):
        for form in forms:
            try:
                return _trial(attention, ndim, form, sizes, factor)
            except Unusable:
                continue
    return None


def _trial(attention: Attention, ndim: int, form: Form, sizes: Sizes, factor: float) -> Trial:
    sizes = attention.sizes(sizes)
    query, key, _ = attention.inputs(ndim, sizes)
    full = pattern(sizes.lead(ndim), sizes.L, sizes.S, per_key=form.per_key)
    if form.letters == "(L, S)":  # the same for every sequence
        full = full.reshape(-1, sizes.L, sizes.S)[0].expand_as(full)
    elif ndim == 4 and "H" not in form.letters:  # the same for every head
        full = full[:, :1].expand_as(full)
    weights = weights_of(attention, query, key, mask=given(attention, form.cut(full)))
    return Trial(form, sizes, full, factor * products(query, key), weights)


def given(attention: Attention, allowed: Tensor) -> Tensor:
    """Return a mask in the convention of the function, as far as the caller told it."""
    if attention.options.mask == "blocked":
        return ~allowed
    if attention.options.mask == "additive":
        return to_additive_mask(allowed, attention.dtype)
    return allowed.clone()
