"""Work that may hang, as storage can: done in order in a thread of its own, so that the job and the program do not hang."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable

from funken.timing.waiting import came

logger = logging.getLogger(__name__)


class BackgroundWorker:
    """Runs what is submitted, one after the other, in a daemon thread that the first call starts.

    Python waits for the threads of a ``ThreadPoolExecutor`` when the program ends, for ever if one hangs; not for this one.

    >>> background, done = BackgroundWorker("tidying"), []
    >>> background.submit(lambda: done.append("tidied up"))
    >>> background.close(seconds=30), done
    (True, ['tidied up'])
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._work: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._closed = False
        self._ended = threading.Event()

    def submit(self, work: Callable[[], None]) -> None:
        """Have work done after what was given before; what comes after ``close`` is dropped, unless work itself gives it."""
        with self._lock:
            if self._closed and threading.current_thread() is not self._thread:
                return
            self._work.put(work)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                self._thread.start()

    def close(self, seconds: float) -> bool:
        """Wait until all is done that was given, at most so long; returns whether it is."""
        with self._lock:
            if not self._closed:
                self._closed = True
                self._work.put(None)
                if self._thread is None:
                    self._ended.set()
        return came(self._ended, seconds)

    def _run(self) -> None:
        try:
            while not (self._closed and self._work.empty()):
                work = self._work.get()
                if work is None:  # closed: what is left is done, and what follows from it
                    continue
                try:
                    work()
                except Exception:
                    logger.exception("%s: what was to be done in the background failed", self._name)
        finally:
            self._ended.set()


__all__ = ["BackgroundWorker"]
