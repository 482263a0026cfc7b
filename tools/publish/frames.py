"""All pictures of a lesson's live figures, so that they move on a page without a kernel.

A notebook stores one picture of each live figure. Here its cells are executed once more and every
picture is drawn in the kernel.
"""

from __future__ import annotations

import copy
import json
import tempfile
from collections.abc import Callable
from pathlib import Path

from nbclient.exceptions import CellExecutionError
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell

from attnlab.explorers.frame import bundle
from tools.build.notebooks import execute, explain
from tools.build.sources import html_of, outputs_of, read_notebook
from tools.check.compare import compare_outputs
from tools.publish.live_figures import WRITE_FRAMES
from tools.publish.site.html import SiteError

LIVE = '<div class="attnlab-live-stored">'  # how the HTML of a live figure begins

Frames = dict[str, dict[str, object]]  # what makes a figure move, by its stored HTML


def frames_of(path: Path) -> Frames:
    """Execute a lesson and return all pictures of its live figures, by their stored HTML."""
    stored = read_notebook(path)
    if not live_outputs(stored):
        return {}
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "frames.json"
        fresh = copy.deepcopy(stored)
        fresh.cells.append(new_code_cell(WRITE_FRAMES.format(target=str(target))))
        try:
            execute(fresh, path.parent, {})
        except CellExecutionError as error:
            raise SiteError(explain(error, path.name)) from None
        made = json.loads(target.read_text(encoding="utf-8"))
    return pair(path.name, live_outputs(stored), live_outputs(fresh), made)


def live_outputs(notebook: NotebookNode) -> list[NotebookNode]:
    """Return the outputs of a notebook that are live figures."""
    return [one for one in outputs_of(notebook) if html_of(one).startswith(LIVE)]


def pair(name: str, stored: list[NotebookNode], fresh: list[NotebookNode], made: Frames) -> Frames:
    """Return the frames of a run by the stored HTML of each figure, not by that of the run."""
    if difference := compare_outputs(stored, fresh):
        raise SiteError(f"{name} stores other live figures than a run gives: {difference}.")
    try:
        pairs = zip(stored, fresh, strict=True)
        return {html_of(one): made[html_of(other)] for one, other in pairs}
    except KeyError:
        raise SiteError(f"{name} moves a live figure after it has shown it.") from None


def moving(still: str, payload: dict[str, object], rewrite: Callable[[str], str]) -> str:
    """Return a stored live figure as an explorer that holds all its frames."""
    data = payload["data"]
    pool, say = [*data["pool"]], data["parts"].index("say")
    for place in {frame[say] for frame in data["frames"]}:
        pool[place] = rewrite(pool[place])
    text = bundle.to_json({**payload, "data": {**data, "pool": pool}})
    return (
        f'<div class="attnlab-explorer" data-explorer="{bundle.key_of("declared")}">'
        f"{rewrite(still)}"
        f'<script type="application/json">{text}</script></div><script>{{\n'
        f"{bundle.library(bundle.modules_of('declared'))}\n{bundle.wake()}\n}}</script>"
    )
