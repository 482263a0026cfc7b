"""A pytest plugin that lets nbval run the notebooks and compares all that they store.

    pytest -p tools.strict_nbval notebooks

By itself nbval passes a cell that was never executed, wrong execution counts, a picture that was
replaced or deleted, and outputs in another order; and it cannot see the other positions of a
control. Its classes do the running here. Every output is then compared by ``compare_outputs``, and
each proof runs right after its cell. After the last cell every control of every live figure is
moved, and then every cell runs once more.
"""

from __future__ import annotations

import copy
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from unittest import mock

import pytest
from nbformat import NotebookNode
from nbformat.v4 import output_from_msg
from nbval.plugin import IPyNbCell, IPyNbFile

from tools.compare_outputs import compare_outputs
from tools.live_figures import SWEEP
from tools.notebooks import LIMIT, LessonError, join_streams, kernel_environment, tags
from tools.proofs import Proof, proofs_of

OUTPUTS = {"display_data", "error", "execute_result", "stream"}
LIBRARY = re.compile(
    r"globalThis\.attnlabModules \?\?= .*?(?=globalThis\.attnlabModules\?\.)", re.DOTALL
)


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
        if not tests:  # the glossary
            return
        # first the controls: afterwards there is a second figure from each cell that runs again
        yield Controls.from_parent(self, name="controls")
        yield Again.from_parent(self, name="again")

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
        # the last message says that the cell is done
        run = self.parent.messages[-1]["parent_header"]["msg_id"]
        if difference := compare_outputs(stored, outputs_of(self.parent.messages, run)):
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


class Again(Unseen):
    """Every code cell once more, from the last to the first, so that none prepares another."""

    def runtest(self) -> None:
        """Fail if a cell no longer gives what is stored; one that is meant to fail is left out."""
        changed, client = [], self.parent.kernel.kc
        for number, cell in reversed([*enumerate(self.parent.nb.cells, start=1)]):
            if cell.cell_type == "code" and "raises-exception" not in tags(cell):
                messages: list[dict] = []
                reply = client.execute_interactive(
                    cell.source, store_history=False, timeout=LIMIT, output_hook=messages.append
                )
                fresh = outputs_of(messages, reply["parent_header"]["msg_id"])
                stored = without_library(join_streams(cell.outputs))
                difference = compare_outputs(stored, without_library(fresh))
                for error in (one for one in fresh if one.output_type == "error"):
                    difference = f"{error.ename}: {error.evalue}"
                if difference:
                    first = cell.source.strip().splitlines()[:1]
                    changed.append(f"cell {number} {first}, run again alone: {difference}")
        if changed:
            pytest.fail("\n".join(changed), pytrace=False)


class Controls(Unseen):
    """Every control of a notebook's live figures, moved in the kernel that has run its cells."""

    def runtest(self) -> None:
        """Fail if a figure cannot be drawn at a stop, or if a control changes nothing."""
        reply = self.parent.run_silently(SWEEP)
        if reply["status"] != "ok":
            pytest.fail(f"{reply['ename']}: {reply['evalue']}", pytrace=False)


def outputs_of(messages: Iterable[dict], run: str) -> list[NotebookNode]:
    """Return the outputs of a run in their order; nbval itself joins streams and loses it."""
    return join_streams(
        output_from_msg(message)
        for message in messages
        if message["msg_type"] in OUTPUTS and message["parent_header"]["msg_id"] == run
    )


def without_library(outputs: Iterable[NotebookNode]) -> list[NotebookNode]:
    """Return outputs without the scripts that only the first explorer of a kernel carries."""
    found = copy.deepcopy(list(outputs))
    for output in found:
        if page := output.get("data", {}).get("text/html"):
            output.data["text/html"] = LIBRARY.sub("", page)
    return found


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> Notebook | None:
    """Collect every notebook that pytest finds."""
    return Notebook.from_parent(parent, path=file_path) if file_path.suffix == ".ipynb" else None
