"""Clocks: the only module that reads the machine's time.

``now`` is processing time (ms since the epoch), ``wall`` the same in seconds with fractions, ``monotonic`` is for
intervals (s) and never steps back. ``run_delay`` is how long the calling thread was kept from running by others, ``thread_usage``
what it had of a core. Tests and the simulation use ``ManualClock`` and turn the hands themselves.
"""

from __future__ import annotations

import contextlib
import os
import resource
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, wait
from queue import Empty
from typing import Generic, NamedTuple, Protocol, TypeVar

_THREAD = getattr(resource, "RUSAGE_THREAD", None)


class _Counted:
    """The counters of Linux for the thread that makes this."""

    def __init__(self) -> None:
        self.file = os.open("/proc/thread-self/schedstat", os.O_RDONLY | os.O_CLOEXEC)

    def __del__(self) -> None:
        if hasattr(self, "file"):
            os.close(self.file)


class _Thread(threading.local):
    """A thread's open counters: opening them for each reading takes 7 us, once 3 % of busy tasks (decision 0053)."""

    counted: _Counted | None = None


_thread = _Thread()


def _forget() -> None:
    """The thread that goes on after a fork is another."""
    _thread.__dict__.clear()


os.register_at_fork(after_in_child=_forget)


def usable_cores() -> int:
    """Return the number of cores that this process may use.

    >>> usable_cores() >= 1
    True
    """
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class ThreadUsage(NamedTuple):
    """The time a thread ran (s), and the times it gave up its core: to sleep, or to wait for data or the lock."""

    seconds: float
    waits: int


class Clock(Protocol):
    """The runtime's view of a clock."""

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
        """Return the time (s) that the calling thread was ready to run without a core, ``None`` if nobody knows."""
        ...

    def thread_usage(self) -> ThreadUsage | None:
        """Return the calling thread's use of a core, ``None`` if nobody knows."""
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
        """Return Linux' count (``/proc/thread-self/schedstat``, 1 us), ``None`` elsewhere."""
        try:
            counted = _thread.counted = _thread.counted or _Counted()
            return int(os.pread(counted.file, 100, 0).split()[1]) / 1e9
        except (OSError, ValueError, IndexError):
            return None

    def thread_usage(self) -> ThreadUsage | None:
        """Return Linux' counts (``getrusage``, 1 us), ``None`` elsewhere."""
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


# ---- Waits of the program's own thread that Ctrl-C can end.
#
# The system may hand a signal to any thread of the process, but Python runs its handler in the main thread only,
# and a main thread that waits without a bound is not woken for it: the Ctrl-C is lost. So these waits look up now
# and then.


T = TypeVar("T")

_LOOK_SECONDS = 0.1


def result_of(future: Future[T]) -> T:
    """Wait for a future's result and return it, or raise its exception; ``KeyboardInterrupt`` in between."""
    while not future.done():
        wait([future], _LOOK_SECONDS)
    return future.result()


def came(event: threading.Event, seconds: float) -> bool:
    """Wait for an event, at most so long; returns whether it came. ``KeyboardInterrupt`` in between."""
    now = SystemClock().monotonic
    end = now() + seconds
    while not event.is_set() and (left := end - now()) > 0:
        event.wait(min(left, _LOOK_SECONDS))
    return event.is_set()


def pause(seconds: float) -> None:
    """Let some time pass; ``KeyboardInterrupt`` in between."""
    came(threading.Event(), seconds)


def until(condition: threading.Condition, holds: Callable[[], bool]) -> None:
    """Wait, holding ``condition``'s lock, until something holds; raises ``KeyboardInterrupt`` in between."""
    while not condition.wait_for(holds, _LOOK_SECONDS):
        pass


# ---- A queue whose ``get`` ends when its time is over.
#
# That of ``queue.SimpleQueue`` may not: where it finds its lock free but nothing in the queue, as after an item
# that was taken without a wait, it waits again for the time that is left, and forever if none is. So it is in
# CPython 3.11.2 to 3.13.0 (``tests/timing/test_queues.py`` has the loop that shows it). With waits of 0.1 ms, on a
# machine with busy cores, a source stood still after five minutes, and its job with it.


_now = SystemClock().monotonic


class Wakeup:
    """Wakes one thread, which looks by itself whether something has come; several threads ``set``.

    >>> wakeup = Wakeup()
    >>> wakeup.set(); wakeup.wait(0), wakeup.wait(0)
    (True, False)
    """

    def __init__(self) -> None:
        #: free if it was set since the last wait
        self._set = threading.Lock()
        self._set.acquire()

    def set(self) -> None:
        """End the wait, or the next one."""
        if self._set.locked():
            with contextlib.suppress(RuntimeError):  # another thread was faster
                self._set.release()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it is set, ``timeout`` s at most; return whether it was."""
        return self._set.acquire(timeout=-1.0 if timeout is None else max(0.0, timeout))


class TimedQueue(Generic[T]):
    """First in, first out, without a bound: several threads put, one thread gets.

    >>> items = TimedQueue()
    >>> items.put("a"); items.get(), items.empty()
    ('a', True)
    """

    # Hot: once per block. A put and a get cost 0.4 us, of queue.SimpleQueue 0.7, of queue.Queue 9.

    def __init__(self) -> None:
        self._items: deque[T] = deque()
        self._wakeup = Wakeup()

    def put(self, item: T) -> None:
        """Append an item; never waits."""
        self._items.append(item)
        self._wakeup.set()

    def empty(self) -> bool:
        """Return True if there is no item."""
        return not self._items

    def qsize(self) -> int:
        """Return the number of items."""
        return len(self._items)

    def get(self, timeout: float | None = None) -> T:
        """Return the oldest item; wait for it, ``timeout`` s at most. Raises ``queue.Empty`` then."""
        try:
            return self._items.popleft()
        except IndexError:
            pass
        end = None if timeout is None else _now() + timeout
        while True:
            came = self._wakeup.wait(None if end is None else end - _now())
            try:
                return self._items.popleft()
            except IndexError:
                if not came:
                    raise Empty from None

    def get_nowait(self) -> T:
        """Return the oldest item; raises ``queue.Empty`` if there is none."""
        try:
            return self._items.popleft()
        except IndexError:
            raise Empty from None
