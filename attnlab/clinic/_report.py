"""What the clinic hands back: evidence, findings, and the report that holds them."""

from __future__ import annotations

from dataclasses import dataclass, replace

from torch import Tensor

from attnlab.clinic._causes import CAUSES, LESSONS


@dataclass(frozen=True)
class Evidence:
    """The smallest table that shows a bug.

    Attributes
    ----------
    caption : str
        What the numbers are.
    values : Tensor, shape (R, C)
        The numbers.
    rows, columns : tuple of str
        Their labels.
    shaded : bool
        Whether to colour the cells by their value: for weights, from 0 to 1.
    """

    caption: str
    values: Tensor
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    shaded: bool = False

    def __post_init__(self) -> None:
        if tuple(self.values.shape) != (len(self.rows), len(self.columns)):
            raise ValueError(
                f"values must have one row and column per label, got "
                f"{tuple(self.values.shape)} for {len(self.rows)} rows and "
                f"{len(self.columns)} columns."
            )

    def cells(self) -> list[list[str]]:
        """Return the numbers as text, short enough to read.

        Returns
        -------
        list of list of str
            One list per row.
        """
        return [[_number(value) for value in row] for row in self.values.tolist()]

    def __str__(self) -> str:
        lines = [["", *self.columns]]
        lines += [[name, *row] for name, row in zip(self.rows, self.cells(), strict=True)]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        text = [
            "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]).rstrip()
            for row in lines
        ]
        return "\n".join([self.caption, *text])


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong; ``str(finding)`` says it in a sentence.

    Attributes
    ----------
    name : str
        Short and stable, such as ``"softmax-axis"``; the table of all names is in ``_causes.py``.
    sentence : str
        What is wrong, with the numbers that were measured.
    evidence : Evidence or None
        What shows it.
    consequences : tuple of Finding
        What was found as well and follows from this.
    """

    name: str
    sentence: str
    evidence: Evidence | None = None
    consequences: tuple[Finding, ...] = ()

    def __post_init__(self) -> None:
        if self.name not in CAUSES:
            raise ValueError(f"{self.name!r} is no known cause.")

    @property
    def fix(self) -> str:
        """What usually mends it."""
        return CAUSES[self.name].fix

    @property
    def lesson(self) -> str:
        """File name of the lesson that explains it, without its ending."""
        return LESSONS[CAUSES[self.name].lesson]

    def with_consequences(self, findings: tuple[Finding, ...]) -> Finding:
        """Return this finding with others folded under it.

        Parameters
        ----------
        findings : tuple of Finding
            What follows from it.

        Returns
        -------
        Finding
            A new one.
        """
        return replace(self, consequences=findings)

    def __str__(self) -> str:
        return self.sentence


@dataclass(frozen=True)
class Report:
    """What ``diagnose`` found.

    Attributes
    ----------
    target : str
        Name of what was looked at.
    kind : str
        What it was taken for, such as ``"attention function"``.
    findings : tuple of Finding
        What is wrong, the cause first.
    notes : tuple of str
        Good to know, no bug.
    properties : tuple of str
        What was checked and holds.
    """

    target: str
    kind: str
    findings: tuple[Finding, ...] = ()
    notes: tuple[str, ...] = ()
    properties: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.findings

    @property
    def summary(self) -> str:
        """The first finding, or what was checked, in one sentence."""
        if self.findings:
            return str(self.findings[0])
        return f"Nothing wrong found: {len(self.properties)} properties checked, and all hold."

    def __repr__(self) -> str:
        lines = [f"{self.target} ({self.kind}): {self._count()}"]
        for number, finding in enumerate(self.findings, 1):
            lines += _tell(number, finding)
        lines += _listed("Good to know", self.notes)
        lines += _listed("Checked, and it holds", self.properties)
        return "\n".join(lines)

    def _count(self) -> str:
        if self.ok:
            return "nothing wrong found"
        return "1 finding" if len(self.findings) == 1 else f"{len(self.findings)} findings"

    def _repr_html_(self) -> str:
        from attnlab.clinic._page import report_html

        return report_html(self)


def lesson_title(lesson: str) -> str:
    """Return how a text names a lesson.

    Parameters
    ----------
    lesson : str
        File name without its ending, such as ``"09_clinic"``.

    Returns
    -------
    str
        Such as ``"lesson 3"``.
    """
    return f"lesson {int(lesson[:2])}"


def _tell(number: int, finding: Finding) -> list[str]:
    lines = ["", f"{number}. {finding}  [{finding.name}]"]
    if finding.evidence is not None:
        lines += [f"   {line}".rstrip() for line in str(finding.evidence).splitlines()]
    lines += [f"   Fix: {finding.fix}", f"   See {lesson_title(finding.lesson)}."]
    lines += [f"   Follows from it: {other}" for other in finding.consequences]
    return lines


def _listed(title: str, sentences: tuple[str, ...]) -> list[str]:
    return ["", f"{title}:", *(f"- {sentence}" for sentence in sentences)] if sentences else []


def _number(value: float) -> str:
    if value != value or abs(value) == float("inf"):
        return "NaN" if value != value else str(value)
    if value == round(value) and abs(value) < 1e6:
        return str(round(value))
    if abs(value) >= 1e4 or abs(value) < 1e-3:
        return f"{value:.1e}"
    return f"{value:.3f}"
