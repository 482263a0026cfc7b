"""The index of the site's search: a script of all texts, since a page from a folder may load one.

Searching itself is the browser's, by MiniSearch and ``template/search.js``.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import NamedTuple

from bs4 import BeautifulSoup, NavigableString

HEADINGS = ["h1", "h2", "h3", "h4"]
BLOCKS = [*HEADINGS, "p", "li", "dt", "dd", "td", "th", "pre", "div", "br"]  # between words
LIBRARY = Path(__file__).parent / "template" / "vendor" / "minisearch.js"
ANSWERS = "details.attnlab-answer"  # of predictions: found by their words, never shown
# Other folds, outputs, the code of predictions, and what stands on every page.
LEFT_OUT = (
    f"details:not({ANSWERS}), script, style, nav, .shown, .out, .start, .get, .note, "
    ".cell:has(.attnlab-predict-stored) > .highlight"
)
MAGIC = re.compile(r"%%answer \S+")  # of a cell whose output is folded


class Section(NamedTuple):
    """A heading, its place in the page, the text up to the next heading and the folded answers."""

    place: str
    heading: str
    text: str
    answers: str


def sections_of(page: str) -> list[Section]:
    """Return the sections of a page, without outputs and without folds but the answers."""
    main = BeautifulSoup(page, "html.parser").main
    for part in main.select(LEFT_OUT):
        part.decompose()
    sections: list[tuple[str, str, list[str], list[str]]] = []
    for node in main.descendants:
        if node.name in HEADINGS:
            sections.append((node.get("id", ""), node.get_text(), [], []))
        elif sections and (node.name in BLOCKS or isinstance(node, NavigableString)):
            if not node.find_parent(HEADINGS):
                words = sections[-1][3 if node.find_parent(class_="attnlab-answer") else 2]
                words.append(" " if node.name in BLOCKS else node)
    return [
        Section(place, *(" ".join(MAGIC.sub("", "".join(part)).split()) for part in parts))
        for place, *parts in sections
    ]


def index_script(pages: dict[str, str]) -> str:
    """Return the script that searches the texts of pages; ``pages`` are their HTML by file name."""
    index = [[name, sections_of(page)] for name, page in pages.items()]
    texts = json.dumps(index, ensure_ascii=False, separators=(",", ":"))
    return f"{LIBRARY.read_text(encoding='utf-8')}\nconst SEARCH_INDEX = {texts};\n"
