"""Who is in the class: a roster, and the files of points that Canvas and Moodle import with it.

A roster is a CSV file with a column "learner", the name in the tables of `make grade`, and with the
columns of the gradebook that Canvas exports, or with one by which Moodle knows a person. A file of
points lists those who handed in: Canvas and Moodle leave the points of others as they are.
"""

from __future__ import annotations

import csv
import io
import sys
from dataclasses import replace
from html import escape
from pathlib import Path

from tools.grade.submissions import Submission, exercises_of
from tools.grade.tables import Graded, points, write_csv
from tools.grade.trial import Verdict, one_line

Verdicts = dict[str, Verdict]
Rows = list[list[object]]

CANVAS = ("Student", "ID", "SIS User ID", "SIS Login ID", "Section")  # in this order
POSSIBLE = "    Points Possible"  # the first cell of the row with the highest points
MOODLE = ("Email address", "Username", "ID number")  # any of them
COLUMNS = (
    "ROSTER must have a column “learner”, and the columns of a gradebook exported from Canvas "
    f"(“Student”, “ID” and others), or one of “{'”, “'.join(MOODLE)}” for Moodle; {{}}."
)


class Roster:
    """The rows of a class by the names of the learners; none without a file."""

    def __init__(self, path: Path | None = None) -> None:
        self.rows, self.columns = _read(path) if path else ({}, [])

    def row_of(self, learner: str) -> str | None:
        """Return the name in the roster that a learner goes by, or None.

        Canvas and Moodle begin the names of files and folders with it and an underscore.
        """
        names = _plain(learner), _plain(learner.partition("_")[0])
        return next((name for name in names if name in self.rows), None)

    def called(self, submission: Submission) -> Submission:
        """Return a submission under the name that the roster has for its learner, if it has one."""
        name = self.row_of(submission.learner)
        return replace(submission, learner=self.rows[name]["learner"]) if name else submission

    def absent(self, graded: Graded) -> list[str]:
        """Return who is in the roster and not among those that were graded."""
        present = {self.row_of(submission.learner) for submission in graded}
        return [row["learner"] for name, row in self.rows.items() if name not in present]

    def write(self, folder: Path, lesson: Path, graded: Graded) -> list[str]:
        """Write the files of points for a lesson; return sentences on what was written."""
        if not self.rows:
            return []
        best: dict[str | None, Submission] = {}  # of several files of one learner
        for submission in sorted(graded, key=lambda one: points(graded[one])):
            best[self.row_of(submission.learner)] = submission
        unknown = [one.learner for one in graded if self.row_of(one.learner) is None]
        best.pop(None, None)
        said = []
        for name, make in {"Canvas": self._canvas, "Moodle": self._moodle}.items():
            if rows := make(lesson, {person: graded[one] for person, one in best.items()}):
                path = folder / f"{name.lower()}_{lesson.stem[:2]}.csv"
                write_csv(path, rows)
                said.append(f"{name} imports {path}.")
        if unknown:
            said.append(f"The roster has no learner named {', '.join(map(one_line, unknown))}.")
        if absent := self.absent(graded):
            said.append(f"There is no graded file from {', '.join(absent)}.")
        return said

    def _canvas(self, lesson: Path, verdicts: dict[str, Verdicts]) -> Rows:
        """Return what Canvas imports, or nothing if the roster has no names for it."""
        if CANVAS[0] not in self.columns:
            return []
        rows = [[*CANVAS, title_in(lesson)], [POSSIBLE, "", "", "", "", len(exercises_of(lesson))]]
        for name, said in verdicts.items():
            rows.append([*(self.rows[name].get(part) or "" for part in CANVAS), points(said)])
        return rows

    def _moodle(self, lesson: Path, verdicts: dict[str, Verdicts]) -> Rows:
        """Return what Moodle imports, or nothing if the roster has no names for it.

        Moodle would give the points in a row without a name to the person in the row before.
        """
        known = next((column for column in MOODLE if column in self.columns), None)
        if known is None:
            return []
        rows = [[known, title_in(lesson), f"{title_in(lesson)} feedback"]]
        for name, said in verdicts.items():
            if person := self.rows[name][known]:
                rows.append([person, points(said), feedback(lesson, said)])
        return rows


def title_in(lesson: Path) -> str:
    """Return what a lesson is called in a gradebook."""
    return f"attnlab {lesson.stem[:2]}"


def feedback(lesson: Path, verdicts: Verdicts) -> str:
    """Return all verdicts as a text of HTML, which Moodle shows to the learner."""
    told = zip(exercises_of(lesson), verdicts.values(), strict=True)
    lines = (f"{one.title}: {kind}. {words}" for one, (kind, words) in told)
    return "<br>".join(escape(line.rstrip(), quote=False) for line in lines)


def _read(path: Path) -> tuple[dict[str, dict[str, str]], list[str]]:
    """Return the rows of a roster by plain names, and its columns; SystemExit says why not."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        sys.exit(f"ROSTER cannot be read: {error}.")
    first = text.partition("\n")[0]
    delimiter = ";" if first.count(";") > first.count(",") else ","
    reader = csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter)
    columns = list(reader.fieldnames or ())
    if "learner" not in columns or not {CANVAS[0], *MOODLE} & set(columns):
        sys.exit(COLUMNS.format(f"{path.name} has {', '.join(columns) or 'none'}"))
    rows: dict[str, dict[str, str]] = {}
    for row in reader:
        name = _plain(row["learner"] or "")
        if name in rows:
            sys.exit(f"ROSTER names {row['learner']} twice.")
        if name:
            rows[name] = row
    return rows, columns


def _plain(name: str) -> str:
    """Return a name without the spaces and capitals in which two writings may differ."""
    return " ".join(name.casefold().split())
