"""Read what learners handed in, and what a lesson asks of them."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from pathlib import Path

from tools.build.sources import NOTEBOOKS, find_notebooks, is_lesson, read_notebook, tags
from tools.check.lint.lesson import defined_names, headings, parse_code


@dataclass(frozen=True)
class Exercise:
    """A task of a lesson: the check, the name of the answer, and how tables call it."""

    check: str
    answer: str
    title: str


@dataclass(frozen=True, eq=False)
class Submission:
    """A notebook that a learner handed in; ``trouble`` says why it cannot be read.

    The lesson and the predictions are those that the file tells. ``person`` is whom the roster has
    for its learner, or None.
    """

    path: Path
    learner: str
    cells: list[str] = field(default_factory=list)
    lesson: object = None
    predictions: dict[str, object] = field(default_factory=dict)
    trouble: str = ""
    person: object = None

    @property
    def changed(self) -> datetime:
        """When the file was last changed, by the clock of the computer that it lies on."""
        return datetime.fromtimestamp(self.path.stat().st_mtime)

    def is_late(self, due: datetime | None) -> bool:
        """Return whether the file was changed after it was due, or Canvas has named it late."""
        changed_late = due is not None and self.changed.astimezone() > due.astimezone()
        return changed_late or "_LATE_" in self.path.name

    def answers_to(self, lesson: Path) -> dict[str, str]:
        """Return the answers by their checks, as names or as code, without untouched stubs.

        A cell that defines the name of the lesson counts first, if the learner changed it; then
        whatever else a cell of the learner's own gives to the check.
        """
        handed_out = {cell.source.strip() for cell in read_notebook(lesson).cells}
        own = [source for source in self.cells if source.strip() not in handed_out]
        asked = [call for source in own for call in calls_of_checks(source)]
        changed = {name for source in own for name in defined_names(source)}
        stubs = {name for source in self.cells for name in defined_names(source)} - changed
        answers = {}
        for exercise in exercises_of(lesson):
            known = {exercise.answer, f"{exercise.answer}_solution"}
            given = [code for check, code in asked if check == exercise.check and code not in known]
            if given and exercise.answer not in changed:
                answers[exercise.check] = given[-1]
            elif exercise.answer not in stubs:
                answers[exercise.check] = exercise.answer
        return answers

    def code_of(self, answer: str) -> str:
        """Return the last code that defines an answer, without comments and docstrings."""
        code = ""
        for source in self.cells:
            if answer in defined_names(source):
                tree = parse_code(source)
                for node in ast.walk(tree):
                    if isinstance(node, ast.FunctionDef) and ast.get_docstring(node) is not None:
                        node.body = node.body[1:]
                code = ast.unparse(tree)
        return code


def read_submissions(folder: Path) -> list[Submission]:
    """Return all notebooks below a folder, in order, also those that cannot be read."""
    paths = sorted(folder.rglob("*.ipynb"))
    return [_read(path, folder) for path in paths if ".ipynb_checkpoints" not in path.parts]


def _read(path: Path, folder: Path) -> Submission:
    """Return a submission; its learner is named by its folder, if it has one, or by its file.

    What ``hand_in`` named after the name that it was given goes by that name.
    """
    inside = path.relative_to(folder)
    learner = inside.parts[0] if len(inside.parts) > 1 else path.stem
    try:
        notebook = read_notebook(path)
        code = [cell.source for cell in notebook.cells if cell.cell_type == "code"]
        cells = ["".join(source) for source in code]  # Jupyter's own files hold it as lines
        told = notebook.metadata.get("attnlab", {})
        predictions = dict(told.get("predictions", {}))
        if len(inside.parts) == 1 and path.stem.startswith("handin_"):
            learner = str(told.get("name") or learner)
    except Exception:
        return Submission(path, learner, trouble="This file cannot be read as a notebook.")
    return Submission(path, learner, cells, told.get("lesson"), predictions)


def lesson_of(submission: Submission) -> Path | None:
    """Return the lesson whose checks a submission calls or whose answers it defines, or None.

    If there is none, the lesson that the file tells counts. The name of the file does not.
    """
    names = {name for source in submission.cells for name in defined_names(source)}
    names |= {name for source in submission.cells for name, _ in calls_of_checks(source)}
    known = {  # what is called counts most, because answers of two lessons may share a name
        path: sum(
            (task.check in names) + (task.answer in names) / 100 for task in exercises_of(path)
        )
        for path in lessons()
    }
    best = max(known, key=known.get)
    told = (path for path in lessons() if path.stem[:2] == submission.lesson)
    return best if known[best] else next(told, None)


@cache
def lessons() -> tuple[Path, ...]:
    """Return the lessons of this repository."""
    return tuple(filter(is_lesson, find_notebooks(NOTEBOOKS)))


@cache
def exercises_of(path: Path) -> tuple[Exercise, ...]:
    """Return the exercises of a lesson that have a check, in order."""
    exercises, heading, stubs = [], "", set()
    for cell in read_notebook(path).cells:
        heading = next((text for level, text in headings(cell) if level == 3), heading)
        if "exercise" in tags(cell):
            stubs.update(defined_names(cell.source))
        title = heading.partition(" ★")[0]
        asked = calls_of_checks(cell.source)
        exercises += [Exercise(check, name, title) for check, name in asked if name in stubs]
    return tuple(exercises)


def calls_of_checks(source: str) -> Iterable[tuple[str, str]]:
    """Yield the checks that a cell calls, and the code of what it gives them."""
    for node in ast.walk(parse_code(source)):
        match node:
            case ast.Call(func=ast.Name(id=check), args=[given]):
                if check.startswith("check_"):
                    yield check, ast.unparse(given)
