"""Write slides of all lessons into slides/: `make slides`; of one of them: `make slides NB=03`.

The slides are made from the notebooks as they are stored, one thought a slide: a prediction, a
figure, an explorer, a formula, or code with what it gives beside it. The prose of the lesson is in
the notes of the slide that it follows, and so are captions and the reasons of an answer. Over a
slide stands a sentence of the prose, which the source of the lesson names (slide_sentences.py);
what there is to be seen on it, the next step says.
Code that does not fit beside its output is left out, except for what code on slides needs.
The notes for teachers are those of the first slide, and sections that a class does not look at
together are left out.

Each deck is a single file that makes no request and opens from a folder, as pages of the site do.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from itertools import pairwise
from pathlib import Path

from nbformat import NotebookNode
from nbformat.v4 import new_output

from attnlab.display import folds
from tools.build.prose import MARKDOWN
from tools.build.slide_sentences import marks_of, sentence_in
from tools.build.sources import (
    ROOT,
    LessonError,
    facts_of,
    find_notebooks,
    html_of,
    is_folded,
    is_lesson,
    read_notebook,
    select,
    shown_in,
    tags,
    unfold,
)
from tools.publish.frames import Frames
from tools.publish.needed_code import names_before, needed_part, needs
from tools.publish.site.html import SiteError
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
REMEMBER = "What to remember"  # the section whose points are on the last slide
HIGHEST = 19  # of code and output on one slide, in lines of code
ROW = 1.35  # of a table, in lines of code


@dataclass
class Slide:
    """One thought: what is seen, and what is said with it, as Markdown."""

    kind: str  # title, question, figure, explorer, formula, code or end
    section: str
    body: str = ""  # as HTML
    sentence: str = ""  # leads to what is seen
    verdict: str = ""  # says what is to be seen: the next step brings it
    notes: list[str] = field(default_factory=list)
    code: str = ""  # stands over the body
    hidden: str = ""  # code of the cell that is not shown, unless other code needs it
    functions: bool = False  # the hidden code has functions that a class must see

    @property
    def shows(self) -> bool:
        """Whether there is something to be found out by looking."""
        return bool(self.body) and self.kind in ("figure", "explorer", "code")

    @property
    def headline(self) -> str:
        """What stands over the slide from the start: never what an output or a figure shows."""
        return self.sentence or (self.section if self.shows else self.verdict)

    @property
    def asks(self) -> bool:
        """Whether its headline is a question about what the next step brings."""
        return self.shows and self.kind != "explorer" and self.headline.endswith("?")

    @property
    def height(self) -> float:
        """About how high code and output are, in lines of code."""
        printed = sum(part.count("\n") for part in self.body.split("<pre")[1:])
        return self.code.count("\n") + ROW * self.body.count("<tr") + printed


class Deck:
    """The slides of a lesson; ``page`` turns Markdown, code and outputs into HTML."""

    def __init__(self, lesson: NotebookNode, page: PageExporter) -> None:
        self.page, self.slides, self.said, self.section = page, [], [], ""
        self.last, self.remembered = [], []  # sentences of the last slide, and its notes
        self.waiting = []  # notes that lead to the next slide
        for cell in (unfold(cell) for cell in lesson.cells if "solution" not in tags(cell)):
            if "teacher" in tags(cell):
                self.slides[0].notes.append(cell.source)
            elif cell.cell_type == "markdown":
                self.read(cell)
            elif self.is_shown:
                self.run(cell)
        self.wait_no_more()
        self.show_needed()
        if self.last:
            self.end(*self.last)

    @property
    def is_shown(self) -> bool:
        """Whether a class looks at this section together."""
        return self.section.partition(":")[0] not in LEFT_OUT

    def add(self, kind: str, body: str = "", *notes: str) -> None:
        """Add a slide, under the first sentence that waits for one; a question has its own."""
        sentence = self.said.pop(0) if self.said and kind != "question" else ""
        self.slides.append(Slide(kind, self.section, body, sentence, notes=[*self.waiting, *notes]))
        self.waiting = []

    def read(self, cell: NotebookNode) -> None:
        """Take prose, which is said: its formulas are slides, and it may name sentences."""
        if not self.slides:
            self.add("title")
        lines, start, marks = cell.source.split("\n"), 0, marks_of(cell)
        leads = False  # whether the prose leads to the next slide
        for opening, text in pairwise(MARKDOWN.parse(cell.source)):
            is_heading = opening.tag in ("h1", "h2") and opening.type == "heading_open"
            if text.level == 1 and (is_heading or text.content.startswith("$$")):
                marks = self.say("\n".join(lines[start : opening.map[0]]), marks, leads=leads)
                start, leads = opening.map[1], opening.tag == "h2"
                if is_heading:
                    self.wait_no_more()
                    self.section = text.content
                elif self.is_shown:
                    self.add("formula", self.page.prose(text.content))
        for _, words in self.say("\n".join(lines[start:]), marks, leads=leads):
            raise LessonError(f"no sentence of the cell {cell.id!r} begins with {words!r}.")

    def say(
        self, prose: str, marks: list[tuple[str, str]], *, leads: bool
    ) -> list[tuple[str, str]]:
        """Put prose into the notes, and its sentences over their slides; return the other marks.

        Prose under a heading leads to the next slide, and so does what begins with a paragraph
        that has a sentence for it and none for the slide before.
        """
        if not self.is_shown:
            return marks
        found = [(place, words, sentence_in(prose, words)) for place, words in marks]
        self.said += [sentence for place, _, sentence in found if sentence and place == "below"]
        self.last += [sentence for place, _, sentence in found if sentence and place == "end"]
        above = [sentence for place, _, sentence in found if sentence and place == "above"]
        if above:
            *leading, self.slides[-1].verdict = above
            self.slides[-1].sentence = "".join(leading) or self.slides[-1].sentence
        paragraphs = prose.strip("\n").split("\n\n")
        first = 0 if leads else next(self.leading(paragraphs, marks), len(paragraphs))
        if self.section == REMEMBER:
            self.remembered.append(prose)
        else:
            parts = (self.slides[-1].notes, paragraphs[:first]), (self.waiting, paragraphs[first:])
            for notes, part in parts:
                notes += filter(None, ["\n\n".join(part)])
        return [(place, words) for place, words, sentence in found if not sentence]

    @staticmethod
    def leading(paragraphs: list[str], marks: list[tuple[str, str]]) -> Iterator[int]:
        """Yield the places of the paragraphs that have sentences for the next slide only."""
        for i, paragraph in enumerate(paragraphs):
            places = {place for place, words in marks if sentence_in(paragraph, words)}
            if "below" in places and "above" not in places:
                yield i

    def wait_no_more(self) -> None:
        """Put notes that no slide followed in their section to the last slide."""
        self.slides[-1].notes += self.waiting
        self.waiting = []

    def run(self, cell: NotebookNode) -> None:
        """Take a code cell: a question, a figure, an explorer, or code and what it gives."""
        if "lesson_setup()" in cell.source:
            return
        told = [facts for output in cell.outputs for facts in shown_in(output)]
        kinds = {facts.kind for facts in told}
        if "prediction" in kinds:
            self.ask(*told)
            return
        shown = "".join(map(self.page.output, map(unfolded, cell.outputs)))
        code = re.sub(r"\n{3,}", "\n\n", re.sub(r"^%%answer.*\n", "", cell.source))
        if kinds & {"explorer", "live"}:
            self.add("explorer", shown)
        elif "<img" in shown:
            figures = [facts for facts in told if "caption" in facts]
            captions = [f"Figure {facts.number}. {facts.caption}" for facts in figures]
            self.add("figure", shown, *captions)
        else:
            self.add("code", shown)
        slide = self.slides[-1]
        slide.hidden, slide.functions = code, slide.kind != "explorer" and not is_folded(cell)
        is_low = slide.height + code.count("\n") <= HIGHEST
        if slide.kind == "code" and not is_folded(cell) and (is_low or not shown):
            slide.code = code

    def ask(self, asked: NotebookNode) -> None:
        """Add a question, whose correct option the next step marks; the reasons are said."""
        options = "".join(
            f"<li{' class=fragment' * option.correct}>{option.text}</li>"
            for option in asked.options
        )
        wrong = [option for option in asked.options if option.feedback]
        reasons = [f"<b>{option.text}</b> {option.feedback}" for option in wrong]
        body = f'<p>{asked.question}</p><ul class="options">{options}</ul>'
        self.add("question", self.page.shown(body), *reasons, asked.explanation)

    def show_needed(self) -> None:
        """Show hidden code that shown code needs: over it, or on a slide of its own before it."""
        shown, user, wanted = [], Slide("code", ""), set()  # in reverse; user: of the hidden code
        for before, slide in reversed([*pairwise(self.slides)]):
            part = slide.code or needed_part(slide.hidden, wanted, functions=slide.functions)
            wanted = names_before(part, wanted)
            comes_next = not slide.body and shown[-1:] == [user]
            is_near = needs(user.code, part, functions=comes_next)
            if slide.code and slide.body:
                user = slide
            elif is_near and user.height + part.count("\n") + 2 <= HIGHEST:
                user.code, slide.code = f"{part}\n\n{user.code}", ""
                user.sentence = user.sentence or ("" if slide.body else slide.sentence)
            elif part and not slide.body:
                slide.code, user = part, slide
            elif part:
                user = Slide("code", slide.section, sentence=slide.sentence, code=part)
            if slide.body or slide.code:
                shown.append(slide)
            elif shown:
                shown[-1].notes[:0] = slide.notes
            else:
                before.notes += slide.notes
            if user.code and user is not slide and user not in shown:
                shown.append(user)
        self.slides[1:] = reversed(shown)

    def end(self, question: str, answer: str, *points: str) -> None:
        """Add the last slide: the question of the lesson, its answer, and what to remember."""
        body = self.page.prose("\n".join(f"- {point}" for point in points))
        self.slides.append(Slide("end", REMEMBER, body, question, answer, self.remembered))


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

    def lesson(self, path: Path, *others: object) -> str:
        """Return the deck of a lesson; SiteError says which sentence that it names is not there."""
        try:
            return super().lesson(path, *others)
        except LessonError as error:
            raise SiteError(f"{path.name}: {error}") from None

    def edition(self, path: Path) -> NotebookNode:
        """Return the lesson itself: what is shown of it is decided slide by slide."""
        return read_notebook(path)

    def prose(self, markdown: str) -> str:
        """Return Markdown as HTML."""
        return self.environment.filters["prose"](markdown)

    def shown(self, html: str) -> str:
        """Return stored HTML as HTML for a page."""
        return self.environment.filters["shown"](html)

    def output(self, output: NotebookNode) -> str:
        """Return an output as HTML."""
        parts = self.environment.get_template("parts.html.j2").make_module()  # of this lesson
        return str(parts.output(output))


def unfolded(output: NotebookNode) -> NotebookNode:
    """Return the output of an answer as it is inside its fold, and any other as it is."""
    facts = facts_of(output)
    if facts.get("kind") != "answer":
        return output
    return new_output("display_data", {"text/html": folds.unfold(facts.key, html_of(output))})


def read_reveal(name: str) -> str:
    """Return a file of reveal.js."""
    return (REVEAL / name).read_text(encoding="utf-8")


def deck_of(path: Path) -> str:
    """Return the slides of a lesson."""
    cards = [card_of(other) for other in find_notebooks()]
    return SlidesExporter().lesson(path, cards, frames_with_progress(path))


def write_slides(
    folder: Path,
    notebooks: list[Path],
    frames: Callable[[Path], Frames | None] = lambda path: None,
    names: Sequence[str] = (),
) -> dict[str, int]:
    """Write the slides of all lessons and their index into ``folder``; return names and sizes.

    With ``names``, write those of the lessons that these name, and leave all else as it is.
    """
    exporter, cards = SlidesExporter(), [card_of(path) for path in notebooks]
    lessons = select(filter(is_lesson, notebooks), names)
    decks = {page_name(path.stem): exporter.lesson(path, cards, frames(path)) for path in lessons}
    if names:
        return write_pages(folder, decks, old=())
    index = PageExporter().environment.get_template("slides_index.html.j2")
    front = index.render(cards=[card for card in cards if card.number])
    return write_pages(folder, {INDEX: front, **decks})


def main() -> None:
    """Write the slides that the command line names and say where they are."""
    sizes = write_slides(SLIDES, find_notebooks(), frames_with_progress, sys.argv[1:])
    lessons = [Path(name).stem for name in sizes if name != INDEX]
    print(f"Slides of {', '.join(lessons)}: {sum(sizes.values()) / 1e6:.1f} MB.")
    print(f"Open {SLIDES.name}/{next(iter(sizes))}.")


if __name__ == "__main__":
    main()
