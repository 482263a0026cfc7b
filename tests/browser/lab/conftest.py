"""A JupyterLab that serves a copy of a lesson as `make lab` does, and a page of it."""

import shutil

import nbformat
import pytest

from tests.browser.lab.jupyterlab import NotebookPage, serve
from tools.lab import __main__ as lab

LESSON = lab.find_lessons(lab.LESSONS)[0]


@pytest.fixture(scope="session")
def home(tmp_path_factory):
    """Where the server has its settings."""
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="session")
def server(browser, home, tmp_path_factory):
    """JupyterLab on a trusted copy of the first lesson."""
    root = tmp_path_factory.mktemp("root")
    lab.trust(lab.copy_new([LESSON], root / lab.COPIES.name), home)
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
    if look.is_open:
        look.put_away()
    look.context.close()


@pytest.fixture(scope="session")
def write_notebook(server):
    """Write a notebook of these cells, code as plain text, where the server finds it."""

    def write(name, *cells):
        notebook = nbformat.v4.new_notebook(
            cells=[
                nbformat.v4.new_code_cell(cell.strip()) if isinstance(cell, str) else cell
                for cell in cells
            ],
            metadata={"kernelspec": {"name": "python3", "display_name": "Python 3"}},
        )
        nbformat.write(notebook, server.root / name)
        return name

    return write
