"""Run tests against changed sources of the package: one fork of a warm process for each.

``python -m tests.mutants.harness`` reads a list of jobs from standard input as JSON and writes a
list of verdicts. torch and pytest are imported once, the package itself only in the forks.
"""

from __future__ import annotations

import contextlib
import gc
import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import pytest

from tests.mutants.catalogue import ROOT

ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
FLAGS = ["-x", "-q", "--tb=no", "-p", "no:cacheprovider"]


class Job(NamedTuple):
    """Put ``source`` in place of ``file`` of the package and run the tests until one fails."""

    file: str
    source: str
    tests: tuple[str, ...]  # names of files without test_ and .py
    seconds: float = 60.0  # for one file of tests
    first: str = ""  # a test to run before them, because it is known to notice


class Verdict(NamedTuple):
    """``result`` is killed, survived or error; ``by`` the test that failed or what went wrong."""

    result: str
    by: str = ""


def judge(jobs: Sequence[Job]) -> list[Verdict]:
    """Run the jobs one after the other in a fresh process; return their verdicts in order.

    One more verdict follows: that of all tests that noticed something on the package itself.
    """
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST")}
    environment |= dict.fromkeys(ONE_THREAD, "1") | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "tests.mutants.harness"],
        cwd=ROOT,
        env=environment,
        input=json.dumps(jobs),
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return [Verdict(*verdict) for verdict in json.loads(done.stdout)]


def main() -> None:
    jobs = [Job(*job) for job in json.load(sys.stdin)]
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
        warm_up()
    with tempfile.TemporaryDirectory() as sys.pycache_prefix:
        sys.dont_write_bytecode = False  # pytest rewrites a file of tests once, not in every fork
        verdicts = [verdict_on(job) for job in jobs]
        json.dump([*verdicts, control(jobs, verdicts)], sys.stdout)


def warm_up() -> None:
    """Load what every fork needs; nothing of the package, and no thread that a fork would lose."""
    import torch

    torch.set_num_threads(1)
    pytest.main([*FLAGS, "--collect-only", "tests/mutants"])  # imports conftest.py and matplotlib
    x = torch.ones(1, 1, 1, 1)
    torch.testing.assert_close(x, x)  # imports sympy
    with torch.device("meta"):
        torch.nn.functional.scaled_dot_product_attention(x.to("meta"), *[x.to("meta")] * 2)
    assert not [name for name in sys.modules if name.partition(".")[0] == "attnlab"]
    gc.freeze()


def verdict_on(job: Job) -> Verdict:
    verdict = Verdict("error", "no tests are named for this file")
    if job.first and (known := run_in_fork(job, job.first)).result == "killed":
        return known
    for tests in job.tests:
        verdict = run_in_fork(job, f"tests/test_{tests}.py")
        if verdict.result != "survived":
            break
    return verdict


def control(jobs: Sequence[Job], verdicts: Sequence[Verdict]) -> Verdict:
    """Run every test that noticed a mutant on the package as it is: it must not fail by itself."""
    noticed = {verdict.by: None for verdict in verdicts if "::" in verdict.by}
    file = jobs[0].file
    itself = (ROOT / "attnlab" / file).read_text(encoding="utf-8")
    return run_in_fork(Job(file, itself, ()), *noticed)


def run_in_fork(job: Job, *tests: str) -> Verdict:
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        try:
            run_tests(job, writer, *tests)
        finally:
            os._exit(1)  # reached by an exception only
    os.close(writer)
    with open(reader, encoding="utf-8") as report:
        if not select.select([report], [], [], job.seconds)[0]:
            os.kill(child, signal.SIGKILL)
        text = report.read()
    _, status = os.waitpid(child, 0)
    if text:
        return Verdict(*json.loads(text))
    if os.waitstatus_to_exitcode(status) == -signal.SIGKILL:
        return Verdict("killed", f"{' '.join(tests)} needed more than {job.seconds:g} s")
    return Verdict("error", f"{' '.join(tests)} ended with status {status} and no report")


def run_tests(job: Job, writer: int, *tests: str) -> None:
    """Run a file of tests, or some tests, in this process, write the verdict and end it."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nowhere, stream)
    planted = Planted(job)
    sys.meta_path.insert(0, planted)
    seen = FirstFailure()
    code = pytest.main([*FLAGS, *tests], plugins=[seen])
    if not planted.imported:
        where = seen.collection or " ".join(tests)
        verdict = Verdict("error", f"{where}: attnlab/{job.file} was not run")
    elif code == pytest.ExitCode.OK:
        verdict = Verdict("survived")
    elif code == pytest.ExitCode.TESTS_FAILED and seen.test:
        verdict = Verdict("killed", seen.test)
    else:
        ended = f"pytest {' '.join(tests)} ended with {code!r}"
        verdict = Verdict("error", f"{ended}: {seen.collection}")
    os.write(writer, json.dumps(verdict).encode())
    os._exit(0)


class Planted(importlib.abc.MetaPathFinder, importlib.machinery.SourceFileLoader):
    """Finds one module of the package and gives it another source."""

    def __init__(self, job: Job) -> None:
        self.job, self.imported = job, False
        name = f"attnlab.{job.file.removesuffix('.py')}"
        super().__init__(name, str(ROOT / "attnlab" / job.file))

    def find_spec(self, fullname, path=None, target=None):
        if fullname != self.name:
            return None
        return importlib.util.spec_from_loader(fullname, self, origin=self.path)

    def get_code(self, fullname):
        return compile(self.job.source, self.path, "exec", dont_inherit=True)

    def exec_module(self, module):
        super().exec_module(module)
        self.imported = True


class FirstFailure:
    """A plugin of pytest that looks for a failure soon and remembers it."""

    def __init__(self) -> None:
        self.test, self.collection = "", ""

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Run the first case of every test, then the second of every test, and so on."""
        cases: Counter[str] = Counter()
        place = {}
        for item in items:
            cases[item.originalname] += 1
            place[item] = cases[item.originalname]
        items.sort(key=place.__getitem__)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and not self.test:
            self.test = report.nodeid

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed and not self.collection:
            self.collection = str(report.longrepr).strip().splitlines()[-1]


if __name__ == "__main__":
    main()
