"""A pytest plugin that lets nbval run the notebooks and compares all that they store.

    pytest -p tools.strict_nbval notebooks

By itself nbval passes a cell that was never executed, wrong execution counts, a picture that was
replaced or deleted, and outputs in another order; and it cannot see the other positions of a
control. Its classes do the running here. Every output is then compared by ``compare_outputs``, and
each proof runs right after its cell. After the last cell every control of every live figure is
moved. That a cell gives the same when it is run again alone is checked where lessons are built.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest
from nbval.plugin import IPyNbCell, IPyNbFile

from tools.compare_outputs import compare_outputs
from tools.live_figures import SWEEP
from tools.notebooks import LIMIT, LessonError, join_streams, kernel_environment, outputs_in
from tools.proofs import Proof, proofs_of


class Notebook(IPyNbFile):
    """A notebook: tests for its code cells, their proofs, and the controls of its live figures."""

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
            if proof := proofs.get(cell.get("id")):
                yield Block.from_parent(self, name=f"proof {cell.id}", proof=proof)
        if tests:  # there are none in the glossary
            yield Controls.from_parent(self, name="controls")

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

    def run_silently(self, code: str) -> dict[str, str]:
        """Execute code that is no part of the lesson; return what the kernel replies."""
        return self.kernel.kc.execute_interactive(
            code, silent=True, timeout=LIMIT, output_hook=lambda message: None
        )["content"]


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
        stored = join_streams(self.cell.outputs)  # copies, because nbval changes them
        self.parent.messages.clear()
        super().runtest()
        run = self.parent.messages[-1]["parent_header"]  # it says that the cell is done
        sent = [one for one in self.parent.messages if one["parent_header"] == run]
        if difference := compare_outputs(stored, outputs_in(sent)):
            self.raise_cell_error(f"Its outputs differ: {difference}")

    def compare_outputs(self, *_outputs: object, **_options: object) -> bool:
        """Return True in place of nbval's comparison: ``runtest`` compares more."""
        return True


class Unseen(pytest.Item):
    """A test that runs in the kernel of a notebook and is no cell of it."""

    def reportinfo(self) -> tuple[Path, None, str]:
        """Return how the test is named in a report."""
        return self.path, None, f"{self.path.name}::{self.name}"


class Block(Unseen):
    """The proof of a cell."""

    def __init__(self, *, proof: Proof, **options) -> None:
        super().__init__(**options)
        self.proof = proof

    def runtest(self) -> None:
        """Fail if the proof does."""
        if problem := self.proof.explain(self.parent.run_silently(self.proof.command)):
            pytest.fail(f"{self.path.name}: {problem}", pytrace=False)


class Controls(Unseen):
    """Every control of a notebook's live figures, moved in the kernel that has run its cells."""

    def runtest(self) -> None:
        """Fail if a figure cannot be drawn at a stop, or if a control changes nothing."""
        reply = self.parent.run_silently(SWEEP)
        if reply["status"] != "ok":
            pytest.fail(f"{reply['ename']}: {reply['evalue']}", pytrace=False)


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> Notebook | None:
    """Collect every notebook that pytest finds."""
    return Notebook.from_parent(parent, path=file_path) if file_path.suffix == ".ipynb" else None
