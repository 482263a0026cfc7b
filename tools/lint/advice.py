"""Advice on the prose of the lessons, which never fails: `make prose`.

    python -m tools.lint.advice            all lessons
    python -m tools.lint.advice 01 02      these lessons

It lists sentences that are longer than 30 words, that say "is no", "nobody" or a private word where
the field has a standard one, or that seem to have no verb. A sentence counts as verbless if none of
its words is a common verb or has the ending of one; so nouns in -s hide fragments, and a sentence
whose only verb is rare and without an ending is listed although it is whole. None of this is a
substitute for reading aloud.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator

from tools.lint.lesson import CODE_SPAN, FENCE, Lesson, Note, words_of
from tools.notebooks import find_notebooks, select

LONGEST = 30  # words
SENTENCE = re.compile(
    r"(?<=[.?!:])[\"”)*]*\s+(?=[\"“(*]*[A-Z0-9])|\n\s*\n|\n\s*[-*]\s|\n\s*\d+\.\s"
)
NOT_PROSE = re.compile(r"^\s*(?:\||#|\*\*You need|\*\*Time|<)")
VERBS = set(
    """am are be been being is was were isn't aren't wasn't weren't it's that's there's what's let's
    we're you're they're can can't could did didn't do does doesn't don't had has have haven't may
    might must shall should will won't would we'll you'll it'll we've you've ask become begin call
    change come compare count cut differ draw fall fell find found gave get give go goes grow held
    hold keep kept know knew lead leave let lie look lose lost made make mean meet move need put
    read ran run saw say see set show sit stand start stay take tell think took try turn use want
    went work write wrote""".split()
)
ENDING = re.compile(r"\w{2,}(?:ed|s)")
PRIVATE = {  # from LESSONS.md, with what the field or plain English says
    "bright": "dark is large",
    "favourite": "the key with the largest weight",
    "way back": "backward pass",
    "even share": "uniform attention",
    "stranger": "another word",
    "whoever": "if you",
    "everybody": "every token",
    "nobody": "no token",
    "somebody": "some token",
    "tells": "shows, says",
    "stands": "is",
}
IS_NO = re.compile(r"\b(?:is|are|was|were) no\b(?! (?:longer|more|less)\b)")


def advice(lesson: Lesson) -> Iterator[Note]:
    """Yield what an editor should look at in the texts of a lesson."""
    for n, text in lesson.texts:
        if lesson.sections[n][1] != "Sources":  # titles are quoted as they are
            for sentence in sentences_of(text):
                for remark in remarks(sentence):
                    quote = sentence.partition("\n")[0][:40]
                    yield Note(n, f"{remark}: {shortened(sentence)}", quote)


def sentences_of(text: str) -> list[str]:
    """Return the sentences of a markdown text, without headings, tables and code."""
    text = CODE_SPAN.sub("code", FENCE.sub("", text))
    blocks = [block for block in text.split("\n\n") if not NOT_PROSE.match(block)]
    parts = SENTENCE.split("\n\n".join(words_of(block) for block in blocks))
    return [part.strip() for part in parts if part and len(re.findall(r"\w+", part)) > 2]


def remarks(sentence: str) -> Iterator[str]:
    """Yield what is said against a sentence."""
    words = re.findall(r"[\w’'-]+", sentence.replace("’", "'").casefold())
    if len(words) > LONGEST:
        yield f"{len(words)} words"
    if not any(word in VERBS or ENDING.fullmatch(word) for word in words):
        yield "no verb"
    if found := IS_NO.search(sentence):
        yield f"{found[0]!r}"
    for word, better in PRIVATE.items():
        if re.search(rf"\b{word}", sentence, re.IGNORECASE):
            yield f"{word!r} ({better})"


def shortened(sentence: str) -> str:
    """Return a sentence on one line, at most 90 characters of it."""
    line = " ".join(sentence.split())
    return line if len(line) <= 90 else f"{line[:87]}..."


def main() -> None:
    """Print the advice on the lessons that the command line names."""
    count = 0
    for path in select(find_notebooks(), sys.argv[1:]):
        lesson = Lesson(path)
        for note in advice(lesson):
            count += 1
            print(f"{lesson.place(note)}: {note.text}")
    print(f"Remarks: {count}. This is advice: read aloud as well.")


if __name__ == "__main__":
    main()
