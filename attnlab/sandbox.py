"""Call untrusted code so that an error, a print or a hang in it does no harm."""

from __future__ import annotations

import contextlib
import inspect
import io
import random
import signal
import statistics
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass

import torch
from torch import Tensor

SLOW = 0.25  # seconds of computing for a small call, if more than half of them take longer
LATE = 0.01  # seconds in which an alarm that has rung is heard, and between two of them
AGAIN = 1e-4  # seconds to the next one, for code that has swallowed the first two
IN_ALL = 30  # times the limit of one call, for a whole examination
WAIT = 60.0  # seconds on the clock that anything may take ...
SHARE = 0.1  # ... and more, while it computes for this part of them

draw = random.Random(0).uniform  # of its own: the learner's random numbers stay as they are


class OutOfTime(BaseException):
    """The time limit has passed. No Exception, so that ``except Exception`` lets it through."""


class CutShort(OutOfTime):
    """Stopped before its time limit, which says nothing about the code; a ``Caller`` raises it."""


class Limit:
    """So much computing from now on: other programs and other threads do not count.

    What only waits, as ``input()`` and ``time.sleep`` do, ends as well, after a long time.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds, self.start = seconds, (time.thread_time(), time.monotonic())

    def spent(self) -> tuple[float, float]:
        """Return the seconds in which this thread has computed, and those on the clock."""
        computed, clock = self.start
        return time.thread_time() - computed, time.monotonic() - clock

    def left(self) -> float:
        """Return the seconds until it may be over."""
        computed, passed = self.spent()
        return min(self.seconds - computed, max(WAIT, computed / SHARE) - passed)


_whole: ContextVar[Limit] = ContextVar("_whole")  # that of the examination under way


@dataclass
class Outcome:
    """What came of one call: what it returned, raised and wrote, and how long it took.

    ``seconds`` are those in which it computed, ``passed`` those on the clock.
    """

    value: object = None
    error: BaseException | None = None
    printed: str = ""
    seconds: float = 0.0
    passed: float = 0.0

    @property
    def message(self) -> str:
        """The text of what it raised, all of it."""
        try:
            return "" if self.error is None else str(self.error)
        except Exception:  # an error may fail to say what it is
            return "an error without words"

    @property
    def trouble(self) -> str:
        """What it raised, as one short line; empty if it returned."""
        if self.error is None:
            return ""
        if isinstance(self.error, OutOfTime):
            return "no answer within the time limit"
        lines = self.message.strip().splitlines() or [""]
        text = f"{type(self.error).__name__}: {lines[0]}".removesuffix(": ").rstrip(".")
        return text if len(text) <= 200 else f"{text[:197]}..."


class Caller:
    """Calls one function again and again and remembers how it behaved.

    ``printed`` is the first text that it wrote, ``changed`` the arguments that it modified, as they
    were before and after.
    """

    def __init__(self, function: Callable, time_limit: float) -> None:
        self.function = function
        self.time_limit = time_limit
        self.printed = ""
        self.changed: dict[str, tuple[Tensor, Tensor]] = {}
        self.seconds: list[float] = []
        self.hangs = False

    @property
    def slow(self) -> bool:
        """Whether most calls took long; one alone may have been the first of its kind."""
        return len(self.seconds) > 2 and statistics.median(self.seconds) > SLOW

    @property
    def out_of_time(self) -> bool:
        """Whether a call did not come back, or all are slow: then no further one is made."""
        return self.hangs or self.slow

    def __call__(self, *arguments: object, **named: object) -> Outcome:
        """Call the function with these arguments themselves, and watch it."""
        if self.out_of_time:  # once is enough: everything else would hang as well
            return Outcome(error=OutOfTime())
        everything = {**{str(place): value for place, value in enumerate(arguments)}, **named}
        held = {
            name: (value, value.detach().clone())
            for name, value in everything.items()
            if isinstance(value, Tensor) and value.device.type != "meta"
        }
        outcome = call(self.function, *arguments, time_limit=self.time_limit, **named)
        for name, (value, before) in held.items():
            if _differs(value.detach(), before):
                self.changed.setdefault(name, (before, value.detach().clone()))
        self.printed = self.printed or outcome.printed
        self.seconds.append(outcome.seconds)
        if isinstance(outcome.error, CutShort):
            raise outcome.error
        self.hangs = isinstance(outcome.error, OutOfTime)
        return outcome


@contextlib.contextmanager
def time_for_all(limit: Limit) -> Iterator[None]:
    """Let no call begin or go on beyond a limit; a ``Caller`` then raises CutShort."""
    earlier = _whole.set(limit)
    try:
        yield
    finally:
        _whole.reset(earlier)


def call(
    function: Callable, *arguments: object, time_limit: float = 1.0, **named: object
) -> Outcome:
    """Return what came of ``function(*arguments, **named)``; raise only the learner's interrupt.

    The time limit is kept on the main thread only, where signals arrive, and between two steps of
    Python: nothing stops a step in compiled code.
    """
    written = _Written()
    outcome = Outcome()
    limit = Limit(time_limit)
    with (
        warnings.catch_warnings(),
        torch_as_it_is(),
        contextlib.redirect_stdout(written),
        contextlib.redirect_stderr(written),
    ):
        warnings.simplefilter("ignore")
        try:
            outcome.value = _within(limit, lambda: function(*arguments, **named))
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # SystemExit too: a call of exit() is a finding
            outcome.error = error
    if inspect.iscoroutine(outcome.value):
        outcome.value.close()
    outcome.seconds, outcome.passed = limit.spent()
    outcome.printed = written.getvalue()
    return outcome


class _Written(io.StringIO):
    """What is written to stdout; code that closes it closes nothing."""

    def close(self) -> None:
        """Stay open."""


@contextlib.contextmanager
def torch_as_it_is() -> Iterator[None]:
    """Put torch's switches back: the called code, or the alarm that stops it, may leave others."""
    grad, dtype = torch.is_grad_enabled(), torch.get_default_dtype()
    try:
        yield
    finally:
        torch.set_grad_enabled(grad)
        torch.set_default_dtype(dtype)


def a(word: str) -> str:
    """Return a word with its article, such as ``"an int"``."""
    return f"an {word}" if word[:1].lower() in "aeiou" else f"a {word}"


def name_of(target: object) -> str:
    """Return how a report names a callable, of a partial its function, or a pair of callables."""
    if isinstance(target, tuple | list):
        return f"({', '.join(name_of(part) for part in target)})"
    name = call(lambda: getattr(target, "func", target).__name__).value
    return name if isinstance(name, str) else type(target).__name__


def _within(limit: Limit, function: Callable[[], object]) -> object:
    """Return ``function()``; raise OutOfTime or CutShort at the end, if this is the main thread."""
    whole = _whole.get(limit)
    if whole.left() < 0:
        raise CutShort
    on_main = threading.current_thread() is threading.main_thread()
    if not on_main or not hasattr(signal, "setitimer"):
        return function()
    watching, rang = True, 0

    def ring(_number: int, _frame: object) -> None:
        """Stop the code, and ring again soon; seldom while compiled code does not hear it."""
        nonlocal rang
        if not watching or min(limit.left(), whole.left()) > 0:
            return
        again = draw(AGAIN / 10, AGAIN) if rang > 1 else LATE
        signal.setitimer(signal.ITIMER_REAL, again, LATE)
        rang += 1
        raise OutOfTime if limit.spent()[0] >= limit.seconds else CutShort

    earlier, told = signal.signal(signal.SIGALRM, ring), sys.unraisablehook
    try:
        sys.unraisablehook = lambda _: None  # an alarm in a finalizer is lost; the next one comes
        signal.setitimer(signal.ITIMER_REAL, LATE, LATE)
        try:
            return function()
        finally:
            watching = False
    finally:  # once more, should the alarm have rung between the two lines above
        watching = False
        signal.setitimer(signal.ITIMER_REAL, 0)
        # one that is still on its way would end Python, had nobody an ear for it
        signal.signal(signal.SIGALRM, earlier if callable(earlier) else lambda *_: None)
        sys.unraisablehook = told


def wake_torch() -> None:
    """Let torch import what it loads on first use, which is too slow for a time limit.

    An alarm in the middle of an import would leave half a module behind.
    """
    torch.broadcast_shapes((1,), (1,))


def _differs(value: Tensor, before: Tensor) -> bool:
    if value.shape != before.shape or value.dtype != before.dtype:
        return True
    return not torch.equal(value, before) and not torch.equal(  # a NaN equals nothing
        value.nan_to_num(nan=1.25), before.nan_to_num(nan=1.25)
    )
