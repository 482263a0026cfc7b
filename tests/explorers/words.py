"""The words of an explorer as they are kept: each form of a sentence once, at one state."""

import re
from collections.abc import Iterator, Mapping

from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode

from attnlab.explorers import Explorer

NAME = r"(?:“.*?”|itself|\[\w+\]|\b[A-Z]\b|[KMGT]iB|[−\d.,]*\d)"
CHANGES = rf"{NAME}(?:(?:,| and| at| \(row) {NAME}\)?)*"  # from state to state, in one sentence


class Text(SingleFileSnapshotExtension):
    """A file for each explorer, to be read as it is."""

    file_extension = "txt"
    _write_mode = WriteMode.TEXT


def texts_in(value: object) -> Iterator[str]:
    """Yield the texts of a frame that are more than numbers."""
    if isinstance(value, str) and re.search(r"[^\W\d]|[✓✗●◀×÷]", value):
        yield value.replace("\n", " / ")
    elif isinstance(value, Mapping | list | tuple):
        for one in value.values() if isinstance(value, Mapping) else value:
            yield from texts_in(one)


def introduction(explorer: Explorer) -> list[str]:
    """Return heading, hint and question, and the templates of a script."""
    told = [explorer.title, explorer.hint, ""]
    if question := explorer.prediction:
        right = question.options[question.right]
        options = [f"{'->' if one == right else ' -'} {one}" for one in question.options]
        told += [f"Predict first: {question.ask}", *options, question.why, question.then, ""]
    return [*told, " · ".join(texts_in(explorer.data.get("words", ()))), ""]


def forms_of(said: str) -> set[str]:
    """Return the sentences without what changes in them from state to state."""
    return {re.sub(CHANGES, "#", part) for part in said.split(". ")}


def at_state(explorer: Explorer, frame: Mapping[str, object]) -> list[str]:
    """Return what is read at a state: the sentence, and the texts of the panels."""
    panels = [one for name, one in frame.items() if name not in ("say", "code")]
    return [repr(explorer), explorer.say(), *filter(None, [" · ".join(texts_in(panels))]), ""]
