"""Try one submission: run its cells in a process of their own, and judge what they gave in another.

A process has limits of time and memory, and an empty folder.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from tools.build.sources import ROOT
from tools.grade.fence import MEMORY, SECONDS, WAIT
from tools.grade.judge import UNREADABLE
from tools.grade.run import RAN, TOO_LATE

Verdict = tuple[str, str]  # correct, not yet, missing or failed to run; and a sentence
CELL = 30  # seconds of computing for one cell
PATIENCE = 30  # seconds more than a process may take, until it is killed from outside
LENGTH = 600  # letters of a sentence
KEPT = ("PATH", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "SYSTEMROOT")
ENDED = (
    "The notebook ended its Python process, perhaps by running out of memory, before this answer "
    "could be checked."
)
OUT_OF_TIME = (
    f"The notebook did not finish within {SECONDS} seconds of computing, or {WAIT} on the clock."
)
NO_MEMORY = re.compile(r"MemoryError|alloc_cpu\.cpp|annot allocate memory")
OUT_OF_MEMORY = f"It used more than {MEMORY >> 30} GiB of memory."


def judged(cells: list[str], wanted: dict[str, str]) -> dict[str, Verdict]:
    """Run cells and judge the answers, by the names of the checks, in two processes.

    If a cell ends its process, the cells before it are run once more, and what they answer counts.
    """
    if not wanted:
        return {}
    ended = ""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(name)
        status = _played(folder, cells, wanted)
        if status != 0 and 0 < (ran := _count(folder / RAN)) < len(cells):
            ended = _why(status)
            status = _played(folder, cells[:ran], wanted)
        if status != 0:
            return dict.fromkeys(wanted, ("failed to run", _why(status)))
        status, told = _started("tools.grade.judge", list(wanted), folder)
    if status != 0:
        return dict.fromkeys(wanted, ("failed to run", UNREADABLE))
    verdicts = {check: _told(*verdict) for check, verdict in json.loads(told).items()}
    if ended:  # the answer may stand after the cell that ended the process
        lost = [check for check, (kind, _) in verdicts.items() if kind == "missing"]
        verdicts |= dict.fromkeys(lost, ("failed to run", ended))
    return verdicts


def _played(folder: Path, cells: list[str], wanted: dict[str, str]) -> int:
    """Run cells in a process of their own; return its status, 0 only if it left notes."""
    job = {"cells": cells, "seconds": CELL, "answers": wanted}
    (folder / "job.json").write_text(json.dumps(job))
    status, _ = _started("tools.grade.run", [], folder)
    return status or int(not (folder / "notes.pt").is_file())


def _count(path: Path) -> int:
    """Return the number in a small file; 0 if a submission has put something else there."""
    if not path.is_file():
        return 0
    with path.open("rb") as file:
        text = file.read(9)
    return int(text) if text.isdigit() else 0


def _why(status: int) -> str:
    return OUT_OF_TIME if status == TOO_LATE else ENDED


def _started(module: str, arguments: list[str], folder: Path) -> tuple[int, str]:
    """Run a module of this project in a folder; return its status and what it printed."""
    settings = {name: os.environ[name] for name in KEPT if name in os.environ}
    homes = dict.fromkeys(("HOME", "TMPDIR", "MPLCONFIGDIR", "IPYTHONDIR"), str(folder))
    settings |= {**homes, "PYTHONPATH": str(ROOT), "MPLBACKEND": "Agg", "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", module, *arguments],
        cwd=folder,
        env=settings,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE if module.endswith(".judge") else subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        text=True,
    )
    try:
        printed, _ = process.communicate(timeout=WAIT + PATIENCE)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return TOO_LATE, ""
    return process.returncode, printed or ""


def _told(kind: str, words: str) -> Verdict:
    if kind != "correct" and NO_MEMORY.search(words):
        return "failed to run", OUT_OF_MEMORY
    return kind, one_line(words)


def one_line(words: object, most: int = LENGTH) -> str:
    """Return a sentence without control characters: a part of it may come from a learner."""
    text = " ".join(str(words)[: 2 * most].split())
    shown = "".join(letter for letter in text if letter.isprintable())
    return shown if len(shown) <= most else f"{shown[: most - 3]}..."
