"""`make grade`: a correct table, whatever the submissions do."""

import csv
import json
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from IPython.core.interactiveshell import InteractiveShell
from nbformat.v4 import new_code_cell, new_notebook

from attnlab import exercises
from tools.grade import __main__ as grading
from tools.grade import _fence
from tools.grade._run import run_cells
from tools.grade._submissions import Submission, exercises_of, lesson_of, lessons, read_submissions
from tools.notebooks import ROOT, read_notebook, tags

FIRST = lessons()[0]
(TITLE,) = (one.title for one in exercises_of(FIRST))
RIGHT = """
import torch
def is_distribution(weights):
    weights = torch.as_tensor(weights)
    return bool((weights >= 0).all()) and abs(float(weights.sum()) - 1) < 1e-6
"""
WRONG = "def is_distribution(weights):\n    return True"
CHECK = (
    "from attnlab.exercises import check_is_distribution\ncheck_is_distribution(is_distribution)"
)
OVERWRITE = """
import attnlab.exercises, attnlab.exercises._answers as a, attnlab.exercises._forms as f, torch
verdict = attnlab.exercises.Verdict("is_distribution", True, True, "Correct.")
for name in attnlab.exercises.__all__:
    setattr(attnlab.exercises, name, lambda answer: verdict)
a.judge = f.judge = lambda *answer: verdict
torch.allclose = lambda *numbers, **near: True
"""
BY_LAMBDA = CHECK.replace("(is_distribution)", "(lambda weights: mine(weights))")
BY_NAME = CHECK.replace("(is_distribution)", "(mine)")
SURVIVOR = [  # every cell of it does harm, and the answer is right
    "while True: pass",
    "huge = bytearray(8 * 2**30)",
    "import os\nos.kill(os.getppid(), 9)",
    "raise SystemExit",
    "import subprocess\nsubprocess.Popen(['sleep', '98765'], start_new_session=True)",
    "open('inside', 'w').write('here'); open('inside').read()",
    "print('me  correct')",
    RIGHT,
]
(STUB,) = (one.source for one in read_notebook(FIRST).cells if "exercise" in tags(one))
CLASS = {  # what is handed in, and the verdict
    "survivor": (SURVIVOR, "correct: The function accepts both test rows"),
    "overwrite": ([WRONG, OVERWRITE], "not yet: "),
    "exit": ([RIGHT, "import os; os._exit(0)"], f"failed to run: {grading.ENDED}"),
    "stub": ([STUB], "missing"),  # as it was handed out, so nothing runs
    "lambda": ([STUB, RIGHT.replace("is_distribution", "mine"), BY_LAMBDA], "correct: "),
    "other name": ([STUB, RIGHT.replace("is_distribution", "mine"), BY_NAME], "correct: "),
}


def write_notebook(path, *sources, **told):
    path.parent.mkdir(exist_ok=True, parents=True)
    cells = [new_code_cell(source) for source in sources]
    nbformat.write(new_notebook(cells=cells, metadata={"attnlab": told}), path)


@pytest.fixture(scope="module")
def graded(tmp_path_factory):
    """Grade one submission of each kind, side by side, as `make grade` does."""
    home = tmp_path_factory.mktemp("home")
    (home / "mine.txt").write_text("mine")
    write = f"""
import os, shutil
for path in ({str(home / "new")!r}, {str(ROOT / "new")!r}):
    try: open(path, "w")
    except OSError: pass
shutil.rmtree({str(home)!r}, ignore_errors=True)"""
    folder = home / "submissions"
    for name, (cells, _) in CLASS.items():
        write_notebook(folder / name / "lesson.ipynb", write, *cells, CHECK)
    (folder / "broken.ipynb").write_text("{")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(grading, "CELL", 1)
        patch.setattr(sys, "argv", ["grade", str(folder)])
        grading.main()
    return folder


def rows(folder):
    with (folder / "grades_00.csv").open(encoding="utf-8", newline="") as file:
        return {row["learner"]: row for row in csv.DictReader(file)}


@pytest.mark.parametrize("name", CLASS)
def test_every_submission_has_its_verdict(graded, name):
    assert rows(graded)[name][TITLE].startswith(CLASS[name][1])


@pytest.mark.skipif(not _fence.can_fence(), reason="this system has no Landlock")
def test_nothing_outside_a_temporary_folder_changes(graded):
    assert {path.name for path in graded.parent.iterdir()} == {"mine.txt", "submissions"}
    assert (graded.parent / "mine.txt").read_text() == "mine"
    assert not (ROOT / "new").exists()
    written = {path.name for path in graded.iterdir()} - set(CLASS)
    assert written == {"broken.ipynb", "grades_00.csv"}


def test_no_process_is_left(graded):
    running = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True)
    assert "sleep 98765" not in running.stdout


def test_every_exercise_of_every_lesson_is_known_by_what_a_submission_calls():
    checks = [one.check for path in lessons() for one in exercises_of(path)]
    assert sorted([*checks, "check_repeatable_experiment"]) == sorted(
        n for n in exercises.__all__ if "check_" in n
    )
    for path in lessons():
        cells = [one.source for one in read_notebook(path).cells if one.cell_type == "code"]
        assert lesson_of(Submission(Path("x"), "x", cells)) == path
    assert lesson_of(Submission(Path("x"), "x", ["print(1)", "def f(:"])) is None


def test_sources_as_lines_are_read_and_a_learner_has_a_name(tmp_path):
    for name in ("ada.ipynb", "bob/02.ipynb", "bob/.ipynb_checkpoints/02.ipynb"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        cell = {"cell_type": "code", "source": ["x = 1\n", "y = 2"], "metadata": {}, "outputs": []}
        path.write_text(json.dumps({"cells": [cell], "metadata": {}, "nbformat": 4}))
    found = [(one.learner, one.cells) for one in read_submissions(tmp_path)]
    assert found == [("ada", ["x = 1\ny = 2"]), ("bob", ["x = 1\ny = 2"])]


def test_what_a_learner_writes_stays_on_one_line_and_is_no_formula():
    assert grading._one_line("a\n\x1b[31mb\u202e" + "x" * 999)[:10] == "a [31mbxxx"
    assert len(grading._one_line("x" * 999)) == grading.LENGTH
    assert grading._safe("=1+1") == "'=1+1"


def test_what_is_not_graded_is_said_and_the_table_tells_what_was_predicted(
    tmp_path, monkeypatch, capsys
):
    def verdict(submission, lesson):
        if submission.learner == "Cleo":
            raise OSError("no space is left\non the disk")
        return {"check_is_distribution": ("missing", "")}

    monkeypatch.setattr(grading, "grade", verdict)
    monkeypatch.setattr(grading, "can_fence", lambda: False)
    monkeypatch.setattr(sys, "argv", ["grade", str(tmp_path)])
    (tmp_path / "ada.ipynb").write_text("{")
    write_notebook(tmp_path / "Bob" / "02.ipynb", "print(1)")
    write_notebook(tmp_path / "Cleo" / "00.ipynb", RIGHT, CHECK)
    write_notebook(tmp_path / "dan.ipynb", RIGHT, CHECK, predictions=7)
    claims = {"00/mat": "cat", "00/share": 0.25}
    write_notebook(tmp_path / "eve.ipynb", RIGHT, CHECK, predictions=claims)
    write_notebook(tmp_path / "fay.ipynb", RIGHT, CHECK, predictions={"=1+1": ["a\n"] * 999})
    grading.main()
    said = capsys.readouterr().out
    assert said.startswith("This system cannot stop a submission from reading or changing your")
    for name, why in {
        "ada.ipynb": "This file cannot be read as a notebook.",
        "Bob (02.ipynb)": "It contains no exercise of any lesson.",
        "Cleo (00.ipynb)": "Grading it failed: OSError: no space is left on the disk",
        "dan.ipynb": "This file cannot be read as a notebook.",
    }.items():
        assert f"\n{name} was not graded. {why}\n" in said
    assert f"The explanations are in {tmp_path / 'grades_00.csv'}." in said
    told = {name: row["predictions (unverified)"] for name, row in rows(tmp_path).items()}
    assert told.pop("fay")[:4] == "'=1+"
    assert told == {"eve": "00/mat: cat; 00/share: 0.25"}


def test_a_cell_that_runs_too_long_is_said():
    try:
        _, errors = run_cells(["answer = 1\nwhile True: pass"], 0.3)
    finally:
        InteractiveShell.clear_instance()
    assert errors == {"answer": "This cell computed for more than 0.3 seconds."}


def test_an_empty_folder_is_said(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["grade", str(tmp_path / "none")])
    with pytest.raises(SystemExit, match=r"No notebooks were found in .* make grade DIR=FOLDER"):
        grading.main()
