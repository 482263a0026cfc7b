"""Modules as learners write them, broken and right: those of all themes."""

from tests.clinic.learners import (  # noqa: F401 - importing a theme fills the lists
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

__all__ = ["BROKEN", "RIGHT"]
