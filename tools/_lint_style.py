"""Lint rules about how a lesson reads: lengths, words, and the order of its parts."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from tools._lint import (
    CLOSING,
    LINK,
    Lesson,
    Note,
    headings,
    parse_code,
    prose,
    without_code,
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
    return len([word for word in prose(text).split() if re.search(r"\w", word)])


def cell_words(lesson: Lesson) -> Iterator[Note]:
    """Check that a text is short; the first cell and the closing parts may be longer."""
    for n, source in _texts(lesson):
        heading = lesson.sections[n][1]
        text = TABLE.sub("", DETAILS.sub("", source))
        text = LIST_ITEM.sub("", text) if heading == "Sources" else text
        limit = CLOSING_WORDS if heading in CLOSING else CELL_WORDS
        if n > 1 and (words := count_words(text)) > limit:
            yield Note(n, f"the text has {words} words; at most {limit}.")


def code_size(lesson: Lesson) -> Iterator[Note]:
    """Check that a code cell is short (blank lines do not count), and its lines are narrow."""
    for n, cell in lesson.code:
        lines = cell.source.splitlines()
        count = sum(bool(line.strip()) for line in lines)
        if count > CODE_LINES:
            yield Note(n, f"the code has {count} lines; at most {CODE_LINES}.")
        if (width := max(map(len, lines), default=0)) > CODE_WIDTH:
            yield Note(n, f"a line of code has {width} characters; at most {CODE_WIDTH}.")


def wording(lesson: Lesson) -> Iterator[Note]:
    """Check that the prose is calm: no exclamation mark, no word that belittles, no emoji."""
    for n, source in _texts(lesson):
        source = without_code(source)
        if lesson.sections[n][1] == "Sources":  # titles are quoted as they are
            source = LINK.sub(" ", source)
        text = prose(source)
        if re.search(r"!(?!=)", text):
            yield Note(n, "the text has an exclamation mark.")
        for word in BANNED.findall(text):
            yield Note(n, f"the text says {word!r}.")
    for n, cell in enumerate(lesson.notebook.cells, start=1):
        if found := EMOJI.search(cell.source):
            yield Note(n, f"the cell has an emoji: U+{ord(found[0]):04X}.")


def title(lesson: Lesson) -> Iterator[Note]:
    """Check that the first cell names the lesson."""
    cells = lesson.notebook.cells
    start = f"# {lesson.number} · "
    if not cells or cells[0].cell_type != "markdown" or not cells[0].source.startswith(start):
        yield Note(1, f"the first cell must begin with {start!r}.")


def closing_parts(lesson: Lesson) -> Iterator[Note]:
    """Check that a lesson ends with the same five headings."""
    found = [(n, text) for n, c in lesson.markdown for level, text in headings(c) if level == 2]
    last = tuple(text for _, text in found[-len(CLOSING) :])
    if lesson.number > 0 and last != CLOSING:
        missing = [name for name in CLOSING if name not in [text for _, text in found]]
        problem = f"missing: {', '.join(missing)}" if missing else f"found: {', '.join(last)}"
        yield Note(0, f"the last headings must be {', '.join(CLOSING)}; {problem}.")


def predictions(lesson: Lesson) -> Iterator[Note]:
    """Check that questions are asked by ``predict``, and that each reveal answers one."""
    asking = {n for n, _ in lesson.predictions}
    for n, cell in lesson.markdown:
        if "**Predict" in cell.source:
            yield Note(
                n, 'ask with predict(...) in a cell tagged predict, not with "**Predict.**".'
            )
    for n, cell in lesson.code:
        if ("predict" in tags(cell)) != (n in asking):
            yield Note(n, "a cell must be tagged predict if it calls predict(...), and only then.")
        if n in asking and cell.source.splitlines()[0] != "predict(":  # stays in sight when folded
            yield Note(n, "a predict cell must begin with 'predict(' on a line of its own.")
        before = n - 1
        while before and "reveal" in tags(lesson.notebook.cells[before - 1]):
            before -= 1
        if "reveal" in tags(cell) and before not in asking:
            yield Note(
                n, "a reveal cell must follow a cell tagged predict that calls predict(...)."
            )


def reveals(lesson: Lesson) -> Iterator[Note]:
    """Check that a lesson asks for predictions."""
    count = sum("reveal" in tags(cell) for _, cell in lesson.code)
    if lesson.number > 0 and count < REVEALS:
        yield Note(0, f"{count} cells are tagged reveal; at least {REVEALS}.")


def lesson_length(lesson: Lesson) -> Iterator[Note]:
    """Check that a lesson is neither a page nor a book."""
    if lesson.number == 0:
        return
    words = sum(count_words(text) for _, text in _texts(lesson))
    for count, (low, high), what in (
        (words, LESSON_WORDS, "words"),
        (main_line(lesson), MAIN_CELLS, "cells in its main line"),
        (len(lesson.notebook.cells), CELLS, "cells"),
    ):
        if not low <= count <= high:
            yield Note(0, f"the lesson has {count:,} {what}; {low:,} to {high:,}.")


def _texts(lesson: Lesson) -> list[tuple[int, str]]:
    """Return the texts of the markdown cells and of the predictions, with their numbers."""
    return [(n, cell.source) for n, cell in lesson.markdown] + lesson.predictions


def main_line(lesson: Lesson) -> int:
    """Return how many cells come before what is optional, or before the closing parts."""
    for number, cell in lesson.markdown:
        if re.search(rf"^## (Further|{CLOSING[0]})", cell.source, re.MULTILINE):
            return number - 1
    return len(lesson.notebook.cells)


def solutions(lesson: Lesson) -> Iterator[Note]:
    """Check that every exercise has a solution under its own name."""
    cells = {
        kind: [c for c in lesson.code if kind in tags(c[1])] for kind in ("exercise", "solution")
    }
    solved = {name for _, cell in cells["solution"] for name in defined_names(cell.source)}
    for n, cell in cells["exercise"]:
        names = defined_names(cell.source)
        if names and not any(f"{name}_solution" in solved for name in names):
            wanted = " or ".join(f"{name}_solution" for name in names)
            yield Note(n, f"no solution cell defines {wanted}.")
    if len(cells["solution"]) < len(cells["exercise"]):
        counts = f"{len(cells['exercise'])} exercises, {len(cells['solution'])} solutions"
        yield Note(0, f"every exercise needs a solution cell; there are {counts}.")


def defined_names(source: str) -> list[str]:
    """Return the names that a cell defines or assigns at its top level."""
    names = []
    for node in parse_code(source).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.append(node.name)
        elif isinstance(node, ast.Assign):
            names += [
                name.id for t in node.targets for name in ast.walk(t) if isinstance(name, ast.Name)
            ]
    return names


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
