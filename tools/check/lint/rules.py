"""Rules about tags, outputs, and the order of a lesson's parts.

That links lead somewhere and that pages have a title is checked where the site is made.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape
from unicodedata import category

from nbformat import NotebookNode

from tools.build.prose import could_be_broken
from tools.build.slide_sentences import marks_of, sentence_in
from tools.build.sources import LessonError, is_folded, strip_ansi, tags
from tools.check.lint.lesson import (
    CLOSING,
    Lesson,
    Note,
    answer_key,
    asked_key,
    defined_names,
    headings,
)

MOST_WORDS = 25  # over a slide
TAGS = {"exercise", "solution", "teacher", "raises-exception"}
DATA_URI = re.compile(r"data:[\w/+.-]+;base64,[A-Za-z0-9+/=\s]+|[A-Za-z0-9+/=]{200,}")
NAMESPACE = re.compile(r"https?://www\.w3\.org/[\w/#.-]*")  # a name in SVG, not an address
LEAKS = {
    "the address of an object": r"\b0x[0-9a-fA-F]+",
    "a path of one machine": r"(?<![\w.])/(?:home|tmp|root|work|usr|Users|opt|var)\b(?=[/'\"\s]|$)"
    r"|(?:site|dist)-packages|\b[CD]:\\(?=\w)",
    "the name of a host or registry": r"https?:/|\b(?:pypi|conda|huggingface|localhost)\b"
    r"|\b[a-z0-9-]+\.(?:org|com)\b",
    "a version": r"(?<!section )(?<![\d.])\d+\.\d+\.\d+(?![\d.]*\d)|\+(?:cpu|cu\d+)\b"
    r"|\b(?:[Pp]ython|torch|matplotlib|numpy) v?\d+\.\d+",
    "a date": r"\b(?:19|20)\d\d-\d\d-\d\d\b",
    "a time of day": r"\b\d\d:\d\d:\d\d\b",
}


# --- cells ----------------------------------------------------------------------------------------


def known_tags(lesson: Lesson) -> Iterator[Note]:
    """Check that tags are known: none of these lets nbval ignore an output, nor may a comment."""
    for n, cell in lesson.cells:
        for tag in sorted(set(tags(cell)) - TAGS):
            yield Note(n, f"the tag {tag!r} is unknown.", tag)
        if cell.cell_type == "code" and re.search(r"#\s*NBVAL_", cell.source):
            yield Note(n, "an NBVAL_ comment switches a check off.", "NBVAL_")


def teacher_notes(lesson: Lesson) -> Iterator[Note]:
    """Check that notes for teachers have the tag by which copies for a class leave them out."""
    for n, cell in lesson.markdown:
        if ("<summary>For teachers" in cell.source) != ("teacher" in tags(cell)):
            yield Note(n, "a folded cell For teachers, and only such a cell, has the tag teacher.")


def clean_prose(lesson: Lesson) -> Iterator[Note]:
    """Check that prose holds no comment and no invisible character, and no line is too long."""
    for n, cell in lesson.markdown:
        if "<!--" in cell.source:
            yield Note(n, "the text holds a comment, which whoever opens the cell sees.", "<!--")
        for mark in sorted(set(unescape(cell.source))):
            if category(mark) == "Cf":  # such as a space of no width
                yield Note(n, f"the text holds an invisible character, U+{ord(mark):04X}.", mark)
        for line in could_be_broken(cell.source):
            yield Note(n, "the line is too long; run `make lint`.", line)


def slide_sentences(lesson: Lesson) -> Iterator[Note]:
    """Check that the sentences over slides are there, and short enough to be read at a glance."""
    for n, cell in lesson.markdown:
        try:
            named = [words for _, words in marks_of(cell)]
        except LessonError as error:
            yield Note(n, str(error))
            continue
        for words in named:
            sentence = sentence_in(cell.source, words)
            if sentence is None:
                yield Note(n, f"no sentence of the cell begins with {words!r}.", words)
            elif (count := len(sentence.split())) > MOST_WORDS:
                yield Note(n, f"over a slide stand {MOST_WORDS} words at most, got {count}.", words)


# --- outputs --------------------------------------------------------------------------------------


def output_texts(output: NotebookNode) -> list[str]:
    """Return all texts of an output, without pictures."""
    texts = [output.get("text", ""), output.get("evalue", ""), *output.get("traceback", [])]
    data = output.get("data", {})
    texts += [data[kind] for kind in data if kind.startswith("text/")]
    return [DATA_URI.sub(" ", strip_ansi("".join(text))) for text in texts]


def leaks(lesson: Lesson) -> Iterator[Note]:
    """Check that no warning is stored, and nothing that differs between machines or days."""
    for n, output in lesson.outputs:
        if output.get("name") == "stderr":
            yield Note(n, "the output holds a warning (stderr).")
        text = NAMESPACE.sub(" ", "\n".join(output_texts(output)))
        for name, pattern in LEAKS.items():
            if match := re.search(pattern, text):
                yield Note(n, f"the output holds {name}: {match[0].strip()!r}.")


def figures(lesson: Lesson) -> Iterator[Note]:
    """Check that the numbers of figures run in order."""
    for count, (n, figure) in enumerate(lesson.figures, start=1):
        number, wanted = figure.number, f"{lesson.number}.{count}"
        if number != wanted:
            yield Note(n, f"the figure has the number {number}, not {wanted}.", number)


# --- how a lesson reads ---------------------------------------------------------------------------


def closing_parts(lesson: Lesson) -> Iterator[Note]:
    """Check that a lesson ends with the same five headings."""
    titles = [text for _, c in lesson.markdown for level, text in headings(c) if level == 2]
    last = tuple(titles[-len(CLOSING) :])
    if lesson.number > 0 and last != CLOSING:
        missing = [name for name in CLOSING if name not in titles]
        problem = f"missing: {', '.join(missing)}" if missing else f"found: {', '.join(last)}"
        yield Note(0, f"the last headings must be {', '.join(CLOSING)}; {problem}.")


def predictions(lesson: Lesson) -> Iterator[Note]:
    """Check that each prediction has its texts, is asked once, and is answered after that."""
    asked: set[str] = set()
    for n, cell in lesson.code:
        if (key := answer_key(cell)) and key not in asked:
            yield Note(n, f"the cell answers {key!r}, which no cell before it asks.", key)
        if key := asked_key(cell):
            if key not in lesson.questions:
                yield Note(n, f"the predictions of this lesson do not hold {key!r}.", key)
            elif key in asked:
                yield Note(n, f"the prediction {key!r} has been asked before.", key)
            asked.add(key)
    for key in lesson.questions.keys() - asked:
        yield Note(
            0, f"no cell asks the prediction {key!r}.", f"[question.{key.partition('/')[2]}]"
        )


def told_findings(lesson: Lesson) -> Iterator[Note]:
    """Check that a visible cell that answers a prediction has no title, which tells the finding."""
    for n, cell in lesson.code:
        if answer_key(cell) and not is_folded(cell) and "title" in cell.source:
            yield Note(n, "the title tells the answer: draw in a folded cell.", "title")


def told_answers(lesson: Lesson) -> Iterator[Note]:
    """Check that what follows an answer, up to the next heading or question, is folded with it."""
    key = None
    for n, cell in lesson.cells:
        if cell.cell_type == "code":
            key = answer_key(cell) or (None if asked_key(cell) else key)
            continue
        folds = cell.metadata.get("answers")
        if folds and headings(cell):
            yield Note(n, "a heading stands in a cell that is folded with an answer.")
        key = None if headings(cell) and cell.source.startswith("#") else key
        if folds != key and "teacher" not in tags(cell):
            wanted = f'answers="{key}"' if key else "no answers="
            yield Note(n, f"the cell tells the answer of {key or 'no question'}: write {wanted}.")


def solutions(lesson: Lesson) -> Iterator[Note]:
    """Check that every exercise has a solution under its own name."""
    solved = [cell.source for _, cell in lesson.code if "solution" in tags(cell)]
    solutions_of = {name for source in solved for name in defined_names(source)}
    for n, cell in lesson.code:
        wanted = [f"{name}_solution" for name in defined_names(cell.source)]
        if "exercise" in tags(cell) and not solutions_of.intersection(wanted):
            yield Note(n, f"no solution defines {' or '.join(wanted)}.")


RULES = (
    known_tags,
    teacher_notes,
    clean_prose,
    slide_sentences,
    leaks,
    figures,
    closing_parts,
    predictions,
    told_findings,
    told_answers,
    solutions,
)
