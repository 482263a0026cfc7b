"""Sources become notebooks, the same bytes every time, and come back as the same sources."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
from bs4 import BeautifulSoup
from markdown_it import MarkdownIt

from tools.build import notebooks as build_notebooks
from tools.build.adopt import adopt
from tools.build.notebooks import build, build_all
from tools.build.sources import (
    NOTEBOOKS,
    LessonError,
    find_notebooks,
    find_sources,
    is_folded,
    read_source,
    select,
    tags,
    unfold,
    write_source,
)

SOURCE = r'''# %% [markdown]
# # 1 · A title
#
# With a formula $x^2$.

# %%
import random

get_ipython().register_magic_function(print, "cell", "answer")
print("a", flush=True)
print("b")
random.random() < 2


# %% doubling tags=["exercise"]
def double(x):
    """Return twice x."""


# %% tags=["solution"]
def double_solution(x):
    return 2 * x


check_double = print
check_double("double_solution: correct. It doubles.\n\n  x  2x\n  1   2")

# %% a-part [markdown]
# ## A part

# %% jupyter={"source_hidden": true}
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


LUCKY = 'import os\nos.environ.get("MKL_CBWR")'  # as if a result hung on the processor
WRONG = 'check_f = print\n\n# %% tags=["solution"]\ncheck_f("f: not yet correct. Why?")'


def content(notebook: nbformat.NotebookNode) -> list[tuple]:
    """Return what a notebook has in common with its source."""
    return [
        (cell.cell_type, cell.source, cell.get("id"), tags(cell), is_folded(cell))
        for cell in map(unfold, notebook.cells)
    ]


def test_every_lesson_equals_its_source_and_comes_back_as_it() -> None:
    sources, notebooks = find_sources(), find_notebooks()
    assert [path.stem for path in sources] == [path.stem for path in notebooks]
    for source in sources:
        notebook, wanted = nbformat.read(NOTEBOOKS / f"{source.stem}.ipynb", 4), read_source(source)
        assert content(wanted) == content(notebook), f"{source.stem}: make notebooks"
        assert write_source(wanted) == source.read_text(encoding="utf-8"), source.stem


def test_building_twice_gives_the_same_bytes_and_adopting_the_same_source(built, tmp_path) -> None:
    first = built.read_bytes()
    assert build(built.with_suffix(".py"), built.parent).read_bytes() == first
    assert adopt(built, tmp_path).read_text(encoding="utf-8") == SOURCE


def test_the_build_counts_and_leaves_out_what_differs(built) -> None:
    notebook = nbformat.read(built, as_version=4)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == [1, 2, 3, 4]
    assert code[2].metadata.jupyter == {"source_hidden": True}
    assert [output.get("text") for output in code[0].outputs] == ["a\nb\n", None]  # joined
    assert code[2].outputs[0].text == "01/twice double_solution(21)\n\n"
    assert "version" not in notebook.metadata.language_info
    assert all("execution" not in cell.metadata for cell in code)
    traceback = "\n".join(code[-1].outputs[0].traceback)
    assert "JSONDecodeError" in traceback
    assert "json.loads" in traceback
    assert not set("/\x1b") & set(traceback)  # no path, no colour


def test_a_solution_is_one_fold_in_any_markdown() -> None:
    cells = [cell for path in find_notebooks() for cell in nbformat.read(path, 4).cells]
    for cell in (one for one in cells if "solution" in tags(one)):
        page = BeautifulSoup(MarkdownIt().render(cell.source), "html.parser")
        (fold,) = page.find_all(recursive=False)
        summary, code, *_ = fold.find_all(recursive=False)
        assert (fold.name, summary.get_text()) == ("details", "A solution")
        assert code.get_text() == f"{unfold(cell).source}\n"
        assert "check_" not in cell.source or ": correct. " in fold.get_text()


def test_ids_stay_when_a_cell_is_inserted_and_names_are_ids(built, tmp_path) -> None:
    longer = tmp_path / "01_lesson.py"
    longer.write_text("# %%\n1\n\n# %%\n1\n\n" + SOURCE, encoding="utf-8")
    old = [cell.id for cell in nbformat.read(built, as_version=4).cells]
    first, second, *others = [cell.id for cell in read_source(longer).cells]
    assert others == old
    assert first != second  # though the cells are equal
    assert (old[2], old[4]) == ("doubling", "a-part")


NO_NAMES = [
    (["may-look", "may-look"], "01_lesson.py: two cells have the name 'may-look'."),
    (["May look"], "01_lesson.py: the name of a cell must have .*, got 'May look'."),
    (["deadbeef-07"], "the name of a cell must have"),
]


@pytest.mark.parametrize(("names", "words"), NO_NAMES)
def test_a_name_that_cannot_be_an_id_is_refused(tmp_path, names, words) -> None:
    source = tmp_path / "01_lesson.py"
    source.write_text("\n".join(f"# %% {name}\n1\n" for name in names), encoding="utf-8")
    with pytest.raises(LessonError, match=words):
        read_source(source)


def test_a_failing_lesson_stays_as_it_was_and_the_others_are_built(
    tmp_path, capfd, monkeypatch
) -> None:
    lessons = {
        "01_good": ("print(6)", ""),
        "02_bad": ("1 / 0", "ZeroDivisionError"),
        "03_dead": ("import os; os._exit(1)", "Kernel died"),
        "04_once": ("x = []\n\n# %%\nx.append(1)\nx", "run again alone, gives another"),
        "05_wrong": (WRONG, "its check: f: not yet correct. Why?"),
        "06_lucky": (LUCKY, "MKL_CBWR=COMPATIBLE ONEDNN_MAX_CPU_ISA=AVX2, gives another"),
        "07_slow": ("import threading; threading.Event().wait()", "A cell timed out"),
    }
    monkeypatch.delenv("MKL_CBWR", raising=False)
    *sources, slow = [tmp_path / f"{name}.py" for name in lessons]
    for source in [*sources, slow]:
        source.write_text(f"# %%\n{lessons[source.stem][0]}\n")
        source.with_suffix(".ipynb").write_text("as it was")
    assert build_all(sources, tmp_path) == ["02_bad", "03_dead", "04_once", "05_wrong", "06_lucky"]
    monkeypatch.setattr(build_notebooks, "LIMIT", 1)
    assert build_all([slow], tmp_path) == ["07_slow"]
    said = capfd.readouterr()
    assert "01_good.ipynb" in said.out
    assert "without encryption" not in said.err
    for name, (_, why) in lessons.items():
        assert (sources[0].with_name(f"{name}.ipynb").read_text() == "as it was") is bool(why)
        assert not why or f"{name}.py: this lesson failed" in said.err
        assert why in said.err


def test_selecting_an_unknown_lesson_is_refused() -> None:
    paths = [Path("01_one.py"), Path("02_two.py")]
    assert select(paths, ["2"]) == [Path("02_two.py")]
    with pytest.raises(SystemExit, match="no lesson '07'; the lessons are 01_one, 02_two"):
        select(paths, ["7"])
