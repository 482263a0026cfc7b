"""All pictures of a lesson's live figures, so that they move on a page without a kernel.

A notebook stores one picture of each live figure. Here its cells are executed once more, as far as
the last of these figures, and every picture is drawn in the kernel.
"""

from __future__ import annotations

import copy
import hashlib
import json
import tempfile
from collections.abc import Callable
from pathlib import Path

from nbclient.exceptions import CellExecutionError
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_notebook

from attnlab.explorers.frame import bundle
from tools.build.notebooks import execute, explain
from tools.build.sources import ROOT, facts_of, html_of, outputs_of, read_notebook
from tools.check.compare import compare_outputs
from tools.lab.isolated import HOME
from tools.publish.live_figures import WRITE_FRAMES
from tools.publish.site.html import SiteError

KEPT = HOME / "frames"  # the frames of each lesson, as they were made last
INPUTS = ("attnlab/**/*.*", "data/*.*", "tools/publish/live_figures.py", "environment.yml")

Frames = dict[str, dict[str, object]]  # what makes a figure move, by the key of its facts


def frames_of(path: Path) -> Frames:
    """Return all pictures of a lesson's live figures, by the keys of their facts.

    The lesson is executed for them, unless they are kept from a time when all was as it is now.
    """
    stored = read_notebook(path)
    while stored.cells and not live_outputs(new_notebook(cells=stored.cells[-1:])):
        stored.cells.pop()  # nothing after the last live figure is needed
    if not stored.cells:
        return {}
    kept, key = KEPT / f"{path.stem}.json", key_of(stored)
    if kept.is_file() and (last := json.loads(kept.read_text(encoding="utf-8")))["key"] == key:
        return last["frames"]
    frames = execute_for_frames(stored, path)
    KEPT.mkdir(parents=True, exist_ok=True)
    kept.write_text(json.dumps({"key": key, "frames": frames}), encoding="utf-8")
    return frames


def key_of(lesson: NotebookNode) -> str:
    """Return a digest of what frames depend on: code, stored figures, the package and its data."""
    parts = [cell.source for cell in lesson.cells if cell.cell_type == "code"]
    parts += map(html_of, live_outputs(lesson))
    digest = hashlib.sha256(json.dumps(parts).encode())
    for file in sorted(path for pattern in INPUTS for path in ROOT.glob(pattern)):
        if file.is_file() and file.suffix != ".pyc":
            digest.update(file.read_bytes())
    return digest.hexdigest()


def execute_for_frames(stored: NotebookNode, path: Path) -> Frames:
    """Execute a lesson and return all pictures of its live figures."""
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "frames.json"
        fresh = copy.deepcopy(stored)
        fresh.cells.append(new_code_cell(WRITE_FRAMES.format(target=str(target))))
        try:
            execute(fresh, path.parent, {})
        except CellExecutionError as error:
            raise SiteError(explain(error, path.name)) from None
        made = json.loads(target.read_text(encoding="utf-8"))
    if difference := compare_outputs(live_outputs(stored), live_outputs(fresh)):
        raise SiteError(f"{path.name} stores other live figures than a run gives: {difference}.")
    if not {facts_of(output).key for output in live_outputs(stored)} <= made.keys():
        raise SiteError(f"{path.name} moves a live figure after it has shown it.")
    return made


def live_outputs(notebook: NotebookNode) -> list[NotebookNode]:
    """Return the outputs of a notebook that are live figures."""
    return [output for output in outputs_of(notebook) if facts_of(output).get("kind") == "live"]


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
