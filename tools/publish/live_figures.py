"""What is done with the live figures of a lesson, in the kernel that made them.

``sweep`` draws the picture of every stop, which nbval by itself does not do. ``write_frames``
hands these pictures on, so that a figure moves on a page without a kernel.
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

from attnlab.explorers.frame.base import few_colours
from attnlab.explorers.frame.bundle import encode_frames

if TYPE_CHECKING:
    from attnlab.explorers.live import Live

ROOT = Path(__file__).resolve().parents[2]
MOST_FRAMES = 128  # on a page

# To be run in a notebook's kernel after its last cell.
IN_KERNEL = (
    f"import sys; sys.path.insert(0, {str(ROOT)!r}); from tools.publish import live_figures as tool"
)
SWEEP = f"{IN_KERNEL}; tool.sweep(tool.live_figures())"
WRITE_FRAMES = f"{IN_KERNEL}; tool.write_frames({{target!r}})"


def live_figures() -> list[Live]:
    """Return the live figures that exist in this process."""
    live = sys.modules.get("attnlab.explorers.live")  # if nothing has imported it, there are none
    things = gc.get_objects() if live else ()
    return [thing for thing in things if issubclass(type(thing), live.Live)]


def sweep(figures: Iterable[Live]) -> None:
    """Draw figures at all their stops; AssertionError says what is wrong there."""
    for figure in figures:
        frames = all_frames(figure)
        assert len({frame["picture"]["png"] for frame in frames}) == len(frames), (
            f"{figure!r}: two stops look alike"
        )
        assert figure.frame_now() == figure.answer["drawn"], f"{figure!r}: drawn anew it looks new"


def write_frames(target: str) -> None:
    """Write what makes the live figures of this process move to a file, by the figures' keys."""
    made = {figure.facts()["key"]: payload_of(figure) for figure in live_figures()}
    Path(target).write_text(json.dumps(made), encoding="utf-8")


def all_frames(figure: Live) -> list[dict[str, object]]:
    """Return what is seen at every stop of every control, the last one varying fastest.

    RuntimeError says that the figure cannot be drawn at a stop or has too many pictures.
    """
    values = figure.frame_values()
    if math.prod(map(len, values.values())) > MOST_FRAMES:
        raise RuntimeError(f"{figure!r} has more than {MOST_FRAMES} pictures: leave out some stops")
    states = itertools.product(*values.values())
    try:
        return [figure.frame(**dict(zip(values, state, strict=True))) for state in states]
    except Exception as error:
        raise RuntimeError(f"{figure!r}: {error!r}") from error


def payload_of(figure: Live) -> dict[str, object]:
    """Return state and data of a figure as a page without a kernel needs them."""
    frames = all_frames(figure)
    for frame in frames:
        frame["picture"] = {"png": small(frame["picture"]["png"])}
    data = {"frame_values": figure.frame_values(), **encode_frames(frames)}
    return {"state": figure.state(), "data": {**figure.data, **data}, "answer": None}


def small(png: str) -> str:
    """Return a picture, in base64, with few colours."""
    picture = Image.open(io.BytesIO(base64.b64decode(png)))
    return base64.b64encode(few_colours(picture)).decode()
