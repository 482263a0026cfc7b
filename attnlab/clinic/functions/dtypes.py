"""Probes of an attention function with numbers of other kinds: float64, float16, whole, large."""

from __future__ import annotations

import torch

from attnlab.clinic._calling import OutOfTime, Unusable
from attnlab.clinic._results import Results
from attnlab.clinic.functions.calls import Attention
from attnlab.clinic.functions.measure import close, products, weights_of

ROUNDING = 5e-5  # the error of weights in float32 lies far below, that of float16 far above
LARGE = 200.0  # scores of this size overflow exp in float32 unless a maximum is taken off


def examine_precision(attention: Attention, results: Results) -> bool:
    """Round the input to bfloat16 and float16; return whether the output notices."""
    inputs = attention.inputs(attention.main)
    output = attention(*inputs).output
    apart = attention(*(part.flip(-1) - 1 for part in inputs)).output
    if close(apart, output):
        results.found("wrong-source", "The output does not depend on query, key and value at all.")
        return False
    for low in (torch.bfloat16, torch.float16):
        rounded = [part.to(low).to(part.dtype) for part in inputs]
        if torch.equal(attention(*rounded).output, output):
            sentence = f"It computes in {_name(low)}: rounding the input to it changes nothing."
            results.found("dtype", f"{sentence} The output has {2 if low == torch.bfloat16 else 3} "
                        "digits left.")  # fmt: skip
            return False
    return True


def examine_digits(attention: Attention, results: Results, factor: float) -> None:
    """Compare the weights with a softmax in float64: float32 agrees to six digits."""
    query, key, _ = attention.inputs(attention.main)
    weights = weights_of(attention, query, key)
    scores = factor * products(query, key)
    exact = scores.masked_fill(weights <= 0, -torch.inf).softmax(dim=-1)
    apart = float((weights - exact).abs().max())
    if apart > ROUNDING:
        results.found(
            "dtype",
            f"The weights are off by {apart:.0e}: some step is computed in lower precision than "
            "its input.",
        )


def examine_dtype(attention: Attention, results: Results) -> None:
    """Call in float64, in float16 and with whole numbers."""
    _float64(attention, results)
    _float16(attention, results)
    _integers(attention, results)
    _large_scores(attention, results)


def _float64(attention: Attention, results: Results) -> None:
    inputs = attention.inputs(attention.main)
    wide = [part.double() for part in inputs]
    try:
        output = attention(*wide).output
    except Unusable as trouble:
        text = trouble.outcome.trouble
        if not isinstance(trouble.outcome.error, OutOfTime):
            results.found("dtype", f"With float64 tensors it raises {text}.")
        return
    if output.dtype != torch.float64:
        results.found("dtype", f"float64 goes in and {_name(output.dtype)} comes out.")
        return
    nudged = [part + 1e-10 * part.abs() for part in wide]
    same = torch.equal(attention(*nudged).output, output)
    if same:
        results.note(
            "dtype", "float64 input is computed in lower precision and widened at the end."
        )
    else:
        results.held("dtype", "float64 is computed in float64")


def _float16(attention: Attention, results: Results) -> None:
    inputs = attention.inputs(attention.main, spread=1.0)
    expected = attention(*inputs).output
    try:
        output = attention(*(part.half() for part in inputs)).output
    except Unusable as trouble:
        if "overflow" in trouble.outcome.trouble:
            results.note(
                "dtype", f"float16 raises {trouble.outcome.trouble}: fill with -inf instead."
            )
        return
    if not output.isfinite().all():
        results.found("dtype", "With ordinary float16 numbers the output holds NaN or infinity.")
    elif not close(output.to(expected), expected, 0.05):
        worst = float((output.to(expected) - expected).abs().max())
        results.found("dtype", f"In float16 the output is off by {worst:.2f}.")


def _integers(attention: Attention, results: Results) -> None:
    inputs = [(10 * part).round() for part in attention.inputs(attention.main)]
    try:
        output = attention(*(part.long() for part in inputs)).output
    except Unusable:
        return
    expected = attention(*inputs).output
    if expected.isfinite().all() and not close(output.to(expected), expected, 1e-2):
        worst = float((output.to(expected) - expected).abs().max())
        sentence = f"Whole numbers are cut off on the way: the output is off by {worst:.2f}."
        if attention.options.strict:
            results.found("dtype", sentence)
        else:
            results.note("dtype", f"With integer tensors: {sentence}")


def _large_scores(attention: Attention, results: Results) -> None:
    query, key, value = attention.inputs(attention.main)
    for sign, words in ((1, "above"), (-1, "below")):
        size = (LARGE * query.shape[-1] ** 0.5) ** 0.5
        big = torch.full_like(query, size / query.shape[-1] ** 0.5)
        big[..., 0, :] *= sign  # one row far below the others, whose maximum is not its own
        same = torch.full_like(key, size / query.shape[-1] ** 0.5)
        same[..., 0, :] *= 1.1
        try:
            output = attention(big, same, value).output
        except Unusable:
            return
        if output.isfinite().all():
            continue
        sentence = (
            f"Scores far {words} 0 give NaN: exp overflows or a whole row becomes 0. Take each "
            "row's own maximum off first."
        )
        if attention.options.strict:
            results.found("nan", sentence)
        else:
            results.note("large-scores", sentence)


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
