"""Build the notebooks: execute each source in a fresh kernel and store it with its outputs.

    python -m tools.build.notebooks            all lessons
    python -m tools.build.notebooks 01 02      these lessons

The same source gives the same bytes: cell ids are made from the text of the cells, and times,
versions and everything random are left out. The figures of the lessons are written too.
"""

from __future__ import annotations

import asyncio
import copy
import re
import sys
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from nbformat import NotebookNode
from traitlets.config import Config

from tools.build.figures import extract
from tools.build.proofs import Proof, proofs_of
from tools.build.sources import (
    KERNELSPEC,
    LANGUAGE,
    LIMIT,
    NOTEBOOKS,
    LessonError,
    find_sources,
    fold,
    html_of,
    join_streams,
    kernel_environment,
    outputs_in,
    plain_traceback,
    read_source,
    select,
    strip_ansi,
    tags,
    write_notebook,
)
from tools.check.compare import compare_outputs

FAILURES = (CellExecutionError, CellTimeoutError, DeadKernelError, LessonError)
AT_ONCE = 2  # lessons that are built at the same time
LIBRARY = re.compile(
    r"globalThis\.attnlabModules \?\?= .*?(?=globalThis\.attnlabModules\?\.)", re.DOTALL
)
READING = threading.Lock()  # some Pythons fail when two threads parse code at once


def build(source: Path, folder: Path = NOTEBOOKS) -> Path:
    """Execute a source and write its notebook into ``folder``; return the notebook's path.

    If a cell or a proof fails, one of FAILURES is raised, and the old notebook stays.
    """
    target = folder / f"{source.stem}.ipynb"
    with READING:
        notebook = read_source(source)
        proofs = proofs_of(target, notebook.cells)
    execute(notebook, folder, proofs, again=True)
    finish(notebook)
    nbformat.validate(notebook)
    write_notebook(notebook, target)
    return target


class Client(NotebookClient):
    """A client that runs the proof of a cell right after the cell, and at the end all cells again.

    Then every code cell runs once more, from the last to the first, so that none prepares another:
    whoever has run all cells may run any of them again.
    """

    def __init__(
        self, notebook: NotebookNode, proofs: Mapping[str, Proof], again: bool, **options
    ) -> None:
        super().__init__(notebook, **options)
        self.proofs, self.again = proofs, again

    async def async_execute_cell(self, cell: NotebookNode, *place, **options) -> NotebookNode:
        """Execute a cell and its proof, if it has one; a text may have one too."""
        if "solution" in tags(cell):  # whoever runs all cells does not run it, so it is not counted
            options["store_history"] = False
            self.code_cells_executed -= 1
        done = await super().async_execute_cell(cell, *place, **options)
        if proof := self.proofs.get(cell.id):
            silence = {"silent": True, "output_hook": lambda message: None}
            reply = await self.kc.execute_interactive(proof.command, timeout=LIMIT, **silence)
            if why := reply["content"].get("evalue"):
                raise LessonError(f"the proof of the cell {cell.id!r} fails. {why}")
        if self.again and cell is self.nb.cells[-1]:
            for one in reversed(self.nb.cells):
                if one.cell_type == "code" and "raises-exception" not in tags(one):
                    await self._run_again(one)
        return done

    async def _run_again(self, cell: NotebookNode) -> None:
        sent: list[dict] = []
        options = {"store_history": False, "timeout": LIMIT, "output_hook": sent.append}
        await self.kc.execute_interactive(cell.source, **options)
        both = (without_library(outputs) for outputs in (cell.outputs, outputs_in(sent)))
        if difference := compare_outputs(*both):
            first = cell.source.strip().partition("\n")[0]
            raise LessonError(f"the cell {first!r}, run again alone, gives another: {difference}")


def without_library(outputs: Iterable[NotebookNode]) -> list[NotebookNode]:
    """Return outputs without the scripts that only the first explorer of a kernel carries."""
    found = copy.deepcopy(join_streams(outputs))
    for output in found:
        if page := html_of(output):
            output.data["text/html"] = LIBRARY.sub("", page)
    return found


def execute(
    notebook: NotebookNode, folder: Path, proofs: Mapping[str, Proof], *, again: bool = False
) -> None:
    """Run all cells and their proofs in a fresh kernel, with outputs made to be stored."""
    client = Client(
        notebook,
        proofs,
        again,
        timeout=LIMIT,
        kernel_name=KERNELSPEC["name"],
        record_timing=False,
        resources={"metadata": {"path": str(folder)}},
        config=Config(KernelManager={"transport_encryption": "auto"}),
    )
    run = client.async_execute(env=kernel_environment())
    with ThreadPoolExecutor(1) as own_thread:  # the caller's may have a running event loop
        own_thread.submit(asyncio.run, run).result()


def finish(notebook: NotebookNode) -> None:
    """Drop what differs from run to run, and fold the solutions."""
    notebook.metadata = nbformat.from_dict({"kernelspec": KERNELSPEC, "language_info": LANGUAGE})
    for cell in (one for one in notebook.cells if one.cell_type == "code"):
        cell.outputs = join_streams(cell.outputs)
        for output in cell.outputs:
            if "traceback" in output:
                output.traceback = plain_traceback(output.traceback)
    notebook.cells = [fold(cell) for cell in notebook.cells]


def explain(error: Exception, notebook: str) -> str:
    """Return in a few lines why a notebook could not be run or stored."""
    return f"{notebook}: this lesson failed, and the old notebook stays.\n{strip_ansi(str(error))}"


def build_all(sources: Sequence[Path], folder: Path = NOTEBOOKS) -> list[str]:
    """Build lessons, some at a time; return the names of those that fail."""

    def turn(source: Path) -> bool:
        start = time.perf_counter()
        try:
            target = build(source, folder)
        except FAILURES as error:
            print(explain(error, source.name), file=sys.stderr, flush=True)
            return False
        print(f"{target.name}  {time.perf_counter() - start:.1f} s", flush=True)
        return True

    with ThreadPoolExecutor(AT_ONCE) as turns:
        built = turns.map(turn, sources)
        return [source.stem for source, fine in zip(sources, built, strict=True) if not fine]


def main() -> None:
    """Build the lessons that the command line names, and write the figures of all."""
    failed = build_all(select(find_sources(), sys.argv[1:]))
    print(f"{extract()} figures in figures/")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
