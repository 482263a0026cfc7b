"""Write copies of the lessons for a class, without solutions and teacher notes: `make student`.

A copy has no outputs, since learners run it themselves. Its last cell writes what they did into a
file to hand in. The page START_HERE.md says how to open the copies.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Set
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from tools.build.sources import ROOT, find_notebooks, is_lesson, tags, write_copies
from tools.publish.editions import edition

COPIES = ROOT / "student"
LEFT_OUT = frozenset({"solution", "teacher"})
# A fold that a source writes itself: a hint, an answer to a task without a check, a note. A parser
# of Markdown takes it apart where it holds an empty line, and one of HTML changes the Markdown.
FOLD = re.compile(r"\n*<details><summary>(?P<summary>[^<]*).*?</details>", re.DOTALL)
HAND_IN = """## Hand in

Write your name between the quotes, save the notebook, and run the cell below. It writes a file
beside this notebook and says what is in it. Hand in that file."""
PAGE = "START_HERE.md"
START_HERE = Path(__file__).with_name(PAGE)


def leave_out(notebook: NotebookNode, left_out: Set[str]) -> NotebookNode:
    """Take the cells with one of some tags out of a notebook: solution, teacher; return it.

    Without solutions it has no folded answers to exercises either.
    """
    notebook.cells = [cell for cell in notebook.cells if not left_out & set(tags(cell))]
    for cell in notebook.cells:
        if cell.cell_type == "markdown" and "solution" in left_out:
            cell.source = without_folds(cell.source, lambda summary: summary == "An answer")
    return notebook


def without_folds(text: str, goes: Callable[[str], bool]) -> str:
    """Return Markdown without the folds that go; ``goes`` decides that by their summaries."""
    return FOLD.sub(lambda fold: "" if goes(fold["summary"]) else fold[0], text)


def hand_out(path: Path) -> NotebookNode:
    """Return the copy of a lesson that learners get, without outputs; its last cell hands it in.

    The folds that it keeps are hints, and texts that wait for a prediction, which are part of the
    lesson.
    """
    notebook = leave_out(edition(path, "student"), LEFT_OUT)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
        else:
            cell.source = without_folds(cell.source, lambda summary: summary != "Hint").strip()
    notebook.cells = [cell for cell in notebook.cells if cell.source]
    if is_lesson(path):
        call = f'from attnlab.exercises import hand_in\n\nhand_in("{path.name[:2]}", name="")'
        notebook.cells += [
            nbformat.v4.new_markdown_cell(HAND_IN, id="hand-in-text"),
            nbformat.v4.new_code_cell(call, id="hand-in"),
        ]
    return notebook


def write_class(folder: Path = COPIES) -> list[Path]:
    """Write a copy of every lesson, and the page, over older ones; return the copies."""
    copies = write_copies(find_notebooks(), folder, hand_out)
    shutil.copyfile(START_HERE, folder / PAGE)
    return copies


def main() -> None:
    """Write the copies and print how many there are."""
    count = len(write_class())
    print(f"{COPIES.name}/ now contains {count} notebooks without solutions, and {PAGE}.")


if __name__ == "__main__":
    main()
