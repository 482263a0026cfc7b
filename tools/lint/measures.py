"""What a lesson measures, and a rule: the limits of a lesson.

    python -m tools.lint.measures [01 02]      print a line for each lesson, or for these

The main line ends at "Further", "Exercises" or "What to remember", whichever comes first. A code
cell is visible if its source is not folded. Its lines are about attention if they belong to a
statement that calls or computes something with tensors, masks or heads, or shows a result; imports,
plots, prints, styling, tables, questions, asserts and plain literals are not. The heading of a loop
or a function counts as its body does.
"""

from __future__ import annotations

import ast
import re
import statistics
import sys
from collections.abc import Callable, Iterator
from typing import NamedTuple

from nbformat import NotebookNode

from tools.lint.lesson import (
    CLOSING,
    Lesson,
    Note,
    answer_key,
    code_lines,
    count_words,
    parse_code,
    prediction_keys,
)
from tools.notebooks import find_notebooks, is_folded, is_lesson, select, tags

WORD, CODE, PREDICTION, EXPLORER = 1 / 130, 0.5, 2, 4  # minutes for each
IN_CLASS = 1.2
END = re.compile(rf"^## (?:Further|{CLOSING[0]}|{CLOSING[1]})", re.MULTILINE)
TIME = re.compile(r"\*\*Time:\*\*[^\n]*?(?P<minutes>\d+) minutes(?P<in_class> in class)?")
SHOWN = re.compile(
    r"(?:plot|draw|show|check)_\w+|print|display|predict|live|lesson_setup|\w*Explorer"
    r"|plt|sns|pd|fig|ax|axes"
)
COMPUTED = (ast.Call, ast.BinOp, ast.Compare, ast.Subscript, ast.Attribute, ast.UnaryOp)


class Measures(NamedTuple):
    """What is counted in the main line of a lesson; asserts are counted in all of it."""

    told: int
    minutes: float  # computed; with questions, if the time is told for a class
    cells: int
    words: int
    predictions: int
    explorers: int
    attention: float  # share of the visible lines
    asserts: int
    magic: int  # asserts with a decimal number of their own, or of several lines
    under: int  # asserts that stand right under a prediction
    longest: int  # lines of a visible cell, one with a class aside
    median: float


def measure(lesson: Lesson) -> Measures:
    """Return what is counted in a lesson."""
    main = list(main_line(lesson))
    codes = [cell for cell in main if cell.cell_type == "code" and not is_folded(cell)]
    asking = [cell for cell in codes if prediction_keys(cell.source)]
    exploring = [cell for cell in codes if shows_explorer(cell.source)]
    plain = [cell for cell in codes if cell not in [*asking, *exploring]]
    sizes = {cell.id: len(code_lines(cell.source)) for cell in plain}
    classes = {cell.id for cell in plain if re.search("^class ", cell.source, re.MULTILINE)}
    about = [line for cell in codes for line in about_attention(cell.source)]
    asserts = [a for _, cell in lesson.code if not is_folded(cell) for a in asserts_in(cell)]
    texts = [cell for cell in main if cell.cell_type == "markdown" and "teacher" not in tags(cell)]
    words = sum(count_words(cell.source) for cell in texts)
    counts = {WORD: words, CODE: len(plain), PREDICTION: len(asking), EXPLORER: len(exploring)}
    time = TIME.search(texts[0].source) if texts else None
    return Measures(
        told=int(time["minutes"]) if time else 0,
        minutes=sum(minutes * count for minutes, count in counts.items())
        * (IN_CLASS if time and time["in_class"] else 1),
        cells=len(main),
        words=words,
        predictions=len(asking),
        explorers=len(exploring),
        attention=sum(about) / len(about) if about else 1.0,
        asserts=len(asserts),
        magic=sum(map(_is_magic, asserts)),
        under=sum(len(asserts_in(cell)) for cell in _answers(lesson)),
        longest=max((n for name, n in sizes.items() if name not in classes), default=0),
        median=statistics.median(sizes.values()) if sizes else 0,
    )


def main_line(lesson: Lesson) -> Iterator[NotebookNode]:
    """Yield the cells before what is optional."""
    for _, cell in lesson.cells:
        if cell.cell_type == "markdown" and END.search(cell.source):
            return
        yield cell


def shows_explorer(source: str) -> bool:
    """Return whether the last line of a cell shows an explorer or a live figure."""
    body = parse_code(source).body
    last = body[-1].value if body and isinstance(body[-1], ast.Expr) else None
    name = ast.unparse(last.func) if isinstance(last, ast.Call) else ""
    return name == "live" or name.endswith("Explorer")


def about_attention(source: str) -> list[bool]:
    """Return, for each line of a cell that holds code, whether it is about attention."""
    found: dict[int, bool] = {}
    for statement in parse_code(source).body:
        _judge(statement, found)
    return list(found.values())


def _judge(statement: ast.stmt, found: dict[int, bool]) -> bool:
    inner = [part for name in ("body", "orelse") for part in getattr(statement, name, [])]
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
        return False  # a docstring
    about = any([_judge(part, found) for part in inner]) if inner else _computes(statement)
    last = inner[0].lineno - 1 if inner else statement.end_lineno
    found.update(dict.fromkeys(range(statement.lineno, last + 1), about))
    return about


def _computes(statement: ast.stmt) -> bool:
    """Return whether a statement computes or shows something, other than by plots and prints."""
    if isinstance(statement, ast.Import | ast.ImportFrom | ast.Assert):
        return False
    parts = list(ast.walk(statement))
    names = [part.id for part in parts if isinstance(part, ast.Name)]
    if any(SHOWN.fullmatch(name) for name in names):
        return False
    is_shown = isinstance(statement, ast.Expr) and bool(names)
    return is_shown or any(isinstance(part, COMPUTED) for part in parts)


def asserts_in(cell: NotebookNode) -> list[ast.Assert]:
    """Return the asserts of a cell."""
    return [node for node in ast.walk(parse_code(cell.source)) if isinstance(node, ast.Assert)]


def _is_magic(node: ast.Assert) -> bool:
    """Return whether an assert is long or holds a decimal number, tolerances aside."""
    slack = [part.value for part in ast.walk(node) if isinstance(part, ast.keyword)]
    aside = {id(part) for value in slack for part in ast.walk(value)}
    numbers = [part for part in ast.walk(node) if isinstance(part, ast.Constant)]
    decimal = any(type(part.value) is float and id(part) not in aside for part in numbers)
    return decimal or node.end_lineno > node.lineno


def _answers(lesson: Lesson) -> Iterator[NotebookNode]:
    """Yield the code cells that answer a prediction, or stand right under one."""
    cells = lesson.notebook.cells
    for before, cell in zip([None, *cells], cells, strict=False):
        is_code = cell.cell_type == "code" and before is not None
        below = is_code and before.cell_type == "code" and prediction_keys(before.source)
        if answer_key(cell) or below:
            yield cell


LIMITS: tuple[tuple[str, Callable[[Measures], bool]], ...] = (
    ("{0.told} minutes told, {0.minutes:.0f} computed", lambda m: m.told >= m.minutes),
    ("{0.cells} cells in the main line, at most 40 allowed", lambda m: m.cells <= 40),
    ("{0.predictions} predictions, 3 to 6 wanted", lambda m: 3 <= m.predictions <= 6),
    ("{0.explorers} explorers, 1 or 2 wanted", lambda m: 1 <= m.explorers <= 2),
    ("{0.attention:.0%} of the lines about attention, 60% wanted", lambda m: m.attention >= 0.6),
    ("{0.asserts} visible asserts, at most 6 allowed", lambda m: m.asserts <= 6),
    ("{0.magic} asserts with a decimal number or several lines", lambda m: not m.magic),
    ("{0.under} asserts right under a prediction", lambda m: not m.under),
    ("{0.longest} lines in the longest cell, at most 15 allowed", lambda m: m.longest <= 15),
    ("{0.median:g} lines in the median cell, at most 4 wanted", lambda m: m.median <= 4),
)


def limits(lesson: Lesson) -> Iterator[Note]:
    """Check that a lesson keeps the limits."""
    if is_lesson(lesson.path):
        measures = measure(lesson)
        for text, holds in LIMITS:
            if not holds(measures):
                yield Note(0, f"the lesson has {text.format(measures)}.")


def main() -> None:
    """Print the measures of the lessons that the command line names."""
    print("lesson", *Measures._fields, sep="  ")
    for path in filter(is_lesson, select(find_notebooks(), sys.argv[1:])):
        numbers = zip(Measures._fields, measure(Lesson(path)), strict=True)
        print(f"{path.stem[:2]:6}", *(f"{n:{len(name)}.4g}" for name, n in numbers), sep="  ")


if __name__ == "__main__":
    main()
