"""A rule: every number in the text of a lesson is computed or asserted nearby, or declared.

Nearby is the same level-2 section, or the three code cells before and after. A number is backed by
a literal in an assert, by a stored output, or by an integer in the code, where the proof of a cell
counts as its code; or it is declared by the ``numbers:`` of the proof of its own cell. The texts of
predictions and the captions of figures need backing too, and give none.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from bs4 import BeautifulSoup
from nbformat import NotebookNode

from tools.build.prose import MARKDOWN
from tools.build.sources import html_of
from tools.check.lint.lesson import Lesson, Note, asked_key, parse_code

REACH = 3  # code cells before and after
DIGITS = r"(?:[0-9]{1,3}(?:,[0-9]{3})+(?![0-9])|[0-9]+)(?:\.[0-9]+)?"
NUMBER = re.compile(
    rf"(?:(?<![\w)\]}}.])(?P<sign>[-−]))?(?<![\w.])(?P<digits>{DIGITS})"
    r"(?:[eE](?P<exponent>[-+]?[0-9]+))?(?P<percent>\s*(?:\\?%|per ?cent))?"
)
LABEL = r"(?:figure|lesson|section|exercise|table|equation|chapter)"
MORE = r"(?:(?:,? (?:and|to|or)|,|–|-) ?[0-9][0-9.]*)*"
LABELS = re.compile(
    rf"(?:\b{LABEL}\s+|§\s*|#)[0-9][0-9.]*|\b{LABEL}s\s+[0-9][0-9.]*{MORE}", re.IGNORECASE
)
IGNORED = (
    re.compile(r"https?://\S+"),
    LABELS,
    re.compile(r"^ *[0-9]+ ·.*$", re.MULTILINE),  # a numbered heading
    re.compile(r"\([0-9]+ minutes?\)|^\s*Time:.*(?:\n.+)*", re.MULTILINE),
    re.compile(r"\b[A-Z][A-Za-z]+-[0-9]+\b"),  # a name, such as GPT-2
    re.compile(r"[_^](?:\{[^{}]*\}|\\?\w+)"),  # an index or exponent
    re.compile(r"\\[A-Za-z]+"),  # a LaTeX command, as in \frac12
)
IN_NO_SENTENCE = "code, pre, a[href*='.ipynb']"  # of a text: other lessons have their own numbers
UNSEEN = "figcaption, script, style"  # of an output: a caption backs nothing
CHECKS = ("assert_close", "assert_allclose", "assert_equal")


class Number(NamedTuple):
    """A number as it is written: its value, half of its last digit, and how it was written."""

    text: str
    value: float
    tolerance: float
    signed: bool
    percent: bool

    def equals(self, value: float) -> bool:
        """Return whether ``value`` rounds to this number; the sign counts where it is written."""
        value = value if self.signed else abs(value)
        sizes = [1.0, 0.01] if self.percent else [1.0]
        return any(
            abs(value - self.value * size) <= self.tolerance * size + 1e-9 * abs(self.value * size)
            for size in sizes
        )


def prose_numbers(lesson: Lesson) -> Iterator[Note]:
    """Check that every number in the text is computed or asserted nearby, or declared."""
    evidence = cache(lambda k: evidence_of(lesson, k))
    for n, text in lesson.texts:
        declared = {number.value for number in numbers_declared(lesson, n)}
        undeclared = [number for number in numbers_in(text) if number.value not in declared]
        near = [evidence(k) for k in _near(lesson, n)] if undeclared else []
        known = set().union(*near)
        missing = (number.text for number in undeclared if not any(map(number.equals, known)))
        for number in dict.fromkeys(missing):
            text = f"the number {number} is in no assert, output or list of numbers nearby."
            yield Note(n, text, number)


def numbers_in(source: str) -> list[Number]:
    """Return the numbers in the prose of a markdown text."""
    text = _text_of(MARKDOWN.render(source), IN_NO_SENTENCE).replace("{,}", ",")
    for pattern in IGNORED:
        text = pattern.sub(" ", text)
    return [_number(match) for match in NUMBER.finditer(text)]


def numbers_declared(lesson: Lesson, n: int) -> list[Number]:
    """Return the numbers that the proof of a cell declares, if it has one."""
    declared = lesson.proofs[n].numbers if n in lesson.proofs else ""
    return [number for part in re.split(r"[,;]\s+", declared) for number in numbers_in(part)]


def evidence_of(lesson: Lesson, n: int) -> set[float]:
    """Return the numbers of a cell and its proof that can back the text; questions back nothing."""
    cell, evidence = lesson.notebook.cells[n - 1], set()
    trees = [lesson.proofs[n].tree] if n in lesson.proofs else []
    if cell.cell_type == "code" and not asked_key(cell):
        trees.append(parse_code(cell.source))
        for text in map(_shown, cell.get("outputs", [])):
            evidence.update(_number(match).value for match in NUMBER.finditer(text))
    for tree in trees:
        evidence.update(number for number in _literals(tree) if float(number).is_integer())
        evidence.update(number for check in _checks(tree) for number in _literals(check))
    return evidence


def _near(lesson: Lesson, n: int) -> list[int]:
    """Return the numbers of the cells near a cell that hold code or have a proof."""
    codes = [k for k, cell in lesson.code if not asked_key(cell)]
    before, after = [k for k in codes if k < n], [k for k in codes if k > n]
    near = {n, *before[-REACH:], *after[:REACH]}
    section = lesson.sections[n]
    return sorted(near | {k for k in {*codes, *lesson.proofs} if lesson.sections[k] == section})


def _number(match: re.Match[str]) -> Number:
    digits, exponent = match["digits"].replace(",", ""), int(match["exponent"] or 0)
    signed, percent = bool(match["sign"]), bool(match["percent"])
    text = f"{'-' if signed else ''}{match['digits']}"
    if match["exponent"]:
        text += f"e{match['exponent']}"
    value, unit = float(f"{digits}e{exponent}"), 10.0 ** (exponent - len(digits.partition(".")[2]))
    # Too much would round to 0, 1 or 2: any weight, for one.
    tolerance = 0.1 if digits in ("0", "1", "2") and unit == 1 and not percent else 0.5 * unit
    return Number(text, -value if signed else value, tolerance, signed, percent)


def _literals(tree: ast.AST) -> Iterator[float]:
    """Yield the number literals of a syntax tree, with their signs."""
    negative = {
        id(node.operand)
        for node in ast.walk(tree)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and type(node.value) in (int, float):
            yield -node.value if id(node) in negative else node.value


def _checks(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield the assert statements and the calls that compare tensors."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assert):
            yield node.test
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith(CHECKS):
            yield node


def _shown(output: NotebookNode) -> str:
    """Return what a reader sees of a stored output, without the captions of figures."""
    page, plain = html_of(output), output.get("data", {}).get("text/plain", "")
    said = output.get("text") or output.get("evalue")  # a traceback counts lines
    return said or (_text_of(page, UNSEEN) if page else plain)


def _text_of(page: str, without: str) -> str:
    """Return the text of HTML without some of its elements, which a selector names."""
    soup = BeautifulSoup(page, "html.parser")
    for element in soup.select(without):
        element.replace_with(" ")
    return soup.get_text(" ")
