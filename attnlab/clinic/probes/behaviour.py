"""How a target behaves, apart from what it computes: steady, apart, differentiable, portable."""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator
from dataclasses import replace

import torch
from torch import Tensor

from attnlab.clinic.call import Call
from attnlab.clinic.names import role_of
from attnlab.clinic.plan import SIZES
from attnlab.clinic.probes.idle import idle_parameters
from attnlab.clinic.results import Fact, ask, held, note, tried, unexamined, wrong
from attnlab.clinic.sample import SURE, close
from attnlab.clinic.signature import PARTS
from attnlab.sandbox import call as call_safely

SETTINGS = ("dropout", "scale", "causal", "heads", "width")

# --- before anything else -------------------------------------------------------------------------


def steady(call: Call) -> Generator[Fact, None, bool]:
    """Yield if two calls differ or give NaN, or an input is changed; return whether to go on."""
    parts = call.inputs()
    # another call in between, so that what remembers earlier inputs shows
    first, _, again = (call(drawn).output for drawn in (parts, call.inputs(seed=4), parts))
    if call.caller.changed:
        yield _changed_in_place(call)
    if call.caller.out_of_time:
        limit = 4 * call.signature.options.time_limit
        yield unexamined("It takes too long.", remedy=f"Pass time_limit={limit:g}.")
        return False
    if first is None or again is None or not close(first, again, 1e-6):
        fresh = [call.fresh()(parts).output for _ in range(2)]
        if close(*fresh, 1e-6):
            yield wrong(
                "remembers",
                "The same call gives something else the second time, and a "
                "fresh copy does not: it keeps something between calls.",
            )
            return False
        where = "in eval mode " if call.module is not None else ""
        gap = ""
        if first is not None and again is not None:
            gap = f", by up to {(first - again).abs().max():.2g}"
        yield wrong(
            "random",
            f"Two calls with the same input give different outputs {where}all the same{gap}.",
        )
        return False
    if not first.isfinite().any():
        yield not_finite(call)
        return False
    return True


def not_finite(call: Call) -> Fact:
    """Return that an output is not finite at ordinary inputs."""
    return wrong(
        "nan",
        f"The output is NaN or infinite at ordinary scores: with {call.shapes}.",
        advice="look for a row whose keys are all blocked, a softmax over an axis of which "
        "a whole line is blocked, or minus infinity that is subtracted.",
    )


def _changed_in_place(call: Call) -> Fact:
    """Return which arguments are changed."""
    placed = dict(enumerate(arg.name for arg in call.signature.arguments))
    changed = sorted(call.caller.changed)
    names = [placed.get(int(n), n) if n.isdigit() else n for n in changed]
    sentence = f"It changes what it is given, in place: {' and '.join(names)}."
    return wrong("modifies-input", sentence)


# --- sequences and heads stay apart ---------------------------------------------------------------


def mixed(call: Call) -> list[Fact]:
    """Return a fact if one sequence or head changes the result of another."""
    names = (("batch-mixing", "sequence of the batch"), ("head-mixing", "head"))
    followed, options = call.signature.followed, call.signature.options
    ndim = min(call.plan.ndim, 3) if followed else call.plan.ndim
    for dim, (name, what) in enumerate(names[: ndim - 2]):
        counts = (None, 3, 5) if dim == 0 and not call.signature.large else (None,)
        moved = max(_moved_by_others(call, dim, N=N) for N in counts)
        if moved < SURE:
            continue
        if followed and not call.plan.swap:
            if _moved_by_others(call.fresh(swap=(0, 1)), 0, unknown=math.inf) < SURE:
                words = "It keeps sequences apart if the batch stands second, (L, N, E)"
                if options.batch_first or hasattr(call.module, "batch_first"):
                    said = f"{words}, though batch_first is said to be True."
                    return [wrong("batch-first", said)]
                return [
                    ask(
                        "batch-first",
                        f"{words}, and mixes them if it stands first, (N, L, E)."
                        " Nothing says which is meant.",
                        "Pass batch_first=False if the batch stands second; with "
                        "batch_first=True it is a finding.",
                    )
                ]
        return [
            wrong(
                name,
                f"Another {what} changes this one's result, by {moved:.2f} of its size: every "
                f"{what} must be treated alone.",
            )
        ]
    return []


def _moved_by_others(call: Call, dim: int, unknown: float = 0.0, *, N: int | None = None) -> float:
    """Return how much a slice of the output moves when all the others are new."""
    sizes = replace(SIZES[0], N=N or SIZES[0].N)
    parts, moved = call.inputs(sizes, N=N), 0.0
    output = call(parts).output
    if output is None or output.shape[dim] != parts["query"].shape[dim] or output.shape[dim] < 2:
        return unknown
    for own in range(output.shape[dim]):
        fresh = call.inputs(sizes, seed=5, N=N)
        for side, part in parts.items():
            fresh[side].select(dim, own).copy_(part.select(dim, own))
        beside_new = call(fresh).output
        if beside_new is None:
            return unknown
        before, after = output.select(dim, own), beside_new.select(dim, own)
        if not (before.isfinite().all() and after.isfinite().all()):
            return unknown
        moved = max(moved, float((after - before).abs().max() / before.abs().max().clamp_min(1e-6)))
    return moved


# --- the rest -------------------------------------------------------------------------------------


def arguments_stay(call: Call) -> Fact | None:
    """Return whether the arguments are as they were; nothing where calls are slow."""
    if call.caller.changed:
        return _changed_in_place(call)
    return None if call.caller.slow else held("arguments", "the arguments are not changed")


def settings_stay(call: Call) -> Iterator[Fact]:
    """Compare the settings of a layer before its first call with those behind its last."""
    if call.module is None or call.module is call.origin:
        return
    for before, after in zip(call.origin.modules(), call.module.modules(), strict=False):
        for name, value in vars(before).items():
            new = vars(after).get(name, value)
            if type(value) not in (bool, int, float, str) or new == value:
                continue
            sentence = f"A call changes the layer itself: {name} was {value} and is {new}."
            if role_of(name) in SETTINGS or name == "training":
                advice = "read settings in forward, and assign them in __init__ only."
                yield wrong("remembers", sentence, advice=advice)
            elif isinstance(value, int) and not isinstance(value, bool):
                yield note("counts", sentence)
            else:
                yield ask("remembers", sentence)


def in_own_half(call: Call) -> Iterator[Fact]:
    """Call a layer of half precision as it is: it may raise only there."""
    half = call.signature.options.half
    if half is not None:
        fresh = call.fresh(dtype=half)
        outcome = fresh(fresh.inputs()).outcome
        name = str(half).removeprefix("torch.")
        yield tried(name)
        if outcome.error is not None and "not implemented for" not in outcome.message:
            yield wrong("raises", f"In {name}, its own dtype, a call raises {outcome.trouble}.")


def too_slow(call: Call) -> Iterator[Fact]:
    """Yield that calls take long, where they do."""
    if call.caller.slow:
        limit = 4 * call.signature.options.time_limit
        yield note("slow", "A call with a few small tensors computes for long.")
        yield unexamined(
            "It computes for so long that some probes were left out.",
            remedy=f"Pass time_limit={limit:g}.",
        )


def remembered(call: Call) -> list[Fact]:
    """Call it with other sizes and numbers in between; then the first call again."""
    parts, fresh = call.inputs(), call.fresh()
    first, between = fresh(parts).output, [call.inputs(seed=9)]
    if call.signature.followed and call.signature.alone and call.plan.ndim > 2:
        between.append({side: part[:, :-1] for side, part in between[0].items()})
    for drawn in (*between, parts):
        used, clean = fresh(drawn).output, call.fresh()(drawn).output
        if clean is not None and first is not None and not close(used, clean, 1e-6):
            how = "raises an error" if used is None else "gives something else"
            sentence = f"A call {how} after calls with other inputs: it keeps something between "
            return [wrong("remembers", f"{sentence}calls.")]
    return []


def alone_or_together(call: Call) -> list[Fact]:
    """Call it with one sequence: the result is that of the batch."""
    if call.plan.ndim < 3 or call.plan.swap:
        return []
    parts, fresh = call.inputs(), call.fresh()
    output = fresh(parts).output
    reply = fresh({side: part[:1] for side, part in parts.items()})
    shape = tuple(getattr(reply.value, "shape", ()))
    if reply.output is None and shape == tuple(output.shape[1:]):
        return [
            wrong(
                "wrong-shape",
                f"For one sequence alone the output is {shape}: it loses the dimension of the "
                "batch.",
                advice="squeeze only a dimension that you name.",
            )
        ]
    if reply.output is not None and not close(reply.output, output[:1], SURE):
        return [wrong("batch-mixing", "A sequence gives another result alone than in a batch.")]
    return []


# --- gradients ------------------------------------------------------------------------------------


def gradients(call: Call) -> Iterator[Fact]:
    """Yield whether a gradient reaches every input and parameter that moves the output."""
    call, signature = call.fresh(), call.signature
    output, names = call(call.inputs()).output, {s: name for name, s in signature.sides.items()}
    if torch.float32 in (call.plan.dtype, output.dtype):
        return
    parts = call.inputs()
    sides = names or ("query",)
    if signature.options.call is not None and not signature.alone:
        sides = PARTS
    leaves = {side: parts[side].requires_grad_() for side in sides}
    named = dict(call.module.named_parameters()) if call.module is not None else {}
    everything = leaves | {name: part for name, part in named.items() if part.requires_grad}
    reply = call(_with_leaves(parts, leaves, call), graph=True)
    if reply.output is None:
        message = reply.outcome.message
        if "numpy" in message and signature.options.call is not None:
            yield note("numpy", "It computes with numpy, which knows no gradients.")
        elif any(word in message for word in ("grad", "numpy", "derivative")):
            trouble = reply.outcome.trouble
            raised = f"With inputs that require a gradient it raises {trouble}."
            yield wrong("detached", raised)
        return
    grads, weights = dict.fromkeys(everything), _drawn(output.shape, 3)
    if reply.output.requires_grad:
        total, wanted = (reply.output * weights).sum(), list(everything.values())
        made = call_safely(torch.autograd.grad, total, wanted, allow_unused=True)
        if made.error is not None:
            yield wrong("detached", f"The way back raises {made.trouble}.")
            return
        grads = dict(zip(everything, made.value, strict=True))
    if any(grad is not None and not grad.isfinite().all() for grad in grads.values()):
        yield wrong("nan", "The output is finite, but a gradient is NaN or infinite.")
        return
    idle = [name for name, grad in grads.items() if grad is None or not grad.any()]
    cut = [name for name in idle[:6] if _moves(call, everything[name], leaves, output)]
    yield from idle_parameters({n: named[n] for n in idle if n in named and n not in cut})
    if cut:
        yield wrong(
            "detached",
            f"No gradient reaches {' and '.join(names.get(name, name) for name in cut[:3])}: the "
            "output is cut off from what it was made of, and nothing can be learned through it.",
        )
    elif not _slopes(call, everything, grads, leaves, weights):
        yield wrong(
            "detached",
            "The gradient is not the slope of the output: a part of it is cut off on the way back.",
        )
    else:
        whom = " and ".join(names.get(side, side) for side in leaves)
        more = " and every parameter" if named and not set(idle) & set(named) else ""
        yield held("gradients", f"gradients reach {whom}{more}")


@torch.no_grad()
def _slopes(call: Call, everything: dict, grads: dict, leaves: dict, weights: Tensor) -> bool:
    """Return whether the gradients tell how the output moves if all that they reach moves a bit."""
    kept = {name: part.detach().clone() for name, part in everything.items()}
    steps = {name: 1e-3 * _drawn(part.shape, 6).to(part) for name, part in kept.items()}
    ends = []
    for sign in (1, -1):
        for name, part in everything.items():
            part.copy_(kept[name] + sign * steps[name])
        plain = {side: leaf.detach() for side, leaf in leaves.items()}
        output = call(_with_leaves(call.inputs() | plain, plain, call)).output
        ends.append(torch.nan if output is None else float((output * weights).sum().real))
    for name, part in everything.items():
        part.copy_(kept[name])
    told = sum(float((grad * steps[n]).sum().real) for n, grad in grads.items() if grad is not None)
    moved = (ends[0] - ends[1]) / 2
    return not abs(moved - told) > 0.05 * max(abs(moved), abs(told), 1e-4)


def _drawn(shape: tuple[int, ...], seed: int) -> Tensor:
    """Return random numbers of a shape."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def _with_leaves(parts: dict, leaves: dict, call: Call) -> dict:
    """Return inputs in which the leaves stand, wherever the same tokens are meant."""
    if call.signature.alone:
        return dict.fromkeys(parts, leaves["query"])
    same = {"value": leaves["key"]} if "value" not in leaves and "key" in leaves else {}
    return parts | leaves | same


@torch.no_grad()
def _moves(call: Call, part: Tensor, leaves: dict, output: Tensor) -> bool:
    """Return whether the output moves with an input or a parameter, though no gradient says so."""
    kept = part.detach().clone()
    part.add_(_drawn(part.shape, 5).to(part))
    plain = {side: leaf.detach() for side, leaf in leaves.items()}
    moved = call(_with_leaves(call.inputs() | plain, plain, call)).output
    part.copy_(kept)
    return moved is not None and not close(moved, output, 1e-6)
