"""The tables of a lesson: in words for the terminal, and with all sentences for a spreadsheet."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path

from tools.build.sources import read_notebook, tags
from tools.grade.submissions import Submission, exercises_of
from tools.grade.trial import LENGTH, Verdict, one_line
from tools.publish.questions import questions_of

Graded = dict[Submission, dict[str, Verdict]]  # the verdicts on each, by the names of the checks
LONG = 5  # own lines of an answer that is not the same by chance


def points(verdicts: dict[str, Verdict]) -> int:
    """Return the points of a submission: one for each correct exercise."""
    return sum(kind == "correct" for kind, _ in verdicts.values())


def table(lesson: Path, graded: Graded, due: datetime | None) -> str:
    """Return a table of learners and exercises, in words."""
    rows = [["learner", *(exercise.title for exercise in exercises_of(lesson)), "points", ""]]
    for submission, verdicts in graded.items():
        kinds = (kind for kind, _ in verdicts.values())
        scored = f"{points(verdicts)} of {len(verdicts)}"
        late = "late" * submission.is_late(due)
        rows.append([one_line(submission.learner), *kinds, scored, late])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ("  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)) for row in rows)
    return "\n".join(line.rstrip() for line in lines)


def write_table(path: Path, lesson: Path, graded: Graded, due: datetime | None) -> None:
    """Write the same table with all sentences, and with the predictions, for a spreadsheet."""
    same, questions = same_answers(lesson, graded), questions_of(lesson)
    titles = [exercise.title for exercise in exercises_of(lesson)]
    asked = [f"prediction {question.key} (unverified)" for question in questions]
    rows = [["learner", "file", "file changed", "late", "points", "of", *titles, *asked, "same as"]]
    for submission, verdicts in graded.items():
        told = (": ".join(filter(None, verdict)) for verdict in verdicts.values())
        said = (question.option(submission.predictions.get(question.key)) for question in questions)
        marked = (one and f"{'right' if one.is_right else 'wrong'}: {one.said}" for one in said)
        changed = submission.changed.isoformat(" ", "minutes")
        late, hint = "late" * submission.is_late(due), safe("; ".join(same[submission]))
        learner, file_name = map(safe, (submission.learner, submission.path.name))
        scored = (learner, file_name, changed, late, points(verdicts), len(verdicts))
        rows.append([*scored, *map(safe, told), *marked, hint])
    write_csv(path, rows)


def write_csv(path: Path, rows: Iterable[Iterable[object]]) -> None:
    """Write rows as CSV."""
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows(rows)


def same_answers(lesson: Path, graded: Iterable[Submission]) -> dict[Submission, list[str]]:
    """Return whose code is the same for which exercise: a hint, and no proof of anything.

    Spaces, comments, docstrings and lines that were handed out do not count, and answers of a few
    lines are often alike.
    """
    stubs = [cell.source for cell in read_notebook(lesson).cells if "exercise" in tags(cell)]
    handed_out = Submission(lesson, "", stubs)
    same: dict[Submission, list[str]] = {submission: [] for submission in graded}
    for exercise in exercises_of(lesson):
        given = {"", *handed_out.code_of(exercise.answer).splitlines()}
        owners: dict[tuple[str, ...], list[Submission]] = {}
        for submission in same:
            lines = submission.code_of(exercise.answer).splitlines()
            own = tuple(line for line in lines if line not in given)
            if len(own) >= LONG:
                owners.setdefault(own, []).append(submission)
        for group in owners.values():
            for submission in group:
                twins = [twin.learner for twin in group if twin is not submission]
                same[submission] += [f"{twin} ({exercise.title})" for twin in twins]
    return same


def safe(text: str, most: int = LENGTH) -> str:
    """Return what a learner wrote so that no spreadsheet takes it for a formula."""
    line = one_line(text, most)
    return f"'{line}" if line.startswith(("=", "+", "-", "@")) else line
