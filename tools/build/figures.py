"""Write the numbered figures of the lessons into figures/, with an index that shows them.

They are taken from the outputs stored in the notebooks: what a lesson shows is what is exported.
The build of the notebooks calls ``extract``.
Titles for the index come from notebooks/texts/, from which the lessons have their captions.
"""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import NamedTuple

from nbformat import NotebookNode

from attnlab.display import texts
from attnlab.display.figure import pictures_in
from tools.build.sources import (
    ROOT,
    LessonError,
    find_notebooks,
    html_of,
    outputs_of,
    read_notebook,
    shown_in,
)

FIGURES = ROOT / "figures"
INDEX = "README.md"
KEPT = {"soft_look_up.gif"}  # what is in the folder and in no notebook
INTRODUCTION = """# Figures

Every numbered figure of the lessons, ready for slides of your own. `make notebooks` takes them
from the outputs of the lessons.
"""


class Figure(NamedTuple):
    """A numbered figure as a notebook stores it."""

    number: str
    caption: str
    alt: str
    png: bytes

    @property
    def file_name(self) -> str:
        """Name of the picture in figures/."""
        return f"figure_{self.number.replace('.', '_')}.png"


def figures_in(output: NotebookNode) -> list[Figure]:
    """Return the numbered figures of an output."""
    told = [facts for facts in shown_in(output) if facts.kind == "figure"]
    pictures = pictures_in(html_of(output)) if told else []
    if len(told) < len(pictures):
        raise LessonError(f"an output with Figure {told[0].number} holds a picture without number.")
    pairs = zip(told, pictures, strict=True)
    return [Figure(facts.number, facts.caption, facts.alt, png) for facts, png in pairs]


def figures_of(path: Path) -> list[Figure]:
    """Return the numbered figures of a notebook, in order."""
    return [figure for output in outputs_of(read_notebook(path)) for figure in figures_in(output)]


def wanted_files(notebooks: list[Path]) -> dict[str, bytes]:
    """Return what the folder has to hold: file names and contents."""
    figures = {path.stem: figures_of(path) for path in notebooks}
    return {
        INDEX: gallery(figures).encode(),
        **{figure.file_name: figure.png for ours in figures.values() for figure in ours},
    }


def gallery(figures: dict[str, list[Figure]]) -> str:
    """Return the index: under the name of each lesson its figures, with number and caption."""
    parts = [INTRODUCTION]
    for lesson, ours in figures.items():
        if ours:
            parts.append(f"## [{lesson}](../notebooks/{lesson}.ipynb)\n")
        for figure in ours:
            alt, caption = escape(" ".join(figure.alt.split())), " ".join(figure.caption.split())
            parts.append(f'<img src="{figure.file_name}" alt="{alt}" width="480">\n')
            title = texts.caption_of(figure.number).get("title", "")
            head = f"Figure {figure.number}. {escape(title, quote=False)}".rstrip()
            head += "" if head.endswith((".", "?")) else "."
            parts.append(f"**{head}** {escape(caption, quote=False)}\n")
    return "\n".join(parts)


def extract(folder: Path = FIGURES, notebooks: list[Path] | None = None) -> int:
    """Make ``folder`` hold the figures of the notebooks and nothing else; return how many."""
    wanted = wanted_files(find_notebooks() if notebooks is None else notebooks)
    folder.mkdir(exist_ok=True)
    for path in folder.glob("*"):
        if path.name not in KEPT.union(wanted):
            path.unlink()
    for name, content in wanted.items():
        (folder / name).write_bytes(content)
    return len(wanted) - 1
