"""Write copies of the lessons that install what they need in Google Colab: `make colab`.

Colab has torch and most other packages already, in versions of its own. The first cell of each copy
installs attnlab without touching them, and then those packages of which Colab has none. The wheel
is written beside the copies. The address at which it will lie is that of this repository's pages,
or the one that is given: `make colab URL=https://example.org/attnlab`.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import nbformat
from nbformat import NotebookNode
from packaging.requirements import Requirement

from tools.build.sources import ROOT, find_notebooks, write_copies
from tools.publish.editions import edition
from tools.publish.repository import own_repository

COPIES = ROOT / "colab"
ADDRESS = re.compile(r"https?://[\w.~:/@%+=-]+")
FIRST_CELL = """\
# Run this cell first, each time you open this notebook. It installs attnlab and missing packages.
from importlib.metadata import distributions

here = {{str(package.name).lower() for package in distributions()}}
needed = "{needed}"
missing = " ".join(name for name in needed.split() if name not in here)
if missing:
    %pip install --quiet {{missing}}
if "attnlab" not in here:
    %pip install --quiet --no-deps {address}"""


def colab_copy(path: Path, address: str) -> NotebookNode:
    """Return a new notebook that installs what its code needs and does not speak of `make`."""
    copy = edition(path, "colab")
    if any(cell.cell_type == "code" for cell in copy.cells):
        copy.cells.insert(0, nbformat.v4.new_code_cell(first_cell(address), id="install-attnlab"))
    return copy


def first_cell(address: str) -> str:
    """Return the code that installs attnlab from an address, and missing packages, in Colab."""
    return FIRST_CELL.format(address=address, needed=" ".join(requirements()))


def requirements() -> list[str]:
    """Return what the package and its lessons need, except JupyterLab, which Colab replaces."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lines = [*project["dependencies"], *project["optional-dependencies"]["lessons"]]
    return [name for name in (Requirement(line).name for line in lines) if name != "jupyterlab"]


def build_wheel(folder: Path) -> Path:
    """Build the wheel of attnlab into a folder; return its path."""
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*command, f"--wheel-dir={folder}", str(ROOT)], check=True)
    return max(folder.glob("attnlab-*.whl"), key=lambda path: path.stat().st_mtime)


def published_address() -> str:
    """Return where the pages of this repository on GitHub hold the wheel; empty if elsewhere."""
    repository = own_repository()
    return f"{repository.pages}/colab" if repository and repository.pages else ""


def main() -> None:
    """Write the wheel and the copies, or say what address is missing."""
    address = (sys.argv[1] if len(sys.argv) == 2 else "") or published_address()
    if not ADDRESS.fullmatch(address):
        sys.exit(
            "Give the address of the folder in which you will put the wheel, for example: "
            "make colab URL=https://example.org/attnlab"
        )
    COPIES.mkdir(exist_ok=True)
    wheel = build_wheel(COPIES)
    target = f"{address.rstrip('/')}/{wheel.name}"
    copies = write_copies(find_notebooks(), COPIES, lambda path: colab_copy(path, target))
    print(
        f"{COPIES.name}/ now contains {len(copies)} notebooks and the wheel. "
        f"Upload {wheel.name} so that it can be loaded from {target}."
    )


if __name__ == "__main__":
    main()
