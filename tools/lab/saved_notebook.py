"""What a saved notebook holds: pages that need no kernel, in place of widgets that do.

JupyterLab draws a stored widget only if it has its state before the widget is shown, which on a
busy machine comes too late: "Error displaying widget: model not found". The widgets of attnlab
come with a page of HTML, so a notebook is saved with these pages, and with what was answered.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tools.build.sources import BUNDLE

VIEW = "application/vnd.jupyter.widget-view+json"
STATE = "application/vnd.jupyter.widget-state+json"
CLOSED, OPEN = "<details ", "<details open "


def keep_pages(notebook: dict) -> None:
    """Drop each stored widget that has a page beside it, and write into the pages what was said."""
    metadata, said = notebook["metadata"], set()
    states = metadata.get("widgets", {}).get(STATE, {}).get("state", {})
    for data in _outputs(notebook):
        if VIEW in data and "text/html" in data:
            state = states.get(data.pop(VIEW)["model_id"], {}).get("state", {})
            facts = data.get(BUNDLE, {})
            if facts.get("kind") == "prediction" and state.get("said"):
                facts["said"] = state["said"]["option"]  # which hand_in reads
                words = facts["options"][facts["said"]]["text"]
                data["text/html"] = facts["answered"].replace("{said}", words)
                said.add(facts["key"])
    for data in _outputs(notebook):
        if data.get(BUNDLE, {}).get("key") in said and data[BUNDLE]["kind"] == "answer":
            data["text/html"] = _opened(data["text/html"])
    for cell in notebook["cells"]:
        if cell["metadata"].get("answers") in said:
            cell["source"] = _opened(cell["source"])
    if not any(VIEW in data for data in _outputs(notebook)):
        metadata.pop("widgets", None)


def _outputs(notebook: Mapping) -> Iterator[dict]:
    """Yield what the outputs of a notebook hold, by their kinds."""
    for cell in notebook["cells"]:
        for output in cell.get("outputs", ()):
            yield output.get("data", {})


def _opened(page: str | list[str]) -> str:
    """Return the page of an answer, which a file may hold line by line, with its fold open."""
    text = "".join(page)
    return OPEN + text.removeprefix(CLOSED) if not text.startswith(OPEN) else text
