"""What the rules of the notebook lint share: findings, lessons, and the prose of a cell."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import NamedTuple

import nbformat
from nbformat import NotebookNode

CLOSING = ("What to remember", "Exercises", "In torch", "Sources", "Next")
COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
FENCE = re.compile(r"^(```|~~~).*?^\1[^\n]*$", re.DOTALL | re.MULTILINE)
CODE_SPAN = re.compile(r"(`+)(?!`).+?(?<!`)\1(?!`)", re.DOTALL)
HTML_CODE = re.compile(r"<(code|pre)\b.*?</\1>", re.DOTALL)
MATH = re.compile(r"\$\$.+?\$\$|\$[^$\n]+(?:\n[^$\n]+)*\$", re.DOTALL)
LINK = re.compile(r"(?P<image>!?)\[(?P<text>[^\[\]]*)\]\((?P<target>[^)\s]*)[^)]*\)")
TAG = re.compile(r"</?[A-Za-z][^>]*>")
HEADING = re.compile(r"^(#{1,6}) +(.+?) *$", re.MULTILINE)


class Finding(NamedTuple):
    """One thing to repair; cells count from 1, and 0 is the notebook as a whole."""

    rule: str
    cell: int
    text: str


class Note(NamedTuple):
    """What a rule returns: a finding without the rule's name."""

    cell: int
    text: str


@dataclass(frozen=True)
class Lesson:
    """A notebook and where it lies."""

    path: Path
    notebook: NotebookNode

    @classmethod
    def read(cls, path: Path) -> Lesson:
        """Read a notebook as it is stored, without repairing its cell ids."""
        return cls(path, nbformat.reader.reads(path.read_text("utf-8")))

    @property
    def number(self) -> int:
        """Number of the lesson, with which its file name begins; 0 if there is none."""
        start = self.path.stem.split("_")[0]
        return int(start) if start.isdigit() else 0

    @cached_property
    def code(self) -> list[tuple[int, NotebookNode]]:
        """The code cells with their numbers."""
        return [(n, c) for n, c in self._numbered if c.cell_type == "code"]

    @cached_property
    def markdown(self) -> list[tuple[int, NotebookNode]]:
        """The markdown cells with their numbers."""
        return [(n, c) for n, c in self._numbered if c.cell_type == "markdown"]

    @cached_property
    def predictions(self) -> list[tuple[int, str]]:
        """The strings of the cells that call ``predict``, each with the number of its cell."""
        return [(n, text) for n, cell in self.code for text in prediction_texts(cell.source)]

    @cached_property
    def sections(self) -> dict[int, tuple[int, str]]:
        """For each cell, the number and the heading of the level-2 section that it belongs to."""
        found, number, heading = {}, 0, ""
        for n, cell in self._numbered:
            for level, text in headings(cell):
                if level == 2:
                    number, heading = number + 1, text
            found[n] = (number, heading)
        return found

    @property
    def _numbered(self) -> list[tuple[int, NotebookNode]]:
        return list(enumerate(self.notebook.cells, start=1))


def headings(cell: NotebookNode) -> list[tuple[int, str]]:
    """Return level and text of the headings of a cell; none for a code cell."""
    if cell.cell_type != "markdown":
        return []
    text = COMMENT.sub("", FENCE.sub("", cell.source))
    return [(len(marks), title) for marks, title in HEADING.findall(text)]


def without_code(text: str) -> str:
    """Return a markdown text without comments, fenced code and code spans."""
    for pattern in (COMMENT, FENCE, HTML_CODE, CODE_SPAN):
        text = pattern.sub(" ", text)
    return text


def prose(text: str) -> str:
    """Return the words of a markdown text: no code, formulas, link targets and HTML tags."""
    text = MATH.sub(" formula ", without_code(text))
    return TAG.sub(" ", LINK.sub(r"\g<text>", text))


@cache
def prediction_texts(source: str) -> tuple[str, ...]:
    """Return the strings of the calls of ``predict`` in a code cell, first of all the question."""
    calls = [
        node
        for node in ast.walk(parse_code(source))
        if isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] == "predict"
    ]
    parts = [part for call in calls for part in ast.walk(call)]
    parts = [part for part in parts if isinstance(part, ast.Constant)]
    return tuple(part.value for part in parts if isinstance(part.value, str))


@cache
def parse_code(source: str) -> ast.Module:
    """Return the syntax tree of a code cell, empty if it is not Python; nobody may change it."""
    lines = [line for line in source.splitlines() if not line.lstrip().startswith(("%", "!"))]
    try:
        return ast.parse("\n".join(lines))
    except SyntaxError:
        return ast.Module(body=[], type_ignores=[])
