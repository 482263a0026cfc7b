"""Who influences whom: push one token and see which outputs move."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from attnlab.clinic._report import Evidence
from attnlab.clinic.layers.calls import Reply, Subject

SIZES = (1.0, 0.1, 0.01)


def influence(
    subject: Subject, *, length: int | None = None, seed: int = 0, **how
) -> Tensor | None:
    """Return how far output i moves when token j is replaced, (L, L), relative to the output."""
    x = subject.x(1, length, seed=seed)
    steps = subject.tokens(*x.shape, seed=seed + 50)[0]
    count = x.shape[1]
    batch = x.repeat(count + 1, 1, 1)
    batch[torch.arange(1, count + 1), torch.arange(count)] += steps
    return strongest(subject(size * batch, **how) for size in SIZES)


def strongest(replies: Iterable[Reply | None]) -> Tensor | None:
    """Return the largest moves: large tokens can make a softmax so sharp that it hides them."""
    moves = [None if reply is None else moved(reply.output) for reply in replies]
    return None if any(one is None for one in moves) else torch.stack(moves).amax(dim=0)


def influence_in_training(subject: Subject, seed: int) -> Tensor | None:
    """Return the same for train mode: one call per token, every call with the same dropout."""
    x = subject.x(1)
    outputs = []
    for token in range(-1, x.shape[1]):
        other = x.clone()
        if token >= 0:
            other[0, token] += subject.tokens(x.shape[-1], seed=50 + token)
        reply = subject(other, seed=seed)
        if reply is None:
            return None
        outputs.append(reply.output[0])
    return moved(torch.stack(outputs))


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
