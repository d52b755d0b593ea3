"""The process of a task: its use of the machine, its garbage collector, its signals, and user code that does not return.

What a process uses of its machine: cores, memory, threads, files, Python's collector; read four times a second at most.

A worker reports it with its metrics, and the driver reads its own when it is asked. Memory is what is resident, and the limit is
that of the machine.
"""

from __future__ import annotations

import ctypes
import gc
import os
import signal
import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from math import inf
from types import CodeType, TracebackType
from typing import Any

from funken.dataclass import dataclass
from funken.timing.clock import SystemClock

_KEPT_SECONDS = 0.25
_monotonic = SystemClock().monotonic
_PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096


@dataclass(frozen=True, slots=True)
class ProcessStatus:
    """A process at one moment; sizes are bytes, ``cpu_load`` is a share of all cores of the machine since the last reading."""

    pid: int
    cores: int
    physical_memory: int
    free_memory: int
    resident: int
    cpu_seconds: float
    cpu_load: float
    threads: int
    files: int
    collections: int
    collecting_ms: float

    def named(self) -> dict[str, int | float]:
        """Return it by Flink's names for a JVM: resident memory counts as its heap.

        >>> read = process_status().named()
        >>> read["Status.JVM.Threads.Count"] >= 1, read["Status.JVM.Memory.Heap.Used"] > 0
        (True, True)
        """
        none = dict.fromkeys(
            (
                "Status.JVM.Memory.NonHeap.Used", "Status.JVM.Memory.NonHeap.Committed",
                "Status.JVM.Memory.Direct.Count", "Status.JVM.Memory.Direct.MemoryUsed",
                "Status.JVM.Memory.Direct.TotalCapacity", "Status.JVM.Memory.Mapped.Count",
                "Status.JVM.Memory.Mapped.MemoryUsed", "Status.JVM.Memory.Mapped.TotalCapacity",
                "Status.JVM.Memory.Metaspace.Used", "Status.JVM.Memory.Metaspace.Committed",
                "Status.Flink.Memory.Managed.Used", "Status.Flink.Memory.Managed.Total",
                "Status.Shuffle.Netty.UsedMemory", "Status.Shuffle.Netty.TotalMemory",
                "Status.Shuffle.Netty.AvailableMemory",
            ),
            0,
        )  # fmt: skip
        unlimited = dict.fromkeys(("Status.JVM.Memory.NonHeap.Max", "Status.JVM.Memory.Metaspace.Max"), -1)
        return none | unlimited | {
            "Status.JVM.CPU.Load": self.cpu_load,
            "Status.JVM.CPU.Time": round(self.cpu_seconds * 1e9),
            "Status.JVM.Memory.Heap.Used": self.resident,
            "Status.JVM.Memory.Heap.Committed": self.resident,
            "Status.JVM.Memory.Heap.Max": self.physical_memory,
            "Status.JVM.Threads.Count": self.threads,
            "Status.JVM.FileDescriptor.Open": self.files,
            "Status.JVM.GarbageCollector.All.Count": self.collections,
            "Status.JVM.GarbageCollector.All.Time": round(self.collecting_ms),
        }  # fmt: skip


class _Collecting:
    """The time (ms) that Python's collector of cycles has taken in this process since it is watched."""

    def __init__(self) -> None:
        self.ms = 0.0
        self._begun: float | None = None

    def __call__(self, phase: str, info: dict[str, Any]) -> None:
        now = _monotonic()
        if phase == "start":
            self._begun = now
        elif self._begun is not None:
            self.ms += (now - self._begun) * 1000
            self._begun = None


_collecting = _Collecting()


class _Reader:
    """Reads the resource usage of this process, at most every so often: many tasks may share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._at = -inf
        self._used = 0.0
        self._known: ProcessStatus | None = None

    def read(self) -> ProcessStatus:
        """Return the status now, or as it was a moment ago."""
        with self._lock:
            now = _monotonic()
            if self._known is None or self._known.pid != os.getpid() or now >= self._at + _KEPT_SECONDS:
                self._known, self._at = self._status(now), now
            return self._known

    def _status(self, now: float) -> ProcessStatus:
        if _collecting not in gc.callbacks:
            gc.callbacks.append(_collecting)
        cores, times = os.cpu_count() or 1, os.times()
        used = times.user + times.system
        passed, ran, self._used = now - self._at, used - self._used, used
        load = 0.0 if passed == inf else max(0.0, min(1.0, ran / passed / cores))
        collections = sum(each["collections"] for each in gc.get_stats())
        return ProcessStatus(
            os.getpid(), cores, _pages("SC_PHYS_PAGES"), _pages("SC_AVPHYS_PAGES"), _resident(), round(used, 2),
            round(load, 4), threading.active_count(), _open_files(), collections, round(_collecting.ms, 3),
        )  # fmt: skip


_reader = _Reader()


def process_status() -> ProcessStatus:
    """Return the resources that this process uses; unknown ones are 0.

    >>> status = process_status()
    >>> status.threads >= 1, status.physical_memory > status.resident > 0
    (True, True)
    """
    return _reader.read()


def _pages(name: str) -> int:
    try:
        return os.sysconf(name) * _PAGE
    except (AttributeError, ValueError, OSError):
        return 0


def _resident() -> int:
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * _PAGE
    except (OSError, ValueError, IndexError):
        return 0


def _open_files() -> int:
    try:
        return len(os.listdir("/proc/self/fd"))
    except OSError:
        return 0


# ---- Python's collector of cycles while a job runs: it runs rarely, for blocks are tens of thousands of tuples.
#
# Every 700 new containers Python looks at the young ones, and now and then at all of them: beside state it takes
# more time than the operators. A worker belongs to its job, and leaves out what existed before; a process that a
# job only visits gets its own setting back.


_EVERY = 50_000
_lock = threading.Lock()
_jobs = 0
_before = (0, 0, 0)


def collect_rarely() -> None:
    """Let the garbage collector ignore present objects, and run rarely, in a process that is here for the job.

    Measured on the keyed job: 22 % of the CPU time per record with Python's own threshold of 700 (decision 0004). In batch,
    PageRank by record over 160,000 links took 2.9 s of CPU time with that threshold and 2.4 s without, a join of 200,000 pairs
    0.35 and 0.18 s.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_EVERY, *gc.get_threshold()[1:])


@contextmanager
def collecting_rarely() -> Iterator[None]:
    """Let the garbage collector of this process run rarely within a block; in the last of several at a time, as before.

    A program that has switched it off, or lets it run more rarely still, is left alone. Nexmark's q20, in one process: 128,000
    to 269,000 events a second.

    >>> before = gc.get_threshold()
    >>> with collecting_rarely():
    ...     gc.get_threshold()[0]
    50000
    >>> gc.get_threshold() == before
    True
    """
    global _jobs, _before  # noqa: PLW0603 - the collector is one of the process
    with _lock:
        if not _jobs:
            _before = gc.get_threshold()
            if 0 < _before[0] < _EVERY:
                gc.set_threshold(_EVERY, *_before[1:])
        _jobs += 1
    try:
        yield
    finally:
        with _lock:
            _jobs -= 1
            if not _jobs and gc.get_threshold() == (_EVERY, *_before[1:]):  # else the program has set another meanwhile
                gc.set_threshold(*_before)


# ---- User code that does not come back: an exception is raised in its thread from another one.
#
# Only inside a ``with`` block of the thread, which holds user code and nothing that must not be cut in two. Python
# raises such an exception between two of its instructions: code outside of Python (a ``sleep``, a regular
# expression, a driver of a database) is not interrupted before it returns. ``where`` then returns what blocks.


_set_exception = ctypes.pythonapi.PyThreadState_SetAsyncExc
_set_exception.argtypes = (ctypes.c_ulong, ctypes.py_object)


class Interrupted(KeyboardInterrupt):
    """Raised in user code of a job that was cancelled; not an ``Exception``, which user code may catch and go on."""


def _let_come() -> None:
    """Raise an exception here that may have been set for this thread, so that it is not raised later.

    To take it back (set ``NULL``) is not enough: CPython 3.11 then goes on looking for one, at each call and for good, and a
    debugger's trace function makes it hang.
    """
    _set_exception(threading.get_ident(), Interrupted)
    for _ in range(1000):  # it is raised where the loop begins anew
        pass


# ---- Exceptions of signals: the program is to end, and no function has failed.


def raised_by_signal(error: BaseException) -> bool:
    """Return True if a signal raised an exception, or one that led to it: Ctrl-C, or a handler of the program.

    Python runs handlers in the main thread between two instructions, so within any function of the user. Such a function may
    also raise an exception of its own in return.

    >>> raised_by_signal(KeyboardInterrupt()), raised_by_signal(ValueError())
    (True, False)
    """
    if threading.current_thread() is not threading.main_thread():
        return False
    handlers = {id(_code_of(signal.getsignal(number))) for number in signal.valid_signals()} - {id(None)}
    seen: set[int] = set()
    at: BaseException | None = error
    while at is not None and id(at) not in seen:
        if isinstance(at, KeyboardInterrupt) and not isinstance(at, Interrupted):
            return True
        if any(id(frame.f_code) in handlers for frame, _ in traceback.walk_tb(at.__traceback__)):
            return True
        seen.add(id(at))
        at = at.__cause__ or at.__context__
    return False


def _code_of(handler: Any) -> CodeType | None:
    while isinstance(handler, partial):
        handler = handler.func
    if not callable(handler):
        return None
    code = getattr(handler, "__code__", None) or getattr(type(handler).__call__, "__code__", None)
    return code if isinstance(code, CodeType) else None


class Interruption:
    """The one thread that runs a job's user code, and the blocks in which it may be interrupted.

    >>> interruption = Interruption()
    >>> interruption.interrupt(), interruption.where()
    (False, None)
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._thread: int | None = None
        self._open = False
        self._pending = False
        self._ctrl_c = False

    def hear_ctrl_c(self) -> None:
        """Ctrl-C came; its exception may be caught by a function of the user."""
        self._ctrl_c = True

    def check(self) -> None:
        """Raise ``KeyboardInterrupt`` if Ctrl-C came; between two calls of user code."""
        if self._ctrl_c:
            raise KeyboardInterrupt

    def enter_thread(self) -> None:
        """From now on, the calling thread is the one."""
        self._thread = threading.get_ident()

    def leave_thread(self) -> None:
        """There is none any more."""
        self._thread = None

    def __enter__(self) -> None:
        self._open = True

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        while True:  # an exception that was set before this block is left may be raised within these lines, too
            try:
                with self._lock:
                    self._open = False
                    pending, self._pending = self._pending, False
                if pending:
                    _let_come()
                return
            except Interrupted:
                continue

    def interrupt(self) -> bool:
        """Raise ``Interrupted`` in the thread, soon; returns false if it is in no block in which it may be."""
        with self._lock:
            if self._thread is None or not self._open:
                return False
            self._pending = True
            return bool(_set_exception(self._thread, Interrupted))

    def where(self) -> tuple[str, str] | None:
        """Return the function that the thread is in, and its traceback, newest call last; ``None`` without a thread."""
        frame = None if self._thread is None else sys._current_frames().get(self._thread)
        if frame is None:
            return None
        code = frame.f_code
        return f"{code.co_qualname} ({code.co_filename}:{frame.f_lineno})", "".join(traceback.format_stack(frame))
