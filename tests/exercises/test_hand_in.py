"""hand_in writes what a notebook has run into a file that can be graded."""

import json

import nbformat
import pytest
from IPython.core.interactiveshell import InteractiveShell

from attnlab import _folds
from attnlab._texts import prediction_files, read
from attnlab.exercises import check_is_distribution, hand_in, predict
from attnlab.exercises._hand_in import ASK_NAME
from attnlab.exercises._verdict import latest
from tools.grade._submissions import lesson_of, read_submissions

ANSWER = "def is_distribution(weights):\n    return True"
CHECK = (
    "from attnlab.exercises import check_is_distribution\ncheck_is_distribution(is_distribution)"
)


@pytest.fixture
def shell(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(_folds, "committed", {})
    latest.clear()
    yield InteractiveShell.instance()
    InteractiveShell.clear_instance()


def test_the_file_holds_code_predictions_and_verdicts_and_can_be_graded(shell, tmp_path, capsys):
    shell.user_ns["check_is_distribution"] = check_is_distribution
    for source in (ANSWER, CHECK):
        shell.run_cell(source, store_history=True)
    first = next(iter(_questions()))
    question = predict(first)
    question.said = {"option": 0}
    capsys.readouterr()
    hand_in("00", name="Ada / é")
    said = (
        "Hand in the file handin_00_Ada_é.ipynb. It contains your code and 1 prediction.\n"
        "The checks that you ran accepted 0 of 1 answers.\n"
    )
    assert capsys.readouterr().out == said
    path = tmp_path / "handin_00_Ada_é.ipynb"
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    assert notebook.metadata["attnlab"] == {
        "lesson": "00",
        "name": "Ada / é",
        "predictions": {first: question.answer},
        "verdicts": {"check_is_distribution": "Not yet correct"},
    }
    (submission,) = read_submissions(tmp_path)
    assert submission.cells == [ANSWER, CHECK]
    assert submission.predictions == {first: question.answer}
    assert lesson_of(submission).name.startswith("00")


def _questions():
    return [
        f"00/{name}" for name, one in read(prediction_files()["00"]).items() if "options" in one
    ]


def test_a_stub_is_no_verdict(shell, tmp_path, capsys):
    check_is_distribution(None)
    hand_in("00", name="a")
    told = json.loads((tmp_path / "handin_00_a.ipynb").read_text())["metadata"]["attnlab"]
    assert told["verdicts"] == {}
    assert capsys.readouterr().out == (
        "Hand in the file handin_00_a.ipynb. It contains your code and no predictions, because "
        "none was answered since the kernel started.\n"
    )


@pytest.mark.parametrize("name", ["", "  "])
def test_a_name_is_asked_for(shell, tmp_path, capsys, name):
    hand_in("00", name=name)
    assert capsys.readouterr().out == f"{ASK_NAME}\n"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["../../x", "/etc/x", ".", "x" * 500])
def test_a_name_leads_nowhere_else(shell, tmp_path, name):
    hand_in("00", name=name)
    (path,) = tmp_path.iterdir()
    assert path.name.startswith("handin_00_")


def test_outside_a_notebook_it_says_so():
    with pytest.raises(RuntimeError, match="hand_in must be called in a notebook"):
        hand_in("00", name="a")
    with pytest.raises(TypeError, match="name must be"):
        hand_in("00", name=None)
