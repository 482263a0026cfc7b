"""Functions that build a mask: which way round it is, and where its edge lies."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from attnlab.clinic._results import Options, Results
from attnlab.clinic.pieces.behaviour import Subject, numbers, shape
from attnlab.clinic.pieces.builder_calls import Trial, families, trials
from attnlab.clinic.pieces.builder_reading import Mask, read, reduced
from attnlab.clinic.pieces.builder_verdicts import judge

SQUARE, WIDE, TALL, OTHER = (5, 5), (5, 7), (7, 5), (6, 6)
WINDOW_SQUARE = (7, 7)
WANTED = {
    "causal": "(L, S)",
    "window": "(L, S)",
    "lengths": "(N, S), (N, 1, S) or (N, 1, 1, S)",
    "tokens": "(N, S), (N, 1, S) or (N, 1, 1, S)",
}


def examine_mask_builder(function: Callable, options: Options, results: Results) -> None:
    """Report how a function that builds a mask behaves.

    Parameters
    ----------
    function : callable
        Causal ``(L)``, ``(L, S)`` or ``(x)``; a window ``(L, window)``; padding from ``(lengths)``,
        ``(lengths, max_len)`` or ``(ids, pad_id)``. True is meant to say "may attend".
    options : Options
        ``mask="blocked"`` if True is meant to say "blocked"; ``call(function, ...)``.
    results : Results
        Is written into.

    See Also
    --------
    attnlab.masks.causal_mask, attnlab.masks.sequence_mask : right ones.
    """
    subject = Subject(function, "the function", options, results)
    subject.role = subject.name if subject.name.isidentifier() else subject.role
    trial, value = _first(subject)
    if trial is not None:
        _examine(subject, options, trial, value)
    subject.see_behaviour()


def _first(subject: Subject) -> tuple[Trial | None, Tensor | None]:
    """Return the first call that gives a mask of the shape that is meant; else the first result."""
    kept, failed = None, None
    for family in families(subject.name, subject.parameters):
        sizes = WINDOW_SQUARE if family == "window" else SQUARE
        for trial in trials(family, subject.parameters, sizes):
            outcome = subject.ask(trial.form)
            failed = failed or (outcome, trial.form)
            if not isinstance(outcome.value, Tensor) or numbers(outcome.value) is None:
                continue
            kept = kept or (trial, outcome.value)
            if reduced(outcome.value, trial) is not None:
                return trial, outcome.value
    if kept is None and failed is None:
        sentence = f"{subject.role} can be called with no sizes, lengths or tokens that make sense."
        subject.results.found("raises", sentence)
    elif kept is None:
        subject.explain(*failed)
    return kept or (None, None)


def _examine(subject: Subject, options: Options, trial: Trial, value: Tensor) -> None:
    results = subject.results
    if not subject.see_noise(trial.form, numbers(value)):
        return
    core = reduced(value, trial)
    if core is None:
        asked = f"{subject.role}({trial.form}) returns shape {shape(value)}"
        results.found("wrong-shape", f"{asked} where {WANTED[trial.family]} is needed.")
        return
    mask = read(core, options)
    if not judge(subject.role, mask, trial, results):
        return
    _see_kind(subject, mask, results)
    _see_others(subject, options, trial)


def _see_kind(subject: Subject, mask: Mask, results: Results) -> None:
    """Report what the mask is made of, once it is known to be right."""
    if mask.note:
        results.note("mask-dtype", f"{subject.role} {mask.note}.")
    else:
        results.held("mask-dtype", "the mask is bool")


def _see_others(subject: Subject, options: Options, trial: Trial) -> None:
    """Judge again: other sizes, and fewer queries than keys where the function takes both."""
    results, name = subject.results, subject.role
    again = [
        (one, "other sizes")
        for one in trials(trial.family, subject.parameters, OTHER, 1)
        if _alike(one, trial)
    ][:1]
    if trial.family == "causal":
        again += [
            (one, "as many keys as queries")
            for sizes in (WIDE, TALL)
            for one in trials("causal", subject.parameters, sizes)
            if _alike(one, trial) and _takes_both(one, sizes)
        ][:2]
    for other, what in again:
        outcome = subject.ask(other.form)
        value = outcome.value if isinstance(outcome.value, Tensor) else None
        core = None if value is None or numbers(value) is None else reduced(value, other)
        if core is None and other.keys != other.queries:
            told = outcome.trouble or (f"shape {shape(value)}" if value is not None else "nothing")
            results.found(
                "square-only",
                f"{name} is right for {trial.queries} queries and {trial.keys} keys, but "
                f"{name}({other.form}) gives {told}.",
            )
            return
        if core is None:
            subject.explain(outcome, other.form) if value is None else results.found(
                "wrong-shape",
                f"{name}({other.form}) returns shape {shape(value)}: it fits one size only.",
            )
            return
        if not judge(name, read(core, options), other, results):
            return
        results.held(
            "sizes", f"it is right for {what} as well" if what == "other sizes" else _wide(other)
        )


def _wide(trial: Trial) -> str:
    return f"it is right for {trial.queries} queries and {trial.keys} keys"


def _alike(one: Trial, other: Trial) -> bool:
    """Return whether two calls give arguments of the same kinds."""

    def kinds(trial: Trial) -> list:
        given = (*trial.form.arguments, *trial.form.named.values())
        return [value.ndim if isinstance(value, Tensor) else type(value) for value in given]

    return kinds(one) == kinds(other)


def _takes_both(trial: Trial, sizes: tuple[int, int]) -> bool:
    """Return whether the number of keys is said somewhere in the call."""
    given = (*trial.form.arguments, *trial.form.named.values())
    tensors = [value for value in given if isinstance(value, Tensor) and value.ndim > 1]
    whole = [value for value in given if isinstance(value, int)]
    return any(tuple(x.shape[-2:]) == sizes for x in tensors) or set(sizes) <= set(whole)
