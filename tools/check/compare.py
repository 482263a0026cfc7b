"""Compare the outputs that a notebook stores with those of a fresh run.

Texts must be equal. Two things may differ by a hair, because another processor rounds differently:
pictures, by what no eye sees, and numbers inside the JSON that a figure carries for its script.
"""

from __future__ import annotations

import base64
import io
import json
import math
import re
from collections.abc import Iterator, Sequence

import numpy as np
from nbformat import NotebookNode
from PIL import Image
from PIL.ImageChops import subtract
from PIL.ImageFilter import MaxFilter, MinFilter

from tools.build.sources import plain_traceback

# How far a pixel may lie outside of what stands there and beside it in the other picture, in levels
# of 255. Between instruction sets, lines and marks move by less than a pixel, which gives 9 at
# most; the smallest mark that is missing gives 80 and more, and a weight that is wrong by 0.05
# gives 7 in a whole cell.
CLEARLY, SLIGHTLY = 24, 6
SLIGHT_PIXELS = 1e-4  # the share of pixels that may differ slightly
# Instruction sets change torch.randn by 1e-6, and what is computed from it by a step of the 4th
# decimal; numbers that are smaller than such a step are compared more closely.
JSON_RELATIVE, JSON_ABSOLUTE, JSON_TINY = 1e-3, 1.5e-4, 1e-6

PICTURE = re.compile(r"data:image/(?:png|jpeg|webp);base64,([A-Za-z0-9+/=\\s]*)")
JSON_BLOCK = re.compile(
    r'(<script\b[^>]*\btype="application/json"[^>]*>)(.*?)(</script>)', re.DOTALL
)


def compare_outputs(stored: Sequence[NotebookNode], fresh: Sequence[NotebookNode]) -> str | None:
    """Return in words the first difference between two lists of outputs of a cell, or None."""
    return next(_outputs(stored, fresh), None)


def _outputs(stored: Sequence[NotebookNode], fresh: Sequence[NotebookNode]) -> Iterator[str]:
    kinds = [[_kind(output) for output in outputs] for outputs in (stored, fresh)]
    if kinds[0] != kinds[1]:
        yield f"stored are {kinds[0] or 'no outputs'}, the run gives {kinds[1] or 'none'}"
        return
    for before, now in zip(stored, fresh, strict=True):
        if before.output_type == "stream":
            yield from _texts("text", before.text, now.text)
        elif before.output_type == "error":
            yield from _texts("error", before.ename, now.ename)
            yield from _texts("error", before.evalue, now.evalue)
            yield from _texts("error", _traceback(before), _traceback(now))
        for name, content in before.get("data", {}).items():
            yield from _data(name, content, now.data[name])


def _kind(output: NotebookNode) -> str:
    """Return what an output is: its type, its stream, the formats it comes in."""
    formats = ", ".join(sorted(output.get("data", {})))
    return " ".join(filter(None, [output.output_type, output.get("name", ""), formats]))


def _traceback(error: NotebookNode) -> str:
    """Return a traceback as text; its cells are counted only where a run keeps its history."""
    return re.sub(r"In\[\d+\]", "In[]", "\n".join(plain_traceback(error.traceback)))


def _data(name: str, stored: object, fresh: object) -> Iterator[str]:
    if name.startswith("image/"):
        yield from _pictures(str(stored), str(fresh))
    elif name == "text/html":
        yield from _html(str(stored), str(fresh))
    elif not name.endswith("+json"):
        yield from _texts(name, str(stored), str(fresh))
    elif not name.endswith("widget-view+json"):
        yield from _values(stored, fresh)


def _texts(what: str, stored: str, fresh: str) -> Iterator[str]:
    if stored != fresh:
        lines = zip([*stored.splitlines(), ""], [*fresh.splitlines(), ""], strict=False)
        first = next(((a, b) for a, b in lines if a != b), (stored, fresh))
        shown = [repr(text if len(text) <= 200 else f"{text[:200]}...") for text in first]
        yield f"{what}: stored is {shown[0]}, the run gives {shown[1]}"


def _html(stored: str, fresh: str) -> Iterator[str]:
    """Compare HTML: its pictures, its JSON blocks, and first of all the rest to the letter."""
    rest = [JSON_BLOCK.sub(r"\1\3", PICTURE.sub("(picture)", text)) for text in (stored, fresh)]
    yield from _texts("text/html", *rest)
    pictures = [PICTURE.findall(JSON_BLOCK.sub("", text)) for text in (stored, fresh)]
    for before, now in zip(*pictures, strict=True):
        yield from _pictures(before, now)
    blocks = [[match[1] for match in JSON_BLOCK.findall(text)] for text in (stored, fresh)]
    for before, now in zip(*blocks, strict=True):
        try:
            values = json.loads(before), json.loads(now)
        except json.JSONDecodeError as error:
            yield f"JSON in text/html cannot be read: {error}"
        else:
            yield from _values(*values)


def _values(stored: object, fresh: object, place: str = "JSON") -> Iterator[str]:
    """Compare what JSON holds; floating point numbers with tolerance, all else exactly."""
    same, pairs = True, []
    if _are_pooled(stored) and _are_pooled(fresh) and stored["parts"] == fresh["parts"]:
        stored, fresh = _unpooled(stored), _unpooled(fresh)
    if isinstance(stored, dict) and isinstance(fresh, dict) and list(stored) == list(fresh):
        pairs = [(f"{place}.{key}", stored[key], fresh[key]) for key in stored]
    elif isinstance(stored, list) and isinstance(fresh, list) and len(stored) == len(fresh):
        pairs = [(f"{place}[{i}]", *both) for i, both in enumerate(zip(stored, fresh, strict=True))]
    elif isinstance(stored, float) and isinstance(fresh, float):
        tiny = max(abs(stored), abs(fresh)) < JSON_ABSOLUTE
        slack = JSON_TINY if tiny else JSON_ABSOLUTE
        near = math.isclose(stored, fresh, rel_tol=JSON_RELATIVE, abs_tol=slack)
        same = near or (math.isnan(stored) and math.isnan(fresh))
    elif all(isinstance(text, str) and PICTURE.fullmatch(text) for text in (stored, fresh)):
        yield from _pictures(*(PICTURE.fullmatch(text)[1] for text in (stored, fresh)))
    else:
        same = type(stored) is type(fresh) and stored == fresh
    if not same:
        yield f"{place}: stored is {stored!r}, the run gives {fresh!r}"
    for where, before, now in pairs:
        yield from _values(before, now, where)


def _are_pooled(value: object) -> bool:
    return isinstance(value, dict) and {"parts", "pool", "frames"} <= value.keys()


def _unpooled(value: dict) -> dict:
    """Return frames with the values that they share in their place.

    Which values frames share hangs on a rounding in the last digit; what they show does not.
    """
    frames = [[value["pool"][place] for place in frame] for frame in value["frames"]]
    return {name: part for name, part in value.items() if name != "pool"} | {"frames": frames}


def _pictures(stored: str, fresh: str) -> Iterator[str]:
    """Compare two pictures given as base64 as eyes do: same size, and nothing in another place."""
    if stored.strip() == fresh.strip():
        return
    try:
        picture, redrawn = _picture(stored), _picture(fresh)
    except (ValueError, OSError) as error:  # no base64, or no picture
        yield f"a stored picture cannot be read: {error}"
        return
    if picture.size != redrawn.size:
        sizes = ["{} x {}".format(*drawn.size) for drawn in (picture, redrawn)]
        yield f"a stored picture has {sizes[0]} pixels, the run draws {sizes[1]}"
        return
    outside = np.maximum(_outside(picture, redrawn), _outside(redrawn, picture))
    slight = (outside > SLIGHTLY).mean()
    if outside.max() > CLEARLY or slight > SLIGHT_PIXELS:
        yield f"a picture differs: by up to {outside.max()} of 255, in {slight:.2%} of its pixels"


def _outside(picture: Image.Image, beside: Image.Image) -> np.ndarray:
    """Return how far each pixel lies outside of what the other picture has there and beside it.

    So a line that moves by a pixel, or whose edge is smoothed in another way, is the same to it, as
    it is to the eye.
    """
    darkest, lightest = (beside.filter(kind(3)) for kind in (MinFilter, MaxFilter))
    below, above = subtract(darkest, picture), subtract(picture, lightest)
    return np.maximum(np.asarray(below), np.asarray(above)).max(axis=-1)


def _picture(data: str) -> Image.Image:
    picture = Image.open(io.BytesIO(base64.b64decode(data, validate=False)))
    return picture.convert("RGBA")
