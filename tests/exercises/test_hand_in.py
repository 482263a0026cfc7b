"""hand_in writes what a notebook has run into a file that can be graded."""

import json

import nbformat
import pytest
from IPython.core.interactiveshell import InteractiveShell

from attnlab.display import folds
from attnlab.exercises import check_new_vector, hand_in
from attnlab.exercises.frame.verdict import latest
from attnlab.exercises.hand_in import ASK_NAME
from tools.grade.submissions import lesson_of, read_submissions

SOURCES = [
    "def new_vector(query, x, hidden):\n    return query",
    "from attnlab.exercises import check_new_vector\ncheck_new_vector(new_vector)",
]


@pytest.fixture
def shell(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(folds, "committed", {})
    latest.clear()
    yield InteractiveShell.instance()
    InteractiveShell.clear_instance()


def test_the_file_holds_code_predictions_and_verdicts_and_can_be_graded(shell, tmp_path, capsys):
    for source in SOURCES:
        shell.run_cell(source, store_history=True)
    folds.committed.update({"00/mat": "cat", "00/not-answered": None})
    capsys.readouterr()
    hand_in("00", name="Ada / é")
    said = capsys.readouterr().out
    assert "handin_00_Ada_é.ipynb. It contains your code and 1 prediction." in said
    assert "accepted 0 of 1 answers" in said
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


def test_a_stub_is_no_verdict(shell, tmp_path, capsys):
    check_new_vector(None)
    hand_in("00", name="a")
    told = json.loads((tmp_path / "handin_00_a.ipynb").read_text())["metadata"]["attnlab"]
    assert told["verdicts"] == {}
    assert "no predictions, because none was answered" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["../../x", "/etc/x", ".", "x" * 500, " "])
def test_a_name_is_needed_and_leads_nowhere_else(shell, tmp_path, capsys, name):
    hand_in("00", name=name)
    written = [path.name.startswith("handin_00_") for path in tmp_path.iterdir()]
    assert written == ([True] if name.strip() else [])
    assert (capsys.readouterr().out == f"{ASK_NAME}\n") == (not name.strip())


def test_outside_a_notebook_it_says_so():
    with pytest.raises(RuntimeError, match="hand_in must be called in a notebook"):
        hand_in("00", name="a")
    with pytest.raises(TypeError, match="name must be"):
        hand_in("00", name=None)
