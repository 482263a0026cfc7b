"""The index of the site's search: a script of all texts, since a page from a folder may load one.

Searching itself, in ``site_template/search.js``, is the browser's.
"""

from __future__ import annotations

import json
from html.parser import HTMLParser
from typing import NamedTuple

HEADINGS = {"h1", "h2", "h3", "h4"}
BLOCKS = {
    *HEADINGS,
    "p",
    "li",
    "dt",
    "dd",
    "td",
    "th",
    "pre",
    "div",
    "br",
}  # words do not go on across these
LEFT_OUT = {"details", "script", "style", "nav"}  # what is folded stays a surprise
OUTPUTS = {"shown", "out"}  # classes


class Section(NamedTuple):
    """A heading, its place in the page and the text up to the next heading."""

    place: str
    heading: str
    text: str


class _Reader(HTMLParser):
    """Collect the sections of a page: what ``main`` holds, but neither folds nor outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.sections: list[tuple[str, list[str], list[str]]] = []
        self.inside = False  # of main
        self.in_heading = False
        self.skipped, self.depth = "", 0  # the element that is being left out

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        values = dict(attributes)
        self.inside |= tag == "main"
        if self.skipped:
            self.depth += tag == self.skipped
        elif tag in LEFT_OUT or OUTPUTS & set((values.get("class") or "").split()):
            self.skipped, self.depth = tag, 1
        elif tag in HEADINGS and self.inside:
            self.sections.append((values.get("id") or "", [], []))
            self.in_heading = True
        elif tag in BLOCKS:
            self.handle_data(" ")

    def handle_endtag(self, tag: str) -> None:
        self.inside &= tag != "main"
        self.in_heading &= tag not in HEADINGS
        if tag == self.skipped:
            self.depth -= 1
            if not self.depth:
                self.skipped = ""

    def handle_data(self, data: str) -> None:
        if self.inside and self.sections and not self.skipped:
            _, heading, text = self.sections[-1]
            (heading if self.in_heading else text).append(data)


def sections_of(page: str) -> list[Section]:
    """Return the sections of a page.

    Examples
    --------
    >>> sections_of("<main><h2 id='a'>One</h2><p>Two <b>three</b>.</p></main>")
    [Section(place='a', heading='One', text='Two three.')]
    """
    reader = _Reader()
    reader.feed(page)
    reader.close()
    return [
        Section(place, *(" ".join("".join(pieces).split()) for pieces in (heading, text)))
        for place, heading, text in reader.sections
    ]


def index_script(pages: dict[str, str]) -> str:
    """Return the script that holds the texts of pages; ``pages`` are their HTML by file name."""
    index = [[name, sections_of(page)] for name, page in pages.items()]
    return f"const SEARCH_INDEX = {json.dumps(index, ensure_ascii=False, separators=(',', ':'))};\n"
