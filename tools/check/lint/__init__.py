"""Check the stored notebooks: the file, its outputs, its parts, and the numbers in its text.

    python -m tools.check.lint            all lessons
    python -m tools.check.lint 01 02      these lessons

Each finding names the file and the line of the source that has to be changed. A rule is a function
that takes a lesson and yields notes; a new one is added to the list at the end of its module.
"""

from collections.abc import Callable, Iterable
from pathlib import Path

from tools.check.lint import rules
from tools.check.lint.lesson import Lesson, Note
from tools.check.lint.numbers import prose_numbers

RULES: tuple[Callable[[Lesson], Iterable[Note]], ...] = (*rules.RULES, prose_numbers)


def lint(path: Path) -> list[Note]:
    """Return the findings of all rules on a notebook, in the order of its cells."""
    lesson = Lesson(path)
    notes = [
        note._replace(rule=rule.__name__, place=lesson.place(note))
        for rule in RULES
        for note in rule(lesson)
    ]
    return sorted(notes, key=lambda note: note.cell)
