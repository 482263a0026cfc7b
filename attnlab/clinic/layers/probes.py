"""Which tokens of which sequences a module lets reach which outputs."""

from __future__ import annotations

import re

import torch
from torch import Tensor, nn

from attnlab.clinic._chart import Chart, Options
from attnlab.clinic.layers.calls import Patient
from attnlab.clinic.layers.forms import forms
from attnlab.clinic.layers.influence import (
    head_numbers,
    influence,
    influence_table,
    moved,
    scrambles_like,
)
from attnlab.clinic.layers.scrambles import (
    again,
    is_window,
    moves_table,
    shuffled_badly,
    tell_only_itself,
    tell_scramble,
)

CAUSAL = "causal|autoregress|gpt"
SMALL = 0.02  # a leak smaller than this part of what is allowed comes from a finite fill


def examine_batch(patient: Patient, chart: Chart) -> None:
    """Replace sequence 1 token by token: sequence 0 must not move."""
    if patient.plan.single:
        return
    maps = _two_sequences(patient)
    if maps is None:
        return
    reached, within = maps
    if not (reached > patient.tolerance).any():
        chart.held("tokens of one sequence never reach another sequence of the batch")
        return
    _tell_mixing(patient, reached, within, chart)


def _two_sequences(patient: Patient) -> tuple[Tensor, Tensor] | None:
    """Return how far tokens of sequence 1 move the outputs of sequence 0, and of sequence 1."""
    x = patient.x()
    length = x.shape[1]
    plain = patient(x)
    if plain is None:
        return None
    reached = torch.zeros(length, length, dtype=torch.float64)  # output of sequence 0, token of 1
    within = torch.zeros(length, length, dtype=torch.float64)  # both of sequence 1
    for token in range(length):
        other = x.clone()
        other[1, token] += patient.tokens(x.shape[-1], seed=20 + token)
        reply = patient(other)
        if reply is None:
            return None
        reached[:, token] = moved(torch.stack([plain.output[0], reply.output[0]]))[:, 0]
        within[:, token] = moved(torch.stack([plain.output[1], reply.output[1]]))[:, 0]
    return reached, within


def _tell_mixing(patient: Patient, reached: Tensor, within: Tensor, chart: Chart) -> None:
    table = influence_table(
        "How far output i of sequence 0 moves when token j of sequence 1 is replaced:", reached
    )
    off = ~torch.eye(len(reached), dtype=torch.bool)
    crossed = (reached > patient.tolerance) & off
    if not crossed.any() and not ((within > patient.tolerance) & off).any():
        chart.found(
            "batch-first",
            "It attends over the batch: token j of one sequence reaches output j of every other "
            "sequence, and no other token of its own sequence; it reads (N, L, E) as (L, N, E).",
            table,
        )
    else:
        chart.found(
            "batch-mixing",
            "Another sequence of the batch changes the result: replacing tokens of sequence 1 "
            f"moves the output of sequence 0 by up to {reached.max().item():.2g} of its size.",
            table,
        )


def examine_positions(patient: Patient, options: Options, chart: Chart) -> str:
    """Name who sees whom; return "dense", "causal", or "other"."""
    values = influence(patient)
    if values is None:
        return "other"
    seen = values > patient.tolerance
    length = len(seen)
    off = ~torch.eye(length, dtype=torch.bool)
    intent = means_causal(patient, options)
    if not (seen & off).any():
        tell_only_itself(patient, values, chart)
        return "other"
    scrambles = scrambles_like(seen, head_numbers(patient))
    if len(scrambles) > 1 or (scrambles and is_window(seen)):
        scrambles = again(patient, scrambles)
    if scrambles:
        tell_scramble(*scrambles[0], values, chart)
        return "other"
    if (seen | ~off).all() and not (intent and _is_faint(values)):
        if shuffled_badly(patient, values, chart):
            return "other"
        if intent:
            chart.found("causal-missing", _missing(values), moves_table(values))
        _examine_flags(patient, options, chart)
        return "dense"
    return _judge_pattern(patient, values, intent, chart)


def _missing(values: Tensor) -> str:
    ahead = values.triu(1).max().item()
    return (
        "It is meant to be causal and is not: replacing a later token moves an earlier output by "
        f"up to {ahead:.2g} of its size."
    )


def _is_faint(values: Tensor) -> bool:
    """Return whether later tokens reach much less far than earlier ones."""
    return bool(values.triu(1).max() < SMALL * values.tril(-1).max())


def _judge_pattern(patient: Patient, values: Tensor, intent: bool, chart: Chart) -> str:
    seen = values > patient.tolerance
    length = len(seen)
    ahead, back = seen.triu(1), seen.tril(-1)
    strict = torch.ones(length, length, dtype=torch.bool)
    if _own_key_hidden(seen):
        chart.findings[:] = [one for one in chart.findings if one.name != "nan"]
        _off_by_one(values, "no token sees itself, and the first one sees nothing", chart)
        return "other"
    if not ahead.any():
        if torch.equal(back, strict.tril(-2)):
            _off_by_one(values, "the token just before it is hidden", chart)
        elif not torch.equal(back, strict.tril(-1)):
            chart.note("It is causal, and a token does not see every earlier one (a window).")
        chart.held("later tokens never reach earlier outputs")
        return "causal"
    _tell_leak(patient, values, intent, chart)
    return "other"


def _tell_leak(patient: Patient, values: Tensor, intent: bool, chart: Chart) -> None:
    seen = values > patient.tolerance
    length = len(seen)
    ahead, back = seen.triu(1), seen.tril(-1)
    strict = torch.ones(length, length, dtype=torch.bool)
    if not back.any():
        chart.found(
            "causal-flipped",
            "Causality is the wrong way round: every output sees later tokens and no earlier one.",
            moves_table(values),
        )
    elif _is_faint(values):
        chart.found(
            "mask-finite",
            "Later tokens leak through the causal mask: they move earlier outputs by up to "
            f"{values.triu(1).max().item():.1e} of their size; the fill value is too small.",
            moves_table(values),
        )
    elif torch.equal(ahead, strict.triu(1) & strict.tril(1)) and back.sum() > length:
        _off_by_one(values, "the next token is seen", chart)
    elif torch.equal(back, strict.tril(-1)) or intent:
        chart.found(
            "causal-leak",
            f"Later tokens reach {int(ahead.any(dim=1).sum())} of {length} outputs: the largest "
            f"move is {values.triu(1).max().item():.2g} of the output's size.",
            moves_table(values),
        )
    else:
        chart.note("Not every token sees every other one: local or blocked attention.")


def _own_key_hidden(seen: Tensor) -> bool:
    """Return whether row 0 has no key (it gives nothing, or a mean of all), and row 1 one only."""
    back = torch.ones_like(seen).tril(-1)
    first = seen[0, 1:]
    alone = not seen[0].any() or bool(first.all())
    return (
        alone
        and torch.equal(seen[1:].tril(0)[:, :-1], (back | seen)[1:].tril(0)[:, :-1])
        and not seen[1:].triu(2).any()
        and not seen[1, 1]
    )


def _off_by_one(values: Tensor, what: str, chart: Chart) -> None:
    chart.found("causal-off-by-one", f"The causal mask is off by one: {what}.", moves_table(values))


def means_causal(patient: Patient, options: Options) -> bool:
    """Return whether the module is meant to be causal, told or by its name and its own numbers."""
    if options.causal is not None:
        return options.causal
    module = patient.module
    flags = [getattr(module, name, None) for name in ("causal", "is_causal", "use_causal_mask")]
    if any(flag is False for flag in flags) or patient.plan.flags:
        return False
    if any(flag is True for flag in flags) or re.search(CAUSAL, _name(module)):
        return True
    if "masked" in _name(module) and not patient.plan.masks:
        return True
    return isinstance(module, nn.Module) and any(map(_triangular, _kept(module)))


def _name(module: object) -> str:
    return getattr(module, "__name__", type(module).__name__).lower()


def _kept(module: nn.Module) -> list[Tensor]:
    plain = [value for part in module.modules() for value in vars(part).values()]
    return [*module.buffers(), *(value for value in plain if isinstance(value, Tensor))]


def _triangular(tensor: Tensor) -> bool:
    """Return whether this is a stored causal mask of any kind."""
    square = tensor.reshape(tensor.shape[-2:]) if tensor.ndim >= 2 and _flat(tensor) else tensor
    if square.ndim != 2 or square.shape[0] != square.shape[1] or len(square) < 2:
        return False
    marks = square.detach().double().nan_to_num(neginf=-1.0, posinf=1.0).sign().abs()
    both = (marks, 1 - marks)
    ones = torch.ones_like(marks)
    return any(torch.equal(mark, ones.tril(k)) for mark in both for k in (-1, 0, 1))


def _flat(tensor: Tensor) -> bool:
    return tensor.numel() == tensor.shape[-1] * tensor.shape[-2]


def _is_hint(patient: Patient, flag: str, options: Options) -> bool:
    """Return whether is_causal alone does nothing, and may want to come with a mask."""
    if not patient.plan.masks or options.causal or re.search(CAUSAL, _name(patient.module)):
        return False
    x = patient.x()
    plain, told = patient(x), patient(x, named={flag: True})
    if plain is None or told is not None:
        return plain is not None and torch.equal(plain.output, told.output)
    causal = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).tril().expand(len(x), -1, -1)
    tries = (
        {flag: True, name: form(causal, patient.dtype)}
        for name in patient.plan.masks
        for form in forms(patient, name, ("bool", "additive"), False)
    )
    return any(patient(x, named=named) is not None for named in tries)


def _examine_flags(patient: Patient, options: Options, chart: Chart) -> None:
    """Turn on is_causal where forward has it."""
    for flag in patient.plan.flags[:1]:
        if _is_hint(patient, flag, options):
            chart.note(f"{flag}=True without a mask does nothing: only a hint beside a mask.")
            return
        values = influence(patient, named={flag: True})
        if values is None:
            sentence = f"With {flag}=True it raises {patient.trouble}"
            if "mask" in patient.trouble or patient.caller.out_of_time:  # it wants a mask too
                chart.note(sentence)
            else:
                chart.found("raises", sentence)
            return
        off = ~torch.eye(len(values), dtype=torch.bool)
        if ((values > patient.tolerance) | ~off).all() and not _is_faint(values):
            chart.found(
                "causal-missing",
                f"With {flag}=True it is not causal: replacing a later token moves an earlier "
                f"output by up to {values.triu(1).max().item():.2g} of its size.",
                moves_table(values),
            )
        else:
            _judge_pattern(patient, values, True, chart)
