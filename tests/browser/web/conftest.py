"""The web pages of all lessons."""

import pytest

from tools.build.sources import find_notebooks
from tools.publish.site.api import write_api
from tools.publish.site.pages import write_page, write_site


@pytest.fixture(scope="session")
def site_folder(tmp_path_factory):
    """The web pages of all lessons, of the package and of teachers: written once."""
    folder, pages = tmp_path_factory.mktemp("site"), tmp_path_factory.mktemp("pages")
    lessons = find_notebooks()
    write_site(folder, [*lessons, write_page(pages, lessons), write_api(pages)])
    return folder
