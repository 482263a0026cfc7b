"""Run tests against changed sources of the package.

``python -m tests.mutants.harness`` reads a list of jobs from standard input as JSON and writes a
list of verdicts. A changed Python module gets a fork of a warm process: torch, pytest and other
libraries are imported once, the package itself only in the forks. All changed scripts share one
further process with one browser.
"""

from __future__ import annotations

import contextlib
import gc
import importlib.abc
import importlib.machinery
import importlib.util
import io
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import pytest

from tests.mutants.catalogue import PACKAGE, ROOT

ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
# what a fork can do without: a third of the time of a short run is the start of plugins
UNUSED = """cacheprovider debugging faulthandler junitxml pastebin setuponly setupplan
    stepwise unittest""".split()
# Plain asserts: to explain how two pictures differ takes pytest longer than a test may last.
FLAGS = ["-q", "-s", "--tb=no", "--assert=plain", *(f"-pno:{name}" for name in UNUSED)]
SCRIPT = ".mjs"


class Job(NamedTuple):
    """Put ``source`` in place of ``file`` of the package and run the tests until one fails."""

    file: str
    source: str
    tests: tuple[str, ...]  # files of tests
    seconds: float = 60.0  # for one file of tests
    first: str = ""  # a test to run before them, because it is known to notice
    whole: bool = False  # run all the tests of the files, also after a failure


class Verdict(NamedTuple):
    """``result`` is killed, survived or error; ``by`` the test that failed or what went wrong."""

    result: str
    by: str = ""
    failed: tuple[str, ...] = ()  # all tests that failed
    seconds: dict[str, float] | None = None  # what each test took, of those that ran


def judge(jobs: Sequence[Job], limit: float = 600.0) -> list[Verdict]:
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
        timeout=limit,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    verdicts = [Verdict(*verdict) for verdict in json.loads(done.stdout)]
    return [verdict._replace(failed=tuple(verdict.failed)) for verdict in verdicts]


def main() -> None:
    jobs, verdicts = [Job(*job) for job in json.load(sys.stdin)], []
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
        PREPARED.do(lambda: verdicts.extend(judged(jobs)))
    json.dump(verdicts, sys.stdout)


def judged(jobs: Sequence[Job]) -> list[Verdict]:
    warm_up()
    with tempfile.TemporaryDirectory() as sys.pycache_prefix:
        sys.dont_write_bytecode = False  # pytest rewrites a file of tests once, not in every fork
        modules = [(place, job) for place, job in enumerate(jobs) if not job.file.endswith(SCRIPT)]
        scripts = [(place, job) for place, job in enumerate(jobs) if job.file.endswith(SCRIPT)]
        verdicts = {place: verdict_on(job, run_in_fork) for place, job in modules}
        controls = []
        if modules:
            controls.append(control(modules, verdicts, run_in_fork))
        if scripts:
            in_browser, last = run_scripts(scripts)
            verdicts |= in_browser
            controls.append(last)
    return [*(verdicts[place] for place in range(len(jobs))), joined(controls)]


def warm_up() -> None:
    """Load what every fork needs; nothing of the package, and no thread that a fork would lose."""
    import anywidget  # noqa: F401
    import ipywidgets  # noqa: F401
    import safetensors.torch  # noqa: F401
    import tokenizers  # noqa: F401
    import torch

    torch.set_num_threads(1)
    import matplotlib.pyplot as plt

    figure, ax = plt.subplots(layout="constrained")
    ax.pcolormesh([[0.0, 1.0]])
    figure.savefig(io.BytesIO())  # reads the fonts
    plt.close(figure)
    x = torch.ones(1, 1, 1, 1)
    torch.testing.assert_close(x, x)  # imports sympy
    with torch.device("meta"):
        torch.nn.functional.scaled_dot_product_attention(x.to("meta"), *[x.to("meta")] * 2)
    assert not [name for name in sys.modules if name.partition(".")[0] == "attnlab"]
    gc.freeze()


# --- verdicts -------------------------------------------------------------------------------------

Run = Callable[..., Verdict]  # of a job and the tests to run


def verdict_on(job: Job, run: Run) -> Verdict:
    if job.whole:
        return run(job, *job.tests)
    verdict = Verdict("error", "no tests are named for this file")
    if job.first and (known := run(job, job.first)).result == "killed":
        return known
    for tests in job.tests:
        verdict = run(job, tests)
        if verdict.result != "survived":
            break
    return verdict


def control(jobs: Sequence[tuple[int, Job]], verdicts: dict[int, Verdict], run: Run) -> Verdict:
    """Run tests that noticed a mutant on the package as it is: they must not fail by themselves.

    One of each file of tests shows that the file passes in here; in a plain run all of them do.
    Where the jobs run whole files of tests, all of these are run.
    """
    failed = [verdicts[place].failed[0] for place, _ in jobs if verdicts[place].failed]
    noticed = {test.partition("::")[0]: test for test in failed}.values()
    if any(job.whole for _, job in jobs):
        noticed = {path: None for _, job in jobs for path in job.tests}
    _, job = jobs[0]
    itself = (PACKAGE / job.file).read_text(encoding="utf-8")
    most = max(job.seconds for _, job in jobs)
    return run(job._replace(source=itself, seconds=max(most, 60.0)), *noticed)


def joined(controls: Sequence[Verdict]) -> Verdict:
    """Return the first verdict that is bad, or one that all are good."""
    bad = [verdict for verdict in controls if verdict.result != "survived"]
    seconds = {k: v for verdict in controls for k, v in (verdict.seconds or {}).items()}
    return (bad or [Verdict("survived")])[0]._replace(seconds=seconds)


# --- modules: a fork for each ---------------------------------------------------------------------


def run_in_fork(job: Job, *tests: str) -> Verdict:
    def run() -> Verdict:
        planted = Planted(job)
        sys.meta_path.insert(0, planted)
        return run_tests(job, lambda: planted.imported, *tests, main=PREPARED.main)

    verdict, status = forked(run, job.seconds)
    if verdict is not None:
        return Verdict(*verdict)
    if status == -signal.SIGKILL:
        return Verdict("killed", f"{' '.join(tests)} needed more than {job.seconds:g} s")
    return Verdict("error", f"{' '.join(tests)} ended with status {status} and no report")


def forked(function: Callable[[], object], seconds: float) -> tuple[object, int]:
    """Return what a function returns in a fork, by way of JSON, and how the fork ended."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        try:
            with open(writer, "w", encoding="utf-8") as report, silenced():
                text = json.dumps(function())
                report.write(text)
            os._exit(0)
        finally:
            os._exit(1)  # reached by an exception only
    os.close(writer)
    with open(reader, encoding="utf-8") as report:
        if not select.select([report], [], [], seconds)[0]:
            os.kill(child, signal.SIGKILL)
        text = report.read()
    _, status = os.waitpid(child, 0)
    return json.loads(text) if text else None, os.waitstatus_to_exitcode(status)


@contextlib.contextmanager
def silenced() -> Iterator[None]:
    """Send all output of this process, that of libraries in C too, nowhere."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nowhere, stream)
    yield


def run_tests(
    job: Job, was_run: Callable[[], bool], *tests: str, main: Callable = pytest.main
) -> Verdict:
    """Run files of tests, or some tests, in this process."""
    seen = Results(tests, whole=job.whole)
    code = main([*FLAGS, *tests], plugins=[seen])
    failed = tuple(seen.failed)
    if not was_run():
        where = seen.collection or " ".join(tests)
        return Verdict("error", f"{where}: attnlab/{job.file} was not run")
    if code == pytest.ExitCode.OK:
        return Verdict("survived", seconds=seen.seconds)
    if code == pytest.ExitCode.TESTS_FAILED and failed:
        return Verdict("killed", failed[0], failed)
    ended = f"pytest {' '.join(tests)} ended with {code!r}"
    return Verdict("error", f"{ended}: {seen.collection}")


class Prepared:
    """Runs pytest in forks with options that were read once, a third of the time of a short run."""

    config: pytest.Config | None = None

    def do(self, work: Callable[[], object]) -> None:
        """Do what forks, between the reading of the options and a run of pytest."""
        self.work = work
        pytest.main([*FLAGS, "tests"], plugins=[self])

    def pytest_cmdline_main(self, config: pytest.Config) -> pytest.ExitCode | None:
        """Do the work in place of a run; in a fork leave the run to pytest."""
        if self.config is not None:
            return None
        self.config = config
        self.work()
        return pytest.ExitCode.OK

    def main(self, args: Sequence[str], plugins: Sequence[object]) -> int:
        """Do what ``pytest.main`` does, once in a fork."""
        self.config.args = list(args[len(FLAGS) :])
        for plugin in plugins:
            self.config.pluginmanager.register(plugin)
        return self.config.hook.pytest_cmdline_main(config=self.config)


PREPARED = Prepared()


class Planted(importlib.abc.MetaPathFinder, importlib.machinery.SourceFileLoader):
    """Finds one module of the package and gives it another source."""

    def __init__(self, job: Job) -> None:
        self.job, self.imported = job, False
        name = f"attnlab.{job.file.removesuffix('.py').replace('/', '.')}"
        super().__init__(name, str(PACKAGE / job.file))

    def find_spec(self, fullname, path=None, target=None):
        if fullname != self.name:
            return None
        return importlib.util.spec_from_file_location(fullname, self.path, loader=self)

    def get_code(self, fullname):
        return compile(self.job.source, self.path, "exec", dont_inherit=True)

    def exec_module(self, module):
        super().exec_module(module)
        self.imported = True


# --- scripts: one browser for all -----------------------------------------------------------------


def run_scripts(jobs: Sequence[tuple[int, Job]]) -> tuple[dict[int, Verdict], Verdict]:
    """Return the verdicts on changed scripts by their place, and the control's."""
    limit = 60.0 + sum(job.seconds for _, job in jobs)
    report, status = forked(lambda: scripts_in_browser(jobs), limit)
    if report is None:
        raise RuntimeError(f"the process with the browser ended with status {status}.")
    verdicts, last = report
    return {int(place): Verdict(*one) for place, one in verdicts.items()}, Verdict(*last)


def scripts_in_browser(jobs: Sequence[tuple[int, Job]]) -> tuple[dict[int, Verdict], Verdict]:
    import playwright.sync_api

    import tools._browser

    with (
        playwright.sync_api.sync_playwright() as driver,
        tools._browser.launch(driver) as browser,
    ):
        # a session of tests that asks for a browser gets this one
        playwright.sync_api.sync_playwright = lambda: contextlib.nullcontext(driver)
        tools._browser.launch = lambda _driver: contextlib.nullcontext(browser)
        verdicts = {place: verdict_on(job, run_with_script) for place, job in jobs}
        return verdicts, control(jobs, verdicts, run_with_script)


def run_with_script(job: Job, *tests: str) -> Verdict:
    """Run tests in this process while pages get another source of one script."""
    from attnlab.explorers import _page

    name, asked = PACKAGE.joinpath(job.file).stem, []

    def source_of(module: str) -> str:
        if module != name:
            return original(module)
        asked.append(module)
        return job.source

    with pytest.MonkeyPatch.context() as patch:
        original = _page.source_of
        patch.setattr(_page, "source_of", source_of)
        _page.key_of.cache_clear()
        verdict = run_tests(job, lambda: bool(asked), *tests)
    _page.key_of.cache_clear()
    return verdict


# --- watching pytest ------------------------------------------------------------------------------


class Results:
    """A plugin of pytest that looks for a failure soon and remembers what failed."""

    def __init__(self, tests: Sequence[str], *, whole: bool) -> None:
        self.whole = whole
        # the names of the tests to run; empty if some file is to be run as a whole
        self.names = {test.partition("::")[2].partition("[")[0] for test in tests}
        self.names = set() if "" in self.names else self.names
        self.failed: dict[str, None] = {}
        self.seconds: dict[str, float] = {}
        self.collection = ""

    def pytest_sessionstart(self, session: pytest.Session) -> None:
        self.session = session

    def pytest_pycollect_makeitem(self, collector: pytest.Collector, name: str) -> list | None:
        """Make no cases of tests that are not to be run."""
        test = isinstance(collector, pytest.Module) and name.startswith("test")
        return [] if test and self.names and name not in self.names else None

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Of each file run the first case of every test, then the second, and so on."""
        cases: Counter[tuple[str, str]] = Counter()
        files: dict[str, int] = {}
        place = {}
        for item in items:
            file = item.nodeid.partition("::")[0]
            cases[file, item.originalname] += 1
            place[item] = files.setdefault(file, len(files)), cases[file, item.originalname]
        items.sort(key=place.__getitem__)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        taken = self.seconds.get(report.nodeid, 0.0) + report.duration
        self.seconds[report.nodeid] = round(taken, 3)
        if report.failed:
            self.failed[report.nodeid] = None
            if not self.whole:
                self.session.shouldfail = "one failure is enough"

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed and not self.collection:
            self.collection = str(report.longrepr).strip().splitlines()[-1]


if __name__ == "__main__":
    main()
