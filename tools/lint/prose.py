"""Rules about how a lesson reads: its words, and the order of its parts."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tools.lint.lesson import (
    CLOSING,
    LINK,
    Lesson,
    Note,
    answer_key,
    code_lines,
    defined_names,
    headings,
    prediction_keys,
    without_code,
    words_of,
)
from tools.notebooks import is_lesson, tags

CODE_LINES, CODE_WIDTH = 25, 88
BANNED = re.compile(r"\b(?:simply|just|obviously|magic|easy|easily)\b", re.IGNORECASE)
EMOJI = re.compile(
    "[\U0001f000-\U0001faff\u2600-\u2604\u2607-\u2712\u2714-\u2716\u2718-\u27bf\ufe0f]"
)


def code_size(lesson: Lesson) -> Iterator[Note]:
    """Check that a code cell is short (blank lines do not count), and its lines are narrow."""
    for n, cell in lesson.code:
        lines = code_lines(cell.source)
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
    start = f"# {lesson.number} · " if is_lesson(lesson.path) else "# "
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
    """Check that each prediction has its texts, is asked once, and is answered after that."""
    for n, cell in lesson.markdown:
        if "**Predict" in cell.source:
            yield Note(n, 'ask with predict(...), not with "**Predict.**".', "**Predict")
    asked: set[str] = set()
    for n, cell in lesson.code:
        if (key := answer_key(cell)) and key not in asked:
            yield Note(n, f"the cell answers {key!r}, which no cell before it asks.", key)
        for key in prediction_keys(cell.source):
            if key not in lesson.questions:
                yield Note(n, f"the predictions of this lesson do not hold {key!r}.", key)
            elif key in asked:
                yield Note(n, f"the prediction {key!r} has been asked before.", key)
            asked.add(key)
    for key in lesson.questions.keys() - asked:
        yield Note(0, f"no cell asks the prediction {key!r}.", place=lesson.place_of_question(key))


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
    code_size,
    wording,
    title,
    closing_parts,
    predictions,
    solutions,
)
