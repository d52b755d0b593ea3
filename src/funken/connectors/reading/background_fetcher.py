"""The part that readers of network services share: a thread fetches blocks, so that a poll never waits.

What was fetched is bounded: a reader that does not read stops the fetching. (Kafka's reader has a thread of its own kind, since a
consumer must be called by one thread only.)
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

B = TypeVar("B")

_LOOK_S, _JOIN_S = 1.0, 15.0


class BackgroundFetcher(Generic[B]):
    """Calls ``fetch`` in a thread for as long as there is room, and keeps the blocks that it returns until ``take``.

    ``fetch`` may wait for its service, by ``pause`` or for a bounded time; it returns no block if none has come, and ``None``
    if there will never be more. What it raises is raised by ``take`` after the blocks before it. ``wake`` is called when
    there is something to take, and ``close`` in the thread at its end.

    >>> blocks = iter([["a", "b"], ["c"]])
    >>> woken = threading.Semaphore(0)
    >>> fetcher = BackgroundFetcher("letters", lambda: [found] if (found := next(blocks, None)) else None, woken.release)
    >>> fetcher.start()
    >>> found = [fetcher.take() for _ in range(2) if woken.acquire(timeout=10)]
    >>> fetcher.stop()
    >>> found
    [['a', 'b'], ['c']]
    """

    def __init__(
        self,
        name: str,
        fetch: Callable[[], Sequence[B] | None],
        wake: Callable[[], None],
        close: Callable[[], None] = lambda: None,
        queued: int = 4,
    ) -> None:
        self._fetch, self._wake, self._close, self._queued = fetch, wake, close, queued
        self._blocks: deque[B] = deque()
        self._changed = threading.Condition()
        self._stopped = threading.Event()
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._run, name=f"funken-fetch-{name}", daemon=True)

    def start(self) -> None:
        """Start to fetch, unless it has started."""
        if self._thread.ident is None:
            self._thread.start()

    def take(self) -> B | None:
        """Return the next block, ``None`` if there is none; raises what has ended the thread."""
        with self._changed:
            if self._blocks:
                block = self._blocks.popleft()
                self._changed.notify()
                return block
            if self._error is not None:
                raise self._error
            return None

    def pause(self, seconds: float) -> bool:
        """Wait, in ``fetch``; returns at once, and true, if the thread is to end."""
        return self._stopped.wait(seconds)

    def stop(self) -> None:
        """End the thread, within the time that a call of ``fetch`` takes."""
        self._stopped.set()
        with self._changed:
            self._changed.notify()
        if self._thread.ident is not None:
            self._thread.join(_JOIN_S)

    def _run(self) -> None:
        try:
            while self._has_room():
                blocks = self._fetch()
                if blocks is None:
                    return
                if blocks:
                    with self._changed:
                        self._blocks.extend(blocks)
                    self._wake()
        except Exception as error:  # noqa: BLE001 - raised in the reader
            self._error = error
            self._wake()
        finally:
            self._close()

    def _has_room(self) -> bool:
        with self._changed:
            while len(self._blocks) >= self._queued and not self._stopped.is_set():
                self._changed.wait(_LOOK_S)
            return not self._stopped.is_set()


__all__ = ["BackgroundFetcher"]
