"""The glossary is one page: each word once, in order, with the lesson that explains it.

That the links to its words lead somewhere is checked on the site.
"""

from __future__ import annotations

import re
from pathlib import Path

from tools.build.sources import NOTEBOOKS, SOURCES, read_source

TEXT = "\n\n".join(cell.source for cell in read_source(SOURCES / "glossary.py").cells)
ENTRIES = re.findall(r"^### (.+)\n\n((?:.+\n?)+)", TEXT, re.MULTILINE)


def test_each_word_has_one_entry_in_alphabetical_order() -> None:
    words = [word.casefold() for word, _ in ENTRIES]
    assert len(words) > 40
    assert words == sorted(set(words))
    assert TEXT.count("\n### ") == len(ENTRIES)  # none without a text


def test_each_entry_ends_with_a_link_to_its_lesson() -> None:
    for word, text in ENTRIES:
        home = re.search(r"\[Lesson\s(\d+)\]\((\d\d)_(\w+)\.ipynb\)$", text.strip())
        assert home, word
        assert int(home[1]) == int(home[2]), word
        assert (NOTEBOOKS / f"{home[2]}_{home[3]}.ipynb").exists(), word


def prose_of(path: Path) -> str:
    """Return all that a learner reads of a lesson, on one line."""
    cells = (
        cell.source
        for cell in read_source(path).cells
        if cell.cell_type == "markdown" and "teacher" not in cell.metadata.get("tags", [])
    )
    return " ".join("\n".join(cells).split())


LESSONS = {path.stem: prose_of(path) for path in sorted(SOURCES.glob("[0-9]*.py"))}
ANCHORS = {word.replace(" ", "-") for word, _ in ENTRIES}
BOLD_TERM = re.compile(r"(\[?)\*\*([a-z][\w -]{2,30})\*\*(?:\]\(glossary\.ipynb#([^)]+)\))?")


def test_each_term_that_a_lesson_sets_in_bold_is_a_link_to_its_entry() -> None:
    found = 0
    for lesson, text in LESSONS.items():
        for bracket, term, anchor in BOLD_TERM.findall(text):
            assert (bracket, anchor in ANCHORS) == ("[", True), (lesson, term)
            found += 1
    assert found > 40


def test_no_entry_names_a_lesson_without_the_word_or_a_link_to_it() -> None:
    for word, text in ENTRIES:
        (home,) = re.findall(r"\((\d\d_\w+)\.ipynb\)$", text.strip())
        said = LESSONS[home].casefold()
        is_there = word.casefold().rstrip("s") in said or word.casefold()[:-1] in said
        anchors = {word.replace(" ", "-"), *re.findall(r"\]\(#([^)]+)\)", text)}
        linked = any(f"glossary.ipynb#{anchor})" in LESSONS[home] for anchor in anchors)
        assert is_there or linked, (word, home)
