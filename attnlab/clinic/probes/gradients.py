"""Where gradients go, and what has no effect: parameters and arguments that change nothing."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from attnlab.clinic.call import Call, Reply
from attnlab.clinic.names import PROJECTION
from attnlab.clinic.results import Fact, ask, held, note, tried, wrong
from attnlab.clinic.sample import close
from attnlab.clinic.signature import PARTS
from attnlab.sandbox import call as call_safely


def idle_parameters(idle: dict[str, Tensor]) -> Iterator[Fact]:
    """Yield which parameters change nothing: what its name has a use for is missed.

    A bias alone is left out: that of a key changes no weight.
    """
    missed = [name for name, part in idle.items() if part.ndim > 1 and PROJECTION.search(name)]
    others = [name for name in idle if not name.endswith("bias")]
    if missed:
        yield wrong(
            "no-effect",
            f"{_listed(missed)} changed without any effect on the output: something else is used "
            "in its place, or nothing.",
            advice="put query, key, value and output each through a projection of its own.",
        )
    elif others:
        yield ask(
            "no-effect",
            f"{_listed(others)} changed without any effect on the output.",
            "Pass the arguments that make use of it by call=, or take it out.",
        )


def _listed(names: list[str]) -> str:
    """Return the names of parameters as the beginning of a sentence."""
    plural = "s" if len(names) > 1 else ""
    return f"The parameter{plural} {' and '.join(names[:4])} can be"


def idle_arguments(call: Call) -> Iterator[Fact]:
    """Give the scale that may be given: the output must move."""
    parts = call.inputs()
    output = call(parts).output
    for arg in call.signature.arguments:
        if arg.role != "scale" or arg.required or call.signature.options.call is not None:
            continue
        given = call(parts, **{arg.name: 0.37}).output
        if given is not None and output is not None:
            yield tried(arg.name)
            if close(given, output, 1e-9):
                yield wrong(
                    "no-effect",
                    f"With {arg.name}=0.37 the output is the same as without it: it has no effect.",
                )


def reached(call: Call) -> Iterator[Fact]:
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
        yield from _refused(reply, adapted=signature.options.call is not None)
        return
    grads, weights = dict.fromkeys(everything), _drawn(output.shape, 3)
    if reply.output.requires_grad:
        total, wanted = (reply.output * weights).sum(), list(everything.values())
        made = call_safely(torch.autograd.grad, total, wanted, allow_unused=True)
        if made.error is not None:
            if "inplace" in made.trouble:
                said = "`backward()` fails, because a tensor that it needs was changed in place."
            else:
                said = f"`backward()` raises {made.trouble}."
            yield wrong("detached", said)
            return
        grads = dict(zip(everything, made.value, strict=True))
    if any(grad is not None and not grad.isfinite().all() for grad in grads.values()):
        yield wrong("nan", "The output is finite, but a gradient is NaN or infinite.")
        return
    idle = [name for name, grad in grads.items() if grad is None or not grad.any()]
    cut = [name for name in idle[:6] if _moves(call, everything[name], leaves, output)]
    unused = {name: part for name, part in named.items() if grads.get(name, part) is None}
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
        yield from idle_parameters(unused)  # a gradient of zero may be that of a beginning
        whom = " and ".join(names.get(side, side) for side in leaves)
        more = " and every parameter" if named and not set(idle) & set(named) else ""
        yield held("gradients", f"gradients reach {whom}{more}")


def _refused(reply: Reply, *, adapted: bool) -> Iterator[Fact]:
    """Yield that inputs which require a gradient are no inputs for it."""
    message = reply.outcome.message
    if "numpy" in message and adapted:
        yield note("numpy", "It computes with numpy, which knows no gradients.")
    elif any(word in message for word in ("grad", "numpy", "derivative")):
        trouble = f"With inputs that require a gradient it raises {reply.outcome.trouble}."
        yield wrong("detached", trouble)


@torch.no_grad()
def _slopes(call: Call, everything: dict, grads: dict, leaves: dict, weights: Tensor) -> bool:
    """Return whether the gradients tell how the output moves if all that they reach moves a bit."""
    kept = {name: part.detach().clone() for name, part in everything.items()}
    steps = {name: 1e-3 * _drawn(part.shape, 6).to(part) for name, part in kept.items()}
    ends = []
    for sign in (1, -1):
        for name, part in everything.items():
            part.copy_(kept[name] + sign * steps[name])
        output = _output_now(call, leaves)
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


def _output_now(call: Call, leaves: dict) -> Tensor | None:
    """Return the output where the leaves are now."""
    plain = {side: leaf.detach() for side, leaf in leaves.items()}
    return call(_with_leaves(call.inputs(), plain, call)).output


@torch.no_grad()
def _moves(call: Call, part: Tensor, leaves: dict, output: Tensor) -> bool:
    """Return whether the output moves with an input or a parameter, though no gradient says so."""
    kept = part.detach().clone()
    part.add_(_drawn(part.shape, 5).to(part))
    moved = _output_now(call, leaves)
    part.copy_(kept)
    return moved is not None and not close(moved, output, 1e-6)
