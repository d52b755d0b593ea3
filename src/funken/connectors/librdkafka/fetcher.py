"""The thread that takes blocks of messages out of the client, so that a reader never waits and is woken when there are some.

Only this thread calls the consumer: while it polls, no call of another thread returns (confluent-kafka 2.16). What it
has taken is bounded, and the client's own queue by its properties: a reader that does not read stops the fetching.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from funken.connectors.librdkafka.runs import Fetched, MessageBlock

FETCHED = 2_500
"""The most records in a block."""
_QUEUED = 7_500
"""Nothing more is taken while so many are queued: of 20,000 the first are out of the processor's cache when they are read."""
_POLL_S, _JOIN_S = 0.05, 10.0


class Messages(Protocol):
    """The messages of a consumer."""

    def assign(self, partitions: list[Any]) -> None:
        """Read these partitions too."""

    def take(self, most: int, seconds: float) -> Fetched | None:
        """Return those that are there, else wait for the first."""

    def close(self) -> None:
        """Leave the queue, before the consumer is closed."""


class ConsumerMessages:
    """Messages as objects of the client."""

    def __init__(self, consumer: Any, kafka: Any) -> None:
        self._consumer, self._kafka = consumer, kafka

    def assign(self, partitions: list[Any]) -> None:
        """Read these partitions too."""
        self._consumer.incremental_assign(partitions)

    def take(self, most: int, seconds: float) -> Fetched | None:
        """Return those that are there, else wait for the first."""
        # Where there is enough, one call: after each, the thread may have to wait for Python's lock (5 ms).
        block = self._consumer.consume(most, 0)
        if not block:
            first = self._consumer.poll(seconds)
            if first is None:
                return None
            block = [first, *self._consumer.consume(most - 1, 0)]
        return MessageBlock(block, self._kafka)

    def close(self) -> None:
        """Nothing is held."""


class Fetcher:
    """Fetches blocks of messages in a thread, from ``start`` until ``stop``."""

    def __init__(self, messages: Messages, wake: Callable[[], None]) -> None:
        self._messages = messages
        self._wake = wake
        self._blocks: deque[Fetched] = deque()
        self._calls: deque[Callable[[], None]] = deque()
        self._queued = 0
        self._room = threading.Condition()
        self._stopped = False
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="funken-kafka-fetcher", daemon=True)

    def start(self) -> None:
        """Start to fetch."""
        self._thread.start()

    def call(self, work: Callable[[], None]) -> None:
        """Run something in the thread, the only one to call the consumer, soon and in order; ``take`` raises what it raises."""
        with self._room:
            self._calls.append(work)
            self._room.notify()

    def take(self) -> Fetched | None:
        """Return the next block, ``None`` if there is none; raises what has ended the thread."""
        with self._room:
            if not self._blocks:
                if self._error is not None:
                    raise self._error
                return None
            block = self._blocks.popleft()
            self._queued -= len(block)
            self._room.notify()
            return block

    def stop(self) -> bool:
        """End the thread; returns whether it has ended."""
        with self._room:
            self._stopped = True
            self._room.notify()
        if self._thread.ident is not None:
            self._thread.join(_JOIN_S)
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            while self._wait_for_room():
                while self._calls:
                    self._calls.popleft()()
                if self._queued >= _QUEUED:
                    continue
                block = self._messages.take(FETCHED, _POLL_S)
                if block is None:
                    continue
                with self._room:
                    self._blocks.append(block)
                    self._queued += len(block)
                self._wake()
        except Exception as error:  # noqa: BLE001 - raised in the reader
            self._error = error
            self._wake()

    def _wait_for_room(self) -> bool:
        with self._room:
            while self._queued >= _QUEUED and not self._calls and not self._stopped:
                self._room.wait(_POLL_S)
            return not self._stopped


__all__ = ["ConsumerMessages", "Fetcher", "Messages"]
