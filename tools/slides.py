"""Write slides of all lessons into slides/: `make slides`.

The slides are made from the notebooks as they are stored, by a few rules. A heading begins a slide,
and so does a figure. What is folded in a lesson, such as the answer to a prediction, is on the next
slide. Code is shown where what it gives is text. The notes for teachers are the notes of the first
slide, and sections that a class does not look at together are left out. How much text there is room
for on a slide is measured in the browser, by ``site_template/slides.js``.

Each deck is a single file that makes no request and opens from a folder, as pages of the site do.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path

from nbformat import NotebookNode

from tools._site_frames import Frames
from tools.notebooks import (
    ROOT,
    find_notebooks,
    html_of,
    is_folded,
    is_lesson,
    read_notebook,
    tags,
)
from tools.site import (
    INDEX,
    Card,
    PageExporter,
    asset,
    card_of,
    frames_with_progress,
    page_name,
    write_pages,
)

SLIDES = ROOT / "slides"
REVEAL = files("pyreveal") / "revealjs" / "dist"  # the package carries reveal.js
LEFT_OUT = {"Exercises", "Sources", "Next"}  # sections
FOLDS = {  # what stands on a fold, and the heading of its slide
    "What happens? Predict first, then open.": "What happens",
    "Show the answer": "The answer",
}
SECTION = re.compile(r"## (?P<title>.+)")
FIGURES = ("<img", 'class="attnlab-explorer"')  # in the HTML of an output


def deck_of(lesson: NotebookNode) -> NotebookNode:
    """Return a lesson without solutions and without the sections that are left out."""
    section, cells = "", []
    for cell in lesson.cells:
        if cell.cell_type == "markdown" and (heading := SECTION.match(cell.source)):
            section = heading["title"]
        if "teacher" in tags(cell) or ("solution" not in tags(cell) and section not in LEFT_OUT):
            cells.append(cell)
    return NotebookNode({**lesson, "cells": cells})


def code_of(cell: NotebookNode) -> list[str]:
    """Return the code of a cell that is neither aside nor about a figure, in pieces for slides."""
    aside = "lesson_setup()" in cell.source or cell.source.startswith("predict(")
    html = "".join(map(html_of, cell.outputs))
    if is_folded(cell) or aside or any(figure in html for figure in FIGURES):
        return []
    code = re.sub(r"^%%answer.*\n", "", cell.source)
    return re.split(r"\n\n+(?=\S)", code)


class SlidesExporter(PageExporter):
    """nbconvert with the template of slides."""

    def __init__(self) -> None:
        super().__init__()
        self.template_file = "slides.html.j2"
        self.register_filter("code_of", code_of)
        self.environment.globals.update(
            style="\n".join([read_reveal("reveal.css"), asset("site.css"), asset("slides.css")]),
            early=asset("settings.js"),
            library="\n".join(read_reveal(name) for name in ("reveal.js", "plugin/notes.js")),
            script=asset("slides.js"),
        )

    def lesson(self, path: Path, cards: list[Card], figures: Frames | None = None) -> str:
        """Return the slides of a lesson; the arguments are those of a page."""
        page = super().lesson(path, cards, figures)
        for words, heading in FOLDS.items():
            page = page.replace(f">{words}</summary>", f">{heading}</summary>")
        return page

    def edition(self, path: Path) -> NotebookNode:
        """Return what the slides of a lesson show."""
        return deck_of(read_notebook(path))


def read_reveal(name: str) -> str:
    """Return a file of reveal.js."""
    return (REVEAL / name).read_text(encoding="utf-8")


def write_slides(
    folder: Path,
    notebooks: list[Path],
    frames: Callable[[Path], Frames | None] = lambda path: None,
) -> dict[str, int]:
    """Write the slides of lessons and their index into ``folder``; return names and sizes."""
    exporter, cards = SlidesExporter(), [card_of(path) for path in notebooks]
    lessons = filter(is_lesson, notebooks)
    decks = {page_name(one.stem): exporter.lesson(one, cards, frames(one)) for one in lessons}
    index = PageExporter().environment.get_template("slides_index.html.j2")
    front = index.render(cards=[card for card in cards if card.number])
    return write_pages(folder, {INDEX: front, **decks})


def main() -> None:
    """Write the slides and say where they are."""
    sizes = write_slides(SLIDES, find_notebooks(), frames_with_progress)
    megabytes = sum(sizes.values()) / 1e6
    count = len(sizes) - 1
    print(f"{SLIDES.name}/ holds the slides of {count} lessons, {megabytes:.1f} MB.")
    print(f"Open {SLIDES.name}/{INDEX}.")


if __name__ == "__main__":
    main()
