"""Break the prose of the sources at its sentences, so that a change shows the sentence it is in.

    python -m tools.build.prose            rewrite the sources that are not broken so
    python -m tools.build.prose --check    only name them, and end with status 1

A sentence begins a new line; one that is too long is broken after a clause, or else between two
words. Only paragraphs are broken, in lists too, and texts that a reader unfolds: whatever else
Markdown has stays as it is. The page stays the same, since a line break in a paragraph is a space.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator

from markdown_it import MarkdownIt
from nbformat import NotebookNode

from tools.build.sources import LessonError, find_sources, from_root, read_source, write_source

WIDTH = 98  # columns of a line; in a source, "# " stands before it
SHORTEST = 32  # columns of a line that ends with a clause
MARKDOWN = MarkdownIt("commonmark").enable("table")
# No line ends inside of a link, code, a formula or a tag.
WHOLE = re.compile(r"\[[^][]*\]\([^)]*\)|<code>.*?</code>|(`+)[^`]+\1|\$[^$]+\$|<[^>]+>")
SENTENCE_END = re.compile(
    r"(?<!\bal)(?<!\bcf)(?<!\be\.g)(?<!\bi\.e)(?<!\bvs)(?<!\bpp)(?<!\bFig)(?<!\b[A-Z])"
    r"[.?!][”’\"')\]*_]* +(?![a-z])"
)
CLAUSE_END = re.compile(r"[,;:][”’\"')*_]* +| +(?=\()")
SPACE = re.compile(r" +")
# How no line may begin, because it would be an item, a heading, a table, HTML and so on.
SPECIAL = re.compile(
    r"(?:[-+*]|\d+[.)]|#{1,6})(?: |$)|[>|=]|---|~~~|```|</?(?!code|em|su[bp])[a-z!]|\[[^]]*\]:"
)
HARD_BREAK = re.compile(r"( {2,}|\\)\n")
UNFOLDED = re.compile(r" *<details><summary>.*</summary>(?!.*<pre)\S", re.DOTALL)


def break_prose(markdown: str) -> str:
    """Return Markdown with one sentence or clause a line."""
    lines = markdown.split("\n")
    for start, text in reversed([*_texts(markdown)]):
        old = text.split("\n")
        lead = lines[start].rstrip().removesuffix(old[0].rstrip())
        indent = re.sub("[^>]", " ", lead)
        new = _lines(text, WIDTH - len(lead))
        lines[start : start + len(old)] = [f"{indent if n else lead}{x}" for n, x in enumerate(new)]
    return "\n".join(lines)


def could_be_broken(markdown: str) -> list[str]:
    """Return the lines that are too long and need not be."""
    broken = break_prose(markdown).split("\n")
    return [line for line in markdown.split("\n") if len(line) > WIDTH and line not in broken]


def _texts(markdown: str) -> Iterator[tuple[int, str]]:
    """Yield what can be broken without a change of the page, each with its first line."""
    before = ""
    for token in MARKDOWN.parse(markdown):
        is_paragraph = before == "paragraph_open" and "$$" not in token.content
        if is_paragraph or (token.type == "html_block" and UNFOLDED.match(token.content)):
            yield token.map[0], token.content.rstrip("\n")
        before = token.type


def _lines(text: str, width: int) -> Iterator[str]:
    """Yield a text anew: its sentences, and the parts of those that are too long."""
    *ended, last = HARD_BREAK.split(text)
    for part, mark in [*zip(ended[::2], ended[1::2], strict=True), (last, "")]:
        rest = " ".join(line.strip() for line in part.split("\n"))
        while end := _first_line(rest, width - len(mark)):
            yield rest[:end].rstrip()
            rest = rest[end:]
        yield rest + mark


def _first_line(text: str, width: int) -> int:
    """Return where the first line of a text ends and another one begins; 0 if there is no other."""

    def fits(end: int) -> bool:
        return len(text[:end].rstrip()) <= width

    sentence, *_ = [*_places(text, SENTENCE_END), 0]
    if fits(sentence or len(text)):
        return sentence
    words = _places(text, SPACE)
    clauses = [end for end in _places(text, CLAUSE_END) if end >= SHORTEST and fits(end)]
    *_, last = [*words[:1], *filter(fits, words), *clauses[-1:]] or [0]
    return last


def _places(text: str, pattern: re.Pattern[str]) -> list[int]:
    """Return where a line may begin, in a text that is one line, after what a pattern finds."""
    hidden = WHOLE.sub(lambda whole: "\0" * len(whole[0]), text)
    ends = (match.end() for match in pattern.finditer(hidden))
    return [end for end in ends if end < len(text) and not SPECIAL.match(text, end)]


def _break_cells(notebook: NotebookNode) -> bool:
    """Break the prose of a notebook, and return whether that changes anything."""
    cells = [cell for cell in notebook.cells if cell.cell_type == "markdown"]
    before = [cell.source for cell in cells]
    for cell in cells:
        cell.source = break_prose(cell.source)
    return before != [cell.source for cell in cells]


def main() -> None:
    """Rewrite the sources, or name those that have to be rewritten."""
    parser = argparse.ArgumentParser(prog="tools.build.prose")
    parser.add_argument("--check", action="store_true", help="change nothing")
    only_check = parser.parse_args().check
    try:
        notebooks = {path: read_source(path) for path in find_sources()}
    except LessonError as error:
        sys.exit(str(error))
    changed = {path: notebook for path, notebook in notebooks.items() if _break_cells(notebook)}
    for path, notebook in changed.items():
        if only_check:
            print(f"{from_root(path)}: the prose is not broken at its sentences; run `make lint`.")
        else:
            path.write_text(write_source(notebook), encoding="utf-8")
    sys.exit(1 if changed and only_check else 0)


if __name__ == "__main__":
    main()
