"""The predictions of a lesson as HTML, for pages behind which there is no kernel."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from attnlab.display import texts
from attnlab.exercises import predict
from tools.build.sources import read_notebook
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


def questions_of(number: str) -> list[Question]:
    """Return the predictions of a lesson, such as ``"02"``, in their order."""
    asked = texts.read(texts.text_files()[number]).get("question", {})
    return [_question(f"{number}/{name}", entry["options"]) for name, entry in asked.items()]


def _question(key: str, written: list[dict]) -> Question:
    asked = predict(key).asked
    options = tuple(
        Option(letter, _html(one["text"]), _html(one["feedback"]), one["correct"], entry["text"])
        for letter, one, entry in zip("ABCDEFGH", asked["options"], written, strict=False)
    )
    return Question(key, _html(asked["question"]), _html(asked["explanation"]), options)


def _html(text: str) -> str:
    """Return a text of a lesson with its formulas as MathML."""
    return rewrite(text, str)
