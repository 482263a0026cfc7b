"""The words of every explorer, as they were: ``pytest --snapshot-update`` keeps new ones."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode

from tests.explorers.common import KINDS, at
from tests.explorers.test_every_stop import seen, stops

NAME = r"(?:“.*?”|itself|\[\w+\]|\b[A-Z]\b|[KMGT]iB|[−\d.,]*\d)"
CHANGES = rf"{NAME}(?:(?:,| and| at| \(row) {NAME}\)?)*"  # from state to state, in one sentence


class Text(SingleFileSnapshotExtension):
    """A file for each explorer, to be read as it is."""

    file_extension = "txt"
    _write_mode = WriteMode.TEXT


def texts_in(value: object) -> Iterator[str]:
    """Yield the texts of a frame that are more than numbers."""
    if isinstance(value, str) and re.search(r"[^\W\d]|[✓✗●◀]", value):
        yield value.replace("\n", " / ")
    elif isinstance(value, Mapping | list | tuple):
        for one in value.values() if isinstance(value, Mapping) else value:
            yield from texts_in(one)


def test_no_words_are_kept_of_an_explorer_that_has_gone():
    folder = Path(__file__).with_name("__snapshots__") / Path(__file__).stem
    kept = {path.name for path in folder.iterdir()}
    assert kept == {f"test_words[{kind.__name__}].txt" for kind in KINDS}


@pytest.mark.parametrize("kind", KINDS)
def test_words(kind, snapshot):
    told, said = [kind.title, kind.hint, ""], set()
    if question := at(kind).prediction:
        right = question.options[question.right]
        options = [f"{'->' if one == right else ' -'} {one}" for one in question.options]
        told += [f"Predict first: {question.ask}", *options, question.why, question.then, ""]
    told += [" · ".join(texts_in(at(kind).data.get("words", ()))), ""]  # templates of a script
    for explorer in stops(kind):
        forms = {re.sub(CHANGES, "#", part) for part in explorer.say().split(". ")}
        if forms - said:  # something that has not been said yet
            said |= forms
            told += [repr(explorer), explorer.say()]
            if "frames" in explorer.data:
                panels = [
                    one for name, one in seen(explorer).items() if name not in ("say", "code")
                ]
                told.append(" · ".join(texts_in(panels)))
            told.append("")
    assert "\n".join(told) == snapshot(extension_class=Text)
