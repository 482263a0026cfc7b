"""Write what a learner did in a notebook into one small file."""

from __future__ import annotations

import json
import re
from pathlib import Path

from attnlab.checks import check_type
from attnlab.display import folds
from attnlab.display.ipython import running_shell
from attnlab.display.texts import check_text
from attnlab.exercises.frame.verdict import latest

ASK_NAME = (
    'Write your name between the quotes, as in name="Ada", and run this cell again. Then hand in '
    "the file that it names."
)


def hand_in(lesson: str, *, name: str) -> None:
    """Write a file to hand in: the code that was run, predictions, and verdicts of the checks.

    The file is a small notebook without outputs, beside the one that calls this function. It holds
    the code that this kernel has run, so run the notebook from its beginning first.

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
    RuntimeError
        Outside a notebook.

    See Also
    --------
    attnlab.exercises.predict : asks for a prediction.
    """
    check_text("lesson", lesson)
    check_type("name", name, str, "a string")
    shell = running_shell()
    if shell is None:
        raise RuntimeError(
            "hand_in must be called in a notebook, because it collects the cells that were run."
        )
    if not name.strip():
        print(ASK_NAME)
        return
    predictions = {key: said for key, said in folds.committed.items() if said is not None}
    verdicts = {check: verdict.headline for check, verdict in latest.items() if verdict.done}
    told = {"lesson": lesson, "name": name, "predictions": predictions, "verdicts": verdicts}
    sources = [source for source in shell.history_manager.input_hist_raw if source.strip()]
    path = Path(f"handin_{_as_file_name(lesson)}_{_as_file_name(name)}.ipynb")
    path.write_text(json.dumps(_notebook(sources, told), indent=1) + "\n", encoding="utf-8")
    print(f"Hand in the file {path.name}. It contains your code and {_count(len(predictions))}.")
    if verdicts:
        correct = sum(headline == "Correct" for headline in verdicts.values())
        print(f"The checks that you ran accepted {correct} of {len(verdicts)} answers.")


def _count(predictions: int) -> str:
    if predictions == 0:
        return "no predictions, because none was answered since the kernel started"
    return "1 prediction" if predictions == 1 else f"{predictions} predictions"


def _as_file_name(text: str) -> str:
    return re.sub(r"\W+", "_", text).strip("_")[:60] or "learner"


def _notebook(sources: list[str], told: dict[str, object]) -> dict[str, object]:
    """Return a notebook of code cells without outputs."""
    empty = {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None}
    cells = [{**empty, "source": source} for source in sources]
    return {"nbformat": 4, "nbformat_minor": 4, "metadata": {"attnlab": told}, "cells": cells}
