"""Move every control of every live figure of a notebook: what nbval by itself cannot see."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from attnlab.live import Live

ROOT = Path(__file__).resolve().parent.parent

# Run in a notebook's own kernel, after its last cell. Where nothing has imported attnlab.live there
# are no figures, and importing it would take longer than all cells.
SWEEP = f"""import sys
if "attnlab.live" in sys.modules:
    sys.path.insert(0, {str(ROOT)!r})
    from tools.sweep_controls import live_figures, sweep_figures
    sweep_figures(live_figures())"""


def live_figures() -> list[Live]:
    """Return the live figures of this kernel: those shown, in their order, then those named."""
    from IPython import get_ipython

    from attnlab.live import Live

    names = get_ipython().user_ns
    values = [*names["Out"].values(), *names.values()]
    return list(dict.fromkeys(value for value in values if isinstance(value, Live)))


def sweep_figures(figures: Iterable[Live]) -> int:
    """Move every control through all its stops and back; return the number of steps.

    Raises
    ------
    AssertionError
        If ``draw`` fails at a stop, a control changes nothing, or going back to the start does
        not bring back the first picture.
    """
    steps = 0
    for figure in figures:
        start = figure.image.value
        for name, control in figure.controls.items():
            home, seen = control.value, set()
            for _, stop in control.options:
                control.value = stop
                steps += 1
                assert figure.last_error is None, f"{figure!r}: {figure.last_error!r}"
                seen.add(figure.image.value)
            control.value = home
            assert len(seen) > 1, f"{figure!r}: {name} never changes the picture"
            assert figure.image.value == start, f"{figure!r}: {name} back at {home} looks different"
    return steps
