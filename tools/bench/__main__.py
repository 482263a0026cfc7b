"""Measure what the project says about its own speed, next to torch, as ratios.

    python -m tools.bench             everything, in about half an hour
    python -m tools.bench --quick     short sequences, and no class
    python -m tools.bench --only kernels memory
    python -m tools.bench --only class --learners 8

The table goes to the screen and, with a description of the machine, into bench.txt, which git
ignores. A ratio of 2 means that ours takes twice as much; the spread is the sum of both
interquartile ranges, each divided by its median.
"""

from __future__ import annotations

import argparse
import os
import re
import time
from pathlib import Path

import torch

from tools.bench import FULL, HEAD, QUICK, Plan, attention, classroom
from tools.build.sources import ROOT

REPORT = ROOT / "bench.txt"
SECTIONS = {
    "kernels": ("Tiled kernel against torch's fused one, 8 heads of 64, float32", attention.tiled),
    "plain": ("Plain kernel against torch's; 2 x 10 x 512 is a class", attention.plain),
    "memory": ("Peak memory of one forward call beyond its inputs, tiled", attention.memory),
    "class": ("A class on a JupyterHub on this machine", classroom.times),
}


def run(plan: Plan, wanted: list[str], report: Path = REPORT) -> None:
    """Measure the wanted sections; print and write every row as soon as it is known."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    with report.open("w", encoding="utf-8") as file:

        def write(text: str) -> None:
            print(text, flush=True)
            print(text, file=file, flush=True)

        write(machine())
        for name in wanted:
            title, section = SECTIONS[name]
            write(f"\n{title}\n{HEAD}")
            for row in section(plan):
                write(str(row))
    print(f"\nWritten to {report.name}.")


def machine() -> str:
    """Return in a few lines what the numbers were measured on."""
    cpuinfo = Path("/proc/cpuinfo")
    models = re.findall(r"model name\s*: (.*)", cpuinfo.read_text() if cpuinfo.exists() else "")
    load = " ".join(f"{load:.1f}" for load in os.getloadavg())
    capability = torch.backends.cpu.get_cpu_capability()
    return (
        f"{os.cpu_count()} cores, {(models or ['unknown'])[0]}, load {load}\n"
        f"torch {torch.__version__}, {capability}, {torch.get_num_threads()} thread\n"
        + time.strftime("measured %Y-%m-%d %H:%M")
    )


def main() -> None:
    """Read the command line and measure."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="a little of all but the class")
    parser.add_argument("--only", nargs="+", choices=SECTIONS)
    parser.add_argument("--learners", type=int, default=FULL.learners, help="of the class")
    options = parser.parse_args()
    usual = [name for name in SECTIONS if not (options.quick and name == "class")]
    plan = QUICK if options.quick else FULL
    run(plan._replace(learners=options.learners), options.only or usual)


if __name__ == "__main__":
    main()
