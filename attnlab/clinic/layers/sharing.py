"""Whether heads differ: their results, and the part of x that each of them sees."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from attnlab.clinic._chart import Chart
from attnlab.clinic._report import Evidence
from attnlab.clinic.layers.calls import Patient
from attnlab.clinic.layers.influence import influence_table, push
from attnlab.clinic.layers.parts import Record, flows

LARGE = 128  # features from which on time is saved


def judge_sharing(record: Record, patient: Patient, chart: Chart) -> None:
    """Compare the parts of the joined heads."""
    heads = patient.sizes.heads
    if not heads or heads < 2:
        return
    every = [flow for flow in flows(record)][:3]
    seen = [f.target for f in every] or [record.reply.output.detach()]
    seen += _before_the_last_layer(patient)
    for target in seen:
        if target.shape[-1] % heads:
            continue
        parts = target.unflatten(-1, (heads, -1))
        if parts.abs().max() > 0 and (parts - parts[:, :, :1]).abs().max() < 1e-9:
            chart.found(
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
    if every:
        chart.held("the heads compute different things")


def _before_the_last_layer(patient: Patient) -> list[Tensor]:
    """Return what goes into the linear layer that is called last: the joined heads, mostly."""
    if not isinstance(patient.module, nn.Module):
        return []
    went_in: list[Tensor] = []

    def keep(_layer: nn.Module, arguments: tuple) -> None:
        went_in[:] = arguments[:1]

    linear = [part for part in patient.module.modules() if isinstance(part, nn.Linear)]
    hooks = [part.register_forward_pre_hook(keep) for part in linear]
    patient(patient.x())
    for hook in hooks:
        hook.remove()
    return [part.detach() for part in went_in if isinstance(part, Tensor) and part.ndim == 3]


def judge_slices(patient: Patient, chart: Chart) -> None:
    """Push one slice of x only: a right module answers in more directions than one head has."""
    embed, length = patient.sizes.embed, patient.sizes.length
    heads = patient.sizes.heads
    if not patient.exact or not heads or heads < 2 or embed % heads:
        return
    head_dim = embed // heads
    count = min(head_dim + 3, 70 if embed <= LARGE else 20)
    drawn = patient.tokens(count, embed, seed=6)
    ranks, spans = [], []
    for part in (slice(0, head_dim), slice(0, embed, heads)):
        directions = torch.zeros(count, length, embed, dtype=patient.dtype)
        directions[:, 0, part] = drawn[:, part]
        slopes = push(patient, patient.x(1, seed=11), directions)
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
        chart.found(
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
        chart.held("every head sees all features of x")
