"""Move every control of every live figure of a notebook: what nbval cannot see.

``python -m tools.sweep_controls`` sweeps all lessons, ``... 01`` that one.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Iterable
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from attnlab.live import Live
from tools.build_notebooks import execute
from tools.notebooks import ROOT, find_notebooks, select

# Added to the notebook as a last cell, so that it runs in the notebook's own kernel.
LAST_CELL = f"""import sys
sys.path.insert(0, {str(ROOT)!r})
from attnlab.live import instances
from tools.sweep_controls import sweep_figures
print(len(instances()), "live figures,", sweep_figures(instances()), "steps")"""


def sweep_figures(figures: Iterable[Live]) -> int:
    """Move every control through all its stops and back; return the number of steps.

    Raises
    ------
    AssertionError
        If ``draw`` fails at a stop, a control changes nothing, or going back to the start does
        not bring back the first picture.
    """
    steps = 0
    for figure in figures:
        start = figure.image.value
        for name, control in figure.controls.items():
            home, seen = control.value, set()
            for _, stop in control._options_full:
                control.value = stop
                steps += 1
                assert figure.last_error is None, f"{figure!r}: {figure.last_error!r}"
                seen.add(figure.image.value)
            control.value = home
            assert len(seen) > 1, f"{figure!r}: {name} never changes the picture"
            assert figure.image.value == start, f"{figure!r}: {name} back at {home} looks different"
    return steps


def sweep(notebook: NotebookNode, folder: Path) -> str:
    """Run a notebook live and move its controls; return how many figures and steps there were.

    Raises
    ------
    CellExecutionError
        If a cell of the notebook or the sweep fails.
    """
    notebook = copy.deepcopy(notebook)
    notebook.cells.append(nbformat.v4.new_code_cell(LAST_CELL))
    execute(notebook, folder, static=False)
    return "".join(output.text for output in notebook.cells[-1].outputs).strip()


def main() -> None:
    """Sweep the notebooks that the command line names."""
    for path in select(find_notebooks(), sys.argv[1:]):
        print(path.name, sweep(nbformat.read(path, as_version=4), path.parent), flush=True)


if __name__ == "__main__":
    main()
