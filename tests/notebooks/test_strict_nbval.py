"""The gates notice every way in which a notebook can be wrong, and pass one that is correct.

The gates are nbval with tools.strict_nbval, the lint, and the comparison with the source.
"""

from __future__ import annotations

import copy
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from nbval.plugin import IPyNbFile

from attnlab.explorers import _page
from tests.notebooks.corruptions import (
    CELLS,
    HARMLESS,
    METADATA,
    OF_A_CELL,
    OF_A_NOTEBOOK,
    OF_A_PROOF,
    PROVEN,
    SETUP,
    Corruption,
)
from tests.notebooks.test_build import content
from tools.build_notebooks import build
from tools.lint import lint
from tools.notebooks import ROOT, find_notebooks, read_source, write_source
from tools.strict_nbval import Notebook, without_library

QUIET = ["-rfE", "--tb=no", "--continue-on-collection-errors"]
QUIET += ["-p", "no:cacheprovider", "-p", "no:xdist"]
ONCE = 'if "b" not in globals():\n    b = 3\n    raise ValueError("once")'  # not when run again
SMALL = [("a = 6", {}), ("print(a)", {}), ("a", {}), (ONCE, METADATA["error"])]
FIRST = 2  # the corrupted cells come after a title and the set-up


def make_source(folder: Path, name: str, codes: list[tuple[str, dict]]) -> Path:
    cells = [new_markdown_cell("# 1 · A good notebook")]
    cells += [new_code_cell(code, metadata=metadata) for code, metadata in codes]
    path = folder / f"{name}.py"
    path.write_text(write_source(new_notebook(cells=cells)), encoding="utf-8")
    return path


def without_pytest() -> dict[str, str]:
    """Return the variables of this process without those of its pytest."""
    return {k: v for k, v in os.environ.items() if not k.startswith("PYTEST")}


def pytest_on(*arguments: str | Path) -> subprocess.CompletedProcess:
    """Run pytest with the plugin."""
    command = [sys.executable, "-m", "pytest", "-p", "tools.strict_nbval", "--color=no", "-q"]
    return subprocess.run(
        [*command, *QUIET, *arguments],
        cwd=ROOT,
        env=without_pytest(),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def failed_cells(*paths: Path) -> dict[str, set[int | str]]:
    """Return which code cells or other tests failed, by the name of the notebook.

    A notebook whose tests could not be collected has "" among them.
    """
    done = pytest_on(*paths)
    assert re.search(r"\d+ (passed|failed)", done.stdout), done.stdout + done.stderr
    summary = r"^(?:FAILED|ERROR) \S*?(\w+)\.ipynb(?:::(?:Cell )?(\w+))?"
    failed: dict[str, set[int | str]] = {path.stem: set() for path in paths}
    for name, cell in re.findall(summary, done.stdout, re.M):
        failed[name].add(int(cell) if cell.isdecimal() else cell)
    return failed


class Good:
    """A notebook without a fault, and what the gates that execute nothing say of others."""

    def __init__(self, source: Path) -> None:
        self.path = build(source, source.parent)
        self.source = read_source(source)
        self.found = {finding.text for finding in lint(self.path)}

    @property
    def notebook(self) -> NotebookNode:
        return nbformat.read(self.path, 4)

    def static_gates(self, notebook: NotebookNode, path: Path) -> set[str]:
        """Store a changed notebook; return which of the two gates object to it."""
        path.write_text(json.dumps(notebook))  # as it is: nbformat.write would repair cell ids
        new = {finding.text for finding in lint(path)} - self.found
        differs = content(self.source) != content(notebook)
        return {gate for gate, objects in (("lint", new), ("source", differs)) if objects}


@pytest.fixture(scope="module")
def caught(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """Which gates noticed which corruption; one run of nbval judges all that need a kernel."""
    folder = tmp_path_factory.mktemp("notebooks")
    codes = [(SETUP, {})] + [(CELLS[c.cell], METADATA.get(c.cell, {})) for c in OF_A_CELL]
    codes += [(CELLS[name], {}) for name in HARMLESS]
    codes += [(code, METADATA.get(name, {})) for name, code in CELLS.items()]  # and all unchanged
    sheet = Good(make_source(folder, "01_sheet", codes))
    small = Good(make_source(folder, "01_small", SMALL))
    gates: dict[str, set[str]] = {}

    corrupted = sheet.notebook
    for place, corruption in enumerate(OF_A_CELL, start=FIRST):
        notebook = sheet.notebook
        corruption.change(notebook.cells[place])
        corrupted.cells[place] = copy.deepcopy(notebook.cells[place])
        gates[corruption.name] = sheet.static_gates(notebook, folder / "01_changed.ipynb")
    for place, change in enumerate(HARMLESS.values(), start=FIRST + len(OF_A_CELL)):
        change(corrupted.cells[place])
    nbformat.write(corrupted, folder / "01_corrupted.ipynb")

    paths = {}
    for number, corruption in enumerate(OF_A_NOTEBOOK):
        notebook, path = small.notebook, folder / f"01_whole_{number}.ipynb"
        corruption.change(notebook)
        gates[corruption.name] = small.static_gates(notebook, path)
        if "nbval" in corruption.gates:  # a kernel for each of these
            paths[corruption.name] = path

    moving = write_moving(folder)
    good = [folder / "01_corrupted.ipynb", small.path]
    failed = failed_cells(*good, moving, write_changing(folder), *paths.values())
    for number, corruption in enumerate(OF_A_CELL, start=1):  # nbval counts code cells from 0
        if number in failed["01_corrupted"]:
            gates[corruption.name].add("nbval")
    for name, path in paths.items():
        if failed[path.stem]:
            gates[name].add("nbval")
    gates["a control"], gates["again"] = failed["01_moving"], failed["01_again"]
    cells = failed["01_corrupted"] - {"again"}  # where the corrupted ones fail once more
    gates["nothing"] = {number for number in cells if number > len(OF_A_CELL)}
    gates["nothing"] |= failed["01_small"]
    return gates


def write_changing(folder: Path) -> Path:
    """Write a notebook with a cell that gives something else when it runs once more."""
    shown = new_output("execute_result", data={"text/plain": "[3, 5]"}, execution_count=2)
    cells = [
        new_code_cell("a = [3]", execution_count=1),
        new_code_cell("a.append(5)\na", execution_count=2, outputs=[shown]),
    ]
    nbformat.write(new_notebook(cells=cells), folder / "01_again.ipynb")
    return folder / "01_again.ipynb"


@pytest.fixture(scope="module")
def caught_proofs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """Which gates noticed which corruption of the proofs, and of nothing."""
    folder = tmp_path_factory.mktemp("notebooks")
    (folder / "proofs").mkdir()
    source = folder / "01_proven.py"
    source.write_text(PROVEN, encoding="utf-8")
    built = build(source, folder).read_bytes()
    paths = {name: folder / f"01_proof_{n}.ipynb" for n, (name, *_) in enumerate(OF_A_PROOF)}
    for (_, _, proofs), path in zip(OF_A_PROOF, paths.values(), strict=True):
        path.write_bytes(built)
        (folder / "proofs" / f"{path.stem}.py").write_text(proofs, encoding="utf-8")
    failed = failed_cells(*paths.values())
    gates: dict[str, set[str]] = {}
    for name, path in paths.items():
        found = {finding.rule for finding in lint(path)} & {"proofs", "prose_numbers"}
        gates[name] = {gate for gate, it in (("lint", found), ("nbval", failed[path.stem])) if it}
    return gates


def write_moving(folder: Path) -> Path:
    """Write a notebook with a slider whose last stop cannot be drawn."""
    draw = "def draw(fig, d_k):\n    fig.text(0, 0, str(1 / d_k))"
    codes = ["from attnlab.live import live", draw, "figure = live(draw, d_k=[1, 2, 0])"]
    cells = [new_code_cell(code, execution_count=n) for n, code in enumerate(codes, 1)]
    nbformat.write(new_notebook(cells=cells), folder / "01_moving.ipynb")  # no cell shows anything
    return folder / "01_moving.ipynb"


@pytest.mark.parametrize("corruption", [*OF_A_CELL, *OF_A_NOTEBOOK], ids=lambda one: one.name)
def test_every_corruption_is_caught(caught, corruption: Corruption) -> None:
    assert caught[corruption.name] >= corruption.gates


@pytest.mark.parametrize(("name", "gates", "_"), OF_A_PROOF)
def test_every_corruption_of_a_proof_is_caught(caught_proofs, name, gates, _) -> None:
    assert caught_proofs[name] == set(gates.split())


def test_a_cell_that_changes_when_it_runs_again_is_caught(caught) -> None:
    assert caught["again"] == {"again"}


def test_what_a_reader_sees_unchanged_passes(caught) -> None:
    assert caught["nothing"] == set()


def test_a_control_that_fails_at_a_stop_is_caught(caught) -> None:
    assert caught["a control"] == {"controls"}


def test_scripts_that_only_the_first_explorer_carries_are_not_compared() -> None:
    rest = 'globalThis.attnlabModules?.["page-1"]?.wake(attnlabModules);\n}</script>'
    pages = ["<p>3</p><script>{\n" + part + rest for part in (_page.library(()) + "\n", "")]
    outputs = [[new_output("display_data", data={"text/html": page})] for page in pages]
    assert _page.wake().startswith(rest[:30])
    assert without_library(outputs[0]) == without_library(outputs[1]) == outputs[1]


def test_a_kernel_that_dies_at_its_start_is_started_once_more(monkeypatch) -> None:
    started = []

    def start(self) -> None:
        started.append(os.environ["ATTNLAB_STATIC"])
        raise RuntimeError("Kernel died before replying to kernel_info")

    monkeypatch.setattr(IPyNbFile, "setup", start)
    with pytest.raises(RuntimeError, match="Kernel died"):
        Notebook.__new__(Notebook).setup()
    assert started == ["1", "1"]


def test_nbval_does_not_run_the_notebooks_a_second_time() -> None:
    done = pytest_on("--nbval", "notebooks")
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert "only one of the two" in done.stderr


def test_nbval_alone_passes_on_another_processor() -> None:
    """What people type who know nbval; notebooks/nbval.cfg says what it leaves out."""
    lessons = [path for path in find_notebooks() if path.stem.startswith(("01", "03"))]
    command = [sys.executable, "-m", "pytest", "--nbval", "--nbval-current-env", "-q", *lessons]
    other = {"ATEN_CPU_CAPABILITY": "default"}  # torch without the newest instructions
    for _ in range(2):  # a kernel dies at its start if another process has taken its ports
        done = subprocess.run(command, cwd=ROOT, env=without_pytest() | other, capture_output=True)
        if b"Kernel died before replying" not in done.stdout:
            break
    assert done.returncode == 0, done.stdout.decode()


def test_make_test_runs_every_lesson_with_the_plugin() -> None:
    made = subprocess.run(["make", "-n", "test"], cwd=ROOT, capture_output=True, text=True)
    (command,) = re.findall(r"pytest (.*\\\n.*\\\n.*)", made.stdout)
    assert "-p tools.strict_nbval" in command
    assert "notebooks/*.ipynb" in command
