"""The tests of the kernels, masks, heads and layers notice every slip listed in mutants.txt."""

from __future__ import annotations

import os
from collections import Counter

import pytest

from tests.mutants.catalogue import MUTANTS, TESTS, Mutant, read
from tests.mutants.harness import Job, Verdict, judge

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the mutants need os.fork")

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
    return Job(mutant.file, mutant.source(), tests or TESTS[mutant.file], seconds, mutant.first)


@pytest.fixture(scope="module")
def verdicts() -> dict[Mutant | str, Verdict]:
    jobs = {mutant: job(mutant) for mutant in MUTANTS}
    jobs |= {mutant: job(mutant, "heads") for mutant in [*HARMLESS, *(m for m, _ in NO_MUTANTS)]}
    jobs[HANGS] = job(HANGS, seconds=1.0)
    return dict(zip([*jobs, ITSELF], judge(list(jobs.values())), strict=True))


def test_the_package_itself_passes(verdicts) -> None:
    """Without this a test that fails by itself would kill every mutant."""
    assert verdicts[ITSELF] == Verdict("survived"), verdicts[ITSELF].by


def test_every_mutant_is_killed(verdicts) -> None:
    results = [(mutant, verdicts[mutant]) for mutant in MUTANTS]
    lines = [f"{m.file:15}{m.name:48}{v.result:9}{v.by}" for m, v in results]
    killed = sum(verdict.result == "killed" for _, verdict in results)
    score = "\n".join(["", *lines, f"killed {killed} of {len(MUTANTS)} mutants"])
    print(score)
    if killed < len(MUTANTS):
        pytest.fail(score, pytrace=False)


def test_a_test_that_is_named_for_a_mutant_notices_it(verdicts) -> None:
    """One that does not costs time only, but then the line should go or name another."""
    named = [(mutant, verdicts[mutant].by) for mutant in MUTANTS if mutant.first]
    stale = [f"{m.file}, {m.name}: noticed by {by}" for m, by in named if by != m.first]
    assert stale == []


def test_the_list_is_long_enough_and_names_no_mutant_twice() -> None:
    files = Counter(mutant.file for mutant in MUTANTS)
    counts = [files[file] for file in ("attention.py", "masks.py", "heads.py", "modules.py")]
    assert sum(counts) >= 40
    assert min(counts) >= 5
    assert len({(mutant.file, mutant.name) for mutant in MUTANTS}) == len(MUTANTS)
    assert len({mutant.source() for mutant in MUTANTS}) == len(MUTANTS)


@pytest.mark.parametrize("mutant", HARMLESS, ids=lambda mutant: mutant.name)
def test_a_change_that_changes_nothing_survives(verdicts, mutant) -> None:
    assert verdicts[mutant] == Verdict("survived")


@pytest.mark.parametrize(("mutant", "reason"), NO_MUTANTS, ids=[m.name for m, _ in NO_MUTANTS])
def test_what_runs_no_test_is_an_error_and_does_not_count_as_killed(
    verdicts, mutant, reason
) -> None:
    assert verdicts[mutant].result == "error"
    assert reason in verdicts[mutant].by


def test_a_mutant_that_hangs_is_killed_by_time(verdicts) -> None:
    assert verdicts[HANGS] == Verdict("killed", "tests/test_heads.py needed more than 1 s")


@pytest.mark.parametrize(("old", "count"), [("no such text", 0), ("return", 2)])
def test_a_mutant_whose_text_does_not_stand_there_once_is_an_error(old, count) -> None:
    with pytest.raises(ValueError, match=f"exactly once, it stands there {count} times"):
        Mutant("heads.py", "a slip", old, "new").source()


def test_a_list_that_cannot_be_read_is_an_error() -> None:
    with pytest.raises(ValueError, match="a line '- ' and a line"):
        read("\n== heads.py\n\nname\n+ new\n- old\n")
