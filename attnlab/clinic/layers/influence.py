"""Who influences whom: push one token and see which outputs move."""

from __future__ import annotations

import torch
from torch import Tensor

from attnlab.clinic._report import Evidence
from attnlab.clinic.layers.calls import Subject

SIZES = (1.0, 0.1, 0.01)  # large tokens can make a softmax so sharp that it hides a move


def influence(subject: Subject, *, mask=None, **how) -> Tensor | None:
    """Return how far output i moves when token j is replaced, (L, L), relative to the output.

    ``mask`` returns the named arguments for a number of sequences, where there are any.
    """
    count, x = subject.sizes.length, subject.x(1)
    batch = next(n for n in range(count + 1, count + 5) if n not in (count, subject.sizes.heads))
    many = x.repeat(batch if mask else count + 1, 1, 1)
    many[torch.arange(1, count + 1), torch.arange(count)] += subject.tokens(
        count, x.shape[-1], seed=50
    )
    how |= {"named": mask(batch)} if mask else {}
    replies = [subject(size * many, **how) for size in SIZES]
    if any(reply is None for reply in replies):
        return None
    return torch.stack([moved(reply.output)[:, :count] for reply in replies]).amax(dim=0)


def moved(output: Tensor) -> Tensor:
    """Return how far each row (dimension 1) moved from sequence 0 to each other, (L, S)."""
    plain = output.detach().double().nan_to_num(nan=7.0, posinf=7e3, neginf=-7e3)
    size = plain.abs().mean().clamp_min(1e-12)
    return ((plain[1:] - plain[:1]).abs().amax(dim=-1) / size).T


def influence_table(caption: str, values: Tensor) -> Evidence:
    """Return a table of at most 7 x 7 numbers with plain labels."""
    part = values[:7, :7].double()
    part = torch.where(part.abs() < 1e-12, torch.zeros_like(part), part)
    rows = tuple(f"output {i}" for i in range(part.shape[0]))
    return Evidence(caption, part, rows, tuple(f"token {j}" for j in range(part.shape[1])))


def moves_table(values: Tensor) -> Evidence:
    """Return an influence map as evidence."""
    return influence_table("How far output i moves when token j is replaced:", values)
