"""The worker threads of operator coordinators: I/O with a bound, apart from the threads that carry events."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import TypeVar

from funken.errors import CommitError
from funken.runtime.driver.background import BackgroundWorker
from funken.timing.clock import SystemClock
from funken.timing.waiting import came

T = TypeVar("T")

_LOOK_SECONDS = 0.1
_GRACE_SECONDS = 30.0


class CoordinatorWorker:
    """The worker of one coordinator; its thread begins with the first call.

    ``stopping`` is set when the attempt has failed or the job is cancelled: pauses end, and calls get 30 s more. With
    ``threaded=False`` everything runs in the calling thread, and pauses take no time.

    >>> worker = CoordinatorWorker("commits", threading.Event(), threading.RLock(), print)
    >>> worker.call(lambda: threading.current_thread().name, 10.0, "a test")
    'commits'
    >>> worker.close()
    """

    def __init__(
        self, name: str, stopping: threading.Event, lock: threading.RLock, fail: Callable[[BaseException], None],
        threaded: bool = True,
    ) -> None:  # fmt: skip
        self._stopping = stopping
        self._lock = lock
        self._fail = fail
        self._name = name
        self._thread = BackgroundWorker(name) if threaded else None

    def call(self, work: Callable[[], T], seconds: float, what: str) -> T:
        """Run work on the worker thread and wait for its result."""
        if self._thread is None:
            return work()
        result: Future[T] = Future()

        def run() -> None:
            try:
                result.set_result(work())
            except BaseException as error:  # noqa: BLE001 - raised where it is waited for
                result.set_exception(error)

        self._thread.submit(run)
        now = SystemClock().monotonic
        end, stopping = now() + seconds, False
        while not result.done() and now() < end:
            wait([result], _LOOK_SECONDS)
            if self._stopping.is_set() and not stopping:
                stopping, end = True, min(end, now() + _GRACE_SECONDS)
        if not result.done():
            raise CommitError(f"{what} has not returned within {seconds:.0f} s. Can what it writes to be reached?")
        return result.result()

    def call_async(self, work: Callable[[], T], done: Callable[[T], None]) -> None:
        """Run work on the worker thread, then ``done`` with its result under the lock."""

        def run() -> None:
            try:
                found = work()
                with self._lock:
                    done(found)
            except Exception as error:  # noqa: BLE001 - it fails the job
                self._fail(error)

        if self._thread is None:
            run()
        else:
            self._thread.submit(run)

    def pause(self, seconds: float) -> bool:
        """Wait; false at once when the attempt has ended."""
        if self._thread is None:
            return True
        return not came(self._stopping, seconds)

    def close(self) -> None:
        """End the thread; what runs in it is not waited for. Work that comes later gets another one."""
        if self._thread is not None:
            self._thread.close(0)
            self._thread = BackgroundWorker(self._name)


__all__ = ["CoordinatorWorker"]
