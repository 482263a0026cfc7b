"""Whether a module computes the same in train mode and in eval mode, dropout aside."""

from __future__ import annotations

import contextlib

import torch
from torch import Tensor, nn

from attnlab.clinic._copying import copy_of
from attnlab.clinic._report import Evidence
from attnlab.clinic._results import Results
from attnlab.clinic.layers.calls import Subject
from attnlab.clinic.layers.forms import accepted, forms_of
from attnlab.clinic.layers.influence import influence, moves_table

CHANCES = ("p", "prob", "rate", "probability")


def without_dropout(exact: Subject, *, training: bool) -> Subject | None:
    """Return a copy with every probability of dropout at 0, in layers and in plain attributes."""
    try:
        module = copy_of(exact.module).train(training)
    except Exception:
        return None  # it cannot be copied, and must not change
    for part in module.modules():
        own = "drop" in type(part).__name__.lower()
        for name, value in list(vars(part).items()):
            about = "drop" in name.lower() or (own and name in CHANCES)
            if about and isinstance(value, (int, float)) and not isinstance(value, bool):
                with contextlib.suppress(Exception):
                    setattr(part, name, 0.0)
    return exact.like(module, exact.dtype)


def examine_modes(exact: Subject, results: Results) -> None:
    """With every dropout at 0, train mode must give the same as eval mode."""
    if exact.module is None:
        return
    if any(map(_keeps_statistics, exact.module.modules())):
        results.note("modes", "It has a BatchNorm: train mode and eval mode were not compared.")
        return
    training, evaluating = (without_dropout(exact, training=now) for now in (True, False))
    if training is None:
        return
    replies = [training(exact.x(), seed=seed) for seed in (0, 1, 2)]
    if any(reply is None for reply in replies):
        if not training.caller.out_of_time:
            results.note("modes", f"In train mode it raises {training.trouble}")
    elif any(_apart(replies[0].output, reply.output).max() > 0 for reply in replies):
        results.note(
            "modes",
            "With every dropout that was found at 0 it is still random in train mode: train mode "
            "and eval mode were not compared.",
        )
    elif not any(
        _differ(training, evaluating, *one, results) for one in _tries(training, evaluating)
    ):
        words = "gives the same output in train mode and in eval mode, apart from dropout"
        results.held("modes", words)


def _keeps_statistics(part: nn.Module) -> bool:
    running = any("running" in name for name, _ in part.named_buffers(recurse=False))
    return running or "batchnorm" in type(part).__name__.lower()


def _tries(training: Subject, evaluating: Subject) -> list[tuple[str, dict, Tensor]]:
    """Return what is given without a mask, with each flag and mask, and whose outputs count."""
    batch, length = evaluating.x().shape[:2]
    place = torch.arange(length)
    every = place >= 0
    tries = [("", {}, every)]
    tries += [(f", with {flag}=True,", {flag: True}, every) for flag in evaluating.plan.flags]
    for name in evaluating.plan.masks:
        real = place < length - 1 if name == evaluating.plan.lengths else place % 3 != 1
        for subject in (evaluating, training):
            form = accepted(subject, name, forms_of(subject, name, ("bool", "int", "additive")))
            if form is not None:
                mask = form(real.expand(batch, 1, length, length), subject.dtype)
                tries.append((f", with {name},", {name: mask}, real if form.per_key else every))
    return tries


def _differ(
    training: Subject, evaluating: Subject, words: str, named: dict, rows: Tensor, results: Results
) -> bool:
    x = [training.x(), training.x(seed=3)][: 1 if training.plan.kind == "x" else 2]
    replies = [subject(*x, named=named) for subject in (training, evaluating)]
    if any(reply is None for reply in replies):
        return False
    one, two = (reply.output.detach().double() for reply in replies)
    if one.shape != two.shape:
        return False
    apart = _apart(one, two)
    limit = training.tolerance if training.dtype == torch.float64 else 1e-3
    if not (apart[:, rows] > limit).any():
        return False
    if not named and _causal_in_one(training, evaluating, results):
        return True
    row = int(apart.amax(dim=1).argmax())
    columns = tuple(f"token {i}" for i in range(min(7, one.shape[1])))
    results.found(
        "train-eval",
        f"It computes something else in train mode than in eval mode: with every dropout at 0"
        f"{words} the outputs of the two differ by up to {apart.max().item():.2g} of their size.",
        Evidence(
            f"First feature of the outputs of sequence {row}:",
            torch.stack([output[row, :7, 0] for output in (one, two)]),
            ("train mode", "eval mode"),
            columns,
        ),
    )
    return True


def _causal_in_one(training: Subject, evaluating: Subject, results: Results) -> bool:
    """Say so if later tokens are hidden in one mode only."""
    moves = [influence(subject) for subject in (training, evaluating)]
    if any(values is None for values in moves):
        return False
    seen = [values > evaluating.tolerance for values in moves]
    causal = [bool(one.tril(-1).any() and not one.triu(1).any()) for one in seen]
    if causal[0] == causal[1]:
        return False
    later = moves[int(causal[0])].triu(1).max().item()
    one, other = ("train", "eval") if causal[0] else ("eval", "train")
    sentence = (
        f"It is causal in {one} mode only: in {other} mode a later token moves an earlier output "
        f"by up to {later:.2g} of its size."
    )
    name = "causal-eval" if causal[0] else "causal-leak"
    results.found(name, sentence, moves_table(moves[int(causal[0])]))
    return True


def _apart(one: Tensor, two: Tensor) -> Tensor:
    """Return how far every token's output is from the other, relative to their size, (N, L)."""
    one, two = (each.nan_to_num(nan=7.0, posinf=7e3, neginf=-7e3) for each in (one, two))
    return (one - two).abs().amax(dim=-1) / two.abs().mean().clamp_min(1e-12)
