"""The panel: attention as other people write it, which the clinic was not made for.

``load("seen")`` and ``load("unseen")`` return its two halves. The clinic may be mended with the
first in view; the second tells what that is worth, so nobody who works on the clinic reads it.
Which half a case belongs to is settled by its name, in turn among those of its family.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections import defaultdict
from collections.abc import Iterable
from hashlib import sha256
from typing import NamedTuple

from tests.clinic.panel import _case
from tests.clinic.panel._case import Case

HALVES = ("seen", "unseen")


class Half(NamedTuple):
    """The correct functions and layers of a half, its mask builders, and its wrong ones."""

    correct: list[Case]
    builders: list[Case]
    wrong: list[Case]


def load(half: str) -> Half:
    package = importlib.import_module(f"{__name__}.{half}")
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"{package.__name__}.{module.name}")

    def of_half(cases: list[Case]) -> list[Case]:
        return [case for case in cases if case.target.__module__.startswith(f"{package.__name__}.")]

    return Half(of_half(_case.CASES), of_half(_case.BUILDERS), of_half(_case.WRONG))


def right_halves(cases: Iterable[Case]) -> dict[str, str]:
    """Return to which half each name belongs; ``cases``: all of one sort."""
    families = defaultdict(list)
    for case in cases:
        families[case.family].append(case.name)
    return {
        name: HALVES[(_number(family) + place) % 2]
        for family, names in families.items()
        for place, name in enumerate(sorted(names, key=_number))
    }


def _number(text: str) -> int:
    return int(sha256(text.encode()).hexdigest(), 16)
