"""tools/slides.py: what is on the slides of a lesson, and what is said with them."""

import re

import pytest
from nbformat import write
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from attnlab.display import ShownFigure
from attnlab.display.folds import Folded
from tools.build.slide_sentences import marks_of, sentence_in
from tools.build.sources import (
    BUNDLE,
    ROOT,
    LessonError,
    find_notebooks,
    html_of,
    is_lesson,
    read_notebook,
)
from tools.publish import needed_code, slides

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

    prose = shown = staticmethod(lambda text: text)

    @staticmethod
    def output(output):
        return html_of(output) or "printed"


def text(source, *names, **places):
    return new_markdown_cell(source, metadata={"tags": [*names], **places})


def code(source, html="", **metadata):
    output = new_output("display_data", {"text/html": html}) if isinstance(html, str) else html
    return new_code_cell(source, outputs=[output] if html else [], metadata=metadata)


def slides_of(*cells):
    return slides.Deck(new_notebook(cells=[text("# 1 · Title\n\nOpening."), *cells]), Plain).slides


def test_prose_is_said_and_its_named_sentences_stand_over_slides():
    title, table, formula, question, last = slides_of(
        text("## A part\n\nHere is a\ntable. More.", below="Here is a"),
        code("table", "<table></table>"),
        text(
            "It says 1.5 of\nit. So\n\n$$a = b$$\n\nis true. All of it is here. What follows it?",
            above=["It says 1.5", "All of it"],
            below="What follows it",
        ),
        code("predict('1/a')", PREDICTION),
        code("more", "<table></table>"),
        text("For teachers", "teacher"),
    )
    assert (title.kind, title.notes[-1]) == ("title", "For teachers")
    assert (table.section, table.headline, table.verdict) == (
        "A part",
        "Here is a\ntable.",
        "It says 1.5 of\nit.",
    )
    assert (formula.kind, formula.body) == ("formula", "$$a = b$$")
    assert "Here is a\ntable. More." in table.notes  # what leads to it and what is said of it
    assert "It says 1.5 of\nit. So" in table.notes
    assert "is true." in formula.notes[0]
    assert (formula.headline, question.headline) == ("All of it is here.", "")
    assert last.headline == "What follows it?"


def test_the_last_slide_has_a_question_its_answer_and_what_to_remember():
    *_, in_torch, last = slides_of(
        text("Is it always so? Yes, it is so. More.", end=["Is it always", "Yes, it is"]),
        text("## What to remember\n\n- It was so. Not now.\n- Two.", end="It was so"),
        text("## In torch"),
        code("a + 1", "2"),
    )
    assert (in_torch.section, in_torch.notes) == ("In torch", [])
    assert (last.kind, last.headline, last.verdict) == ("end", "Is it always so?", "Yes, it is so.")
    assert last.body == "- It was so."
    assert "Not now." in last.notes[0]


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


@pytest.mark.parametrize("place", ["above", "below", "end"])
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
    ("cell", "kind", "shown", "said"),
    [
        (code("predict('1/a')", PREDICTION), "question", "<li class=fragment>two", "Since two."),
        (
            code("%%answer 1/a\nplot()", FIGURE),
            "figure",
            '<figure data-number="1.1"',
            "Figure 1.1. Read it.",  # what is in the figure itself is out of sight on slides
        ),
        (code("E()", EXPLORER), "explorer", "<div>E</div>", ""),
        (code("a + 1", "2"), "code", "a + 1 2", ""),
        (code("%%answer 1/a\na + 1", "2"), "code", "a + 1 2", ""),
        (code("a", "2", jupyter={"source_hidden": True}), "code", " 2", ""),
    ],
)
def test_a_slide_shows_one_thing(cell, kind, shown, said):
    *_, slide = slides_of(cell)
    assert slide.kind == kind
    assert f"{slide.code} {slide.body}".startswith(shown) or shown in slide.body
    assert "Run this cell" not in slide.body
    assert said in "".join(slide.notes)
    assert not said or said not in slide.body


SHORT, LONG = "def f():\n    1", "\n".join(["def g():", *["    1"] * 20])
PLOT = "a = 1\nb = a + 1  # two\nc = 3\nplot(b)"
ASKED = code("predict('1/a')", PREDICTION)


@pytest.mark.parametrize(
    ("cells", "shown"),  # code and output of each slide; figures and questions as ""
    [
        ([code(SHORT), code("f()", "1")], [f"{SHORT}\n\nf()", "1"]),
        ([code(SHORT), code("1 + 1", "2")], [SHORT, "", "1 + 1", "2"]),  # it is not needed
        ([code(LONG), code("g()", "1")], [LONG, "", "g()", "1"]),
        ([code(f"{LONG}\n\ng()", "1")], [LONG, "", "", "1"]),  # too long for one slide
        ([code(SHORT), ASKED, code("f()", "1")], [SHORT, "", "", "", "f()", "1"]),
        ([code(PLOT, FIGURE), code("b", "2")], ["", "", "a = 1\nb = a + 1  # two\n\nb", "2"]),
        ([code(PLOT, FIGURE), code("c = 2\nc", "2")], ["", "", "c = 2\nc", "2"]),
        ([code(f"{SHORT}\n\n{PLOT}", FIGURE)], [SHORT, "", "", ""]),
        ([code(f"{SHORT}\n\nE(f)", EXPLORER)], ["", "<div>E</div>"]),
        (
            [code("a = [0]\na[0] = 1\nE(a)", EXPLORER), code("a", "1")],
            ["", "<div>E</div>", "a = [0]\na[0] = 1\n\na", "1"],
        ),
    ],
)
def test_code_that_is_needed_is_shown_before_it_is_used(cells, shown):
    _, *found = slides_of(*cells)
    parts = [part for slide in found for part in (slide.code, slide.body)]
    assert ["" if "<figure" in part or "options" in part else part for part in parts] == shown


def test_a_sentence_stands_over_a_function_and_over_its_output():
    *_, function, output = slides_of(
        text("## A part\n\nHere is a function.", below="Here is a"),
        code(f"{LONG}\n\ng()", "1"),
        text("It gives a number.", above="It gives a"),
    )
    assert (function.headline, function.verdict) == ("Here is a function.", "")
    assert (output.headline, output.verdict) == ("Here is a function.", "It gives a number.")


@pytest.mark.parametrize(
    ("shown", "above", "headline"),
    [
        (code("E()", EXPLORER), "It is so", "Is it?"),  # of the section
        (code("plot()", FIGURE), "It is so", "Is it?"),
        (code("a + 1", "2"), "It is so", "Is it?"),
        (code("a = 1"), "It is so", "It is so."),  # gives nothing
        (text("$$a = b$$"), "It is so", "It is so."),
        (code("a + 1", "2"), ["Read it so", "It is so"], "Read it so."),
    ],
)
def test_what_a_slide_shows_is_said_by_the_next_step(shown, above, headline):
    *_, slide = slides_of(text("## Is it?"), shown, text("Read it so. It is so.", above=above))
    assert (slide.headline, slide.verdict) == (headline, "It is so.")
    assert slide.asks == (headline == "Is it?" and slide.kind != "explorer")


def test_an_output_is_that_of_the_lesson_which_is_being_made():
    exporter = slides.SlidesExporter()
    for lesson in ("one", "two"):
        exporter.register_filter("stored", lambda _, lesson=lesson: lesson)
        assert f">{lesson}<" in exporter.output(EXPLORER)


# --- the lessons ----------------------------------------------------------------------------------

REFERS = re.compile(r"\W*(So|But|Then|And|It|Its|They|Their|These|Those|Such|Therefore)\b")


@pytest.fixture(params=LESSONS, ids=lambda path: path.stem)
def deck(request):
    """The slides of a lesson, and the lesson."""
    lesson = read_notebook(request.param)
    return slides.Deck(lesson, Plain).slides, lesson


def test_every_slide_has_a_sentence_that_stands_alone(deck):
    for slide in deck[0]:
        sentence = slide.sentence or slide.verdict or slide.headline
        assert slide.kind == "question" or sentence.rstrip("*”’)")[-1:] in ".?:", slide
        assert not REFERS.match(slide.headline) or slide.headline.endswith("?")


def test_every_sentence_that_a_lesson_names_is_on_a_slide(deck):
    found, lesson = deck
    shown = "\n".join(part for one in found for part in (one.sentence, one.verdict, one.body))
    for cell in lesson.cells:
        for _, words in marks_of(cell):
            assert sentence_in(cell.source, words) in shown


def test_no_slide_tells_what_a_question_on_it_asks(deck):
    assert {one.headline for one in deck[0] if one.kind == "question"} <= {""}


def test_a_deck_ends_with_the_question_of_its_lesson(deck):
    found, lesson = deck
    assert [slide.kind for slide in found].count("end") == 1
    last = found[-1]
    assert last.kind == "end"
    assert last.sentence.rstrip("*").endswith("?")
    assert last.verdict
    assert last.body.count("- ") == 3
    opening = [cell.source for cell in lesson.cells if cell.id in ("opening", "the-question")]
    assert last.sentence in "\n".join(opening)


def test_code_on_slides_needs_nothing_that_comes_later(deck):
    found, lesson = deck
    cells = [cell.source for cell in lesson.cells if cell.cell_type == "code"]
    setup = next(source for source in cells if "lesson_setup()" in source)
    missing = set()
    for slide in reversed(found):
        missing = needed_code.names_before(slide.code, missing)
    sources = [re.sub(r"^%%.*\n", "", source) for source in cells]
    defined = set().union(*(needed_code.written(source) for source in sources if source != setup))
    assert missing & (defined - needed_code.written(setup)) == set()


def test_a_lecture_has_a_slide_a_minute_at_most(deck):
    found, lesson = deck
    assert len(found) <= int(TOLD.search(lesson.cells[0].source)[1])


def test_teaching_tells_how_many_slides_there_are():
    counts = [len(slides.Deck(read_notebook(path), Plain).slides) for path in LESSONS]
    text = " ".join((ROOT / "TEACHING.md").read_text(encoding="utf-8").split())
    assert f"There are {min(counts)} to {max(counts)} to a lesson" in text


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


def test_the_command_writes_all_decks_and_an_index_that_leads_to_them(written, tmp_path):
    folder, decks = tmp_path / "slides", {"00_start.html", "01_more.html"}
    folder.mkdir()
    (folder / "09_gone.html").touch()  # a lesson that was renamed
    files, asked, out = written()
    assert (files, asked) == ({"index.html", *decks}, ["00_start", "01_more"])
    index = (folder / "index.html").read_text(encoding="utf-8")
    assert decks <= set(re.findall(r'href="([^"]+)"', index))
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
