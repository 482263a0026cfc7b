"""A JupyterLab that serves copies of the lessons as `make lab` does, and a page of it."""

import shutil

import nbformat
import pytest

from tools import lab
from tools._browser import NotebookPage, serve


@pytest.fixture(scope="session")
def server(browser, tmp_path_factory):
    """JupyterLab on trusted copies of the lessons."""
    root, home = tmp_path_factory.mktemp("root"), tmp_path_factory.mktemp("home")
    lab.trust(lab.copy_new(lab.find_lessons(lab.LESSONS), root / lab.COPIES.name), home)
    if (lab.ROOT / "figures").is_dir():
        shutil.copytree(lab.ROOT / "figures", root / "figures")
    with serve(root, home) as server:
        yield server


@pytest.fixture(scope="session")
def open_page(browser, server):
    """Open a notebook of the server in one page; one kernel serves them, one after the other."""
    look = NotebookPage(browser, server)

    def open_notebook(path):
        look.open(path)
        return look

    yield open_notebook
    look.close()


@pytest.fixture(scope="session")
def write_notebook(server):
    """Write a notebook of cells, or sources, where the server finds it; return its path."""

    def write(name, *cells):
        new = nbformat.v4.new_code_cell
        notebook = nbformat.v4.new_notebook(
            cells=[new(cell.strip()) if isinstance(cell, str) else cell for cell in cells],
            metadata={"kernelspec": {"name": "python3", "display_name": "Python 3"}},
        )
        nbformat.write(notebook, server.root / name)
        return name

    return write
