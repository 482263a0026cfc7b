"""The shapes and types in which a module may want its mask."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from attnlab.clinic.layers.calls import Subject
from attnlab.clinic.masks import FORMS, LENGTHS, Form

BY_LETTERS = {form.letters: form for form in FORMS[4]}
WHOLE = [BY_LETTERS[letters] for letters in ("(L, S)", "(N, 1, L, S)", "(N, L, S)")]
KEYS = [BY_LETTERS[letters] for letters in ("(N, S)", "(N, 1, 1, S)", "(N, 1, S)")]


def forms_of(
    subject: Subject, name: str, kinds: tuple[str, ...], flipped: bool = False
) -> Iterator[Form]:
    """Yield the forms that a mask argument may want, the likeliest first."""
    heads = subject.sizes.heads or 1
    if name == subject.plan.lengths:
        yield LENGTHS
        return
    stacked = Form("(N * H, L, S)", lambda full: full[:, 0].repeat_interleave(heads, dim=0))
    whole, keys = [*WHOLE, *[stacked] * (heads > 1)], KEYS
    if subject.plan.adapter is not None or subject.plan.single:
        whole, keys = whole[:1], []
    for kind in kinds:
        for form in [*keys, *whole] if "pad" in name.lower() else [*whole, *keys]:
            yield form._replace(kind=kind, flipped=flipped)


def accepted(subject: Subject, name: str, candidates: Iterator[Form]) -> Form | None:
    """Return the first form with which a mask makes a difference; else the first that is taken."""
    length, batch = subject.sizes.length, subject.sizes.sequences()
    x = subject.x(batch)
    ones = torch.ones(batch, 1, length, length, dtype=torch.bool)
    some = ones.clone()
    some[..., -1] = some[..., -1, :-1] = False
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
