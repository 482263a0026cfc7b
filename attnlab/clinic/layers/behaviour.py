"""How a module behaves beside what it computes: prints, memory, chance, devices, gradients."""

from __future__ import annotations

import re

import torch
from torch import Tensor, nn

from attnlab.clinic._copying import copy_of
from attnlab.clinic._damage import damage
from attnlab.clinic._results import Results
from attnlab.clinic.layers.calls import Reply, Subject


def first_behaviour(subject: Subject, results: Results) -> None:
    """Look for what would spoil every other probe."""
    first = subject(subject.x(), seed=1)
    if first is None:
        return
    if subject.caller.printed.strip():
        shown = subject.caller.printed.strip().splitlines()[0][:60]
        results.found("prints", f"Every call prints; the first line is {shown!r}.")
    if subject.caller.changed:
        sentence = "It changes its input: after the call x is not the same."
        results.found("modifies-input", sentence, damage(subject.caller))
    _finite(first, results)
    again = subject(subject.x(), seed=2)
    if again is None or not _same(first, again):
        if _random(subject):
            apart = _apart(first, again)
            results.found(
                "random",
                "In eval mode two calls on the same input differ"
                f"{apart}: dropout or noise is left on.",
            )
        else:
            results.found("remembers", "A second call on the same input gives another result.")
        return
    _remembers(subject, first, results)


def _finite(reply: Reply, results: Results) -> None:
    if not reply.output.isfinite().all():
        share = 1 - reply.output.isfinite().double().mean().item()
        results.found("nan", f"On ordinary input {share:.0%} of the output is NaN or inf.")


def _random(subject: Subject) -> bool:
    """Return whether the seed, and not the number of calls, makes the difference."""
    one, two = subject(subject.x(), seed=1), subject(subject.x(), seed=1)
    return one is not None and two is not None and _same(one, two)


def _same(one: Reply, two: Reply) -> bool:
    return torch.allclose(one.output, two.output, rtol=1e-5, atol=1e-6, equal_nan=True)


def _apart(one: Reply, two: Reply | None) -> str:
    if two is None:
        return ""
    return f" by up to {(one.output - two.output).abs().max().item():.2g}"


def _remembers(subject: Subject, first: Reply, results: Results) -> None:
    """Compare a fresh copy at another length with this one, and this one with itself before."""
    if not isinstance(subject.module, nn.Module):
        return
    try:
        fresh = _another(subject)
    except Exception:
        return  # it cannot be copied
    for length in (subject.sizes.length - 2, subject.sizes.length + 1):
        if length < 1:
            continue
        used = _another(subject)
        other, alone = fresh(fresh.x(1, length, seed=5)), used(used.x())
        used(used.x(seed=9))
        later = used(used.x(1, length, seed=5))
        if other is not None and (later is None or not _same(other, later)):
            what = "raises" if later is None else "gives another result"
            results.found(
                "remembers",
                f"After calls on {subject.sizes.length} tokens, {length} tokens that a fresh copy "
                f"handles {what}: something is kept between calls.",
            )
            return
        fresh = _another(subject)
    fresh(fresh.x(seed=9))
    later = fresh(fresh.x())
    if alone is not None and (later is None or not _same(alone, later)):
        results.found("remembers", "After a call on other tokens the result is another one.")
        return
    after = subject(subject.x(), seed=1)
    if after is None or not _same(first, after):
        results.found("remembers", "The result on the same input depends on the calls before it.")


def _another(subject: Subject) -> Subject:
    """Return the same subject around a copy that was never called."""
    return subject.like(copy_of(subject.pristine), subject.dtype)


def last_behaviour(subject: Subject, exact: Subject, results: Results) -> None:
    """Look at types, devices, memory layout and gradients."""
    _dtype(subject, exact, results)
    _device(subject, results)
    _contiguity(subject, results)
    _gradients(subject, results)


def _dtype(subject: Subject, exact: Subject, results: Results) -> None:
    if exact.exact:
        results.held("dtype", "computes in float64 when its parameters and input are float64")
        return
    if not isinstance(subject.module, nn.Module):
        return  # a function may hold float32 weights from outside
    try:
        module = copy_of(subject.pristine).double()
    except Exception:
        return
    double = subject.like(module, torch.float64)
    reply = double(double.x())
    if reply is None and re.search(r"dtype|scalar type|Double|Float", double.trouble):
        results.found("dtype", f"As float64 it raises {double.trouble}")
    elif reply is not None:
        results.found("dtype", f"On float64 its output is {reply.output.dtype}.")


def _device(subject: Subject, results: Results) -> None:
    """Move it to the meta device: a tensor made on the CPU then meets one that is not there."""
    if not isinstance(subject.module, nn.Module):
        return
    try:
        with_shapes = copy_of(subject.pristine).to("meta")
    except Exception:
        return
    moved = subject.like(with_shapes, subject.dtype)
    moved.caller.time_limit += 20  # torch loads much for its first call there
    reply = moved(subject.x().to("meta"))
    if reply is None and re.search(r"device", moved.trouble) and "cpu" in moved.trouble:
        results.found(
            "device",
            "Moved to another device with module.to(...), it raises because one of its tensors "
            f"stays on the CPU ({moved.trouble}).",
        )
    elif reply is not None:
        results.held("device", "follows its input to another device")


def _contiguity(subject: Subject, results: Results) -> None:
    x = subject.x()
    plain = subject(x)
    layouts = (x.transpose(0, 1).contiguous().transpose(0, 1), x.mT.contiguous().mT)
    for strided in layouts:
        reply = subject(strided)
        if reply is None or plain is None:
            results.found("contiguity", f"On a transposed view of its input it {_says(subject)}")
            return
        if not _same(plain, reply):
            results.found("contiguity", "On a non-contiguous input of equal numbers it differs.")
            return
    results.held("contiguity", "accepts a non-contiguous input")


def _says(subject: Subject) -> str:
    return f"raises {subject.trouble}" if subject.last.error else f"gives {subject.trouble}"


def _gradients(subject: Subject, results: Results) -> None:
    """Every input and every parameter that changes the output must have a gradient."""
    x = subject.x().requires_grad_()
    reply = subject(x, grad=True)
    if reply is None:
        return
    named = {}
    if isinstance(subject.module, nn.Module):
        named = {n: p for n, p in subject.module.named_parameters() if p.requires_grad}
    wanted = {"its input": x, **named}
    if not reply.output.requires_grad:
        missing = list(wanted)
    else:
        drawn = subject.tokens(*reply.output.shape, seed=3)
        try:
            found = torch.autograd.grad(
                (reply.output * drawn).sum(), list(wanted.values()), allow_unused=True
            )
        except Exception as error:
            text = str(error).splitlines()[0][:120]
            results.found("detached", f"The backward pass raises {type(error).__name__}: {text}")
            return
        missing = [name for name, grad in zip(wanted, found, strict=True) if grad is None]
    _judge_missing(subject, missing, wanted, results)


def _judge_missing(
    subject: Subject, missing: list[str], wanted: dict[str, Tensor], results: Results
) -> None:
    cut = [name for name in missing if name == "its input" or _matters(subject, wanted[name])]
    unused = [name for name in missing if name not in cut]
    if cut:
        results.found(
            "detached",
            f"No gradient reaches {', '.join(cut[:3])}, though the output depends on it.",
        )
    elif not missing:
        results.held("gradients", "gradients reach its input and every parameter")
    for name in unused[:3]:
        results.note(
            "unused-parameter",
            f"The parameter {name} is never used: it does not change the output.",
        )


def _matters(subject: Subject, parameter: Tensor) -> bool:
    plain = subject(subject.x())
    kept = parameter.detach().clone()
    with torch.no_grad():
        parameter.add_(subject.tokens(*parameter.shape, seed=8).to(parameter.dtype))
    other = subject(subject.x())
    with torch.no_grad():
        parameter.copy_(kept)
    return plain is not None and other is not None and not _same(plain, other)
