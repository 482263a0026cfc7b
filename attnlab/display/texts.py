"""Find and read the texts of the lessons that are not in the notebooks: captions, predictions."""

from __future__ import annotations

import difflib
import tomllib
from pathlib import Path

from attnlab.checks import check_text, short

PACKAGE = Path(__file__).parent.parent
# installed from a wheel; in a checkout
CAPTIONS = (PACKAGE / "_captions.toml", PACKAGE.parent / "figures" / "captions.toml")
PREDICTIONS = (PACKAGE / "_predictions", PACKAGE.parent / "notebooks" / "predictions")


def caption_of(number: str) -> dict[str, str]:
    """Return the caption and the alternative text of a figure of the lessons.

    ValueError says that there is no such figure.
    """
    check_text("number", number)
    path = next((one for one in CAPTIONS if one.is_file()), CAPTIONS[-1])
    return _entry(path, number, "caption for Figure")


def question_of(key: str) -> dict[str, object]:
    """Return a prediction by its key, such as ``"02/variance-of-a-product"``, with all its texts.

    ValueError says that there is no such prediction.
    """
    check_text("key", key)
    lesson, _, name = key.partition("/")
    files = prediction_files()
    if lesson not in files:
        known = ", ".join(files)
        raise ValueError(
            'key must be the number of a lesson and a name, such as "02/variance-of-a-product", '
            f"got {short(key)}; the lessons with predictions are {known}."
        )
    return _entry(files[lesson], name, "prediction")


def prediction_files() -> dict[str, Path]:
    """Return the files of predictions by the number of their lesson."""
    paths = {path for folder in PREDICTIONS for path in folder.glob("[0-9][0-9]_*.toml")}
    return {path.name[:2]: path for path in sorted(paths)}


def read(path: Path) -> dict[str, dict]:
    """Return the entries of a TOML file; ValueError names a file that cannot be read."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path.name} cannot be read: {error}.") from None


def _entry(path: Path, name: str, what: str) -> dict:
    entries = read(path)
    if name not in entries:
        close = difflib.get_close_matches(name, entries, n=3, cutoff=0.5)
        meant = f"; did you mean {' or '.join(close)}?" if close else "."
        raise ValueError(f"{path.name} has no {what} {name!r}{meant}")
    return entries[name]
