"""Rules about how a lesson reads: lengths, words, and the order of its parts."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tools.lint.lesson import (
    CLOSING,
    LINK,
    Lesson,
    Note,
    defined_names,
    headings,
    without_code,
    words_of,
)
from tools.notebooks import tags

CELL_WORDS, CLOSING_WORDS, LESSON_WORDS = 80, 120, (600, 3_200)
CODE_LINES, CODE_WIDTH, REVEALS = 25, 88, 3
CELLS, MAIN_CELLS = (20, 110), (15, 64)
BANNED = re.compile(r"\b(?:simply|just|obviously|magic|easy|easily)\b", re.IGNORECASE)
DETAILS = re.compile(r"<details\b.*?</details>", re.DOTALL)
TABLE = re.compile(r"^\s*\|.*$", re.MULTILINE)
LIST_ITEM = re.compile(r"^[ ]*(?:[-*+]|\d+[.)]) .*(?:\n[ ]+\S.*)*", re.MULTILINE)
EMOJI = re.compile(
    "[\U0001f000-\U0001faff\u2600-\u2604\u2607-\u2712\u2714-\u2716\u2718-\u27bf\ufe0f]"
)


def count_words(text: str) -> int:
    """Return the number of words of a markdown text; a formula or a code span counts as one."""
    text = re.sub(r"(?<!`)`[^`\n]+`(?!`)", "code", text)
    return len([word for word in words_of(text).split() if re.search(r"\w", word)])


def cell_words(lesson: Lesson) -> Iterator[Note]:
    """Check that a text is short; the first cell and the closing parts may be longer."""
    for n, source in lesson.texts:
        heading = lesson.sections[n][1]
        text = TABLE.sub("", DETAILS.sub("", source))
        text = LIST_ITEM.sub("", text) if heading == "Sources" else text
        limit = CLOSING_WORDS if heading in CLOSING else CELL_WORDS
        if n > 1 and (words := count_words(text)) > limit:
            yield Note(n, f"the text has {words} words, and at most {limit} are allowed.")


def code_size(lesson: Lesson) -> Iterator[Note]:
    """Check that a code cell is short (blank lines do not count), and its lines are narrow."""
    for n, cell in lesson.code:
        lines = [line for line in cell.source.splitlines() if line.strip()]
        if len(lines) > CODE_LINES:
            yield Note(n, f"the code has {len(lines)} lines, and at most {CODE_LINES} are allowed.")
        widest = max(lines, key=len, default="")
        if len(widest) > CODE_WIDTH:
            text = f"the line has {len(widest)} characters, and at most {CODE_WIDTH} are allowed."
            yield Note(n, text, widest)


def wording(lesson: Lesson) -> Iterator[Note]:
    """Check that the prose has no exclamation mark, no word that belittles and no emoji."""
    for n, source in lesson.texts:
        source = without_code(source)
        if lesson.sections[n][1] == "Sources":  # titles are quoted as they are
            source = LINK.sub(" ", source)
        text = words_of(source)
        if re.search(r"!(?!=)", text):
            yield Note(n, "the text has an exclamation mark.", "!")
        for word in BANNED.findall(text):
            yield Note(n, f"the text says {word!r}.", word)
    for n, cell in lesson.cells:
        if found := EMOJI.search(cell.source):
            yield Note(n, f"the cell has an emoji: U+{ord(found[0]):04X}.", found[0])


def title(lesson: Lesson) -> Iterator[Note]:
    """Check that the first cell names the lesson."""
    cells = lesson.notebook.cells
    start = f"# {lesson.number} · "
    if not cells or cells[0].cell_type != "markdown" or not cells[0].source.startswith(start):
        yield Note(1, f"the first cell must begin with {start!r}.")


def closing_parts(lesson: Lesson) -> Iterator[Note]:
    """Check that a lesson ends with the same five headings."""
    found = [text for _, c in lesson.markdown for level, text in headings(c) if level == 2]
    last = tuple(found[-len(CLOSING) :])
    if lesson.number > 0 and last != CLOSING:
        missing = [name for name in CLOSING if name not in found]
        problem = f"missing: {', '.join(missing)}" if missing else f"found: {', '.join(last)}"
        yield Note(0, f"the last headings must be {', '.join(CLOSING)}; {problem}.")


def predictions(lesson: Lesson) -> Iterator[Note]:
    """Check that questions are asked by ``predict``, and that each reveal follows one."""
    asking = {n for n, _ in lesson.predictions}
    for n, cell in lesson.markdown:
        if "**Predict" in cell.source:
            text = 'ask with predict(...) in a cell tagged predict, not with "**Predict.**".'
            yield Note(n, text, "**Predict")
    asked = False  # whether only reveals have come after a cell that asks
    for n, cell in lesson.cells:
        names = tags(cell) if cell.cell_type == "code" else []
        if ("predict" in names) != (n in asking):
            yield Note(n, "a cell must be tagged predict if it calls predict(...), and only then.")
        if n in asking and cell.source.splitlines()[0] != "predict(":  # in sight when folded
            yield Note(n, "a predict cell must begin with 'predict(' on a line of its own.")
        if "reveal" not in names:
            asked = n in asking
        elif not asked:
            yield Note(
                n, "a reveal cell must follow a cell tagged predict that calls predict(...)."
            )


def reveals(lesson: Lesson) -> Iterator[Note]:
    """Check that a lesson asks for predictions."""
    count = sum("reveal" in tags(cell) for _, cell in lesson.code)
    if lesson.number > 0 and count < REVEALS:
        yield Note(0, f"{count} cells are tagged reveal, and at least {REVEALS} are needed.")


def lesson_length(lesson: Lesson) -> Iterator[Note]:
    """Check that a lesson is neither a page nor a book."""
    if lesson.number == 0:
        return
    words = sum(count_words(text) for _, text in lesson.texts)
    for count, (low, high), what in (
        (words, LESSON_WORDS, "words"),
        (_main_cells(lesson), MAIN_CELLS, "cells in its main line"),
        (len(lesson.notebook.cells), CELLS, "cells"),
    ):
        if not low <= count <= high:
            yield Note(0, f"the lesson has {count:,} {what}; it must have {low:,} to {high:,}.")


def _main_cells(lesson: Lesson) -> int:
    """Return how many cells come before what is optional, or before the closing parts."""
    for number, cell in lesson.markdown:
        if re.search(rf"^## (Further|{CLOSING[0]})", cell.source, re.MULTILINE):
            return number - 1
    return len(lesson.notebook.cells)


def solutions(lesson: Lesson) -> Iterator[Note]:
    """Check that every exercise has a solution under its own name."""
    exercises, solved = (
        [(n, cell) for n, cell in lesson.code if kind in tags(cell)]
        for kind in ("exercise", "solution")
    )
    names_solved = {name for _, cell in solved for name in defined_names(cell.source)}
    for n, cell in exercises:
        wanted = [f"{name}_solution" for name in defined_names(cell.source)]
        if wanted and not names_solved & set(wanted):
            yield Note(n, f"no solution cell defines {' or '.join(wanted)}.")
    if len(solved) < len(exercises):
        counts = f"{len(exercises)} exercises, {len(solved)} solutions"
        yield Note(0, f"every exercise needs a solution cell; there are {counts}.")


RULES = (
    cell_words,
    code_size,
    wording,
    title,
    closing_parts,
    predictions,
    reveals,
    lesson_length,
    solutions,
)
