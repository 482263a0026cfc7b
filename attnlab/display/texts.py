"""Find and read the texts of the lessons that are not in the notebooks: questions, captions."""

from __future__ import annotations

import difflib
import tomllib
from pathlib import Path

from attnlab.checks import check_type, short

PACKAGE = Path(__file__).parent.parent
# installed from a wheel; in a checkout
FOLDERS = (PACKAGE / "_texts", PACKAGE.parent / "notebooks" / "texts")


def caption_of(number: str) -> dict[str, str]:
    """Return the caption, the alternative text and the title of a figure, such as ``"3.2"``.

    ValueError says that there is no such figure.
    """
    check_text("number", number)
    return _entry(number.partition(".")[0].zfill(2), "figure", number)


def question_of(key: str) -> dict[str, object]:
    """Return a prediction by its key, such as ``"02/variance-of-a-product"``, with all its texts.

    ValueError says that there is no such prediction.
    """
    check_text("key", key)
    lesson, _, name = key.partition("/")
    return _entry(lesson, "question", name)


def text_files() -> dict[str, Path]:
    """Return the files of texts by the number of their lesson."""
    paths = {path for folder in FOLDERS for path in folder.glob("[0-9][0-9]_*.toml")}
    return {path.name[:2]: path for path in sorted(paths)}


def read(path: Path) -> dict[str, dict]:
    """Return the entries of a TOML file; ValueError names a file that cannot be read."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path.name} cannot be read: {error}.") from None


def _entry(lesson: str, kind: str, name: str) -> dict:
    """Return an entry of a lesson: one of its questions, or the texts of one of its figures."""
    files = text_files()
    if lesson not in files:
        example = "02/variance-of-a-product" if kind == "question" else "3.2"
        raise ValueError(
            f'a {kind} is named by the number of its lesson, as in "{example}", '
            f"got {short(f'{lesson}/{name}' if kind == 'question' else name)}; "
            f"the lessons with texts are {', '.join(files)}."
        )
    entries = read(files[lesson]).get(kind, {})
    if name not in entries:
        close = difflib.get_close_matches(name, entries, n=3, cutoff=0.5)
        meant = f"; did you mean {' or '.join(close)}?" if close else "."
        raise ValueError(f"{files[lesson].name} has no {kind} {name!r}{meant}")
    return entries[name]


def check_text(name: str, value: object) -> None:
    """Raise TypeError or ValueError unless ``value`` is a string with something in it."""
    check_type(name, value, str, "a string")
    if not value.strip():
        raise ValueError(f"{name} must not be empty, got {value!r}.")
