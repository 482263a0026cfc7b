"""Write all lessons as web pages into site/: `make site`.

make site                    for everybody: solutions are folded, notes for teachers left out
make site FOR=teachers       with the notes for teachers
make site SOLUTIONS=no       without solutions

The pages are made from the notebooks as they are stored; those with live figures are executed once
more, for the pictures at all other stops of their controls. Each page is a single file with its
figures, style and script, which makes no request and opens from a folder; only the index of the
search, the notebooks to download and the trained model, which reads sentences of one's own, are
files of their own. The same notebooks give the same bytes.
"""

from __future__ import annotations

import argparse
import base64
import json
import re
import sys
from collections.abc import Callable, Set
from pathlib import Path
from typing import NamedTuple

import nbformat
from nbconvert.exporters import TemplateExporter
from nbconvert.filters.highlight import Highlight2HTML
from nbformat import NotebookNode

from attnlab import palette
from tools._site_frames import Frames, frames_of, script_of
from tools._site_html import Prose, SiteError, rewrite
from tools._site_model import model_scripts, reads_sentences
from tools._site_search import index_script
from tools.extract_figures import Figure, figures_of
from tools.notebooks import ROOT, find_notebooks, read_notebook, tags
from tools.student import student_copy

SITE = ROOT / "site"
TEMPLATES = Path(__file__).with_name("site_template")
INDEX = "index.html"
SEARCH = "search_index.js"
TITLE = re.compile(r"\s*# (?:(?P<number>\d+) · )?(?P<title>[^\n]+)\n*(?P<rest>.*)", re.DOTALL)
TIME = re.compile(r"\*\*Time:\*\*(?P<time>[^<]+?\.)(?=\s|$)")  # its first sentence
HERO = "0.2"  # the figure at the top of the index
FOR_ALL = frozenset({"teacher"})  # tags of the cells that only teachers see
SECTIONS = (2, 3)  # levels of headings in the table of contents


class Card(NamedTuple):
    """What the index and the neighbouring lessons say about a lesson."""

    stem: str
    number: str
    title: str
    blurb: str
    time: str
    asked: int  # predictions

    @property
    def page(self) -> str:
        """The name of the page."""
        return page_name(self.stem)


# --- parts of a lesson ----------------------------------------------------------------------------


def page_name(stem: str) -> str:
    """Return the name of a lesson's page."""
    return f"{stem}.html"


def card_of(path: Path) -> Card:
    """Return what the index says about a lesson: its first cell up to what the reader needs."""
    cells = read_notebook(path).cells
    first = cells[0].source
    parts = TITLE.match(first)
    if parts is None:
        raise SiteError(f"{path.name} does not begin with a title, such as '# 1 · Attention'.")
    time = TIME.search(first)
    return Card(
        path.stem,
        parts["number"] or "",
        parts["title"].strip(),
        parts["rest"].partition("**You need")[0].strip(),
        time["time"].strip() if time else "",
        sum(cell.source.startswith("predict(") for cell in cells),
    )


def fold_of(cell: NotebookNode) -> str:
    """Return the words on a folded source; nothing if it is not folded."""
    if not cell.metadata.get("jupyter", {}).get("source_hidden"):
        return ""
    return "A solution" if "solution" in tags(cell) else "The code of this cell"


def links_of(stems: list[str], lesson: str) -> Callable[[str], str]:
    """Return a function that says where a link of a lesson leads on the site.

    It raises SiteError if a link leads to something that the site does not hold. ``stems`` are the
    lessons that become pages, and ``lesson`` is the name that the message gives.
    """

    def page_of(href: str) -> str:
        if re.match(r"#|https?:|mailto:", href):
            return href
        name, mark, place = href.partition("#")
        stem = name.removesuffix(".ipynb")
        if stem not in stems:
            raise SiteError(f"{lesson} links to {href!r}, which is not on the site.")
        return f"{page_name(stem)}{mark}{place}"

    return page_of


# --- pages ----------------------------------------------------------------------------------------


def asset(name: str) -> str:
    """Return a style sheet or script of the template."""
    return (TEMPLATES / name).read_text(encoding="utf-8").strip()


def colours() -> str:
    """Return the colours of the palette as CSS custom properties that follow the theme."""
    return "; ".join(
        f"--{name}: light-dark({role.light}, {role.dark})" for name, role in palette.ROLES.items()
    )


class PageExporter(TemplateExporter):
    """nbconvert with the templates of ``site_template/``, which show a notebook as it is stored.

    ``left_out`` are the tags of cells that are not shown: "teacher", "solution" or both.
    """

    file_extension = ".html"

    def __init__(self, left_out: Set[str] = FOR_ALL) -> None:
        self.left_out = left_out
        folder = [str(TEMPLATES.parent)]
        super().__init__(
            extra_template_basedirs=folder,
            template_name=TEMPLATES.name,
            template_file="lesson.html.j2",
            default_preprocessors=[],  # notebooks are shown as they are stored
        )
        self.environment.trim_blocks = self.environment.lstrip_blocks = True
        self.environment.globals.update(
            solutions="solution" not in left_out,
            colours=colours(),
            tints=[palette.to_hex(palette.shade(weight)) for weight in (0.15, 0.5, 0.85)],
            style=asset("site.css"),
            settings=asset("settings.js"),
            reader="\n".join(asset(f"{name}.js") for name in ("spelling", "encoder", "reader")),
            script=f"{asset('site.js')}\n{asset('search.js')}",
        )
        self.register_filter("code", Highlight2HTML(pygments_lexer="python"))
        self.register_filter("fold", fold_of)
        self.environment.tests["reading"] = reads_sentences

    def lesson(self, path: Path, cards: list[Card], figures: Frames | None = None) -> str:
        """Return the page of a lesson.

        ``cards`` are those of all lessons, and ``figures`` holds all pictures of live figures, by
        their stored HTML.
        """
        links = links_of([card.stem for card in cards], path.name)
        prose = Prose(links)
        self.register_filter("prose", prose.to_html)
        self.register_filter("stored", lambda html: _stored(html, links, figures or {}))
        # the template asks for the contents when it has been through the cells
        self.environment.globals["contents"] = lambda: [
            heading for heading in prose.headings if heading.level in SECTIONS
        ]
        card = next(card for card in cards if card.stem == path.stem)
        resources = {"card": card, "cards": cards, "before": [], "after": []}
        if card.number:  # the glossary has none, and no neighbours
            series = [one for one in cards if one.number]
            here = series.index(card)
            resources |= {"before": series[:here][-1:], "after": series[here + 1 :][:1]}
        page, _ = self.from_notebook_node(self.edition(path), resources)
        return page

    def edition(self, path: Path) -> NotebookNode:
        """Return a lesson without the cells that are left out."""
        return student_copy(read_notebook(path), self.left_out)

    def index(self, cards: list[Card], hero: Figure | None) -> str:
        """Return the page that leads to all lessons."""
        links = links_of([card.stem for card in cards], INDEX)
        self.register_filter("prose", Prose(links).to_html)
        template = self.environment.get_template("front.html.j2")
        picture = "" if hero is None else base64.b64encode(hero.png).decode()
        return template.render(cards=cards, hero=hero, picture=picture)


def notebook_script(notebook: NotebookNode) -> str:
    """Return the script that hands a notebook to a reader; a link from a folder would show it."""
    return f"saveNotebook({json.dumps(nbformat.writes(notebook), ensure_ascii=False)});\n"


def _stored(html: str, links: Callable[[str], str], figures: Frames) -> str:
    """Return HTML that a notebook stores as a page shows it: live figures move."""
    page = rewrite(html, links)
    if html in figures:
        page += script_of(figures[html], lambda sentence: rewrite(sentence, links))
    return page


def pages(
    paths: list[Path],
    frames: Callable[[Path], Frames] | None = None,
    left_out: Set[str] = FOR_ALL,
) -> dict[str, str]:
    """Return the files of the site by name: pages and notebooks of lessons, and both indices.

    Without ``frames``, which executes them, live figures stay pictures.
    """
    exporter = PageExporter(left_out)
    cards = [card_of(path) for path in paths]
    hero = next((one for path in paths for one in figures_of(path) if one.number == HERO), None)
    lessons = {
        page_name(path.stem): exporter.lesson(path, cards, frames(path) if frames else None)
        for path in paths
    }
    notebooks = {f"{path.name}.js": notebook_script(exporter.edition(path)) for path in paths}
    search = {SEARCH: index_script(lessons)}
    model = model_scripts() if any(map(reads_sentences, lessons.values())) else {}
    return {INDEX: exporter.index(cards, hero), **lessons, **notebooks, **search, **model}


def write_site(
    folder: Path = SITE,
    notebooks: list[Path] | None = None,
    frames: Callable[[Path], Frames] | None = None,
    left_out: Set[str] = FOR_ALL,
) -> dict[str, int]:
    """Write the pages of all lessons into ``folder``; return their names and sizes in bytes.

    Without ``frames``, live figures stay pictures. Pages and notebooks of lessons that are gone are
    deleted, and other files stay. SiteError is raised before anything is written if a lesson, one
    of its links or one of its formulas cannot be shown.
    """
    made = pages(find_notebooks() if notebooks is None else notebooks, frames, left_out)
    folder.mkdir(exist_ok=True)
    for old in folder.glob("[0-9][0-9]_*"):
        if old.suffix in (".html", ".js") and old.name not in made:
            old.unlink()
    sizes = {}
    for name, page in made.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)  # the model has a folder of its own
        sizes[name] = path.write_bytes(page.encode())
    return sizes


def _frames_with_progress(path: Path) -> Frames:
    figures = frames_of(path)
    count = sum(len(figure["frames"]) for figure in figures.values())
    print(f"{path.stem}: {len(figures)} live figures, {count} pictures", flush=True)
    return figures


def main() -> None:
    """Write the pages that the command line asks for and say where they are."""
    parser = argparse.ArgumentParser(prog="tools.site")
    parser.add_argument("--for", dest="readers", choices=["all", "teachers"], default="all")
    parser.add_argument("--solutions", choices=["yes", "no"], default="yes")
    asked = parser.parse_args()
    left_out = FOR_ALL if asked.readers == "all" else frozenset()
    if asked.solutions == "no":
        left_out |= {"solution"}
    try:
        sizes = write_site(frames=_frames_with_progress, left_out=left_out)
    except SiteError as error:
        sys.exit(str(error))
    count = sum(name.endswith(".html") for name in sizes)
    megabytes = sum(sizes.values()) / 1e6
    print(f"{SITE.name}/ holds {count} pages, {megabytes:.1f} MB. Open {SITE.name}/{INDEX}.")


if __name__ == "__main__":
    main()
