"""Run a command and print at its end how long it took: on the clock, and in core-seconds.

    python -m tools.core_seconds pytest tests

Core-seconds are the user and system time of all processes, as `time` counts them. `time` misses a
process whose parent ends first, as the pages of Chromium do; on Linux this program adopts it.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import subprocess
import sys
import time

PR_SET_CHILD_SUBREAPER = 36
PATIENCE = 60  # seconds until an orphan must have ended to be counted


def run(command: list[str]) -> tuple[int, float, float, float]:
    """Run a command; return its status, its seconds, its core-seconds and those of orphans."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)
    start = time.monotonic()
    status = subprocess.run(command, check=False).returncode
    seconds, counted = time.monotonic() - start, core_seconds()
    wait_for_orphans()
    return status, seconds, counted, core_seconds() - counted


def core_seconds() -> float:
    """Return the user and system time of all children of this process that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def wait_for_orphans() -> None:
    """Wait for the processes that were left to this one."""
    limit = time.monotonic() + PATIENCE
    with contextlib.suppress(ChildProcessError):  # there is no child left
        while time.monotonic() < limit:
            if os.waitpid(-1, os.WNOHANG) == (0, 0):
                time.sleep(0.05)


def main() -> None:
    """Run the command line, print what it took, and end with its status."""
    status, seconds, counted, orphans = run(sys.argv[1:])
    print(
        f"It took {seconds:.0f} s and {counted:.0f} core-seconds, and {orphans:.0f} more in "
        "processes that `time` does not count.",
        flush=True,
    )
    sys.exit(status)


if __name__ == "__main__":
    main()
