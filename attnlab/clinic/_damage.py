"""Show what a function did to an argument of its own call."""

from __future__ import annotations

import torch

from attnlab.clinic._calling import Caller
from attnlab.clinic._report import Evidence

SHOWN = 5  # numbers of the row


def damage(caller: Caller) -> Evidence | None:
    """Return the first row that an argument had before a call and has after it.

    Parameters
    ----------
    caller : Caller
        With at least one changed argument.

    Returns
    -------
    Evidence or None
        None where the argument lost its shape.

    See Also
    --------
    attnlab.clinic._calling.Caller : notices it.
    """
    before, after = caller.changed[min(caller.changed)]
    if before.shape != after.shape or before.ndim == 0:
        return None
    pair = torch.stack([before, after]).reshape(2, -1, before.shape[-1])
    row = int((pair[0] != pair[1]).any(dim=-1).int().argmax())
    values = pair[:, row, :SHOWN].double()
    columns = tuple(f"number {i}" for i in range(values.shape[-1]))
    return Evidence("One row of it:", values, ("before", "after"), columns)
