"""A pytest plugin that lets nbval run the notebooks and compares all that they store.

    pytest -p tools.check.strict_nbval notebooks

By itself nbval passes a cell that was never executed, wrong execution counts, a picture that was
replaced or deleted, and outputs in another order. It does not see the other positions of a control,
and no solution, because solutions are text. Its classes do the running here. Every output is then
compared by ``compare_outputs``. Each solution runs at its place, and each proof right after its
cell. After the last cell every control of every live figure is moved. That a cell gives the same
when it is run again alone is checked where lessons are built.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest import mock

import pytest
from nbformat import NotebookNode
from nbval.plugin import IPyNbCell, IPyNbFile

from tools.build.proofs import proofs_of
from tools.build.sources import (
    LIMIT,
    LessonError,
    fold,
    kernel_environment,
    outputs_in,
    tags,
    unfold,
)
from tools.check.compare import compare_outputs
from tools.publish.live_figures import SWEEP


class Notebook(IPyNbFile):
    """A notebook: tests for its code, solutions and proofs, and for controls of live figures."""

    def collect(self) -> Iterator[pytest.Item]:
        """Yield the tests in the order of the cells, each proof right after its cell."""
        tests = list(super().collect())  # and nbval reads the notebook
        try:
            proofs = proofs_of(self.path, self.nb.cells)
        except LessonError as error:
            raise self.CollectError(str(error)) from None
        codes = iter(tests)
        for cell in self.nb.cells:
            if cell.cell_type == "code":
                code = next(codes)
                parts = {"cell_num": code.cell_num, "cell": cell, "options": code.options}
                yield Cell.from_parent(self, name=code.name, **parts)
            elif "solution" in tags(cell):
                yield Part.from_parent(self, name=f"solution {cell.id}", run=self.solve, on=cell)
            if proof := proofs.get(cell.get("id")):
                yield Part.from_parent(
                    self, name=f"proof {cell.id}", run=self.run, on=proof.command
                )
        if tests:  # there are none in the glossary
            yield Part.from_parent(self, name="controls", run=self.run, on=SWEEP)

    def setup(self) -> None:
        """Start the kernel; start it again if it dies, because another process took its ports."""
        with mock.patch.dict(os.environ, kernel_environment(), clear=True):
            try:
                super().setup()
            except RuntimeError:
                super().setup()
        self.messages: list[dict] = []

    def get_kernel_message(self, timeout: float | None = None, stream: str = "iopub") -> dict:
        """Return the next message of the kernel, and keep it for the comparison."""
        message = super().get_kernel_message(timeout, stream)
        self.messages.append(message)
        return message

    def execute(self, code: str, *, silent: bool) -> tuple[dict[str, str], list[NotebookNode]]:
        """Execute code that no learner runs with the others; return the reply and the outputs."""
        sent: list[dict] = []
        options = {"store_history": False, "timeout": LIMIT, "output_hook": sent.append}
        reply = self.kernel.kc.execute_interactive(code, silent=silent, **options)
        return reply["content"], outputs_in(sent)

    def run(self, code: str) -> str:
        """Run a proof, or move all controls; return why that fails."""
        reply, _ = self.execute(code, silent=True)
        return "" if reply["status"] == "ok" else f"{reply['ename']}: {reply['evalue']}"

    def solve(self, cell: NotebookNode) -> str | None:
        """Run a solution; return how what it says differs from what is stored."""
        stored, fresh = unfold(cell), unfold(cell)
        _, fresh.outputs = self.execute(fresh.source, silent=False)
        return compare_outputs(stored.outputs, unfold(fold(fresh)).outputs)


class Cell(IPyNbCell):
    """A code cell, which passes if a run gives what is stored."""

    def runtest(self) -> None:
        """Execute the cell and compare its outputs with those that are stored."""
        count, wanted = self.cell.execution_count, self.cell_num + 1
        if count != wanted:
            self.raise_cell_error(
                f"The stored execution count is {count}, not {wanted}: "
                "the notebook was not stored after a run from top to bottom."
            )
        stored = copy.deepcopy(self.cell.outputs)  # because nbval changes them
        self.parent.messages.clear()
        super().runtest()
        run = self.parent.messages[-1]["parent_header"]  # it says that the cell is done
        sent = [message for message in self.parent.messages if message["parent_header"] == run]
        if difference := compare_outputs(stored, outputs_in(sent)):
            self.raise_cell_error(f"Its outputs differ: {difference}")

    def compare_outputs(self, *_outputs: object, **_options: object) -> bool:
        """Return True in place of nbval's comparison: ``runtest`` compares more."""
        return True


class Part(pytest.Item):
    """A part of a notebook that runs in its kernel, but not when all cells are run."""

    def __init__(self, *, run: Callable[..., str | None], on: object, **options) -> None:
        super().__init__(**options)
        self.run, self.on = run, on

    def reportinfo(self) -> tuple[Path, None, str]:
        """Return how the test is named in a report."""
        return self.path, None, f"{self.path.name}::{self.name}"

    def runtest(self) -> None:
        """Fail if the run returns a problem."""
        if problem := self.run(self.on):
            pytest.fail(f"{self.path.name}, {self.name}: {problem}", pytrace=False)


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> Notebook | None:
    """Collect every notebook that pytest finds."""
    return Notebook.from_parent(parent, path=file_path) if file_path.suffix == ".ipynb" else None
