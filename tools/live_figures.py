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
MOST_FRAMES = 128  # on a page
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


def sweep(figures: Iterable[Live]) -> None:
    """Move the controls of figures to all their stops; AssertionError says what is wrong there."""
    for figure in figures:
        start, shown = figure.picture, all_frames(figure)
        assert len(shown["pictures"]) == len(shown["frames"]), f"{figure!r}: two stops look alike"
        assert figure.picture == start, f"{figure!r}: back at its start it looks new"


def write_frames(target: str) -> None:
    """Write all frames of the live figures of this process to a file, by the figures' HTML."""
    frames = {figure.to_html(): all_frames(figure) for figure in live_figures()}
    Path(target).write_text(json.dumps(frames), encoding="utf-8")


def all_frames(figure: Live) -> dict[str, object]:
    """Move every control of a live figure and return all that is then shown.

    ``controls`` hold name, kind, stops and ``at``, the current stop. ``frames`` are pairs of an
    index into ``pictures`` (PNG, base64) and one into ``sentences`` (HTML); the last control varies
    fastest. RuntimeError says that the figure cannot be drawn at a stop or has too many pictures.
    """
    controls = figure.controls.values()
    if math.prod(len(control.values) for control in controls) > MOST_FRAMES:
        raise RuntimeError(f"{figure!r} has more than {MOST_FRAMES} pictures: leave out some stops")
    home = [control.index for control in controls]
    pictures, sentences, frames = {}, {}, []
    for places in [*itertools.product(*(range(len(one.values)) for one in controls)), home]:
        for control, place in zip(controls, places, strict=True):
            control.index = place
        if figure.last_error is not None:
            raise RuntimeError(f"{figure!r}: {figure.last_error!r}")
        picture = pictures.setdefault(small(figure.picture), len(pictures))
        frames.append((picture, sentences.setdefault(figure.sentence, len(sentences))))
    described = [
        {"name": name, "kind": control.kind, "stops": control.labels, "at": control.index}
        for name, control in figure.controls.items()
    ]
    return {
        "controls": described,
        "pictures": [*pictures],
        "sentences": [*sentences],
        "frames": frames[:-1],  # the last one is that of the start
    }


def small(png: bytes) -> str:
    """Return a picture with few colours, as base64."""
    buffer = io.BytesIO()
    picture = Image.open(io.BytesIO(png))
    few = picture.quantize(COLOURS, method=Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE)
    few.save(buffer, "PNG", optimize=True)
    return base64.b64encode(buffer.getvalue()).decode()
