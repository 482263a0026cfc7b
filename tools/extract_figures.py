"""Write the numbered figures of the lessons into figures/, with an index.

    python -m tools.extract_figures

They are taken from the outputs stored in the notebooks: what is shown there is what is exported.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import NamedTuple

from tools.notebooks import ROOT, find_notebooks, read_notebook

FIGURES = ROOT / "figures"
INDEX = "README.md"
INTRODUCTION = """# Figures

Every numbered figure of the lessons, ready for slides. Made by `make figures` from the notebooks.

| figure | lesson | caption | alternative text |
|---|---|---|---|
"""


class Figure(NamedTuple):
    """A numbered figure as a notebook stores it."""

    number: str
    lesson: str
    caption: str
    alt: str
    png: bytes

    @property
    def file_name(self) -> str:
        """Name of the picture in figures/."""
        return f"figure_{self.number.replace('.', '_')}.png"


class FigureParser(HTMLParser):
    """Collect the parts of every ``<figure data-number=...>`` of an HTML text."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[dict[str, str]] = []
        self.inside: str | None = None

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        """Note the number of a figure and the two attributes of its picture."""
        values = dict(attributes)
        if tag == "figure" and "data-number" in values:
            self.found.append({"number": values["data-number"] or "", "caption": ""})
        elif tag == "img" and self.found and self.inside is None:
            self.found[-1] |= {"alt": values.get("alt") or "", "src": values.get("src") or ""}
        if tag in ("figcaption", "b"):
            self.inside = tag

    def handle_endtag(self, tag: str) -> None:
        """Note where a caption, or its bold part, ends."""
        if tag == "b" and self.inside == "b":
            self.inside = "figcaption"  # the bold part is the number
        elif tag == "figcaption":
            self.inside = None

    def handle_data(self, data: str) -> None:
        """Add a piece of text to the caption."""
        if self.inside == "figcaption" and self.found:
            self.found[-1]["caption"] += data


def html_outputs(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the number of the cell and the text of every stored HTML output."""
    for number, cell in enumerate(read_notebook(path).cells, start=1):
        for output in cell.get("outputs", []):
            if "text/html" in output.get("data", {}):
                yield number, output["data"]["text/html"]


def figures_of(path: Path) -> list[Figure]:
    """Return the numbered figures of a notebook, in order."""
    figures = []
    for _, text in html_outputs(path):
        parser = FigureParser()
        parser.feed(text)
        for part in parser.found:
            png = base64.b64decode(part["src"].partition(",")[2])
            caption = part["caption"].strip()
            figures.append(Figure(part["number"], path.stem, caption, part["alt"], png))
    return figures


def wanted_files(notebooks: list[Path]) -> dict[str, bytes]:
    """Return what figures/ has to hold: file names and contents."""
    figures = [figure for path in notebooks for figure in figures_of(path)]
    rows = [
        f"| [{f.number}]({f.file_name}) | [{f.lesson}](../notebooks/{f.lesson}.ipynb) "
        f"| {_cell(f.caption)} | {_cell(f.alt)} |\n"
        for f in figures
    ]
    files = {figure.file_name: figure.png for figure in figures}
    return {INDEX: (INTRODUCTION + "".join(rows)).encode(), **files}


def stale_files(folder: Path, wanted: dict[str, bytes]) -> list[str]:
    """Return in words which files of ``folder`` are missing, different or too many."""
    there = {path.name for path in folder.glob("*")} if folder.is_dir() else set()
    found = [f"{name} is missing" for name in wanted if name not in there]
    found += [f"{name} belongs to no figure" for name in sorted(there - set(wanted))]
    for name in sorted(there & set(wanted)):
        if (folder / name).read_bytes() != wanted[name]:
            found.append(f"{name} differs from the notebook")
    return found


def extract(folder: Path = FIGURES, notebooks: list[Path] | None = None) -> int:
    """Make ``folder`` hold the figures of the notebooks and nothing else; return how many."""
    wanted = wanted_files(find_notebooks() if notebooks is None else notebooks)
    folder.mkdir(exist_ok=True)
    for path in folder.glob("*"):
        if path.name not in wanted:
            path.unlink()
    for name, content in wanted.items():
        (folder / name).write_bytes(content)
    return len(wanted) - 1


def _cell(text: str) -> str:
    """Return a text that can stand in a cell of a Markdown table."""
    return text.replace("|", "\\|").replace("\n", " ")


if __name__ == "__main__":
    print(f"{extract()} figures in figures/")
