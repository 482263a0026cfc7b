"""Build the notebooks: execute each source in a fresh kernel and store it with its outputs.

    python -m tools.build_notebooks            all lessons
    python -m tools.build_notebooks 01 02      these

The same source gives the same bytes: cell ids come from the text of the cells, and times,
versions and everything random are left out.
"""

from __future__ import annotations

import os
import re
import sys
import time
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from nbformat import NotebookNode

from tools.notebooks import (
    KERNELSPEC,
    LANGUAGE,
    NOTEBOOKS,
    find_sources,
    join_streams,
    plain_traceback,
    read_source,
    select,
    strip_ansi,
    tags,
)

TIMEOUT = 120  # seconds for one cell


def build(source: Path, folder: Path = NOTEBOOKS) -> Path:
    """Execute a source and write its notebook into ``folder``; return the notebook's path.

    Raises
    ------
    CellExecutionError
        If a cell fails that is not tagged ``raises-exception``. The old notebook stays.
    """
    notebook = read_source(source)
    execute(notebook, folder)
    finish(notebook)
    nbformat.validate(notebook)
    target = folder / f"{source.stem}.ipynb"
    target.write_text(nbformat.writes(notebook) + "\n", encoding="utf-8")
    return target


def execute(notebook: NotebookNode, folder: Path) -> None:
    """Run all cells in a fresh kernel, with outputs made to be stored."""
    client = NotebookClient(
        notebook,
        timeout=TIMEOUT,
        kernel_name=KERNELSPEC["name"],
        record_timing=False,
        resources={"metadata": {"path": str(folder)}},
    )
    client.execute(env=kernel_environment())


def kernel_environment() -> dict[str, str]:
    """Return the variables of a kernel: this process's, without a choice of how to draw."""
    ours = {name: value for name, value in os.environ.items() if name != "MPLBACKEND"}
    return {**ours, "ATTNLAB_STATIC": "1"}


def finish(notebook: NotebookNode) -> None:
    """Add what the build decides (folding, slides) and drop what differs from run to run."""
    notebook.metadata = nbformat.from_dict({"kernelspec": KERNELSPEC, "language_info": LANGUAGE})
    for number, cell in enumerate(notebook.cells):
        cell.metadata.pop("execution", None)
        if "reveal" in tags(cell):
            cell.metadata.setdefault("jupyter", {})["outputs_hidden"] = True
        cell.metadata["slideshow"] = {"slide_type": _slide(cell, number)}
        if cell.cell_type != "code":
            continue
        cell.outputs = join_streams(cell.outputs)
        for output in cell.outputs:
            if "traceback" in output:
                output.traceback = plain_traceback(output.traceback)


def _slide(cell: NotebookNode, number: int) -> str:
    """Return how a cell appears on slides: a heading begins one, a prediction waits for a click."""
    if {"exercise", "solution"} & set(tags(cell)) or "<details>" in cell.source:
        return "skip"
    if cell.cell_type == "markdown":
        if number == 0 or re.search(r"^## ", cell.source, re.MULTILINE):
            return "slide"
        if re.search(r"^### ", cell.source, re.MULTILINE):
            return "subslide"
    return "fragment" if "reveal" in tags(cell) else "-"


def explain(error: CellExecutionError, notebook: str) -> str:
    """Return in a few lines which cell of a notebook failed and why."""
    lines = strip_ansi(str(error)).strip().splitlines()
    return "\n".join([f"{notebook}: a cell failed, the old notebook stays.", *lines])


def main() -> None:
    """Build what the command line names."""
    for source in select(find_sources(), sys.argv[1:]):
        start = time.perf_counter()
        try:
            target = build(source)
        except CellExecutionError as error:
            sys.exit(explain(error, source.name))
        print(f"{target.name}  {time.perf_counter() - start:.1f} s", flush=True)


if __name__ == "__main__":
    main()
