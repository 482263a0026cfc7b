"""What is done with the live figures of a lesson, in the kernel that made them.

``sweep`` moves every control, which nbval by itself does not do. ``all_frames`` draws every
picture, so that a figure moves on a page without a kernel.
"""

from __future__ import annotations

import base64
import gc
import io
import itertools
import json
import math
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from PIL import Image

if TYPE_CHECKING:
    from attnlab.live import Live

ROOT = Path(__file__).resolve().parent.parent
MOST_FRAMES = 64
COLOURS = 128  # of a frame: it takes a third of the bytes and looks the same

# To be run in a notebook's kernel after its last cell.
IN_KERNEL = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from tools import live_figures as tool"
SWEEP = f"{IN_KERNEL}; tool.sweep(tool.live_figures())"
WRITE_FRAMES = f"{IN_KERNEL}; tool.write_frames({{target!r}})"


def live_figures() -> list[Live]:
    """Return the live figures that exist in this process."""
    live = sys.modules.get("attnlab.live")  # if nothing has imported it, there are none
    things = gc.get_objects() if live else ()
    return [one for one in things if issubclass(type(one), live.Live)]


def sweep(figures: Iterable[Live]) -> int:
    """Move every control through all its stops and back; return the number of stops."""
    count = 0
    for figure in figures:
        start = figure.picture
        for name, control in figure.controls.items():
            home, seen = control.index, set()
            for place in range(len(control.values)):
                control.index = place
                count += 1
                assert figure.last_error is None, f"{figure!r}: {figure.last_error!r}"
                seen.add(figure.picture)
            control.index = home
            assert len(seen) > 1, f"{figure!r}: {name} never changes the picture"
            assert figure.picture == start, f"{figure!r}: {name} back at its start looks new"
    return count


def write_frames(target: str) -> None:
    """Write all frames of the live figures of this process to a file, by the figures' HTML."""
    frames = {figure.to_html(): all_frames(figure) for figure in live_figures()}
    Path(target).write_text(json.dumps(frames), encoding="utf-8")


def all_frames(figure: Live) -> dict[str, object]:
    """Move every control of a live figure and return all that is then shown.

    ``controls`` hold name, kind, stops and ``at``, the current stop. ``frames`` are pairs of an
    index into ``pictures`` (PNG, base64) and one into ``sentences`` (HTML); the last control varies
    fastest. RuntimeError says that the figure cannot be drawn at a stop or has too many controls.
    """
    controls, kept = figure.controls, kept_stops(figure)
    home = [control.index for control in controls.values()]
    pictures, sentences, frames = {}, {}, []
    for places in [*itertools.product(*kept), home]:
        for control, place in zip(controls.values(), places, strict=True):
            control.index = place
        if figure.last_error is not None:
            raise RuntimeError(f"{figure!r}: {figure.last_error!r}")
        picture = pictures.setdefault(small(figure.picture), len(pictures))
        frames.append((picture, sentences.setdefault(figure.sentence, len(sentences))))
    described = [
        {
            "name": name,
            "kind": control.kind,
            "stops": [control.labels[place] for place in places],
            "at": places.index(control.index),
        }
        for (name, control), places in zip(controls.items(), kept, strict=True)
    ]
    return {
        "controls": described,
        "pictures": [*pictures],
        "sentences": [*sentences],
        "frames": frames[:-1],  # the last one is that of the start
    }


def kept_stops(figure: Live) -> list[list[int]]:
    """Return the stops of every control; if there are too many, every other one of the longest.

    The first, the last and the current stop of a control are always kept.
    """
    kept = [[*range(len(control.values))] for control in figure.controls.values()]
    always = [{0, len(control.values) - 1, control.index} for control in figure.controls.values()]
    while math.prod(map(len, kept)) > MOST_FRAMES:
        longest = max(range(len(kept)), key=lambda i: len(kept[i]))
        stops = kept[longest]
        kept[longest] = [
            stop for i, stop in enumerate(stops) if i % 2 == 0 or stop in always[longest]
        ]
        if len(kept[longest]) == len(stops):
            raise RuntimeError(f"{figure!r} has too many controls for {MOST_FRAMES} pictures.")
    return kept


def small(png: bytes) -> str:
    """Return a picture with few colours, as base64."""
    buffer = io.BytesIO()
    picture = Image.open(io.BytesIO(png))
    few = picture.quantize(COLOURS, method=Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE)
    few.save(buffer, "PNG", optimize=True)
    return base64.b64encode(buffer.getvalue()).decode()
