"""Time and memory of the kernels and layers, next to torch and to the usual few lines."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnlab import (
    MultiHeadAttention,
    causal_mask,
    combine_masks,
    merge_heads,
    scaled_dot_product_attention,
    sequence_mask,
    sliding_window_mask,
    split_heads,
    tiled_attention,
)
from tools.bench import Plan, Row, measured, processor_time

HEADS, HEAD_DIM, WINDOW = 8, 64, 256
CLASSROOM = (2, 10, 512)  # sequences, tokens, embed_dim
LONGEST_PLAIN = 4096  # tokens; the matrices of the plain kernel take 1 GB there
STATUS, RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")

Forward = Callable[[], Tensor]


# --- time -----------------------------------------------------------------------------------------


def tiled(plan: Plan) -> Iterator[Row]:
    """Yield the tiled kernel against torch's fused one for one sequence."""
    for size in plan.sizes:
        for what, (ours, theirs) in tiled_cases(size).items():
            kernels = {
                "ours": partial(tiled_attention, **ours),
                "torch": partial(F.scaled_dot_product_attention, **theirs),
            }
            gradients = plan.all_gradients or what == "no mask"
            yield from kernel_rows(what, (1, size), kernels, plan, gradients=gradients)


def tiled_cases(size: int) -> dict[str, tuple[dict, dict]]:
    """Return the options of the tiled kernel that are measured, and the same ones for torch."""
    causal = {"is_causal": True}
    padding = {"attn_mask": sequence_mask([size * 3 // 4], size)[:, None, None, :]}
    window = sliding_window_mask(size, window=WINDOW)  # torch has no windows: they become masks
    both = combine_masks(window, causal_mask(size))
    return {
        "no mask": ({}, {}),
        "causal": (causal, causal),
        "25 % padding": (padding, padding),
        f"window {WINDOW}": ({"window": WINDOW}, {"attn_mask": window}),
        f"window {WINDOW}, causal": ({"window": WINDOW, **causal}, {"attn_mask": both}),
    }


def plain(plan: Plan) -> Iterator[Row]:
    """Yield the plain kernel and the layer, each against torch's and against the usual lines."""
    kernels = {
        "ours": scaled_dot_product_attention,
        "torch": F.scaled_dot_product_attention,
        "by hand": by_hand,
    }
    for size in plan.plain_sizes:
        batch = CLASSROOM[0] if size == CLASSROOM[1] else 1
        yield from kernel_rows("plain kernel", (batch, size), kernels, plan)

    theirs = nn.MultiheadAttention(CLASSROOM[-1], HEADS, batch_first=True)
    ours, x = MultiHeadAttention.from_torch(theirs), torch.randn(CLASSROOM)
    layers = {
        "ours": (lambda: ours(x)[0], list(ours.parameters())),
        "torch": (
            lambda: theirs(x, x, x, average_attn_weights=False)[0],
            list(theirs.parameters()),
        ),
        "by hand": (lambda: layer_by_hand(ours, x)[0], list(ours.parameters())),
    }
    yield from rows("layer, forward", CLASSROOM[1], layers, plan)
    yield from rows("layer, forward + backward", CLASSROOM[1], layers, plan, gradients=True)


def kernel_rows(
    what: str,
    shape: tuple[int, int],
    kernels: dict[str, Callable[..., Tensor]],
    plan: Plan,
    *,
    gradients: bool = True,
) -> Iterator[Row]:
    """Yield the first kernel against each other one: forward, and backward if it is wanted."""
    for backward in (False, True)[: 1 + gradients]:
        tensors = draw(*shape, requires_grad=backward)
        calls = {name: (partial(kernel, *tensors), tensors) for name, kernel in kernels.items()}
        direction = "forward + backward" if backward else "forward"
        yield from rows(f"{what}, {direction}", shape[1], calls, plan, gradients=backward)


def rows(
    what: str,
    size: int,
    calls: dict[str, tuple[Forward, Sequence[Tensor]]],
    plan: Plan,
    *,
    gradients: bool = False,
) -> Iterator[Row]:
    """Yield the first call against each other one; each comes with the leaves of its gradients."""
    times = {
        name: processor_time(
            partial(with_gradients, forward, leaves) if gradients else forward, plan.seconds / 2
        )
        for name, (forward, leaves) in calls.items()
    }
    ours, *others = times
    for name in others:
        yield Row(what, size, times[ours], times[name], name)


def with_gradients(forward: Forward, leaves: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Return the gradients of the leaves."""
    output = forward()
    return torch.autograd.grad(output, leaves, torch.ones_like(output))


def by_hand(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Return attention as it is usually written, without a check."""
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])
    return scores.softmax(dim=-1) @ value


def layer_by_hand(layer: MultiHeadAttention, x: Tensor) -> tuple[Tensor, Tensor]:
    """Return what the layer returns, computed as it is usually written."""
    projections = (layer.q_proj, layer.k_proj, layer.v_proj)
    query, key, value = (split_heads(project(x), layer.num_heads) for project in projections)
    weights = (query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])).softmax(dim=-1)
    return layer.out_proj(merge_heads(weights @ value)), weights


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
        rivals = {"fused": F.scaled_dot_product_attention, "plain": scaled_dot_product_attention}
        if size > LONGEST_PLAIN:
            del rivals["plain"]
        ours = measured([peak_of(tiled_attention, size)])
        for name, rival in rivals.items():
            theirs = measured([peak_of(rival, size)])
            yield Row("peak memory, forward", size, ours, theirs, name, unit="B")


def can_measure_memory() -> bool:
    """Return whether a process of this machine can read and reset its peak, as on Linux."""
    return RESET.exists() and "VmHWM" in STATUS.read_text()


def peak_of(kernel: Callable[..., Tensor], size: int) -> float:
    """Return the peak of one call in bytes beyond its inputs, measured in a fresh process."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(_call_once, kernel, size).result()


def _call_once(kernel: Callable[..., Tensor], size: int) -> float:
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
