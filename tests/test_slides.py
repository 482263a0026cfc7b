"""tools/slides.py: what is on the slides of a lesson and what is not."""

import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from tools import slides


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
