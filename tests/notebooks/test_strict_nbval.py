"""The gates notice every way in which a notebook can lie, and pass a notebook that does not."""

from __future__ import annotations

import copy
import json
import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import nbformat
import pytest
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from tests.notebooks import corruptions
from tests.notebooks.corruptions import CELL_CORRUPTIONS, CELLS, NOTEBOOK_CORRUPTIONS, SETUP, TAGS
from tools import strict_nbval
from tools.build_notebooks import build
from tools.lint_notebooks import lint
from tools.notebooks import ROOT, describe_difference, read_source, write_source

STRICT = ["--nbval-current-env", "-p", "tools.strict_nbval"]
FIRST = 2  # the cells with corruptions come after a title and the set-up


def make_source(folder: Path, name: str, codes: list[tuple[str, list[str]]]) -> Path:
    cells = [new_markdown_cell("# 1 · A good notebook")]
    cells += [new_code_cell(code, metadata={"tags": tags}) for code, tags in codes]
    path = folder / f"{name}.py"
    path.write_text(write_source(new_notebook(cells=cells)), encoding="utf-8")
    return path


def run_nbval(*paths: Path, flags: list[str] = STRICT) -> dict[str, set[int | str]]:
    """Run nbval on notebooks; return which cells failed, or "controls", by name of the notebook."""
    command = [sys.executable, "-m", "pytest", "--nbval", *flags, "-q", "-rf", "--tb=no"]
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST")}
    done = subprocess.run(
        [*command, "--color=no", "-p", "no:cacheprovider", "-p", "no:xdist", *map(str, paths)],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    summary = re.findall(r"^(?:FAILED|ERROR) .*?(\w+)\.ipynb::(?:Cell )?(\w+)", done.stdout, re.M)
    assert re.search(r"\d+ (passed|failed)", done.stdout), done.stdout + done.stderr
    failed: dict[str, set[int | str]] = {path.stem: set() for path in paths}
    for name, cell in summary:
        failed[name].add(int(cell) if cell.isdecimal() else cell)
    return failed


@cache
def found_in(path: Path) -> set[str]:
    return {finding.text for finding in lint(path)}


@cache
def read_once(source: Path) -> NotebookNode:
    return read_source(source)


def static_gates(path: Path, notebook: NotebookNode, source: Path) -> set[str]:
    """Return which of the two gates that execute nothing object to a notebook."""
    good = found_in(source.with_suffix(".ipynb"))
    path.write_text(json.dumps(notebook))  # as it is: nbformat.write would repair cell ids
    caught = {"lint"} if {finding.text for finding in lint(path)} - good else set()
    if describe_difference(read_once(source), notebook):
        caught.add("source")
    return caught


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("notebooks")


@pytest.fixture(scope="module")
def sheet(folder: Path) -> Path:
    """A good notebook with one cell for every corruption of a cell."""
    codes = [(SETUP, [])] + [(CELLS[c.cell], TAGS.get(c.cell, [])) for c in CELL_CORRUPTIONS]
    codes += [(CELLS[name], []) for name in corruptions.HARMLESS]
    return build(make_source(folder, "01_sheet", codes), folder)


@pytest.fixture(scope="module")
def small(folder: Path) -> Path:
    """A good notebook of four cells, for corruptions of a whole notebook."""
    return build(
        make_source(folder, "01_small", [("a = 6", []), ("print(a)", []), ("a", [])]), folder
    )


@pytest.fixture(scope="module")
def moving(folder: Path) -> Path:
    """A notebook with a slider that works where it stands and fails at its last stop."""
    draw = "def draw(fig, d_k):\n    fig.text(0, 0, str(1 / d_k))"
    codes = ["from attnlab.live import live", draw, "figure = live(draw, d_k=[1, 2, 0])"]
    cells = [new_code_cell(code, execution_count=n) for n, code in enumerate(codes, 1)]
    nbformat.write(new_notebook(cells=cells), folder / "01_moving.ipynb")  # no cell shows anything
    return folder / "01_moving.ipynb"


@pytest.fixture(scope="module")
def caught(folder: Path, sheet: Path, small: Path, moving: Path) -> dict[str, set[str]]:
    """Which gates noticed which corruption."""
    gates: dict[str, set[str]] = {}
    good, everything = nbformat.read(sheet, 4), nbformat.read(sheet, 4)
    source = sheet.with_suffix(".py")
    for place, (name, _, change, _) in enumerate(CELL_CORRUPTIONS, start=FIRST):
        notebook = copy.deepcopy(good)
        change(notebook.cells[place])
        gates[name] = static_gates(folder / "01_lie.ipynb", notebook, source)
        everything.cells[place] = notebook.cells[place]
    for place, change in enumerate(corruptions.HARMLESS.values(), FIRST + len(CELL_CORRUPTIONS)):
        change(everything.cells[place])
    nbformat.write(everything, folder / "01_corrupted.ipynb")

    paths = {}
    for number, (name, change, wanted) in enumerate(NOTEBOOK_CORRUPTIONS):
        notebook = copy.deepcopy(nbformat.read(small, 4))
        change(notebook)
        path = folder / f"01_whole_{number}.ipynb"
        gates[name] = static_gates(path, notebook, small.with_suffix(".py"))
        if "nbval" in wanted:  # a kernel for each of these
            paths[name] = path
    failed = run_nbval(folder / "01_corrupted.ipynb", sheet, small, moving, *paths.values())

    for place, corruption in enumerate(CELL_CORRUPTIONS, start=FIRST):
        if place - 1 in failed["01_corrupted"]:  # nbval counts code cells from 0
            gates[corruption.name].add("nbval")
    for name, path in paths.items():
        if failed[path.stem]:
            gates[name].add("nbval")
    gates["the good notebook"] = {str(cell) for cell in failed["01_sheet"] | failed["01_small"]}
    gates["a drawing that fails at a stop"] = {str(cell) for cell in failed["01_moving"]}
    harmless = {FIRST - 1 + len(CELL_CORRUPTIONS) + i for i in range(len(corruptions.HARMLESS))}
    gates["what a reader does not see"] = {str(i) for i in failed["01_corrupted"] & harmless}
    return gates


@pytest.mark.parametrize(
    ("name", "gates"),
    [(c.name, c.gates) for c in [*CELL_CORRUPTIONS, *NOTEBOOK_CORRUPTIONS]],
)
def test_every_corruption_is_caught(caught, name, gates) -> None:
    assert caught[name] >= gates, f"{name}: noticed by {sorted(caught[name])} only"


def test_the_good_notebook_passes(caught) -> None:
    assert caught["the good notebook"] == set()


def test_a_control_that_fails_at_a_stop_is_caught(caught) -> None:
    assert caught["a drawing that fails at a stop"] == {"controls"}


def test_what_a_reader_does_not_see_may_differ(caught) -> None:
    assert caught["what a reader does not see"] == set()


def test_nbval_alone_is_not_enough(folder, caught) -> None:
    """Without the plugin most corruptions of cells pass: that is what the plugin is for."""
    failed = run_nbval(
        folder / "01_corrupted.ipynb", flags=["--nbval-current-env", "-p", "tools._isolated"]
    )
    noticed = [c for place, c in enumerate(CELL_CORRUPTIONS, 1) if place in failed["01_corrupted"]]
    strict = [c for c in CELL_CORRUPTIONS if "nbval" in caught[c.name]]
    print(f"nbval alone: {len(noticed)}, with the plugin: {len(strict)} of {len(CELL_CORRUPTIONS)}")
    assert len(noticed) < len(strict)


def test_the_plugin_needs_nbval(small) -> None:
    command = [sys.executable, "-m", "pytest", "-p", "tools.strict_nbval", str(small)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert "needs --nbval" in done.stderr


@pytest.mark.parametrize("deaths", [0, 1, 2])
def test_a_kernel_that_dies_at_its_start_is_started_once_more(monkeypatch, deaths) -> None:
    started = []

    def start(**wanted):
        started.append(wanted)
        if len(started) <= deaths:
            raise RuntimeError("Kernel died before replying to kernel_info")
        return "manager", "client"

    monkeypatch.setattr(strict_nbval, "start_new_kernel", start)
    if deaths < 2:
        assert strict_nbval.start_patiently(cwd="here") == ("manager", "client")
    else:
        with pytest.raises(RuntimeError, match="Kernel died"):
            strict_nbval.start_patiently(cwd="here")
    assert started == [{"cwd": "here"}] * min(deaths + 1, 2)


def test_a_cell_that_is_not_tested_is_noticed(folder, small) -> None:
    """Selecting some cells is how a check could come to look at less than everything."""
    command = [sys.executable, "-m", "pytest", "--nbval", *STRICT, f"{small}::Cell 1"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "3 code cells, 1 are tested" in done.stdout + done.stderr


def test_make_test_checks_every_lesson_strictly() -> None:
    """The command of the Makefile collects as many tests as the lessons have code cells."""
    (line,) = re.findall(r"pytest (--nbval .*?notebooks)$", makefile_text(), re.M)
    command = [sys.executable, "-m", "pytest", *line.split(), "--collect-only", "-n", "0"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    paths = sorted((ROOT / "notebooks").glob("*.ipynb"))
    cells = [c for path in paths for c in nbformat.read(path, 4).cells if c.cell_type == "code"]
    assert "tools.strict_nbval" in line
    assert len(re.findall(r"^notebooks/.*::Cell \d+", done.stdout, re.M)) == len(cells) > 0


def makefile_text() -> str:
    return (ROOT / "Makefile").read_text().replace("\\\n", " ")
