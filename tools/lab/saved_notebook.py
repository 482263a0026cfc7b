"""What a saved notebook holds: pages that need no kernel, in place of widgets that do.

JupyterLab draws a stored widget only if it has its state before the widget is shown, which on a
busy machine comes too late: "Error displaying widget: model not found". The widgets of attnlab
come with a page of HTML, so a notebook is saved with these pages, and with what was answered.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from html import escape

VIEW = "application/vnd.jupyter.widget-view+json"
STATE = "application/vnd.jupyter.widget-state+json"
FOLD = re.compile(r'(?<=<details class="attnlab-answer" data-key=")([^"]+)"(?! open)')
UNANSWERED = "<details><summary>Show the answer</summary>"
ANSWERED = "<p>You said <b>{}</b>.</p><details open><summary>The answer</summary>"
ANSWER_HERE, ANSWER_AGAIN = "Run this cell to answer here.", "Run this cell to answer again."


def keep_pages(notebook: dict) -> None:
    """Drop each stored widget that has a page beside it, and write into the pages what was said."""
    metadata, said = notebook["metadata"], {}
    states = metadata.get("widgets", {}).get(STATE, {}).get("state", {})
    for data in _outputs(notebook):
        if VIEW in data and "text/html" in data:
            state = states.get(data.pop(VIEW)["model_id"], {}).get("state", {})
            if state.get("said"):
                said[state["asked"]["key"]] = words = _words(state["asked"], state["said"])
                page = _text(data).replace(UNANSWERED, ANSWERED.format(words))
                data["text/html"] = page.replace(ANSWER_HERE, ANSWER_AGAIN)
    for data in _outputs(notebook):
        if "attnlab-answer" in (page := _text(data)):
            data["text/html"] = FOLD.sub(lambda key: key[0] + " open" * (key[1] in said), page)
    if not any(VIEW in data for data in _outputs(notebook)):
        metadata.pop("widgets", None)


def _outputs(notebook: Mapping) -> Iterator[dict]:
    """Yield what the outputs of a notebook hold, by their kinds."""
    for cell in notebook["cells"]:
        for output in cell.get("outputs", ()):
            yield output.get("data", {})


def _text(data: Mapping) -> str:
    """Return a page, which a file may hold line by line."""
    return "".join(data.get("text/html", ""))


def _words(asked: Mapping, said: Mapping) -> str:
    """Return an answer as HTML: an option, or the number as it was written."""
    return (
        asked["options"][said["option"]]["text"] if "options" in asked else escape(said["written"])
    )
