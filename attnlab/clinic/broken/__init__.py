"""The catalogue: broken implementations that learners write, and right ones in many styles.

``BROKEN`` and ``RIGHT`` hold a ``Case`` for each. The clinic is tested with them: every broken one
must be named, no right one accused.
"""

from attnlab.clinic.broken import (
    axis,
    causal,
    head_shapes,
    manners,
    mask_builders,
    masks,
    mixing,
    modules_heads,
    modules_masks,
    modules_plain,
    right_functions,
    right_masked_modules,
    right_masks,
    right_modules,
    right_small,
    roles,
    scale,
    softmaxes,
)
from attnlab.clinic.broken._case import CASES, Case

THEMES = (
    axis,
    scale,
    roles,
    mixing,
    masks,
    causal,
    manners,
    modules_heads,
    modules_plain,
    modules_masks,
    head_shapes,
    mask_builders,
    softmaxes,
    right_functions,
    right_masks,
    right_modules,
    right_masked_modules,
    right_small,
)

BROKEN: tuple[Case, ...] = tuple(case for case in CASES if case.cause is not None)
RIGHT: tuple[Case, ...] = tuple(case for case in CASES if case.cause is None)

__all__ = ["BROKEN", "RIGHT", "THEMES", "Case"]
