"""Proofs are bound to cells, run right after them, and can fail."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from nbformat import NotebookNode

from tools.build.notebooks import execute, finish
from tools.build.proofs import proofs_of, run_in_kernel
from tools.build.sources import LessonError, read_source

SOURCE = """# %% opening [markdown]
# # 1 · A title

# %% start
import random

import numpy as np

random.seed(2)
np.random.seed(3)

# %% three
x = 3
x

# %% drawn
random.random(), float(np.random.rand())
"""
CELLS = [{"id": name} for name in ("opening", "start", "three", "drawn")]
PROOF = "# %% after: three  numbers: 2017, 4.5\n{}\n"


def write(folder: Path, proofs: str) -> Path:
    """Write the proofs of the lesson 01; return the path of its notebook."""
    (folder / "proofs").mkdir(exist_ok=True)
    (folder / "proofs" / "01_lesson.py").write_text(proofs, encoding="utf-8")
    return folder / "01_lesson.ipynb"


def test_a_block_says_what_it_follows_and_declares(tmp_path) -> None:
    assert proofs_of(tmp_path / "01_lesson.ipynb", CELLS) == {}  # there is no file
    more = "\n\n# %% after: opening  numbers: -1e9\n# a comment, for it only declares\n"
    found = proofs_of(write(tmp_path, f"# Proofs.\n\n{PROOF.format('assert x == 3')}{more}"), CELLS)
    told = [(one.line, one.cell, one.numbers, one.code) for one in found.values()]
    assert told == [
        (3, "three", "2017, 4.5", "assert x == 3"),
        (7, "opening", "-1e9", "# a comment, for it only declares"),
    ]


@pytest.mark.parametrize(
    "statement",
    [
        "assert x == 3",
        "torch.testing.assert_close(x, y)",
        "with pytest.raises(ValueError, match='3'):\n    f(x)",
        "if x != 3:\n    raise AssertionError",
    ],
)
def test_what_can_fail_is_a_proof(tmp_path, statement) -> None:
    assert "three" in proofs_of(write(tmp_path, PROOF.format(statement)), CELLS)


FAULTS = [
    ("import torch\n# %% after: three\nassert x\n", "1: this line comes before"),
    ("# %% three\nassert x\n", "1: '# %% three' is not of the form"),
    ("# %% after: three  shows: 3\nassert x\n", "1: .* is not of the form"),
    (f"{PROOF}# %% after: start\nassert (\n", "4: .* never closed"),
    (PROOF.format("assert x == 3").replace("three", "thre"), "1: no cell has the name 'thre'"),
    (PROOF.format("assert x == 3") * 2, "3: the cell 'three' has a block already"),
    ("# %% after: three\n", "1: no statement of this block can fail"),
    (PROOF.format("y = x + 3"), "1: no statement of this block can fail"),
]


@pytest.mark.parametrize(("text", "words"), FAULTS)
def test_what_is_no_proof_is_refused_with_its_line(tmp_path, text, words) -> None:
    with pytest.raises(LessonError, match=f"^01_lesson.py:{words}"):
        proofs_of(write(tmp_path, text), CELLS)


FAILURES = [
    ("assert x == 5, 'x is 3'", r":2: assert x == 5, 'x is 3'\nAssertionError: x is 3$"),
    ("assert nowhere == 3", r":2: assert nowhere == 3\nNameError: name 'nowhere'"),
    ("def check():\n    assert x == 5\n\ncheck()", r":3: assert x == 5\nAssertionError$"),
    ("for y in []:\n    assert x == y", ":3: this assert never runs$"),
]


@pytest.mark.parametrize(("statements", "words"), FAILURES)
def test_a_proof_fails_at_a_line(monkeypatch, statements, words) -> None:
    monkeypatch.setattr("IPython.get_ipython", lambda: SimpleNamespace(user_ns={"x": 3}))
    with pytest.raises(AssertionError, match=f"^proofs/01.py{words}"):
        run_in_kernel("proofs/01.py", 1, statements)


def build_with(folder: Path, proofs: str) -> NotebookNode:
    source = folder / "01_lesson.py"
    source.write_text(SOURCE, encoding="utf-8")
    notebook = read_source(source)
    execute(notebook, folder, proofs_of(write(folder, proofs), notebook.cells))
    finish(notebook)
    return notebook


def test_proofs_change_nothing_of_what_is_stored_and_a_failing_one_is_named(tmp_path) -> None:
    proofs = """# %% after: opening
assert "random" not in globals()

# %% after: start
import random, sys
import numpy as np
np.random.rand(5)
assert random.random() < 1 and "np" in globals()

# %% after: three
x = x + 5
display(x)
def now(): return x
assert now() == 8

# %% after: drawn
assert x == 3 and "now" not in globals() and "sys" not in globals() and "proof" not in globals()
assert set(globals()) >= {"random", "x"}
"""
    assert build_with(tmp_path, proofs) == build_with(tmp_path, "")
    words = r"the proof of the cell 'three' fails. 01_lesson.py:3: assert x == y\nAssertionError$"
    with pytest.raises(LessonError, match=words):
        build_with(tmp_path, PROOF.format("y = 5\nassert x == y"))
