"""A pytest plugin that closes the holes of nbval: ``pytest --nbval -p tools.strict_nbval``.

By itself nbval passes a cell that was never executed, scrambled execution counts, a replaced or
deleted picture and outputs in another order. This plugin compares all that is stored, makes
sure that every code cell is checked, and moves every control of the live figures after the last
cell. It changes private parts of nbval 0.11, which is why that
version is pinned.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from pathlib import Path

import pytest
from jupyter_client import KernelClient, KernelManager
from nbformat import NotebookNode
from nbval import kernel as nbval_kernel
from nbval import plugin as nbval_plugin
from nbval.kernel import RunningKernel, start_new_kernel

from tools.compare_outputs import compare_outputs
from tools.notebooks import join_streams, read_notebook
from tools.sweep_controls import SWEEP

Cell = nbval_plugin.IPyNbCell
_run_cell = Cell.runtest


SWEEP_LIMIT = 120  # seconds


class Controls(pytest.Item):
    """Every control of a notebook's live figures, moved in the kernel that has run its cells."""

    def runtest(self) -> None:
        """Fail if a drawing fails at a stop, or a control changes nothing."""
        reply = self.parent.kernel.kc.execute_interactive(
            SWEEP, store_history=False, timeout=SWEEP_LIMIT, output_hook=lambda message: None
        )["content"]
        if reply["status"] != "ok":
            pytest.fail(f"{reply['ename']}: {reply['evalue']}", pytrace=False)

    def reportinfo(self) -> tuple[Path, None, str]:
        """Return how the test is named in a report."""
        return self.path, None, f"{self.path.name}::{self.name}"


def run_strictly(cell: Cell) -> None:
    """Fail unless the cell was stored by a run from top to bottom; then run and compare it."""
    wanted = cell.cell_num + 1
    if cell.cell.execution_count != wanted:
        cell.raise_cell_error(
            f"the stored execution count is {cell.cell.execution_count}, not {wanted}: "
            "the notebook was not stored after a run from top to bottom"
        )
    _run_cell(cell)


def compare_strictly(
    cell: Cell, fresh: Sequence[NotebookNode], stored: Sequence[NotebookNode]
) -> bool:
    """Compare the outputs of a run with the stored ones, in place of nbval's own comparison."""
    difference = compare_outputs(stored, fresh)
    cell.comparison_traceback = [difference] if difference else []
    return difference is None


def execute_with_history(
    kernel: RunningKernel, source: str, allow_stdin: bool | None = None
) -> str:
    """Execute a cell as a front end does: counted, so that tracebacks name the same cell."""
    return kernel.kc.execute(source, store_history=True, allow_stdin=allow_stdin)


def start_patiently(**wanted: object) -> tuple[KernelManager, KernelClient]:
    """Start a kernel, once more if it dies: another process may have taken its ports."""
    try:
        return start_new_kernel(**wanted)
    except RuntimeError:
        return start_new_kernel(**wanted)


def pytest_configure(config: pytest.Config) -> None:
    """Take the place of nbval's comparison, for the kernels of this process."""
    if not config.option.nbval:
        raise pytest.UsageError("tools.strict_nbval needs --nbval: without it nothing is checked.")
    for owner, name in (
        (Cell, "runtest"),
        (Cell, "compare_outputs"),
        (RunningKernel, "execute_cell_input"),
        (nbval_kernel, "start_new_kernel"),
        (nbval_plugin, "coalesce_streams"),
    ):
        if not hasattr(owner, name):
            raise pytest.UsageError(f"this version of nbval has no {owner.__name__}.{name}.")
    Cell.runtest = run_strictly
    Cell.compare_outputs = compare_strictly
    RunningKernel.execute_cell_input = execute_with_history
    nbval_kernel.start_new_kernel = start_patiently
    nbval_plugin.coalesce_streams = join_streams  # nbval's own forgets the order of outputs
    os.environ["ATTNLAB_STATIC"] = "1"
    os.environ.pop("MPLBACKEND", None)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put a test of its controls after the last cell of every notebook."""
    checked: list[pytest.Item] = []
    for item, following in zip_longest(items, items[1:]):
        checked.append(item)
        if isinstance(item, Cell) and (following is None or following.parent is not item.parent):
            checked.append(Controls.from_parent(item.parent, name="controls"))
    items[:] = checked


def pytest_collection_finish(session: pytest.Session) -> None:
    """Fail unless every code cell of every notebook that was asked for became a test."""
    found = Counter(item.path for item in session.items if isinstance(item, Cell))
    for path in _notebooks(session.config.args):
        wanted = sum(cell.cell_type == "code" for cell in read_notebook(path).cells)
        if found[path] != wanted:
            raise pytest.UsageError(
                f"{path.name} has {wanted} code cells, {found[path]} are tested."
            )


def _notebooks(arguments: Iterable[str]) -> Iterator[Path]:
    """Yield the notebooks that the arguments of pytest name: files, cells of files, folders."""
    for argument in arguments:
        path = Path(argument.partition("::")[0]).resolve()
        yield from path.glob("*.ipynb") if path.is_dir() else [path]
