"""The web pages of all lessons."""

import pytest

from tools import site
from tools._site_api import write_api
from tools.notebooks import find_notebooks


@pytest.fixture(scope="session")
def site_folder(tmp_path_factory):
    """The web pages of all lessons: written once."""
    folder = tmp_path_factory.mktemp("site")
    site.write_site(folder, [*find_notebooks(), write_api(tmp_path_factory.mktemp("api"))])
    return folder
