"""Untrusted code is watched, stopped in time, and cannot swallow the learner's interrupt."""

import contextlib
import os
import signal
import sys
import threading
import time
import warnings
from collections import deque
from itertools import takewhile

import pytest
import torch

from attnlab import sandbox
from attnlab.clinic import diagnose
from attnlab.sandbox import Caller, CutShort, Limit, OutOfTime, _within, call, time_for_all


def test_what_a_call_returns_prints_and_raises_is_kept():
    outcome = call(lambda x: print("hello") or x + 1, 2)
    assert (outcome.value, outcome.printed, outcome.trouble) == (3, "hello\n", "")
    outcome = call(lambda: int("first\nsecond"))
    assert isinstance(outcome.error, ValueError)
    assert outcome.trouble == "ValueError: invalid literal for int() with base 10: 'first\\nsecond'"


# --- what computes for too long -------------------------------------------------------------------


def busy():
    while True:
        pass


def busy_with_tensors():
    x = torch.eye(256)
    while True:
        x = x @ x


def stubborn():
    while True:
        try:
            busy()
        except:  # noqa: E722 - the worst that a learner may write
            pass


def busy_in_finalizers():
    class Slow:
        def __del__(self):
            busy()

    Slow()  # the alarm is lost in its finalizer, and rings again
    busy()


@pytest.mark.parametrize("function", [busy, busy_with_tensors, stubborn, busy_in_finalizers])
def test_what_computes_on_and_on_is_stopped(function, monkeypatch):
    monkeypatch.setattr(sys, "unraisablehook", hook := lambda _: pytest.fail("reported"))
    outcome = call(function, time_limit=0.1)
    assert type(outcome.error) is OutOfTime
    assert outcome.trouble == "no answer within the time limit"
    assert 0.1 <= outcome.seconds < 10  # 1.3 were seen on a busy machine
    assert sys.unraisablehook is hook


def computes(seconds):
    """Compute for so many seconds."""
    start = time.thread_time()
    while time.thread_time() - start < seconds:
        pass


def first(query, key, value):
    return torch.softmax(query @ key.mT / query.shape[-1] ** 0.5, -1) @ value


@pytest.mark.parametrize(
    ("takes", "name", "ok"),
    [([9], "hangs", None), ([0.3] * 99, "", None), ([0.3], None, True)],
)
def test_what_computes_for_long_is_told_and_not_called_for_long(takes, name, ok):
    calls, takes = [], iter(takes)

    def attention(query, key, value):
        calls.append(1)
        computes(next(takes, 0))
        return first(query, key, value)

    report = diagnose(attention, time_limit=0.5)
    assert not report.findings
    assert (report.ok, getattr(report.gap, "name", None)) == (ok, name)
    assert len(calls) <= 3 or name != "hangs"


def test_an_examination_has_a_time_limit_in_all():
    def attention(query, key, value):
        computes(0.08)
        return first(query, key, value)

    report = diagnose(attention, time_limit=0.1)
    assert (report.findings, report.ok) == ((), None)
    assert "stopped after 3 seconds of computing" in report.gap.why
    assert "time_limit=0.2" in report.gap.remedy


# --- what waits, for itself or for other programs -------------------------------------------------


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
def test_a_process_that_gets_no_processor_loses_no_time():
    def stopped_for_a_while():
        computes(0.1)
        os.kill(os.getpid(), signal.SIGSTOP)
        computes(0.1)
        return 7

    if not (child := os.fork()):
        outcome = call(stopped_for_a_while, time_limit=0.4)
        os._exit(outcome.value if outcome.passed > 0.6 else 1)
    os.waitpid(child, os.WUNTRACED)
    time.sleep(0.6)
    os.kill(child, signal.SIGCONT)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def test_other_threads_do_not_count():
    others = [threading.Thread(target=lambda: computes(0.2)) for _ in range(2)]

    def waits():
        for other in others:
            other.start()
        for other in others:
            other.join()

    assert call(waits, time_limit=0.3).error is None


def sleepy():
    while True:
        with contextlib.suppress(Exception):
            time.sleep(5)


def test_what_only_waits_is_cut_short_and_not_accused(monkeypatch):
    assert sandbox.WAIT >= 60
    monkeypatch.setattr(sandbox, "WAIT", 0.2)
    outcome = call(sleepy)
    assert isinstance(outcome.error, CutShort)
    assert outcome.seconds < 0.1 < 0.2 <= outcome.passed
    report = diagnose(lambda query, key, value: sleepy())
    assert (report.findings, report.ok) == ((), None)
    assert "seconds, of which it computed for 0.0." in report.gap.why
    assert "input()" in report.gap.remedy


def test_the_end_of_an_examination_accuses_nobody():
    called = []
    with time_for_all(Limit(0.05)), pytest.raises(CutShort):
        Caller(busy, 1.0)()
    with time_for_all(Limit(-1.0)), pytest.raises(CutShort):
        Caller(lambda: called.append(1), 1.0)()
    assert not called
    assert call(lambda: 7).value == 7


# --- the alarm ------------------------------------------------------------------------------------


def test_the_alarm_is_off_afterwards_and_the_old_handler_back():
    def mine(_number, _frame):
        raise AssertionError("rang after the call")

    earlier = signal.signal(signal.SIGALRM, mine)
    try:
        call(lambda: None, time_limit=0.05)
        call(busy, time_limit=0.05)
        assert signal.getsignal(signal.SIGALRM) is mine
        assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
        time.sleep(0.1)
    finally:
        signal.signal(signal.SIGALRM, earlier)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
def test_an_alarm_that_was_not_answered_yet_does_not_end_python():
    if not (child := os.fork()):  # where no other thread can answer it
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM})
        _within(Limit(0.01), lambda: time.sleep(0.05))
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGALRM})
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_late_compiled_code_is_said_to_be_out_of_reach():
    def attention(query, key, value):
        clock = iter(time.thread_time, None)  # one step of compiled code, which hears no alarm
        deque(takewhile((time.thread_time() + 1.3).__gt__, clock), maxlen=0)
        return value

    gap = diagnose(attention, time_limit=0.1).gap
    assert gap.name == "hangs"
    assert "compiled code, which cannot be stopped" in gap.why


@pytest.fixture
def interruptible():
    """Ctrl-C raises, also where the tests run in the background and ignore it."""
    earlier = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, earlier)


@pytest.mark.usefixtures("interruptible")
def test_the_interrupt_of_the_learner_passes_through():
    with pytest.raises(KeyboardInterrupt):
        diagnose(lambda query, key, value: signal.raise_signal(signal.SIGINT))
    main = threading.main_thread().ident
    threading.Timer(0.1, lambda: signal.pthread_kill(main, signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        call(busy, time_limit=30)


def test_off_the_main_thread_there_is_no_limit_and_no_error():
    kept = []
    thread = threading.Thread(target=lambda: kept.append(call(lambda: 7, time_limit=0.1)))
    thread.start()
    thread.join()
    assert kept[0].value == 7


# --- what a call leaves behind --------------------------------------------------------------------


def test_a_caller_notices_changed_arguments_by_name():
    caller = Caller(lambda a, b: b.mul_(2), 1.0)
    caller(torch.ones(2), b=torch.ones(2))
    before, after = caller.changed["b"]
    assert (before.tolist(), after.tolist()) == ([1, 1], [2, 2])
    caller(torch.tensor([float("nan"), 1]), b=torch.zeros(2))  # a NaN stays a NaN
    assert list(caller.changed) == ["b"]


def test_warnings_and_a_closed_stdout_do_not_disturb():
    def attention(query, key, value):
        warnings.warn("careful", stacklevel=2)
        print("bye")
        sys.stdout.close()
        return first(query, key, value)

    assert diagnose(attention).ok


def test_switches_of_torch_are_put_back():
    def leaves_others():
        torch.set_grad_enabled(False)
        torch.set_default_dtype(torch.float64)

    assert call(leaves_others).error is None
    assert torch.is_grad_enabled()
    assert torch.get_default_dtype() == torch.float32
