"""Tokens that see only themselves, and whether the order of the tokens matters."""

from __future__ import annotations

import torch
from torch import Tensor

from attnlab.clinic._report import Evidence
from attnlab.clinic._results import Results
from attnlab.clinic.layers.calls import Subject
from attnlab.clinic.layers.influence import influence_table


def moves_table(values: Tensor) -> Evidence:
    """Return an influence map as evidence."""
    return influence_table("How far output i moves when token j is replaced:", values)


def tell_only_itself(subject: Subject, values: Tensor, results: Results) -> None:
    """Report that no token sees another, or that nothing is seen at all."""
    if (values.diagonal() <= subject.tolerance).all():
        results.found("detached", "The output does not depend on x at all.", moves_table(values))
        return
    heads = subject.sizes.heads
    if heads is None:
        results.found(
            "not-attention",
            "Every token sees only itself: replacing token j moves output j and no other.",
            moves_table(values),
        )
        return
    why = "the heads of a token look at each other instead of at the tokens."
    if heads == 1:
        why = "nothing is gathered from the other tokens."
    results.found(
        "attends-over-heads",
        f"Every token sees only itself: replacing token j moves output j and no other; {why}",
        moves_table(values),
    )


def tell_order(subject: Subject, followed: bool, results: Results) -> None:
    """Say whether the order of the tokens matters."""
    x = subject.x(1)
    order = torch.arange(x.shape[1]).roll(2).flip(0)
    both = subject(torch.cat([x, x[:, order]]))
    if both is None or not both.output.isfinite().all():
        return
    one, two = both.output[0][order], both.output[1]
    if (one - two).abs().max() <= 10 * subject.tolerance * one.abs().mean():
        results.held("order", "shuffled tokens give the same outputs, shuffled")
    elif followed:
        results.note(
            "order", "It knows the order of the tokens: shuffled tokens change the outputs."
        )
    else:
        results.note(
            "order", "Shuffled tokens change its outputs: by positions, or by a mix-up of tokens."
        )
