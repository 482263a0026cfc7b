"""Who is in the class: a roster, and the files of points that Canvas and Moodle import with it.

A roster is a CSV file that Canvas or Moodle exports. A column "learner" may be added for files and
folders that have other names. A file of points lists those who handed in: Canvas and Moodle leave
the points of others as they are.
"""

from __future__ import annotations

import csv
import io
import re
import sys
import unicodedata
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path

from tools.grade.submissions import Submission, exercises_of
from tools.grade.tables import Graded, points, write_csv
from tools.grade.trial import Verdict, one_line

Verdicts = dict[str, Verdict]
Rows = list[list[object]]

CANVAS = ("Student", "ID", "SIS User ID", "SIS Login ID", "Section")  # in this order
TESTER = "Student, Test"  # whom Canvas adds to see a course as a student does
POSSIBLE = "    Points Possible"  # the first cell of the row with the highest points
MOODLE = ("Email address", "Username", "ID number")  # any of them
KNOWN_BY = ("learner", "SIS User ID", "SIS Login ID", *MOODLE)  # beside the name of a person
# What Canvas calls a file: the name, perhaps LATE, the number of the person, and that of the file.
DOWNLOADED = re.compile(r"[^_]+_(?:LATE_)?(?P<person>\d+)_\d+_")
COLUMNS = (
    "ROSTER must have the columns of a gradebook exported from Canvas (“Student”, “ID” and "
    f"others), or one of “{'”, “'.join(MOODLE)}” for Moodle; {{}}."
)


@dataclass(frozen=True, eq=False)
class Person:
    """Somebody in the roster: the name that tables show, and the row."""

    name: str
    row: dict[str, str]


class Roster:
    """The people of a class, and what each of them is known by; none without a file."""

    def __init__(self, path: Path | None = None) -> None:
        self.people, self.columns = _read(path) if path else ([], [])
        self.numbers = {person.row.get("ID"): person for person in self.people}
        self.known: dict[str, Person | None] = {}  # None: two people are known by it
        for person in self.people:
            for name in _names(person.row):
                self.known[name] = None if name in self.known else person

    def find(self, learner: str) -> Person | None:
        """Return whom a name, or the name of a file or a folder, belongs to.

        Canvas and Moodle begin the names of files and folders with a name and an underscore.
        """
        downloaded = DOWNLOADED.match(learner)
        names = _plain(learner), _plain(learner.partition("_")[0])
        people = [self.numbers.get(downloaded["person"])] if downloaded else []
        return next(filter(None, (*people, *map(self.known.get, names))), None)

    def called(self, submission: Submission) -> Submission:
        """Return a submission under the name that the roster has for its learner, if it has one."""
        person = self.find(submission.learner)
        return replace(submission, learner=person.name, person=person) if person else submission

    def absent(self, graded: Graded) -> list[str]:
        """Return who is in the roster and not among those that were graded."""
        present = {submission.person for submission in graded}
        names = [person.name for person in self.people if person not in present]
        return [name for name in names if name != TESTER]

    def write(self, folder: Path, lesson: Path, graded: Graded) -> list[str]:
        """Write the files of points for a lesson; return sentences on what was written."""
        if not self.people:
            return []
        best: dict[Person | None, Submission] = {}  # of several files of one learner
        for submission in sorted(graded, key=lambda one: points(graded[one])):
            best[submission.person] = submission
        unknown = [one.learner for one in graded if one.person is None]
        verdicts = {person: graded[best[person]] for person in self.people if person in best}
        said = []
        for name, make in {"Canvas": self._canvas, "Moodle": self._moodle}.items():
            if rows := make(lesson, verdicts):
                path = folder / f"{name.lower()}_{lesson.stem[:2]}.csv"
                write_csv(path, rows)
                said.append(f"{name} imports {path}.")
        if unknown:
            names = "; ".join(map(one_line, unknown))
            said.append(f"The roster has nobody, or several people, of this name: {names}.")
        if absent := self.absent(graded):
            said.append(f"There is no graded file from {'; '.join(absent)}.")
        return said

    def _canvas(self, lesson: Path, verdicts: dict[Person, Verdicts]) -> Rows:
        """Return what Canvas imports, or nothing if the roster has no names for it."""
        if CANVAS[0] not in self.columns:
            return []
        rows = [[*CANVAS, title_in(lesson)], [POSSIBLE, "", "", "", "", len(exercises_of(lesson))]]
        for person, said in verdicts.items():
            rows.append([*(person.row.get(part, "") for part in CANVAS), points(said)])
        return rows

    def _moodle(self, lesson: Path, verdicts: dict[Person, Verdicts]) -> Rows:
        """Return what Moodle imports, or nothing if the roster has no names for it.

        Moodle would give the points in a row without a name to the person in the row before.
        """
        known = next((column for column in MOODLE if column in self.columns), None)
        if known is None:
            return []
        rows = [[known, title_in(lesson), f"{title_in(lesson)} feedback"]]
        for person, said in verdicts.items():
            if name := person.row[known]:
                rows.append([name, points(said), feedback(lesson, said)])
        return rows


def title_in(lesson: Path) -> str:
    """Return what a lesson is called in a gradebook."""
    return f"attnlab {lesson.stem[:2]}"


def feedback(lesson: Path, verdicts: Verdicts) -> str:
    """Return all verdicts as a text of HTML, which Moodle shows to the learner."""
    told = zip(exercises_of(lesson), verdicts.values(), strict=True)
    lines = (f"{one.title}: {kind}. {words}" for one, (kind, words) in told)
    return "<br>".join(escape(line.rstrip(), quote=False) for line in lines)


def _read(path: Path) -> tuple[list[Person], list[str]]:
    """Return the people of a roster, and its columns; SystemExit says why not."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        sys.exit(f"ROSTER cannot be read: {error}.")
    first = text.partition("\n")[0]
    delimiter = ";" if first.count(";") > first.count(",") else ","
    reader = csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter, restval="")
    columns = list(reader.fieldnames or ())
    if not {CANVAS[0], *MOODLE} & set(columns):
        sys.exit(COLUMNS.format(f"{path.name} has {', '.join(columns) or 'none'}"))
    people = [Person(_name(row), row) for row in reader]
    no_one = ("", POSSIBLE.strip())
    return [person for person in people if person.name not in no_one], columns


def _name(row: dict[str, str]) -> str:
    """Return the name of a person as a roster writes it, or else the first that it has."""
    full = " ".join(filter(None, _first_and_last(row)))
    named = (row.get("Student", ""), full, *(row.get(column, "") for column in KNOWN_BY))
    return next(filter(None, map(str.strip, named)), "")


def _first_and_last(row: dict[str, str]) -> tuple[str, str]:
    """Return both names of a person, as Moodle tells them, or else Canvas."""
    last, _, first = row.get("Student", "").partition(",")
    return row.get("First name", first), row.get("Last name") or row.get("Surname", last)


def _names(row: dict[str, str]) -> set[str]:
    """Return all names by which a person may be known, in plain writing."""
    first, last = _first_and_last(row)
    names = first + last, last + first, *(row.get(column, "") for column in KNOWN_BY)
    return set(map(_plain, names)) - {""}


def _plain(name: str) -> str:
    """Return the letters and digits of a name, which is all that two writings share."""
    text = unicodedata.normalize("NFKC", name).casefold()
    return "".join(letter for letter in text if letter.isalnum())
