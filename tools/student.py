"""Write copies of the lessons for a class, without answers and teacher notes: `make student`.

A copy holds no outputs, since they show what the predictions ask for. At its end a cell writes what
the learner did into a file to hand in. The page START_HERE.md says how to open the copies.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Set
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from tools.notebooks import NOTEBOOKS, ROOT, find_notebooks, is_lesson, read_notebook, tags

COPIES = ROOT / "student"
LEFT_OUT = frozenset({"solution", "teacher"})
ANSWER = re.compile(r"\n*<details><summary>An answer</summary>.*?</details>", re.DOTALL)

FOLD = re.compile(r"\n*<details><summary>(?!Hint).*?</details>", re.DOTALL)
HAND_IN = """## Hand in

Write your name between the quotes. Restart the kernel, run all cells and answer the predictions on
the way, so that the file holds all that you did. The last cell writes it beside this notebook."""
PAGE = "START_HERE.md"
START_HERE = """# Start here

These notebooks are the lessons of attnlab. Begin with [lesson 0](00_start_here.ipynb).

- **On a hub or a computer of your school**, everything is installed. Upload this folder, and open
  a notebook in it.
- **On your own computer**, you need Python 3.11 or newer. Ask your teacher for the address of
  attnlab, and run these two commands in this folder:

  ```
  pip install "attnlab[lessons] @ git+ADDRESS"
  jupyter lab
  ```

Predict before you run a cell that begins with `%%answer`. The check below an exercise tells you
what is not right yet, as often as you like. When you have finished a lesson, write your name into
its last cell and run it. It names the file that you hand in.
"""


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


def hand_out(path: Path) -> NotebookNode:
    """Return the copy of a lesson that learners get: nothing in it tells an answer.

    Of the folds, hints are kept. The outputs go, and a cell that hands in comes.
    """
    notebook = student_copy(read_notebook(path))
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
        else:
            cell.source = FOLD.sub("", cell.source).strip()
    notebook.cells = [cell for cell in notebook.cells if cell.source]
    if is_lesson(path):
        call = f'from attnlab.exercises import hand_in\n\nhand_in("{path.name[:2]}", name="")'
        notebook.cells += [
            nbformat.v4.new_markdown_cell(HAND_IN, id="hand-in-text"),
            nbformat.v4.new_code_cell(call, id="hand-in"),
        ]
    return notebook


def write_copies(lessons: Path = NOTEBOOKS, copies: Path = COPIES) -> list[Path]:
    """Write a copy of every lesson of a folder over older ones; return the copies."""
    copies.mkdir(exist_ok=True)
    (copies / PAGE).write_text(START_HERE, encoding="utf-8")
    written = []
    for path in find_notebooks(lessons):
        target = copies / path.name
        target.write_text(nbformat.writes(hand_out(path)) + "\n", encoding="utf-8")
        written.append(target)
    return written


def main() -> None:
    """Write the copies and print how many there are."""
    count = len(write_copies())
    print(f"{COPIES.name}/ holds {count} notebooks without answers, and {PAGE}.")


if __name__ == "__main__":
    main()
