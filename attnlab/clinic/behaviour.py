"""How a target behaves, apart from what it computes: steady, apart, differentiable, portable."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from attnlab.clinic._results import Results
from attnlab.clinic.hypotheses import SURE
from attnlab.clinic.subject import SIDES, Reply, Subject
from attnlab.sandbox import call


def close(one: Tensor | None, other: Tensor | None, tolerance: float = SURE) -> bool:
    """Return whether two outputs agree; NaN equals NaN."""
    if one is None or other is None or one.shape != other.shape:
        return False
    one, other = (part.detach().double().nan_to_num(7.0, 7e3, -7e3) for part in (one, other))
    return bool((one - other).abs().max() <= tolerance * max(1e-9, float(other.abs().max())))


def _output(reply: Reply | None) -> Tensor | None:
    return None if reply is None else reply.output


# --- before anything else -------------------------------------------------------------------------


def steady(subject: Subject, results: Results) -> bool:
    """Say so if two calls differ or give NaN, or an input is changed; return whether to go on."""
    parts = subject.inputs()
    # another call in between, so that what remembers earlier inputs shows
    one, _, again = (subject(each) for each in (parts, subject.inputs(seed=4), parts))
    if subject.caller.changed:
        _tell_changed(subject, results)
    if subject.caller.out_of_time:
        results.unexamined(
            "It takes too long.", remedy=f"Pass time_limit={4 * subject.options.time_limit:g}."
        )
        return False
    if one is None or again is None or not close(one.output, again.output, 1e-6):
        first, other = (subject.again()(parts) for _ in range(2))
        if first is not None and other is not None and close(first.output, other.output, 1e-6):
            results.found(
                "remembers",
                "The same call gives something else the second time, and a "
                "fresh copy does not: it keeps something between calls.",
            )
            return False
        where = "in eval mode " if subject.module is not None else ""
        gap = ""
        if one is not None and again is not None:
            gap = f", by up to {(one.output - again.output).abs().max():.2g}"
        results.found(
            "random",
            f"Two calls with the same input give different outputs {where}all the same{gap}.",
        )
        return False
    if not one.output.isfinite().any():
        tell_nan(subject, results)
        return False
    return True


def tell_nan(subject: Subject, results: Results) -> None:
    """Report an output that is not finite at ordinary inputs."""
    results.found(
        "nan",
        f"The output is NaN or infinite at ordinary scores: with {subject.shapes}.",
        advice="look for a row whose keys are all blocked, a softmax over an axis of which "
        "a whole line is blocked, or minus infinity that is subtracted.",
    )


def _tell_changed(subject: Subject, results: Results) -> None:
    placed = dict(enumerate(one.name for one in subject.known))
    told = [placed.get(int(n), n) if n.isdigit() else n for n in sorted(subject.caller.changed)]
    sentence = f"It changes what it is given, in place: {' and '.join(told)}."
    results.found("modifies-input", sentence)


# --- sequences and heads stay apart ---------------------------------------------------------------


def mixed(subject: Subject, results: Results) -> bool:
    """Say so if one sequence or head changes the result of another."""
    names = (("batch-mixing", "sequence of the batch"), ("head-mixing", "head"))
    ndim = min(subject.ndim, 3) if subject.followed else subject.ndim
    for dim, (name, what) in enumerate(names[: ndim - 2]):
        moved = _moved_by(subject, dim)
        if moved < SURE:
            continue
        if subject.followed and not subject.swap and _moved_by(subject, 0, swap=(0, 1)) < SURE:
            words = "It keeps sequences apart if the batch stands second, (L, N, E)"
            if subject.options.batch_first or hasattr(subject.module, "batch_first"):
                results.found("batch-first", f"{words}, though batch_first is said to be True.")
            else:
                results.ask(
                    "batch-first",
                    f"{words}, and mixes them if it stands first, (N, L, E)."
                    " Nothing says which is meant.",
                    "Pass batch_first=False if the batch stands second; with "
                    "batch_first=True it is a finding.",
                )
        else:
            results.found(
                name,
                f"Another {what} changes this one's result, by {moved:.2f} of its size: every "
                f"{what} must be treated alone.",
            )
        return True
    return False


def _moved_by(subject: Subject, dim: int, swap: tuple = ()) -> float:
    """Return how much the first or last slice of the output moves when all the others are new.

    It is 0 where that cannot be told, and infinite where a ``swap`` of axes does not work.
    """
    if swap:
        subject = subject.again(swap=swap)
    parts, moved, unknown = subject.inputs(), 0.0, math.inf if swap else 0.0
    one = _output(subject(parts))
    if one is None or one.shape[dim] != parts["query"].shape[dim] or one.shape[dim] < 2:
        return unknown
    for own in (0, -1):
        fresh = subject.inputs(seed=5)
        for side, part in parts.items():
            fresh[side].select(dim, own).copy_(part.select(dim, own))
        other = _output(subject(fresh))
        if other is None:
            return unknown
        before, after = one.select(dim, own), other.select(dim, own)
        if not (before.isfinite().all() and after.isfinite().all()):
            return unknown
        moved = max(moved, float((after - before).abs().max() / before.abs().max().clamp_min(1e-6)))
    return moved


# --- the rest -------------------------------------------------------------------------------------


def examine_behaviour(subject: Subject, results: Results) -> None:
    """Go through what may be wrong beside the numbers; where NaN comes out, nothing is said."""
    output = _output(subject(subject.inputs()))
    if output is None:
        return
    if subject.large:
        results.note(
            "large",
            "It is large: how heads are cut, which input is used for what, gradients and memory "
            "were not tried.",
        )
    elif output.isfinite().all():
        for probe in (_remembers, _gradients):
            if not subject.caller.out_of_time and not results.has("modifies-input"):
                probe(subject, output, results)
    if subject.caller.changed and not results.has("modifies-input"):
        _tell_changed(subject, results)
    if subject.caller.slow:
        results.note("slow", "A call with a few small tensors computes for long.")
        results.unexamined(
            "It computes for so long that some probes were left out.",
            remedy=f"Pass time_limit={4 * subject.options.time_limit:g}.",
        )
    elif not subject.caller.changed:
        results.held("arguments", "the arguments are not changed")


def _remembers(subject: Subject, output: Tensor, results: Results) -> None:
    """Call it with other sizes and numbers in between; then the first call again."""
    parts, fresh = subject.inputs(), subject.again()
    first = _output(fresh(parts))
    others = [subject.inputs(seed=9)]
    if subject.followed and subject.alone and subject.ndim > 2:
        others.append({side: part[:, :-1] for side, part in others[0].items()})
    for other in (*others, parts):
        used, clean = _output(fresh(other)), _output(subject.again()(other))
        if clean is not None and first is not None and not close(used, clean, 1e-6):
            how = "raises an error" if used is None else "gives something else"
            results.found(
                "remembers",
                f"A call {how} after calls with other inputs: it keeps something between calls.",
            )
            return
    if subject.ndim < 3 or subject.swap or results.findings or results.gap:
        return
    single = _output(fresh({side: part[:1] for side, part in parts.items()}))
    shape = tuple(getattr(fresh.outcome.value, "shape", ()))
    if single is None and shape == tuple(output.shape[1:]):
        results.found(
            "wrong-shape",
            f"For one sequence alone the output is {shape}: it loses the dimension of the batch.",
            advice="squeeze only a dimension that you name.",
        )
    elif single is not None and not close(single, output[:1], SURE):
        results.found("batch-mixing", "A sequence gives another result alone than in a batch.")


# --- gradients ------------------------------------------------------------------------------------


def _gradients(subject: Subject, output: Tensor, results: Results) -> None:
    """Tell whether a gradient reaches every input and parameter that moves the output."""
    if subject.rough or torch.float32 in (subject.dtype, output.dtype):
        return
    subject = subject.again()
    parts, names = subject.inputs(), {side: name for name, side in subject.sides.items()}
    told = SIDES if subject.options.call is not None and not subject.alone else names or ("query",)
    leaves = {side: parts[side].requires_grad_() for side in told}
    named = dict(subject.module.named_parameters()) if subject.module is not None else {}
    everything = leaves | {name: part for name, part in named.items() if part.requires_grad}
    reply = subject(_filled(parts, leaves, subject), graph=True)
    if reply is None:
        message = subject.outcome.message
        if "numpy" in message and subject.options.call is not None:
            results.note("numpy", "It computes with numpy, which knows no gradients.")
        elif any(word in message for word in ("grad", "numpy", "derivative")):
            raised = f"With inputs that require a gradient it raises {subject.outcome.trouble}."
            results.found("detached", raised)
        return
    grads, drawn = dict.fromkeys(everything), _drawn(output.shape, 3)
    if reply.output.requires_grad:
        total, wanted = (reply.output * drawn).sum(), list(everything.values())
        made = call(torch.autograd.grad, total, wanted, allow_unused=True)
        if made.error is not None:
            results.found("detached", f"The way back raises {made.trouble}.")
            return
        grads = dict(zip(everything, made.value, strict=True))
    idle = [name for name, grad in grads.items() if grad is None or not grad.any()]
    wrong = [name for name in idle[:6] if _moves(subject, everything[name], leaves, output)]
    for name in idle:
        if name in named and name not in wrong and grads[name] is None:
            results.note("unused-parameter", f"The parameter {name} is never used.")
    if wrong:
        results.found(
            "detached",
            f"No gradient reaches {' and '.join(names.get(one, one) for one in wrong[:3])}: the "
            "output is cut off from what it was made of, and nothing can be learned through it.",
        )
    else:
        whom = " and ".join(names.get(side, side) for side in leaves)
        more = " and every parameter" if named and not set(idle) & set(named) else ""
        results.held("gradients", f"gradients reach {whom}{more}")


def _drawn(shape: tuple[int, ...], seed: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def _filled(parts: dict, leaves: dict, subject: Subject) -> dict:
    """Return inputs in which the leaves stand, wherever the same tokens are meant."""
    if subject.alone:
        return dict.fromkeys(parts, leaves["query"])
    same = {"value": leaves["key"]} if "value" not in leaves and "key" in leaves else {}
    return parts | leaves | same


@torch.no_grad()
def _moves(subject: Subject, part: Tensor, leaves: dict, output: Tensor) -> bool:
    """Return whether the output moves with an input or a parameter, though no gradient says so."""
    kept = part.detach().clone()
    part.add_(_drawn(part.shape, 5).to(part))
    plain = {side: leaf.detach() for side, leaf in leaves.items()}
    moved = _output(subject(_filled(subject.inputs() | plain, plain, subject)))
    part.copy_(kept)
    return moved is not None and not close(moved, output, 1e-6)
