"""Write copies of the lessons for a class, without solutions and teacher notes: `make student`."""

from __future__ import annotations

import copy
import re
from collections.abc import Set
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from tools.notebooks import NOTEBOOKS, ROOT, find_notebooks, read_notebook, tags

COPIES = ROOT / "student"
LEFT_OUT = frozenset({"solution", "teacher"})
ANSWER = re.compile(r"\n*<details><summary>An answer</summary>.*?</details>", re.DOTALL)


def student_copy(lesson: NotebookNode, left_out: Set[str] = LEFT_OUT) -> NotebookNode:
    """Return a copy without the cells that have one of some tags: solution, teacher.

    Without solutions it has no folded answers either. All other cells stay with their outputs, and
    so do hints.
    """
    notebook = copy.deepcopy(lesson)
    notebook.cells = [cell for cell in notebook.cells if not left_out & set(tags(cell))]
    for cell in notebook.cells:
        if cell.cell_type == "markdown" and "solution" in left_out:
            cell.source = ANSWER.sub("", cell.source)
    return notebook


def write_copies(lessons: Path = NOTEBOOKS, copies: Path = COPIES) -> list[Path]:
    """Write a copy of every lesson of a folder over older ones; return the copies."""
    copies.mkdir(exist_ok=True)
    written = []
    for path in find_notebooks(lessons):
        target = copies / path.name
        text = nbformat.writes(student_copy(read_notebook(path)))
        target.write_text(text + "\n", encoding="utf-8")
        written.append(target)
    return written


def main() -> None:
    """Write the copies and print how many there are."""
    count = len(write_copies())
    print(f"{COPIES.name}/ holds {count} lessons without solutions and teacher notes.")


if __name__ == "__main__":
    main()
