"""Write a change made in JupyterLab back into the source of the lesson.

    python -m tools.build.adopt my_notebooks/01_attention_is_a_soft_look_up.ipynb
    python -m tools.build.adopt 01          the copy in my_notebooks/

Only texts, code, tags and folded inputs are taken over, and folded solutions become code again.
`make notebooks` makes the outputs anew.
"""

from __future__ import annotations

import sys
from pathlib import Path

import nbformat

from tools.build.sources import ROOT, SOURCES, find_notebooks, select, write_source


def adopt(notebook: Path, sources: Path = SOURCES) -> Path:
    """Write the cells of ``notebook`` as the source of the same name; return its path."""
    target = sources / f"{notebook.stem}.py"
    text = write_source(nbformat.read(notebook, as_version=4))
    target.write_text(text, encoding="utf-8")
    return target


def main() -> None:
    """Adopt the notebook that the command line names."""
    if len(sys.argv) != 2 or not sys.argv[1]:
        sys.exit("Name one notebook, for example: make adopt NB=my_notebooks/00_start_here.ipynb")
    path = Path(sys.argv[1])
    if not path.is_file():
        (path,) = select(find_notebooks(ROOT / "my_notebooks"), [sys.argv[1]])
    if not (SOURCES / f"{path.stem}.py").is_file():
        sys.exit(
            f"{path.name} is not a lesson, because there is no notebooks/source/{path.stem}.py."
        )
    print(f"{adopt(path).relative_to(ROOT)} now holds the cells of {path}. Next: make notebooks")


if __name__ == "__main__":
    main()
