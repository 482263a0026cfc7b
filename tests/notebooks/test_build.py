"""Sources become notebooks, the same bytes every time, and come back as the same sources."""

from __future__ import annotations

import re
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_output

from tools import build_notebooks
from tools.adopt_notebook import adopt
from tools.build_notebooks import build, build_all
from tools.notebooks import (
    NOTEBOOKS,
    LessonError,
    find_notebooks,
    find_sources,
    is_folded,
    join_streams,
    plain_traceback,
    read_source,
    select,
    tags,
    write_source,
)

SOURCE = '''# %% [markdown]
# # 1 · A title
#
# With a formula $x^2$.

# %%
import random

get_ipython().register_magic_function(print, "cell", "answer")
random.random() < 2


# %% doubling tags=["exercise"]
def double(x):
    """Return twice x."""


# %% tags=["solution"] jupyter={"source_hidden": true}
def double_solution(x):
    return 2 * x


# %% a-part [markdown]
# ## A part

# %%
# %%answer 01/twice
double_solution(21)

# %% tags=["raises-exception"]
import json

json.loads("{")
'''


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    source = tmp_path_factory.mktemp("notebooks") / "01_lesson.py"
    source.write_text(SOURCE, encoding="utf-8")
    return build(source, source.parent)


def content(notebook: nbformat.NotebookNode) -> list[tuple]:
    """Return what a notebook has in common with its source."""
    return [
        (cell.cell_type, cell.source, cell.get("id"), tags(cell), is_folded(cell))
        for cell in notebook.cells
    ]


def test_every_lesson_equals_its_source() -> None:
    sources, notebooks = find_sources(), find_notebooks()
    assert [path.stem for path in sources] == [path.stem for path in notebooks]
    for source in sources:
        notebook = nbformat.read(NOTEBOOKS / f"{source.stem}.ipynb", as_version=4)
        assert content(read_source(source)) == content(notebook), f"{source.stem}: make notebooks"


@pytest.mark.parametrize("source", find_sources(), ids=lambda path: path.stem)
def test_a_lesson_comes_back_as_the_same_source(source: Path) -> None:
    assert write_source(read_source(source)) == source.read_text(encoding="utf-8")


def test_building_twice_gives_the_same_bytes(built) -> None:
    first = built.read_bytes()
    assert build(built.with_suffix(".py"), built.parent).read_bytes() == first


def test_adopting_gives_the_same_source_or_takes_over_a_change(built, tmp_path) -> None:
    assert adopt(built, tmp_path).read_text(encoding="utf-8") == SOURCE
    notebook = nbformat.read(built, as_version=4)
    notebook.cells[0].source = "# 1 · Another title"
    edited = tmp_path / "01_lesson.ipynb"
    nbformat.write(notebook, edited)
    assert "# # 1 · Another title\n" in adopt(edited, tmp_path).read_text(encoding="utf-8")


def test_the_build_counts_and_leaves_out_what_differs(built) -> None:
    notebook = nbformat.read(built, as_version=4)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == [1, 2, 3, 4, 5]
    assert code[2].metadata.jupyter == {"source_hidden": True}
    assert code[3].outputs[0].text == "01/twice double_solution(21)\n\n"
    assert "version" not in notebook.metadata.language_info
    assert all("execution" not in cell.metadata for cell in code)
    traceback = "\n".join(code[-1].outputs[0].traceback)
    assert "JSONDecodeError" in traceback
    assert "json.loads" in traceback
    assert "/" not in traceback  # no path
    slides = [cell.metadata.slideshow.slide_type for cell in notebook.cells]
    assert slides == ["slide", "-", "skip", "skip", "slide", "fragment", "-"]


def test_ids_stay_when_a_cell_is_inserted(built, tmp_path) -> None:
    longer = tmp_path / "01_lesson.py"
    longer.write_text("# %%\n1\n\n# %%\n1\n\n" + SOURCE, encoding="utf-8")
    old = [cell.id for cell in read_source(built.with_suffix(".py")).cells]
    first, second, *others = [cell.id for cell in read_source(longer).cells]
    assert others == old
    assert first != second  # though the cells are equal


def test_the_name_of_a_cell_becomes_its_id(built) -> None:
    ids = [cell.id for cell in nbformat.read(built, as_version=4).cells]
    assert (ids[2], ids[4]) == ("doubling", "a-part")
    assert all(re.fullmatch("[0-9a-f]{10}", ids[number]) for number in (0, 1, 3, 5, 6))


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (["may-look", "may-look"], "01_lesson.py: two cells have the name 'may-look'."),
        (["May look"], "01_lesson.py: the name of a cell must have .*, got 'May look'."),
        (["m" * 65], "the name of a cell must have"),
        (["deadbeef-07"], "the name of a cell must have"),
    ],
)
def test_a_name_that_cannot_be_an_id_is_refused(tmp_path, names, words) -> None:
    source = tmp_path / "01_lesson.py"
    source.write_text("\n".join(f"# %% {name}\n1\n" for name in names), encoding="utf-8")
    with pytest.raises(LessonError, match=words):
        read_source(source)


def test_lessons_are_built_together_and_a_failing_one_stays_as_it_was(
    tmp_path, capfd, monkeypatch
) -> None:
    codes = ("print(6)", "1 / 0", "import time; time.sleep(9)", "import os; os._exit(1)")
    sources = [
        tmp_path / f"{n:02}_{name}.py" for n, name in enumerate("good bad slow dead".split(), 1)
    ]
    for source, code in zip(sources, codes, strict=True):
        source.write_text(f"# %%\n{code}\n")
    old = tmp_path / "02_bad.ipynb"
    old.write_text("as it was")
    monkeypatch.setattr(build_notebooks, "TIMEOUT", 2)
    assert build_all(sources, tmp_path) == ["02_bad", "03_slow", "04_dead"]
    assert old.read_text() == "as it was"
    said = capfd.readouterr()
    assert "01_good.ipynb" in said.out
    assert "02_bad.py: a cell failed, and the old notebook stays." in said.err
    assert "ZeroDivisionError" in said.err
    assert "03_slow.py: a cell failed, and the old notebook stays.\nA cell timed out" in said.err
    assert "04_dead.py: a cell failed, and the old notebook stays.\nKernel died" in said.err
    assert "without encryption" not in said.err


def test_selecting_an_unknown_lesson_is_refused() -> None:
    paths = [Path("01_one.py"), Path("02_two.py")]
    assert select(paths, ["2"]) == [Path("02_two.py")]
    with pytest.raises(SystemExit, match="no lesson '07'; the lessons are 01_one, 02_two"):
        select(paths, ["7"])


def test_pieces_of_a_stream_are_joined_with_their_neighbours_only() -> None:
    pieces = [new_output("stream", name="stdout", text=text) for text in ("a", "b", "c")]
    shown = new_output("display_data", data={"text/plain": "x"})
    joined = join_streams([pieces[0], pieces[1], shown, pieces[2]])
    assert [output.get("text") for output in joined] == ["ab", None, "c"]
    assert pieces[0].text == "a"


def test_frames_outside_the_notebook_are_left_out_of_a_traceback() -> None:
    traceback = [
        "\x1b[31mError\x1b[39m",
        "Cell In[1], line 1",
        "File /a/b.py:3, in f()",
        "Error: x",
    ]
    assert plain_traceback(traceback) == ["Error", "Cell In[1], line 1", "Error: x"]
