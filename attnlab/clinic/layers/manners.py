"""How a module behaves beside what it computes: prints, memory, chance, devices, gradients."""

from __future__ import annotations

import re

import torch
from torch import Tensor, nn

from attnlab.clinic._chart import Chart
from attnlab.clinic._copying import copy_of
from attnlab.clinic._damage import damage
from attnlab.clinic.layers.calls import Patient, Reply


def first_manners(patient: Patient, chart: Chart) -> None:
    """Look for what would spoil every other probe."""
    first = patient(patient.x(), seed=1)
    if first is None:
        return
    if patient.caller.printed.strip():
        shown = patient.caller.printed.strip().splitlines()[0][:60]
        chart.found("prints", f"Every call prints; the first line is {shown!r}.")
    if patient.caller.changed:
        sentence = "It changes its input: after the call x is not the same."
        chart.found("modifies-input", sentence, damage(patient.caller))
    _finite(patient, first, chart)
    again = patient(patient.x(), seed=2)
    if again is None or not _same(first, again):
        if _random(patient):
            apart = _apart(first, again)
            chart.found(
                "random",
                "In eval mode two calls on the same input differ"
                f"{apart}: dropout or noise is left on.",
            )
        else:
            chart.found("remembers", "A second call on the same input gives another result.")
        return
    _remembers(patient, first, chart)


def _finite(patient: Patient, reply: Reply, chart: Chart) -> None:
    if not reply.output.isfinite().all():
        share = 1 - reply.output.isfinite().double().mean().item()
        chart.found("nan", f"On ordinary input {share:.0%} of the output is NaN or inf.")


def _random(patient: Patient) -> bool:
    """Return whether the seed, and not the number of calls, makes the difference."""
    one, two = patient(patient.x(), seed=1), patient(patient.x(), seed=1)
    return one is not None and two is not None and _same(one, two)


def _same(one: Reply, two: Reply) -> bool:
    return torch.allclose(one.output, two.output, rtol=1e-5, atol=1e-6, equal_nan=True)


def _apart(one: Reply, two: Reply | None) -> str:
    if two is None:
        return ""
    return f" by up to {(one.output - two.output).abs().max().item():.2g}"


def _remembers(patient: Patient, first: Reply, chart: Chart) -> None:
    """Compare a fresh copy at another length with this one, and this one with itself before."""
    if not isinstance(patient.module, nn.Module):
        return
    try:
        fresh = _another(patient)
    except Exception:
        return  # it cannot be copied
    for length in (patient.sizes.length - 2, patient.sizes.length + 1):
        if length < 1:
            continue
        used = _another(patient)
        other, alone = fresh(fresh.x(1, length, seed=5)), used(used.x())
        used(used.x(seed=9))
        later = used(used.x(1, length, seed=5))
        if other is not None and (later is None or not _same(other, later)):
            what = "raises" if later is None else "gives another result"
            chart.found(
                "remembers",
                f"After calls on {patient.sizes.length} tokens, {length} tokens that a fresh copy "
                f"handles {what}: something is kept between calls.",
            )
            return
        fresh = _another(patient)
    fresh(fresh.x(seed=9))
    later = fresh(fresh.x())
    if alone is not None and (later is None or not _same(alone, later)):
        chart.found("remembers", "After a call on other tokens the result is another one.")
        return
    after = patient(patient.x(), seed=1)
    if after is None or not _same(first, after):
        chart.found("remembers", "The result on the same input depends on the calls before it.")


def _another(patient: Patient) -> Patient:
    """Return the same patient around a copy that was never called."""
    return patient.like(copy_of(patient.pristine), patient.dtype)


def last_manners(patient: Patient, exact: Patient, chart: Chart) -> None:
    """Look at types, devices, memory layout and gradients."""
    _dtype(patient, exact, chart)
    _device(patient, chart)
    _contiguity(patient, chart)
    _gradients(patient, chart)


def _dtype(patient: Patient, exact: Patient, chart: Chart) -> None:
    if exact.exact:
        chart.held("computes in float64 when its parameters and input are float64")
        return
    if not isinstance(patient.module, nn.Module):
        return  # a function may hold float32 weights from outside
    try:
        module = copy_of(patient.pristine).double()
    except Exception:
        return
    double = patient.like(module, torch.float64)
    reply = double(double.x())
    if reply is None and re.search(r"dtype|scalar type|Double|Float", double.trouble):
        chart.found("dtype", f"As float64 it raises {double.trouble}")
    elif reply is not None:
        chart.found("dtype", f"On float64 its output is {reply.output.dtype}.")


def _device(patient: Patient, chart: Chart) -> None:
    """Move it to the meta device: a tensor made on the CPU then meets one that is not there."""
    if not isinstance(patient.module, nn.Module):
        return
    try:
        with_shapes = copy_of(patient.pristine).to("meta")
    except Exception:
        return
    moved = patient.like(with_shapes, patient.dtype)
    moved.caller.time_limit += 20  # torch loads much for its first call there
    reply = moved(patient.x().to("meta"))
    if reply is None and re.search(r"device", moved.trouble) and "cpu" in moved.trouble:
        chart.found(
            "device",
            "Moved to another device with module.to(...), it raises because one of its tensors "
            f"stays on the CPU ({moved.trouble}).",
        )
    elif reply is not None:
        chart.held("follows its input to another device")


def _contiguity(patient: Patient, chart: Chart) -> None:
    x = patient.x()
    plain = patient(x)
    layouts = (x.transpose(0, 1).contiguous().transpose(0, 1), x.mT.contiguous().mT)
    for strided in layouts:
        reply = patient(strided)
        if reply is None or plain is None:
            chart.found("contiguity", f"On a transposed view of its input it {_says(patient)}")
            return
        if not _same(plain, reply):
            chart.found("contiguity", "On a non-contiguous input of equal numbers it differs.")
            return
    chart.held("accepts a non-contiguous input")


def _says(patient: Patient) -> str:
    return f"raises {patient.trouble}" if patient.last.error else f"gives {patient.trouble}"


def _gradients(patient: Patient, chart: Chart) -> None:
    """Every input and every parameter that changes the output must have a gradient."""
    x = patient.x().requires_grad_()
    reply = patient(x, grad=True)
    if reply is None:
        return
    named = {}
    if isinstance(patient.module, nn.Module):
        named = {n: p for n, p in patient.module.named_parameters() if p.requires_grad}
    wanted = {"its input": x, **named}
    if not reply.output.requires_grad:
        missing = list(wanted)
    else:
        drawn = patient.tokens(*reply.output.shape, seed=3)
        try:
            found = torch.autograd.grad(
                (reply.output * drawn).sum(), list(wanted.values()), allow_unused=True
            )
        except Exception as error:
            text = str(error).splitlines()[0][:120]
            chart.found("detached", f"The backward pass raises {type(error).__name__}: {text}")
            return
        missing = [name for name, grad in zip(wanted, found, strict=True) if grad is None]
    _judge_missing(patient, missing, wanted, chart)


def _judge_missing(
    patient: Patient, missing: list[str], wanted: dict[str, Tensor], chart: Chart
) -> None:
    cut = [name for name in missing if name == "its input" or _matters(patient, wanted[name])]
    unused = [name for name in missing if name not in cut]
    if cut:
        chart.found(
            "detached",
            f"No gradient reaches {', '.join(cut[:3])}, though the output depends on it.",
        )
    elif not missing:
        chart.held("gradients reach its input and every parameter")
    for name in unused[:3]:
        chart.note(f"The parameter {name} is never used: it does not change the output.")


def _matters(patient: Patient, parameter: Tensor) -> bool:
    plain = patient(patient.x())
    kept = parameter.detach().clone()
    with torch.no_grad():
        parameter.add_(patient.tokens(*parameter.shape, seed=8).to(parameter.dtype))
    other = patient(patient.x())
    with torch.no_grad():
        parameter.copy_(kept)
    return plain is not None and other is not None and not _same(plain, other)
