"""Which tokens of which sequences a module lets reach which outputs."""

from __future__ import annotations

import re

import torch
from torch import Tensor, nn

from attnlab._bounded import name_of
from attnlab.clinic._results import Options, Results
from attnlab.clinic.hypotheses import Recipe
from attnlab.clinic.layers.anatomy import Heads, attentions
from attnlab.clinic.layers.calls import Subject
from attnlab.clinic.layers.forms import forms_of
from attnlab.clinic.layers.heads import explained
from attnlab.clinic.layers.influence import influence, influence_table, moved, moves_table
from attnlab.clinic.masks import tell_pattern

CAUSAL = re.compile("causal|autoregress|gpt", re.IGNORECASE)
SMALL = 0.02  # a leak smaller than this part of what is allowed comes from a finite fill


def examine_batch(subject: Subject, results: Results) -> None:
    """Replace sequence 1 token by token: sequence 0 must not move."""
    x = subject.x()
    plain, across, within = subject(x), [], []
    if subject.plan.single or plain is None:
        return
    for token in range(x.shape[1]):
        other = x.clone()
        other[1, token] += subject.tokens(x.shape[-1], seed=20 + token)
        reply = subject(other)
        if reply is None:
            return
        for place, moves in enumerate((across, within)):
            pair = torch.stack([plain.output[place], reply.output[place]])
            moves.append(moved(pair)[:, 0])
    across, within = torch.stack(across, dim=1), torch.stack(within, dim=1)  # (output, token)
    reached = across > subject.tolerance
    if not reached.any():
        results.held("apart", "tokens of one sequence never reach another sequence of the batch")
        return
    table = influence_table(
        "How far output i of sequence 0 moves when token j of sequence 1 is replaced:", across
    )
    if not _off(reached | (within > subject.tolerance)).any():
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
            f"moves the output of sequence 0 by up to {across.max().item():.2g} of its size.",
            table,
        )


def _off(square: Tensor) -> Tensor:
    """Return what lies off the diagonal."""
    return square[~torch.eye(len(square), dtype=torch.bool)]


# --- within a sequence ----------------------------------------------------------------------------


def examine_positions(
    subject: Subject, options: Options, known: tuple[Heads, Recipe] | None, results: Results
) -> None:
    """Name who sees whom."""
    values = influence(subject)
    if values is None:
        return
    seen = values > subject.tolerance
    if not _off(seen).any():
        _tell_only_itself(subject, values, results)
    if results.findings:  # who sees whom follows from them
        return
    intent = means_causal(subject, options)
    if _off(seen).all() and not (intent and _is_faint(values)):
        _tell_order(subject, results)
        if intent:
            _tell_missing("It is meant to be causal and is not", values, results)
        _examine_flag(subject, options, known, results)
    else:
        _judge_pattern(subject, values, intent, results)


def _tell_only_itself(subject: Subject, values: Tensor, results: Results) -> None:
    """Report that no token sees another, or that nothing is seen at all."""
    words = "Every token sees only itself: replacing token j moves output j and no other"
    if (values.diagonal() <= subject.tolerance).all():
        results.found("detached", "The output does not depend on x at all.", moves_table(values))
    elif subject.sizes.heads is None:
        results.found("not-attention", f"{words}.", moves_table(values))
    else:
        why = "the heads of a token look at each other instead of at the tokens."
        if subject.sizes.heads == 1:
            why = "nothing is gathered from the other tokens."
        results.found("attends-over-heads", f"{words}; {why}", moves_table(values))


def _tell_order(subject: Subject, results: Results) -> None:
    """Say whether the order of the tokens matters."""
    x = subject.x(1)
    order = torch.arange(x.shape[1]).roll(2).flip(0)
    both = subject(torch.cat([x, x[:, order]]))
    if both is None or not both.output.isfinite().all():
        return
    one, two = both.output[0][order], both.output[1]
    if (one - two).abs().max() <= 10 * subject.tolerance * one.abs().mean():
        results.held("order", "shuffling the tokens shuffles the outputs in the same way")
        return
    results.note("order", "It knows the order of the tokens: shuffled tokens change the outputs.")


def _tell_missing(what: str, values: Tensor, results: Results) -> None:
    sentence = (
        f"{what}: replacing a later token moves an earlier output by up to "
        f"{values.triu(1).max().item():.2g} of its size."
    )
    results.found("causal-missing", sentence, moves_table(values))


def _is_faint(values: Tensor) -> bool:
    """Return whether later tokens reach much less far than earlier ones."""
    return bool(values.triu(1).max() < SMALL * values.tril(-1).max())


def _judge_pattern(subject: Subject, values: Tensor, meant: bool, results: Results) -> None:
    seen = values > subject.tolerance
    whole = torch.equal(seen.tril(-1), torch.ones_like(seen).tril(-1))
    tell_pattern(seen, meant or whole, moves_table(values), results)


# --- whether it is meant to be causal -------------------------------------------------------------


def means_causal(subject: Subject, options: Options) -> bool:
    """Return whether the module is meant to be causal, told or by its name and its own numbers."""
    if options.causal is not None:
        return options.causal
    module, name = subject.layer, name_of(subject.layer)
    flags = [getattr(module, name, None) for name in ("causal", "is_causal", "use_causal_mask")]
    if any(flag is False for flag in flags) or subject.plan.flags:
        return False
    if any(flag is True for flag in flags) or CAUSAL.search(name):
        return True
    if "masked" in name.lower() and not subject.plan.masks:
        return True
    return subject.module is not None and any(map(_triangular, _kept(module)))


def _kept(module: nn.Module) -> list[Tensor]:
    plain = [value for part in module.modules() for value in vars(part).values()]
    return [*module.buffers(), *(value for value in plain if isinstance(value, Tensor))]


def _triangular(tensor: Tensor) -> bool:
    """Return whether this is a stored causal mask of any kind."""
    square = tensor.squeeze()
    if square.ndim != 2 or square.shape[0] != square.shape[1] or len(square) < 2:
        return False
    marks = square.detach().double().nan_to_num(neginf=-1.0, posinf=1.0).sign().abs()
    ones = torch.ones_like(marks)
    return any(torch.equal(mark, ones.tril(k)) for mark in (marks, 1 - marks) for k in (-1, 0, 1))


def _is_hint(subject: Subject, flag: str, options: Options) -> bool:
    """Return whether is_causal alone does nothing, and may want to come with a mask."""
    if not subject.plan.masks or options.causal or CAUSAL.search(name_of(subject.layer)):
        return False
    x = subject.x()
    plain, told = subject(x), subject(x, named={flag: True})
    if plain is None or told is not None:
        return plain is not None and torch.equal(plain.output, told.output)
    causal = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).tril().expand(len(x), 1, -1, -1)
    return any(
        subject(x, named={flag: True, name: form(causal, subject.dtype)}) is not None
        for name in subject.plan.masks
        for form in forms_of(subject, name, ("bool", "additive"))
    )


def _examine_flag(
    subject: Subject, options: Options, known: tuple[Heads, Recipe] | None, results: Results
) -> None:
    """Turn on is_causal where forward has it."""
    flag = next(iter(subject.plan.flags), None)
    if flag is None:
        return
    if _is_hint(subject, flag, options):
        words = f"{flag}=True without a mask does nothing: only a hint beside a mask."
        results.note("flag", words)
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
    if _off(values > subject.tolerance).all() and not _is_faint(values):
        _tell_missing(f"With {flag}=True it is not causal", values, results)
    else:
        _judge_pattern(subject, values, True, results)
