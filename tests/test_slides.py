"""tools/slides.py: what is on the slides and what is not; how they look is seen in a browser."""

import re

import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

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


@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_no_solution_is_in_the_slides_and_notes_are_only_for_the_speaker(folder, path):
    page = (folder / f"{path.stem}.html").read_text()
    shown, notes = page.split('<aside class="notes">')
    assert "<summary>For teachers: a plan" in notes
    assert "For teachers:" not in shown
    solved = [cell.source for cell in read_notebook(path).cells if "solution" in tags(cell)]
    names = {name for source in solved for name in re.findall(r"def (\w*solution\w*)", source)}
    assert [name for name in names if name in page] == []
    for part in ("MIT licensed", "Hakim El Hattab", "default-src 'none'"):  # reveal.js, no requests
        assert part in page


def test_solutions_and_sections_to_work_on_are_left_out_and_notes_stay():
    def text(source, *names):
        return new_markdown_cell(source, metadata={"tags": [*names]})

    cells = [
        text("# 1 · Title\n\n## A part"),
        new_code_cell("solved()", metadata={"tags": ["solution"]}),
        new_code_cell("kept()"),
        text("## Exercises"),
        text("### One"),
        new_code_cell("stub()"),
        text("## In torch"),
        text("## Sources\n\n## Next"),
        text("For teachers", "teacher"),
    ]
    sources = [cell.source for cell in slides.deck_of(new_notebook(cells=cells)).cells]
    assert sources == ["# 1 · Title\n\n## A part", "kept()", "## In torch", "For teachers"]


@pytest.mark.parametrize(
    ("source", "html", "pieces"),
    [
        ("a = 1\n\n\ndef f():\n    b\n\n    c", "", ["a = 1", "def f():\n    b\n\n    c"]),
        ("%%answer 02/key\na + 1", "", ["a + 1"]),
        ("table", "<table></table>", ["table"]),
        ("plot()", '<figure><img src="data:,"></figure>', []),
        ("Explorer()", '<div class="attnlab-explorer"></div>', []),
        ("import torch\n\nlesson_setup()", "", []),
        ('predict("02/key")', "", []),
    ],
)
def test_code_is_shown_where_it_is_what_the_slide_is_about(source, html, pieces):
    cell = new_code_cell(source, outputs=[new_output("display_data", {"text/html": html})])
    assert slides.code_of(cell) == pieces
    cell.metadata["jupyter"] = {"source_hidden": True}
    assert slides.code_of(cell) == []
