"""Measure what the project says about its own speed, side by side with torch, as ratios.

    python -m tools.bench             everything, about half an hour
    python -m tools.bench --quick     short lengths and one lesson, under a minute
    python -m tools.bench --only kernels memory

Processor time on one thread, so that other programs disturb little; ours and theirs take turns in
one process, and a ratio is the median over the rounds. The table goes to the screen and, with a
description of the machine, into bench.txt, which git ignores.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is imported

import torch

from tools import _bench_attention, _bench_memory, _bench_pages
from tools._bench_measure import HEAD, Result, line
from tools._browser import NO_BROWSER, find_browser

ROOT = Path(__file__).resolve().parent.parent
REPORT = ROOT / "bench.txt"


class Plan(NamedTuple):
    """How much is measured."""

    sizes: list[int]
    all_gradients: bool
    plain_sizes: list[int]
    budget: float  # seconds for one line of the table
    import_rounds: int
    lessons: int | None  # how many; all if None
    live: bool


FULL = Plan([2**power for power in range(7, 15)], True, [10, 128, 512, 2048], 4.0, 9, None, True)
QUICK = Plan([128, 2048], False, [10, 512], 0.3, 3, 1, False)


def kernels(plan: Plan) -> Iterator[Result]:
    """Yield the tiled kernel against the fused one."""
    for size in plan.sizes:
        yield from _bench_attention.tiled_against_torch(
            size, plan.budget, all_gradients=plan.all_gradients
        )


def plain(plan: Plan) -> Iterator[Result]:
    """Yield the plain kernel and the layer against torch's and against the usual lines."""
    for size in plan.plain_sizes:
        yield from _bench_attention.plain_kernel(size, plan.budget)
    yield from _bench_attention.layer(plan.budget)


def memory(plan: Plan) -> Iterator[Result]:
    """Yield peaks of memory."""
    if _bench_memory.can_measure():
        yield from _bench_memory.peaks([size for size in plan.sizes if size >= 1024])
    else:
        print("Left out: this machine does not let a process reset its peak.")


def reading(plan: Plan) -> Iterator[Result]:
    """Yield what a reader waits for."""
    yield from _bench_pages.import_time(plan.import_rounds)
    yield from _bench_pages.lessons(plan.lessons)
    if find_browser() is None:
        print(f"Steps of sliders are left out. {NO_BROWSER}")
        return
    yield from _bench_pages.explorer_steps()
    if plan.live:
        yield from _bench_pages.live_step()


SECTIONS = {
    "kernels": ("Tiled kernel against torch's fused one, 8 heads of 64, float32", kernels),
    "plain": ("Plain kernel and MultiHeadAttention; N = 10 is a class: 2 x 10 x 512", plain),
    "memory": ("Peak memory of one forward call beyond its inputs, tiled against others", memory),
    "reading": ("What a reader waits for", reading),
}


def run(plan: Plan, wanted: list[str], report: Path = REPORT) -> None:
    """Measure the wanted sections; print every line when it is there, and write all of them."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    with report.open("w", encoding="utf-8") as file:

        def write(text: str) -> None:
            print(text, flush=True)
            print(text, file=file, flush=True)

        write(_bench_pages.machine())
        for name in wanted:
            title, section = SECTIONS[name]
            write(f"\n{title}\n{HEAD}")
            for measured in section(plan):
                write(line(measured))
    print(f"\nWritten to {report.name}.")


def main() -> None:
    """Read the command line and measure."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="short lengths, under a minute")
    parser.add_argument("--only", nargs="+", choices=SECTIONS, default=list(SECTIONS))
    options = parser.parse_args()
    run(QUICK if options.quick else FULL, options.only)


if __name__ == "__main__":
    main()
