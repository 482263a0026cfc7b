"""The IPython kernel that runs a lesson; outside a notebook there is none."""

from __future__ import annotations

import ctypes
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell


def running_shell() -> InteractiveShell | None:
    """Return the IPython that runs, if one does."""
    python = sys.modules.get("IPython")
    return python and python.get_ipython()


def cells_run() -> int:
    """Return how many cells were run."""
    shell = running_shell()
    return shell.execution_count if shell else 0


def return_memory_after_cells() -> None:
    """Give memory that is free back to the system after each cell, where the C library can.

    glibc keeps what large tensors leave behind, and many kernels of a class share one machine.
    """
    shell = running_shell()
    if shell and sys.platform == "linux" and hasattr(ctypes.CDLL(None), "malloc_trim"):
        shell.events.register("post_run_cell", _return_memory)  # a second time changes nothing


def _return_memory(_result: object) -> None:
    ctypes.CDLL(None).malloc_trim(0)
