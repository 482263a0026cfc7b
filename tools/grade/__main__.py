"""Check what learners handed in, and write a table for each lesson: `make grade DIR=submissions`.

Every notebook below the folder is a submission. Its cells run in a process of their own, with
limits of time and memory, in an empty folder. What its answers gave is then judged by the checks of
this repository in a process in which nothing of the submission runs. What a submission says of
itself, in outputs or in a file, does not count.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tools.build.sources import ROOT
from tools.grade.fence import SECONDS, WAIT, can_fence
from tools.grade.judge import UNREADABLE
from tools.grade.run import RAN, TOO_LATE
from tools.grade.submissions import Submission, exercises_of, lesson_of, read_submissions

Verdict = tuple[str, str]  # correct, not yet, missing or failed to run; and a sentence
Graded = dict[Submission, dict[str, Verdict]]  # the verdicts on each, by the names of the checks
CELL = 30  # seconds of computing for one cell
PATIENCE = 30  # seconds more than a process may take, until it is killed from outside
LENGTH = 300  # letters of a sentence
LONG = 5  # lines of an answer that is not the same by chance
KEPT = ("PATH", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "SYSTEMROOT")
UNFENCED = (
    "This system cannot stop a submission from reading or changing your files, or from using the "
    "network. (Linux 5.13 and newer can limit the access to files, if Landlock is enabled.) Grade "
    "only submissions that you trust, or run make grade in a container."
)
ENDED = (
    "The notebook ended its Python process, perhaps by running out of memory, before this answer "
    "could be checked."
)
OUT_OF_TIME = (
    f"The notebook did not finish within {SECONDS} seconds of computing, or {WAIT} on the clock."
)
NO_EXERCISE = "It contains no exercise of any lesson."


# --- one submission -------------------------------------------------------------------------------


def judged(cells: list[str], wanted: dict[str, str]) -> dict[str, Verdict]:
    """Run cells and judge the answers, by the names of the checks, in two processes.

    If a cell ends its process, the cells before it are run once more, and what they answer counts.
    """
    if not wanted:
        return {}
    ended = ""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(name)
        status = _played(folder, cells, wanted)
        if status != 0 and 0 < (ran := _count(folder / RAN)) < len(cells):
            ended = _why(status)
            status = _played(folder, cells[:ran], wanted)
        if status != 0:
            return dict.fromkeys(wanted, ("failed to run", _why(status)))
        status, told = _started("tools.grade.judge", list(wanted), folder)
    if status != 0:
        return dict.fromkeys(wanted, ("failed to run", UNREADABLE))
    verdicts = {
        check: (kind, _one_line(words)) for check, (kind, words) in json.loads(told).items()
    }
    if ended:  # the answer may stand after the cell that ended the process
        lost = [check for check, (kind, _) in verdicts.items() if kind == "missing"]
        verdicts |= dict.fromkeys(lost, ("failed to run", ended))
    return verdicts


def _played(folder: Path, cells: list[str], wanted: dict[str, str]) -> int:
    """Run cells in a process of their own; return its status, 0 only if it left notes."""
    job = {"cells": cells, "seconds": CELL, "answers": wanted}
    (folder / "job.json").write_text(json.dumps(job))
    status, _ = _started("tools.grade.run", [], folder)
    return status or int(not (folder / "notes.pt").is_file())


def _count(path: Path) -> int:
    """Return the number in a small file; 0 if a submission has put something else there."""
    if not path.is_file():
        return 0
    with path.open("rb") as file:
        text = file.read(9)
    return int(text) if text.isdigit() else 0


def _why(status: int) -> str:
    return OUT_OF_TIME if status == TOO_LATE else ENDED


def _started(module: str, arguments: list[str], folder: Path) -> tuple[int, str]:
    """Run a module of this project in a folder; return its status and what it printed."""
    settings = {name: os.environ[name] for name in KEPT if name in os.environ}
    homes = dict.fromkeys(("HOME", "TMPDIR", "MPLCONFIGDIR", "IPYTHONDIR"), str(folder))
    settings |= {**homes, "PYTHONPATH": str(ROOT), "MPLBACKEND": "Agg", "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", module, *arguments],
        cwd=folder,
        env=settings,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE if module.endswith(".judge") else subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        text=True,
    )
    try:
        printed, _ = process.communicate(timeout=WAIT + PATIENCE)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return TOO_LATE, ""
    return process.returncode, printed or ""


def _one_line(words: object, most: int = LENGTH) -> str:
    """Return a sentence without control characters: a part of it may come from a learner."""
    text = " ".join(str(words)[: 2 * most].split())
    shown = "".join(letter for letter in text if letter.isprintable())
    return shown if len(shown) <= most else f"{shown[: most - 3]}..."


# --- a class --------------------------------------------------------------------------------------


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
                verdicts = {"": ("not graded", _one_line(why))}
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
    return _one_line(path.name if learner == path.stem else f"{learner} ({path.name})")


def table(lesson: Path, graded: Graded) -> str:
    """Return a table of learners and exercises, in words."""
    rows = [["learner", *(exercise.title for exercise in exercises_of(lesson))]]
    for submission, verdicts in graded.items():
        rows.append([_one_line(submission.learner), *(kind for kind, _ in verdicts.values())])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ("  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)) for row in rows)
    return "\n".join(line.rstrip() for line in lines)


def write_table(path: Path, lesson: Path, graded: Graded) -> None:
    """Write the same table with all sentences, for a spreadsheet."""
    same = same_answers(lesson, graded)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        titles = (exercise.title for exercise in exercises_of(lesson))
        writer.writerow(["learner", "file", *titles, "same as", "predictions (unverified)"])
        for submission, verdicts in graded.items():
            told = (": ".join(filter(None, verdict)) for verdict in verdicts.values())
            claimed = "; ".join(f"{key}: {said}" for key, said in submission.predictions.items())
            learner, file_name = map(_safe, (submission.learner, submission.path.name))
            hint = _safe("; ".join(same[submission]))
            writer.writerow([learner, file_name, *told, hint, _safe(claimed, 10 * LENGTH)])


def same_answers(lesson: Path, graded: Iterable[Submission]) -> dict[Submission, list[str]]:
    """Return whose code is the same for which exercise: a hint, and no proof of anything.

    Spaces, comments and docstrings do not count, and answers of a few lines are often alike.
    """
    same: dict[Submission, list[str]] = {submission: [] for submission in graded}
    for exercise in exercises_of(lesson):
        owners: dict[str, list[Submission]] = {}
        for submission in same:
            code = submission.code_of(exercise.answer)
            if len(code.splitlines()) >= LONG:
                owners.setdefault(code, []).append(submission)
        for group in owners.values():
            for submission in group:
                names = ", ".join(twin.learner for twin in group if twin is not submission)
                same[submission] += [f"{names} ({exercise.title})"] if names else []
    return same


def _safe(text: str, most: int = LENGTH) -> str:
    """Return what a learner wrote so that no spreadsheet takes it for a formula."""
    line = _one_line(text, most)
    return f"'{line}" if line.startswith(("=", "+", "-", "@")) else line


def main() -> None:
    """Grade the folder of the command line; print the tables and say where they are."""
    parser = argparse.ArgumentParser(prog="tools.grade")
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    submissions = read_submissions(folder) if folder.is_dir() else []
    if not submissions:
        sys.exit(
            f"No notebooks were found in {folder}. Put the notebooks of your learners there, "
            "or name another folder: make grade DIR=FOLDER."
        )
    if not can_fence():
        print(UNFENCED)
    graded = grade_class(submissions)
    for submission, verdicts in graded.pop(None, {}).items():
        _, why = verdicts[""]
        print(f"\n{_named(submission)} was not graded. {why}")
    for lesson, verdicts in graded.items():
        path = folder / f"grades_{lesson.stem[:2]}.csv"
        write_table(path, lesson, verdicts)
        print(f"\n{lesson.stem}\n\n{table(lesson, verdicts)}\n")
        print(f"The explanations are in {path}.")


if __name__ == "__main__":
    main()
