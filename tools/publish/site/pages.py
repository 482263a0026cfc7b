"""Write all lessons as web pages into site/: `make site`.

make site                    for everybody: solutions are folded, notes for teachers left out
make site FOR=teachers       with the notes for teachers
make site SOLUTIONS=no       without solutions
make site URL=https://...    for this address, which links that are shared then name

The pages are made from the notebooks as they are stored; those with live figures are executed once
more, for the pictures at all other stops of their controls. Each page is a single file with its
figures, style and script, which makes no request and opens from a folder; only the index of the
search, the notebooks to download, the figures for shared links and the trained model, which reads
sentences of one's own, are files of their own. The same notebooks give the same bytes.

They are made by nbconvert with templates of our own, since generators of books fetch a part of
each page from elsewhere: Jupyter Book 1 the formulas, MyST its theme.
"""

from __future__ import annotations

import argparse
import base64
import io
import json
import re
import tempfile
from collections.abc import Callable, Set
from pathlib import Path
from typing import NamedTuple

import nbformat
from nbconvert.exporters import TemplateExporter
from nbconvert.filters.highlight import Highlight2HTML
from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell, new_notebook
from PIL import Image

from attnlab import palette
from attnlab.explorers import SoftLookupExplorer
from attnlab.explorers.frame.base import few_colours
from tools.publish.site.api import API, write_api
from tools.publish.frames import Frames, frames_of, moving
from tools.publish.site.html import Prose, SiteError, meanings_of, rewrite
from tools.publish.site.model import model_scripts, reads_sentences
from tools.publish.site.search import index_script
from tools.build.figures import Figure, figures_of
from tools.build.sources import (
    GLOSSARY,
    ROOT,
    find_notebooks,
    is_folded,
    is_lesson,
    read_notebook,
    replace_passages,
    tags,
    write_notebook,
)
from tools.publish.student import student_copy

SITE = ROOT / "site"
TEMPLATES = Path(__file__).with_name("template")
INDEX = "index.html"
SEARCH = "search_index.js"
TITLE = re.compile(r"\s*# (?:(?P<number>\d+) · )?(?P<title>[^\n]+)\n*(?P<rest>.*)", re.DOTALL)
TIME = re.compile(r"\*\*Time:\*\*(?P<time>[^<]+?\.)(?=\s|$)")  # its first sentence
ROW = r"\| \[[^]]*\]\(notebooks/{}\.ipynb\) \| (?P<about>[^|]*?) \|"  # of a lesson in the README
SENTENCE = re.compile(r".*?(?:[.?](?=\s|$)|$)", re.DOTALL)
HERO = "0.1"  # the figure that a shared link to the index shows
# What a lesson says of `make` and of packages, from these words to the end of their cell.
PASSAGES = {
    "There are three ways to use the series.": "To run and change the lessons, type `make lab` in "
    "the folder of attnlab.",
    "### If a package is missing": "",
}
PACKAGES = "missing"  # the cell that lists them
THUMBNAIL = (396, 288)  # pixels, of the first figure of a lesson, on its card
FOR_ALL = frozenset({"teacher"})  # tags of the cells that only teachers see
# Files of lessons that may be gone, and of what only one of the two variants has.
OLD = ("[0-9][0-9]_*.html", "[0-9][0-9]_*.js", "figure_*.png", "teaching.*")
SECTIONS = (2, 3)  # levels of headings in the table of contents
PLANS = "## Plans of the lessons"
WORD = re.compile(rf'<a href="{GLOSSARY}\.html#([^"]+)">')


class Card(NamedTuple):
    """What the index and the neighbouring lessons say about a lesson."""

    stem: str
    number: str
    title: str
    blurb: str
    about: str  # the same in a few words
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
    parts = TITLE.match(cells[0].source)
    if parts is None:
        raise SiteError(f"{path.name} does not begin with a title, such as '# 1 · Attention'.")
    time, blurb = TIME.search(cells[0].source), parts["rest"].partition("**You need")[0].strip()
    return Card(
        path.stem,
        parts["number"] or "",
        parts["title"].strip(),
        blurb,
        about(path.stem) or SENTENCE.match(blurb)[0],
        time["time"].strip() if time else "",
        sum(cell.source.startswith("predict(") for cell in cells),
    )


def about(stem: str) -> str:
    """Return what the table of the README says a lesson is about, as a sentence, or nothing."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    row = re.search(ROW.format(re.escape(stem)), readme)
    return f"{row['about'][0].upper()}{row['about'][1:]}." if row else ""


def to_read(lesson: NotebookNode) -> NotebookNode:
    """Return a lesson without what only somebody who runs it needs to know."""
    copy = nbformat.from_dict(lesson)
    replace_passages(copy, PASSAGES)
    copy.cells = [cell for cell in copy.cells if cell.get("id") != PACKAGES]
    return copy


def thumbnail(figure: Figure) -> str:
    """Return a small picture of a figure, as the text of an address."""
    with Image.open(io.BytesIO(figure.png)) as picture:
        small = picture.convert("RGB")
    small.thumbnail(THUMBNAIL)
    return f"data:image/png;base64,{base64.b64encode(few_colours(small)).decode()}"


def links_of(stems: list[str], lesson: str) -> Callable[[str], str]:
    """Return a function that says where a link of a lesson leads on a site with these pages."""

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


class PageExporter(TemplateExporter):
    """nbconvert with the templates of ``template/``, which show a notebook as it is stored.

    ``left_out`` are the tags of cells that are not shown: "teacher", "solution" or both.
    ``address`` is where the site will lie, if that is known, with a slash at its end.
    """

    file_extension = ".html"

    def __init__(self, left_out: Set[str] = FOR_ALL, address: str = "") -> None:
        self.left_out = left_out
        self.previews: dict[str, Figure] = {}  # the figures that shared links show, by page
        self.meanings: dict[str, str] = {}  # of the words of the glossary
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
            address=address,
            colours="; ".join(
                f"--{name}: light-dark({role.light}, {role.dark})"
                for name, role in palette.ROLES.items()
            ),
            tints=[palette.to_hex(palette.shade(weight)) for weight in (0.15, 0.5, 0.85)],
            style=asset("site.css"),
            early="\n".join(asset(name) for name in ("settings.js", "address.js")),
            reader="\n".join(asset(f"{name}.js") for name in ("spelling", "encoder", "reader")),
            script="\n".join(asset(f"{name}.js") for name in ("site", "search")),
        )
        self.register_filter("code", Highlight2HTML(pygments_lexer="python"))
        self.environment.tests.update(folded=is_folded, reading=reads_sentences)

    def lesson(self, path: Path, cards: list[Card], figures: Frames | None = None) -> str:
        """Return the page of a lesson, among those of all ``cards``."""
        links = links_of([card.stem for card in cards], path.name)
        prose = Prose(links)

        def shown(html: str) -> str:
            return rewrite(html, links)

        def stored(html: str) -> str:
            is_live = figures and html in figures
            return moving(html, figures[html], shown) if is_live else shown(html)

        self.register_filter("prose", prose.to_html)
        self.register_filter("stored", stored)
        # the template asks for both when it has been through the cells
        self.environment.globals.update(
            contents=lambda: [one for one in prose.headings if one.level in SECTIONS],
            meanings=lambda page: {
                place: self.meanings[place]
                for place in WORD.findall(page)
                if place in self.meanings
            },
        )
        card = next(card for card in cards if card.stem == path.stem)
        series = [one for one in cards if one.number]
        here = series.index(card) if card.number else len(series)
        resources = {
            "card": card,
            "cards": cards,
            "before": series[:here][-1:] if card.number else [],  # the glossary has no neighbours
            "after": series[here + 1 :][:1],
            "preview": self.previews.get(card.page),
        }
        page, _ = self.from_notebook_node(to_read(self.edition(path)), resources)
        return page

    def edition(self, path: Path) -> NotebookNode:
        """Return a lesson without the cells that are left out."""
        return student_copy(read_notebook(path), self.left_out)

    def index(self, cards: list[Card]) -> str:
        """Return the page that leads to all lessons."""
        links = links_of([card.stem for card in cards], INDEX)
        self.register_filter("prose", Prose(links).to_html)
        template = self.environment.get_template("front.html.j2")
        return template.render(
            cards=cards,
            lessons=[card for card in cards if card.number],
            explorer=SoftLookupExplorer(ask=False).to_html(),
            thumbnails={page: thumbnail(figure) for page, figure in self.previews.items()},
            page=INDEX,
            preview=self.previews.get(INDEX),
        )


def pages(
    paths: list[Path],
    frames: Callable[[Path], Frames | None] = lambda path: None,
    left_out: Set[str] = FOR_ALL,
    address: str = "",
) -> dict[str, str | bytes]:
    """Return the files of the site by name: pages, notebooks, pictures, and both indices.

    Without ``frames``, which executes them, live figures stay pictures.
    """
    exporter = PageExporter(left_out, address)
    cards = [card_of(path) for path in paths]
    if glossary := [path for path in paths if path.stem == GLOSSARY]:
        exporter.meanings = meanings_of(exporter.lesson(*glossary, cards))
    figures = {page_name(path.stem): figures_of(path) for path in paths}
    hero = next((one for ours in figures.values() for one in ours if one.number == HERO), None)
    exporter.previews = {page: ours[0] for page, ours in figures.items() if ours}
    exporter.previews |= {INDEX: hero} if hero else {}
    lessons = {page_name(one.stem): exporter.lesson(one, cards, frames(one)) for one in paths}
    notebooks = {
        f"{path.name}.js": notebook_script(exporter.edition(path))
        for path in paths
        if path.stem != API
    }
    search = {SEARCH: index_script(lessons)}
    shared = {one.file_name: one.png for one in exporter.previews.values()}
    model = model_scripts() if any(map(reads_sentences, lessons.values())) else {}
    return {INDEX: exporter.index(cards), **lessons, **notebooks, **search, **shared, **model}


def notebook_script(notebook: NotebookNode) -> str:
    """Return the script that hands a notebook to a reader; a link from a folder would show it."""
    return f"saveNotebook({json.dumps(nbformat.writes(notebook), ensure_ascii=False)});\n"


def write_page(folder: Path, lessons: list[Path]) -> Path:
    """Write the page for teachers, TEACHING.md and the notes of all lessons, as a notebook."""
    parts = [(ROOT / "TEACHING.md").read_text(encoding="utf-8").rstrip(), PLANS]
    for path in filter(is_lesson, lessons):
        cells = read_notebook(path).cells
        title = cells[0].source.partition("\n")[0].lstrip("# ")
        parts.append(f"### [{title}]({path.name})")
        parts += [cell.source for cell in cells if "teacher" in tags(cell)]
    page = folder / "teaching.ipynb"
    write_notebook(new_notebook(cells=[new_markdown_cell(part) for part in parts]), page)
    return page


def write_site(folder: Path, notebooks: list[Path], **options: object) -> dict[str, int]:
    """Write the files of ``pages`` into a folder; return their names and sizes in bytes.

    SiteError is raised before anything is written.
    """
    return write_pages(folder, pages(notebooks, **options))


def write_pages(folder: Path, made: dict[str, str | bytes]) -> dict[str, int]:
    """Write files into a folder and delete those of lessons that are gone; return their sizes."""
    folder.mkdir(exist_ok=True)
    for old in (path for kind in OLD for path in folder.glob(kind)):
        if old.name not in made:
            old.unlink()
    sizes = {}
    for name, page in made.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)  # the model has a folder of its own
        sizes[name] = path.write_bytes(page if isinstance(page, bytes) else page.encode())
    return sizes


def address_from(text: str) -> str:
    """Return an address with a slash at its end, as the command line gives it."""
    if text and not re.fullmatch(r"https?://[^\s\"<>?#]+", text):
        message = f"URL must look like https://example.org/attnlab, got {text!r}."
        raise argparse.ArgumentTypeError(message)
    return f"{text.rstrip('/')}/" if text else ""


def frames_with_progress(path: Path) -> Frames:
    """Return all pictures of a lesson's live figures, and print how many there are."""
    figures = frames_of(path)
    count = sum(len(figure["data"]["frames"]) for figure in figures.values())
    print(f"{path.stem}: {len(figures)} live figures, {count} pictures", flush=True)
    return figures


def main() -> None:
    """Write the pages that the command line asks for and say where they are."""
    parser = argparse.ArgumentParser(prog="tools.publish.site")
    parser.add_argument("--for", dest="readers", choices=["all", "teachers"], default="all")
    parser.add_argument("--solutions", choices=["yes", "no"], default="yes")
    parser.add_argument("--url", dest="address", type=address_from, default="")
    asked = parser.parse_args()
    left_out = FOR_ALL if asked.readers == "all" else frozenset()
    if asked.solutions == "no":
        left_out |= {"solution"}
    with tempfile.TemporaryDirectory() as folder:
        notebooks = find_notebooks()
        if asked.readers == "teachers":
            notebooks.append(write_page(Path(folder), notebooks))
        notebooks.append(write_api(Path(folder)))
        options = {"left_out": left_out, "address": asked.address}
        sizes = write_site(SITE, notebooks, frames=frames_with_progress, **options)
    count = sum(name.endswith(".html") for name in sizes)
    megabytes = sum(sizes.values()) / 1e6
    print(f"{SITE.name}/ holds {count} pages, {megabytes:.1f} MB. Open {SITE.name}/{INDEX}.")
