"""Write all lessons as web pages into site/: `make site`.

make site                    for everybody: solutions are folded, notes for teachers left out
make site FOR=teachers       with the notes for teachers
make site SOLUTIONS=no       without solutions
make site URL=https://...    for this address, which links that are shared then name
make site REPO=https://...   attnlab can be got there; without it, from where git cloned this folder

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
import itertools
import json
import re
import tempfile
from collections.abc import Callable, Sequence, Set
from pathlib import Path
from typing import NamedTuple

import nbformat
from nbconvert.exporters import TemplateExporter
from nbconvert.filters.highlight import Highlight2HTML
from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell, new_notebook
from PIL import Image

from attnlab import palette
from attnlab.display.browser import pointing_script
from attnlab.exercises.predict import page_parts
from attnlab.explorers import SoftLookupExplorer
from attnlab.explorers.frame import few_colours, to_json
from tools.build.figures import Figure, figures_of
from tools.build.sources import (
    GLOSSARY,
    ROOT,
    facts_of,
    find_notebooks,
    html_of,
    is_folded,
    is_lesson,
    outputs_of,
    read_notebook,
    shown_in,
    tags,
    write_notebook,
)
from tools.publish.colab import first_cell
from tools.publish.editions import edition
from tools.publish.frames import Frames, frames_of, moving
from tools.publish.repository import Repository, own_repository, repository_at
from tools.publish.site.api import API, write_api
from tools.publish.site.html import Prose, SiteError, is_check, meanings_of, mistakes, rewrite
from tools.publish.site.model import model_scripts, reads_sentences
from tools.publish.site.search import index_script
from tools.publish.student import leave_out

SITE = ROOT / "site"
TEMPLATES = Path(__file__).with_name("template")
INDEX = "index.html"
SEARCH = "search_index.js"
HERO = "0.1"  # the figure that a shared link to the index shows
THUMBNAIL = (396, 288)  # pixels, of the first figure of a lesson, on its card
FOR_ALL = frozenset({"teacher"})  # tags of the cells that only teachers see
# Files of lessons that may be gone, and of what only one of the two variants has.
OLD = ("[0-9][0-9]_*.html", "[0-9][0-9]_*.js", "figure_*.png", "teaching.*")
SECTIONS = (2, 3)  # levels of headings in the table of contents
PLANS = "## Plans of the lessons"


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
    heading, _, rest = cells[0].source.strip().partition("\n")
    if not heading.startswith("# "):
        raise SiteError(f"{path.name} does not begin with a title, such as '# 1 · Attention'.")
    number, _, title = heading.removeprefix("# ").rpartition(" · ")
    blurb = rest.partition("**You need")[0].strip()
    time = cells[0].source.partition("**Time:**")[2]
    return Card(
        path.stem,
        number,
        title,
        blurb,
        about(path.stem) or _first_sentence(blurb),
        _first_sentence(time.strip()),
        sum(cell.source.startswith("predict(") for cell in cells),
    )


def about(stem: str) -> str:
    """Return the question that a lesson answers, from the table of the README, or nothing."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    rows = [line.split("|") for line in readme.splitlines() if f"(notebooks/{stem}.ipynb)" in line]
    told = [row[3].strip() for row in rows if len(row) > 4]  # in the table, not in the text
    return told[0] if told else ""


def _first_sentence(text: str) -> str:
    """Return a text up to its first full stop or question mark at the end of a word."""
    words = " ".join(text.split()).split(" ")
    last = next((i for i, word in enumerate(words) if word.endswith((".", "?"))), len(words))
    return " ".join(words[: last + 1])


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
    ``address`` is where the site will lie, if that is known, with a slash at its end, and
    ``repository`` is where readers get attnlab.
    """

    file_extension = ".html"

    def __init__(
        self,
        left_out: Set[str] = FOR_ALL,
        address: str = "",
        repository: Repository | None = None,
    ) -> None:
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
        predicting, predictions = page_parts()
        self.environment.trim_blocks = self.environment.lstrip_blocks = True
        self.environment.globals.update(
            solutions="solution" not in left_out,
            address=address,
            repository=repository,
            first_cell=first_cell,
            colours="; ".join(
                f"--{name}: light-dark({role.light}, {role.dark})"
                for name, role in palette.ROLES.items()
            ),
            tints=[palette.to_hex(palette.shade(weight)) for weight in (0.15, 0.5, 0.85)],
            style="\n".join([predictions, asset("site.css")]),
            early="\n".join(asset(name) for name in ("settings.js", "address.js")),
            reader="\n".join(asset(f"{name}.js") for name in ("spelling", "encoder", "reader")),
            script="\n".join([predicting, pointing_script(), asset("site.js"), asset("search.js")]),
        )
        self.register_filter("code", Highlight2HTML(pygments_lexer="python"))
        self.register_filter("mistakes", mistakes)
        self.environment.tests.update(folded=is_folded, reading=reads_sentences, check=is_check)

    def lesson(self, path: Path, cards: list[Card], figures: Frames | None = None) -> str:
        """Return the page of a lesson, among those of all ``cards``."""
        page_of, used = links_of([card.stem for card in cards], path.name), []

        def links(href: str) -> str:
            page, _, place = page_of(href).partition("#")
            used.extend([place] if page == page_name(GLOSSARY) else [])
            return page_of(href)

        prose = Prose(links)

        def shown(html: str) -> str:
            return rewrite(html, links)

        def stored(output: NotebookNode) -> str:
            html, facts = html_of(output), facts_of(output)
            if facts.get("kind") == "prediction":
                return shown(html) + asked_block(facts, shown)
            moves = (figures or {}).get(facts.get("key"))
            return moving(html, moves, shown) if moves else shown(html)

        self.register_filter("prose", prose.to_html)
        self.register_filter("shown", shown)
        self.register_filter("stored", stored)
        # the template asks for both when it has been through the cells
        self.environment.globals.update(
            contents=lambda: [heading for heading in prose.headings if heading.level in SECTIONS],
            meanings=lambda: {
                place: self.meanings[place] for place in used if place in self.meanings
            },
        )
        card = next(card for card in cards if card.stem == path.stem)
        series = [card for card in cards if card.number]
        here = series.index(card) if card.number else len(series)
        resources = {
            "card": card,
            "cards": cards,
            "before": series[:here][-1:] if card.number else [],  # the glossary has no neighbours
            "after": series[here + 1 :][:1],
            "preview": self.previews.get(card.page),
        }
        notebook = self.edition(path)
        told = [facts for output in outputs_of(notebook) for facts in shown_in(output)]
        maps = {facts.number: facts.maps for facts in told if "maps" in facts}
        page, _ = self.from_notebook_node(notebook, {**resources, "maps": to_json(maps)})
        return page

    def edition(self, path: Path) -> NotebookNode:
        """Return a lesson as the site tells it, without the cells that are left out."""
        return leave_out(edition(path, "site"), self.left_out)

    def notebook(self, path: Path) -> NotebookNode:
        """Return a lesson to download, without the cells that are left out."""
        return leave_out(read_notebook(path), self.left_out)

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
    repository: Repository | None = None,
) -> dict[str, str | bytes]:
    """Return the files of the site by name: pages, notebooks, pictures, and both indices.

    Without ``frames``, which executes them, live figures stay pictures.
    """
    exporter = PageExporter(left_out, address, repository)
    cards = [card_of(path) for path in paths]
    if glossary := [path for path in paths if path.stem == GLOSSARY]:
        exporter.meanings = meanings_of(exporter.lesson(*glossary, cards))
    figures = {page_name(path.stem): figures_of(path) for path in paths}
    known = itertools.chain(*figures.values())
    hero = next((figure for figure in known if figure.number == HERO), None)
    exporter.previews = {page: ours[0] for page, ours in figures.items() if ours}
    exporter.previews |= {INDEX: hero} if hero else {}
    lessons = {page_name(path.stem): exporter.lesson(path, cards, frames(path)) for path in paths}
    notebooks = {
        f"{path.name}.js": notebook_script(exporter.notebook(path))
        for path in paths
        if path.stem != API
    }
    search = {SEARCH: index_script(lessons)}
    shared = {figure.file_name: figure.png for figure in exporter.previews.values()}
    model = model_scripts() if any(map(reads_sentences, lessons.values())) else {}
    return {INDEX: exporter.index(cards), **lessons, **notebooks, **search, **shared, **model}


def asked_block(facts: NotebookNode, shown: Callable[[str], str]) -> str:
    """Return a prediction for the script that asks it, its texts as a page shows them."""
    texts = {name: shown(facts[name]) for name in ("question", "explanation")}
    options = [
        {**option, "text": shown(option.text), "feedback": shown(option.feedback)}
        for option in facts.options
    ]
    asked = {"key": facts.key, "ask": facts.ask, **texts, "options": options}
    return f'<script type="application/json">{to_json(asked)}</script>'


def notebook_script(notebook: NotebookNode) -> str:
    """Return the script that hands a notebook to a reader; a link from a folder would show it."""
    return f"saveNotebook({json.dumps(nbformat.writes(notebook), ensure_ascii=False)});\n"


def write_page(folder: Path, lessons: list[Path]) -> Path:
    """Write the page for teachers, TEACHING.md and the notes of all lessons, as a notebook."""
    teaching = (ROOT / "TEACHING.md").read_text(encoding="utf-8").rstrip()
    for heading in re.findall(r"^#+ (.+)$", teaching, re.MULTILINE):
        place = heading.replace(" ", "-")  # which GitHub writes in small letters
        teaching = teaching.replace(f"(#{place.lower()})", f"(#{place})")
    parts = [teaching, PLANS]
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


def write_pages(
    folder: Path, made: dict[str, str | bytes], old: Sequence[str] = OLD
) -> dict[str, int]:
    """Write files into a folder and delete other ``old`` ones, by pattern; return their sizes."""
    folder.mkdir(exist_ok=True)
    for path in (path for kind in old for path in folder.glob(kind)):
        if path.name not in made:
            path.unlink()
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


def repository_from(text: str) -> Repository:
    """Return the repository at an address, as the command line gives it."""
    if repository := repository_at(text):
        return repository
    message = f"REPO must look like https://github.com/ada/attnlab, got {text!r}."
    raise argparse.ArgumentTypeError(message)


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
    parser.add_argument("--repository", type=repository_from, default=own_repository())
    asked = parser.parse_args()
    left_out = FOR_ALL if asked.readers == "all" else frozenset()
    if asked.solutions == "no":
        left_out |= {"solution"}
    with tempfile.TemporaryDirectory() as folder:
        notebooks = find_notebooks()
        if asked.readers == "teachers":
            notebooks.append(write_page(Path(folder), notebooks))
        notebooks.append(write_api(Path(folder)))
        options = {
            "left_out": left_out,
            "address": asked.address,
            "repository": asked.repository,
        }
        sizes = write_site(SITE, notebooks, frames=frames_with_progress, **options)
    count = sum(name.endswith(".html") for name in sizes)
    megabytes = sum(sizes.values()) / 1e6
    print(f"{SITE.name}/ holds {count} pages, {megabytes:.1f} MB. Open {SITE.name}/{INDEX}.")
