"""environment.yml (exact versions) and pyproject.toml (ranges) say the same."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import nbformat
import yaml
from nbformat.sign import NotebookNotary
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tools.bench.__main__ import REPORT
from tools.build.sources import ROOT, find_notebooks

*CONDA, PIP = yaml.safe_load((ROOT / "environment.yml").read_text())["dependencies"]
*PINS, LAST = PIP["pip"]
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT = SETTINGS["project"]
EXTRAS = {name: lines for name, lines in PROJECT["optional-dependencies"].items() if name != "hub"}


def test_conda_gives_python_and_pip_alone_and_a_python_that_fits():
    assert [re.split("[=<>]", line)[0] for line in CONDA] == ["python", "pip"]
    python = Requirement(f"python{PROJECT['requires-python']}")
    assert CONDA[0].partition("=")[2] in python.specifier
    assert f"-e .[{','.join(EXTRAS)}]" == LAST


def test_every_requirement_has_an_exact_version_that_fits_and_nothing_else_has():
    extras = EXTRAS.values()
    lines = [*PROJECT["dependencies"], *(line for extra in extras for line in extra)]
    ranges = {canonicalize_name(one.name): one.specifier for one in map(Requirement, lines)}
    pins = {canonicalize_name(name): version for name, version in (p.split("==") for p in PINS)}
    assert pins.keys() == ranges.keys()
    assert [name for name, version in pins.items() if version not in ranges[name]] == []


def test_make_gives_pip_the_same_lines_as_conda():
    makefile = (ROOT / "Makefile").read_text()
    script = re.search(r"sed -n '(.*pip:.*)' environment\.yml", makefile).group(1)
    command = ["sed", "-n", script.replace("$$", "$"), "environment.yml"]
    made = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert made.stdout.splitlines() == PIP["pip"]


def test_binder_trusts_the_lessons(tmp_path):
    """As in a container of Binder, where Jupyter is on the path and keeps its data at home."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    variables = {**os.environ, "PATH": path, "JUPYTER_DATA_DIR": str(tmp_path)}
    subprocess.run([ROOT / "postBuild"], cwd=ROOT, env=variables, capture_output=True, check=True)
    notary = NotebookNotary(data_dir=str(tmp_path))
    for path in find_notebooks():
        assert notary.check_signature(nbformat.read(path, as_version=4))
    notary.store.close()


def test_git_and_ruff_leave_alone_what_make_writes():
    folders = {"colab", "site", "slides", "student"}
    ignored = set((ROOT / ".gitignore").read_text().splitlines())
    assert {REPORT.name, *(f"/{folder}/" for folder in folders)} <= ignored
    excluded = set(SETTINGS["tool"]["ruff"]["extend-exclude"])
    assert {f"./{folder}" for folder in folders} <= excluded  # but not tools/publish/site
