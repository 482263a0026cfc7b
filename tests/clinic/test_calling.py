"""Untrusted code is watched, stopped in time, and cannot swallow the learner's interrupt."""

import contextlib
import os
import signal
import sys
import threading
import time

import pytest
import torch
from torch.overrides import TorchFunctionMode
from torch.overrides import _get_current_function_mode_stack as modes_of_torch
from torch.utils import _device

from attnlab.clinic import diagnose
from attnlab.clinic._calling import Caller, OutOfTime, TimeIsUp, _within, call, time_for_all


def test_what_a_call_returns_and_prints_is_kept():
    outcome = call(lambda x: print("hello") or x + 1, 2)
    assert outcome.value == 3
    assert outcome.printed == "hello\n"
    assert outcome.error is None
    assert outcome.trouble == ""


def test_an_error_is_kept_with_its_first_line():
    def fail():
        raise ValueError("first\nsecond")

    outcome = call(fail)
    assert isinstance(outcome.error, ValueError)
    assert outcome.trouble == "ValueError: first"


def busy():
    while True:
        pass


def stubborn():
    while True:
        try:
            time.sleep(5)
        except:  # noqa: E722 - the worst that a learner may write
            pass


def persistent():
    while True:
        with contextlib.suppress(Exception):
            time.sleep(5)


@pytest.mark.parametrize("function", [busy, stubborn, persistent])
def test_a_call_that_hangs_is_stopped(function):
    start = time.perf_counter()
    outcome = call(function, time_limit=0.1)
    assert isinstance(outcome.error, OutOfTime)
    assert outcome.trouble == "no answer within the time limit"
    assert time.perf_counter() - start < 3


def test_a_hanging_function_is_called_once_and_named():
    calls = []

    def attention(query, key, value):
        calls.append(1)
        time.sleep(60)

    start = time.perf_counter()
    report = diagnose(attention, time_limit=0.1)
    assert [finding.name for finding in report.findings] == ["hangs"]
    assert len(calls) == 1
    assert time.perf_counter() - start < 30  # of 60: the first call also waits for torch


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


@pytest.fixture
def interruptible():
    """Ctrl-C raises, also where the tests run in the background and ignore it."""
    earlier = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, earlier)


@pytest.mark.usefixtures("interruptible")
def test_the_interrupt_of_the_learner_passes_through():
    def attention(query, key, value):
        signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        diagnose(attention)


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_from_the_keyboard_while_it_hangs_passes_through():
    threading.Timer(0.1, lambda: signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
                    ).start()  # fmt: skip
    with pytest.raises(KeyboardInterrupt):
        call(busy, time_limit=5)


def test_off_the_main_thread_there_is_no_limit_and_no_error():
    kept = []
    thread = threading.Thread(target=lambda: kept.append(call(lambda: 7, time_limit=0.1)))
    thread.start()
    thread.join()
    assert kept[0].value == 7


def test_a_caller_notices_changed_arguments_by_name():
    caller = Caller(lambda a, b: b.mul_(2), 1.0)
    caller(torch.ones(2), b=torch.ones(2))
    assert list(caller.changed) == ["b"]
    before, after = caller.changed["b"]
    assert (before == 1).all()
    assert (after == 2).all()
    caller(torch.ones(2), b=torch.zeros(2))
    assert list(caller.changed) == ["b"]


def test_a_caller_notices_that_a_nan_stays_a_nan():
    caller = Caller(lambda a: a, 1.0)
    caller(torch.tensor([float("nan")]))
    assert caller.changed == {}


def test_a_warning_is_not_an_error():
    def attention(query, key, value):
        import warnings

        warnings.warn("careful", stacklevel=2)
        return torch.softmax(query @ key.mT / query.shape[-1] ** 0.5, -1) @ value

    assert diagnose(attention).ok


def test_a_slow_function_is_named_and_not_called_for_long():
    calls = []

    def attention(query, key, value):
        calls.append(1)
        time.sleep(0.3)
        return torch.softmax(query @ key.mT / query.shape[-1] ** 0.5, -1) @ value

    report = diagnose(attention)
    assert [finding.name for finding in report.findings] == ["slow"]
    assert len(calls) == 3


def test_one_slow_call_is_no_finding():
    waits = iter([0.4])

    def attention(query, key, value):
        time.sleep(next(waits, 0))
        return torch.softmax(query @ key.mT / query.shape[-1] ** 0.5, -1) @ value

    assert diagnose(attention).ok


def test_an_alarm_that_rings_in_a_finalizer_is_not_reported(monkeypatch):
    reported = []
    monkeypatch.setattr(sys, "unraisablehook", reported.append)

    class Slow:
        def __del__(self):
            time.sleep(0.3)

    def function():
        Slow()  # the alarm is lost in its finalizer, and rings again
        while True:
            time.sleep(0.01)

    with pytest.raises(OutOfTime):
        _within(0.1, function)
    assert reported == []
    assert sys.unraisablehook == reported.append


@pytest.mark.skipif(not hasattr(signal, "sigtimedwait"), reason="needs signal.sigtimedwait")
def test_an_alarm_that_was_not_answered_yet_is_taken_back():
    if not (child := os.fork()):  # where no other thread can answer it
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM})
        _within(0.01, lambda: time.sleep(0.05))
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGALRM})  # it would end the process
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


class Watching(TorchFunctionMode):
    """Counts the calls of torch."""

    def __init__(self):
        super().__init__()
        self.count = 0

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.count += 1
        return func(*args, **(kwargs or {}))


def test_modes_that_a_call_leaves_or_takes_away_are_put_back():
    def leaves_one():
        Watching().__enter__()

    def takes_one():
        Watching().__exit__(None, None, None)

    with Watching() as mine:
        for function in (leaves_one, takes_one, lambda: torch.set_default_device("meta")):
            call(function)
            assert modes_of_torch() == [mine]
        before = mine.count
        assert torch.ones(1).device.type == "cpu"
        assert mine.count > before
    assert modes_of_torch() == []


def takes_another_device():
    torch.set_default_device("meta")


def enters_another_device():
    torch.device("meta").__enter__()


def does_both():
    takes_another_device()
    enters_another_device()


def remembered_device():
    """Return what torch remembers of the default device, beside the mode."""
    return torch._GLOBAL_DEVICE_CONTEXT.device_context, _device.CURRENT_DEVICE


@pytest.mark.parametrize("device", [None, "cpu", "meta"])
@pytest.mark.parametrize(
    "function", [takes_another_device, enters_another_device, does_both, lambda: None]
)
def test_the_default_device_stays_that_of_the_learner(device, function):
    torch.set_default_device(device)
    try:
        before = remembered_device()
        assert call(function).error is None
        assert remembered_device() == before
        assert torch.ones(1).device.type == torch.get_default_device().type == (device or "cpu")
    finally:
        torch.set_default_device(None)
    assert modes_of_torch() == []
    assert torch.get_default_device().type == "cpu"


def test_an_alarm_that_compiled_code_does_not_hear_rings_seldom():
    rang = []

    class Deaf:
        """Sleeps as compiled code does: no handler of Python runs in between."""

        def __call__(self):
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM})
            try:  # another thread of the process may hear the alarm in its place
                time.sleep(0.2)
            finally:
                rang.append(signal.getitimer(signal.ITIMER_REAL)[1])
                signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGALRM})

    def deaf_and_stubborn():
        for _ in range(3):
            with contextlib.suppress(OutOfTime):
                Deaf()()

    call(deaf_and_stubborn, time_limit=0.05)
    assert len(rang) == 3
    assert min(rang) > 0.005


def test_an_examination_has_a_time_limit_in_all():
    calls = []

    def attention(query, key, value):
        calls.append(1)
        time.sleep(0.1)
        return torch.softmax(query @ key.mT / query.shape[-1] ** 0.5, -1) @ value

    start = time.perf_counter()
    report = diagnose(attention, time_limit=0.5)
    assert time.perf_counter() - start < 15
    assert report.findings == ()
    assert report.ok is None
    assert "stopped after 5 seconds" in report.gap.why
    assert "time_limit=1" in report.gap.remedy
    assert 5 < len(calls) < 55


def test_a_call_that_the_end_of_an_examination_cuts_short_does_not_hang():
    caller = Caller(lambda: time.sleep(5), 1.0)
    with time_for_all(0.05), pytest.raises(TimeIsUp):
        caller()
    called = []
    with time_for_all(-1.0), pytest.raises(TimeIsUp):
        Caller(lambda: called.append(1), 1.0)()
    assert not called
    assert call(lambda: 7).value == 7


def test_late_compiled_code_is_said_to_be_out_of_reach():
    def attention(query, key, value):
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM})
        try:
            time.sleep(1.3)
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGALRM})
        return value

    finding = diagnose(attention, time_limit=0.1).findings[0]
    assert finding.name == "hangs"
    assert "compiled code, which cannot be stopped" in finding.sentence


def test_threads_and_deterministic_algorithms_are_put_back():
    threads = torch.get_num_threads()

    def attention(query, key, value):
        torch.set_num_threads(threads + 2)
        torch.use_deterministic_algorithms(True)
        return torch.softmax(query @ key.mT / query.shape[-1] ** 0.5, -1) @ value

    try:
        call(attention, *torch.randn(3, 4, 5), time_limit=60)  # torch imports much here
        assert torch.get_num_threads() == threads
        diagnose(attention)
        assert torch.get_num_threads() == threads
        assert not torch.are_deterministic_algorithms_enabled()
    finally:
        torch.set_num_threads(threads)
        torch.use_deterministic_algorithms(False)


def test_code_that_closes_stdout_is_examined_to_the_end():
    def attention(query, key, value):
        print("bye")
        sys.stdout.close()
        return torch.softmax(query @ key.mT / query.shape[-1] ** 0.5, -1) @ value

    report = diagnose(attention)
    assert [finding.name for finding in report.findings] == ["prints"]
    assert report.gap is None
