"""The magic %%answer: what a cell shows is folded, and nothing of it stands outside the fold."""

import resource
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import pytest
import torch
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

from attnlab import _folds, _kernel
from attnlab.display import lesson_setup
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

    monkeypatch.setattr(_folds, "question_of", question_of)
    monkeypatch.setattr("attnlab.exercises._predict.question_of", question_of)
    monkeypatch.setattr(_folds, "committed", {})
    shell = InteractiveShell.instance()
    _folds.register()
    yield shell
    InteractiveShell.clear_instance()


def run(shell, *lines, key=KEY):
    """Run a cell that begins with the magic; return what it shows and its result."""
    with capture_output() as captured:
        result = shell.run_cell("\n".join([f"%%answer {key}", *lines]))
    return captured, result


def page_of(captured):
    assert captured.stdout == captured.stderr == ""
    (output,) = captured.outputs
    assert output.data["text/plain"] == _folds.SUMMARY
    page = output.data["text/html"]
    shown, folded = page.split("</summary>")
    assert folded.endswith("</details>")
    assert page.count("<details") == 1
    return shown, folded


def test_all_that_a_cell_shows_is_in_the_fold_and_its_names_are_the_notebooks(shell):
    code = [
        "import sys",
        "from IPython.display import HTML, display",
        "giraffe = 3",
        "print('giraffe < 4')",
        "display(HTML('<b>bold</b>'))",
        "giraffe + 1",
    ]
    captured, result = run(shell, *code)
    shown, folded = page_of(captured)
    assert result.success
    for words in ("giraffe &lt; 4", "<b>bold</b>", ">4</pre>"):
        assert words in folded
        assert words not in shown
    assert shell.user_ns["giraffe"] == 3


def test_a_figure_of_pyplot_stands_inside_the_fold(shell, monkeypatch):
    inline = pytest.importorskip("matplotlib_inline.backend_inline")
    monkeypatch.setattr(inline, "flush_figures", lambda: print("flushed inside"))
    _, folded = page_of(run(shell, "1")[0])
    assert "flushed inside" in folded


def test_a_picture_keeps_its_bytes(shell):
    code = "from IPython.display import Image\nImage(data=b'\\x89PNG\\r\\n\\x1a\\n', format='png')"
    _, folded = page_of(run(shell, *code.split("\n"))[0])
    assert 'src="data:image/png;base64,iVBORw0KGgo="' in folded


def test_an_error_is_that_of_the_cell_and_what_came_before_is_shown(shell):
    captured, result = run(shell, "print('before')", "1 / 0")
    assert isinstance(result.error_in_exec, ZeroDivisionError)
    assert "before" in captured.outputs[0].data["text/html"]
    assert "1 / 0" in captured.stdout  # the traceback shows the line


def test_a_wrong_key_is_an_error_of_the_cell(shell):
    _, result = run(shell, "left = 1", key="00/giraffe")
    assert "no 00/giraffe" in str(result.error_in_exec)
    assert "left" not in shell.user_ns


def test_the_fold_is_open_once_the_learner_has_committed_in_this_kernel(shell):
    assert " open>" not in page_of(run(shell, "1")[0])[0]
    question = predict(KEY)
    question.said = {"option": 1}
    assert question.answer == "two"
    assert " open>" in page_of(run(shell, "1")[0])[0]
    predict(KEY)  # asked again: folded again
    assert " open>" not in page_of(run(shell, "1")[0])[0]


def test_a_cell_of_nothing_shows_an_empty_fold(shell):
    assert page_of(run(shell, "# a comment")[0])[1] == "</details>"


def test_without_a_notebook_nothing_is_registered(monkeypatch):
    monkeypatch.setitem(sys.modules, "IPython", None)
    _folds.register()


def test_free_memory_goes_back_after_a_cell(shell, monkeypatch):
    returned = []
    monkeypatch.setattr(_kernel, "_return_memory", returned.append)
    for _ in range(2):  # the first cell of a lesson may run again
        _kernel.return_memory_after_cells()
    shell.run_cell("1 + 1")
    assert len(returned) == (1 if sys.platform == "linux" else 0)


def test_memory_that_a_tensor_leaves_behind_is_returned():
    if sys.platform != "linux":
        pytest.skip("only Linux tells how much memory a process holds")
    pages = Path("/proc/self/statm")
    pieces = [bytearray(60_000) for _ in range(1000)]  # too small to be mapped by themselves
    last = bytearray(60_000)
    del pieces
    before = int(pages.read_text().split()[1])
    _kernel._return_memory(None)
    freed = (before - int(pages.read_text().split()[1])) * resource.getpagesize()
    assert freed > 30e6
    assert last


def test_a_lesson_begins_as_all_lessons_do():
    threads, style = torch.get_num_threads(), dict(plt.rcParams)
    try:
        lesson_setup()
        first = torch.rand(3)
        assert torch.equal(first, torch.rand(3, generator=torch.Generator().manual_seed(0)))
        assert torch.get_num_threads() == 1
        assert repr(torch.tensor([12345.6789, 0.00001])) == "tensor([12345.679,     0.000])"
        with plt.style.context("attnlab.attnlab"):
            lessons_style = dict(plt.rcParams)
        assert dict(plt.rcParams) == lessons_style != style
    finally:
        torch.set_num_threads(threads)
        torch.set_printoptions(profile="default")
        plt.rcParams.update(style)
