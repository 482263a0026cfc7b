"""Build the notebooks: execute each source in a fresh kernel and store it with its outputs.

    python -m tools.build_notebooks            the lessons that have changed
    python -m tools.build_notebooks 01 02      these lessons
    python -m tools.build_notebooks all        all lessons

The same source gives the same bytes: cell ids are made from the text of the cells, and times,
versions and everything random are left out. A lesson has changed if its source, its notebook, or
anything that all lessons are built with is not what it was after the last build in this folder.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from nbformat import NotebookNode
from traitlets.config import Config

from tools.extract_figures import captions_in, extract
from tools.notebooks import (
    KERNELSPEC,
    LANGUAGE,
    NOTEBOOKS,
    ROOT,
    LessonError,
    find_sources,
    is_lesson,
    join_streams,
    kernel_environment,
    plain_traceback,
    read_source,
    select,
    strip_ansi,
    tags,
    write_notebook,
)
from tools.proofs import LIMIT, Proof, proof_file, proofs_of

TIMEOUT = 120  # seconds for one cell
FAILURES = (CellExecutionError, CellTimeoutError, DeadKernelError, LessonError)
AT_ONCE = 2  # lessons that are built at the same time
RECORD = ROOT / ".venv" / "built.json"  # what each lesson was built from, by its name
BUILDING = ("tools/build_notebooks.py", "tools/notebooks.py", "tools/proofs.py")
SHARED = ("attnlab", "data", "environment.yml", *BUILDING)


def build(source: Path, folder: Path = NOTEBOOKS) -> Path:
    """Execute a source and write its notebook into ``folder``; return the notebook's path.

    If a cell or a proof fails, one of FAILURES is raised, and the old notebook stays.
    """
    notebook, target = read_source(source), folder / f"{source.stem}.ipynb"
    execute(notebook, folder, proofs_of(target, notebook.cells))
    finish(notebook)
    nbformat.validate(notebook)
    write_notebook(notebook, target)
    return target


class Client(NotebookClient):
    """A client that runs the proof of a cell right after the cell."""

    def __init__(self, notebook: NotebookNode, proofs: Mapping[str, Proof], **options) -> None:
        super().__init__(notebook, **options)
        self.proofs = proofs

    async def async_execute_cell(self, cell: NotebookNode, *place, **options) -> NotebookNode:
        """Execute a cell and its proof, if it has one; a text may have one too."""
        done = await super().async_execute_cell(cell, *place, **options)
        if proof := self.proofs.get(cell.id):
            silence = {"silent": True, "output_hook": lambda message: None}
            reply = await self.kc.execute_interactive(proof.command, timeout=LIMIT, **silence)
            if problem := proof.explain(reply["content"]):
                raise LessonError(problem)
        return done


def execute(notebook: NotebookNode, folder: Path, proofs: Mapping[str, Proof]) -> None:
    """Run all cells and their proofs in a fresh kernel, with outputs made to be stored."""
    client = Client(
        notebook,
        proofs,
        timeout=TIMEOUT,
        kernel_name=KERNELSPEC["name"],
        record_timing=False,
        resources={"metadata": {"path": str(folder)}},
        config=Config(KernelManager={"transport_encryption": "auto"}),
    )
    run = client.async_execute(env=kernel_environment())
    with ThreadPoolExecutor(1) as own_thread:  # the caller's may have a running event loop
        own_thread.submit(asyncio.run, run).result()


def finish(notebook: NotebookNode) -> None:
    """Add what the build decides (slides) and drop what differs from run to run."""
    notebook.metadata = nbformat.from_dict({"kernelspec": KERNELSPEC, "language_info": LANGUAGE})
    for number, cell in enumerate(notebook.cells):
        cell.metadata.pop("execution", None)
        cell.metadata["slideshow"] = {"slide_type": _slide(cell, number)}
        if cell.cell_type != "code":
            continue
        cell.outputs = join_streams(cell.outputs)
        for output in cell.outputs:
            if "traceback" in output:
                output.traceback = plain_traceback(output.traceback)


def _slide(cell: NotebookNode, number: int) -> str:
    """Return how a cell appears on slides: a heading begins one, an answer waits for a click."""
    if {"exercise", "solution"} & set(tags(cell)) or "<details>" in cell.source:
        return "skip"
    if cell.cell_type == "markdown":
        if number == 0 or re.search(r"^## ", cell.source, re.MULTILINE):
            return "slide"
        if re.search(r"^### ", cell.source, re.MULTILINE):
            return "subslide"
    return "fragment" if cell.source.startswith("%%answer") else "-"


def explain(error: Exception, notebook: str) -> str:
    """Return in a few lines which cell or proof of a notebook failed and why."""
    what = "a name or a proof" if isinstance(error, LessonError) else "a cell"
    lines = strip_ansi(str(error)).strip().splitlines()
    return "\n".join([f"{notebook}: {what} failed, and the old notebook stays.", *lines])


# --- which lessons have changed -------------------------------------------------------------------


def fingerprint(source: Path, folder: Path = NOTEBOOKS, root: Path = ROOT) -> str:
    """Return a digest of a source, of its notebook, and of what all lessons are built with."""
    shared = [path for name in SHARED for path in [root / name, *sorted((root / name).rglob("*"))]]
    digest = hashlib.sha256()
    target = folder / f"{source.stem}.ipynb"
    ours = [source, target, proof_file(target), folder / "predictions" / f"{source.stem}.toml"]
    for path in [*ours, *shared]:
        if path.is_file() and path.suffix != ".pyc":
            digest.update(hashlib.sha256(path.read_bytes()).digest())
    if is_lesson(source):
        entries, number = captions_in(root / "figures"), int(source.stem[:2])
        ours = {name: entry for name, entry in entries.items() if name.startswith(f"{number}.")}
        digest.update(repr(ours).encode())
    return digest.hexdigest()


def read_record(record: Path = RECORD) -> dict[str, str]:
    """Return the fingerprint of each lesson after its last build, by its name."""
    return json.loads(record.read_text(encoding="utf-8")) if record.exists() else {}


def build_all(
    sources: Sequence[Path], folder: Path = NOTEBOOKS, record: Path = RECORD
) -> list[str]:
    """Build lessons, some at a time, and record their fingerprints; return those that fail."""
    failed = []

    def turn(source: Path) -> None:
        start = time.perf_counter()
        try:
            target = build(source, folder)
        except FAILURES as error:
            failed.append(source.stem)
            print(explain(error, source.name), file=sys.stderr, flush=True)
        else:
            print(f"{target.name}  {time.perf_counter() - start:.1f} s", flush=True)

    with ThreadPoolExecutor(AT_ONCE) as turns:
        for source, _ in zip(sources, turns.map(turn, sources), strict=True):
            if source.stem not in failed:
                built = read_record(record) | {source.stem: fingerprint(source, folder)}
                record.write_text(json.dumps(built, indent=1), encoding="utf-8")
    return sorted(failed)


def main() -> None:
    """Build the lessons that the command line names, or those that have changed."""
    wanted, sources, record = sys.argv[1:], find_sources(), read_record()
    if not wanted:
        sources = [one for one in sources if record.get(one.stem) != fingerprint(one)]
    elif wanted != ["all"]:
        sources = select(sources, wanted)
    if not sources:
        print("No lesson has changed; NB=04 builds lesson 04 in any case, and NB=all builds all.")
    failed = build_all(sources)
    print(f"{extract()} figures in figures/")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
