"""Queries of a reader in a thread of their own, so that a poll never waits for a database."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, TypeVar

T = TypeVar("T")


class Background(Generic[T]):
    """One call at a time in one thread; ``wake`` is called when its result is there.

    >>> from threading import Event
    >>> there = Event()
    >>> calls = Background(there.set)
    >>> calls.begin(lambda: 7)
    >>> there.wait(10), calls.take(), calls.busy
    (True, 7, False)
    >>> calls.close(lambda: None)
    """

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._pool = ThreadPoolExecutor(1, "funken-sql")
        self._closed = False
        self._future: Future[T] | None = None

    @property
    def busy(self) -> bool:
        """Whether a call was begun and its result not taken."""
        return self._future is not None

    def begin(self, work: Callable[[], T]) -> None:
        """Begin a call."""
        self._future = self._pool.submit(work)
        self._future.add_done_callback(lambda _: self._wake())

    def take(self) -> T | None:
        """Return the result, or raise what the call raised; ``None`` while it runs."""
        if self._future is None or not self._future.done():
            return None
        future, self._future = self._future, None
        return future.result()

    def close(self, last: Callable[[], None]) -> None:
        """Run ``last`` in the thread when it is free, and let it end; returns at once."""
        self._future = None
        if not self._closed:
            self._closed = True
            self._pool.submit(last)
        self._pool.shutdown(wait=False)


__all__ = ["Background"]
