"""The glossary is one page: each word once, in order, with the lesson that explains it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

import pytest

from tools.notebooks import NOTEBOOKS, find_sources, read_source

ENTRY = re.compile(r"^### (?P<word>.+)\n\n(?P<text>(?:.+\n?)+)", re.MULTILINE)
HOME = re.compile(r"\[Lesson\s(?P<number>\d+)\]\((?P<file>\w+)\.ipynb\)$")
LINK = re.compile(r"\]\((?P<page>[\w.]*)#(?P<word>[^)\s]+)\)")


def text_of(name: str) -> str:
    """Return the markdown of a source."""
    cells = read_source(NOTEBOOKS / "source" / f"{name}.py").cells
    return "\n\n".join(cell.source for cell in cells if cell.cell_type == "markdown")


def findings(glossary: str, lessons: dict[str, str]) -> Iterator[str]:
    """Yield what is wrong with the entries of a glossary and with the links to them."""
    entries = {entry["word"]: entry["text"] for entry in ENTRY.finditer(glossary)}
    words = re.findall("^### (.+)$", glossary, re.MULTILINE)
    for before, word in pairwise(words):
        if before.casefold() >= word.casefold():
            yield f"{word}: it comes after {before}"
    for word in words:
        home = HOME.search(entries.get(word, "").strip())
        if home is None:
            yield f"{word}: no lesson at its end"
        elif home["file"] not in lessons or int(home["file"][:2]) != int(home["number"]):
            yield f"{word}: {home['file']} is not lesson {home['number']}"
    anchors = {word.replace(" ", "-") for word in words}
    for name, text in {"glossary": glossary, **lessons}.items():
        page = "" if name == "glossary" else "glossary.ipynb"
        for link in LINK.finditer(text):
            if link["page"] == page and link["word"] not in anchors:
                yield f"{link['word']}: linked in {name}, and it has no entry"


def test_the_glossary_and_the_links_to_it_agree() -> None:
    names = [path.stem for path in find_sources() if path.stem[0].isdigit()]
    glossary = text_of("glossary")
    assert len(ENTRY.findall(glossary)) > 40
    assert list(findings(glossary, {name: text_of(name) for name in names})) == []


GLOSSARY = """# Glossary

### mask

Who may look at [whom](#token). [Lesson 3](03_masks.ipynb)

### token

A word, or a
piece. [Lesson
0](00_start.ipynb)
"""
LESSONS = {"00_start": "A [token](glossary.ipynb#token).", "03_masks": "No link."}


def test_a_glossary_without_fault_passes() -> None:
    assert list(findings(GLOSSARY, LESSONS)) == []


@pytest.mark.parametrize(
    ("old", "new", "finding"),
    [
        ("### mask", "### veil", "token: it comes after veil"),
        ("### mask", "### token", "token: it comes after token"),
        ("[Lesson 3](03_masks.ipynb)", "", "mask: no lesson at its end"),
        ("3](03_masks", "2](03_masks", "mask: 03_masks is not lesson 2"),
        ("03_masks.ipynb", "03_mosks.ipynb", "mask: 03_mosks is not lesson 3"),
        ("(#token)", "(#tokens)", "tokens: linked in glossary, and it has no entry"),
        ("### token", "### tokens", "token: linked in 00_start, and it has no entry"),
    ],
)
def test_every_fault_is_found(old, new, finding) -> None:
    assert old in GLOSSARY
    assert finding in list(findings(GLOSSARY.replace(old, new), LESSONS))
