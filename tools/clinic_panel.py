"""Tell how the clinic does on attention that others write, and on bugs put into it.

    make panel                   both halves of the panel, in a minute or two
    make panel PANEL_FLAGS=-v    and every answer on the seen half that is not as wished
    make panel PANEL_FLAGS="--write data/clinic_panel.csv"    the counts that lesson 9 shows

Each correct implementation is examined twice: as it is, and with the options that a reader of
``diagnose`` would pass then. Its mutants get these options.
"""

from __future__ import annotations

import argparse
import csv
import multiprocessing
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import NamedTuple

import torch

from attnlab.clinic import Report, diagnose
from tests.clinic.panel import HALVES, load
from tests.clinic.panel.injection import ACCEPTED, mutants

PROCESSES = 2
FIRST, THEN, INJECTED, BY_HAND = SORTS = (
    "correct (first call)",
    "correct (with options)",
    "injected bugs",
    "bugs written by hand",
)
RIGHT = ("ok", "accused", "not examined")  # verdicts on correct code
BROKEN = ("named", "other name", "missed", "not examined")
HEADER = ("half", "examined", "answer", "count", "of")


class Answer(NamedTuple):
    """What the clinic said of one implementation.

    Attributes
    ----------
    half, sort, verdict : str
        Of the panel, one of SORTS, and one of RIGHT or of BROKEN.
    seconds : float
        How long the examination computed.
    text : str
        The case, what was changed in it, and what the clinic said.
    """

    half: str
    sort: str
    verdict: str
    seconds: float
    text: str


def verdict_on(report: Report, wished: Sequence[str] = ()) -> str:
    """Return one of BROKEN if there are wished names, else one of RIGHT.

    A question that names the bug names it. A question about correct code is not an accusation.
    """
    names = [finding.name for finding in report.findings]
    if wished:
        names += filter(None, [getattr(report.gap, "name", None)])
        if names:
            return "named" if names[0] in wished else "other name"
    elif names:
        return "accused"
    return "not examined" if report.ok is None else "missed" if wished else "ok"


def answers_of(half: str, name: str, start: int = 0, step: int = 1) -> list[Answer]:
    """Return the answers on one case and its mutants, or on every so many of these."""
    torch.set_num_threads(1)
    case = next(case for case in load(half) if case.name == name)

    def answer(sort: str, code: Callable, wished: Sequence[str] = (), change: str = "") -> Answer:
        options = {} if sort == FIRST else case.options
        began = time.process_time()
        report = diagnose(case.build(code), **options)
        seconds = time.process_time() - began
        verdict = verdict_on(report, wished)
        names = ", ".join(finding.name for finding in report.findings) or "no finding"
        wish = f", wished: {' or '.join(wished)}" if wished else ""
        lines = f"{verdict}: {name}, {sort}{wish}", change, f"[{names}] {report.summary}"
        return Answer(half, sort, verdict, seconds, "\n    ".join(filter(None, lines)))

    if case.cause:
        return [answer(BY_HAND, case.target, case.cause)]
    right = [answer(sort, case.target) for sort in (FIRST, THEN)[step > 1 :]]
    return right + [
        answer(INJECTED, one.target, ACCEPTED[one.kind], f"{one.kind}: {one.change}")
        for one in mutants(case, start, step)
    ]


def all_answers() -> Iterator[Answer]:
    """Yield the answers on every case."""
    jobs = [(half, case.name) for half in HALVES for case in load(half)]
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(PROCESSES, mp_context=context) as pool:
        for found in pool.map(answers_of, *zip(*jobs, strict=True)):
            yield from found


def counts(answers: Sequence[Answer], half: str) -> list[tuple[str, str, str, int, int]]:
    """Return one row for each count of a half; see HEADER."""
    rows = []
    for sort in SORTS:
        said = Counter(one.verdict for one in answers if (one.half, one.sort) == (half, sort))
        verdicts = BROKEN if sort in (INJECTED, BY_HAND) else RIGHT
        rows += [(f"{half} half", sort, one, said[one], said.total()) for one in verdicts]
    return rows


def shares(answers: Sequence[Answer]) -> tuple[float, float]:
    """Return which parts of the injected bugs were found and named."""
    said = Counter(one.verdict for one in answers if one.sort == INJECTED)
    return (said["named"] + said["other name"]) / said.total(), said["named"] / said.total()


def write(answers: Sequence[Answer], path: Path) -> None:
    """Write the counts as a table; its rows of a first look stay, they cannot be measured again."""
    with path.open(encoding="utf-8", newline="") as file:
        kept = [row for row in csv.reader(file) if row[0] == "first look"]
    rows = [row for half in reversed(HALVES) for row in counts(answers, half)]
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([HEADER, *kept, *rows])


def main() -> None:
    """Examine both halves and print the scores."""
    parser = argparse.ArgumentParser(prog="python -m tools.clinic_panel", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("-v", "--verbose", action="store_true", help="what is not as wished")
    parser.add_argument("--write", type=Path, help="the table of the counts")
    options, answers = parser.parse_args(), []
    for one in all_answers():
        answers.append(one)
        if options.verbose and one.half == "seen" and one.verdict not in ("ok", "named"):
            print(one.text, flush=True)
    for half in HALVES:
        of_half = [one for one in answers if one.half == half]
        print(f"\n--- {half} ---")
        for _, sort, verdict, count, total in counts(of_half, half):
            print(f"{sort:24}{verdict:14}{count:4} of {total}")
        seconds = [one.seconds for one in of_half]
        print("injected bugs: {:.1%} found, {:.1%} named".format(*shares(of_half)))
        print(f"one diagnosis: {statistics.median(seconds):.2f} s, at most {max(seconds):.2f} s")
    if options.write:
        write(answers, options.write)


if __name__ == "__main__":
    main()
