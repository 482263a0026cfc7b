"""Say what the answers of a submission are worth; nothing of the submission runs here.

``make grade`` starts this in the folder where a submission ran. What was noted there is given once
more to the checks of this repository. The verdicts go to the standard output, as JSON.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tools.grade.fence import FILE, limit

UNREADABLE = "The results of this notebook could not be read."


def judged(check: object, told: tuple) -> tuple[str, str]:
    """Return the verdict of a check and its sentence, from what was noted where an answer ran."""
    from tools.grade.replay import SILENCE, Replayer

    kind, name, notes, said = told
    if kind == "missing":
        return ("failed to run", notes) if notes else ("missing", "")
    verdict = check(Replayer(name, notes))
    if not verdict.done:
        return "missing", ""
    if verdict.ok is None:
        return "failed to run", verdict.message
    _done, ok, message = said
    if verdict.ok and ok is True:
        return "correct", verdict.message
    # only the process of the answer sees, for example, that inputs are changed in place
    told_there = verdict.ok or verdict.message == SILENCE
    return "not yet", message if told_there and ok is False else verdict.message


def main() -> None:
    """Print the verdicts on the notes in this folder."""
    folder = Path.cwd()
    limit(folder)
    import torch

    from attnlab import exercises
    from tools.grade.replay import unpack

    torch.set_num_threads(1)
    with (folder / "notes.pt").open("rb") as file:
        notes = unpack(file.read(FILE))
    verdicts = {}
    for key in sys.argv[1:]:
        try:
            verdicts[key] = judged(getattr(exercises, key), notes[key])
        except Exception:  # notes that no honest process writes
            verdicts[key] = ("failed to run", UNREADABLE)
    print(json.dumps(verdicts))


if __name__ == "__main__":
    main()
