"""The page for teachers of the site: TEACHING.md, with the notes of all lessons after it."""

from __future__ import annotations

from pathlib import Path

import nbformat
from nbformat.v4 import new_markdown_cell, new_notebook

from tools.notebooks import ROOT, is_lesson, read_notebook, tags

TEXT = ROOT / "TEACHING.md"
PLANS = "## Plans of the lessons"


def write_page(folder: Path, lessons: list[Path]) -> Path:
    """Write the page for teachers as a notebook into a folder, and return its path."""
    parts = [TEXT.read_text(encoding="utf-8").rstrip(), PLANS]
    for path in filter(is_lesson, lessons):
        cells = read_notebook(path).cells
        title = cells[0].source.partition("\n")[0].lstrip("# ")
        parts.append(f"### [{title}]({path.name})")
        parts += [cell.source for cell in cells if "teacher" in tags(cell)]
    page = folder / "teaching.ipynb"
    nbformat.write(new_notebook(cells=[new_markdown_cell(part) for part in parts]), page)
    return page
