"""Probes of how an attention function behaves as a function, whatever it computes."""

from __future__ import annotations

import statistics

import torch
from torch import Tensor

from attnlab.clinic._calling import Unusable, call
from attnlab.clinic._damage import damage
from attnlab.clinic._results import Results
from attnlab.clinic.functions.calls import GENERAL, Attention, Sizes
from attnlab.clinic.functions.measure import close, number_table

FRESH = Sizes(N=3, H=2, L=6, S=9, E=12, Ev=10)  # a call as no probe makes it elsewhere


def examine_steadiness(attention: Attention, results: Results) -> bool:
    """Call twice with the same input; return whether it gives the same twice."""
    inputs = attention.inputs(attention.main)
    one = attention(*inputs).output
    two = attention(*inputs).output
    if close(one, two) or not (one.isfinite().all() and two.isfinite().all()):
        return True
    moved = float((one - two).abs().max())
    sentence = (
        f"Two calls with the same input differ by up to {moved:.2f}: something random is at work, "
        "such as dropout that is left on."
    )
    rows = {"first call": one, "second call": two}
    evidence = number_table(
        "Output of the first query:",
        {name: part.reshape(-1, part.shape[-1])[0, :5].tolist() for name, part in rows.items()},
        tuple(f"feature {i}" for i in range(5)),
    )
    results.found("random", sentence, evidence)
    return False


def examine_arguments(attention: Attention, results: Results) -> None:
    """Report whether the arguments of all the calls so far are as they were."""
    changed = attention.caller.changed
    if changed:
        names = " and ".join(attention.name_of(place) for place in sorted(changed))
        sentence = f"It modifies its arguments in place: {names} changed."
        results.found("modifies-input", sentence, damage(attention.caller))
    elif attention.ndims:
        results.held("arguments", "the arguments are left unchanged")


def examine_watch(attention: Attention, results: Results) -> None:
    """Report what was noticed during all the calls before."""
    caller = attention.caller
    examine_arguments(attention, results)
    if caller.printed.strip():
        line = caller.printed.strip().splitlines()[0][:60]
        results.found("prints", f"Every call prints something: {line!r}.")
    if caller.hangs:
        limit = caller.time_limit
        results.found("hangs", f"A call did not come back within {limit:g} seconds.")
    elif caller.slow:
        typical = statistics.median(caller.seconds)
        results.found(
            "slow",
            f"A call with {GENERAL.S} keys takes about {typical:.1f} seconds, so that the other "
            "probes were left out.",
        )


def examine_memory(attention: Attention, results: Results) -> None:
    """Repeat an early call after others of other sizes: it must still give the same."""
    inputs = attention.inputs(attention.main)
    before = attention.ndims[attention.main].output
    query, key, value = attention.inputs(attention.main, FRESH)
    try:
        one = attention(query, key, value).output
        two = attention(query, key.flip(-2), value).output
        after = attention(*inputs).output
    except Unusable:
        return
    if not close(after, before) and before.isfinite().all():
        sentence = "The same call gives something else after calls of other sizes: it remembers."
        results.found("remembers", sentence)
    elif close(one, two) and not results.findings:
        sentence = (
            "A second call with other keys of the same shape gives the result of the first: the "
            "keys of an earlier call are remembered."
        )
        results.found("remembers", sentence)


def examine_gradient(attention: Attention, results: Results) -> None:
    """Ask autograd for the gradients, and compare them with finite differences."""
    if attention.caller.changed:  # autograd refuses to change a leaf in place
        return
    inputs = [part.requires_grad_() for part in attention.inputs(attention.main, spread=0.5)]
    try:
        output = attention(*inputs, graph=True).output
    except Unusable as trouble:
        text = trouble.outcome.trouble
        if "grad" in text or "numpy" in text:
            results.found("detached", f"Inputs that require a gradient give {text}.")
        return
    grads = _gradients(output, inputs, results)
    if grads is None:
        return
    worst = _gradient_error(attention, grads, inputs)
    if worst > 0.05:
        sentence = (
            f"The gradient is not the slope of the output: they differ by {worst:.2f} of their "
            "size, so some part of the computation is cut off."
        )
        results.found("detached", sentence)
    else:
        results.held(
            "gradients", "gradients reach query, key and value, and match finite differences"
        )


def _gradients(output: Tensor, inputs: list[Tensor], results: Results) -> list[Tensor] | None:
    """Return the gradients of query, key and value; say so if they do not all exist."""
    names = ("query", "key", "value")
    missing, sizes = names, [0.0, 0.0, 0.0]
    if output.requires_grad:
        outcome = call(torch.autograd.grad, output.square().sum(), inputs, allow_unused=True)
        if outcome.error is not None:
            results.found("detached", f"The backward pass raises {outcome.trouble}.")
            return None
        sizes = [0.0 if grad is None else float(grad.abs().max()) for grad in outcome.value]
        missing = [name for name, size in zip(names, sizes, strict=True) if not size > 0]
        if not missing:
            return list(outcome.value)
    sentence = (
        f"No gradient reaches {' and '.join(missing)}: the output is cut off from what it was "
        "made of, and nothing can be learned through it."
    )
    rows = {name: [size] for name, size in zip(names, sizes, strict=True)}
    evidence = number_table("Largest entry of each gradient:", rows, ("gradient",))
    results.found("detached", sentence, evidence)
    return None


def _gradient_error(attention: Attention, grads: list[Tensor], inputs: list[Tensor]) -> float:
    """Return the relative error of directional derivatives against central differences."""
    generator = torch.Generator().manual_seed(11)
    worst, step = 0.0, 1e-2
    for place in range(3):
        along = torch.randn(inputs[place].shape, generator=generator, dtype=torch.float64)
        along = along.to(inputs[place])
        ends = []
        for sign in (1, -1):
            moved = [part.detach() for part in inputs]
            moved[place] = moved[place] + sign * step * along
            ends.append(attention(*moved).output.double().square().sum())
        slope = (ends[0] - ends[1]) / (2 * step)
        told = (grads[place] * along).sum().double()
        size = max(float(slope.abs()), 0.1 * float(grads[place].norm() * along.norm()))
        worst = max(worst, float((told - slope).abs()) / max(size, 1e-6))
    return worst


def examine_layout(attention: Attention, results: Results) -> None:
    """Give the same numbers in another order of memory."""
    inputs = attention.inputs(attention.main)
    turned = [part.transpose(-2, -1).contiguous().transpose(-2, -1) for part in inputs]
    if attention.main == 4:  # as they come from split_heads
        turned = [part.transpose(1, 2).contiguous().transpose(1, 2) for part in inputs]
    with torch.no_grad():
        outcome = attention.outcome(*turned)
    if attention.caller.out_of_time:
        return
    if outcome.error is not None:
        results.found(
            "contiguity",
            f"A tensor that is a transposed view, with the same shape and numbers, gives "
            f"{outcome.trouble}.",
        )
        return
    try:
        after = attention._read(outcome, *turned).output
    except Unusable:
        return
    if close(after, attention(*inputs).output):
        results.held("contiguity", "transposed views give the same results as contiguous tensors")
    else:
        sentence = "A transposed view with the same shape and numbers gives another result."
        results.found("contiguity", sentence)


def examine_device(attention: Attention, results: Results) -> None:
    """Call with tensors of another device: torch's meta device, which holds no numbers."""
    inputs = [part.to("meta") for part in attention.inputs(attention.main)]
    with torch.no_grad():
        outcome = attention.outcome(*inputs)
        if outcome.error is None and attention.takes.causal:
            outcome = attention.outcome(*inputs, causal=True)
    text = outcome.message
    if isinstance(outcome.error, RuntimeError) and all(word in text for word in ("device", "cpu")):
        results.found(
            "device",
            "It makes a tensor on the CPU whatever device its input is on: with tensors on the "
            f"meta device it raises {outcome.trouble}.",
        )
    elif outcome.error is None:
        results.held("device", "new tensors are created on the device of the inputs")
