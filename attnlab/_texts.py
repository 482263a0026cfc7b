"""Find and read the texts of the lessons that are not in the notebooks: captions, predictions."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Mapping
from pathlib import Path

from attnlab._checks import check_text, short

PACKAGE = Path(__file__).parent
# installed from a wheel; in a checkout
CAPTIONS = (PACKAGE / "_captions.toml", PACKAGE.parent / "figures" / "captions.toml")
PREDICTIONS = (PACKAGE / "_predictions", PACKAGE.parent / "notebooks" / "predictions")

Form = dict[str, type]
NUMBER = int | float
FIGURE: tuple[Form, Form] = ({"caption": str, "alt": str}, {"title": str})
QUESTION: tuple[Form, Form] = (
    {"question": str, "explanation": str},
    {"options": list, "number": dict},
)
OPTION: tuple[Form, Form] = ({"text": str}, {"feedback": str, "correct": bool})
ESTIMATE: tuple[Form, Form] = (
    {"unit": str, "value": NUMBER, "tolerance": NUMBER},
    {"feedback": str, "low": str, "high": str, "slips": list},
)
SLIP: tuple[Form, Form] = ({"value": NUMBER, "feedback": str}, {"tolerance": NUMBER})
NAMES = {str: "text", list: "a list", dict: "a table", bool: "true or false", NUMBER: "a number"}


def caption_of(number: str) -> dict[str, str]:
    """Return the caption and the alternative text of a figure of the lessons.

    ValueError says that there is no such figure, or what is wrong with its entry.
    """
    check_text("number", number)
    path = next((one for one in CAPTIONS if one.is_file()), CAPTIONS[-1])
    return _entry(path, number, "caption for Figure", FIGURE)


def question_of(key: str) -> dict[str, object]:
    """Return a prediction by its key, such as ``"02/variance-of-a-product"``, with all its texts.

    ValueError says that there is no such prediction, or what is wrong with its entry.
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
    question = _entry(files[lesson], name, "prediction", QUESTION)
    where = f"{files[lesson].name}, {name}"
    if ("options" in question) == ("number" in question):
        raise ValueError(f"{where}: there must be either options or a number.")
    if "number" in question:
        _check(f"{where}, number", question["number"], ESTIMATE)
        for place, slip in enumerate(question["number"].get("slips", []), start=1):
            _check(f"{where}, slip {place}", slip, SLIP)
    else:
        _check_options(where, question["options"])
    return question


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


def _entry(path: Path, name: str, what: str, form: tuple[Form, Form]) -> dict:
    entries = read(path)
    if name not in entries:
        close = difflib.get_close_matches(name, entries, n=3, cutoff=0.5)
        meant = f"; did you mean {' or '.join(close)}?" if close else "."
        raise ValueError(f"{path.name} has no {what} {name!r}{meant}")
    _check(f"{path.name}, {name}", entries[name], form)
    return entries[name]


def _check_options(where: str, options: list) -> None:
    if not 2 <= len(options) <= 5:
        raise ValueError(f"{where}: there must be 2 to 5 options, got {len(options)}.")
    for place, option in enumerate(options, start=1):
        _check(f"{where}, option {place}", option, OPTION)
    if not any(option.get("correct") for option in options):
        raise ValueError(f"{where}: no option says correct = true.")
    texts = [option["text"] for option in options]
    if twice := [text for text in texts if texts.count(text) > 1]:
        raise ValueError(f"{where}: two options have the text {twice[0]!r}.")


def _check(where: str, table: object, form: tuple[Form, Form]) -> None:
    """Raise ValueError unless a table has the required entries, and no other than the optional."""
    required, optional = form
    if not isinstance(table, Mapping):
        raise ValueError(f"{where}: this must be a table, got {short(table)}.")
    if missing := [name for name in required if name not in table]:
        raise ValueError(f"{where}: {missing[0]} is missing.")
    for name, value in table.items():
        kind = (required | optional).get(name)
        if kind is None:
            allowed = ", ".join([*required, *optional])
            raise ValueError(f"{where}: {name!r} is not known; there may be {allowed}.")
        is_kind = isinstance(value, kind) and (kind is bool or not isinstance(value, bool))
        if not is_kind or (kind is str and not value.strip()):
            raise ValueError(f"{where}: {name} must be {NAMES[kind]}, got {short(value)}.")
