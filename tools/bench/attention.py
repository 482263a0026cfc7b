"""Time and memory of the kernels, next to torch."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.benchmark import Timer

from attnlab import (
    scaled_dot_product_attention,
    sequence_mask,
    sliding_window_mask,
    tiled_attention,
)
from tools.bench import Plan, Row

HEADS, HEAD_DIM, WINDOW = 8, 64, 256
CLASSROOM = (2, 10)  # sequences and tokens
LONGEST_PLAIN = 4096  # tokens; the matrices of the plain kernel take 1 GB there
STATUS, RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")

Kernel = Callable[..., Tensor]


# --- time -----------------------------------------------------------------------------------------


def tiled(plan: Plan) -> Iterator[Row]:
    """Yield the tiled kernel against torch's fused one for one sequence."""
    for size in plan.sizes:
        for what, (ours, theirs) in tiled_cases(size).items():
            kernels = (
                partial(tiled_attention, **ours),
                partial(F.scaled_dot_product_attention, **theirs),
            )
            yield from rows(what, (1, size), kernels, plan)


def tiled_cases(size: int) -> dict[str, tuple[dict, dict]]:
    """Return the options of the tiled kernel that are measured, and the same ones for torch."""
    causal = {"is_causal": True}
    padding = {"attn_mask": sequence_mask([size * 3 // 4], size)[:, None, None, :]}
    window = sliding_window_mask(size, window=WINDOW)  # torch has no windows: they become masks
    return {
        "no mask": ({}, {}),
        "causal": (causal, causal),
        "25 % padding": (padding, padding),
        f"window {WINDOW}": ({"window": WINDOW}, {"attn_mask": window}),
    }


def plain(plan: Plan) -> Iterator[Row]:
    """Yield the plain kernel against torch's."""
    kernels = (scaled_dot_product_attention, F.scaled_dot_product_attention)
    for shape in (CLASSROOM, *((1, size) for size in plan.sizes if size <= LONGEST_PLAIN)):
        yield from rows("no mask", shape, kernels, plan)


def rows(
    what: str, shape: tuple[int, int], kernels: tuple[Kernel, Kernel], plan: Plan
) -> Iterator[Row]:
    """Yield one kernel against another, forward and with the gradients of all three inputs."""
    for direction, call in {"forward": forward, "forward + backward": with_gradients}.items():
        tensors = draw(*shape, requires_grad=call is with_gradients)
        times = [
            processor_times(partial(call, kernel, tensors), plan.seconds / 2) for kernel in kernels
        ]
        yield Row(f"{what}, {direction}, N = {shape[1]}", *times, "torch")


def processor_times(call: Callable[[], object], seconds: float) -> list[float]:
    """Call a function for some seconds; other programs do not disturb what is measured."""
    timer = Timer("call()", globals={"call": call}, timer=time.process_time)
    return timer.blocked_autorange(min_run_time=seconds).times


def forward(kernel: Kernel, tensors: list[Tensor]) -> Tensor:
    """Return the output."""
    return kernel(*tensors)


def with_gradients(kernel: Kernel, tensors: list[Tensor]) -> tuple[Tensor, ...]:
    """Return the gradients of all three inputs."""
    output = kernel(*tensors)
    return torch.autograd.grad(output, tensors, torch.ones_like(output))


def draw(batch: int, size: int, *, requires_grad: bool = False) -> list[Tensor]:
    """Return query, key and value (batch, HEADS, size, HEAD_DIM) in float32."""
    shape = (batch, HEADS, size, HEAD_DIM)
    return [torch.randn(shape, requires_grad=requires_grad) for _ in range(3)]


# --- memory ---------------------------------------------------------------------------------------


def memory(plan: Plan) -> Iterator[Row]:
    """Yield the peak of the tiled kernel against those of the others, output included."""
    if not can_measure_memory():
        print("Memory is left out: a process of this machine cannot reset its peak.")
        return
    for size in (size for size in plan.sizes if size >= 1024):
        rivals = {"fused": F.scaled_dot_product_attention}
        if size <= LONGEST_PLAIN:
            rivals["plain"] = scaled_dot_product_attention
        ours = [peak_of(tiled_attention, size)]
        for name, rival in rivals.items():
            yield Row(f"forward, N = {size}", ours, [peak_of(rival, size)], name, "B")


def can_measure_memory() -> bool:
    """Return whether a process of this machine can read and reset its peak, as on Linux."""
    return RESET.exists() and "VmHWM" in STATUS.read_text()


def peak_of(kernel: Kernel, size: int) -> float:
    """Return the peak of one call in bytes beyond its inputs, measured in a fresh process."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(_call_once, kernel, size).result()


def _call_once(kernel: Kernel, size: int) -> float:
    torch.set_num_threads(1)
    kernel(*draw(1, 64))  # loads what is loaded only once
    tensors = draw(1, size)
    RESET.write_text("5")
    before = _bytes("VmRSS")
    kernel(*tensors)
    return _bytes("VmHWM") - before


def _bytes(name: str) -> float:
    line = next(line for line in STATUS.read_text().splitlines() if line.startswith(name))
    return float(line.split()[1]) * 1024
