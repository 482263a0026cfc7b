"""Each word of the glossary in lesson 00 is linked once in the series, where it is explained."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping

import pytest

from tools.lint.lesson import COMMENT
from tools.notebooks import LESSONS, find_sources, read_source

HOME, HEADING = "00_start_here", "Words and letters"
ANCHOR = "#" + HEADING.replace(" ", "-")
ROW = re.compile(
    r"^\| *(?P<word>\w[^|\n]*?) *\|(?P<meaning>[^|\n]*)\|[^|\n]*\|(?P<lesson>[^|\n]*)\|$", re.M
)
LESSON_LINK = re.compile(r"\[(?P<number>\d+)\]\((?P<file>[\w]*)(?:\.ipynb)?(?:#[^)]*)?\)")
TERM = re.compile(rf"\[\*\*(?P<text>[^\]*]+)\*\*\]\((?P<file>[^)#]*){re.escape(ANCHOR)}\)")
MEANING_WORDS = 14


def texts_of_lessons() -> dict[str, str]:
    """Return the markdown of each lesson that has a source."""
    cells = {path.stem: read_source(path).cells for path in find_sources()}
    return {
        name: "\n\n".join(cell.source for cell in found if cell.cell_type == "markdown")
        for name, found in cells.items()
    }


def findings(texts: Mapping[str, str]) -> list[str]:
    """Return what is wrong with the glossary of ``texts[HOME]`` and the links to it."""
    rows, links = list(rows_of(texts)), list(links_of(texts))
    return [*_wrong_rows(rows), *_wrong_places(rows, links), *_wrong_links(rows, links)]


def rows_of(texts: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    """Yield word, meaning and lesson of each row; the lesson is empty if the row names none."""
    _, _, after = texts[HOME].partition(f"## {HEADING}\n")
    table = re.split(r"^## ", after, flags=re.M)[0].partition("| letter |")[0]
    for row in ROW.finditer(table):
        if row["word"] != "word":  # the heading
            found = LESSON_LINK.fullmatch(row["lesson"].strip())
            lesson = (found["file"] or HOME) if found else ""
            same = lesson in LESSONS and int(lesson[:2]) == int(found["number"])
            yield row["word"], row["meaning"], lesson if same else ""


def links_of(texts: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    """Yield lesson, text and file of each link to the glossary."""
    for lesson, text in texts.items():
        for link in TERM.finditer(COMMENT.sub("", text)):
            yield lesson, link["text"], link["file"]


def names(text: str, word: str) -> bool:
    """Return whether a link's text is the word, in either case, perhaps in the plural."""
    return text.casefold() in (word.casefold(), f"{word}s".casefold())


def _wrong_rows(rows) -> Iterator[str]:
    for word, meaning, lesson in rows:
        if not lesson:
            yield f"{word}: the row links to no lesson of the series"
        if (count := len(meaning.split())) > MEANING_WORDS:
            yield f"{word}: {count} words; at most {MEANING_WORDS}"
    words = [word.casefold() for word, _, _ in rows]
    yield from (f"{word}: {n} rows" for word, n in Counter(words).items() if n > 1)
    if words != sorted(words):
        first = next(w for w, sorted_w in zip(words, sorted(words), strict=True) if w != sorted_w)
        yield f"{first}: the rows are not in alphabetical order"


def _wrong_places(rows, links) -> Iterator[str]:
    for word, _, lesson in rows:
        places = [place for place, text, _ in links if names(text, word)]
        if lesson and places != [lesson]:
            yield f"{word}: linked in {places or 'no lesson'}, and the row says {lesson}"


def _wrong_links(rows, links) -> Iterator[str]:
    for lesson, text, file in links:
        if not any(names(text, word) for word, _, _ in rows):
            yield f"{text}: linked in {lesson}, and the glossary has no such row"
        if file != ("" if lesson == HOME else f"{HOME}.ipynb"):
            yield f"{text}: the link in {lesson} leads to {file or 'its own lesson'!r}"


def test_the_glossary_and_the_links_to_it_agree() -> None:
    texts = texts_of_lessons()
    assert len(list(rows_of(texts))) > 20
    assert findings(texts) == []


GOOD = {
    HOME: f"""A [**token**]({ANCHOR}) is a word.

## {HEADING}

| word | what it is | shape | lesson |
|---|---|---|---|
| mask | who may look at whom | (L, S) | [3](03_masks_who_may_look_at_whom.ipynb) |
| token | a word | (E,) | [0](#A-part) |

| letter | counts |
|---|---|
| L | queries |

## Next
""",
    "03_masks_who_may_look_at_whom": f"[**Masks**]({HOME}.ipynb{ANCHOR}) hide.",
}


def test_a_glossary_without_fault_passes() -> None:
    assert [word for word, _, _ in rows_of(GOOD)] == ["mask", "token"]
    assert findings(GOOD) == []


@pytest.mark.parametrize(
    ("lesson", "old", "new", "words"),
    [
        ("00", "[3](03_masks_who_may_look_at_whom.ipynb)", "3", "mask: the row links to no"),
        ("00", "[3](03_masks_who_may", "[3](03_mosks_who_may", "mask: the row links to no"),
        ("00", "[3](03_", "[4](03_", "mask: the row links to no"),
        ("00", "who may look", "who may look" + " and look" * 10, "mask: 25 words"),
        ("00", "| token |", "| mask |", "mask: 2 rows"),
        ("00", "| mask |", "| veil |", "veil: the rows are not in alphabetical"),
        ("00", "[**token**]", "[token]", "token: linked in no lesson"),
        ("03", "hide.", f"hide a [**token**]({HOME}.ipynb{ANCHOR}).", "token: linked in ['00_"),
        ("03", "hide.", f"hide. A [**mask**]({HOME}.ipynb{ANCHOR})", "mask: linked in ['03_"),
        ("03", "[**Masks**]", "[**Veils**]", "Veils: linked in 03_"),
        ("03", f"{HOME}.ipynb", "", "Masks: the link in 03_"),
        ("00", f"({ANCHOR})", f"({HOME}.ipynb{ANCHOR})", "token: the link in 00_"),
    ],
)
def test_every_fault_is_found(lesson, old, new, words) -> None:
    name = next(name for name in GOOD if name.startswith(lesson))
    assert old in GOOD[name]
    found = findings({**GOOD, name: GOOD[name].replace(old, new)})
    assert any(finding.startswith(words) for finding in found), found
