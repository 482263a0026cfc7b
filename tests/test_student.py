"""The copies for a class are the lessons without answers and teacher notes."""

from __future__ import annotations

import ast
import copy
import html
import re
import tomllib

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from attnlab._texts import prediction_files
from attnlab.exercises._predict import _formatted
from tools import student
from tools.lint.lesson import defined_names, parse_code
from tools.notebooks import find_notebooks, is_lesson, read_notebook, tags
from tools.student import student_copy, write_class

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
    return {path.name: path for path in write_class(folder)}


@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_a_copy_is_its_lesson_without_answers(copies, path):
    lesson, stub = read_notebook(path), read_notebook(copies[path.name])
    nbformat.validate(stub)
    *asked, _, last = stub.cells
    sources = {cell.id: cell.source for cell in lesson.cells}
    gone = [cell for cell in lesson.cells if cell.id not in {one.id for one in asked}]
    only_folds = [cell for cell in gone if not {"solution", "teacher"} & set(tags(cell))]
    assert len(gone) > len(only_folds)
    assert all(cell.source.startswith("<details>") for cell in only_folds)
    for cell in asked:
        if cell.cell_type == "code":
            assert cell.source == sources[cell.id]
        else:
            replaced = any(text in cell.source for text in student.PASSAGES.values())
            assert replaced or set(cell.source.split()) <= set(sources[cell.id].split())
    assert last.source.endswith(f'hand_in("{path.name[:2]}", name="")')


def answers_in(lesson, text):
    """Return what a file tells of the answers to a lesson: feedback, solutions, folds, outputs."""
    number = lesson.name[:2]
    entries = tomllib.loads(prediction_files()[number].read_text(encoding="utf-8"))
    told = [
        said
        for entry in entries.values()
        for part in (entry, *entry.get("options", []), entry.get("number", {}))
        for said in (part.get("explanation"), part.get("feedback"))
        if said
    ]
    asked, solved = [], []
    for cell in read_notebook(lesson).cells:
        (solved if {"solution", "teacher"} & set(tags(cell)) else asked).append(cell.source)
    given = "\n".join(asked)  # a repaired function has most of its lines from the broken one
    lines = [line.strip() for source in solved for line in source.splitlines()]
    told += [line for line in lines if len(line) > 20 and line not in given]
    plain, formatted = _plain(text), [_plain(_formatted(said)) for said in told]
    found = [said for said in formatted if said and said in plain]
    found += re.findall(r"<summary>(?!Hint)[^<]*", text)
    return found + re.findall(r"data-correct|attnlab-answer|_solution\b", text)


def _plain(text):
    """Return a text without tags, escapes and differences of blanks."""
    return " ".join(re.sub(r"<[^>]*>", "", html.unescape(text)).split())


def everything_in(notebook):
    """Return every text of a notebook: sources, outputs, metadata."""
    parts, texts = [notebook], []
    for part in parts:
        if isinstance(part, dict | list):
            parts += part.values() if isinstance(part, dict) else part
        else:
            texts.append(str(part))
    return "\n".join(texts)


@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_no_answer_is_in_a_copy(copies, path):
    assert answers_in(path, everything_in(read_notebook(copies[path.name]))) == []


def test_answers_are_found_where_they_are():
    told = answers_in(LESSONS[2], everything_in(read_notebook(LESSONS[2])))
    assert len(told) > 30
    assert "data-correct" in told


def test_copies_speak_of_a_restart_and_not_of_make_or_of_solutions(copies):
    pages = [everything_in(read_notebook(path)) for path in copies.values()]
    words = ("`make ", "my_notebooks", "a solution", "three dots")
    assert [word for word in words for page in pages if word in page] == []
    assert all(sum(text in page for page in pages) == 1 for text in student.PASSAGES.values())
    *_, text, _ = read_notebook(copies[LESSONS[2].name]).cells
    assert "run the cells one at a time from the\ntop" in text.source
    assert "a restart erases the predictions" in text.source


def test_the_command_says_what_it_wrote(monkeypatch, capsys):
    monkeypatch.setattr(student, "write_class", lambda: ["one", "two"])
    student.main()
    said = "student/ now contains 2 notebooks without answers, and START_HERE.md.\n"
    assert capsys.readouterr().out == said


def test_a_page_says_how_to_open_the_copies(copies):
    page = (next(iter(copies.values())).parent / student.PAGE).read_text(encoding="utf-8")
    assert "[lesson 0](00_start_here.ipynb)" in page
    assert "00_start_here.ipynb" in copies
    assert "source attnlab-env/bin/activate\n  pip install" in page  # pip refuses outside


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
    first = write_class(tmp_path)
    first[0].write_text("scribbled")
    write_class(tmp_path)
    assert read_notebook(first[0]).cells
    assert (tmp_path / "notes.txt").read_text() == "mine"
