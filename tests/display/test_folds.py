"""The magic %%answer: what a cell shows is folded, and nothing of it stands outside the fold."""

import resource
import sys
import traceback
from pathlib import Path

import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

from attnlab.display import folds, ipython
from attnlab.exercises import predict

KEY = "00/zebra"
QUESTION = {
    "question": "How?",
    "explanation": "So.",
    "options": [{"text": "one", "correct": True}, {"text": "two"}],
}


@pytest.fixture
def shell(monkeypatch):
    """An IPython without a notebook, in which the magic is registered; one known prediction."""

    def question_of(key):
        if key != KEY:
            raise ValueError(f"no {key}")
        return QUESTION

    monkeypatch.setattr("attnlab.display.texts.question_of", question_of)
    monkeypatch.setattr(folds, "committed", {})
    shell = InteractiveShell.instance()
    # how IPython draws a traceback depends on every module that this process has imported
    monkeypatch.setattr(shell, "showtraceback", lambda *args, **kwargs: None)
    folds.register()
    yield shell
    InteractiveShell.clear_instance()


def run(shell, code, key=KEY):
    """Run a cell that begins with the magic; return its result, and what is shown and folded."""
    with capture_output() as captured:
        result = shell.run_cell(f"%%answer {key}\n{code}")
    assert captured.stdout == captured.stderr == ""
    if not captured.outputs:
        return result, "", ""
    (output,) = captured.outputs
    assert output.data["text/plain"] == folds.SUMMARY
    shown, folded = output.data["text/html"].split("</summary>")
    assert folded.endswith("</details>")
    return result, shown, folded.removesuffix("</details>")


def test_all_that_a_cell_shows_is_in_the_fold_and_its_names_are_the_notebooks(shell, monkeypatch):
    pytest.importorskip("matplotlib.pyplot")  # whose figures are flushed if it is imported
    inline = pytest.importorskip("matplotlib_inline.backend_inline")
    monkeypatch.setattr(inline, "flush_figures", lambda: print("pictures of pyplot"))
    code = """
from IPython.display import HTML, Image, display
giraffe = 3
print("giraffe < 4")
display(HTML("<b>bold</b>"), Image(data=b"\\x89PNG\\r\\n\\x1a\\n", format="png"))
giraffe + 1
"""
    result, shown, folded = run(shell, code)
    assert result.success
    parts = "giraffe &lt; 4", "<b>bold</b>", ">4</pre>", "pictures of pyplot"
    for part in (*parts, 'src="data:image/png;base64,iVBORw0KGgo="'):
        assert part in folded
        assert part not in shown
    assert shell.user_ns["giraffe"] == 3
    assert run(shell, "# nothing")[2].count("<") == 2  # the words of pyplot in their element


def test_an_error_is_that_of_the_cell_and_what_came_before_is_shown(shell):
    result, _, folded = run(shell, "print('before')\n1 / 0")
    assert isinstance(result.error_in_exec, ZeroDivisionError)
    assert "before" in folded
    frames = traceback.extract_tb(result.error_in_exec.__traceback__)
    assert frames[-1].line == "1 / 0"


def test_a_wrong_key_is_an_error_of_the_cell(shell):
    result, _, _ = run(shell, "left = 1", key="00/giraffe")
    assert "no 00/giraffe" in str(result.error_in_exec)
    assert "left" not in shell.user_ns


def test_the_fold_is_open_once_the_learner_has_committed_in_this_kernel(shell):
    assert " open>" not in run(shell, "1")[1]
    question = predict(KEY)
    question.said = {"option": 1}
    assert question.answer == "two"
    shown = run(shell, "1")[1]
    assert " open>" in shown
    assert shown.endswith(">The answer")  # it does not ask for a prediction any more
    predict(KEY)  # its cell has run again, and shows what was said
    assert " open>" in run(shell, "1")[1]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells how much a process holds")
def test_memory_that_a_tensor_leaves_behind_is_returned_after_a_cell(shell):
    def held():
        pages = Path("/proc/self/statm").read_text().split()[1]
        return int(pages) * resource.getpagesize()

    ipython.return_memory_after_cells()
    pieces = [bytearray(60_000) for _ in range(1000)]  # too small to be mapped by themselves
    last = bytearray(60_000)
    del pieces
    before = held()
    shell.run_cell("1 + 1")
    assert before - held() > 30e6
    assert last
