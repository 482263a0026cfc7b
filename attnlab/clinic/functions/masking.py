"""Probes of the mask argument of an attention function."""

from __future__ import annotations

import torch
from torch import Tensor

from attnlab.clinic._calling import Unusable
from attnlab.clinic._hints import says_additive, says_heads
from attnlab.clinic._results import Results
from attnlab.clinic.functions.blocking import Verdict, judge, table
from attnlab.clinic.functions.calls import GENERAL, Attention, Sizes
from attnlab.clinic.functions.mask_forms import Trial, first_accepted, given, pattern
from attnlab.clinic.functions.measure import (
    SURE,
    close,
    number_table,
    products,
    weights_of,
    weights_table,
)
from attnlab.masks import to_additive_mask

EQUAL_HEADS = Sizes(N=3, H=3)
LEVELS = (-20.0, -100.0, -1000.0)  # scores that ordinary large inputs can reach


def examine_masks(attention: Attention, results: Results, factor: float) -> None:
    """Find out what the mask argument does; ``factor`` is the one on the dot products."""
    if attention.takes.mask is None and attention.options.call is None:
        return
    ndims = sorted(attention.ndims, key=lambda ndim: ndim == 2)  # a batch first
    trials = [trial for ndim in ndims if (trial := first_accepted(attention, ndim, factor))]
    if not trials:
        _nothing_accepted(attention, results, factor)
        return
    trial = trials[0]
    verdict = judge(trial.scores, trial.weights, trial.allowed, per_key=trial.form.per_key)
    if verdict.name in ("mask-added", "mask-multiplied") and _additive(attention, factor, results):
        return
    if verdict.name == "mask-inverted" and "padding" in (attention.takes.mask or ""):
        results.note(
            "mask-convention", f"{attention.takes.mask} is read as in torch: True means padding."
        )
        verdict = Verdict(None)
    if verdict.name is not None:
        results.found(*verdict)
        return
    results.held(
        "blocked-keys",
        f"a blocked key gets no weight (mask {trial.form.letters}, True = may attend)",
    )
    examine_returned(attention, results, trial)
    _further_masks(attention, results)
    _order_forgotten(attention, results, trial)
    _leaks_at_low_scores(attention, results, trial)
    _row_without_keys(attention, results)
    if 4 in attention.ndims and len(trial.allowed.shape) != 4 and len(trials) < len(ndims):
        _examine_heads(attention, results, factor)


def _examine_heads(attention: Attention, results: Results, factor: float) -> None:
    """No mask was taken with heads: a bug if it is meant for heads."""
    apart = Results()
    if _right_only_if_equal(attention, apart, factor):
        finding = apart.findings[0]
        if says_heads(attention.function):
            results.found(finding.name, finding.sentence, finding.evidence)
        else:
            results.note("heads", str(finding))


def _additive(attention: Attention, factor: float, results: Results) -> bool:
    """Return whether this is a right function for additive masks, meant as one."""
    if not says_additive(attention.function, attention.takes.mask):
        return False
    ndim = attention.main
    sizes = attention.sizes(GENERAL)
    query, key, _ = attention.inputs(ndim, sizes)
    full = pattern(sizes.lead(ndim), sizes.L, sizes.S, per_key=False)
    try:
        weights = weights_of(attention, query, key, mask=to_additive_mask(full, attention.dtype))
    except Unusable:
        return False
    if judge(factor * products(query, key), weights, full).name is not None:
        return False
    results.held("blocked-keys", "an additive mask of 0 and minus infinity blocks keys")
    results.note(
        "mask-convention",
        "The mask is added to the scores: a boolean mask must be converted before.",
    )
    return True


def _nothing_accepted(attention: Attention, results: Results, factor: float) -> None:
    """No boolean mask is taken: perhaps an additive one, or only if N and H are equal."""
    for ndim in attention.ndims:
        query, key, _ = attention.inputs(ndim)
        full = pattern(query.shape[:-2], query.shape[-2], key.shape[-2], per_key=False)
        try:
            mask = to_additive_mask(full, attention.dtype)
            weights = weights_of(attention, query, key, mask=mask)
        except Unusable:
            continue
        if judge(factor * products(query, key), weights, full).name is None:
            results.held("blocked-keys", "an additive mask of 0 and minus infinity blocks keys")
            results.note("mask-convention", "It takes no boolean masks, only additive ones.")
            return
    if 4 in attention.ndims and _right_only_if_equal(attention, results, factor):
        return
    query, key, value = attention.inputs(attention.main)
    allowed = pattern((), query.shape[-2], key.shape[-2], per_key=False)
    outcome = attention.outcome(query, key, value, mask=given(attention, allowed))
    text = outcome.trouble or "a result of the wrong shape or type"
    results.found("raises", f"A boolean mask (L, S) = {tuple(allowed.shape)} gives {text}.")


def _right_only_if_equal(attention: Attention, results: Results, factor: float) -> bool:
    """Look for a mask of the batch that lands on the heads once there are as many of both."""
    sizes = attention.sizes(EQUAL_HEADS)
    query, key, _ = attention.inputs(4, sizes)
    full = pattern(sizes.lead(4), sizes.L, sizes.S, per_key=True)
    for letters, mask in (("(N, L, S)", full[:, 0]), ("(N, 1, S)", full[:, 0, :1]),
                          ("(N, S)", full[:, 0, 0])):  # fmt: skip
        try:
            weights = weights_of(attention, query, key, mask=given(attention, mask))
        except Unusable:
            continue
        verdict = judge(factor * products(query, key), weights, full)
        if verdict.name is not None:
            sentence = (
                f"A mask {letters} of the batch is spread over the heads: it raises unless there "
                "are as many heads as sequences, and is wrong then."
            )
            results.found("mask-broadcast", sentence, table(weights, full))
            return True
    return False


def examine_returned(attention: Attention, results: Results, trial: Trial | None = None) -> None:
    """Compare the weights that it returns with those that made the output."""
    sizes = trial.sizes if trial else GENERAL
    query, key, value = attention.inputs(attention.main, sizes)
    mask = None
    if trial is not None and trial.allowed.ndim == attention.main:
        mask = given(attention, trial.form.cut(trial.allowed))
    result = attention(query, key, value, mask=mask)
    returned = result.weights
    if returned is None:
        if result.turned:
            shape = (*query.shape[:-1], key.shape[-2])
            sentence = f"The weights come back transposed: their shape should be {shape}."
            results.found("weights-differ", sentence)
        return
    used = weights_of(attention, query, key, mask=mask)
    if close(returned.double(), used):
        results.held("weights", "the returned weights are those that made the output")
        return
    worst = float((returned - used).abs().max())
    sentence = (
        f"The returned weights{' under a mask' if mask is not None else ''} are not those that "
        f"made the output: they differ by up to {worst:.2f}."
    )
    evidence = weights_table("Returned as weights:", returned, sums=True)
    results.found("weights-differ", sentence, evidence)


# --- what only some numbers show ------------------------------------------------------------------


def _further_masks(attention: Attention, results: Results) -> None:
    """Give every further mask both ways round: one of them must change something."""
    query, key, value = attention.inputs(attention.main)
    plain = attention(query, key, value).output
    for name in attention.takes.further:
        blocked = (torch.arange(key.shape[-2]) % 2 == 0).expand(len(query), -1)
        outcomes = [
            attention.caller(query.clone(), key.clone(), value.clone(), **{name: mask.clone()})
            for mask in (blocked, ~blocked)
        ]
        if all(isinstance(one.value, Tensor) and close(one.value, plain) for one in outcomes):
            results.found("mask-ignored", f"The argument {name} changes nothing.")


def _order_forgotten(attention: Attention, results: Results, trial: Trial) -> None:
    """Switch causality on and give a mask as well: both must hold, or it may refuse."""
    if not attention.takes.causal or trial.allowed.ndim != attention.main:
        return
    query, key, _ = attention.inputs(attention.main, trial.sizes)
    mask = given(attention, trial.form.cut(trial.allowed))
    try:
        weights = weights_of(attention, query, key, mask=mask, causal=True)
    except Unusable:
        return
    later = weights.nan_to_num(nan=0.0).triu(weights.shape[-1] - weights.shape[-2] + 1)
    if later.abs().max() > SURE:
        name = attention.takes.causal
        sentence = f"Once a mask is given, {name}=True is forgotten: later keys are seen again."
        results.found("causal-leak", sentence, weights_table("Weights with both:", weights))


def _leaks_at_low_scores(attention: Attention, results: Results, trial: Trial) -> None:
    """Repeat the call with all scores equal and very low: a finite fill lies above them."""
    ndim = len(trial.allowed.shape)
    query, key, _ = attention.inputs(ndim, trial.sizes)
    length = (1 / abs(trial.scores / products(query, key)).median()).sqrt()
    for level in LEVELS:
        size = length * abs(level) ** 0.5 / query.shape[-1] ** 0.5
        low, same = torch.full_like(query, -float(size)), torch.full_like(key, float(size))
        mask = given(attention, trial.form.cut(trial.allowed))
        try:
            weights = weights_of(attention, low, same, mask=mask)
        except Unusable:
            return
        leaked = weights.masked_fill(trial.allowed, 0).sum(dim=-1).max()
        if leaked > SURE:
            sentence = (
                f"Blocked keys are filled with a finite number: once the allowed scores lie near "
                f"{level:.0f}, blocked keys take {leaked:.2f} of a query's weight."
            )
            results.found("mask-finite", sentence, table(weights, trial.allowed))
            return


def _row_without_keys(attention: Attention, results: Results) -> None:
    """Report what a row gives in which every key is blocked, forward and backward."""
    query, key, value = attention.inputs(attention.main)
    allowed = torch.ones(query.shape[-2], key.shape[-2], dtype=torch.bool)
    allowed[1] = False
    inputs = [part.clone().requires_grad_() for part in (query, key, value)]
    try:
        output = attention(*inputs, mask=given(attention, allowed), graph=True).output
    except Unusable:
        return
    row = output.detach()[..., 1, :]
    what = _name_of_row(row, value)
    backward = ""
    if output.requires_grad and what != "NaN":
        grads = torch.autograd.grad(output.sum(), inputs, allow_unused=True)
        broken = any(grad is not None and not grad.isfinite().all() for grad in grads)
        backward = ", and the gradients hold NaN" if broken else ""
    sentence = f"A row with no allowed key gives {what}{backward}."
    if attention.options.strict and (what != "0" or backward):
        rows = {"output of the row": row.reshape(-1, row.shape[-1])[0, :5].tolist()}
        columns = tuple(f"feature {i}" for i in range(len(rows["output of the row"])))
        results.found("blocked-row", sentence, number_table("All keys are blocked:", rows, columns))
    elif what == "0" and not backward:
        results.held("empty-row", "a row with no allowed key gives 0")
    else:
        results.note("empty-row", sentence)


def _name_of_row(row: Tensor, value: Tensor) -> str:
    if row.isnan().any():
        return "NaN"
    if float(row.abs().max()) < 1e-6:
        return "0"
    if torch.allclose(row, value.mean(dim=-2), atol=1e-4):
        return "the mean of all values, blocked ones included"
    return "an average of values that it may not see"
