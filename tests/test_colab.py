"""The copies for Google Colab, and their first cell on a machine that is like Colab's."""

import copy
import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

from tools import colab
from tools.notebooks import find_notebooks, read_notebook, tags

ADDRESS = "https://example.org/attnlab-0.1.0-py3-none-any.whl"
LESSONS = {path.name: read_notebook(path) for path in find_notebooks()}


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


@pytest.fixture(scope="module")
def copies():
    return {name: colab.colab_copy(lesson, ADDRESS) for name, lesson in LESSONS.items()}


def test_on_a_machine_like_colabs_the_first_cell_installs_attnlab_and_what_is_missing(tmp_path):
    wheel = colab.build_wheel(tmp_path)
    stub(tmp_path, "anywidget")
    python = host(tmp_path / "host", "attnlab", "anywidget")
    cells = colab.colab_copy(LESSONS["00_start_here.ipynb"], wheel.as_uri()).cells
    said = "import attnlab; print(attnlab.__file__, attnlab.load_table('he_is_awesome.csv').tokens)"
    (listing,) = [cell.source for cell in cells if cell.id == "missing"]
    script = tmp_path / "cells.ipy"
    script.write_text("\n".join([cells[0].source, said, listing]), encoding="utf-8")
    run = subprocess.run(
        [python, "-m", "IPython", "--no-banner", script],
        cwd=tmp_path,
        env={**os.environ, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    *_, package, missing = run.stdout.splitlines()
    assert package.startswith(str(tmp_path / "host"))
    assert package.endswith("['He', 'is', 'awesome']")
    assert missing == "missing: nothing"
    places = (tmp_path / "host").glob("lib/python*/site-packages/*.dist-info")
    assert {path.name.split("-")[0] for path in places if not path.is_symlink()} == {
        *("attnlab", "anywidget")
    }


def test_the_copies_are_the_lessons_after_a_first_cell(copies):
    before = copy.deepcopy(LESSONS)
    for name, lesson in LESSONS.items():
        count = len(lesson.cells)
        first, others = copies[name].cells[:-count], copies[name].cells[-count:]
        assert [f"--no-deps {ADDRESS}" in cell.source for cell in first] == (
            [] if "glossary" in name else [True]
        )
        assert [cell.id for cell in others] == [cell.id for cell in lesson.cells]
        assert [cell.get("outputs") for cell in others] == [c.get("outputs") for c in lesson.cells]
        changed = [c.id for c, d in zip(others, lesson.cells, strict=True) if c.source != d.source]
        assert len(changed) == (2 if name.startswith("00") else 0)
    assert before == LESSONS


def test_no_copy_speaks_of_make(copies):
    cells = [cell.source for page in copies.values() for cell in page.cells]
    assert [text for text in cells if "`make lab`" in text or "my_notebooks" in text] == []


def test_solutions_are_folded_as_colab_folds(copies):
    cells = [cell for page in copies.values() for cell in page.cells if "solution" in tags(cell)]
    assert len(cells) > 20
    assert {cell.metadata.get("cellView") for cell in cells} == {"form"}


def test_the_command_says_what_to_upload(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(colab, "write_copies", lambda *_: ["one", "two"])
    monkeypatch.setattr(colab, "build_wheel", lambda folder: tmp_path / "attnlab-1.whl")
    monkeypatch.setattr(sys, "argv", ["colab", ADDRESS])
    colab.main()
    assert capsys.readouterr().out == (
        "colab/ now contains 2 notebooks and the wheel. "
        f"Upload attnlab-1.whl so that it can be loaded from {ADDRESS}.\n"
    )


@pytest.mark.parametrize(
    "address", ["", "attnlab.whl", "https://example.org/", "https://a b/attnlab-1-py3-none-any.whl"]
)
def test_an_address_that_is_none_is_refused(address, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["colab", address])
    said = r"Give the full address .* make colab URL=https://.*\.whl"
    with pytest.raises(SystemExit, match=said):
        colab.main()
