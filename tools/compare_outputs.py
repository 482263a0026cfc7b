"""Compare the outputs that a notebook stores with those of a fresh run.

Texts must be equal. Two things may differ by a hair, because another processor rounds differently:
pixels of pictures, and numbers inside the JSON that a figure carries for its script.
"""

from __future__ import annotations

import base64
import io
import json
import math
import re
from collections.abc import Sequence

import numpy as np
from nbformat import NotebookNode
from PIL import Image

from tools.notebooks import plain_traceback

MEAN_DIFFERENCE = 0.02  # grey levels of 255; a wrong weight of 0.05 moves a heatmap by 0.2
PIXEL_DIFFERENCE = 32  # a pixel that differs by more is a different pixel ...
DIFFERENT_PIXELS = 1e-5  # ... and this share of them is allowed: less than one digit has
# Instruction sets change torch.randn by 1e-6, and what is computed from it by a step of the 4th
# decimal; numbers that are smaller than such a step are compared more closely.
JSON_RELATIVE, JSON_ABSOLUTE, JSON_TINY = 1e-3, 1.5e-4, 1e-6

PICTURE = re.compile(r"data:image/(?:png|jpeg|webp);base64,([A-Za-z0-9+/=\\s]*)")
JSON_BLOCK = re.compile(
    r'(<script\b[^>]*\btype="application/json"[^>]*>)(.*?)(</script>)', re.DOTALL
)


def compare_outputs(stored: Sequence[NotebookNode], fresh: Sequence[NotebookNode]) -> str | None:
    """Return in words the first difference between two lists of outputs of a cell, or None."""
    kinds = [[_kind(output) for output in outputs] for outputs in (stored, fresh)]
    if kinds[0] != kinds[1]:
        return f"stored are {kinds[0] or 'no outputs'}, the run gives {kinds[1] or 'none'}"
    for one, other in zip(stored, fresh, strict=True):
        if difference := _compare_output(one, other):
            return difference
    return None


def _kind(output: NotebookNode) -> str:
    """Return what an output is: its type, its stream, the formats it comes in."""
    formats = ", ".join(sorted(output.get("data", {})))
    return " ".join(filter(None, [output.output_type, output.get("name", ""), formats]))


def _compare_output(stored: NotebookNode, fresh: NotebookNode) -> str | None:
    if stored.output_type == "stream":
        return _compare_text("text", stored.text, fresh.text)
    if stored.output_type == "error":
        pairs = [(stored.ename, fresh.ename), (stored.evalue, fresh.evalue)]
        pairs += [tuple(_traceback(error) for error in (stored, fresh))]
        return next(filter(None, (_compare_text("error", *pair) for pair in pairs)), None)
    for name, content in stored.data.items():
        if difference := _compare_data(name, content, fresh.data[name]):
            return difference
    return None


def _traceback(error: NotebookNode) -> str:
    """Return a traceback as text; its cells are counted only where a run keeps its history."""
    return re.sub(r"In\[\d+\]", "In[]", "\n".join(plain_traceback(error.traceback)))


def _compare_data(name: str, stored: object, fresh: object) -> str | None:
    if name.startswith("image/"):
        return _compare_pictures(str(stored), str(fresh))
    if name == "text/html":
        return _compare_html(str(stored), str(fresh))
    if name.endswith("+json"):
        return None if name.endswith("widget-view+json") else _compare_values(stored, fresh)
    return _compare_text(name, str(stored), str(fresh))


def _compare_text(what: str, stored: str, fresh: str) -> str | None:
    if stored == fresh:
        return None
    lines = zip([*stored.splitlines(), ""], [*fresh.splitlines(), ""], strict=False)
    first = next(((a, b) for a, b in lines if a != b), (stored, fresh))
    return f"{what}: stored is {_short(first[0])}, the run gives {_short(first[1])}"


def _short(text: str) -> str:
    return repr(text if len(text) <= 200 else f"{text[:200]}...")


def _compare_html(stored: str, fresh: str) -> str | None:
    """Compare HTML: its pictures, its JSON blocks, and the rest to the letter."""
    rest = [JSON_BLOCK.sub(r"\1\3", PICTURE.sub("(picture)", text)) for text in (stored, fresh)]
    if difference := _compare_text("text/html", *rest):
        return difference
    pictures = [PICTURE.findall(JSON_BLOCK.sub("", text)) for text in (stored, fresh)]
    for one, other in zip(*pictures, strict=True):
        if difference := _compare_pictures(one, other):
            return difference
    blocks = [[match[1] for match in JSON_BLOCK.findall(text)] for text in (stored, fresh)]
    for one, other in zip(*blocks, strict=True):
        try:
            values = json.loads(one), json.loads(other)
        except json.JSONDecodeError as error:
            return f"JSON in text/html cannot be read: {error}"
        if difference := _compare_values(*values):
            return difference
    return None


def _compare_values(stored: object, fresh: object, place: str = "JSON") -> str | None:
    """Compare what JSON holds; floating point numbers with tolerance, all else exactly."""
    if isinstance(stored, dict) and isinstance(fresh, dict) and list(stored) == list(fresh):
        pairs = [(f"{place}.{key}", stored[key], fresh[key]) for key in stored]
    elif isinstance(stored, list) and isinstance(fresh, list) and len(stored) == len(fresh):
        pairs = [(f"{place}[{i}]", *both) for i, both in enumerate(zip(stored, fresh, strict=True))]
    elif isinstance(stored, float) and isinstance(fresh, float):
        tiny = max(abs(stored), abs(fresh)) < JSON_ABSOLUTE
        slack = JSON_TINY if tiny else JSON_ABSOLUTE
        near = math.isclose(stored, fresh, rel_tol=JSON_RELATIVE, abs_tol=slack)
        same = near or (math.isnan(stored) and math.isnan(fresh))
        return None if same else f"{place}: stored is {stored}, the run gives {fresh}"
    elif isinstance(stored, str) and isinstance(fresh, str) and PICTURE.fullmatch(stored):
        pair = [PICTURE.fullmatch(text) for text in (stored, fresh)]
        return _compare_pictures(pair[0][1], pair[1][1]) if pair[1] else f"{place}: no picture"
    else:
        same = type(stored) is type(fresh) and stored == fresh
        return None if same else f"{place}: stored is {stored!r}, the run gives {fresh!r}"
    differences = (_compare_values(one, other, where) for where, one, other in pairs)
    return next(filter(None, differences), None)


def _compare_pictures(stored: str, fresh: str) -> str | None:
    """Compare two pictures given as base64: same size and nearly the same pixels."""
    if stored.strip() == fresh.strip():
        return None
    try:
        one, other = _pixels(stored), _pixels(fresh)
    except (ValueError, OSError) as error:  # no base64, or no picture
        return f"a stored picture cannot be read: {error}"
    if one.shape != other.shape:
        sizes = [f"{pixels.shape[1]} x {pixels.shape[0]}" for pixels in (one, other)]
        return f"a stored picture has {sizes[0]} pixels, the run draws {sizes[1]}"
    difference = np.abs(one - other)
    mean = difference.mean()
    share = (difference.max(axis=-1) > PIXEL_DIFFERENCE).mean()
    if mean <= MEAN_DIFFERENCE and share <= DIFFERENT_PIXELS:
        return None
    return f"a picture differs: by {mean:.2f} of 255 on average, {share:.2%} of its pixels"


def _pixels(data: str) -> np.ndarray:
    picture = Image.open(io.BytesIO(base64.b64decode(data, validate=False)))
    return np.asarray(picture.convert("RGBA"), dtype=np.int16)
