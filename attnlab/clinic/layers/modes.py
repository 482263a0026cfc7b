"""Whether a module computes the same in train mode and in eval mode, dropout aside."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor, nn

from attnlab.clinic._copying import copy_of
from attnlab.clinic._report import Evidence
from attnlab.clinic._results import Results
from attnlab.clinic.layers.calls import Subject
from attnlab.clinic.layers.forms import accepted, forms
from attnlab.clinic.layers.influence import influence, influence_in_training
from attnlab.clinic.layers.scrambles import moves_table

CHANCES = ("p", "prob", "rate", "probability")


def tell_training(exact: Subject, pattern: str, results: Results) -> bool:
    """Compare who sees whom in train mode with eval mode; return whether a finding came of it."""
    seen = _seen_in_training(exact)
    if seen is None:
        return False
    causal = not seen.triu(1).any() and seen.tril(-1).any()
    if causal and pattern == "dense":
        values = influence(exact)
        results.found(
            "causal-eval",
            "It is causal in train mode only: in eval mode a later token moves an earlier output "
            f"by up to {values.triu(1).max().item():.2g} of its size.",
            moves_table(values),
        )
        return True
    if pattern == "causal" and seen.triu(1).any():
        results.found(
            "causal-leak", "It is causal in eval mode, but in train mode later tokens leak."
        )
        return True
    if pattern == "causal":
        results.held("causal-modes", "is causal in train mode and in eval mode")
    return False


def _seen_in_training(exact: Subject) -> Tensor | None:
    """Return which tokens reach which outputs in train mode; None if that cannot be found out."""
    if exact.module is None:
        return None
    try:
        training = exact.like(copy_of(exact.module).train(), exact.dtype)
    except Exception:
        return None  # it cannot be copied, and must not change
    seen = None
    for seed in range(4 if exact.sizes.embed <= 128 else 2):
        values = influence_in_training(training, seed)
        if values is None:
            return None
        now = values > exact.tolerance
        seen = now if seen is None else seen | now
        if not training.by_chance:
            break  # every other seed gives the same
    return seen


class Try(NamedTuple):
    """One call to compare; ``groups`` are rows of which each must differ, to count."""

    words: str
    named: dict
    groups: tuple[Tensor, ...] = ()


def examine_modes(exact: Subject, results: Results) -> None:
    """With every dropout at 0, train mode must give the same as eval mode."""
    if not isinstance(exact.module, nn.Module) or results.has("causal-eval", "causal-leak"):
        return
    if any(map(_keeps_statistics, exact.module.modules())):
        results.note("modes", "It has a BatchNorm: train mode and eval mode were not compared.")
        return
    try:
        copies = [_without_dropout(copy_of(exact.module)).train(now) for now in (True, False)]
    except Exception:
        return  # it cannot be copied, and must not change
    training, evaluating = (exact.like(module, exact.dtype) for module in copies)
    replies = [training(exact.x(), seed=seed) for seed in (0, 1, 2)]
    if any(reply is None for reply in replies):
        if not training.caller.out_of_time:
            results.note("modes", f"In train mode it raises {training.trouble}")
        return
    if not all(_apart(replies[0].output, reply.output).max() == 0 for reply in replies):
        results.note(
            "modes",
            "With every dropout that was found at 0 it is still random in train mode: train mode "
            "and eval mode were not compared.",
        )
        return
    for one in _tries(training, evaluating):
        if _differs(training, evaluating, one, results):
            return
    results.held(
        "modes", "gives the same output in train mode and in eval mode, apart from dropout"
    )


def _keeps_statistics(part: nn.Module) -> bool:
    running = any("running" in name for name, _ in part.named_buffers(recurse=False))
    return running or "batchnorm" in type(part).__name__.lower()


def _without_dropout(module: nn.Module) -> nn.Module:
    """Set every probability of dropout to 0, in layers and in plain attributes."""
    for part in module.modules():
        own = "drop" in type(part).__name__.lower()
        for name, value in list(vars(part).items()):
            about = "drop" in name.lower() or (own and name in CHANCES)
            if about and isinstance(value, (int, float)) and not isinstance(value, bool):
                with contextlib.suppress(Exception):
                    setattr(part, name, 0.0)
    return module


def _tries(training: Subject, subject: Subject) -> Iterator[Try]:
    """Yield calls without a mask, with each flag and with each mask that one of them takes."""
    yield Try("", {})
    for flag in subject.plan.flags:
        yield Try(f", with {flag}=True,", {flag: True})
    batch, length = subject.x().shape[:2]
    place = torch.arange(length)
    lengths = [subject.plan.lengths] if subject.plan.lengths else []
    for name in (*subject.plan.masks, *lengths):
        real = place < length - 1 if name in lengths else place % 3 != 1
        taken = {}
        for either in (subject, training):
            candidates = forms(either, name, ("bool", "int", "additive"), False)
            form = accepted(either, name, candidates)
            if form is not None:
                taken.setdefault((form.shape, form.kind), form)
        for form in taken.values():
            mask = form(real.expand(batch, length, length), subject.dtype)
            # the output of a padded row does not matter: real rows must differ too
            yield Try(f", with {name},", {name: mask}, (real, ~real) if form.keys else ())


def _differs(training: Subject, evaluating: Subject, one: Try, results: Results) -> bool:
    x = training.x()
    memory = None if training.plan.kind == "x" else training.x(seed=3)
    replies = [subject(x, memory, named=one.named) for subject in (training, evaluating)]
    if any(reply is None for reply in replies):
        return False
    outputs = [reply.output.detach().double() for reply in replies]
    if outputs[0].shape != outputs[1].shape:
        return False
    apart = _apart(*outputs)
    limit = max(training.tolerance, 1e-9) if training.exact else 1e-3
    groups = one.groups or (torch.ones(x.shape[1], dtype=torch.bool),)
    if not all((apart[:, rows] > limit).any() for rows in groups):
        return False
    row = int(apart.amax(dim=1).argmax())
    results.found(
        "train-eval",
        f"It computes something else in train mode than in eval mode: with every dropout at 0"
        f"{one.words} the outputs of the two differ by up to {apart.max().item():.2g} of their "
        "size.",
        Evidence(
            f"First feature of the outputs of sequence {row}:",
            torch.stack([output[row, :7, 0] for output in outputs]),
            ("train mode", "eval mode"),
            tuple(f"token {i}" for i in range(min(7, x.shape[1]))),
        ),
    )
    return True


def _apart(one: Tensor, two: Tensor) -> Tensor:
    """Return how far every token's output is from the other, relative to their size, (N, L)."""
    one, two = (each.nan_to_num(nan=7.0, posinf=7e3, neginf=-7e3) for each in (one, two))
    return (one - two).abs().amax(dim=-1) / two.abs().mean().clamp_min(1e-12)
