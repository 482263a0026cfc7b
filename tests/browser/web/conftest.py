"""The web pages of all lessons."""

import pytest

from tools import site
from tools._site_api import write_api
from tools.notebooks import find_notebooks


@pytest.fixture(scope="session")
def site_folder(tmp_path_factory):
    """The web pages of all lessons, of the package and of teachers: written once."""
    folder, pages = tmp_path_factory.mktemp("site"), tmp_path_factory.mktemp("pages")
    lessons = find_notebooks()
    site.write_site(folder, [*lessons, site.write_page(pages, lessons), write_api(pages)])
    return folder
