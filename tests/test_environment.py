"""environment.yml (exact versions) and pyproject.toml (ranges) say the same."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import nbformat
import pytest
import yaml
from nbformat.sign import NotebookNotary
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from tools.bench.__main__ import REPORT
from tools.notebooks import find_notebooks

ROOT = Path(__file__).resolve().parent.parent
PINS = (ROOT / "environment.yml").read_text()
RANGES = (ROOT / "pyproject.toml").read_text()


def complaints(pins_text, ranges_text):
    """Return what does not fit between the two files, as sentences."""
    environment = yaml.safe_load(pins_text)["dependencies"]
    project = tomllib.loads(ranges_text)["project"]
    *conda, pip = environment
    return [
        *check_conda(conda, project["requires-python"]),
        *check_install(pip["pip"][-1], project["optional-dependencies"]),
        *check_pins(pip["pip"][:-1], all_requirements(project)),
    ]


def all_requirements(project):
    extras = project["optional-dependencies"].values()
    lines = [*project["dependencies"], *(line for extra in extras for line in extra)]
    return {canonicalize_name(Requirement(line).name): Requirement(line) for line in lines}


def check_conda(lines, requires_python):
    names = [re.split("[=<>]", str(line))[0] for line in lines]
    if names != ["python", "pip"]:
        yield f"beside the pip section there must be python and pip alone, not {names}"
        return
    version = lines[0].partition("=")[2].lstrip("=")
    if version not in SpecifierSet(requires_python):
        yield f"python {version} is outside requires-python {requires_python}"


def check_install(line, extras):
    if line != f"-e .[{','.join(extras)}]":
        yield f"the last line must install the project with every extra, not {line!r}"


def check_pins(lines, requirements):
    pins = {}
    for line in lines:
        name, exact, version = line.partition("==")
        if not exact:
            yield f"{line} is not an exact version"
        pins[canonicalize_name(re.split("[=<>~!]", name)[0])] = version
    for name in requirements.keys() - pins.keys():
        yield f"{name} has no exact version"
    for name in pins.keys() - requirements.keys():
        yield f"{name} is in environment.yml alone"
    for name in pins.keys() & requirements.keys():
        if pins[name] and pins[name] not in requirements[name].specifier:
            yield f"{name} {pins[name]} is outside {requirements[name].specifier}"


def test_the_two_files_agree():
    assert complaints(PINS, RANGES) == []


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("torch==2.13.0", "torch==2.12.1", "torch 2.12.1 is outside"),
        ("numpy==2.4.6", "numpy>=2.4", "numpy>=2.4 is not an exact version"),
        ("      - seaborn==0.13.2\n", "", "seaborn has no exact version"),
        ("      - ruff==0.17.5\n", "", "ruff has no exact version"),
        ("      - -e .", "      - rich==14.0.0\n      - -e .", "rich is in environment.yml alone"),
        ("  - pip\n", "  - pip\n  - nodejs\n", "must be python and pip alone"),
        ("python=3.11", "python=3.10", "python 3.10 is outside requires-python"),
        ("-e .[lessons,dev]", "-e .[dev]", "must install the project with every extra"),
    ],
)
def test_a_wrong_environment_is_noticed(old, new, complaint):
    assert old in PINS
    assert any(complaint in found for found in complaints(PINS.replace(old, new), RANGES))


def test_a_new_dependency_is_noticed():
    grown = RANGES.replace('"torch>=', '"scipy>=1.17",\n    "torch>=')
    assert complaints(PINS, grown) == ["scipy has no exact version"]


def test_the_package_alone_needs_three_packages():
    project = tomllib.loads(RANGES)["project"]
    assert {Requirement(line).name for line in project["dependencies"]} == {
        *("torch", "matplotlib", "numpy")
    }


def test_make_gives_pip_the_same_lines_as_conda():
    makefile = (ROOT / "Makefile").read_text()
    script = re.search(r"sed -n '(.*pip:.*)' environment\.yml", makefile).group(1)
    command = ["sed", "-n", script.replace("$$", "$"), "environment.yml"]
    made = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    *_, pip = yaml.safe_load(PINS)["dependencies"]
    assert made.stdout.splitlines() == pip["pip"]


def test_binder_trusts_the_lessons(tmp_path):
    """As in a container of Binder, where Jupyter is on the path and keeps its data at home."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    variables = {**os.environ, "PATH": path, "JUPYTER_DATA_DIR": str(tmp_path)}
    subprocess.run([ROOT / "postBuild"], cwd=ROOT, env=variables, capture_output=True, check=True)
    notary = NotebookNotary(data_dir=str(tmp_path))
    lessons = [nbformat.read(path, as_version=4) for path in find_notebooks()]
    assert all(notary.check_signature(lesson) for lesson in lessons)
    lessons[0].cells.pop()
    assert not notary.check_signature(lessons[0])
    notary.store.close()


def test_git_and_ruff_leave_alone_what_make_writes():
    folders = {"colab", "site", "slides", "student"}
    ignored = set((ROOT / ".gitignore").read_text().splitlines())
    assert {REPORT.name, *(f"{folder}/" for folder in folders)} <= ignored
    assert folders <= set(tomllib.loads(RANGES)["tool"]["ruff"]["extend-exclude"])


@pytest.mark.parametrize(
    "name", ["pyproject.toml", "environment.yml", "Makefile", "postBuild", ".ci/run"]
)
def test_no_package_index_is_named(name):
    """The user decides where packages come from."""
    assert not re.search(r"https?://", (ROOT / name).read_text())
