"""A page opened from a file, in a browser that is offline."""

from pathlib import Path

from playwright.sync_api import Browser, Page


class FilePage:
    """A page of a browser that is offline; what it complains of and asks for is noted."""

    def __init__(self, browser: Browser, **options: object) -> None:
        size = {"width": 1366, "height": 900}
        self.context = browser.new_context(viewport=size, offline=True, **options)
        self.page = self.context.new_page()
        self.problems, self.outside = [], []
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))
        self.page.on("console", lambda message: self.problems.append(message.text))
        self.page.on("request", self._on_request)

    def _on_request(self, request) -> None:
        if not request.url.startswith(("file:", "data:", "blob:")):
            self.outside.append(request.url)

    def open(self, path: Path) -> Page:
        """Open a file and return the page."""
        self.page.goto(path.as_uri())
        return self.page
