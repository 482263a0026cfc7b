"""What a page of the site is made of: prose from Markdown, formulas as MathML, links to pages."""

from __future__ import annotations

import re
from collections.abc import Callable
from html import escape, unescape
from typing import NamedTuple

from bs4 import BeautifulSoup
from latex2mathml.converter import convert
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath

from attnlab import exercises

FORMULA = re.compile(
    r"\$\$(?P<block>[^<]+?)\$\$|(?<![\\$])\$(?P<inline>[^$<]+?)(?<!\\)\$", re.DOTALL
)
PART = re.compile(  # of HTML: a comment, what stays as it is written, a tag, or a formula
    r"<!--.*?-->|<(?P<kept>code|pre|style|textarea)\b.*?</(?P=kept)>"
    r"|<(?P<tag>/?\w+)(?:\"[^\"]*\"|'[^']*'|[^>\"'])*>|" + FORMULA.pattern,
    re.DOTALL,
)
# Where the library differs from TeX: infinity is a number, and a slash takes no space.
CORRECTIONS = {
    r"\_": "_",
    "<mo>&#x0221E;</mo>": "<mi>&#x0221E;</mi>",
    "<mo>&#x0002F;</mo>": '<mo lspace="0" rspace="0">&#x0002F;</mo>',
}
# What outputs say to a reader who has a kernel, and what a page says instead.
INSTEAD = {
    "Run this cell to answer here.": "",
    "Run this cell to use the controls:": "The controls work in JupyterLab:",
    "<th></th>": "<td></td>",  # a heading of nothing
    "Run this cell, or trust the notebook, to make this figure interactive.": "This figure is "
    "interactive in a browser that runs scripts.",
}


CHECK = re.compile(r"^(check_\w+)\(", re.MULTILINE)  # in a cell that checks an exercise


class SiteError(SystemExit):
    """A lesson cannot become a page: the program ends with a sentence that says why."""


class Heading(NamedTuple):
    """A heading of a lesson, for its table of contents."""

    level: int
    place: str
    html: str


def to_mathml(latex: str, display: str = "inline") -> str:
    """Return a formula, "inline" or as a "block", as MathML; SiteError names a wrong one."""
    if latex.count("{") != latex.count("}"):
        raise SiteError(f"The formula {latex!r} has a brace without a partner.")
    # a space of negative width is not part of MathML Core
    made = convert(latex.replace(r"\!", "").strip(), display=display)
    for theirs, ours in CORRECTIONS.items():
        made = made.replace(theirs, ours)
    if unknown := re.search(r"\\\w+", made):
        raise SiteError(f"The formula {latex!r} holds {unknown.group()}, which is not known here.")
    return made


def rewrite(html: str, page_of: Callable[[str], str]) -> str:
    """Return HTML with formulas as MathML, links that lead to pages, and no comments.

    ``page_of(href)`` returns where a link leads on the site. Each table is put inside a
    ``<div class="scroll">``. HTML with scripts, which is an explorer, stays as it is.
    """

    def part(match: re.Match) -> str:
        if match["block"] or match["inline"]:
            display = match.lastgroup
            return to_mathml(unescape(match[display]), display)
        if match["tag"] == "table":
            return f'<div class="scroll">{match[0]}'
        if match["tag"] == "/table":
            return f"{match[0]}</div>"
        if match["tag"] == "a" and (address := soup_of(match[0]).a.get("href")):
            return f'<a href="{escape(page_of(address))}">'
        return match[0] if match["tag"] or match["kept"] else ""

    for words, ours in INSTEAD.items():
        html = html.replace(words, ours)
    return html if "<script" in html else PART.sub(part, html)


def soup_of(html: str) -> BeautifulSoup:
    """Return HTML, or a part of it, as a tree."""
    return BeautifulSoup(html, "html.parser")


def is_check(source: str) -> bool:
    """Return whether a cell checks an exercise, which nothing on a page can do."""
    return bool(CHECK.search(source))


def mistakes(source: str) -> list[str]:
    """Return, as HTML, the sentences by which the check in a cell names each known mistake."""
    told = getattr(exercises, CHECK.search(source)[1]).form.slips
    return [re.sub("`(.+?)`", r"<code>\1</code>", escape(why, quote=False)) for why in told]


class Prose(IPythonRenderer):
    """Render the Markdown of one lesson; headings get the ids that JupyterLab gives them."""

    def __init__(self, page_of: Callable[[str], str]) -> None:
        super().__init__(escape=False)
        self.page_of = page_of
        self.headings: list[Heading] = []  # those that were rendered so far

    def heading(self, text: str, level: int, **_attributes: object) -> str:
        """Return a heading with an id, and note it."""
        soup = soup_of(text)
        plain = soup.get_text().strip().replace(" ", "-")
        taken = {heading.place for heading in self.headings}
        place, number = plain, 1
        while place in taken:
            number += 1
            place = f"{plain}-{number}"
        for link in soup("a"):
            link.unwrap()
        self.headings.append(Heading(level, place, rewrite(str(soup).strip(), self.page_of)))
        return f'<h{level} id="{escape(place)}">{text.strip()}</h{level}>\n'

    def to_html(self, markdown: str) -> str:
        """Return Markdown as HTML for a page."""
        return rewrite(MarkdownWithMath(renderer=self).render(markdown), self.page_of)


def meanings_of(glossary: str) -> dict[str, str]:
    """Return the entries of the glossary, which is given as a page, by their place in it."""
    meanings = {}
    for word in soup_of(glossary).select("main h3[id]"):
        meaning = word.find_next_sibling("p")
        *_, last = meaning.contents
        if last.name == "a":  # to the lesson
            last.decompose()
        for link in meaning.select("a"):
            link.unwrap()
        text = meaning.decode_contents().strip()
        meanings[word["id"]] = f"<b>{word.decode_contents()}</b> {text}"
    return meanings
