"""Measure time and memory of attention and write them to cost_of_attention.csv.

Run by hand, about three minutes on one core of a Linux machine with nothing else to do:

    python data/make_cost_of_attention.py

One head with 64 features, float32, one thread, forward. Times are the shortest of several runs, in
processor time, which includes what the operating system does for this process. Before each run the
process gives its free memory back, as the lessons do after each cell; otherwise the times of new
tensors would depend on what ran before. The functions are those of lesson 8. Another machine gives
other times.
"""

from __future__ import annotations

import csv
import ctypes
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.profiler import ProfilerActivity, profile

from attnlab import tiled_attention

LENGTHS = (512, 1024, 2048, 4096, 8192)  # tokens
FEATURES = 64
STEPS_AT, ROWS = 4096, 64  # tokens of the measured steps, and rows of a block
NUMBERS = tuple(2**power for power in range(17, 27))  # of the tensors that are divided
SECONDS = 3.0  # for a measurement
Row = tuple[str, str, str, int, float]
State = tuple[Tensor, Tensor, Tensor]


# --- the functions of lesson 8 --------------------------------------------------------------------


def plain(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Return attention, computed with the whole table."""
    scores = query @ key.mT / query.shape[-1] ** 0.5  # (..., L, S)
    weights = scores.softmax(dim=-1)
    return weights @ value  # (..., L, Ev)


def by_rows(query: Tensor, key: Tensor, value: Tensor, size: int = 64) -> Tensor:
    """Return attention, computed for some rows of the table after the others."""
    blocks = query.split(size, dim=-2)  # 64 queries each
    return torch.cat([plain(rows, key, value) for rows in blocks], dim=-2)


def add_piece(state: State, scores: Tensor, values: Tensor) -> State:
    """Return the state of some rows after one more piece of the keys."""
    top, total, output = state
    new_top = torch.maximum(top, scores.amax(dim=-1, keepdim=True))
    shrink = (top - new_top).exp()  # what was added up so far was too large
    exponentials = (scores - new_top).exp()
    total = total * shrink + exponentials.sum(dim=-1, keepdim=True)
    output = output * shrink + exponentials @ values
    return new_top, total, output


def nothing_yet(query: Tensor, value: Tensor) -> State:
    """Return the state of some rows before the first key."""
    lowest = torch.finfo(query.dtype).min
    top = query.new_full((*query.shape[:-1], 1), lowest)
    output = query.new_zeros(*query.shape[:-1], value.shape[-1])
    return top, torch.zeros_like(top), output


def tiled(query: Tensor, key: Tensor, value: Tensor, size: int = 128) -> Tensor:
    """Return attention, computed tile by tile."""
    output = query.new_empty(*query.shape[:-1], value.shape[-1])
    for i in range(0, query.shape[-2], size):
        rows = query[..., i : i + size, :]
        state = nothing_yet(rows, value)
        for j in range(0, key.shape[-2], size):
            keys, values = key[..., j : j + size, :], value[..., j : j + size, :]
            scores = rows @ keys.mT / rows.shape[-1] ** 0.5  # (..., size, size)
            state = add_piece(state, scores, values)
        _, total, summed = state
        output[..., i : i + size, :] = summed / total
    return output


# --- measuring ------------------------------------------------------------------------------------


FUNCTIONS = {
    "plain": plain,
    "by_rows": by_rows,
    "tiled": tiled,
    "tiled_attention": tiled_attention,
    "fused": F.scaled_dot_product_attention,
}


def shortest(calls: dict[str, Callable[[], object]], seconds: float = SECONDS) -> dict[str, float]:
    """Return the shortest processor time of each call; the calls take turns."""
    best = dict.fromkeys(calls, float("inf"))
    end = time.monotonic() + seconds * len(calls)
    rounds = 0
    while time.monotonic() < end or rounds < 5:
        for name, call in calls.items():
            give_memory_back()
            start = time.process_time()
            call()
            best[name] = min(best[name], time.process_time() - start)
        rounds += 1
    return best


def give_memory_back() -> None:
    """Return free memory to the operating system."""
    ctypes.CDLL(None).malloc_trim(0)


def repeated(call: Callable[[], object], count: int) -> Callable[[], object]:
    """Return a function that makes a call several times."""

    def several() -> None:
        for _ in range(count):
            call()

    return several


def of_functions() -> Iterator[Row]:
    """Yield the nanoseconds per attention weight of each function, and the bytes of its peak."""
    for n in LENGTHS:
        inputs = torch.randn(3, 1, 1, n, FEATURES)  # (N, H, L, E) each
        calls = {name: partial(function, *inputs) for name, function in FUNCTIONS.items()}
        for name, took in shortest(calls).items():
            yield "time", name, "", n, took / n**2 * 1e9
        for name, call in calls.items():
            yield "peak", name, "", n, peak_bytes(call)


def peak_bytes(call: Callable[[], object]) -> int:
    """Return the most bytes of tensors alive at once, what an operation needs for itself too."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as recorded:
        output = call()
    events = recorded.profiler.kineto_results.events()
    changes = sorted((e.start_ns(), e.nbytes()) for e in events if e.name() == "[memory]")
    now = peak = 0
    for _, change in changes:
        now += change
        peak = max(peak, now)
    del output
    return peak


def of_steps() -> Iterator[Row]:
    """Yield the nanoseconds per weight of the four steps of ``plain``, in three kinds of memory."""
    query, key, value = torch.randn(3, STEPS_AT, FEATURES)
    for name, rows, reused in (
        ("new", STEPS_AT, False),
        ("reused", STEPS_AT, True),
        ("64 rows", ROWS, True),
    ):
        some = query[:rows]
        scores = some @ key.mT
        weights = scores.softmax(dim=-1)
        table = {"out": torch.empty_like(scores)} if reused else {}
        output = {"out": torch.empty(rows, FEATURES)} if reused else {}
        steps = {
            "scores": partial(torch.mm, some, key.mT, **table),
            "divide": partial(torch.div, scores, FEATURES**0.5, **table),
            "softmax": partial(torch.softmax, scores, -1, **table),
            "average": partial(torch.mm, weights, value, **output),
        }
        count = STEPS_AT // rows
        for step, took in shortest({s: repeated(c, count) for s, c in steps.items()}).items():
            yield "step", name, step, STEPS_AT, took / STEPS_AT**2 * 1e9


def of_division() -> Iterator[Row]:
    """Yield the nanoseconds per number of a division, for tensors of more and more numbers."""
    for size in NUMBERS:
        x = torch.ones(size)
        y = torch.ones(size)
        calls = {"reused": partial(torch.div, x, 8, out=y), "new": partial(torch.div, x, 8)}
        for name, took in shortest(calls, 1.0).items():
            yield "division", name, "", size, took / size * 1e9


def main() -> None:
    """Measure everything and write one line for each number."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    with Path(__file__).with_name("cost_of_attention.csv").open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["what", "case", "step", "size", "value"])
        for part in (of_functions, of_steps, of_division):
            for *names, value in part():
                writer.writerow([*names, value if isinstance(value, int) else f"{value:.3f}"])


if __name__ == "__main__":
    main()
