"""The copies for a class are the lessons without answers and teacher notes."""

from __future__ import annotations

import ast
import copy
import html
import re
import tomllib

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from attnlab.display.texts import text_files
from attnlab.exercises.predict import _formatted
from tools.build.sources import find_notebooks, is_lesson, read_notebook, tags, unfold
from tools.check.lint.lesson import defined_names, parse_code
from tools.publish import student
from tools.publish.editions import edition

LESSONS = [path for path in find_notebooks() if is_lesson(path)]
each_lesson = pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("student")
    (folder / "notes.txt").write_text("mine")
    (folder / LESSONS[0].name).write_text("a copy of last year")
    student.write_class(folder)
    return folder


def test_the_copies_are_written_over_older_ones_and_other_files_stay(folder):
    names = {path.name for path in find_notebooks()}
    assert {path.name for path in folder.iterdir()} == {*names, "notes.txt", student.PAGE}
    assert (folder / "notes.txt").read_text() == "mine"
    page = (folder / student.PAGE).read_text(encoding="utf-8")
    assert set(re.findall(r"\]\(([^)]*)\)", page)) <= names
    assert "source attnlab-env/bin/activate\n  pip install" in page  # pip refuses outside


def test_a_copy_has_the_outputs_and_hints_of_its_lesson_and_changes_nothing():
    hint = "Why?\n\n<details><summary>Hint</summary>Add.</details>"
    cells = [
        new_markdown_cell(hint),
        new_code_cell("check(f)", outputs=[new_output("stream", text="not done yet")]),
        new_code_cell("f_solution = 1", metadata={"tags": ["solution"]}),
        new_markdown_cell("Say.\n<details><summary>An answer</summary>\nIt is 2.\n</details>"),
        new_markdown_cell("<details>45</details>", metadata={"tags": ["teacher"]}),
    ]
    lesson = new_notebook(cells=copy.deepcopy(cells))
    made = student.leave_out(lesson, student.LEFT_OUT).cells
    assert [cell.source for cell in made] == [hint, "check(f)", "Say."]
    assert made[1].outputs[0].text == "not done yet"
    assert "It is 2." in cells[3].source


@each_lesson
def test_a_copy_is_its_lesson_without_answers(folder, path):
    lesson, handed_out = edition(path, "student"), read_notebook(folder / path.name)
    nbformat.validate(handed_out)
    *asked, _, last = handed_out.cells
    assert last.source.endswith(f'hand_in("{path.name[:2]}", name="")')
    sources = {cell.id: cell.source for cell in lesson.cells}
    gone = sources.keys() - {cell.id for cell in asked}
    marked = {cell.id for cell in lesson.cells if {"solution", "teacher"} & set(tags(cell))}
    assert marked
    assert marked <= gone
    assert all(sources[name].startswith("<details>") for name in gone - marked)
    for cell in asked:
        source = sources[cell.id]
        if cell.cell_type == "code":
            assert (cell.source, cell.outputs, cell.execution_count) == (source, [], None)
            continue
        assert set(cell.source.split()) <= set(source.split())
        if key := cell.metadata.get("answers"):  # what tells an answer is folded here too
            assert cell.source.startswith(f'<details class="attnlab-answer {key}">')
            assert cell.source.endswith("</details>")
    assert sum("answers" in cell.metadata for cell in asked) >= 2


def answers_in(lesson, text):
    """Return what a file tells of the answers to a lesson: feedback, solutions, folds, outputs."""
    number = lesson.name[:2]
    entries = tomllib.loads(text_files()[number].read_text(encoding="utf-8"))["question"]
    told = [
        said
        for entry in entries.values()
        for part in (entry, *entry["options"])
        for said in (part.get("explanation"), part.get("feedback"))
        if said
    ]
    plain, formatted = _plain(text), [_plain(_formatted(said)) for said in told]
    found = [said for said in formatted if said and said in plain]
    found += re.findall(r"<summary>(?!Hint|Predict first)[^<]*", text)
    return found + re.findall(r"\"correct\": true|_solution\b", text)


def _plain(text):
    """Return a text without tags, escapes and differences of blanks."""
    return " ".join(re.sub(r"<[^>]*>", "", html.unescape(text)).split())


def everything_in(part):
    """Return every text of a notebook or of a part of it: sources, outputs, metadata."""
    if isinstance(part, dict):
        return "\n".join(f'"{name}": {everything_in(one)}' for name, one in part.items())
    if isinstance(part, list):
        return "\n".join(map(everything_in, part))
    return "true" if part is True else str(part)


@each_lesson
def test_no_answer_and_no_word_of_make_is_in_a_copy(folder, path):
    text = everything_in(read_notebook(folder / path.name))
    assert answers_in(path, text) == []
    assert not re.search("`make |my_notebooks|a solution|three dots", text)
    told = answers_in(path, everything_in(read_notebook(path)))
    assert len(told) > 10
    assert '"correct": true' in told


@each_lesson
def test_no_cell_needs_what_a_solution_defines(path):
    cells = [*map(unfold, read_notebook(path).cells)]
    names = {name for one in cells if "solution" in tags(one) for name in defined_names(one.source)}
    others = [one for one in cells if one.cell_type == "code" and "solution" not in tags(one)]
    found = [node for cell in others for node in ast.walk(parse_code(cell.source))]
    assert names
    assert not names & {node.id for node in found if isinstance(node, ast.Name)}
    assert not names & {name for cell in others for name in defined_names(cell.source)}
