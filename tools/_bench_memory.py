"""Peak memory of one attention call in a fresh process, beyond its inputs.

    python -m tools._bench_memory tiled 16384

prints the bytes. Works where the kernel lets a process reset its own peak: on Linux.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tools._bench_measure import Result, as_megabytes, result

ROOT = Path(__file__).resolve().parent.parent
STATUS, RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")
KERNELS = ("tiled", "fused", "plain")
LONGEST_PLAIN = 4096  # its matrices take 1 GB there


def peaks(sizes: list[int]) -> Iterator[Result]:
    """Yield the peak of the tiled kernel against the fused and the plain one, output included."""
    for size in sizes:
        ours = measure("tiled", size)
        for rival in ("fused", "plain") if size <= LONGEST_PLAIN else ("fused",):
            pair = [(ours, measure(rival, size))]
            yield result("peak memory, forward", f"N = {size}", pair, as_megabytes, rival)


def measure(kernel: str, size: int) -> float:
    """Return the peak of one call in bytes, measured in a process of its own."""
    command = [sys.executable, "-m", "tools._bench_memory", kernel, str(size)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{kernel} at {size} tokens failed:\n{done.stderr}")
    return float(done.stdout)


def can_measure() -> bool:
    """Return whether this machine tells the peak of a process and lets it be reset."""
    return RESET.exists() and "VmHWM" in STATUS.read_text()


def main() -> None:
    """Call one kernel once and print its peak beyond the inputs."""
    import torch
    import torch.nn.functional as F

    from attnlab import scaled_dot_product_attention, tiled_attention

    functions = (tiled_attention, F.scaled_dot_product_attention, scaled_dot_product_attention)
    kernel, size = dict(zip(KERNELS, functions, strict=True))[sys.argv[1]], int(sys.argv[2])
    torch.set_num_threads(1)
    kernel(*(torch.randn(1, 8, 64, 64) for _ in range(3)))  # what is loaded once does not count
    tensors = [torch.randn(1, 8, size, 64) for _ in range(3)]
    RESET.write_text("5")
    before = _kilobytes("VmRSS")
    kernel(*tensors)
    print((_kilobytes("VmHWM") - before) * 1024)


def _kilobytes(name: str) -> int:
    line = next(line for line in STATUS.read_text().splitlines() if line.startswith(name))
    return int(line.split()[1])


if __name__ == "__main__":
    main()
