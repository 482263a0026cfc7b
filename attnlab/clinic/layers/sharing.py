"""Whether heads differ: their results, and the part of x that each of them sees."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from attnlab.clinic._copying import copy_of
from attnlab.clinic._report import Evidence
from attnlab.clinic._results import Results
from attnlab.clinic.layers.calls import Subject
from attnlab.clinic.layers.influence import influence_table, push
from attnlab.clinic.layers.parts import CallRecord, flows

LARGE = 128  # features from which on time is saved


def judge_sharing(record: CallRecord, subject: Subject, results: Results) -> None:
    """Compare the parts of the joined heads."""
    heads = subject.sizes.heads
    if not heads or heads < 2:
        return
    every = [flow for flow in flows(record)][:3]
    seen = [f.target for f in every] or [record.reply.output.detach()]
    seen += _before_the_last_layer(subject)
    for target in seen:
        if target.shape[-1] % heads:
            continue
        parts = target.unflatten(-1, (heads, -1))
        if parts.abs().max() > 0 and (parts - parts[:, :, :1]).abs().max() < 1e-9:
            results.found(
                "heads-shared",
                f"All {heads} heads compute the same: the joined heads repeat the same "
                f"{parts.shape[-1]} features.",
                influence_table(
                    "Joined heads of the first token, one row for each head:",
                    parts[0, 0],
                    "head",
                    "feature",
                ),
            )
            return
    if _tell_idle(subject, heads, results):
        return
    if every and not _repeats(seen[0], heads):
        results.held("heads", "the heads compute different things")


def _repeats(target: Tensor, heads: int) -> bool:
    """Return whether two heads of the joined ones are the same."""
    if target.shape[-1] % heads:
        return False
    parts = target.unflatten(-1, (heads, -1)).movedim(2, 0).flatten(1)
    return any(torch.equal(parts[i], parts[j]) for i in range(heads) for j in range(i))


def _tell_idle(subject: Subject, heads: int, results: Results) -> bool:
    """Name a head that gives 0 whatever the parameters are, so that none of them is the reason."""
    other = _other_parameters(subject)
    if other is None:
        return False
    record = CallRecord(other, other.x())
    targets = [flow.target for flow in list(flows(record))[:3]] + _before_the_last_layer(other)
    for target in targets:
        if target.shape[-1] % heads or target.min() >= 0:  # after a ReLU some are 0
            continue
        for cut in ((heads, -1), (-1, heads)):
            parts = target.unflatten(-1, cut)
            parts = parts if cut[0] == heads else parts.mT
            idle = [k for k in range(heads) if not parts[:, :, k].any()]
            if 0 < len(idle) < heads:
                named = f"Head {idle[0]} contributes" if len(idle) == 1 else "Heads contribute"
                results.found(
                    "wrong-source",
                    f"{named} nothing ({len(idle)} of {heads}): its part of the joined heads is 0 "
                    "for every token, whatever the parameters are.",
                    influence_table(
                        "Joined heads of the first token, one row for each head:",
                        parts[0, 0],
                        "head",
                        "feature",
                    ),
                )
                return True
    return False


def _other_parameters(subject: Subject) -> Subject | None:
    """Return a copy with noise on every parameter."""
    if not isinstance(subject.module, nn.Module):
        return None
    try:
        module = copy_of(subject.module)
    except Exception:
        return None
    with torch.no_grad():
        for place, parameter in enumerate(module.parameters()):
            noise = subject.tokens(*parameter.shape, seed=70 + place)
            parameter.add_(0.3 * noise.to(parameter.dtype))
    other = subject.like(module, subject.dtype)
    return None if other(other.x()) is None else other


def _before_the_last_layer(subject: Subject) -> list[Tensor]:
    """Return what goes into the linear layer that is called last: the joined heads, mostly."""
    if not isinstance(subject.module, nn.Module):
        return []
    went_in: list[Tensor] = []

    def keep(_layer: nn.Module, arguments: tuple) -> None:
        went_in[:] = arguments[:1]

    linear = [part for part in subject.module.modules() if isinstance(part, nn.Linear)]
    hooks = [part.register_forward_pre_hook(keep) for part in linear]
    subject(subject.x())
    for hook in hooks:
        hook.remove()
    return [part.detach() for part in went_in if isinstance(part, Tensor) and part.ndim == 3]


def judge_slices(subject: Subject, results: Results) -> None:
    """Push one slice of x only: a right module answers in more directions than one head has."""
    embed, length = subject.sizes.embed, subject.sizes.length
    heads = subject.sizes.heads
    if not subject.exact or not heads or heads < 2 or embed % heads:
        return
    head_dim = embed // heads
    count = min(head_dim + 3, 70 if embed <= LARGE else 20)
    drawn = subject.tokens(count, embed, seed=6)
    ranks, spans = [], []
    for part in (slice(0, head_dim), slice(0, embed, heads)):
        directions = torch.zeros(count, length, embed, dtype=subject.dtype)
        directions[:, 0, part] = drawn[:, part]
        slopes = push(subject, subject.x(1, seed=11), directions)
        if slopes is None:
            return
        values = torch.linalg.svdvals(slopes[:, 1:].flatten(0, 1))
        ranks.append(int((values > 1e-6 * values[0]).sum()))
        if embed > LARGE:
            ranks.append(embed)
            break
        spans.append(values)
    total = min(embed, slopes.shape[-1], count * min(heads, length - 1))
    if min(ranks) <= head_dim < total and max(ranks) > head_dim:
        results.found(
            "heads-from-input",
            f"The heads are cut from x and not from its projections: the {head_dim} features of "
            f"one slice of x move the output in {min(ranks)} directions only, of {total}.",
            Evidence(
                "Directions in which the output moves when one slice of x moves:",
                torch.tensor([[float(min(ranks)), float(total)]]),
                ("slice of one head",),
                ("found", "if every head sees all of x"),
            ),
        )
    elif min(ranks) > head_dim:
        results.held("heads", "every head sees all features of x")
