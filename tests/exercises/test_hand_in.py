"""hand_in writes what a notebook has run into a file that can be graded."""

import json

import nbformat
import pytest
from IPython.core.interactiveshell import InteractiveShell

from attnlab.display import folds
from attnlab.display.stored import BUNDLE
from attnlab.display.texts import question_of
from attnlab.exercises import check_new_vector, check_third_sentence, hand_in, predict
from attnlab.exercises.frame import stale
from attnlab.exercises.frame.verdict import latest
from attnlab.exercises.hand_in import ASK_NAME, WIDTH
from tools.grade.submissions import lesson_of, read_submissions
from tools.lab.saved_notebook import STATE, VIEW, keep_pages

SOURCES = [
    "def new_vector(query, x, hidden):\n    return query",
    "from attnlab.exercises import check_new_vector\ncheck_new_vector(new_vector)",
]


@pytest.fixture
def shell(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(folds, "committed", {})
    monkeypatch.delenv("JPY_SESSION_NAME", raising=False)
    latest.clear()
    stale.ran.clear()
    yield InteractiveShell.instance()
    InteractiveShell.clear_instance()


def sentences(capsys):
    """Return what was printed, whose lines fit an output of JupyterLab that breaks words."""
    lines = capsys.readouterr().out.splitlines()
    assert all(len(line) <= WIDTH or " " not in line for line in lines)
    return " ".join(lines)


def test_the_file_holds_code_predictions_and_verdicts_and_can_be_graded(shell, tmp_path, capsys):
    for source in SOURCES:
        shell.run_cell(source, store_history=True)
    folds.committed.update({"00/mat": "cat", "00/not-answered": None})
    capsys.readouterr()
    hand_in("00", name="Ada / é")
    said = sentences(capsys)
    assert "handin_00_Ada_é.ipynb. It contains your code and 1 prediction." in said
    assert "1 of the 2 exercise cells was run since the kernel started" in said
    notebook = nbformat.read(tmp_path / "handin_00_Ada_é.ipynb", as_version=4)
    nbformat.validate(notebook)
    assert notebook.metadata["attnlab"] == {
        "lesson": "00",
        "name": "Ada / é",
        "predictions": {"00/mat": "cat"},
        "verdicts": {"check_new_vector": "Not yet correct"},
    }
    (submission,) = read_submissions(tmp_path)
    assert submission.cells == SOURCES
    assert submission.predictions == {"00/mat": "cat"}
    assert lesson_of(submission).name.startswith("00")


def test_a_stub_is_no_verdict_and_no_answer(shell, tmp_path, capsys):
    check_new_vector(None)
    check_third_sentence("it")
    hand_in("00", name="a")
    told = json.loads((tmp_path / "handin_00_a.ipynb").read_text())["metadata"]["attnlab"]
    assert list(told["verdicts"]) == ["check_third_sentence"]
    said = sentences(capsys)
    assert "You answered 1 of the 2 exercises, and the checks accepted 0." in said
    assert "No answer yet: check_new_vector." in said
    assert "no predictions, because none was answered" in said


def test_a_kernel_that_ran_no_exercise_hands_in_nothing(shell, tmp_path, capsys):
    hand_in("02", name="Late")
    said = "0 of the 4 exercise cells were run since the kernel started; run them first, and then"
    assert sentences(capsys).startswith(said)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("server", ["make lab", "any other"])
def test_the_next_day_what_was_saved_is_handed_in(server, shell, tmp_path, monkeypatch, capsys):
    """Yesterday's answers and predictions, and today's change of one cell, which is not saved."""
    cells = [nbformat.v4.new_code_cell(source) for source in (*SOURCES, "", "late = 1")]
    facts = predict("00/place-of-cat").facts()
    said = {"model_id": "a"}
    data = {VIEW: said, "text/html": "", BUNDLE: facts}
    cells[2].outputs = [nbformat.v4.new_output("display_data", data)]
    asked = {"asked": {"key": facts["key"]}, "said": {"option": 1}}
    state = {STATE: {"state": {"a": {"state": asked}, "b": {"state": {"asked": {}}}}}}
    notebook = nbformat.v4.new_notebook(cells=cells, metadata={"widgets": state})
    if server == "make lab":
        keep_pages(notebook)
        notebook.metadata.pop("widgets", None)
    nbformat.write(notebook, tmp_path / "00_mine.ipynb")
    monkeypatch.setenv("JPY_SESSION_NAME", str(tmp_path / "00_mine.ipynb"))
    stale.watch_cells()
    shell.run_cell("late = 2", store_history=True, cell_id=cells[3].id)
    shell.run_cell("new = 3", store_history=True, cell_id="not-saved")
    folds.committed["00/today"] = "yes"
    hand_in("00", name="Late")
    told = sentences(capsys)
    assert "the code of 00_mine.ipynb, as it was last saved and with what has run since" in told
    assert "and 2 predictions." in told
    assert "0 of the 2 exercise cells were run since the kernel started; the others are" in told
    (submission,) = [one for one in read_submissions(tmp_path) if "handin" in one.path.name]
    assert submission.cells == [*SOURCES, "late = 2", "new = 3"]
    option = question_of("00/place-of-cat")["options"][1]["text"]
    assert submission.predictions == {"00/place-of-cat": option, "00/today": "yes"}


def test_a_prediction_that_is_asked_again_is_kept_for_hand_in(shell, tmp_path, monkeypatch):
    """The kernel has restarted, and the cell of the prediction has run again, twice."""
    monkeypatch.setenv("JPY_SESSION_NAME", str(tmp_path / "00_mine.ipynb"))
    facts = predict("00/place-of-cat").facts() | {"said": 1}
    for _ in range(2):
        cells = [nbformat.v4.new_code_cell(source) for source in SOURCES]
        cells[0].outputs = [nbformat.v4.new_output("display_data", {BUNDLE: facts})]
        nbformat.write(nbformat.v4.new_notebook(cells=cells), tmp_path / "00_mine.ipynb")
        facts = predict("00/place-of-cat").facts()
        assert "said" not in facts
    hand_in("00", name="Late")
    told = json.loads((tmp_path / "handin_00_Late.ipynb").read_text())["metadata"]["attnlab"]
    option = question_of("00/place-of-cat")["options"][1]["text"]
    assert told["predictions"] == {"00/place-of-cat": option}


def test_the_next_day_a_prediction_shows_what_was_said(shell, tmp_path, monkeypatch):
    monkeypatch.setenv("JPY_SESSION_NAME", str(tmp_path / "00_mine.ipynb"))
    key = "00/place-of-cat"
    for option, shown in ((1, {"option": 1}), (9, None)):  # as many options had an older lesson
        folds.committed.clear()
        cell = nbformat.v4.new_code_cell(SOURCES[0])
        facts = {"key": key, "said": option}
        cell.outputs = [nbformat.v4.new_output("display_data", {BUNDLE: facts})]
        notebook = nbformat.v4.new_notebook(cells=[cell])
        nbformat.write(notebook, tmp_path / "00_mine.ipynb")
        assert predict(key).said == shown
        assert folds.committed == ({key: question_of(key)["options"][1]["text"]} if shown else {})
        assert predict(key).said == shown  # the cell has run again


@pytest.mark.parametrize("text", ["", "[]", '{"cells": []}', '{"cells": [{"outputs": []}]}'])
def test_a_saved_file_that_is_no_lesson_is_not_handed_in(text, shell, tmp_path, monkeypatch):
    (tmp_path / "x.ipynb").write_text(text)
    monkeypatch.setenv("JPY_SESSION_NAME", str(tmp_path / "x.ipynb"))
    hand_in("00", name="Late")
    assert [path.name for path in tmp_path.iterdir()] == ["x.ipynb"]


@pytest.mark.parametrize("name", ["../../x", "/etc/x", ".", "x" * 500, " "])
def test_a_name_is_needed_and_leads_nowhere_else(shell, tmp_path, capsys, name):
    check_new_vector(None)
    hand_in("00", name=name)
    written = [path.name.startswith("handin_00_") for path in tmp_path.iterdir()]
    assert written == ([True] if name.strip() else [])
    assert (sentences(capsys) == ASK_NAME) == (not name.strip())


def test_outside_a_notebook_it_says_so():
    with pytest.raises(RuntimeError, match="hand_in must be called in a notebook"):
        hand_in("00", name="a")
    with pytest.raises(TypeError, match="name must be"):
        hand_in("00", name=None)
    with pytest.raises(ValueError, match="the number of a lesson, as in \"02\", got '2'"):
        hand_in("2", name="a")
