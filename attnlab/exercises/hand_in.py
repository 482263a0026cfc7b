"""Write what a learner did in a notebook into one small file."""

from __future__ import annotations

import json
import re
import textwrap
from pathlib import Path
from typing import NamedTuple

from attnlab import exercises
from attnlab.checks import check_type, short
from attnlab.display import folds
from attnlab.display.ipython import running_shell
from attnlab.display.texts import check_text, question_of
from attnlab.exercises.frame.saved import said_in, saved_path
from attnlab.exercises.frame.stale import ran
from attnlab.exercises.frame.verdict import latest

ASK_NAME = (
    'Write your name between the quotes, as in name="Ada", and run this cell again. Then hand in '
    "the file that it names."
)
WIDTH = 68  # characters
RUN_OTHERS = "If you have answered them, run them, and then run this cell again."


def hand_in(lesson: str, *, name: str) -> None:
    """Write a file to hand in: the code that was run, predictions, and verdicts of the checks.

    The file is a small notebook without outputs, beside the one that calls this function. It holds
    the code that this kernel has run. If that is not all exercises, it holds the code of the saved
    notebook with what has run since, or, where that is not found, a sentence asks to run them.

    Parameters
    ----------
    lesson : str
        The number of the lesson, such as ``"02"``.
    name : str
        Who hands it in.

    Raises
    ------
    TypeError
        If an argument is not a string.
    ValueError
        If there is no such lesson.
    RuntimeError
        Outside a notebook.

    See Also
    --------
    attnlab.exercises.predict : asks for a prediction.
    """
    check_text("lesson", lesson)
    check_type("name", name, str, "a string")
    shell = running_shell()
    checks = [check for check, number in exercises.LESSON_OF.items() if f"{number:02}" == lesson]
    if not checks:
        raise ValueError(f'lesson must be the number of a lesson, as in "02", got {short(lesson)}.')
    if shell is None:
        raise RuntimeError(
            "hand_in must be called in a notebook, because it collects the cells that were run."
        )
    if not name.strip():
        _say(ASK_NAME)
        return
    saved = _saved_notebook(checks)
    predictions = saved.predictions if saved else {}
    predictions |= {key: said for key, said in folds.committed.items() if said is not None}
    verdicts = {check: latest[check].headline for check in checks if _is_done(check)}
    sources, code = shell.history_manager.input_hist_raw, "your code"
    run = sum(check in latest for check in checks)
    were = "was" if run == 1 else "were"
    some = f"{run} of the {len(checks)} exercise cells {were} run since the kernel started; "
    if run == len(checks):
        more = _answered(checks, verdicts)
    elif saved:
        sources = saved.sources
        code = f"the code of {saved.name}, as it was last saved and with what has run since,"
        more = f"{some}the others are handed in as they were saved."
    elif run:
        more = f"{some}the file holds no answer to the others. {RUN_OTHERS}"
    else:
        _say(f"{some}run them first, and then run this cell again.")
        return
    told = {"lesson": lesson, "name": name, "predictions": predictions, "verdicts": verdicts}
    path = Path(f"handin_{lesson}_{_as_file_name(name)}.ipynb")
    path.write_text(json.dumps(_notebook(sources, told), indent=1) + "\n", encoding="utf-8")
    _say(f"Hand in the file {path.name}. It contains {code} and {_count(len(predictions))}.")
    _say(more)


def _say(text: str) -> None:
    """Print sentences in lines that fit JupyterLab's output at 1024 px, which breaks words."""
    print(textwrap.fill(text, WIDTH, break_long_words=False, break_on_hyphens=False))


def _is_done(check: str) -> bool:
    return check in latest and latest[check].done


def _answered(checks: list[str], verdicts: dict[str, str]) -> str:
    """Return how many exercises were answered and accepted, and which were not answered."""
    told = f"You answered {len(verdicts)} of the {len(checks)} exercises, and the checks accepted "
    told += f"{list(verdicts.values()).count('Correct')}."
    missing = [check for check in checks if check not in verdicts]
    return f"{told} No answer yet: {', '.join(missing)}." if missing else told


class Saved(NamedTuple):
    """The notebook as it was last saved; a cell that has run since is taken as it ran."""

    name: str
    sources: list[str]
    predictions: dict[str, str]


def _saved_notebook(checks: list[str]) -> Saved | None:
    """Return the saved notebook; None if it is not found, or calls none of the checks."""
    path = saved_path()
    try:
        notebook = json.loads(path.read_bytes())
        cells = [cell for cell in notebook["cells"] if "outputs" in cell]
        since = dict(ran)
        sources = [since.pop(cell.get("id"), "".join(cell["source"])) for cell in cells]
        sources += since.values()
        said = {
            key: question_of(key)["options"][option]["text"]
            for key, option in said_in(notebook).items()
        }
    except (OSError, ValueError, LookupError, TypeError):  # no file, or another notebook
        return None
    is_lesson = any(check in source for check in checks for source in sources)
    return Saved(path.name, sources, said) if is_lesson else None


def _count(predictions: int) -> str:
    if predictions == 0:
        return "no predictions, because none was answered since the kernel started"
    return "1 prediction" if predictions == 1 else f"{predictions} predictions"


def _as_file_name(text: str) -> str:
    return re.sub(r"\W+", "_", text).strip("_")[:60] or "learner"


def _notebook(sources: list[str], told: dict[str, object]) -> dict[str, object]:
    """Return a notebook of code cells without outputs."""
    empty = {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None}
    cells = [{**empty, "source": source} for source in sources if source.strip()]
    return {"nbformat": 4, "nbformat_minor": 4, "metadata": {"attnlab": told}, "cells": cells}
