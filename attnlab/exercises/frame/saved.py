"""The notebook of this kernel as it was last saved, and the predictions that it holds."""

from __future__ import annotations

import json
import os
from pathlib import Path

from attnlab.display.stored import BUNDLE

WIDGETS = "application/vnd.jupyter.widget-state+json"  # in the metadata of a notebook


def saved_path() -> Path:
    """Return the path of the notebook, which Jupyter's server tells the kernel."""
    return Path(os.environ.get("JPY_SESSION_NAME", ""))


def said_in(notebook: dict) -> dict[str, int]:
    """Return the options that a notebook holds by the keys of their predictions."""
    said = {}
    for output in (output for cell in notebook["cells"] for output in cell.get("outputs", ())):
        facts = output.get("data", {}).get(BUNDLE, {})
        for name in ("before", "said"):  # `make lab` writes the second one
            if name in facts:
                said[facts["key"]] = facts[name]
    widgets = notebook["metadata"].get("widgets", {}).get(WIDGETS, {}).get("state", {})
    for state in (widget["state"] for widget in widgets.values()):  # any other server has these
        if "asked" in state and state.get("said"):
            said[state["asked"]["key"]] = state["said"]["option"]
    return said


def said_before(key: str) -> int | None:
    """Return the option that the saved notebook holds for a prediction, or None."""
    try:
        return said_in(json.loads(saved_path().read_bytes())).get(key)
    except (OSError, ValueError, LookupError, TypeError):  # no file, or another notebook
        return None
