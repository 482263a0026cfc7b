"""tools/slides.py: what is on the slides and what is not; how they look is seen in a browser."""

import re

import pytest
from nbformat.v4 import new_markdown_cell, new_notebook

from tests.notebooks.test_lint import code, shown
from tools import slides
from tools.notebooks import find_notebooks, is_lesson, read_notebook, tags

LESSONS = [path for path in find_notebooks() if is_lesson(path)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("slides")
    (folder / "09_gone.html").write_text("a lesson that was renamed")
    (folder / "kept.txt").write_text("mine")
    slides.write_slides(folder, find_notebooks())
    return folder


def test_every_lesson_has_slides_and_the_index_leads_to_them(folder):
    names = {f"{path.stem}.html" for path in LESSONS}
    assert {path.name for path in folder.iterdir()} == {"index.html", "kept.txt", *names}
    assert set(re.findall(r'href="([^"]+)"', (folder / "index.html").read_text())) >= names


def test_slides_hold_reveal_with_its_licence_and_refuse_requests(folder):
    for path in LESSONS:
        page = (folder / f"{path.stem}.html").read_text()
        assert "MIT licensed" in page
        assert "Hakim El Hattab" in page
        assert "default-src 'none'" in page


def text(*words, **metadata):
    return new_markdown_cell("\n\n".join(words), metadata=metadata)


def test_solutions_and_sections_to_work_on_are_left_out_and_notes_stay():
    cells = [
        text("# 1 · Title", "## A part"),
        code("kept()"),
        code("solved()", tags=["solution"]),
        text("## Exercises"),
        text("### One"),
        code("stub()"),
        text("## In torch"),
        text("## Sources", "## Next"),
        text("For teachers", tags=["teacher"]),
    ]
    before = new_notebook(cells=cells)
    sources = [cell.source for cell in slides.deck_of(before).cells]
    assert sources == ["# 1 · Title\n\n## A part", "kept()", "## In torch", "For teachers"]
    assert before.cells == cells


@pytest.mark.parametrize(
    ("cell", "lines"),
    [
        (code("a = 1\n\n\ndef f():\n    b\n\n    c"), ["a = 1", "def f():\n    b\n\n    c"]),
        (code("%%answer 02/key\na + 1"), ["a + 1"]),
        (code("table", shown(html="<table></table>")), ["table"]),
        (code("plot()", shown(html='<figure><img src="data:,"></figure>')), []),
        (code("Explorer()", shown(html='<div class="attnlab-explorer"></div>')), []),
        (code("folded()", source_hidden=True), []),
        (code("import torch\n\nlesson_setup()"), []),
        (code('predict("02/key")'), []),
    ],
)
def test_code_is_shown_where_it_is_what_the_slide_is_about(cell, lines):
    assert slides.code_of(cell) == lines


@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_no_solution_is_in_the_slides_and_notes_are_only_for_the_speaker(folder, path):
    page = (folder / f"{path.stem}.html").read_text()
    shown, notes = page.split('<aside class="notes">')
    assert "<summary>For teachers: a plan" in notes
    assert "For teachers:" not in shown
    solved = [cell.source for cell in read_notebook(path).cells if "solution" in tags(cell)]
    names = {name for source in solved for name in re.findall(r"def (\w*solution\w*)", source)}
    assert [name for name in names if name in page] == []
