"""Check what learners handed in, and write a table for each lesson: `make grade DIR=submissions`.

Every notebook below the folder is a submission. Its cells run in a process of their own, with
limits of time and memory, in an empty folder. What its answers gave is then judged by the checks of
this repository in a process in which nothing of the submission runs. What a submission says of
itself, in outputs or in a file, does not count. The page class.html shows the class as a whole, and
with a roster there are files that Canvas and Moodle import.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path

from tools.grade.fence import can_fence
from tools.grade.page import write_page
from tools.grade.roster import Roster
from tools.grade.submissions import Submission, exercises_of, lesson_of, read_submissions
from tools.grade.tables import Graded, table, write_table
from tools.grade.trial import Verdict, judged, one_line

UNFENCED = (
    "This system cannot stop a submission from reading or changing your files, or from using the "
    "network. (Linux 5.13 and newer can limit the access to files, if Landlock is enabled.) Grade "
    "only submissions that you trust, or run make grade in a container."
)
NO_EXERCISE = "It contains no exercise of any lesson."


def grade_class(submissions: list[Submission]) -> dict[Path | None, Graded]:
    """Return the verdicts on each submission, by lesson.

    None holds those that are not graded, with one verdict each, which says why.
    """

    def grade(job: tuple[Submission, Path | None, dict[str, str]]) -> dict[str, Verdict]:
        submission, lesson, wanted = job
        verdicts = {"": ("not graded", submission.trouble or NO_EXERCISE)}
        if lesson is not None:
            try:
                missing = {exercise.check: ("missing", "") for exercise in exercises_of(lesson)}
                verdicts = missing | judged(submission.cells, wanted)
            except Exception as error:  # of one submission, and the others are not lost
                why = f"Grading it failed: {type(error).__name__}: {error}"
                verdicts = {"": ("not graded", one_line(why))}
        counts = Counter(kind for kind, _ in verdicts.values())
        told = ", ".join(f"{count} {kind}" for kind, count in counts.items())
        print(f"{_named(submission)}: {told}", flush=True)
        return verdicts

    jobs = []  # here, and not in the threads: some Pythons fail when two threads parse at once
    for submission in submissions:
        lesson = lesson_of(submission)
        jobs.append((submission, lesson, submission.answers_to(lesson) if lesson else {}))
    graded: dict[Path | None, Graded] = {}
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for (submission, lesson, _), verdicts in zip(jobs, pool.map(grade, jobs), strict=True):
            graded.setdefault(None if "" in verdicts else lesson, {})[submission] = verdicts
    return graded


def _named(submission: Submission) -> str:
    """Return a learner and the file, or only the file if it names the learner."""
    path, learner = submission.path, submission.learner
    return one_line(path.name if learner == path.stem else f"{learner} ({path.name})")


def moment(text: str) -> datetime:
    """Return a date and a time, as in 2026-11-29T12:00."""
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        message = f"DUE must look like 2026-11-29T12:00, got {text!r}."
        raise argparse.ArgumentTypeError(message) from None


def main() -> None:
    """Grade the folder of the command line; print the tables and say where they are."""
    parser = argparse.ArgumentParser(prog="tools.grade")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--roster", type=Path)
    parser.add_argument("--due", type=moment)
    asked = parser.parse_args()
    folder, due, roster = asked.folder, asked.due, Roster(asked.roster)
    found = read_submissions(folder) if folder.is_dir() else []
    named = map(roster.called, found)
    submissions = sorted(named, key=lambda one: (one.learner.casefold(), one.path))
    if not submissions:
        sys.exit(
            f"No notebooks were found in {folder}. Put the notebooks of your learners there, "
            "or name another folder: make grade DIR=FOLDER."
        )
    if not can_fence():
        print(UNFENCED)
    graded = grade_class(submissions)
    left_out = graded.pop(None, {})
    troubles = [(_named(submission), verdicts[""][1]) for submission, verdicts in left_out.items()]
    for name, why in troubles:
        print(f"\n{name} was not graded. {why}")
    for lesson, verdicts in graded.items():
        path = folder / f"grades_{lesson.stem[:2]}.csv"
        write_table(path, lesson, verdicts, due)
        print(f"\n{lesson.stem}\n\n{table(lesson, verdicts, due)}\n")
        print(f"The explanations are in {path}.")
        for told in roster.write(folder, lesson, verdicts):
            print(told)
    page = write_page(folder / "class.html", graded, troubles, due, roster)
    print(f"\nThe class as a whole is in {page}.")


if __name__ == "__main__":
    main()
