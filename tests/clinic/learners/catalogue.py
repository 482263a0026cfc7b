"""Modules as learners write them, broken and right: those of all themes."""

from tests.clinic.learners import (
    heads,
    libraries,
    manners,
    masked,
    mixed,
    modes,
    published,
    scores,
    textbooks,
    variants,
)
from tests.clinic.learners.base import BROKEN, RIGHT

__all__ = ["BROKEN", "RIGHT", "THEMES"]

THEMES = (
    heads,
    libraries,
    manners,
    masked,
    mixed,
    modes,
    published,
    scores,
    textbooks,
    variants,
)
