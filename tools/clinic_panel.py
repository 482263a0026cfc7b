"""Tell how the clinic does on attention that others write, and on bugs put into it.

    make panel                            both halves of the panel, in some minutes
    make panel HALF=seen PANEL_FLAGS=-v   one half, with every answer that is not as wished
    make panel PANEL_FLAGS="--write data/clinic_panel.csv"   the counts that lesson 9 shows

Each correct implementation is examined twice: as it is, and with the options that a reader of
``diagnose`` would pass then. Its mutants get these options.
"""

from __future__ import annotations

import argparse
import csv
import multiprocessing
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import torch

from attnlab.clinic import diagnose
from tests.clinic.panel import HALVES, Half, load
from tests.clinic.panel._case import Case
from tests.clinic.panel.injection import ACCEPTED, mutants

PROCESSES = 2
SORTS = {  # of answers, and what they are about
    "first attempt": "correct (first call)",
    "with options": "correct (with options)",
    "builder": "mask builders",
    "mutant": "injected bugs",
    "wrong": "bugs written by hand",
}
RIGHT = ("ok", "accused", "not examined")  # verdicts on correct code
BROKEN = ("named", "other name", "missed", "not examined")
HEADER = ("half", "examined", "answer", "count", "of")
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


@dataclass(frozen=True)
class Answer:
    """What the clinic said of one implementation.

    Attributes
    ----------
    half, case, sort : str
        Of the panel, the name of the case, and one of SORTS.
    names : tuple of str
        The findings.
    examined : bool
        Whether anything was checked.
    sentence : str
        The first finding in words, or the notes.
    kind, change : str
        Of a mutant, the kind of bug, and its lines that are not those of the original.
    wished : tuple of str
        Names that are right as the first finding; empty for correct code.
    """

    half: str
    case: str
    sort: str
    names: tuple[str, ...]
    examined: bool
    sentence: str
    kind: str = ""
    change: str = ""
    wished: tuple[str, ...] = ()

    @property
    def verdict(self) -> str:
        """One of RIGHT or of BROKEN."""
        if self.names:
            if not self.wished:
                return "accused"
            return "named" if self.names[0] in self.wished else "other name"
        if not self.examined:
            return "not examined"
        return "missed" if self.wished else "ok"

    def __str__(self) -> str:
        wished = f", wished: {' or '.join(self.wished)}" if self.wished else ""
        heading = f"{self.verdict}: {self.case} ({self.kind or self.sort}){wished}"
        said = f"[{', '.join(self.names) or 'no finding'}] {self.sentence}"
        return "\n    ".join(filter(None, [heading, self.change, said]))


def answer(
    half: str, case: Case, sort: str, code: Callable, options: dict[str, object], **about: object
) -> Answer:
    """Diagnose one implementation."""
    report = diagnose(case.build(code), **options)
    return Answer(
        half,
        case.name,
        sort,
        tuple(finding.name for finding in report.findings),
        report.ok is not None and bool(report.findings or report.properties),
        str(report.findings[0]) if report.findings else " ".join(report.notes),
        **about,
    )


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
    return [first, second] + [
        answer(
            *(half, case, "mutant", one.target, options),
            **{"kind": one.kind, "change": one.change, "wished": ACCEPTED[one.kind]},
        )
        for one in mutants(case)
    ]


def all_answers(halves: Iterable[str]) -> Iterator[Answer]:
    """Yield the answers on every case of some halves."""
    jobs = [
        (half, sort, case.name)
        for half in halves
        for sort in Half._fields
        for case in getattr(load(half), sort)
    ]
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(PROCESSES, mp_context=context) as pool:
        for found in pool.map(answers_of, *zip(*jobs, strict=True)):
            yield from found


def counts(answers: Sequence[Answer]) -> list[tuple[str, str, str, int, int]]:
    """Return one row for each count of both halves; see HEADER."""
    rows = list(FIRST_LOOK)
    for half in reversed(HALVES):
        for sort, examined in SORTS.items():
            verdicts = BROKEN if sort in ("mutant", "wrong") else RIGHT
            said = [one.verdict for one in answers if (one.half, one.sort) == (half, sort)]
            rows += [(f"{half} half", examined, v, said.count(v), len(said)) for v in verdicts]
    return rows


def write(answers: Sequence[Answer], path: Path) -> None:
    """Write the counts as a table."""
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([HEADER, *counts(answers)])


def table(answers: Sequence[Answer]) -> str:
    """Return how often each verdict was given, by what was examined and by kinds of bugs."""
    said: dict[str, Counter[str]] = {}
    for one in answers:
        for name in (SORTS[one.sort], *([f"  {one.kind}"] if one.kind else [])):
            said.setdefault(name, Counter())[one.verdict] += 1
    return "\n".join(
        f"{name:26}{verdicts.total():6}: "
        + ", ".join(f"{count} {verdict}" for verdict, count in verdicts.most_common())
        for name, verdicts in said.items()
    )


def main() -> None:
    """Examine the halves that the command line names and print the scores."""
    parser = argparse.ArgumentParser(prog="python -m tools.clinic_panel", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("half", nargs="?", choices=HALVES)
    parser.add_argument("-v", "--verbose", action="store_true", help="what is not as wished")
    parser.add_argument("--write", type=Path, help="a file for the counts of both halves")
    options = parser.parse_args()
    if options.write and options.half:
        parser.error("--write needs the whole panel.")
    halves, answers = [options.half] if options.half else HALVES, []
    for one in all_answers(halves):
        answers.append(one)
        if options.verbose and one.verdict not in ("ok", "named"):
            print(one, flush=True)
    for half in halves:
        print(f"\n--- {half} ---\n{table([one for one in answers if one.half == half])}")
    if options.write:
        write(answers, options.write)


if __name__ == "__main__":
    main()
