"""Check the stored notebooks: file, outputs, style, and the numbers in the text.

    python -m tools.lint_notebooks            all lessons
    python -m tools.lint_notebooks 01 02      these

One line for each finding; cells count from 1, and cell 0 is the notebook as a whole.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from tools import _lint_format, _lint_outputs, _lint_style
from tools._lint import Finding, Lesson, Note
from tools.lint_prose_numbers import prose_numbers
from tools.notebooks import find_notebooks, select

Rule = Callable[[Lesson], Iterable[Note]]
RULES: tuple[Rule, ...] = (
    *_lint_format.RULES,
    *_lint_outputs.RULES,
    *_lint_style.RULES,
    prose_numbers,
)


def lint(path: Path) -> list[Finding]:
    """Return the findings of all rules on a notebook, in the order of its cells."""
    lesson = Lesson.read(path)
    found = [Finding(rule.__name__, *note) for rule in RULES for note in rule(lesson)]
    return sorted(found, key=lambda finding: finding.cell)


def main() -> None:
    """Print what is found in the notebooks that the command line names."""
    lines = [
        f"{path.name}: cell {finding.cell}: {finding.text}"
        for path in select(find_notebooks(), sys.argv[1:])
        for finding in lint(path)
    ]
    print("\n".join(lines) or "The notebooks are clean.")
    sys.exit(1 if lines else 0)


if __name__ == "__main__":
    main()
