"""Proofs are bound to cells, run right after them, and can fail."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from tools.build_notebooks import build
from tools.notebooks import LessonError
from tools.proofs import faults, proofs_of, read_proofs, run_in_kernel

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
BLOCK = """# %% after: three
{}
"""


def write(folder: Path, proofs: str) -> Path:
    """Write the proofs of the lesson 01; return the path of its notebook."""
    (folder / "proofs").mkdir(exist_ok=True)
    (folder / "proofs" / "01_lesson.py").write_text(proofs, encoding="utf-8")
    return folder / "01_lesson.ipynb"


def test_a_block_says_what_it_follows_and_declares(tmp_path) -> None:
    text = "# Proofs.\n\n# %% after: a-cell  numbers: 2017, 4.5\nassert x == 3\n"
    more = "\n\n# %% after: b  numbers: -1e9\n\n# %% after: c\n"
    first, second, third = read_proofs(write(tmp_path, text + more))
    assert (first.cell, first.numbers) == ("a-cell", "2017, 4.5")
    assert (first.line, first.code) == (3, "assert x == 3")
    assert (second.cell, second.numbers, second.code) == ("b", "-1e9", "")
    assert (third.line, third.cell, third.numbers) == (9, "c", "")


def test_a_lesson_without_a_proof_file_has_no_proofs(tmp_path) -> None:
    assert read_proofs(tmp_path / "01_lesson.ipynb") == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("import torch\n# %% after: a\nassert x\n", "01_lesson.py:1: this line comes before"),
        ("# %% may-look\nassert x\n", "01_lesson.py:1: '# %% may-look' is not of the form"),
        ("# %% after: a  shows: 3\nassert x\n", "01_lesson.py:1: .* is not of the form"),
        ("# %% after: a\nassert x\n\n# %% after: b\nassert (\n", "01_lesson.py:5: .* never closed"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused(tmp_path, text, words) -> None:
    with pytest.raises(LessonError, match=words):
        read_proofs(write(tmp_path, text))


def faults_in(folder: Path, text: str) -> list[tuple[int, str]]:
    return list(faults(read_proofs(write(folder, text)), ["opening", "three"]))


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
    assert faults_in(tmp_path, BLOCK.format(statement)) == []


def test_a_block_that_declares_needs_no_statements(tmp_path) -> None:
    assert faults_in(tmp_path, "# %% after: three  numbers: 2017\n# a comment\n") == []


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("# %% after: thre\nassert x == 3\n", 1, "no cell has the name 'thre'."),
        (BLOCK.format("assert x == 3") * 2, 3, "the cell 'three' has a block already."),
        (BLOCK.format(""), 1, "no statement of this block can fail."),
        (BLOCK.format("y = x + 3"), 1, "no statement of this block can fail."),
        ("# %% after: three  numbers: 7\nprint(x)\n", 1, "no statement of this block can fail."),
    ],
)
def test_a_block_that_proves_nothing_is_found(tmp_path, text, line, words) -> None:
    assert (line, words) in faults_in(tmp_path, text)
    cells = [{"id": "three"}, {"id": "opening"}]
    with pytest.raises(LessonError, match=rf"^01_lesson.py:{line}: "):
        proofs_of(tmp_path / "01_lesson.ipynb", cells)


# --- in a kernel ----------------------------------------------------------------------------------


def build_with(folder: Path, proofs: str) -> bytes:
    source = folder / "01_lesson.py"
    source.write_text(SOURCE, encoding="utf-8")
    write(folder, proofs)
    return build(source, folder).read_bytes()


def test_proofs_change_nothing_of_what_is_stored(tmp_path) -> None:
    bare = build_with(tmp_path, "")
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
    assert build_with(tmp_path, proofs) == bare


def test_a_failing_proof_names_cell_file_and_line(tmp_path) -> None:
    words = r"the proof of the cell 'three' fails. 01_lesson.py:3: assert x == y\nAssertionError$"
    with pytest.raises(LessonError, match=words):
        build_with(tmp_path, BLOCK.format("y = 5\nassert x == y"))


@pytest.mark.parametrize(
    ("statements", "words"),
    [
        ("assert x == 5, 'x is 3'", r":2: assert x == 5, 'x is 3'\nAssertionError: x is 3$"),
        ("assert nowhere == 3", r":2: assert nowhere == 3\nNameError: name 'nowhere'"),
        ("def check():\n    assert x == 5\n\ncheck()", r":3: assert x == 5\nAssertionError$"),
        ("def check():\n    assert x == 3", ":3: this assert never runs$"),
        ("for y in []:\n    assert x == y", ":3: this assert never runs$"),
    ],
)
def test_a_proof_fails_at_a_line(monkeypatch, statements, words) -> None:
    monkeypatch.setattr("IPython.get_ipython", lambda: SimpleNamespace(user_ns={"x": 3}))
    with pytest.raises(AssertionError, match=f"^proofs/01.py{words}"):
        run_in_kernel("proofs/01.py", 1, statements)
