"""Record the moving picture of README.md: a query that is dragged in the soft lookup.

    python -m tools.moving_picture

It needs Chromium and writes ``figures/soft_look_up.gif``.
"""

from __future__ import annotations

import io
import math
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import Locator, sync_playwright

from attnlab.explorers import SoftLookupExplorer
from tools._browser import launch
from tools.notebooks import ROOT

TARGET = ROOT / "figures" / "soft_look_up.gif"
HEAD = "<!doctype html><meta charset=utf-8><body style='margin:8px;background:white'>"
SIZE = {"width": 960, "height": 700}  # of the page, in CSS pixels
MILLISECONDS = 90  # for which each picture is shown
COLOURS = 48
START = 30  # degrees: where the query is at first
ANGLES = [*range(START, 150, 5), *range(150, START, -5)]


def record() -> list[Image.Image]:
    """Return pictures of the explorer while its query goes to and fro above the keys."""
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        file = Path(folder) / "page.html"
        file.write_text(HEAD + SoftLookupExplorer(ask=False).to_html(), encoding="utf-8")
        browser = launch(playwright)
        page = browser.new_page(viewport=SIZE)
        page.goto(file.as_uri())
        x, y = middle(page.locator("svg.field"))
        query_x, query_y = middle(page.locator("[role=slider][aria-label=query] .dot"))
        length = math.hypot(query_x - x, query_y - y)
        page.mouse.move(query_x, query_y)
        page.mouse.down()
        pictures = []
        for angle in map(math.radians, ANGLES):
            page.mouse.move(x + length * math.cos(angle), y - length * math.sin(angle))
            shot = page.locator(".card").screenshot()
            pictures.append(Image.open(io.BytesIO(shot)).convert("RGB"))
        browser.close()
    return pictures


def reduced(pictures: list[Image.Image]) -> list[Image.Image]:
    """Return pictures in few colours, the same for all, so that the file holds what moves only."""
    palette = pictures[0].quantize(COLOURS)
    return [one.quantize(palette=palette, dither=Image.Dither.NONE) for one in pictures]


def middle(element: Locator) -> tuple[float, float]:
    """Return the middle of an element on its page."""
    box = element.bounding_box()
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


if __name__ == "__main__":
    first, *rest = reduced(record())
    first.save(TARGET, save_all=True, append_images=rest, duration=MILLISECONDS, loop=0)
    print(f"{TARGET.name}: {len(ANGLES)} pictures, {TARGET.stat().st_size / 1e6:.1f} MB")
