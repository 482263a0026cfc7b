"""The browser in which pages are tested, and in which the picture of the README is recorded."""

import os
import shutil

from playwright.sync_api import Browser, Playwright

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
NO_BROWSER = "No Chromium was found: install chromium, or set CHROMIUM to its path."
LIMIT = 180  # seconds: a last resort, far above what a busy computer needs


def find_browser() -> str | None:
    """Return the path of a Chromium: ``$CHROMIUM``, else the first of the usual names."""
    names = (os.environ.get("CHROMIUM", ""), *NAMES)
    return next((path for name in names if name and (path := shutil.which(name))), None)


def launch(playwright: Playwright) -> Browser:
    """Return a new headless browser; without a Chromium, the one that playwright may have."""
    options = {"executable_path": find_browser(), "timeout": 1000 * LIMIT}
    return playwright.chromium.launch(args=["--disable-gpu"], **options)
