"""Two rules: every number in the text of a lesson is computed or asserted nearby, or declared.

Nearby is the same level-2 section, or the three code cells before and after. A number is backed by
a literal in an assert, by a stored output, or by an integer in the code, where the proof of a cell
counts as its code; or it is declared by the ``numbers:`` of the proof of its own cell. The texts of
predictions and the captions of figures need backing too, and give none.
"""

from __future__ import annotations

import ast
import html
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache

from nbformat import NotebookNode

from tools.lint.lesson import (
    COMMENT,
    LINK,
    TAG,
    Lesson,
    Note,
    parse_code,
    prediction_keys,
    without_code,
)
from tools.lint.rules import output_texts

REACH = 3  # code cells before and after
DIGITS = r"(?:[0-9]{1,3}(?:,[0-9]{3})+(?![0-9])|[0-9]+)"
NUMBER = re.compile(
    rf"(?:(?<![\w)\]}}.])(?P<sign>[-−]))?(?<![\w.])(?P<digits>{DIGITS}(?:\.[0-9]+)*)"
    r"(?:[eE](?P<exponent>[-+]?[0-9]+))?(?P<percent>\s*(?:\\?%|per ?cent))?"
)
TIMES = r"\s*(?:\\times|\\cdot|·|×)\s*"
POWER = re.compile(
    rf"(?:(?P<factor>[0-9]+(?:\.[0-9]+)?){TIMES})?(?<![\w.])10\^(?:\{{(?P<long>[-−]?[0-9]+)\}}|(?P<short>[0-9]))"
)
RAISED = re.compile("(?<![0-9])10([⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+)")
FROM_RAISED = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")
LABEL = r"(?:figure|lesson|section|exercise|table|equation|chapter)"
MORE = r"(?:(?:,? (?:and|to|or)|,|–|-) ?[0-9][0-9.]*)*"
LABELS = re.compile(
    rf"(?:\b{LABEL}\s+|§\s*|#)[0-9][0-9.]*|\b{LABEL}s\s+[0-9][0-9.]*{MORE}", re.IGNORECASE
)
IGNORED = (
    re.compile(r"https?://\S+"),
    LABELS,
    re.compile(r"^#+ *[0-9]+ ·.*$", re.MULTILINE),  # a numbered heading
    re.compile(r"^ *[0-9]+[.)] ", re.MULTILINE),  # the marker of an ordered list
    re.compile(r"\([0-9]+ minutes?\)|\*\*Time:\*\*.*"),
    re.compile(r"\b[A-Z][A-Za-z]+-[0-9]+\b"),  # a name, such as GPT-2
    re.compile(r"[_^](?:\{[^{}]*\}|\\?\w+)"),  # an index or exponent
    re.compile(r"\\[A-Za-z]+"),  # a LaTeX command, as in \frac12
)
LESSON_LINK = re.compile(r"\[[^\]]*\]\([^)]*\.ipynb[^)]*\)")
HIDDEN_HTML = re.compile(r"<(figcaption|script|style)\b.*?</\1>", re.DOTALL)
CHECKS = ("assert_close", "assert_allclose", "assert_equal")


@dataclass(frozen=True)
class Number:
    """A number as it is written: its value, half of its last digit, and how it was written."""

    text: str
    value: float
    tolerance: float
    signed: bool
    percent: bool

    def equals(self, other: float) -> bool:
        """Return whether ``other`` rounds to this number; the sign counts where it is written."""
        found = other if self.signed else abs(other)
        sizes = [1.0, 0.01] if self.percent else [1.0]
        return any(
            abs(found - self.value * size) <= self.tolerance * size + 1e-9 * abs(self.value * size)
            for size in sizes
        )


@dataclass
class Evidence:
    """What code cells say: values that a number may be rounded from, and integers in the code."""

    values: set[float] = field(default_factory=set)
    integers: set[float] = field(default_factory=set)

    def backs(self, number: Number) -> bool:
        """Return whether the number is computed, asserted, or an integer of the code."""
        if number.value in self.integers or (not number.signed and -number.value in self.integers):
            return True
        return any(number.equals(value) for value in self.values)


def prose_numbers(lesson: Lesson) -> Iterator[Note]:
    """Check that every number in the text is computed or asserted nearby, or declared."""
    evidence = cache(lambda k: evidence_of(lesson, k))
    for n, text in lesson.texts:
        declared = lesson.proofs[n].numbers if n in lesson.proofs else ""
        constants = {_key(number) for number in _listed(declared)}
        open_ones = [number for number in numbers_in(text) if _key(number) not in constants]
        near = [evidence(k) for k in _near(lesson, n)] if open_ones else []
        missing = (one.text for one in open_ones if not any(each.backs(one) for each in near))
        for number in dict.fromkeys(missing):
            text = f"the number {number} is in no assert, output or list of numbers nearby."
            yield Note(n, text, number)


def declared_numbers(lesson: Lesson) -> Iterator[Note]:
    """Check that the numbers that a proof declares are in the text of its cell."""
    for n, proof in lesson.proofs.items():
        texts = [text for k, text in lesson.texts if k == n]
        there = {_key(number) for text in texts for number in numbers_in(text)}
        for number in _listed(proof.numbers):
            if _key(number) not in there:
                text = f"the number {number.text} is not in the text of the cell {proof.cell!r}."
                yield Note(n, text, place=f"{proof.name}:{proof.line}")


def numbers_in(source: str) -> list[Number]:
    """Return the numbers in the prose of a markdown text."""
    text = LESSON_LINK.sub(" ", without_code(source))
    text = TAG.sub(" ", LINK.sub(r"\g<text>", text))
    text = text.replace("{,}", ",")
    text = re.sub(r"(?<=[0-9])\\,(?=[0-9]{3})", ",", text)
    text = RAISED.sub(lambda m: f"10^{{{m[1].translate(FROM_RAISED)}}}", text)
    powers = [_power(found) for found in POWER.finditer(text)]
    text = POWER.sub(" ", text)
    for pattern in IGNORED:
        text = pattern.sub(" ", text)
    return powers + [_number(found) for found in NUMBER.finditer(text)]


def _listed(declared: str) -> list[Number]:
    """Return the numbers of a list of constants."""
    parts = (part.strip() for part in re.split(r"[,;]\s+", declared))
    return [number for part in parts if part for number in numbers_in(part)]


def evidence_of(lesson: Lesson, n: int) -> Evidence:
    """Return the numbers of a cell and its proof that can back the text; questions back nothing."""
    cell, evidence = lesson.notebook.cells[n - 1], Evidence()
    trees = [lesson.proofs[n].tree] if n in lesson.proofs else []
    if cell.cell_type == "code" and not prediction_keys(cell.source):
        trees.append(parse_code(cell.source))
        for text in _shown_texts(cell):
            evidence.values.update(_number(found).value for found in NUMBER.finditer(text))
    for tree in trees:
        evidence.integers.update(one for one in _literals(tree) if float(one).is_integer())
        checked = list(_checks(tree))
        parts = [part for check in checked for part in ast.walk(check)]
        names = {part.id for part in parts if isinstance(part, ast.Name)}
        for node in checked + [a for a in ast.walk(tree) if _is_expected_value(a, names)]:
            evidence.values.update(_literals(node))
    return evidence


def _key(number: Number) -> float | str:
    """Return the value of a number; for 3.2.1, which has none, how it is written."""
    return number.text if math.isnan(number.value) else number.value


def _near(lesson: Lesson, n: int) -> list[int]:
    """Return the numbers of the cells near a cell that hold code or have a proof."""
    codes = [k for k, cell in lesson.code if not prediction_keys(cell.source)]
    before, after = [k for k in codes if k < n], [k for k in codes if k > n]
    near = {n, *before[-REACH:], *after[:REACH]}
    section = lesson.sections[n]
    return sorted(near | {k for k in {*codes, *lesson.proofs} if lesson.sections[k] == section})


def _number(found: re.Match[str]) -> Number:
    digits, exponent = found["digits"].replace(",", ""), int(found["exponent"] or 0)
    signed, percent = bool(found["sign"]), bool(found["percent"])
    text = f"{'-' if signed else ''}{found['digits']}"
    if found["exponent"]:
        text += f"e{found['exponent']}"
    if digits.count(".") > 1:  # the number of a section: never computed
        return Number(text, float("nan"), 0.0, signed, percent)
    value, unit = float(f"{digits}e{exponent}"), 10.0 ** (exponent - len(digits.partition(".")[2]))
    # Too much would round to 0, 1 or 2: any weight, for one.
    tolerance = 0.1 if digits in ("0", "1", "2") and unit == 1 and not percent else 0.5 * unit
    return Number(text, -value if signed else value, tolerance, signed, percent)


def _power(found: re.Match[str]) -> Number:
    exponent = int((found["long"] or found["short"]).replace("−", "-"))
    factor = found["factor"] or "1"
    unit = 10.0 ** (exponent - len(factor.partition(".")[2]))
    tolerance = 0.5 * unit if found["factor"] else 0.0
    return Number(found[0], float(f"{factor}e{exponent}"), tolerance, False, False)


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


def _is_expected_value(node: ast.AST, names: set[str]) -> bool:
    """Return whether a node gives literals a name that a check of the same cell uses."""
    if not isinstance(node, ast.Assign):
        return False
    targets = {target.id for target in node.targets if isinstance(target, ast.Name)}
    used = {part.id for part in ast.walk(node.value) if isinstance(part, ast.Name)}
    return bool(targets & names) and used <= {"torch", "np"}


def _shown_texts(cell: NotebookNode) -> Iterator[str]:
    """Yield the texts of the stored outputs without HTML tags and figure captions."""
    for output in cell.get("outputs", []):
        page = output.get("data", {}).get("text/html", "")
        if "<figure data-number" in page:
            output = {**output, "data": {"text/html": page}}  # its plain text is the caption
        if output["output_type"] == "error":
            output = {"evalue": output.get("evalue", "")}  # a traceback counts lines
        for text in output_texts(output):
            yield html.unescape(TAG.sub(" ", HIDDEN_HTML.sub(" ", COMMENT.sub(" ", text))))
