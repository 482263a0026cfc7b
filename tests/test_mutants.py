"""The tests notice slips in the lists of tests/mutants: all of the core, a quarter of most others.

`make mutants` tries all of them, against all the tests of their area.
"""

from __future__ import annotations

import os
from collections import Counter

import pytest

from tests.mutants.catalogue import MUTANTS, Mutant, read
from tests.mutants.harness import SCRIPT, Job, Verdict, judge
from tools._browser import NO_BROWSER, find_browser

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the mutants need os.fork")

TAKE_LONG = ("exercises", "explorers", "drawings")  # left to `make mutants`
EXCUSED = [mutant for mutant in MUTANTS if mutant.excuse]


def share() -> list[Mutant]:
    """Return the mutants to try here: all of the core, every fourth of each file of most lists."""
    seen: Counter[str] = Counter()
    chosen = []
    for mutant in MUTANTS:
        if not mutant.excuse and mutant.area not in TAKE_LONG:
            if mutant.area == "core" or seen[mutant.file] % 4 == 0:
                chosen.append(mutant)
            seen[mutant.file] += 1
    return chosen


JUDGED = share()
NEED_A_BROWSER = [mutant for mutant in JUDGED if mutant.file.endswith(SCRIPT)]

# what the harness itself is tested with
SAME = "from __future__ import annotations"
ITSELF = "the package itself"
HARMLESS = [
    Mutant("heads.py", "another comment", "# (..., L, H * head_dim)", "# merged"),
    Mutant("heads.py", "another docstring", "the heads in front of the tokens", "the heads first"),
    Mutant("heads.py", "other words for the same", "% num_heads:", "% num_heads != 0:"),
]
NO_MUTANTS = [
    (Mutant("heads.py", "no import", "import Tensor", "import Tensors"), "name 'Tensors'"),
    (Mutant("heads.py", "no Python", "return x.transpose", "return = x"), "SyntaxError"),
    (Mutant("heads.py", "the end", "return x.tr", "__import__('os')._exit(0)  #"), "no report"),
    (Mutant("plotting.py", "not tested", SAME, SAME), "attnlab/plotting.py was not run"),
]
HANGS = Mutant("heads.py", "hangs", "return x.transpose", "while True: x.transpose")


def job(mutant: Mutant, *tests: str, seconds: float = 60.0) -> Job:
    return Job(mutant.file, mutant.source(), tests or mutant.tests, seconds, mutant.first)


@pytest.fixture(scope="module")
def verdicts() -> dict[Mutant | str, Verdict]:
    with_browser = find_browser() is not None or os.environ.get("CI") == "true"
    jobs = {m: job(m) for m in JUDGED if with_browser or m not in NEED_A_BROWSER}
    heads = "tests/test_heads.py"
    jobs |= {mutant: job(mutant, heads) for mutant in [*HARMLESS, *(m for m, _ in NO_MUTANTS)]}
    jobs[HANGS] = job(HANGS, heads, seconds=1.0)
    return dict(zip([*jobs, ITSELF], judge(list(jobs.values())), strict=True))


def test_the_package_itself_passes(verdicts) -> None:
    """Without this a test that fails by itself would kill every mutant."""
    assert verdicts[ITSELF].result == "survived", verdicts[ITSELF].by


def test_every_mutant_is_killed(verdicts) -> None:
    results = {mutant: verdicts[mutant] for mutant in JUDGED if mutant in verdicts}
    lines = [f"{v.result:9}{m.title}: {v.by}" for m, v in results.items()]
    killed = sum(verdict.result == "killed" for verdict in results.values())
    score = "\n".join(["", *lines, f"killed {killed} of {len(results)} mutants"])
    score += (
        f"; {len(MUTANTS)} are listed, {len(EXCUSED)} of them survive for a reason that is given"
    )
    print(score)
    if killed < len(results):
        pytest.fail(score, pytrace=False)
    if len(results) < len(JUDGED):
        pytest.skip(f"{len(NEED_A_BROWSER)} mutants of scripts were not tried. {NO_BROWSER}")


def test_a_test_that_is_named_for_a_mutant_notices_it(verdicts) -> None:
    """One that does not only costs time; `make mutants FLAGS=--update` names another."""
    named = {m: verdicts[m].by for m in JUDGED if m.first and m in verdicts}
    assert [f"{m.title}: noticed by {by}" for m, by in named.items() if by != m.first] == []


def test_the_list_is_long_enough_and_names_no_mutant_twice() -> None:
    files = Counter(mutant.file for mutant in MUTANTS)
    assert min(files[file] for file in ("attention.py", "masks.py", "heads.py", "modules.py")) >= 5
    assert len(MUTANTS) >= 200
    assert len(EXCUSED) <= 0.05 * len(MUTANTS)
    assert len({mutant.title for mutant in MUTANTS}) == len(MUTANTS)
    assert len({(mutant.file, mutant.source()) for mutant in MUTANTS}) == len(MUTANTS)


def test_outside_the_core_every_mutant_names_a_test_or_a_reason() -> None:
    """All tests of an area on every mutant would take long: `make mutants` does that."""
    unnamed = [m.title for m in MUTANTS if m.area != "core" and not (m.first or m.excuse)]
    assert unnamed == []


@pytest.mark.parametrize("mutant", HARMLESS, ids=lambda mutant: mutant.name)
def test_a_change_that_changes_nothing_survives(verdicts, mutant) -> None:
    assert verdicts[mutant].result == "survived"


@pytest.mark.parametrize(("mutant", "reason"), NO_MUTANTS, ids=[m.name for m, _ in NO_MUTANTS])
def test_what_runs_no_test_is_an_error_and_does_not_count_as_killed(
    verdicts, mutant, reason
) -> None:
    assert verdicts[mutant].result == "error"
    assert reason in verdicts[mutant].by


def test_a_mutant_that_hangs_is_killed_by_time(verdicts) -> None:
    assert verdicts[HANGS] == Verdict("killed", "tests/test_heads.py needed more than 1 s")


@pytest.mark.parametrize(("old", "count"), [("no such text", 0), ("return", 2)])
def test_a_mutant_whose_text_is_not_there_once_is_an_error(old, count) -> None:
    with pytest.raises(ValueError, match=f"exactly once, it is there {count} times"):
        Mutant("heads.py", "a slip", old, "new").source()


def test_a_list_that_cannot_be_read_is_an_error() -> None:
    with pytest.raises(ValueError, match="a line '- ' and a line"):
        read("\n== heads.py test_heads\n\nname\n+ new\n- old\n")
