"""tools/slides.py: what is on the slides of a lesson, and what is said with them."""

import re

import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from tools.build.sources import find_notebooks, html_of, is_lesson, read_notebook
from tools.publish import slides

LESSONS = [path for path in find_notebooks() if is_lesson(path)]
TOLD = re.compile(r"\*\*Time:\*\* (\d+) minutes in class")
PREDICTION = """<div class="attnlab-predict-stored"><p><b>Predict.</b> Which?</p><ul><li>one</li>\
<li data-correct>two</li></ul><details><summary>Open</summary><p>Since two.</p></details>\
<p>Run this cell.</p></div>"""
FIGURE = """<details class="attnlab-answer"><summary>Open</summary><figure><img src="data:,">\
<figcaption>Figure 1.</figcaption></figure></details>"""


class Plain:
    """Turns nothing into HTML, so that a test reads what was given."""

    prose = code = shown = staticmethod(lambda text: text)
    output = staticmethod(html_of)


def text(source, *names):
    return new_markdown_cell(source, metadata={"tags": [*names]})


def code(source, html="", **metadata):
    outputs = [new_output("display_data", {"text/html": html})] if html else []
    return new_code_cell(source, outputs=outputs, metadata=metadata)


def slides_of(*cells):
    return slides.Deck(new_notebook(cells=[text("# 1 · Title\n\nOpening."), *cells]), Plain).slides


def test_prose_is_said_and_its_marked_sentences_stand_over_slides():
    title, table, formula = slides_of(
        text("## A part\n\nFirst. <!--below-->Here is a table. More."),
        code("table", "<table></table>"),
        text("<!--above-->It says 1.5 of it. So\n\n$$a = b$$\n\nis true."),
        text("For teachers", "teacher"),
    )
    assert (title.kind, title.notes[-1]) == ("title", "For teachers")
    assert (table.section, table.sentence) == ("A part", "It says 1.5 of it.")
    assert (formula.kind, formula.body) == ("formula", "$$a = b$$")
    assert "is true." in formula.notes[0]


def test_sections_to_work_on_solutions_and_the_setup_are_left_out():
    found = slides_of(
        code("import torch\n\nlesson_setup()", "<style></style>"),
        text("```python\n# A heading?\n```\n\n$$x$$", "solution"),
        *(
            text(f"## {name}\n\n$$x$$")
            for name in ("Sources", "Next", "Further: more", "Exercises")
        ),
        code("stub()", "<p>stub</p>"),
        text("### A part of it"),
        code("more()", "<p>more</p>"),
        text("## In torch"),
        code("kept()", "<p>kept</p>"),
    )
    assert [slide.section for slide in found] == ["", "In torch"]


@pytest.mark.parametrize(
    ("cell", "kind", "body", "said"),
    [
        (code("predict('1/a')", PREDICTION), "question", '<li class="fragment">two', "Since two."),
        (code("%%answer 1/a\nplot()", FIGURE), "figure", '<figure><img src="data:,">', "Figure 1."),
        (code("E()", '<div class="attnlab-explorer">'), "explorer", '<div class="attnlab', ""),
        (code("a + 1", "2"), "code", "a + 1</div><div>2", ""),
        (code("%%answer 1/a\na + 1", "2"), "code", ">a + 1</div><div>2", ""),
        (code("a", "2", jupyter={"source_hidden": True}), "code", "></div><div>2", ""),
    ],
)
def test_a_slide_shows_one_thing(cell, kind, body, said):
    *_, slide = slides_of(cell)
    assert slide.kind == kind
    assert body in slide.body
    assert "Run this cell" not in slide.body
    assert said in "".join(slide.notes)
    assert not said or said not in slide.body


def test_code_without_an_output_is_shown_with_the_next_or_alone_if_it_is_long():
    short, long = "def f():\n    1", "\n".join(["def g():", *["    1"] * 20])
    *_, together = slides_of(code(short), code("f()", "1"))
    assert (
        together.body == f'<div class="made"><div class="needed">{short}</div>f()</div><div>1</div>'
    )
    *_, alone, after = slides_of(code(long), code("g()", "1"))
    assert (alone.body, after.body) == (long, '<div class="made">g()</div><div>1</div>')


@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_a_lecture_has_a_slide_a_minute_at_most_and_short_sentences(path):
    lesson = read_notebook(path)
    found = slides.Deck(lesson, Plain).slides
    assert len(found) <= int(TOLD.search(lesson.cells[0].source)[1])
    assert [one.sentence for one in found if len(one.sentence.split()) > 20] == []


@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_no_mark_begins_a_line_which_would_no_longer_be_a_paragraph(path):
    text = "\n".join(c.source for c in read_notebook(path).cells if c.cell_type == "markdown")
    assert re.findall(r"(?m)^\W*<!--(?:above|below)", text) == []
