"""tools/slides.py: what is on the slides of a lesson, and what is said with them."""

import re

import pytest
from nbformat import write
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from attnlab.display import ShownFigure
from attnlab.display.folds import Folded
from tools.build.slide_sentences import sentence_in
from tools.build.sources import (
    BUNDLE,
    LessonError,
    find_notebooks,
    html_of,
    is_lesson,
    read_notebook,
)
from tools.publish import slides

LESSONS = [path for path in find_notebooks() if is_lesson(path)]
TOLD = re.compile(r"\*\*Time:\*\* (\d+) minutes in class")
PREDICTION = new_output("display_data", {"text/html": "<p>stored</p>"})
PREDICTION.data[BUNDLE] = {
    **{"kind": "prediction", "question": "Which?", "explanation": "Since two."},
    "options": [
        {"text": "one", "feedback": "Not one.", "correct": False},
        {"text": "two", "feedback": "", "correct": True},
    ],
}
SHOWN = ShownFigure(b"", 9, "1.1", "A line.", "Read it.", [])
FIGURE = new_output(
    "display_data", Folded(SHOWN.to_html(), (SHOWN.facts(),), False, "1/a")._repr_mimebundle_()
)
EXPLORER = new_output("display_data", {"text/html": "<div>E</div>"})
EXPLORER.data[BUNDLE] = {"kind": "explorer"}


class Plain:
    """Turns nothing into HTML, so that a test reads what was given."""

    prose = code = shown = staticmethod(lambda text: text)
    output = staticmethod(html_of)


def text(source, *names, **places):
    return new_markdown_cell(source, metadata={"tags": [*names], **places})


def code(source, html="", **metadata):
    output = new_output("display_data", {"text/html": html}) if isinstance(html, str) else html
    return new_code_cell(source, outputs=[output] if html else [], metadata=metadata)


def slides_of(*cells):
    return slides.Deck(new_notebook(cells=[text("# 1 · Title\n\nOpening."), *cells]), Plain).slides


def test_prose_is_said_and_its_named_sentences_stand_over_slides():
    title, table, formula, last = slides_of(
        text("## A part\n\nHere is a\ntable. More.", below="Here is a table"),
        code("table", "<table></table>"),
        text(
            "It says 1.5 of\nit. So\n\n$$a = b$$\n\nis true. All of it is here. What follows it?",
            above=["It says 1.5", "All of it"],
            below="What follows it",
        ),
        code("more", "<table></table>"),
        text("For teachers", "teacher"),
    )
    assert (title.kind, title.notes[-1]) == ("title", "For teachers")
    assert (table.section, table.sentence) == ("A part", "It says 1.5 of\nit.")
    assert (formula.kind, formula.body) == ("formula", "$$a = b$$")
    assert "is true." in formula.notes[0]
    assert (formula.sentence, last.sentence) == ("All of it is here.", "What follows it?")


@pytest.mark.parametrize(
    ("prose", "words", "sentence"),
    [
        ("One. It has\nthree words. Two.", "It has three", "It has\nthree words."),
        ("- It has 1.5 of them. So.", "It has 1.5", "It has 1.5 of them."),
        ("12. **It has** a bold one: here. So.", "**It has** a", "**It has** a bold one: here."),
        ("Say: it has “a word?” And so.", "it has “a", "it has “a word?”"),
        ("(One.) It has (some words.) Two.", "It has (some", "It has (some words.)"),
        ("So it has three words.", "it has three", None),
        ("So,\nit has three words.", "it has three", None),
        ("It hasn't three words.", "It has three", None),
        ("It has threefold words.", "It has three", None),
        ("It has three words", "It has three", None),
    ],
)
def test_a_sentence_is_found_by_the_words_with_which_it_begins(prose, words, sentence):
    assert sentence_in(prose, words) == sentence


@pytest.mark.parametrize("place", ["above", "below"])
@pytest.mark.parametrize(
    ("prose", "words", "why"),
    [
        ("Here is a table.", "Here is", "'Here is' needs three words or more"),
        ("So here is a table.", "here is a", "no sentence of the cell 'a-cell' begins with 'here"),
        ("## Sources\n\nHere is a table.", "Here is a", "no sentence of the cell"),
    ],
)
def test_a_name_that_is_too_short_or_names_nothing_is_refused(place, prose, words, why):
    cell = text(prose, **{place: words})
    cell.id = "a-cell"
    with pytest.raises(LessonError, match=why):
        slides_of(cell)


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
        (code("predict('1/a')", PREDICTION), "question", "<li class=fragment>two", "Since two."),
        (
            code("%%answer 1/a\nplot()", FIGURE),
            "figure",
            '<figure data-number="1.1"',
            "Figure 1.1. Read it.",  # what is in the figure itself is out of sight on slides
        ),
        (code("E()", EXPLORER), "explorer", "<div>E</div>", ""),
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
def test_a_lecture_has_a_slide_a_minute_at_most(path):
    lesson = read_notebook(path)
    found = slides.Deck(lesson, Plain).slides
    assert len(found) <= int(TOLD.search(lesson.cells[0].source)[1])


# --- the command ----------------------------------------------------------------------------------


@pytest.fixture
def written(tmp_path, monkeypatch, capsys):
    """A function that runs the command on three lessons; returns what it writes and prints."""
    for name, title in {"00_start": "0 · Start", "01_more": "1 · More", "glossary": "A"}.items():
        write(new_notebook(cells=[text(f"# {title}\n\nOf it.")]), tmp_path / f"{name}.ipynb")
    folder, asked = tmp_path / "slides", []
    monkeypatch.setattr(slides, "SLIDES", folder)
    monkeypatch.setattr(slides, "find_notebooks", lambda: find_notebooks(tmp_path))
    monkeypatch.setattr(slides, "frames_with_progress", lambda path: asked.append(path.stem))

    def run(*names):
        asked.clear()
        monkeypatch.setattr("sys.argv", ["tools.publish.slides", *names])
        slides.main()
        return {path.name for path in folder.iterdir()}, asked, capsys.readouterr().out

    return run


def test_the_command_writes_all_decks_and_their_index(written):
    names = {"00_start.html", "01_more.html", "index.html"}
    files, asked, out = written()
    assert (files, asked) == (names, ["00_start", "01_more"])
    assert "Open slides/index.html." in out


def test_the_command_writes_one_deck_and_leaves_all_else_alone(written):
    files, asked, out = written("1")
    assert (files, asked) == ({"01_more.html"}, ["01_more"])
    assert "Open slides/01_more.html." in out
    written()
    assert written("00")[0] == {"00_start.html", "01_more.html", "index.html"}
    with pytest.raises(SystemExit, match=r"There is no lesson 'glossary'; the lessons are 00_st"):
        written("glossary")


def test_the_command_says_which_lesson_names_no_sentence(written, tmp_path):
    lesson = new_notebook(cells=[text("# 1 · More\n\nOf it.", above="It is not")])
    write(lesson, tmp_path / "01_more.ipynb")
    with pytest.raises(SystemExit, match=r"01_more\.ipynb: no sentence .* begins with 'It is not'"):
        written()
