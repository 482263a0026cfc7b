"""The shapes and types in which a module may want its mask."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from attnlab.clinic.layers.calls import Subject


@dataclass(frozen=True)
class Form:
    """How a mask is passed; ``allowed`` is bool (N, L, S), True = may attend."""

    shape: str
    cut: Callable[[Tensor], Tensor]
    keys: bool = False  # says which tokens are real, the same for every query
    batch: bool = True  # one mask for each sequence
    flipped: bool = False  # True = blocked
    kind: str = "bool"  # or "float" and "int" for 0 and 1, "additive" for 0 and -inf

    def turned(self) -> Form:
        """Return the same form with the opposite meaning of True."""
        return replace(self, flipped=not self.flipped)

    def __call__(self, allowed: Tensor, dtype: torch.dtype) -> Tensor:
        """Return the mask as the module wants it."""
        mask = self.cut(allowed)
        if self.shape == "(N,) lengths":
            return mask
        if self.flipped and self.kind != "additive":
            mask = ~mask
        if self.kind == "additive":
            return torch.zeros(mask.shape, dtype=dtype).masked_fill(~mask, -torch.inf)
        return {"bool": mask, "float": mask.to(dtype), "int": mask.long()}[self.kind]


def forms(subject: Subject, name: str, kinds: tuple[str, ...], flipped: bool) -> Iterator[Form]:
    """Yield the forms that a mask argument may want, the likeliest first."""
    heads = subject.sizes.heads or 1
    if name == subject.plan.lengths:
        yield Form("(N,) lengths", lambda a: a[:, 0].sum(dim=-1), keys=True)
        return
    whole = [
        ("(L, S)", lambda a: a[0], False, False),
        ("(N, 1, L, S)", lambda a: a[:, None], False, True),
        ("(N, L, S)", lambda a: a, False, True),
    ]
    if heads > 1:
        stacked = ("(N * H, L, S)", lambda a: a.repeat_interleave(heads, dim=0), False, True)
        whole.append(stacked)
    keys = [
        ("(N, S)", lambda a: a[:, 0], True, True),
        ("(N, 1, 1, S)", lambda a: a[:, None, :1], True, True),
        ("(N, 1, S)", lambda a: a[:, :1], True, True),
    ]
    if subject.plan.adapter is not None or subject.plan.single:
        whole, keys = whole[:1], []
    about_padding = "pad" in name.lower()
    for kind in kinds:
        for shape, cut, of_keys, batch in [*keys, *whole] if about_padding else [*whole, *keys]:
            yield Form(shape, cut, of_keys, batch, flipped, kind)


def accepted(subject: Subject, name: str, candidates: Iterator[Form]) -> Form | None:
    """Return the first form with which a mask makes a difference; else the first that is taken."""
    length = subject.sizes.length
    batch = next(n for n in (3, 4, 2, 6, 7) if n not in (length, subject.sizes.heads))
    x = subject.x(batch)
    ones = torch.ones(batch, length, length, dtype=torch.bool)
    some = ones.clone()
    some[:, :, -1] = some[:, -1, :-1] = False
    plain, taken = subject(x), None
    for form in candidates:
        reply = subject(x, named={name: form(ones, subject.dtype)})
        if reply is None or plain is None or reply.output.shape != plain.output.shape:
            continue
        other = subject(x, named={name: form(some, subject.dtype)})
        if other is not None and not torch.equal(other.output, reply.output):
            return form
        taken = taken or form
    return taken
