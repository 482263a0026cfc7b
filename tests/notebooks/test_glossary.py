"""The glossary is one page: each word once, in order, with the lesson that explains it.

That the links to its words lead somewhere is checked on the site.
"""

from __future__ import annotations

import re

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
