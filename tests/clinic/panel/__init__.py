"""The panel: attention as other people write it, which the clinic was not made for.

``load("seen")`` and ``load("unseen")`` return its two halves. The clinic may be mended with the
first in view; the second tells what that is worth, so nobody who works on the clinic reads it.
"""

from __future__ import annotations

import importlib

from tests.clinic.panel import case

HALVES = ("seen", "unseen")


def load(half: str) -> list[case.Case]:
    """Return the cases of a half; those with a cause are wrong by hand."""
    names = [f"{__name__}.{half}_{what}" for what in ("functions", "layers")]
    for name in names:
        importlib.import_module(name)
    return [one for one in case.CASES if one.target.__module__ in names]
