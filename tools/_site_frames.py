"""All pictures of a lesson's live figures, so that they move on a page without a kernel.

A notebook stores one picture of each figure. Here its cells are executed once more, every control
is moved in the kernel, and the pictures come back with few colours, to keep pages small.
"""

from __future__ import annotations

import base64
import copy
import io
import itertools
import json
import math
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from nbclient.exceptions import CellExecutionError
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_notebook
from PIL import Image

from tools._live_cells import needed_for_live
from tools._site_html import SiteError
from tools.build_notebooks import execute, explain
from tools.compare_outputs import compare_outputs
from tools.notebooks import ROOT, read_notebook
from tools.sweep_controls import live_figures

if TYPE_CHECKING:
    from attnlab.live import Live

LIVE = '<div class="attnlab-live-stored">'  # how the HTML of a live figure begins
MOST_FRAMES = 64
COLOURS = 128  # of a frame: a third of the bytes, and no difference to be seen


# --- in this process ------------------------------------------------------------------------------


def frames_of(path: Path) -> dict[str, dict[str, object]]:
    """Execute a lesson and return all pictures of its live figures, by their stored HTML.

    The cells that the figures seem to need are tried first, which is quick, then all.

    Raises
    ------
    SiteError
        If a cell fails, or a figure is another than the one that is stored.
    """
    stored = read_notebook(path)
    if not live_outputs(stored):
        return {}
    try:
        few = [stored.cells[index] for index in needed_for_live(stored.cells)]
        return _frames_of_run(path, stored, few)
    except SiteError:
        return _frames_of_run(path, stored, stored.cells)


def _frames_of_run(
    path: Path, stored: NotebookNode, cells: list[NotebookNode]
) -> dict[str, dict[str, object]]:
    """Return the pictures after a run of some cells of a lesson, if they are those stored."""
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "frames.json"
        last = new_code_cell(_collecting(target))
        fresh = new_notebook(cells=copy.deepcopy([*cells, last]), metadata=stored.metadata)
        try:
            execute(fresh, path.parent)
        except CellExecutionError as error:
            raise SiteError(explain(error, path.name)) from None
        figures = json.loads(target.read_text(encoding="utf-8"))
    return _paired(path.name, live_outputs(stored), live_outputs(fresh), figures)


def live_outputs(notebook: NotebookNode) -> list[NotebookNode]:
    """Return the outputs of a notebook that are live figures."""
    outputs = [one for cell in notebook.cells for one in cell.get("outputs", [])]
    return [one for one in outputs if html_of(one).startswith(LIVE)]


def html_of(output: NotebookNode) -> str:
    """Return an output as HTML; nothing if it has none."""
    return output.get("data", {}).get("text/html", "")


def script_of(figure: dict[str, object], rewrite: Callable[[str], str]) -> str:
    """Return what makes a stored live figure move, to be put after it.

    Parameters
    ----------
    figure : dict
        As ``all_frames`` returns it.
    rewrite : callable
        Makes the HTML of a sentence fit for a page.
    """
    sentences = [rewrite(sentence) for sentence in figure["sentences"]]
    text = json.dumps({**figure, "sentences": sentences}, separators=(",", ":"))
    text = text.replace("<", r"\u003c")
    return f'<script type="application/json">{text}</script>'


def _paired(
    name: str, stored: list[NotebookNode], fresh: list[NotebookNode], figures: list[dict]
) -> dict[str, dict[str, object]]:
    """Return the figures by the stored HTML of each, which was shown in the order of making."""
    if not len(stored) == len(fresh) == len(figures):
        raise SiteError(
            f"{name} stores {len(stored)} live figures, and a run makes {len(figures)}, of which "
            f"it shows {len(fresh)}: build it again."
        )
    if difference := compare_outputs(stored, fresh):
        raise SiteError(f"{name} stores another live figure than a run gives: {difference}.")
    return {html_of(one): figure for one, figure in zip(stored, figures, strict=True)}


def _collecting(target: Path) -> str:
    """Return the source of the cell that writes all frames of the kernel's figures to a file."""
    return (
        f"import sys\nsys.path.insert(0, {str(ROOT)!r})\n"
        f"from tools._site_frames import collect\ncollect({str(target)!r})"
    )


# --- in the kernel of the lesson ------------------------------------------------------------------


def collect(target: str) -> None:
    """Write all frames of the live figures of this kernel to a file, in the order shown."""
    figures = [all_frames(figure) for figure in live_figures()]
    Path(target).write_text(json.dumps(figures), encoding="utf-8")


def all_frames(figure: Live) -> dict[str, object]:
    """Move every control of a live figure and return what is then seen.

    Returns
    -------
    dict
        ``controls``: name, kind, stops and ``at``, the stop in force. ``frames``: places in
        ``pictures`` (PNG, base64) and in ``sentences`` (HTML), the last control running fastest.

    Raises
    ------
    RuntimeError
        If the figure cannot be drawn at a stop, or has too many controls.
    """
    home, stops = figure.value, _kept_stops(figure)
    pictures, sentences, frames = {}, {}, []
    for values in itertools.product(*(dict(kept).values() for kept in stops)):
        for control, value in zip(figure.controls.values(), values, strict=True):
            control.value = value
        if figure.last_error is not None:
            raise RuntimeError(f"{figure!r}: {figure.last_error!r}")
        places = (
            pictures.setdefault(_small(figure.image.value), len(pictures)),
            sentences.setdefault(figure.sentence.value, len(sentences)),
        )
        frames.append(places)
    for name, value in home.items():
        figure.controls[name].value = value
    controls = [
        {
            "name": name,
            "kind": "slider" if hasattr(control, "readout") else "choice",
            "stops": [label for label, _ in kept],
            "at": [label for label, _ in kept].index(control.label),
        }
        for (name, control), kept in zip(figure.controls.items(), stops, strict=True)
    ]
    shown = {"pictures": [*pictures], "sentences": [*sentences], "frames": frames}
    return {"controls": controls, **shown}


def _kept_stops(figure: Live) -> list[list[tuple[str, object]]]:
    """Return the stops of every control, every other one of the longest left out if too many."""
    kept = [list(control.options) for control in figure.controls.values()]
    homes = [control.label for control in figure.controls.values()]
    while math.prod(map(len, kept)) > MOST_FRAMES:
        place = max(range(len(kept)), key=lambda i: len(kept[i]))
        stops, ends = kept[place], (0, len(kept[place]) - 1)
        kept[place] = [
            stop
            for i, stop in enumerate(stops)
            if i % 2 == 0 or i in ends or stop[0] == homes[place]
        ]
        if len(kept[place]) == len(stops):
            raise RuntimeError(f"{figure!r} has too many controls for {MOST_FRAMES} pictures.")
    return kept


def _small(png: bytes) -> str:
    """Return a picture with few colours, as base64."""
    buffer = io.BytesIO()
    picture = Image.open(io.BytesIO(png))
    few = picture.quantize(COLOURS, method=Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE)
    few.save(buffer, "PNG", optimize=True)
    return base64.b64encode(buffer.getvalue()).decode()
