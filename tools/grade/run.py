"""Run the code of a submission, and ask its answers: ``make grade`` starts this in a folder.

The folder holds ``job.json``, with the code of all cells and what each check is to be given, as a
name or as code. Two files are written into it: ``notes.pt``, what became of the cells and what the
answers gave; and ``.ran``, how many cells came to an end, should one of them end the process. This
process and its children are fenced in, and nothing that it says of itself decides anything.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from itertools import pairwise
from pathlib import Path

from tools.grade.fence import limit, run_apart

RAN = ".ran"  # the file that counts the cells that came to an end
TOO_LATE = 3  # exit status: time was up
TOO_SLOW = "This cell computed for more than {} seconds."
WAITED = "This cell was stopped after {:.0f} seconds, in which it hardly computed."


def play(folder: Path) -> None:
    """Run all cells, and write what the answers give to the checks."""
    limit(folder)
    import torch

    torch.set_num_threads(1)
    from attnlab import exercises
    from tools.grade.replay import Recorder, pack

    job = json.loads((folder / "job.json").read_text())
    checks = {check: (getattr(exercises, check), name) for check, name in job["answers"].items()}
    names, errors = run_cells(job["cells"], job["seconds"], ran=folder / RAN)
    notes = {}
    for key, (check, code) in checks.items():
        try:
            given = names[code] if code.isidentifier() else eval(code, names)
        except Exception:  # a name is missing, here or in an answer such as a lambda
            notes[key] = ("missing", code, errors.get(code, ""), None)
            continue
        answer = Recorder(given)
        verdict = check(answer)
        said = verdict.done, verdict.ok, verdict.message
        notes[key] = ("asked", answer.name, answer.notes, said)
    (folder / "notes.pt").write_bytes(pack(notes))
    os._exit(0)


def run_cells(
    cells: list[str], seconds: float, *, ran: Path
) -> tuple[dict[str, object], dict[str, str]]:
    """Run cells as a notebook does, each for some seconds of computing at most.

    Return the names that they define, and for some that they should define what went wrong. What a
    cell that was stopped should have defined is what the next cell uses. The file ``ran`` counts
    the cells.
    """
    from IPython.core.interactiveshell import InteractiveShell

    from attnlab.exercises.frame.stale import DEFINED
    from attnlab.sandbox import WAIT, Outcome, call

    shell = InteractiveShell.instance()
    shell.history_manager.enabled = False
    shell.display_formatter.active_types = ["text/plain"]  # nobody looks
    errors = {}
    for number, (source, following) in enumerate(pairwise([*cells, ""])):
        ran.write_text(str(number))
        outcome = call(shell.run_cell, source, time_limit=seconds)
        result = outcome.value
        error = outcome.error or result.error_before_exec or result.error_in_exec
        if error is not None:
            # the alarm may hit IPython while it tells of the alarm, so the error says little
            why = Outcome(error=error).trouble
            names = DEFINED.findall(source)
            is_slow = outcome.seconds >= seconds
            if is_slow or outcome.passed >= WAIT:
                why = TOO_SLOW.format(seconds) if is_slow else WAITED.format(outcome.passed)
                names += re.findall(r"\w+", following)
            errors |= dict.fromkeys(names, why)
    ran.write_text(str(len(cells)))
    return shell.user_ns, errors


def main() -> None:
    """Run the submission in a child, kill what is left of it, and say how it ended."""
    folder = Path.cwd()
    status = run_apart(lambda: play(folder))
    sys.exit(TOO_LATE if status in (None, -signal.SIGXCPU) else min(abs(status), 1))


if __name__ == "__main__":
    main()
