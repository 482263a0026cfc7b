"""Who influences whom: push one token and see which outputs move."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from functools import lru_cache

import torch
from torch import Tensor

from attnlab.clinic._report import Evidence
from attnlab.clinic.layers.calls import Reply, Subject

STEP = 1e-5
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


def push(subject: Subject, x: Tensor, directions: Tensor) -> Tensor | None:
    """Return the derivative of the output at x (1, L, E) along each direction (B, L, E)."""
    both = torch.cat([x + STEP * directions, x - STEP * directions])
    reply = subject(both)
    if reply is None or not reply.output.isfinite().all():
        return None
    ahead, behind = reply.output.double().chunk(2)
    return (ahead - behind) / (2 * STEP)


@lru_cache(maxsize=512)
def tokens_seen(length: int, heads: int, wrong: str, causal: bool) -> Tensor:
    """Return which tokens reach which outputs when heads are cut or joined by a bare view.

    A bare view numbers the pieces h * L + l, and piece p belongs to token p // H.
    """
    place = torch.arange(heads * length).view(heads, length)
    rightly = torch.arange(length).expand(heads, length)
    source = place // heads if "split" in wrong else rightly  # token of each piece of a head
    target = place // heads if "merge" in wrong else rightly
    seen = torch.zeros(length, length, dtype=torch.bool)
    for head in range(heads):
        for row in range(length):
            last = row + 1 if causal else length
            seen[target[head, row], source[head, :last]] = True
            seen[target[head, row], source[head, row]] = True
    return seen | torch.eye(length, dtype=torch.bool)


SCRAMBLES = {
    "split merge": "split-and-merge",
    "split": "split-without-transpose",
    "merge": "merge-without-transpose",
}


def scrambles_like(pattern: Tensor, heads: list[int]) -> list[tuple[str, int]]:
    """Return which bare views give exactly this pattern, and for how many heads."""
    found = []
    length = len(pattern)
    plain = [torch.ones_like(pattern), torch.ones_like(pattern).tril()]
    for number, wrong, causal in itertools.product(heads, SCRAMBLES, (False, True)):
        expected = tokens_seen(length, number, wrong, causal)
        if not any(torch.equal(expected, known) for known in plain) and torch.equal(
            expected, pattern | torch.eye(length, dtype=torch.bool)
        ):
            found.append((SCRAMBLES[wrong], number))
    return found


def head_numbers(subject: Subject) -> list[int]:
    """Return the number of heads, or every one that would fit."""
    sizes = subject.sizes
    if sizes.heads:
        return [sizes.heads] if sizes.heads > 1 else []
    return [n for n in range(2, min(sizes.embed, 17)) if sizes.embed % n == 0]


def influence_table(caption: str, values: Tensor, row: str = "output", column: str = "token"):
    """Return a table of at most 7 x 7 numbers with plain labels."""
    part = values[:7, :7].double()
    part = torch.where(part.abs() < 1e-12, torch.zeros_like(part), part)
    rows = tuple(f"{row} {i}" for i in range(part.shape[0]))
    return Evidence(caption, part, rows, tuple(f"{column} {j}" for j in range(part.shape[1])))
