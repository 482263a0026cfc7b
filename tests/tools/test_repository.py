"""Where attnlab is, as its git remote says."""

import pytest

from tools.publish.repository import repository_at


@pytest.mark.parametrize(
    ("remote", "address", "pages"),
    [
        (
            "https://github.com/Ada/attnlab.git\n",
            "https://github.com/Ada/attnlab",
            "https://ada.github.io/attnlab",
        ),
        (
            "git@github.com:ada-l/attention.lab.git",
            "https://github.com/ada-l/attention.lab",
            "https://ada-l.github.io/attention.lab",
        ),
        ("https://ada:t0ken@github.com/a/b/", "https://github.com/a/b", "https://a.github.io/b"),
        ("ssh://git@example.org/group/ada/lab.git", "https://example.org/group/ada/lab", ""),
    ],
)
def test_a_remote_is_an_address_without_its_user(remote, address, pages):
    repository = repository_at(remote)
    assert (repository.address, repository.pages) == (address, pages)


@pytest.mark.parametrize(
    "remote",
    ["", "/work/attnlab", "../lab", "file:///tmp/a/b", "https://a.org:8443/b/c", 'a.org/">b'],
)
def test_what_others_cannot_reach_is_no_repository(remote):
    assert repository_at(remote) is None


def test_colab_and_binder_open_a_lesson():
    repository = repository_at("https://github.com/a/b")
    assert repository.colab("03_x").endswith("/github/a/b/blob/main/notebooks/03_x.ipynb")
    assert repository.binder("03_x").endswith(
        "/gh/a/b/main?urlpath=lab%2Ftree%2Fnotebooks%2F03_x.ipynb"
    )
