"""What a mask allows, and what is wrong with it: turned around, transposed or one off."""

from __future__ import annotations

import torch
from torch import Tensor

from attnlab.clinic._report import Evidence
from attnlab.clinic._results import Results
from attnlab.clinic.pieces.builder_calls import Trial
from attnlab.clinic.pieces.builder_reading import Mask

MOST_SHOWN = 7


def judge(name: str, mask: Mask, trial: Trial, results: Results) -> bool:
    """Report what is wrong with a mask; return whether nothing is.

    Parameters
    ----------
    name : str
        Of the builder.
    mask : Mask
        What it allows.
    trial : Trial
        How it was called.
    results : Results
        Is written into.

    Returns
    -------
    bool
        Whether it is right.
    """
    before = len(results.findings)
    asked = f"{name}({trial.form})"
    if mask.name in ("nan", "mask-dtype") and "0 and 1" not in mask.words:
        results.found(mask.name, f"{asked} {mask.words}.", _table(mask.allowed.double(), trial))
        return False
    examine = {"causal": _causal, "window": _window}.get(trial.family, _padding)
    examine(asked, mask, trial, results)
    if mask.name:
        results.found(mask.name, f"{asked} {mask.words}.")
    return len(results.findings) == before


def _causal(asked: str, mask: Mask, trial: Trial, results: Results) -> None:
    """Report how a mask differs from the lower triangle."""
    allowed = mask.allowed
    ones = torch.ones_like(allowed)
    shift = trial.keys - trial.queries
    right = {0: "upper left", shift: "lower right"}
    matches = [k for k in right if torch.equal(allowed, ones.tril(k))]
    if matches:
        if shift:
            corner = right[matches[0]]
            results.note("corner", f"For L != S its diagonal starts in the {corner} corner.")
        results.held("causal", "query i may attend to the keys up to its own, and to no later one")
        return
    table = _table(allowed.double(), trial)
    for k in right:
        if torch.equal(~allowed, ones.tril(k)):
            return results.found("mask-inverted", f"{asked} {mask.turned}.", table)
        if torch.equal(allowed, ones.triu(k)):
            words = "allows the own key and the later ones: it is the upper triangle"
            return results.found("causal-flipped", f"{asked} {words}.", table)
        for step, what in ((-1, "blocks the own key of every query"), (1, "allows one later key")):
            if torch.equal(allowed, ones.tril(k + step)):
                return results.found("causal-off-by-one", f"{asked} {what}.", table)
            if torch.equal(~allowed, ones.tril(k + step)):
                results.found("mask-inverted", f"{asked} {mask.turned}.", table)
                return results.found("causal-off-by-one", f"Turned around, it still {what}.")
    return _odd(asked, allowed, trial, results, table)


def _odd(asked: str, allowed: Tensor, trial: Trial, results: Results, table: Evidence) -> None:
    """Report what is wrong with a mask that resembles no triangle."""
    later = torch.ones_like(allowed).triu(1 + max(0, trial.keys - trial.queries))
    leaks = int((allowed & later).sum())
    total = int(later.sum())
    if allowed.all():
        results.found("causal-missing", f"{asked} blocks nothing at all.", table)
    elif not allowed.any():
        results.found("blocked-row", f"{asked} blocks everything: no query may look.", table)
    elif leaks:
        sentence = f"{asked} allows {leaks} of the {total} pairs of a query and a later key."
        results.found("causal-leak", sentence, table)
    elif not allowed.diagonal(trial.keys - trial.queries).all() and not allowed.diagonal().all():
        sentence = f"{asked} blocks the own key of some queries."
        results.found("causal-off-by-one", sentence, table)
    else:
        results.note("window", f"{asked} blocks some of the earlier keys as well: a window?")


def _window(asked: str, mask: Mask, trial: Trial, results: Results) -> None:
    """Report whether a mask is a band around, or up to, the own key."""
    allowed = mask.allowed
    w, size = trial.window, trial.queries
    table = _table(allowed.double(), trial)
    distance = torch.arange(trial.keys) - torch.arange(size)[:, None]
    seen = distance[allowed]
    band = (int(seen.min()), int(seen.max())) if len(seen) else (0, -1)
    whole = torch.equal(allowed, (distance >= band[0]) & (distance <= band[1]))
    reach = {w - 1, w, w // 2, (w - 1) // 2}
    if not whole or not allowed.diagonal().all():
        hidden = distance[~allowed]
        other = (int(hidden.min()), int(hidden.max())) if len(hidden) else (0, -1)
        turned = torch.equal(~allowed, (distance >= other[0]) & (distance <= other[1]))
        if turned and (~allowed).diagonal().all():
            results.found("mask-inverted", f"{asked} {mask.turned}.", table)
        elif not allowed.diagonal().all():
            results.found(
                "causal-off-by-one", f"{asked} blocks the own key of some queries.", table
            )
        else:
            results.note(
                "window", f"{asked} is no band of neighbouring keys; it was not looked at further."
            )
    elif allowed.all() or not ({-band[0], band[1]} & reach):
        words = f"lets query i see the keys i{band[0]:+d} to i{band[1]:+d}"
        results.found("mask-ignored", f"{asked} {words}, which window {w} does not explain.", table)
    elif band[0] == 0 < band[1]:
        words = f"sees only its own key and the {band[1]} after it"
        results.found("causal-flipped", f"{asked}: every query {words}.", table)
    elif band[1] == 1 and -band[0] > 1 and w > 2:
        words = f"lets query i see the keys i{band[0]:+d} to i+1: one later key"
        results.found("causal-off-by-one", f"{asked} {words}.", table)
    else:
        results.held(
            "window", f"with window {w} query i sees the keys i{band[0]:+d} to i{band[1]:+d}"
        )


def _padding(asked: str, mask: Mask, trial: Trial, results: Results) -> None:
    """Report how a mask differs from the real tokens of every sequence."""
    real, allowed = trial.real, mask.allowed
    n, size = real.shape
    if tuple(allowed.shape) == (size, n):
        sentence = f"{asked} has one column for each sequence, and one row for each key."
        results.found("mask-transposed", sentence, _table(allowed.double(), trial, flat=True))
        allowed = allowed.T
    elif allowed.ndim == 3:
        _padding_rows(asked, mask, trial, results)
        return
    table = _table(allowed.double(), trial, flat=True)
    verdict = padding_verdict(allowed, real)
    left = torch.arange(size) >= size - real.sum(-1, keepdim=True)
    if verdict is None:
        results.held("padding", "every real token is allowed, and no padding")
    elif trial.family == "lengths" and torch.equal(allowed, left):
        results.note("left-padding", f"{asked} takes the padding to be on the left.")
    else:
        words = mask.turned if verdict[0] == "mask-inverted" else verdict[1]
        results.found(verdict[0], f"{asked} {words}.", table)


def padding_verdict(allowed: Tensor, real: Tensor) -> tuple[str, str] | None:
    """Return the name and the words for what is wrong with a mask of padding, (N, S).

    Parameters
    ----------
    allowed, real : Tensor of bool, shape (N, S)
        What the mask says, and which positions hold a token.

    Returns
    -------
    (str, str) or None
        None if it is right.
    """
    lengths, place = real.sum(-1, keepdim=True), torch.arange(real.shape[1])
    counts = f"{allowed.sum(-1).tolist()} keys for lengths {lengths.flatten().tolist()}"
    rows = [bool((real == row).all(-1).any()) for row in allowed]
    if torch.equal(allowed, real):
        return None
    if torch.equal(~allowed, real):
        return "mask-inverted", "is turned around"
    if torch.equal(allowed, place <= lengths) or torch.equal(allowed, place < lengths - 1):
        return "length-off-by-one", f"allows {counts}"
    if torch.equal(allowed, (place >= 1) & (place < lengths)):
        return "length-off-by-one", f"blocks the first token: it allows {counts}"
    if torch.equal(allowed, (place >= 1) & (place <= lengths)):
        return "length-off-by-one", "is shifted by one: it counts the positions from 1"
    if torch.equal(~allowed, place <= lengths) or torch.equal(~allowed, place < lengths - 1):
        return "mask-inverted", "is turned around, and one off"
    if allowed.all():
        return "mask-ignored", "blocks nothing, whatever the padding"
    if not allowed.any():
        return "blocked-row", "blocks everything"
    if all(rows):
        return "batch-mixing", f"gives sequences the lengths of others: it allows {counts}"
    return "padding-leak", f"does not follow the lengths: it allows {counts}"


def _padding_rows(asked: str, mask: Mask, trial: Trial, results: Results) -> None:
    """Report what a mask with a row for every query does: padding and maybe causality."""
    allowed = mask.allowed
    real, size = trial.real, trial.real.shape[1]
    keys, queries = real[:, None, :], real[:, :, None]
    lower = torch.ones(size, size, dtype=torch.bool).tril()
    if allowed.shape[-1] == 1:
        allowed = allowed.expand(-1, -1, size)
    if torch.equal(allowed, keys & lower):
        results.note("causal", "The mask is causal as well.")
        results.held("padding", "every real token up to the query's own is allowed, and no padding")
        return
    pairs = ((keys & queries).expand_as(allowed), keys & queries & lower)
    if any(torch.equal(allowed, pair) for pair in pairs):
        results.note(
            "padded-queries",
            "The rows of padded queries are blocked as well: they may not look at anything.",
        )
        results.held("padding", "every real token is allowed for real queries, and no padding")
        return
    table = _table(allowed[0].double(), trial)
    if torch.equal(allowed, queries.expand_as(allowed)):
        words = "blocks the rows of padded queries and not the columns of padded keys"
        results.found("mask-queries", f"{asked} {words}.", table)
    elif torch.equal(~allowed, (keys & lower)) or torch.equal(~allowed, keys.expand_as(allowed)):
        results.found("mask-inverted", f"{asked} {mask.turned}.", table)
    elif torch.equal(allowed, lower.expand_as(allowed)):
        results.found("mask-ignored", f"{asked} is causal and blocks no padding.", table)
    elif (allowed & ~keys).any():
        share = int((allowed & ~keys).sum())
        sentence = f"{asked} allows {share} pairs of a query and a padded key."
        results.found("padding-leak", sentence, table)
    else:
        full = trial._replace(form=trial.form, family="causal", queries=size, keys=size)
        longest = mask._replace(allowed=allowed[int(real.sum(-1).argmax())])
        _causal(asked, longest, full, results)


def _table(values: Tensor, trial: Trial, *, flat: bool = False) -> Evidence:
    shown = values[:MOST_SHOWN, :MOST_SHOWN]
    row = "sequence" if flat else "query"
    transposed = flat and trial.real is not None and values.shape != trial.real.shape
    rows, columns = ("key", "sequence") if transposed else (row, "key")
    return Evidence(
        "What the mask allows (1) and blocks (0):",
        shown,
        tuple(f"{rows} {i}" for i in range(shown.shape[0])),
        tuple(f"{columns} {i}" for i in range(shown.shape[1])),
        shaded=True,
    )
