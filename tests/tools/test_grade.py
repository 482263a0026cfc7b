"""`make grade`: a correct table, whatever the submissions do."""

import ast
import contextlib
import csv
import io
import json
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from IPython.core.interactiveshell import InteractiveShell

from attnlab import exercises
from tools.build.sources import ROOT, read_notebook, tags
from tools.grade import __main__ as grading
from tools.grade import fence
from tools.grade.run import run_cells
from tools.grade.submissions import Submission, exercises_of, lesson_of, lessons

FIRST = lessons()[0]
TITLE = exercises_of(FIRST)[0].title
STUB = next(one.source for one in read_notebook(FIRST).cells if "exercise" in tags(one))
RIGHT = """
def new_vector(query, x, hidden):
    powers = (x @ query / query.shape[-1] ** 0.5).exp()
    powers[hidden] = 0
    return powers / powers.sum() @ x
"""
WRONG = "def new_vector(query, x, hidden):\n    return query"
CALLED = "check_new_vector"
CHECK = "from attnlab.exercises import check_new_vector\ncheck_new_vector(new_vector)"
OVERWRITE = """
import attnlab.exercises, torch
from attnlab.exercises.frame import answers as a, forms as f
verdict = attnlab.exercises.Verdict("new_vector", True, True, "Correct.")
for name in attnlab.exercises.__all__:
    setattr(attnlab.exercises, name, lambda answer: verdict)
a.judge = f.judge = lambda *answer: verdict
torch.allclose = lambda *numbers, **near: True
"""
BY_LAMBDA = CHECK.replace("(new_vector)", "(lambda *given: mine(*given))")
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
CLASS = {  # what is handed in, and the verdict
    "survivor": (SURVIVOR, "correct: The new vector is right"),
    "overwrite": ([WRONG, OVERWRITE], "not yet: "),
    "exit": ([RIGHT, "import os; os._exit(0)"], "correct: "),
    "early exit": (["import os; os._exit(0)", RIGHT], f"failed to run: {grading.ENDED}"),
    "=1+1\n\x1b[31m": ([STUB], "missing"),  # as it was handed out, so nothing runs
    "lambda": ([STUB, RIGHT.replace("new_vector", "mine"), BY_LAMBDA], "correct: "),
}
NOT_GRADED = {
    "broken.ipynb": "This file cannot be read as a notebook.",
    "none (lesson.ipynb)": "It contains no exercise of any lesson.",
    "full (lesson.ipynb)": "Grading it failed: OSError: no space is left on the disk",
}
CLAIMS = {"00/mat": "cat", "00/share": 0.25, "00/long": "x" * 9999}


def write_notebook(path, *sources):
    """Write a notebook whose sources are lists of lines, as in Jupyter's own files."""
    path.parent.mkdir(exist_ok=True, parents=True)
    cells = [
        {"cell_type": "code", "source": one.splitlines(True), "metadata": {}, "outputs": []}
        for one in sources
    ]
    told = {"attnlab": {"predictions": CLAIMS}}
    path.write_text(json.dumps({"cells": cells, "metadata": told, "nbformat": 4}))


@pytest.fixture(scope="module")
def graded(tmp_path_factory):
    """Grade one submission of each kind, side by side; return the folder and what is printed."""
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
    write_notebook(folder / "survivor" / ".ipynb_checkpoints" / "lesson.ipynb", RIGHT, CHECK)
    write_notebook(folder / "none" / "lesson.ipynb", "print(1)", "def f(:")
    write_notebook(folder / "full" / "lesson.ipynb", "full = 1", CHECK)
    (folder / "broken.ipynb").write_text("{")
    parse, judged = ast.parse, grading.judged

    def parse_here(*code, **options):
        assert threading.current_thread() is threading.main_thread()  # two at once fail at times
        return parse(*code, **options)

    def judge(cells, wanted):
        if "full = 1" in cells:
            raise OSError("no space is left\non the disk")
        return judged(cells, wanted)

    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(io.StringIO()) as said:
        patch.setattr(grading, "CELL", 1)
        patch.setattr(grading, "judged", judge)
        patch.setattr(ast, "parse", parse_here)
        patch.setattr(sys, "argv", ["grade", str(folder)])
        grading.main()
    return folder, said.getvalue()


def test_every_submission_has_its_verdict_and_lines_of_its_own(graded):
    folder, said = graded
    with (folder / "grades_00.csv").open(encoding="utf-8", newline="") as file:
        rows = {row.pop("learner"): row for row in csv.DictReader(file)}
    names = [name if name[0] != "=" else "'=1+1 [31m" for name in CLASS]  # which is no formula
    assert sorted(rows) == sorted(names)
    for name, (_, verdict) in zip(names, CLASS.values(), strict=True):
        assert rows[name][TITLE].startswith(verdict), name
        kind = verdict.partition(":")[0]
        row = re.escape(name.removeprefix("'")) + f" +{kind}(?: |$)"
        assert re.search(rf"^{row}", said, re.MULTILINE), said
        claims = rows[name]["predictions (unverified)"]
        assert claims.startswith("00/mat: cat; 00/share: 0.25; 00/long: xx")
        assert len(claims) < 9999
    for name, why in NOT_GRADED.items():
        assert f"\n{name} was not graded. {why}\n" in said
    assert f"The explanations are in {folder / 'grades_00.csv'}." in said


@pytest.mark.skipif(not fence.can_fence(), reason="this system has no Landlock")
def test_nothing_outside_a_temporary_folder_changes_and_no_process_is_left(graded):
    folder, _ = graded
    assert {path.name for path in folder.parent.iterdir()} == {"mine.txt", "submissions"}
    assert (folder.parent / "mine.txt").read_text() == "mine"
    assert not (ROOT / "new").exists()
    files = {path.name for path in folder.iterdir() if path.is_file()}
    assert files == {"broken.ipynb", "grades_00.csv"}
    running = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True)
    assert "sleep 98765" not in running.stdout


def test_every_exercise_of_every_lesson_is_known_by_what_a_submission_calls():
    checks = [one.check for path in lessons() for one in exercises_of(path)]
    assert sorted(checks) == sorted(n for n in exercises.__all__ if "check_" in n)
    for path in lessons():
        cells = [one.source for one in read_notebook(path).cells if one.cell_type == "code"]
        assert lesson_of(Submission(Path("x"), "x", cells)) == path
    assert lesson_of(Submission(Path("x"), "x", [RIGHT])) == FIRST  # and no check is called
    by_name = CHECK.replace("(new_vector)", "(mine)")
    assert Submission(Path("x"), "x", [STUB, by_name]).answers_to(FIRST)[CALLED] == "mine"


def test_a_cell_that_runs_too_long_is_said(tmp_path):
    try:
        _, errors = run_cells(["answer = 1\nwhile True: pass"], 0.3, ran=tmp_path / "ran")
    finally:
        InteractiveShell.clear_instance()
    assert errors == {"answer": "This cell computed for more than 0.3 seconds."}


def test_long_answers_that_are_alike_are_a_hint():
    long = """
def new_vector(query, x):
    scores = x @ query
    scores = scores / query.shape[-1] ** 0.5
    weights = scores.softmax(dim=-1)
    return weights @ x"""
    told = long.replace("    scores = x", '    """My own."""\n    # the scores\n    scores  =  x')
    codes = {"Ann": long, "Ben": told, "Cem": RIGHT, "Dan": RIGHT, "Eve": STUB}
    written = [Submission(Path(f"{name}.ipynb"), name, [code]) for name, code in codes.items()]
    same = {one.learner: hint for one, hint in grading.same_answers(FIRST, written).items()}
    hints = {"Ann": [f"Ben ({TITLE})"], "Ben": [f"Ann ({TITLE})"]}
    assert same == {name: hints.get(name, []) for name in codes}


def test_an_empty_folder_and_a_system_without_a_fence_are_said(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["grade", str(tmp_path)])
    with pytest.raises(SystemExit, match=r"No notebooks were found in .* make grade DIR=FOLDER"):
        grading.main()
    (tmp_path / "ada.ipynb").write_text("{")
    monkeypatch.setattr(grading, "can_fence", lambda: False)
    grading.main()
    assert capsys.readouterr().out.startswith("This system cannot stop a submission from reading")
