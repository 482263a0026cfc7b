"""Break the prose of the sources at its sentences, so that a change shows the sentence it is in.

    python -m tools.build.prose            rewrite the sources that are not broken so
    python -m tools.build.prose --check    only name them, and end with status 1

A sentence begins a new line; one that is too long is broken after a clause, or else between two
words. Headings, tables, formulas, code and HTML stay as they are, and lists keep their items.
"""

from __future__ import annotations

import itertools
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from tools.build.sources import find_sources, from_root

WIDTH = 100  # columns of a line, with the comment sign before it
MARKER = "# "
CELL = re.compile(r"^# %%(?P<header>.*)$", re.MULTILINE)
# What stands for itself: no line breaks inside it.
UNBROKEN = re.compile(r"`[^`]+`|\$[^$]+\$|\]\([^)]*\)|<[^>]+>")
ITEM = re.compile(r"(?P<indent> *)(?P<bullet>[-*+]|\d+\.) +")
# A line that is no prose, or that a line of prose must not look like.
SPECIAL = re.compile(r"\s*(#{1,6} |\||<(?!details>.*</summary>.|code>)|>|\$\$|---|===|:?-{3,})")
LOOKS_SPECIAL = re.compile(r"#{1,6} |\||<(?:/?[a-z]|!)|>|\$\$|[-+*=] |\d+[.)] ")
SENTENCE_END = re.compile(
    r"(?<!\bal)(?<!\be\.g)(?<!\bi\.e)(?<!\bvs)(?<!\bpp)(?<!\bFig)(?<!\b[A-Z])"
    r"[.?!][”’)\]*_]* +(?=[\w“‘(\[*_`$\x00])"
)
CLAUSE_END = re.compile(r"[,;:][”’)*_]* +| +(?=\()")


def break_source(script: str) -> str:
    """Return a source in percent format with the prose of its Markdown cells broken anew."""
    starts = [match.start() for match in CELL.finditer(script)] + [len(script)]
    cells = [script[start:end] for start, end in itertools.pairwise(starts)]
    return script[: starts[0]] + "".join(map(_break_cell, cells))


def break_prose(markdown: str) -> str:
    """Return Markdown with one sentence or clause a line."""
    return "\n".join(line for block in _blocks(markdown.split("\n")) for line in block)


def _break_cell(cell: str) -> str:
    header, _, body = cell.partition("\n")
    if "[markdown]" not in header:
        return cell
    text = body.rstrip("\n")
    end = body[len(text) :]
    prose = "\n".join(line.removeprefix("#").removeprefix(" ") for line in text.split("\n"))
    lines = (f"{MARKER}{line}".rstrip() for line in break_prose(prose).split("\n"))
    return "\n".join([header, *lines]) + end


def _blocks(lines: list[str]) -> Iterator[list[str]]:
    """Yield paragraphs and items, broken anew, and all other lines as they are."""
    paragraph: list[str] = []
    fence = None
    for line in lines:
        opened = fence
        if found := re.match(r"\s*(```|\$\$)", line):
            closes_itself = (
                found[1] == "$$" and line.strip().endswith("$$") and line.strip() != "$$"
            )
            if not closes_itself:
                fence = None if fence == found[1] else fence or found[1]
        is_prose = not (opened or fence or found or not line.strip() or SPECIAL.match(line))
        if paragraph and (not is_prose or ITEM.match(line)):
            yield _paragraph(paragraph)
            paragraph = []
        if not is_prose:
            yield [line]
            continue
        paragraph.append(line)
        if line.endswith(("  ", "\\")):  # a line break that is meant
            yield _paragraph(paragraph)
            paragraph = []
    if paragraph:
        yield _paragraph(paragraph)


def _paragraph(lines: list[str]) -> list[str]:
    """Return a paragraph or an item as one sentence or clause a line."""
    hard = next((end for end in ("  ", "\\") if lines[-1].endswith(end)), "")
    item = ITEM.match(lines[0])
    lead = item[0] if item else re.match(r" *", lines[0])[0]
    indent = " " * len(lead)
    text = " ".join(line.strip() for line in lines)[len(lead.strip()) + bool(item) :].strip()
    text = text.removesuffix("\\") if hard == "\\" else text
    broken = _break(text, WIDTH - len(MARKER) - len(lead))
    broken[-1] += hard
    return [(indent if n else lead) + line for n, line in enumerate(broken)]


def _break(text: str, width: int) -> list[str]:
    """Return a text as lines: its sentences, and those that are too long as clauses."""
    hidden = UNBROKEN.sub(lambda match: "\x00" * len(match[0]), text)
    lines, start = [], 0
    for end in [*(match.end() for match in SENTENCE_END.finditer(hidden)), len(hidden)]:
        if end < len(hidden) and LOOKS_SPECIAL.match(text[end:]):
            continue
        while len(hidden[start:end].rstrip()) > width:
            start, place = _clause(hidden, text, start, width), start
            lines.append(text[place:start].rstrip())
            if start >= end:
                break
        if start < end:
            lines.append(text[start:end].rstrip())
        start = max(start, end)
    return lines


def _clause(hidden: str, text: str, start: int, width: int) -> int:
    """Return where to break a sentence: after its last clause that fits, or its last word."""
    window = hidden[start : start + width + 1]
    for pattern, least in ((CLAUSE_END, width // 3), (re.compile(" +"), 1)):
        ends = [match.end() for match in pattern.finditer(window) if match.end() >= least]
        for end in reversed(ends):
            if not LOOKS_SPECIAL.match(text[start + end :]):
                return start + end
    after = re.compile(" +").search(hidden, start + width)  # one word that is longer than a line
    return after.end() if after else len(hidden)


def main() -> None:
    """Rewrite the sources, or name those that have to be rewritten."""
    sources = {path: path.read_text(encoding="utf-8") for path in find_sources()}
    broken = {
        path: text for path, script in sources.items() if (text := break_source(script)) != script
    }
    if "--check" in sys.argv[1:]:
        for path in broken:
            print(f"{from_root(path)}: prose is not broken at sentences; run `make lint`.")
        sys.exit(1 if broken else 0)
    for path, text in broken.items():
        Path(path).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
