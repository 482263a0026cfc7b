"""Pages of the tests: opened from a file in a browser that is offline, and waited for."""

import importlib.resources
import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import torch
from playwright.sync_api import Browser, Locator, Page

from attnlab.explorers import Explorer
from attnlab.explorers.frame import bundle
from attnlab.palette import shade
from tools.lab.browser import LIMIT

AXE = importlib.resources.files("axe_playwright_python").joinpath("axe.min.js")
SIZE = {"width": 1366, "height": 900}
HEAD = "<!doctype html><html lang='en'><meta charset='utf-8'><title>Explorers</title>"


class Tab:
    """A tab of a browser; what its pages complain of, and ask for elsewhere, is noted."""

    def __init__(self, browser: Browser, here: Sequence[str], **options: object) -> None:
        self.here = (*here, "data:", "blob:")
        self.context = browser.new_context(**options)
        self.context.set_default_timeout(1000 * LIMIT)
        self.page = self.context.new_page()
        self.problems, self.outside = [], []
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))
        self.page.on("console", self.note)
        self.page.on("request", self._on_request)

    def note(self, message) -> None:
        """Note what a page writes to its console."""
        self.problems.append(message.text)

    def _on_request(self, request) -> None:
        if not request.url.startswith(self.here):
            self.outside.append(request.url)


class FilePage(Tab):
    """A tab that is offline, for pages from files.

    A new tab costs ten times what another page in a tab does.
    """

    def __init__(self, browser: Browser, **options: object) -> None:
        super().__init__(browser, ["file:"], viewport=SIZE, offline=True, **options)

    def open(self, path: Path) -> Page:
        """Open a file and return the page."""
        self.page.goto(path.as_uri())
        return self.page

    def show(self, folder: Path, *pieces: str) -> Page:
        """Write a page of these pieces into a folder and open it."""
        path = folder / "page.html"
        path.write_text(f"{HEAD}<main>{''.join(pieces)}</main>", encoding="utf-8")
        return self.open(path)

    def start_anew(self) -> None:
        """Forget the complaints; light, on a screen, at the first size. Nothing was asked for."""
        self.page.emulate_media(media="screen", color_scheme="light")
        self.page.set_viewport_size(SIZE)
        self.page.goto("about:blank")
        assert self.outside == []
        self.problems.clear()


def pieces_of(explorers: Sequence[Explorer]) -> list[str]:
    """Return the scripts of explorers, once, and what a page holds of each.

    Their still pictures, which nobody sees in these tests and which take long to draw, are left
    out.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Explorer, "_picture", lambda self: b"")
        pages = [explorer.to_html(library=False) for explorer in explorers]
    names = [name for explorer in explorers for name in bundle.modules_of(explorer.module)]
    return [f"<script>{{{bundle.library(tuple(dict.fromkeys(names)))}}}</script>", *pages]


def read(locator: Locator, script: str) -> list:
    """Return what a function of an element gives for each element."""
    return locator.evaluate_all(f"all => all.map({script})")


def written(card: Locator, **names: object) -> dict[str, object]:
    """Return what the lines of PyTorch beside a picture give."""
    names["torch"] = torch
    exec(card.locator("pre").text_content(), names)
    return names


def close(found: object, wanted: object, most: float) -> None:
    """Fail unless numbers of a shape differ by at most so much; NaN equals NaN."""
    found, wanted = (torch.as_tensor(one, dtype=torch.float64) for one in (found, wanted))
    torch.testing.assert_close(found, wanted, atol=most, rtol=0, equal_nan=True)


def shades(numbers: torch.Tensor, low: float = 0, high: float = 1) -> list[tuple[int, ...]]:
    """Return the colours of numbers on a scale, in a hundred steps; halves go up."""
    places = (100 * (number - low) / (high - low) for number in numbers.flatten().tolist())
    return [shade(math.floor(place + 0.5) / 100) for place in places]


def wait_until(page: Page, condition: Callable[[], bool], what: str) -> None:
    """Ask until something is so; fail with its name if it never is."""
    end = time.monotonic() + LIMIT
    while not condition():
        assert time.monotonic() < end, f"{what}: not within {LIMIT} seconds"
        page.wait_for_timeout(40)


def follow(page: Page, address: str) -> None:
    """Open an address anew."""
    page.goto("about:blank")
    page.goto(address)


def address_with(page: Page, part: str) -> str:
    """Return the address of a page once it holds a text, which is written after a moment."""
    page.wait_for_function("part => location.hash.includes(part)", arg=part)
    return page.url


def cards_of(page: Page) -> list[list[str]]:
    """Return what the explorers of a page say, and what their controls say."""
    return page.locator(".card").evaluate_all(
        """cards => cards.map(card => [card.querySelector('.say').innerText,
            ...[...card.querySelectorAll('output')].map(one => one.innerText)])"""
    )


def barriers(page: Page, within: str = "html", *rules: str) -> list[tuple[str, str]]:
    """Return what axe finds: the name of its rule, and the element; rules: these alone."""
    if not page.evaluate("'axe' in window"):
        page.add_script_tag(content=AXE.read_text())
    options = {"resultTypes": ["violations"], **({"runOnly": rules} if rules else {})}
    found = page.evaluate(
        "([within, options]) => axe.run({include: [within]}, options)", [within, options]
    )
    return [(one["id"], node["html"][:80]) for one in found["violations"] for node in one["nodes"]]
