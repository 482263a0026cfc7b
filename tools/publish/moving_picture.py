"""Record the moving picture of the README: a question, a wrong guess, and what is true.

    python -m tools.publish.moving_picture

It opens the explorer of lesson 1 in a headless browser, does what a learner does there, and writes
what is seen into figures/soft_look_up.gif. Run it again when the explorer looks different.
"""

from __future__ import annotations

import io
import math
import tempfile
from collections.abc import Iterator
from pathlib import Path

from PIL import Image
from playwright.sync_api import Locator, Page, sync_playwright

from attnlab.explorers import SoftLookupExplorer
from tools.build.sources import ROOT, from_root
from tools.lab.browser import launch

TARGET = ROOT / "figures" / "soft_look_up.gif"
SIZE = {"width": 944, "height": 692}
GUESS = "exactly 5"
START, END = 30, 135  # degrees: where the query points at first, and between bird and spider
UNIT = 105 / 360  # the length of a key, as a share of the picture of the plane
READ, LOOK, MOVE = 3000, 800, 80  # milliseconds: to read a sentence, to see a click, of one step
COLOURS = 128
POINTER = """<style>#pointer { position: fixed; inset: 0; z-index: 9; pointer-events: none }</style>
<svg id="pointer" width="24" height="24">
<path d="M3,1L3,19L8,15L11,22L14,21L11,14L17,14Z" fill="black" stroke="white"/></svg>"""
PAGE = f"<!doctype html><html lang='en'><meta charset='utf-8'><body style='margin:0'>{POINTER}"
FOLLOW = "([x, y]) => { document.getElementById('pointer').style.translate = `${x}px ${y}px`; }"

Frame = tuple[bytes, int]  # a picture as PNG, and for how many milliseconds it is seen


class Hand:
    """The hand of a learner: it moves the pointer, and what is seen meanwhile are frames."""

    def __init__(self, page: Page) -> None:
        self.page, self.place = page, (SIZE["width"] * 0.6, SIZE["height"] * 0.6)
        page.evaluate(FOLLOW, self.place)

    def rest(self, duration: int) -> Frame:
        """Return what is seen now."""
        return self.page.screenshot(), duration

    def move(self, x: float, y: float) -> Frame:
        """Move the pointer there at once."""
        self.place = (x, y)
        self.page.mouse.move(x, y)
        self.page.evaluate(FOLLOW, self.place)
        return self.rest(MOVE)

    def go(self, target: Locator, steps: int = 8) -> Iterator[Frame]:
        """Move the pointer to the middle of an element, slowly at both ends."""
        box, (x, y) = target.bounding_box(), self.place
        across, down = box["x"] + box["width"] / 2 - x, box["y"] + box["height"] / 2 - y
        for step in range(1, steps + 1):
            part = (1 - math.cos(math.pi * step / steps)) / 2
            yield self.move(x + part * across, y + part * down)


def play(page: Page) -> Iterator[Frame]:
    """Do what a learner does, and yield what is seen."""
    card = page.locator(".card")
    card.wait_for()
    hand = Hand(page)
    yield hand.rest(READ)
    guess = card.get_by_role("button", name=GUESS)
    yield from hand.go(guess)
    yield hand.rest(LOOK)
    guess.click()
    yield hand.rest(READ)
    yield from hand.go(card.locator(".handle .dot"))
    page.mouse.down()
    plane = card.locator("svg.field").bounding_box()
    middle = plane["x"] + plane["width"] / 2, plane["y"] + plane["height"] / 2
    for degrees in range(START, END + 1, 3):
        right, up = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
        length = UNIT * plane["width"]
        yield hand.move(middle[0] + length * right, middle[1] - length * up)
    page.mouse.up()
    card.locator(".gate.wrong").wait_for()  # the answer
    yield hand.rest(2 * READ)


def record() -> list[Frame]:
    """Return the frames of the moving picture."""
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        file = Path(folder) / "page.html"
        file.write_text(f"{PAGE}{SoftLookupExplorer().to_html()}", encoding="utf-8")
        with launch(playwright) as browser:
            page = browser.new_page(viewport=SIZE)
            page.goto(file.as_uri())
            return [*play(page)]


def write(frames: list[Frame], target: Path) -> None:
    """Write frames as a GIF with one palette, in which only what changes is stored."""
    pictures = [Image.open(io.BytesIO(png)).convert("RGB") for png, _ in frames]
    width, height = pictures[0].size
    both = Image.new("RGB", (width, 2 * height))  # the colours of the first and of the last
    for place, picture in enumerate((pictures[0], pictures[-1])):
        both.paste(picture, (0, place * height))
    palette = both.quantize(COLOURS, dither=Image.Dither.NONE)
    first, *others = [seen.quantize(palette=palette, dither=Image.Dither.NONE) for seen in pictures]
    durations = [duration for _, duration in frames]
    first.save(target, save_all=True, append_images=others, duration=durations, loop=0)


def main() -> None:
    """Record the moving picture and say how large it is."""
    write(record(), TARGET)
    print(f"{from_root(TARGET)}: {TARGET.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
