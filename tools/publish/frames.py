"""All pictures of a lesson's live figures, so that they move on a page without a kernel.

A notebook stores one picture of each live figure. Here its cells are executed once more, as far as
the last of these figures, and every picture is drawn in the kernel.
"""

from __future__ import annotations

import copy
import json
import tempfile
from collections.abc import Callable
from pathlib import Path

from nbclient.exceptions import CellExecutionError
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_notebook

from attnlab.explorers.frame import bundle
from tools.build.notebooks import execute, explain
from tools.build.sources import facts_of, outputs_of, read_notebook
from tools.check.compare import compare_outputs
from tools.publish.live_figures import WRITE_FRAMES
from tools.publish.site.html import SiteError

Frames = dict[str, dict[str, object]]  # what makes a figure move, by the key of its facts


def frames_of(path: Path) -> Frames:
    """Execute a lesson and return all pictures of its live figures."""
    stored = read_notebook(path)
    if not live_outputs(stored):
        return {}
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "frames.json"
        fresh = copy.deepcopy(stored)
        while not live_outputs(new_notebook(cells=fresh.cells[-1:])):
            fresh.cells.pop()  # nothing after the last live figure is needed
        fresh.cells.append(new_code_cell(WRITE_FRAMES.format(target=str(target))))
        try:
            execute(fresh, path.parent, {})
        except CellExecutionError as error:
            raise SiteError(explain(error, path.name)) from None
        made = json.loads(target.read_text(encoding="utf-8"))
    if difference := compare_outputs(live_outputs(stored), live_outputs(fresh)):
        raise SiteError(f"{path.name} stores other live figures than a run gives: {difference}.")
    if not {facts_of(one).key for one in live_outputs(stored)} <= made.keys():
        raise SiteError(f"{path.name} moves a live figure after it has shown it.")
    return made


def live_outputs(notebook: NotebookNode) -> list[NotebookNode]:
    """Return the outputs of a notebook that are live figures."""
    return [one for one in outputs_of(notebook) if facts_of(one).get("kind") == "live"]


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
