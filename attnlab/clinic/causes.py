"""Every cause that the clinic can name: what usually mends it and which lesson explains it."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import NamedTuple

_TABLES = tomllib.loads(Path(__file__).with_name("causes.toml").read_text(encoding="utf-8"))


class Cause(NamedTuple):
    """A cause by its fix and the file name of its lesson, without its ending."""

    fix: str
    lesson: str


CAUSES = {
    name: Cause(fix, lesson)
    for lesson, fixes in _TABLES["fixes"].items()
    for names, fix in fixes.items()
    for name in names.split()
}
# What each cause explains, if it was found as well; "*" for everything.
EXPLAINS = {name: tuple(others.split()) for name, others in _TABLES["explains"].items()}
# Where one of these was found, the property of this key does not hold.
UNDONE_BY = {key: names.split() for key, names in _TABLES["undone_by"].items()}
