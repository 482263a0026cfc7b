"""What the rules share: lessons, notes and findings, and the prose of a cell."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import accumulate, pairwise
from pathlib import Path
from typing import NamedTuple

from nbformat import NotebookNode

from tools.build.figures import Figure, figures_in
from tools.build.proofs import Proof, proofs_of
from tools.build.prose import MARKDOWN
from tools.build.sources import LessonError, from_root, is_lesson, read_notebook, unfold

CLOSING = ("What to remember", "Exercises", "In torch", "Sources", "Next")
CELL_MARK = re.compile(r"^# %%(?!\w)")  # with which every cell of a source begins


class Note(NamedTuple):
    """What a rule yields, and what the lint finds."""

    cell: int  # counted from 1; 0 is the notebook as a whole
    text: str
    quote: str = ""  # the part of the cell's text that the note is about, if it is known
    place: str = ""  # the file and line to be changed, and the rule: the lint adds them
    rule: str = ""


@dataclass(frozen=True)
class Lesson:
    """A notebook as it is stored, with its solutions as code."""

    path: Path

    @cached_property
    def notebook(self) -> NotebookNode:
        """All of it."""
        notebook = read_notebook(self.path)
        notebook.cells = [unfold(cell) for cell in notebook.cells]
        return notebook

    @property
    def number(self) -> int:
        """The number with which the file name begins; 0 if there is none."""
        return int(self.path.stem[:2]) if is_lesson(self.path) else 0

    @property
    def cells(self) -> Iterator[tuple[int, NotebookNode]]:
        """All cells with their numbers."""
        return enumerate(self.notebook.cells, start=1)

    @cached_property
    def code(self) -> list[tuple[int, NotebookNode]]:
        """The code cells with their numbers."""
        return [(n, cell) for n, cell in self.cells if cell.cell_type == "code"]

    @cached_property
    def markdown(self) -> list[tuple[int, NotebookNode]]:
        """The markdown cells with their numbers."""
        return [(n, cell) for n, cell in self.cells if cell.cell_type == "markdown"]

    @property
    def outputs(self) -> Iterator[tuple[int, NotebookNode]]:
        """The stored outputs, each with the number of its cell."""
        return ((n, output) for n, cell in self.code for output in cell.get("outputs", []))

    @property
    def questions_file(self) -> Path:
        """Where the texts of the lesson's predictions are, if it has any."""
        return self.path.parent / "texts" / f"{self.path.stem}.toml"

    @cached_property
    def questions(self) -> dict[str, list[str]]:
        """The texts of each prediction by its key: question, options, feedback, explanation."""
        path = self.questions_file
        try:
            told = tomllib.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
        except tomllib.TOMLDecodeError as error:
            raise LessonError(f"{from_root(path)}: {error}.") from None
        number = path.stem.partition("_")[0]
        questions = told.get("question", {})
        return {f"{number}/{name}": _texts_of(entry) for name, entry in questions.items()}

    @cached_property
    def texts(self) -> list[tuple[int, str]]:
        """The texts of markdown cells, predictions and figures, with the numbers of cells."""
        asked = ((n, self.questions.get(asked_key(cell), [])) for n, cell in self.code)
        return [
            *((n, cell.source) for n, cell in self.markdown),
            *((n, text) for n, told in asked for text in told),
            *((n, text) for n, figure in self.figures for text in (figure.caption, figure.alt)),
        ]

    @cached_property
    def figures(self) -> list[tuple[int, Figure]]:
        """The numbered figures, with the numbers of cells."""
        return [(n, figure) for n, output in self.outputs for figure in figures_in(output)]

    @cached_property
    def proofs(self) -> dict[int, Proof]:
        """The proofs by the numbers of their cells; LessonError names one that proves nothing."""
        bound = proofs_of(self.path, self.notebook.cells)
        return {n: bound[cell.id] for n, cell in self.cells if cell.get("id") in bound}

    @cached_property
    def sections(self) -> dict[int, int]:
        """The number of the level-2 section to which each cell belongs."""
        begun = accumulate(sum(k == 2 for k, _ in headings(cell)) for _, cell in self.cells)
        return dict(enumerate(begun, start=1))

    def place(self, note: Note) -> str:
        """Return the file and the line that a note is about: in the source or the predictions."""
        source = self.path.parent / "source" / f"{self.path.stem}.py"
        if not source.is_file():  # a notebook without a source
            return f"{self.path.name}: cell {note.cell}"
        lines = source.read_text(encoding="utf-8").splitlines()
        marks = [i for i, line in enumerate(lines, start=1) if CELL_MARK.match(line)]
        start, end = [*pairwise([1, *marks, len(lines) + 1])][min(note.cell, len(marks))]
        known = [(source, i, lines[i - 1]) for i in range(start, end)]
        if self.questions_file.is_file():
            asked = self.questions_file.read_text(encoding="utf-8").splitlines()
            known += [(self.questions_file, i, line) for i, line in enumerate(asked, start=1)]
        places = ((file, i) for file, i, line in known if note.quote and note.quote in line)
        file, place = next(places, (source, start))
        return f"{from_root(file)}:{place}"


def headings(cell: NotebookNode) -> list[tuple[int, str]]:
    """Return the level and the text of each heading of a cell; a code cell has none."""
    if cell.cell_type != "markdown":
        return []
    pairs = pairwise(MARKDOWN.parse(cell.source))
    return [
        (int(mark.tag[1]), title.content)
        for mark, title in pairs
        if title.level == 1 and mark.type == "heading_open"
    ]


def _texts_of(question: dict) -> list[str]:
    """Return the texts of a prediction, and those of its options."""
    parts = [question, *question["options"]]
    return [text for part in parts for text in part.values() if isinstance(text, str)]


def asked_key(cell: NotebookNode) -> str:
    """Return the key of the prediction that a cell asks, or an empty text."""
    return _key(r'predict\("([^"]*)"', cell)


def answer_key(cell: NotebookNode) -> str:
    """Return the key of the prediction that a cell answers, or an empty text."""
    return _key(r"%%answer +(\S+)", cell)


def _key(pattern: str, cell: NotebookNode) -> str:
    match = re.match(pattern, cell.source)
    return match[1] if match and cell.cell_type == "code" else ""


@cache
def parse_code(source: str) -> ast.Module:
    """Return the syntax tree of a code cell, which is empty if the cell is not Python."""
    lines = [line for line in source.splitlines() if not line.lstrip().startswith(("%", "!"))]
    try:
        return ast.parse("\n".join(lines))
    except SyntaxError:
        return ast.Module(body=[], type_ignores=[])


def defined_names(source: str) -> list[str]:
    """Return the names that a cell defines or assigns at its top level."""
    names = []
    for node in parse_code(source).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.append(node.name)
        elif isinstance(node, ast.Assign):
            parts = [part for target in node.targets for part in ast.walk(target)]
            names += [part.id for part in parts if isinstance(part, ast.Name)]
    return names
