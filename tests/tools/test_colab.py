"""The copies for Google Colab, and their first cell on a machine that is like Colab's."""

import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

from tools.build.sources import find_notebooks, read_notebook
from tools.publish import colab

ADDRESS = "https://example.org/attnlab-0.1.0-py3-none-any.whl"
LESSONS = {path.name: path for path in find_notebooks()}


def host(folder: Path, *lacking: str) -> Path:
    """Make an environment with all packages of this one but some; return its Python."""
    venv.create(folder, symlinks=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    for path in Path(sysconfig.get_path("purelib")).iterdir():
        if not path.name.removeprefix("_").startswith(lacking):
            (packages / path.name).symlink_to(path)
    return folder / "bin" / "python"


def stub(folder: Path, name: str) -> None:
    """Write a wheel that holds nothing but a module without code."""
    info = f"{name}-1.0.dist-info"
    texts = {
        f"{name}.py": "",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    texts[f"{info}/RECORD"] = "".join(f"{path},,\n" for path in [*texts, f"{info}/RECORD"])
    with zipfile.ZipFile(folder / f"{name}-1.0-py3-none-any.whl", "w") as file:
        for path, text in texts.items():
            file.writestr(path, text)


def test_on_a_machine_like_colabs_the_first_cell_installs_attnlab_and_what_is_missing(tmp_path):
    wheel = colab.build_wheel(tmp_path)
    stub(tmp_path, "anywidget")
    python = host(tmp_path / "host", "attnlab", "anywidget")
    cells = colab.colab_copy(LESSONS["00_start_here.ipynb"], wheel.as_uri()).cells
    said = "import attnlab; print(attnlab.__file__, attnlab.load_table('he_is_awesome.csv').tokens)"
    (listing,) = [cell.source for cell in cells if cell.id == "missing"]
    script = tmp_path / "cells.ipy"
    script.write_text("\n".join([cells[0].source, said, listing]), encoding="utf-8")
    settings = {name: text for name, text in os.environ.items() if name != "PYTHONPATH"}
    run = subprocess.run(
        [python, "-m", "IPython", "--no-banner", script],
        cwd=tmp_path,
        env={**settings, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    *_, package, missing = run.stdout.splitlines()
    assert package.startswith(str(tmp_path / "host"))
    assert package.endswith("['He', 'is', 'awesome']")
    assert missing == "missing: nothing"
    places = (tmp_path / "host").glob("lib/python*/site-packages/*.dist-info")
    installed = {path.name.split("-")[0] for path in places if not path.is_symlink()}
    assert installed == {"attnlab", "anywidget"}


@pytest.mark.parametrize("name", LESSONS)
def test_a_copy_is_its_lesson_after_a_first_cell_and_does_not_speak_of_make(name):
    lesson = read_notebook(LESSONS[name]).cells
    cells = colab.colab_copy(LESSONS[name], ADDRESS).cells
    first, others = cells[: -len(lesson)], cells[-len(lesson) :]
    assert [f"--no-deps {ADDRESS}" in cell.source for cell in first] == [True] * (
        "glossary" not in name
    )
    changed = 0
    for cell, given in zip(others, lesson, strict=True):
        assert (cell.id, cell.get("outputs")) == (given.id, given.get("outputs"))
        assert "`make lab`" not in cell.source
        assert "my_notebooks" not in cell.source
        changed += cell.source != given.source
    assert changed == (2 if name.startswith("00") else 0)


@pytest.mark.parametrize("address", ["", "attnlab", "file:///tmp", "https://a b/attnlab"])
def test_an_address_that_is_none_is_refused(address, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["colab", address])
    monkeypatch.setattr(colab, "own_repository", lambda: None)
    with pytest.raises(SystemExit, match=r"Give the address .* make colab URL=https://"):
        colab.main()
