"""The class as a whole on one page: who answered what, and which mistakes to talk about."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from jinja2 import Environment, FileSystemLoader
from markupsafe import Markup

from attnlab import exercises, palette
from tools.grade.roster import Roster
from tools.grade.submissions import Submission, exercises_of
from tools.grade.tables import Graded, points
from tools.grade.trial import Verdict, one_line
from tools.publish.questions import Question, questions_of, title_of

LOOKS = 4  # colours of wrong answers; those that are rarer share one
NOTHING = "none"


class Answer(NamedTuple):
    """What a learner answered: "right", "wrong" or "none", a letter if it has one, and in words."""

    kind: str
    letter: str
    words: str


class Seen(NamedTuple):
    """How a cell looks: its class, its mark, the answer, and how many have given it."""

    look: str
    mark: str
    answer: Answer
    count: int


class Column(NamedTuple):
    """An exercise or a prediction: a short name, a title, a cell for each learner, and a legend."""

    name: str
    title: str
    cells: list[Seen]
    legend: list[Seen]  # the most frequent first, and of as many those that answer
    right: int


def column(name: str, title: str, answers: Sequence[Answer]) -> Column:
    """Return the column of some answers; the colour says how frequent a wrong one is."""
    counted = Counter(answers).most_common()
    ranked = sorted(counted, key=lambda one: (-one[1], one[0].kind == NOTHING))
    wrong = [answer for answer, _ in ranked if answer.kind == "wrong"]
    seen = {}
    for answer, count in ranked:
        look, mark = answer.kind, {"right": "✓", NOTHING: "–"}.get(answer.kind)
        if answer in wrong:
            rank = wrong.index(answer) + 1
            look, mark = f"wrong-{min(rank, LOOKS + 1)}", answer.letter or str(rank)
        seen[answer] = Seen(look, mark, answer, count)
    right = sum(answer.kind == "right" for answer in answers)
    return Column(name, title, [seen[answer] for answer in answers], list(seen.values()), right)


def answer_to_exercise(check: str, verdict: Verdict) -> Answer:
    """Return the answer to an exercise: a mistake that has a name goes by it alone."""
    kind, words = verdict
    if kind == "correct":
        return Answer("right", "", "correct")
    if kind == "missing":
        return Answer(NOTHING, "", "missing")
    named = getattr(exercises, check).form.slips
    why = next((slip for slip in named if one_line(slip) in words), words)
    return Answer("wrong", "", f"failed to run: {why}" if kind == "failed to run" else why)


def answer_to_question(question: Question, submission: Submission) -> Answer:
    """Return the answer to a prediction, in HTML, with its reason."""
    given = submission.predictions.get(question.key)
    if given is None:
        return Answer(NOTHING, "", Markup("no answer"))
    option = question.option(given)
    if option is None:
        return Answer("wrong", "?", Markup("an answer that the lesson does not offer"))
    words = Markup(f"<b>{option.letter}. {option.text}</b> {option.reason}")
    return Answer("right" if option.is_right else "wrong", option.letter, words)


def lesson_facts(lesson: Path, graded: Graded, due: datetime | None, roster: Roster) -> dict:
    """Return what the page tells of a lesson."""
    solved, predicted = [], []
    for place, task in enumerate(exercises_of(lesson), 1):
        given = [answer_to_exercise(task.check, graded[one][task.check]) for one in graded]
        solved.append(column(str(place), task.title, given))
    for place, asked in enumerate(questions_of(lesson), 1):
        given = [answer_to_question(asked, one) for one in graded]
        predicted.append(column(str(place), Markup(asked.text), given))
    rows = [
        {
            "learner": one_line(one.learner),
            "file": one_line(one.path.name),
            "points": points(graded[one]),
            "right": sum(part.cells[place].look == "right" for part in predicted),
            "late": one.is_late(due),
            "changed": one.changed.isoformat(" ", "minutes"),
        }
        for place, one in enumerate(graded)
    ]
    return {
        "title": Markup(title_of(lesson)),
        "rows": rows,
        "solved": solved,
        "predicted": predicted,
        "absent": roster.absent(graded),
    }


def write_page(
    path: Path,
    graded: dict[Path, Graded],
    left_out: list[tuple[str, str]],
    due: datetime | None,
    roster: Roster,
) -> Path:
    """Write the page; return where it is. ``left_out`` has names and reasons."""
    loader = FileSystemLoader(Path(__file__).parent)
    environment = Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True)
    page = environment.get_template("class.html.j2").render(
        lessons=[lesson_facts(lesson, graded[lesson], due, roster) for lesson in sorted(graded)],
        left_out=left_out,
        due=due and due.isoformat(" ", "minutes"),
        colours=palette.css(),
    )
    path.write_text(page, encoding="utf-8")
    return path
