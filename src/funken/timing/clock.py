"""Clocks: the only module that reads the machine's time.

``now`` is processing time (ms since the epoch), ``wall`` the same in seconds with fractions, ``monotonic`` is for
intervals (s) and never steps back. ``run_delay`` is how long the calling thread was kept from running by others, ``thread_usage``
what it had of a core. Tests and the simulation use ``ManualClock`` and turn the hands themselves.
"""

from __future__ import annotations

import os
import resource
import threading
import time
from typing import NamedTuple, Protocol

_THREAD = getattr(resource, "RUSAGE_THREAD", None)


class _Counted:
    """What Linux counts for the thread that makes this."""

    def __init__(self) -> None:
        self.file = os.open("/proc/thread-self/schedstat", os.O_RDONLY | os.O_CLOEXEC)

    def __del__(self) -> None:
        if hasattr(self, "file"):
            os.close(self.file)


class _Thread(threading.local):
    """What a thread keeps open: to open it for each reading takes 7 us, and was 3 % of what busy tasks did (decision 0053)."""

    counted: _Counted | None = None


_thread = _Thread()


def _forget() -> None:
    """The thread that goes on after a fork is another."""
    _thread.__dict__.clear()


os.register_at_fork(after_in_child=_forget)


def usable_cores() -> int:
    """Return how many cores this process may use.

    >>> usable_cores() >= 1
    True
    """
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class ThreadUsage(NamedTuple):
    """How long (s) a thread ran, and how often it gave up its core: it slept, waited for data, or for the interpreter's lock."""

    seconds: float
    waits: int


class Clock(Protocol):
    """What the runtime needs of a clock."""

    def now(self) -> int:
        """Return processing time, ms since the epoch."""
        ...

    def wall(self) -> float:
        """Return the same in s."""
        ...

    def monotonic(self) -> float:
        """Return s since some fixed moment."""
        ...

    def run_delay(self) -> float | None:
        """Return for how long (s) the calling thread has been ready to run but had no core, ``None`` if nobody knows."""
        ...

    def thread_usage(self) -> ThreadUsage | None:
        """Return what the calling thread has had of a core, ``None`` if nobody knows."""
        ...


class SystemClock:
    """The machine's clock."""

    def now(self) -> int:
        """Return processing time, ms since the epoch."""
        return time.time_ns() // 1_000_000

    def wall(self) -> float:
        """Return s since the epoch."""
        return time.time()

    def monotonic(self) -> float:
        """Return s since some fixed moment."""
        return time.perf_counter()

    def run_delay(self) -> float | None:
        """Return what Linux counts (``/proc/thread-self/schedstat``, 1 us), ``None`` elsewhere."""
        try:
            counted = _thread.counted = _thread.counted or _Counted()
            return int(os.pread(counted.file, 100, 0).split()[1]) / 1e9
        except (OSError, ValueError, IndexError):
            return None

    def thread_usage(self) -> ThreadUsage | None:
        """Return what Linux counts (``getrusage``, 1 us), ``None`` elsewhere."""
        if _THREAD is None:
            return None
        counted = resource.getrusage(_THREAD)
        return ThreadUsage(counted.ru_utime + counted.ru_stime, counted.ru_nvcsw)


class ManualClock:
    """A clock that only moves when it is advanced.

    >>> clock = ManualClock(1000)
    >>> clock.advance(5)
    >>> clock.now(), clock.wall()
    (1005, 1.005)
    """

    def __init__(self, now: int = 0) -> None:
        self._now = now

    def advance(self, millis: int) -> None:
        """Turn the hands forward."""
        self._now += millis

    def set(self, now: int) -> None:
        """Set the hands."""
        self._now = now

    def now(self) -> int:
        """Return the time set."""
        return self._now

    def wall(self) -> float:
        """Return the time set, in s."""
        return self._now / 1000

    def monotonic(self) -> float:
        """Return the time set, in s."""
        return self._now / 1000

    def run_delay(self) -> float | None:
        """Nobody is kept from running."""
        return 0.0

    def thread_usage(self) -> ThreadUsage | None:
        """All time is spent at work."""
        return ThreadUsage(self.monotonic(), 0)
