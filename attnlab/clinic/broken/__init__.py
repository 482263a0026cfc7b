"""The catalogue: broken attention that learners write, and correct attention in many styles.

``BROKEN`` and ``RIGHT`` hold a ``Case`` for each. The clinic is tested with them: every broken one
must be named, no correct one accused.
"""

from attnlab.clinic.broken import behaviour, heads, masks, scores, styles
from attnlab.clinic.broken._case import CASES, Case

THEMES = (scores, masks, heads, behaviour, styles)

BROKEN: tuple[Case, ...] = tuple(case for case in CASES if case.cause is not None)
RIGHT: tuple[Case, ...] = tuple(case for case in CASES if case.cause is None)

__all__ = ["BROKEN", "RIGHT", "THEMES", "Case"]
