"""Which tokens of which sequences a module lets reach which outputs."""

from __future__ import annotations

import re

import torch
from torch import Tensor, nn

from attnlab.clinic._results import Options, Results
from attnlab.clinic.hypotheses import ONE_AHEAD, Recipe
from attnlab.clinic.layers.anatomy import Heads, attentions
from attnlab.clinic.layers.calls import Subject
from attnlab.clinic.layers.forms import forms
from attnlab.clinic.layers.heads import explained
from attnlab.clinic.layers.influence import influence, influence_table, moved
from attnlab.clinic.layers.modes import tell_training
from attnlab.clinic.layers.scrambles import (
    moves_table,
    tell_only_itself,
    tell_order,
)

CAUSAL = "causal|autoregress|gpt"
SMALL = 0.02  # a leak smaller than this part of what is allowed comes from a finite fill


def examine_batch(subject: Subject, results: Results) -> None:
    """Replace sequence 1 token by token: sequence 0 must not move."""
    if subject.plan.single:
        return
    maps = _two_sequences(subject)
    if maps is None:
        return
    reached, within = maps
    if not (reached > subject.tolerance).any():
        results.held("apart", "tokens of one sequence never reach another sequence of the batch")
        return
    _tell_mixing(subject, reached, within, results)


def _two_sequences(subject: Subject) -> tuple[Tensor, Tensor] | None:
    """Return how far tokens of sequence 1 move the outputs of sequence 0, and of sequence 1."""
    x = subject.x()
    length = x.shape[1]
    plain = subject(x)
    if plain is None:
        return None
    reached = torch.zeros(length, length, dtype=torch.float64)  # output of sequence 0, token of 1
    within = torch.zeros(length, length, dtype=torch.float64)  # both of sequence 1
    for token in range(length):
        other = x.clone()
        other[1, token] += subject.tokens(x.shape[-1], seed=20 + token)
        reply = subject(other)
        if reply is None:
            return None
        reached[:, token] = moved(torch.stack([plain.output[0], reply.output[0]]))[:, 0]
        within[:, token] = moved(torch.stack([plain.output[1], reply.output[1]]))[:, 0]
    return reached, within


def _tell_mixing(subject: Subject, reached: Tensor, within: Tensor, results: Results) -> None:
    table = influence_table(
        "How far output i of sequence 0 moves when token j of sequence 1 is replaced:", reached
    )
    off = ~torch.eye(len(reached), dtype=torch.bool)
    crossed = (reached > subject.tolerance) & off
    if not crossed.any() and not ((within > subject.tolerance) & off).any():
        results.found(
            "batch-first",
            "It attends over the batch: token j of one sequence reaches output j of every other "
            "sequence, and no other token of its own sequence; it reads (N, L, E) as (L, N, E). If "
            "that is meant, call diagnose(..., batch_first=False).",
            table,
        )
    else:
        results.found(
            "batch-mixing",
            "Another sequence of the batch changes the result: replacing tokens of sequence 1 "
            f"moves the output of sequence 0 by up to {reached.max().item():.2g} of its size.",
            table,
        )


def examine_positions(
    subject: Subject, options: Options, known: tuple[Heads, Recipe] | None, results: Results
) -> None:
    """Name who sees whom."""
    values = influence(subject)
    if values is None:
        return
    seen = values > subject.tolerance
    off = ~torch.eye(len(seen), dtype=torch.bool)
    if not (seen & off).any():
        tell_only_itself(subject, values, results)
        return
    if results.findings:  # who sees whom follows from them
        return
    intent = means_causal(subject, options)
    if (seen | ~off).all() and not (intent and _is_faint(values)):
        tell_order(subject, known is not None, results)
        if tell_training(subject, "dense", results):
            return
        if intent:
            results.found("causal-missing", _missing(values), moves_table(values))
        examine_flags(subject, options, known, results)
        return
    _judge_pattern(subject, values, intent, results)
    if results.holds("causal"):
        tell_training(subject, "causal", results)


def _missing(values: Tensor) -> str:
    ahead = values.triu(1).max().item()
    return (
        "It is meant to be causal and is not: replacing a later token moves an earlier output by "
        f"up to {ahead:.2g} of its size."
    )


def _is_faint(values: Tensor) -> bool:
    """Return whether later tokens reach much less far than earlier ones."""
    return bool(values.triu(1).max() < SMALL * values.tril(-1).max())


def _judge_pattern(subject: Subject, values: Tensor, intent: bool, results: Results) -> None:
    seen = values > subject.tolerance
    ahead, back = seen.triu(1), seen.tril(-1)
    earlier = torch.ones_like(seen).tril(-1)
    if not ahead.any():
        if not torch.equal(back, earlier):
            results.note(
                "window", "It is causal, and a token does not see every earlier one (a window)."
            )
        results.held("causal", "later tokens never reach earlier outputs")
    elif torch.equal(back, earlier) or intent:
        if torch.equal(ahead, torch.ones_like(seen).triu(1).tril(1)):
            results.found(ONE_AHEAD.cause, ONE_AHEAD.words, moves_table(values))
        else:
            results.found(
                "causal-leak",
                f"Later tokens reach {int(ahead.any(dim=1).sum())} of {len(seen)} outputs: the "
                f"largest move is {values.triu(1).max().item():.2g} of the output's size.",
                moves_table(values),
            )
    else:
        results.note("window", "Not every token sees every other one: local or blocked attention.")


def means_causal(subject: Subject, options: Options) -> bool:
    """Return whether the module is meant to be causal, told or by its name and its own numbers."""
    if options.causal is not None:
        return options.causal
    module = subject.layer
    flags = [getattr(module, name, None) for name in ("causal", "is_causal", "use_causal_mask")]
    if any(flag is False for flag in flags) or subject.plan.flags:
        return False
    if any(flag is True for flag in flags) or re.search(CAUSAL, _name(module)):
        return True
    if "masked" in _name(module) and not subject.plan.masks:
        return True
    return isinstance(module, nn.Module) and any(map(_triangular, _kept(module)))


def _name(module: object) -> str:
    return getattr(module, "__name__", type(module).__name__).lower()


def _kept(module: nn.Module) -> list[Tensor]:
    plain = [value for part in module.modules() for value in vars(part).values()]
    return [*module.buffers(), *(value for value in plain if isinstance(value, Tensor))]


def _triangular(tensor: Tensor) -> bool:
    """Return whether this is a stored causal mask of any kind."""
    square = tensor.squeeze()
    if square.ndim != 2 or square.shape[0] != square.shape[1] or len(square) < 2:
        return False
    marks = square.detach().double().nan_to_num(neginf=-1.0, posinf=1.0).sign().abs()
    both = (marks, 1 - marks)
    ones = torch.ones_like(marks)
    return any(torch.equal(mark, ones.tril(k)) for mark in both for k in (-1, 0, 1))


def _is_hint(subject: Subject, flag: str, options: Options) -> bool:
    """Return whether is_causal alone does nothing, and may want to come with a mask."""
    if not subject.plan.masks or options.causal or re.search(CAUSAL, _name(subject.layer)):
        return False
    x = subject.x()
    plain, told = subject(x), subject(x, named={flag: True})
    if plain is None or told is not None:
        return plain is not None and torch.equal(plain.output, told.output)
    causal = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).tril().expand(len(x), -1, -1)
    tries = (
        {flag: True, name: form(causal, subject.dtype)}
        for name in subject.plan.masks
        for form in forms(subject, name, ("bool", "additive"), False)
    )
    return any(subject(x, named=named) is not None for named in tries)


def examine_flags(
    subject: Subject, options: Options, known: tuple[Heads, Recipe] | None, results: Results
) -> None:
    """Turn on is_causal where forward has it."""
    for flag in subject.plan.flags[:1]:
        if _is_hint(subject, flag, options):
            results.note(
                "flag", f"{flag}=True without a mask does nothing: only a hint beside a mask."
            )
            return
        values = influence(subject, named={flag: True})
        if values is None:
            sentence = f"With {flag}=True it raises {subject.trouble}."
            if "mask" in subject.trouble or subject.caller.out_of_time:  # it wants a mask too
                results.note("flag", sentence)
            else:
                results.found("raises", sentence)
            return
        if known is not None:
            for heads in attentions(subject, known[0].x, named={flag: True}):
                explained(heads, results)
            if results.findings:
                return
        off = ~torch.eye(len(values), dtype=torch.bool)
        if ((values > subject.tolerance) | ~off).all() and not _is_faint(values):
            results.found(
                "causal-missing",
                f"With {flag}=True it is not causal: replacing a later token moves an earlier "
                f"output by up to {values.triu(1).max().item():.2g} of its size.",
                moves_table(values),
            )
        else:
            _judge_pattern(subject, values, True, results)
