"""Where the repository of attnlab is, and what its host lets a reader do with a lesson."""

from __future__ import annotations

import re
import subprocess
from typing import NamedTuple
from urllib.parse import quote

from tools.build.sources import ROOT

# A remote of git: "https://user:token@host/path", "ssh://git@host/path" or "git@host:path".
REMOTE = re.compile(
    r"(?:(?:https?|ssh)://)?(?:[^@/\s]+@)?(?P<host>[\w-]+(?:\.[\w-]+)+)(?:/|:(?!\d+/))"
    r"(?P<path>[\w.~-]+(?:/[\w.~-]+)+)"
)


class Repository(NamedTuple):
    """A repository that others can reach, by its host and the path there."""

    host: str
    path: str

    @property
    def address(self) -> str:
        """Its page, which is also what git clones."""
        return f"https://{self.host}/{self.path}"

    @property
    def name(self) -> str:
        """The folder into which git clones it."""
        return self.path.rpartition("/")[2]

    @property
    def is_on_github(self) -> bool:
        """Whether Colab and Binder open its notebooks."""
        return self.host == "github.com"

    @property
    def pages(self) -> str:
        """Where GitHub publishes its web pages; empty if it lies elsewhere."""
        owner, _, name = self.path.partition("/")
        return f"https://{owner.lower()}.github.io/{name}" if self.is_on_github else ""

    def colab(self, stem: str) -> str:
        """Return where Colab opens a lesson."""
        place = f"{self.path}/blob/main/notebooks/{stem}.ipynb"
        return f"https://colab.research.google.com/github/{place}"

    def binder(self, stem: str) -> str:
        """Return where Binder opens a lesson."""
        place = quote(f"lab/tree/notebooks/{stem}.ipynb", safe="")
        return f"https://mybinder.org/v2/gh/{self.path}/main?urlpath={place}"


def repository_at(remote: str) -> Repository | None:
    """Return the repository that a remote of git names, without its user; None if it names none."""
    match = REMOTE.fullmatch(remote.strip().removesuffix("/").removesuffix(".git"))
    return Repository(match["host"].lower(), match["path"]) if match else None


def own_repository() -> Repository | None:
    """Return the repository from which this folder was cloned, if others can reach it."""
    command = ["git", "-C", ROOT, "remote", "get-url", "origin"]
    return repository_at(subprocess.run(command, capture_output=True, text=True).stdout)
