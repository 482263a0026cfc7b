"""Build the notebooks: execute each source in a fresh kernel and store it with its outputs.

    python -m tools.build.notebooks            all lessons
    python -m tools.build.notebooks 01 02      these lessons

The same source gives the same bytes: cell ids are made from the text of the cells, and times,
versions and everything random are left out. The figures of the lessons are written too.

Two kernels run each lesson side by side. The first makes the outputs, and then runs every cell
again. The second computes as on an older processor, and runs the proofs: a lesson that says
something else there is refused.
"""

from __future__ import annotations

import asyncio
import copy
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

from attnlab.explorers.frame import bundle
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
# torch and its libraries for matrices then use none of the instructions that differ from one
# processor to the next; each is ignored where it does not apply.
OLDER_PROCESSOR = {
    "ATEN_CPU_CAPABILITY": "default",
    "MKL_CBWR": "COMPATIBLE",
    "ONEDNN_MAX_CPU_ISA": "AVX2",
}
READING = threading.Lock()  # some Pythons fail when two threads parse code at once


def build(source: Path, folder: Path = NOTEBOOKS) -> Path:
    """Execute a source and write its notebook into ``folder``; return the notebook's path.

    If a cell or a proof fails, one of FAILURES is raised, and the old notebook stays.
    """
    target = folder / f"{source.stem}.ipynb"
    with READING:
        notebook = read_source(source)
        proofs = proofs_of(target, notebook.cells)
    elsewhere = copy.deepcopy(notebook)
    runs_here = Client(notebook, folder, again=True)
    runs_elsewhere = Client(elsewhere, folder, proofs, variables=OLDER_PROCESSOR)
    _finish_all(runs_here, runs_elsewhere)
    for cell, cell_elsewhere in zip(notebook.cells, elsewhere.cells, strict=True):
        _refuse_another(cell, cell_elsewhere.get("outputs", []), f"with {runs_elsewhere.place}")
    finish(notebook)
    nbformat.validate(notebook)
    write_notebook(notebook, target)
    return target


class Client(NotebookClient):
    """A client that runs a notebook in a fresh kernel, and each proof right after its cell.

    With ``again``, every code cell then runs once more, from the last to the first, so that none
    prepares another: whoever has run all cells may run any of them again. ``variables`` are added
    to those of the kernel.
    """

    def __init__(
        self,
        notebook: NotebookNode,
        folder: Path,
        proofs: Mapping[str, Proof] | None = None,
        *,
        again: bool = False,
        variables: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(
            notebook,
            timeout=LIMIT,
            kernel_name=KERNELSPEC["name"],
            record_timing=False,
            resources={"metadata": {"path": str(folder)}},
            config=Config(KernelManager={"transport_encryption": "auto"}),
        )
        self.proofs, self.again, self.variables = proofs or {}, again, variables or {}
        self.place = " ".join(f"{name}={value}" for name, value in self.variables.items())

    async def run(self) -> None:
        """Run all cells and their proofs, with outputs made to be stored."""
        try:
            await self.async_execute(env={**kernel_environment(), **self.variables})
        except FAILURES as error:
            if self.variables:
                raise LessonError(f"With {self.place}: {error}") from None
            raise

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
            for earlier in reversed(self.nb.cells):
                if earlier.cell_type == "code" and "raises-exception" not in tags(earlier):
                    await self._run_again(earlier)
        return done

    async def _run_again(self, cell: NotebookNode) -> None:
        sent: list[dict] = []
        options = {"store_history": False, "timeout": LIMIT, "output_hook": sent.append}
        await self.kc.execute_interactive(cell.source, **options)
        _refuse_another(cell, outputs_in(sent), "run again alone")


def _refuse_another(cell: NotebookNode, fresh: Iterable[NotebookNode], how: str) -> None:
    """Raise LessonError if a cell gave other outputs than those that it holds."""
    both = (without_library(outputs) for outputs in (cell.get("outputs", []), fresh))
    if difference := compare_outputs(*both):
        first = cell.source.strip().partition("\n")[0]
        raise LessonError(f"the cell {first!r}, {how}, gives another: {difference}")


def without_library(outputs: Iterable[NotebookNode]) -> list[NotebookNode]:
    """Return outputs without the scripts that only the first explorer of a kernel carries."""
    kept = copy.deepcopy(join_streams(outputs))
    for output in kept:
        if page := html_of(output):
            output.data["text/html"] = bundle.without_library(page)
    return kept


def execute(notebook: NotebookNode, folder: Path, proofs: Mapping[str, Proof]) -> None:
    """Run all cells and their proofs in a fresh kernel, with outputs made to be stored."""
    _finish_all(Client(notebook, folder, proofs))


def _finish_all(*clients: Client) -> None:
    """Let clients run side by side, and then raise what the first of them has raised, if any."""

    async def run() -> list[BaseException | None]:
        return await asyncio.gather(*(client.run() for client in clients), return_exceptions=True)

    with ThreadPoolExecutor(1) as own_thread:  # the caller's may have a running event loop
        raised = own_thread.submit(asyncio.run, run()).result()
    for error in filter(None, raised):
        raise error


def finish(notebook: NotebookNode) -> None:
    """Drop what differs from run to run, and fold the solutions."""
    notebook.metadata = nbformat.from_dict({"kernelspec": KERNELSPEC, "language_info": LANGUAGE})
    for cell in (cell for cell in notebook.cells if cell.cell_type == "code"):
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
