"""The predictions of a lesson as HTML, for pages behind which there is no kernel."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from nbformat import NotebookNode

from attnlab.display import texts
from tools.build.sources import facts_of, outputs_of, read_notebook
from tools.publish.site.html import rewrite


class Option(NamedTuple):
    """One answer: its letter, its text and the reason as HTML, and its text as it is written."""

    letter: str
    text: str
    reason: str
    is_right: bool
    said: str  # what a learner's file holds


class Question(NamedTuple):
    """A prediction, its texts as HTML."""

    key: str
    text: str
    explanation: str
    options: tuple[Option, ...]

    def option(self, said: object) -> Option | None:
        """Return the option that a learner's file names, or None."""
        return next((option for option in self.options if option.said == said), None)


def title_of(lesson: Path) -> str:
    """Return the title of a lesson as HTML."""
    first, *_ = read_notebook(lesson).cells
    return _html(first.source.partition("\n")[0].lstrip("# "))


def questions_of(lesson: Path) -> list[Question]:
    """Return the predictions of a lesson, in the order of its page."""
    shown = map(facts_of, outputs_of(read_notebook(lesson)))
    return [_question(facts) for facts in shown if facts.get("kind") == "prediction"]


def _question(facts: NotebookNode) -> Question:
    written = texts.question_of(facts.key)["options"]
    options = tuple(
        Option(letter, _html(one.text), _html(one.feedback), one.correct, entry["text"])
        for letter, one, entry in zip("ABCDEFGH", facts.options, written, strict=False)
    )
    return Question(facts.key, _html(facts.question), _html(facts.explanation), options)


def _html(text: str) -> str:
    """Return a text of a lesson with its formulas as MathML."""
    return rewrite(text, str)
