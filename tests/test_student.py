"""The copies for a class equal the lessons minus solutions, answers and teacher notes."""

from __future__ import annotations

import ast
import copy
import re

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from tools import student
from tools.lint.lesson import defined_names, parse_code
from tools.notebooks import find_notebooks, is_lesson, read_notebook, tags
from tools.student import student_copy, write_copies

LESSONS = [path for path in find_notebooks() if is_lesson(path)]


def lesson_of(*cells):
    kinds = {"code": new_code_cell, "markdown": new_markdown_cell}
    made = [kinds[kind](source, metadata={"tags": names}) for kind, source, names in cells]
    return new_notebook(cells=made)


def test_solutions_teacher_notes_and_answers_are_left_out_and_the_rest_stays():
    lesson = lesson_of(
        ("markdown", "Why?\n\n<details><summary>Hint</summary>Add.</details>", []),
        ("code", "def f():\n    pass", ["exercise"]),
        ("code", "check(f)", []),
        ("code", "f_solution = 1", ["solution"]),
        ("markdown", "Say.\n<details><summary>An answer</summary>\nIt is 2.\n</details>", []),
        ("markdown", "<details><summary>For teachers: time</summary>45</details>", ["teacher"]),
        ("code", "predict('00/key')", []),
    )
    lesson.cells[2].outputs = [nbformat.v4.new_output("stream", text="not done yet")]
    before = copy.deepcopy(lesson)
    stub = student_copy(lesson)
    assert lesson == before
    assert [cell.source for cell in stub.cells] == [
        "Why?\n\n<details><summary>Hint</summary>Add.</details>",
        "def f():\n    pass",
        "check(f)",
        "Say.",
        "predict('00/key')",
    ]
    assert stub.cells[2].outputs[0].text == "not done yet"


@pytest.fixture(scope="module")
def copies(tmp_path_factory):
    folder = tmp_path_factory.mktemp("class") / "student"
    return {path.name: path for path in write_copies(copies=folder)}


@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_a_copy_is_its_lesson_minus_solutions(copies, path):
    lesson, stub = read_notebook(path), read_notebook(copies[path.name])
    nbformat.validate(stub)
    kept = [cell for cell in lesson.cells if not {"solution", "teacher"} & set(tags(cell))]
    assert len(kept) < len(lesson.cells)
    assert [cell.id for cell in stub.cells] == [cell.id for cell in kept]
    for ours, theirs in zip(stub.cells, kept, strict=True):
        if ours.cell_type == "code":
            assert ours == theirs
        else:
            assert theirs.source.startswith(ours.source)
    text = "\n".join(cell.source for cell in stub.cells)
    assert "_solution" not in text
    assert not re.search("<summary>(An answer|For teachers)", text)


@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_no_cell_of_a_copy_needs_a_solution(path):
    cells = [cell for cell in read_notebook(path).cells if cell.cell_type == "code"]
    solved = [cell for cell in cells if "solution" in tags(cell)]
    others = [cell for cell in cells if "solution" not in tags(cell)]
    only = {name for cell in solved for name in defined_names(cell.source)}
    only -= {name for cell in others for name in defined_names(cell.source)}
    read = [node for cell in others for node in ast.walk(parse_code(cell.source))]
    assert only
    assert not only & {node.id for node in read if isinstance(node, ast.Name)}


def test_copies_are_written_again_and_other_files_stay(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    first = write_copies(copies=tmp_path)
    first[0].write_text("scribbled")
    write_copies(copies=tmp_path)
    assert read_notebook(first[0]).cells
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_git_ignores_the_copies():
    ignored = (student.ROOT / ".gitignore").read_text().splitlines()
    assert f"{student.COPIES.name}/" in ignored
