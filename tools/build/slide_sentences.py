"""Which sentences of a cell stand on slides: its metadata names them by their first words.

``# %% nan-spreads [markdown] below="One empty row"`` puts a sentence over the slide that follows,
``above=`` says what the slide before the cell shows, ``end=`` is for the last slide, and a list
puts several.
"""

import re

from nbformat import NotebookNode

from tools.build.sources import PLACES, LessonError

LEAST_WORDS = 3  # of a name
CLOSING = r"[”’\"')\]*_]*"  # what may stand behind the end of a sentence
# A sentence begins with a paragraph or an item, or after another sentence or a colon.
START = rf"(?:\A|\n\s*\n|^[ >]*(?:[-+*]|\d+[.)])[ ]|[.?!:]{CLOSING}\s)\s*"


def marks_of(cell: NotebookNode) -> list[tuple[str, str]]:
    """Return the sentences that a cell puts on slides: the place of each, and its first words.

    LessonError says that a sentence is named by fewer than three words.
    """
    marks = []
    for place in PLACES:
        names = cell.metadata.get(place, [])
        marks += [(place, words) for words in ([names] if isinstance(names, str) else names)]
    for place, words in marks:
        if len(words.split()) < LEAST_WORDS:
            raise LessonError(f"cell {cell.id!r}: {place}={words!r} needs three words or more.")
    return marks


def sentence_in(prose: str, words: str) -> str | None:
    """Return the sentence of a text that begins with these words; None if there is none."""
    first = r"\s+".join(map(re.escape, words.split()))
    pattern = rf"{START}(?P<sentence>{first}(?!\w).*?[.?!]{CLOSING}(?=\s|$))"
    match = re.search(pattern, prose, re.DOTALL | re.MULTILINE)
    return match and match["sentence"]
