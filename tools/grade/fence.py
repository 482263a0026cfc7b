"""Limits for a process that runs what a learner wrote: time, memory, and where it may write.

Each process sets them for itself, for good, and its children inherit them. Landlock, a part of
Linux since 5.13 that every user may use, keeps it from writing outside its folder, from reading
what Python does not need, and from the network. Where it is missing, only time, memory and the size
of files are limited. None of this is a sandbox for an attacker: modes and times of files, for
example, can still be changed.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import struct
import sys
import time
from pathlib import Path

import psutil

from tools.build.sources import ROOT

SECONDS = 120  # of computing, for one process
WAIT = 900  # seconds on the clock, far more than a busy computer needs
MEMORY = 4 * 2**30  # bytes of data
FILE = 64 * 2**20  # bytes in one file

CREATE, ADD, RESTRICT = 444, 445, 446  # Landlock's system calls, the same on every processor
NO_NEW_PRIVILEGES, CHILD_SUBREAPER = 38, 36  # for prctl
LIST, READ = 1 << 3, 1 << 0 | 1 << 2 | 1 << 3  # rights: to list a folder; to run, read and list
WRITE = 1 << 1
RIGHTS = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}  # how many there are in each version of Landlock
SYSTEM = ("/usr", "/lib", "/lib64", "/bin", "/etc", "/opt", "/proc", "/sys", "/dev")
OURS = ("attnlab", "tools", "data", "notebooks/texts")


def limit(folder: Path) -> None:
    """Limit this process and its children; they can write only below ``folder``."""
    ceilings = {resource.RLIMIT_DATA: MEMORY, resource.RLIMIT_FSIZE: FILE, resource.RLIMIT_CORE: 0}
    for kind, most in ceilings.items():
        resource.setrlimit(kind, (most, most))
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS + 1))  # SIGXCPU, then SIGKILL
    if can_fence():
        _fence(folder)


def can_fence() -> bool:
    """Return whether this system has Landlock."""
    return _landlock_version() > 0


def _landlock_version() -> int:
    if sys.platform != "linux":
        return 0
    return ctypes.CDLL(None).syscall(CREATE, None, ctypes.c_size_t(0), 1)


def _fence(folder: Path) -> None:
    """Let this process write below ``folder``, read what Python needs, and do nothing else."""
    version, libc = _landlock_version(), ctypes.CDLL(None, use_errno=True)
    every = (1 << RIGHTS[min(version, 5)]) - 1
    # files; no TCP since version 4; no signals and no sockets to others since version 6
    rules = [every, *[3] * (version >= 4), *[3] * (version >= 6)]
    size = ctypes.c_size_t(8 * len(rules))
    ruleset = libc.syscall(CREATE, struct.pack(f"{len(rules)}Q", *rules), size, 0)
    python = {sys.prefix, sys.base_prefix, *sys.path} - {str(ROOT), ""}
    places = {path: READ for path in (*SYSTEM, *python, *(str(ROOT / name) for name in OURS))}
    for path, rights in {**places, str(ROOT): LIST, "/dev/null": WRITE, str(folder): every}.items():
        if os.path.exists(path):
            allowed = rights if os.path.isdir(path) else rights & ~LIST
            descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
            if libc.syscall(ADD, ruleset, 1, struct.pack("=Qi", allowed, descriptor), 0) != 0:
                raise OSError(ctypes.get_errno(), f"Landlock refuses a rule for {path}")
            os.close(descriptor)
    libc.prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    if libc.syscall(RESTRICT, ruleset, 0) != 0:
        raise OSError(ctypes.get_errno(), "Landlock refuses its rules")
    os.close(ruleset)


def run_apart(work, seconds: float = WAIT) -> int | None:
    """Run ``work`` in a child of this process; return its exit status, None if time was up.

    Whatever it started is killed at its end, also what has left its group: on Linux orphans are
    adopted by this process.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(CHILD_SUBREAPER, 1)
    child = os.fork()
    if child == 0:
        os.setsid()
        work()
        os._exit(0)
    limit, status = time.monotonic() + seconds, None
    while status is None and time.monotonic() < limit:
        ended, code = os.waitpid(child, os.WNOHANG)
        status = os.waitstatus_to_exitcode(code) if ended else None
        time.sleep(0.02)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    while children := psutil.Process().children():  # also those that it inherits from them
        for child in children:
            with contextlib.suppress(psutil.NoSuchProcess):
                child.kill()
        psutil.wait_procs(children)
    return status
