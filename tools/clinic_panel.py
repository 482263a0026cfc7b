"""Tell how the clinic does on attention that others write, and on bugs put into it.

    make panel                            both halves of the panel
    make panel HALF=seen PANEL_FLAGS=-v   one half, with every answer that is not as wished
    make panel PANEL_FLAGS="--write data/clinic_panel.csv"   the counts that lesson 9 shows

Each correct implementation is examined twice: as it is, and with the options that a reader of
``diagnose`` would pass then. Its mutants get these options.
"""

from __future__ import annotations

import argparse
import csv
import multiprocessing
import re
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import torch

from attnlab.clinic import Report, diagnose
from tests.clinic.panel import HALVES, Half, load
from tests.clinic.panel._case import Case
from tests.clinic.panel.injection import ACCEPTED, mutants

PROCESSES = 2
NOT_FOLLOWED = re.compile(r"not (be )?followed")
SORTS = ("first attempt", "with options", "builder", "mutant", "wrong")


@dataclass(frozen=True)
class Answer:
    """What the clinic said of one implementation.

    Attributes
    ----------
    half, case, sort, kind : str
        Of the panel, the name of the case, one of SORTS, and the kind of bug that was put in.
    change : str
        The lines of a mutant that are not those of the original.
    wished : tuple of str
        Names that are right as the first finding; empty for correct code.
    convention : bool
        Whether it is correct and cannot be judged without options.
    names : tuple of str
        The findings.
    examined : bool
        Whether anything was checked.
    followed : {"function", "followed", "not followed"}
        Whether the steps of a layer were understood, as far as the report tells.
    seconds : float
        How long ``diagnose`` took.
    sentence : str
        The first finding in words, or the notes.
    """

    half: str
    case: str
    sort: str
    kind: str
    change: str
    wished: tuple[str, ...]
    convention: bool
    names: tuple[str, ...]
    examined: bool
    followed: str
    seconds: float
    sentence: str

    @property
    def verdict(self) -> str:
        """``named``, ``other name``, ``missed``, ``not examined``, or ``ok`` and ``accused``."""
        if self.names:
            if not self.wished:
                return "accused"
            return "named" if self.names[0] in self.wished else "other name"
        if not self.examined:
            return "not examined"
        return "missed" if self.wished else "ok"

    @property
    def as_wished(self) -> bool:
        """Whether a reader would be told the truth."""
        return self.verdict in ("ok", "named")


def answer(
    half: str,
    case: Case,
    sort: str,
    code: Callable,
    options: dict[str, object],
    kind: str = "",
    change: str = "",
    wished: tuple[str, ...] = (),
) -> Answer:
    """Diagnose one implementation."""
    target = case.build(code)
    start = time.perf_counter()
    report = diagnose(target, **options)
    seconds = time.perf_counter() - start
    return Answer(
        half,
        case.name,
        sort,
        kind,
        change,
        wished,
        case.convention,
        tuple(finding.name for finding in report.findings),
        report.ok is not None and bool(report.findings or report.properties),
        _followed(report),
        seconds,
        str(report.findings[0]) if report.findings else " ".join(report.notes),
    )


def _followed(report: Report) -> str:
    if "function" in report.kind:
        return "function"
    return "not followed" if any(map(NOT_FOLLOWED.search, report.notes)) else "followed"


def answers_of(half: str, sort: str, name: str) -> list[Answer]:
    """Return all answers on one case of the panel; what a process of its own does."""
    torch.set_num_threads(1)
    case = next(case for case in getattr(load(half), sort) if case.name == name)
    options = dict(case.options)
    if sort == "builders":
        return [answer(half, case, "builder", case.target, options)]
    if sort == "wrong":
        return [answer(half, case, "wrong", case.target, options, wished=case.cause)]
    first = answer(half, case, "first attempt", case.target, {})
    second = answer(half, case, "with options", case.target, options)
    broken = [
        answer(half, case, "mutant", one.target, options, one.kind, one.change, ACCEPTED[one.kind])
        for one in mutants(case)
    ]
    return [first, second, *broken]


def all_answers(halves: Iterable[str], only: str = "") -> list[Answer]:
    """Return the answers on every case whose name holds ``only``."""
    jobs = [
        (half, sort, case.name)
        for half in halves
        for sort in Half._fields
        for case in getattr(load(half), sort)
        if only in case.name
    ]
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(PROCESSES, mp_context=context) as pool:
        return [one for found in pool.map(answers_of, *zip(*jobs, strict=True)) for one in found]


# --- the table ------------------------------------------------------------------------------------

BROKEN_COLUMNS = ("named", "other name", "missed", "not examined")
RIGHT_COLUMNS = ("ok", "accused", "not examined")


def table(answers: Sequence[Answer]) -> str:
    """Return the scores as text."""
    lines = [_row("correct code", ("all", *RIGHT_COLUMNS))]
    for sort in ("first attempt", "with options"):
        both = [one for one in answers if one.sort == sort]
        usual = [one for one in both if not one.convention]
        lines.append(_counted(sort, usual, RIGHT_COLUMNS))
        lines.append(
            _counted("  its own convention", [o for o in both if o.convention], RIGHT_COLUMNS)
        )
    lines.append(_counted("mask builders", _sort(answers, "builder"), RIGHT_COLUMNS))
    lines += ["", _row("wrong code", ("all", *BROKEN_COLUMNS))]
    injected = _sort(answers, "mutant")
    lines += [
        _counted(kind, [one for one in injected if one.kind == kind], BROKEN_COLUMNS)
        for kind in ACCEPTED
    ]
    lines.append(_counted("all that were injected", injected, BROKEN_COLUMNS))
    originals = {
        (one.half, one.case): one.followed if one.as_wished else one.verdict
        for one in answers
        if one.sort == "with options"
    }
    for state, words in (
        ("function", "  in functions"),
        ("followed", "  in layers, followed"),
        ("not followed", "  in layers, not followed"),
        ("accused", "  original accused"),
        ("not examined", "  original not examined"),
    ):
        some = [one for one in injected if originals[one.half, one.case] == state]
        lines.append(_counted(words, some, BROKEN_COLUMNS))
    lines.append(_counted("written by hand", _sort(answers, "wrong"), BROKEN_COLUMNS))
    slowest = max(answers, key=lambda one: one.seconds)
    lines += [
        "",
        f"{len(answers)} calls of diagnose: median "
        f"{statistics.median(one.seconds for one in answers):.2f} s, longest "
        f"{slowest.seconds:.1f} s ({slowest.case} {slowest.kind})".rstrip(),
    ]
    return "\n".join(lines)


# --- the counts in a file -------------------------------------------------------------------------

HEADER = ("half", "examined", "answer", "count", "of")
EXAMINED = {
    "first attempt": "correct (first call)",
    "with options": "correct (with options)",
    "builder": "mask builders",
    "mutant": "injected bugs",
    "wrong": "bugs written by hand",
}
FIRST_LOOK = [  # of the clinic that had seen only the other half: it cannot be measured again
    ("first look", examined, answer, count, of)
    for examined, answer, count, of in (
        ("correct (first call)", "accused", 11, 39),
        ("correct (with options)", "accused", 6, 39),
        ("injected bugs", "named", 371, 409),
        ("injected bugs", "other name", 33, 409),
        ("injected bugs", "missed", 2, 409),
        ("injected bugs", "not examined", 3, 409),
    )
]


def counts(answers: Sequence[Answer]) -> list[tuple[str, str, str, int, int]]:
    """Return one row for each count of both halves; see HEADER."""
    rows = list(FIRST_LOOK)
    for half in reversed(HALVES):
        for sort, examined in EXAMINED.items():
            columns = BROKEN_COLUMNS if sort in ("mutant", "wrong") else RIGHT_COLUMNS
            said = [one.verdict for one in _sort(answers, sort) if one.half == half]
            rows += [(f"{half} half", examined, c, said.count(c), len(said)) for c in columns]
    return rows


def write(answers: Sequence[Answer], path: Path) -> None:
    """Write the counts as a table."""
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([HEADER, *counts(answers)])


def _sort(answers: Sequence[Answer], sort: str) -> list[Answer]:
    return [one for one in answers if one.sort == sort]


def _row(name: str, cells: Iterable[object]) -> str:
    return f"{name:26}" + "".join(f"{cell!s:>14}" for cell in cells)


def _counted(name: str, answers: Sequence[Answer], columns: Iterable[str]) -> str:
    verdicts = [one.verdict for one in answers]
    return _row(name, (len(answers), *(verdicts.count(column) for column in columns)))


def told(one: Answer) -> str:
    """Return what is not as wished of an answer, in a few lines."""
    wished = f", wished: {' or '.join(one.wished)}" if one.wished else ""
    heading = f"{one.verdict}: {one.case} ({one.kind or one.sort}, {one.followed}){wished}"
    details = [one.change, f"[{', '.join(one.names) or 'no finding'}] {one.sentence}"]
    return "\n".join([heading, *(f"    {line}" for line in details if line)])


def main() -> None:
    """Examine the halves that the command line names and print the scores."""
    parser = argparse.ArgumentParser(prog="python -m tools.clinic_panel", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("half", nargs="?", default="all", choices=[*HALVES, "all"])
    parser.add_argument("-v", "--verbose", action="store_true", help="what is not as wished")
    parser.add_argument("--only", default="", help="cases whose names hold this text")
    parser.add_argument("--write", type=Path, help="a file for the counts of both halves")
    options = parser.parse_args()
    if options.write and (options.half != "all" or options.only):
        parser.error("--write needs the whole panel.")
    halves = HALVES if options.half == "all" else (options.half,)
    answers = all_answers(halves, options.only)
    if not answers:
        sys.exit(f"No case has {options.only!r} in its name.")
    if options.verbose:
        for one in answers:
            if not one.as_wished:
                print(told(one))
    if options.write:
        write(answers, options.write)
    for half in halves:
        of_half = [one for one in answers if one.half == half]
        if of_half:
            print(f"\n--- {half} ---\n{table(of_half)}")


if __name__ == "__main__":
    main()
