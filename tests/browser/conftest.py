"""A browser, and a tab in which tests open pages from files."""

import os
from pathlib import Path

import pytest
from playwright.sync_api import expect, sync_playwright

from tests.browser.pages import FilePage, pieces_of
from tools.lab.browser import LIMIT, NO_BROWSER, find_browser, launch

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items):
    """Mark the tests of this folder."""
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.browser)


@pytest.fixture(scope="session")
def browser():
    """One headless browser for all tests; without one each test is skipped, but fails in CI."""
    if find_browser() is None and os.environ.get("CI") != "true":
        pytest.skip(NO_BROWSER)
    expect.set_options(timeout=1000 * LIMIT)
    with sync_playwright() as playwright, launch(playwright) as browser:
        yield browser


@pytest.fixture(scope="session")
def only_tab(browser):
    """The tab in which the tests open their pages from files."""
    look = FilePage(browser)
    yield look
    look.context.close()


@pytest.fixture(scope="module")
def tab(only_tab):
    """The tab for pages from files, as new; a file of tests has one page at a time in it."""
    only_tab.start_anew()
    yield only_tab
    assert only_tab.outside == []


@pytest.fixture(scope="module")
def open_cards(tab, tmp_path_factory):
    """Open explorers in a page without a kernel; return their cards."""

    def open_explorers(explorers):
        page = tab.show(tmp_path_factory.mktemp("page"), *pieces_of(explorers))
        return [page.locator(".card").nth(i) for i in range(len(explorers))]

    return open_explorers
