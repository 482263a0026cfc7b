"""Run every mutant against all the tests of its area and print what they notice.

``make mutants`` takes ``FLAGS``: ``--only plotting`` chooses lists or files whose names hold a
text, ``--alone`` adds what each test alone notices, ``--update`` names in the lists, behind "? ",
the quickest test that notices each mutant, ``--quick`` stops at the first test that does.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed

from tests.mutants.catalogue import HERE, MUTANTS, Mutant
from tests.mutants.harness import Job, Verdict, judge

LIMIT = 600.0  # seconds, for all tests of an area on one mutant
Results = dict[Mutant, Verdict]


def main() -> int:
    parser = argparse.ArgumentParser(prog="make mutants", description=__doc__)
    parser.add_argument("--only", default="", help="a part of the name of a list or of a file")
    parser.add_argument("--alone", action="store_true", help="what each test alone notices")
    parser.add_argument("--quick", action="store_true", help="stop at the first failing test")
    parser.add_argument("--update", action="store_true", help="write new lines '? ' into the lists")
    options = parser.parse_args()
    chosen = [m for m in MUTANTS if options.only in m.area or options.only in m.file]
    if not chosen:
        parser.error(f"no list and no file has {options.only!r} in its name.")
    for mutant in chosen:
        mutant.source()  # a text that is not there is told before anything runs
    results: Results = {}
    seconds: dict[str, float] = {}
    for verdicts, taken in judged(chosen, whole=not options.quick):
        print("\n".join(map(line, verdicts, verdicts.values())), flush=True)
        if options.update:
            update(verdicts, taken)
        results, seconds = results | verdicts, seconds | taken
    print(score(results))
    if options.alone:
        print("\n".join(alone(results, seconds)))
    return 1 if problems(results) else 0


def judged(mutants: Iterable[Mutant], *, whole: bool) -> Iterator[tuple[Results, dict[str, float]]]:
    """Yield what all tests say of the mutants of a file, and the seconds that each test takes."""
    groups = defaultdict(list)
    for mutant in mutants:
        groups[mutant.area, mutant.tests, mutant.file.endswith(".mjs")].append(mutant)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        jobs = {pool.submit(judged_together, one, whole=whole): one for one in groups.values()}
        for done in as_completed(jobs):
            *verdicts, control = done.result()
            if control.result != "survived":
                pool.shutdown(cancel_futures=True)
                sys.exit(f"On the package itself a test fails: {control.by}")
            yield dict(zip(jobs[done], verdicts, strict=True)), control.seconds or {}


def judged_together(mutants: Sequence[Mutant], *, whole: bool) -> list[Verdict]:
    jobs = [Job(m.file, m.source(), m.tests, LIMIT, m.first, whole) for m in mutants]
    return judge(jobs, limit=LIMIT * len(jobs))


def line(mutant: Mutant, verdict: Verdict) -> str:
    """Return what becomes of a mutant, in one line."""
    by = verdict.by if verdict.result != "survived" else mutant.excuse
    by = f"{len(verdict.failed)} tests, e.g. {by}" if len(verdict.failed) > 1 else by
    return f"{verdict.result:9}{mutant.title}: {by}"


def score(results: Results) -> str:
    """Return what is wrong and the share of the mutants that are killed."""
    killed = sum(verdict.result == "killed" for verdict in results.values())
    share = f"killed {killed} of {len(results)} mutants ({killed / len(results):.1%})"
    return "\n".join(["", *problems(results), share])


def problems(results: Results) -> list[str]:
    """Return what is wrong: survivors without an excuse, and excuses that do not hold."""
    found = []
    for mutant, verdict in results.items():
        if verdict.result == "error":
            found.append(f"not run: {mutant.title}: {verdict.by}")
        elif verdict.result == "survived" and not mutant.excuse:
            found.append(f"no test notices: {mutant.title}")
        elif verdict.result == "killed" and mutant.excuse:
            found.append(f"said to survive, but {verdict.by} notices: {mutant.title}")
    return found


def without_case(test: str) -> str:
    return test.partition("[")[0]


def alone(results: Results, seconds: dict[str, float]) -> list[str]:
    """Return for every test the mutants that it alone notices, those that notice least first."""
    taken, noticed, only = defaultdict(float), defaultdict(set), defaultdict(list)
    for test, one in seconds.items():
        taken[without_case(test)] += one
    for mutant, verdict in results.items():
        tests = {without_case(test) for test in verdict.failed}
        for test in tests:
            noticed[test].add(mutant)
        if len(tests) == 1:
            only[tests.pop()].append(mutant.title)
    order = sorted(taken, key=lambda test: (len(only[test]), len(noticed[test]), -taken[test]))
    lines = ["", " alone  all  seconds  test"]
    for test in order:
        lines.append(f"{len(only[test]):6}{len(noticed[test]):5}{taken[test]:9.2f}  {test}")
        lines += [f"{'':24}{title}" for title in only[test]]
    return lines


def update(results: Results, seconds: dict[str, float]) -> None:
    """Write the quickest test that notices a mutant behind it, where one was named or is needed."""
    for mutant, verdict in results.items():
        if not verdict.failed or (mutant.area == "core" and not mutant.first):
            continue
        best = min(verdict.failed, key=lambda test: seconds.get(test, LIMIT))
        if seconds.get(mutant.first, LIMIT) <= 2 * seconds.get(best, LIMIT) + 0.05:
            if mutant.first in verdict.failed:
                continue
        path = HERE / f"{mutant.area}.txt"
        entry = f"{mutant.name}\n- {mutant.old}\n+ {mutant.new}\n"
        text = path.read_text(encoding="utf-8")
        old = f"{entry}? {mutant.first}\n" if mutant.first else entry
        assert text.count(old) == 1, mutant.title
        path.write_text(text.replace(old, f"{entry}? {best}\n"), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
