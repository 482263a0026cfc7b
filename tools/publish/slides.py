"""Write slides of all lessons into slides/: `make slides`.

The slides are made from the notebooks as they are stored, one thought a slide: a prediction, a
figure, an explorer, a formula, or code with what it gives beside it. The prose of the lesson is in
the notes of the slide that it follows, and so are captions and the reasons of an answer. Over a
slide stands one sentence of the prose. Its cell names it by its first words, in the source of the
lesson: ``# %% nan-spreads [markdown] above="One empty row"`` puts it over the slide before the
cell, and ``below=`` over the slide that follows. The notes for teachers are those of the first
slide, and sections that a class does not look at together are left out.

Each deck is a single file that makes no request and opens from a folder, as pages of the site do.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path

from nbformat import NotebookNode

from tools.build.sources import (
    PLACES,
    ROOT,
    LessonError,
    find_notebooks,
    html_of,
    is_folded,
    is_lesson,
    read_notebook,
    tags,
)
from tools.publish.frames import Frames
from tools.publish.site.pages import (
    INDEX,
    PageExporter,
    asset,
    card_of,
    frames_with_progress,
    page_name,
    write_pages,
)

SLIDES = ROOT / "slides"
REVEAL = files("pyreveal") / "revealjs" / "dist"  # the package carries reveal.js
LEFT_OUT = {"Further", "Exercises", "Sources", "Next"}  # sections
MOST_LINES = 18  # of code that is shown together
HEADING_OR_FORMULA = re.compile(
    r"^##? (?P<heading>[^\n]+)$|^(?P<formula>\$\$.+?\$\$)$", re.MULTILINE | re.DOTALL
)
ANSWER = re.compile(r'<details class="attnlab-answer".*?</summary>(.*)</details>', re.DOTALL)
QUESTION = re.compile(
    r"<p><b>Predict\.</b> (?P<question>.*?)</p><ul>(?P<options>.*?)</ul><details>.*?</summary>"
    r"(?P<reasons>.*)</details>",
    re.DOTALL,
)
CAPTION = re.compile(r"<figcaption.*?</figcaption>", re.DOTALL)


@dataclass
class Slide:
    """One thought: what is seen, all of it as HTML, and what is said with it, as Markdown."""

    kind: str  # title, question, figure, explorer, formula or code
    section: str
    body: str = ""
    sentence: str = ""
    notes: list[str] = field(default_factory=list)


class Deck:
    """The slides of a lesson; ``page`` turns Markdown, code and outputs into HTML."""

    def __init__(self, lesson: NotebookNode, page: PageExporter) -> None:
        self.page, self.slides, self.said, self.code = page, [], "", []
        self.section = ""
        for cell in (one for one in lesson.cells if "solution" not in tags(one)):
            if "teacher" in tags(cell):
                self.slides[0].notes.append(cell.source)
            elif cell.cell_type == "markdown":
                self.read(cell)
            elif self.is_shown:
                self.run(cell)

    @property
    def is_shown(self) -> bool:
        """Whether a class looks at this section together."""
        return self.section.partition(":")[0] not in LEFT_OUT

    def add(self, kind: str, body: str = "", *notes: str) -> None:
        """Add a slide, under the sentence that was marked for it."""
        self.slides.append(Slide(kind, self.section, body, self.said, [*notes]))
        self.said = ""

    def read(self, cell: NotebookNode) -> None:
        """Take prose, which is said: its formulas are slides, and it may name sentences."""
        if not self.slides:
            self.add("title")
        text, marks = cell.source, marks_of(cell)
        while text:
            found = HEADING_OR_FORMULA.search(text)
            marks = self.say(text[: found.start()] if found else text, marks)
            if found and found["heading"]:
                self.section = found["heading"]
            elif found and self.is_shown:
                self.add("formula", self.page.prose(found["formula"]))
            text = text[found.end() :] if found else ""
        for _, words in marks:
            raise LessonError(f"no sentence of the cell {cell.id!r} begins with {words!r}.")

    def say(self, prose: str, marks: list[tuple[str, str]]) -> list[tuple[str, str]]:
        """Put prose into the notes, and its sentences over their slides; return the other marks."""
        if not self.is_shown:
            return marks
        sentences = {mark: sentence_in(prose, mark[1]) for mark in marks}
        for (place, _), sentence in sentences.items():
            if sentence and place == "above":
                self.slides[-1].sentence = sentence
            elif sentence:
                self.said = sentence
        self.slides[-1].notes.append(prose)
        return [mark for mark, sentence in sentences.items() if not sentence]

    def run(self, cell: NotebookNode) -> None:
        """Take a code cell: a question, a figure, an explorer, or code and what it gives."""
        html = "".join(map(html_of, cell.outputs))
        if "lesson_setup()" in cell.source:
            return
        if question := QUESTION.search(html):
            body = f'<p>{question["question"]}</p><ul class="options">{question["options"]}</ul>'
            body = body.replace("<li data-correct>", '<li class="fragment">')
            self.add("question", self.page.shown(body), question["reasons"])
            return
        shown = ANSWER.sub(r"\1", "".join(map(self.page.output, cell.outputs)))
        if "attnlab-explorer" in html or "attnlab-live" in html:
            self.add("explorer", shown)
        elif "<img" in html:
            self.add("figure", CAPTION.sub("", shown), *CAPTION.findall(shown))
        else:
            self.show_code(cell, shown)

    def show_code(self, cell: NotebookNode, shown: str) -> None:
        """Add code with what it gives, under the code that it needs; code alone waits for that."""
        code = "" if is_folded(cell) else re.sub(r"^%%answer.*\n", "", cell.source)
        needed = "\n\n".join(self.code)
        if needed and needed.count("\n") + code.count("\n") >= MOST_LINES:
            self.add("code", self.page.code(needed))
            self.code = []
        if shown:
            above = [f'<div class="needed">{self.page.code(one)}</div>' for one in self.code]
            own = [self.page.code(code)] if code else []
            self.add("code", f'<div class="made">{"".join(above + own)}</div><div>{shown}</div>')
            self.code = []
        elif code:
            self.code.append(code)


def marks_of(cell: NotebookNode) -> list[tuple[str, str]]:
    """Return the sentences that a cell puts over slides: the place of each, and its first words.

    LessonError says that a sentence is named by fewer than three words.
    """
    marks = []
    for place in PLACES:
        names = cell.metadata.get(place, [])
        marks += [(place, words) for words in ([names] if isinstance(names, str) else names)]
    for place, words in marks:
        if len(words.split()) < 3:
            raise LessonError(f"cell {cell.id!r}: {place}={words!r} needs three words or more.")
    return marks


def sentence_in(prose: str, words: str) -> str | None:
    """Return the sentence of a text that begins with these words; None if there is none."""
    first = r"\s+".join(map(re.escape, words.split()))
    found = re.search(rf"(?<!\S){first}(?!\w).*?[.?!](?=\s|$)", prose, re.DOTALL)
    return found and found[0]


class SlidesExporter(PageExporter):
    """nbconvert with the template of slides."""

    def __init__(self) -> None:
        super().__init__()
        self.template_file = "slides.html.j2"
        self.register_filter("deck", lambda lesson: Deck(lesson, self).slides)
        self.environment.globals.update(
            style="\n".join([read_reveal("reveal.css"), asset("site.css"), asset("slides.css")]),
            early=asset("settings.js"),
            library="\n".join(read_reveal(name) for name in ("reveal.js", "plugin/notes.js")),
            script=asset("slides.js"),
        )

    def edition(self, path: Path) -> NotebookNode:
        """Return the lesson itself: what is shown of it is decided slide by slide."""
        return read_notebook(path)

    def prose(self, markdown: str) -> str:
        """Return Markdown as HTML."""
        return self.environment.filters["prose"](markdown)

    def code(self, source: str) -> str:
        """Return code as HTML."""
        return self.environment.filters["code"](source)

    def shown(self, html: str) -> str:
        """Return stored HTML as HTML for a page."""
        return self.environment.filters["stored"](html)

    def output(self, one: NotebookNode) -> str:
        """Return an output as HTML."""
        return str(self.environment.get_template("parts.html.j2").module.output(one))


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
