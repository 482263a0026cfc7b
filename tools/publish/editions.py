"""Editions of a lesson: copies in which some cells say something else, or are left out."""

from __future__ import annotations

import tomllib
from pathlib import Path

from nbformat import NotebookNode

from tools.build.sources import LessonError, read_notebook

EDITIONS = "editions.toml"


def edition(path: Path, name: str) -> NotebookNode:
    """Return the "student", "colab" or "site" edition of a notebook, by the file beside it.

    LessonError names a cell that the notebook does not have.
    """
    notebook, texts = read_notebook(path), path.with_name(EDITIONS)
    told = tomllib.loads(texts.read_text(encoding="utf-8"))[name] if texts.is_file() else {}
    cells = {cell.id: cell for cell in notebook.cells}
    for key, entry in told.items():
        lesson, _, cell = key.partition("/")
        if lesson != path.name[: len(lesson)]:
            continue
        if cell not in cells:
            raise LessonError(f"{texts.name}: {path.name} has no cell {cell!r} to be replaced.")
        cells[cell].source = entry["text"].strip()
        if not cells[cell].source:
            notebook.cells.remove(cells[cell])
    return notebook
