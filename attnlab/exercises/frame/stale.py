"""Watch the cells that run: what they hold, and which functions are older than their cell.

A function is older if its cell ended in an error when it ran last.
"""

from __future__ import annotations

import re

from attnlab.display.ipython import running_shell

DEFINED = re.compile(r"^(?:(?:async )?def |class )?(\w+)(?=\(| *[=:])", re.MULTILINE)

ran: dict[str, str] = {}  #: what each cell held when it ran last, by its id

_before: dict[str, object] = {}  # what could be called before the cell that runs
_older: dict[str, object] = {}  # what an earlier run left of names whose cell has failed since


def watch_cells() -> None:
    """Compare what cells define before and after them, where this is a notebook."""
    if shell := running_shell():
        shell.events.register("pre_run_cell", _remember)  # a second time changes nothing
        shell.events.register("post_run_cell", _compare)


def is_older(given: object) -> bool:
    """Return whether the cell that defines a function failed when it ran last."""
    return callable(given) and any(older is given for older in _older.values())


def _remember(info: object) -> None:
    if info.cell_id:
        ran[info.cell_id] = info.raw_cell
    _before.clear()
    names = running_shell().user_ns.items()
    _before.update((name, thing) for name, thing in names if callable(thing))


def _compare(result: object) -> None:
    names = running_shell().user_ns
    for name in DEFINED.findall(result.info.raw_cell):
        _older.pop(name, None)
        if not result.success and name in _before and names.get(name) is _before[name]:
            _older[name] = names[name]
