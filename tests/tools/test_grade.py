"""`make grade`: a correct table, whatever the submissions do."""

import ast
import contextlib
import csv
import io
import json
import os
import re
import subprocess
import sys
import threading
from datetime import datetime
from pathlib import Path

import pytest
from bs4 import BeautifulSoup
from IPython.core.interactiveshell import InteractiveShell

from attnlab import exercises
from tools.build.sources import ROOT, read_notebook, tags
from tools.grade import __main__ as grading
from tools.grade import fence, trial
from tools.grade.page import answer_to_exercise, column
from tools.grade.roster import Roster
from tools.grade.run import run_cells
from tools.grade.submissions import Submission, exercises_of, lesson_of, lessons
from tools.grade.tables import same_answers

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
BIG = "import torch\ndef new_vector(query, x, hidden):\n    return torch.ones(2**32)"
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
ROSTER = """learner,Student,ID,Section,Email address
,    Points Possible,,,
Survivor,"Doe, Amy",7,One,amy@example.org
overwrite,"Doe, Bob",8,One,
Cy,"Doe, Cy",9,One,cy@example.org
Di,"Doe, Di",10,One,di@example.org
,"Student, Test",11,One,
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
    "memory": ([BIG], f"failed to run: {trial.OUT_OF_MEMORY}"),
    "early exit": (["import os; os._exit(0)", RIGHT], f"failed to run: {trial.ENDED}"),
    "=1+1\n\x1b[31m": ([STUB], "missing"),  # as it was handed out, so nothing runs
    "endless": (
        ["while True:\n    pass"],
        "failed to run: This cell computed for more than 1 seconds.",
    ),
    "lambda": ([STUB, RIGHT.replace("new_vector", "mine"), BY_LAMBDA], "correct: "),
}
NOT_GRADED = {
    "broken.ipynb": "This file cannot be read as a notebook.",
    "none (lesson.ipynb)": "It contains no exercise of any lesson.",
    "full (lesson.ipynb)": "Grading it failed: OSError: no space is left on the disk",
}
HTML = "<script>alert(1)</script>"
CLAIMS = {"00/place-of-cat": "still 0", "00/two-bats-in-one-sentence": HTML, "00/x": 0.25}
KEYS = list(CLAIMS)[:2]
DUE = "2026-11-29T12:00"


def write_notebook(path, *sources, **told):
    """Write a notebook whose sources are lists of lines, as in Jupyter's own files."""
    path.parent.mkdir(exist_ok=True, parents=True)
    cells = [
        {"cell_type": "code", "source": one.splitlines(True), "metadata": {}, "outputs": []}
        for one in sources
    ]
    told = {"attnlab": {"predictions": CLAIMS, **told}}
    path.write_text(json.dumps({"cells": cells, "metadata": told, "nbformat": 4}))
    on_time = datetime.fromisoformat(DUE).timestamp() - 60
    os.utime(path, (on_time, on_time))


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
    late = "hand_in('00', name='Late')"
    write_notebook(folder / "handin_00_Late.ipynb", late, lesson="00", name=f"Late {HTML}")
    os.utime(folder / "handin_00_Late.ipynb")  # now, which is later
    (home / "roster.csv").write_text(ROSTER, encoding="utf-8-sig")
    parse, judge_it = ast.parse, grading.judged

    def parse_here(*code, **options):
        assert threading.current_thread() is threading.main_thread()  # two at once fail at times
        return parse(*code, **options)

    def judge(cells, wanted):
        if "full = 1" in cells:
            raise OSError("no space is left\non the disk")
        return judge_it(cells, wanted)

    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(io.StringIO()) as said:
        patch.setattr(trial, "CELL", 1)
        patch.setattr(grading, "judged", judge)
        patch.setattr(ast, "parse", parse_here)
        options = ["--due", DUE, "--roster", str(home / "roster.csv")]
        patch.setattr(sys, "argv", ["grade", str(folder), *options])
        grading.main()
    return folder, said.getvalue()


def rows_of(path):
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_every_submission_has_its_verdict_and_lines_of_its_own(graded):
    folder, said = graded
    rows = {row.pop("learner"): row for row in rows_of(folder / "grades_00.csv")}
    late = rows.pop(f"Late {HTML}")  # who has run nothing, and has told lesson and name
    assert (late[TITLE], late["points"], late["of"], late["late"]) == ("missing", "0", "2", "late")
    written = {"=": "'=1+1 [31m", "survivor": "Doe, Amy", "overwrite": "Doe, Bob"}  # no formula
    names = [written.get(name, written.get(name[0], name)) for name in CLASS]
    assert sorted(rows) == sorted(names)
    assert [*rows].index("Doe, Amy") < [*rows].index("Doe, Bob") < [*rows].index("lambda")
    for name, (_, verdict) in zip(names, CLASS.values(), strict=True):
        assert rows[name][TITLE].startswith(verdict), name
        kind = verdict.partition(":")[0]
        row = re.escape(name.removeprefix("'")) + f" +{kind}(?: |$)"
        assert re.search(rf"^{row}", said, re.MULTILINE), said
        assert rows[name]["points"] == str(int(kind == "correct"))
        assert rows[name]["late"] == ""
        wrong, unknown = (rows[name][f"prediction {key} (unverified)"] for key in KEYS)
        assert (wrong, unknown) == ("wrong: still 0", "")
    for name, why in NOT_GRADED.items():
        assert f"\n{name} was not graded. {why}\n" in said
    assert f"The explanations are in {folder / 'grades_00.csv'}." in said


@pytest.mark.skipif(not fence.can_fence(), reason="this system has no Landlock")
def test_nothing_outside_a_temporary_folder_changes_and_no_process_is_left(graded):
    folder, _ = graded
    ours = {"mine.txt", "roster.csv", "submissions"}
    assert {path.name for path in folder.parent.iterdir()} == ours
    assert (folder.parent / "mine.txt").read_text() == "mine"
    assert not (ROOT / "new").exists()
    files = {path.name for path in folder.iterdir() if path.is_file()}
    made = {"grades_00.csv", "canvas_00.csv", "moodle_00.csv", "class.html"}
    assert files == {"broken.ipynb", "handin_00_Late.ipynb", *made}
    running = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True)
    assert "sleep 98765" not in running.stdout


def test_the_page_of_the_class_shows_who_made_which_mistake_and_runs_nothing_of_theirs(graded):
    folder, _ = graded
    page = BeautifulSoup((folder / "class.html").read_text(encoding="utf-8"), "html.parser")
    assert not page.select("script, link, img, iframe, [src], [href]")
    (table,) = page.select("table")
    rows = {row.th.get_text(" ", strip=True): row for row in table.select("tbody tr")}
    names = {one.replace("\n\x1b", " ") for one in CLASS} - {"survivor", "overwrite"}
    amy, bob = "Doe, Amy", "Doe, Bob"  # as the roster calls them
    assert rows.keys() == names | {amy, bob, f"Late {HTML} late"}
    marks = {
        name: [(mark["class"][1], mark.text) for mark in row.select(".mark")]
        for name, row in rows.items()
    }
    assert marks[amy] == [("right", "✓"), ("none", "–"), ("wrong-1", "A"), ("wrong-1", "?")]
    assert marks[bob][0][0].startswith("wrong")
    assert rows[amy].get_text(" ", strip=True).count("of 2") == 2  # points and predictions
    cards = {card.h3.get_text(" ", strip=True): card for card in page.select("article")}
    first = next(card for title, card in cards.items() if title.startswith("Prediction 1: In the"))
    (option,) = first.select("li")  # everybody says the same, and it is told with its reason
    count = len(CLASS) + 1
    words = option.get_text(" ", strip=True)
    assert words.startswith(f"A {count} × A. still 0 The new vector is not made")
    done = cards[f"Exercise {TITLE}"].select("li")
    counts = [int(line.select_one(".count").text.split()[0]) for line in done]
    assert counts == sorted(counts, reverse=True)
    assert sum(counts) == count
    assert any(trial.OUT_OF_MEMORY in line.text for line in done)


def test_a_named_mistake_has_one_colour_whatever_the_case_it_is_found_in():
    slip = next(iter(exercises.check_safe_softmax.form.slips))
    found = [("not yet", f"With {case}, the weights are wrong. {slip}") for case in ("a", "b")]
    given = [*found, ("not yet", "It raises."), ("correct", "Yes.")]
    answers = [answer_to_exercise("check_safe_softmax", verdict) for verdict in given]
    made = column("2", "Modify", answers)
    assert [cell.look for cell in made.cells] == ["wrong-1", "wrong-1", "wrong-2", "right"]
    assert [(seen.mark, seen.count) for seen in made.legend] == [("1", 2), ("2", 1), ("✓", 1)]
    assert made.legend[0].answer.words == slip


def test_canvas_and_moodle_import_the_points_of_who_is_in_the_roster(graded):
    folder, said = graded
    lines = (folder / "canvas_00.csv").read_text(encoding="utf-8").splitlines()
    assert lines[:2] == [
        "Student,ID,SIS User ID,SIS Login ID,Section,attnlab 00",
        "    Points Possible,,,,,2",
    ]
    assert lines[2:] == ['"Doe, Amy",7,,,One,1', '"Doe, Bob",8,,,One,0']  # as in the roster
    (row,) = rows_of(folder / "moodle_00.csv")  # one without an address would harm the row before
    assert (row["Email address"], row["attnlab 00"]) == ("amy@example.org", "1")
    assert row["attnlab 00 feedback"].startswith(f"{TITLE}: correct. The new vector")
    assert "There is no graded file from Doe, Cy; Doe, Di.\n" in said
    page = (folder / "class.html").read_text(encoding="utf-8")
    assert "No graded file from Doe, Cy; Doe, Di.</p>" in page
    assert re.search("nobody, or several people, of this name: .*exit", said)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "has none"),
        ("learner,name\nAda,A", "has learner, name"),
        (None, "cannot be read"),
    ],
)
def test_a_roster_that_cannot_be_used_is_refused(tmp_path, text, why):
    path = tmp_path / "roster.csv"
    if text is not None:
        path.write_text(text)
    with pytest.raises(SystemExit, match=why):
        Roster(path)


def test_files_of_canvas_and_moodle_belong_to_people_of_what_these_export(tmp_path):
    """By the number in the name of a file of Canvas, and otherwise by a name that only one has."""
    path = tmp_path / "roster.csv"
    path.write_text(
        "Student,ID,SIS Login ID,learner\n,,,\n    Points Possible,,,\n"
        '"Lovelace, Ada",7,al1,\n"Lovelace, Ada",8,al2,Countess\n"Brontë, Anne",9,,\n'
    )
    canvas = Roster(path)
    ids = {
        "lovelaceada_LATE_7_80_handin_00_Ada": "7",
        "lovelaceada_8_7_handin_00_Ada": "8",
        "brontanne_9_7_handin_00_Anne": "9",
        "Anne Bronte\u0308": "9",
        "bronteanne": None,
        "brontëanne_123_7_x": "9",
        "AL1": "7",
        "countess": "8",
        "Ada Lovelace": None,
        "7": None,
        "": None,
    }
    found = {name: canvas.find(name) for name in ids}
    assert {name: person and person.row["ID"] for name, person in found.items()} == ids
    assert canvas.absent({}) == ["Lovelace, Ada", "Lovelace, Ada", "Brontë, Anne"]
    path.write_text("First name;Surname;Email address\nGrace;Hopper;grace@example.org\n;;a@b.org")
    moodle = Roster(path)
    for name in ("grace  Hopper_123_assignsubmission_file", "Hopper, Grace", "grace@example.org"):
        assert moodle.find(name).name == "Grace Hopper"
    assert moodle.absent({}) == ["Grace Hopper", "a@b.org"]
    path = tmp_path / "lovelaceada_LATE_7_8_handin_00_Ada.ipynb"
    path.write_text("{")
    assert Submission(path, "x").is_late(None)
    assert canvas.called(Submission(path, path.stem)).learner == "Lovelace, Ada"
    assert canvas.called(Submission(path, "x")).learner == "x"


def test_the_rosters_of_the_page_for_teachers_know_the_files_that_it_names(tmp_path):
    page = (ROOT / "TEACHING.md").read_text(encoding="utf-8")
    tables = re.findall(r"```\n +((?:Student|First name),.*?)```", page, re.DOTALL)
    files = re.findall(r"`(lovelaceada_[^`]+|Ada Lovelace_[^`]+)`", page)
    names = []
    for table, file in zip(tables, files, strict=True):
        path = tmp_path / "roster.csv"
        path.write_text(re.sub("^ +", "", table, flags=re.MULTILINE))
        roster = Roster(path)
        names.append((roster.find(file).name, roster.absent({})[1]))
    assert names == [("Lovelace, Ada", "Hopper, Grace"), ("Ada Lovelace", "Grace Hopper")]


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
        cells = ["answer = 1\nwhile True: pass", "+given", "+other"]
        _, errors = run_cells(cells, 0.3, ran=tmp_path / "ran")
    finally:
        InteractiveShell.clear_instance()
    why = "This cell computed for more than 0.3 seconds."
    assert errors == dict.fromkeys(["answer", "given"], why)


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
    same = {one.learner: hint for one, hint in same_answers(FIRST, written).items()}
    hints = {"Ann": [f"Ben ({TITLE})"], "Ben": [f"Ann ({TITLE})"]}
    assert same == {name: hints.get(name, []) for name in codes}


def test_lines_that_were_handed_out_make_no_answer_long():
    lesson = lessons()[3]
    stub = next(one.source for one in read_notebook(lesson).cells if "def mended(" in one.source)
    (title,) = (one.title for one in exercises_of(lesson) if one.answer == "mended")
    lines = [f"    mask_{place} = attention_mask == {place}" for place in range(5)]
    for count in (4, 5):
        code = "\n".join([stub, *lines[:count]])
        given = [Submission(Path("x"), name, [code]) for name in ("Ann", "Ben, C.", "Dan")]
        first, *_ = same_answers(lesson, given).values()
        assert first == [f"Ben, C. ({title})", f"Dan ({title})"] * (count == 5)


def test_an_empty_folder_and_a_system_without_a_fence_are_said(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["grade", str(tmp_path)])
    with pytest.raises(SystemExit, match=r"No notebooks were found in .* make grade DIR=FOLDER"):
        grading.main()
    (tmp_path / "ada.ipynb").write_text("{")
    monkeypatch.setattr(grading, "can_fence", lambda: False)
    grading.main()
    assert capsys.readouterr().out.startswith("This system cannot stop a submission from reading")
