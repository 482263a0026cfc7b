"""A browser, and a JupyterLab that serves copies of the lessons as `make lab` does."""

import shutil

import nbformat
import pytest
from playwright.sync_api import sync_playwright

from attnlab.explorers import Explorer
from tests.browser.pages import FilePage
from tools import lab
from tools._browser import NotebookPage, launch, serve


@pytest.fixture(scope="session")
def browser():
    """One headless browser for all tests."""
    with sync_playwright() as playwright, launch(playwright) as browser:
        yield browser


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
    """Open a notebook of the server in one page; what was open there before is put away."""
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


@pytest.fixture(scope="module")
def open_cards(browser, tmp_path_factory):
    """Open explorers in a page without a kernel; return their cards."""
    looks = []

    def open_explorers(explorers):
        with pytest.MonkeyPatch.context() as patch:  # nobody sees the still pictures
            patch.setattr(Explorer, "_picture", lambda self: b"")
            pieces = "".join(explorer.to_html() for explorer in explorers)
        path = tmp_path_factory.mktemp("page") / "page.html"
        path.write_text(f"<!doctype html><meta charset='utf-8'>{pieces}", encoding="utf-8")
        looks.append(FilePage(browser))
        page = looks[-1].open(path)
        return [page.locator(".card").nth(i) for i in range(len(explorers))]

    yield open_explorers
    for look in looks:
        assert look.outside == []
        look.context.close()
