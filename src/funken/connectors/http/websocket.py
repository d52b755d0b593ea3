"""Messages of a WebSocket as a source, for feeds that cannot be read again.

What was received after the last checkpoint is lost when the job fails, and what is sent while nobody is connected, too. One
subtask reads. Where every message counts, let something that keeps them (a broker) stand before it.
"""

from __future__ import annotations

import importlib
from collections import deque
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import field
from typing import Any, ClassVar

from funken.connectors.base import (
    NEED_SPLITS,
    Batch,
    Boundedness,
    NeedSplits,
    Source,
    SplitEnumerator,
    StaticSplits,
    Wait,
)
from funken.connectors.context import ConnectorContext
from funken.connectors.http.service import checked, shown
from funken.connectors.reading.background_fetcher import BackgroundFetcher
from funken.connectors.reading.queued_reader import QueuedReader
from funken.dataclass import dataclass
from funken.errors import EnvironmentNotReady, SourceNotReadable

_CONNECT_S, _RECEIVE_S = 10.0, 0.2
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.5, 10.0
_MESSAGES = 1000
_MOST_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class WebSocketSplit:
    """The whole feed; it has no position."""

    id: ClassVar[str] = "websocket"


@dataclass(frozen=True)
class WebSocketSource(Source):
    """Messages that a server sends, ``str`` or ``bytes``; ``subscribe`` are messages that it is sent after each connect.

    Connecting is tried again ``max_retries`` times (-1: without end) with a pause that doubles from 0.5 to 10 s, also after the
    server has closed; a message sets the count back. Then the job fails with ``SourceNotReadable``, or the source ends if the
    server had closed in good order. ``headers`` are not shown.

    >>> WebSocketSource("wss://feed.example/trades?token=secret", subscribe=['{"op": "subscribe"}'])
    WebSocketSource('wss://feed.example/trades')
    """

    url: str = field(repr=False)
    subscribe: tuple[str | bytes, ...] = ()
    max_retries: int = 5
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    boundedness = Boundedness.CONTINUOUS_UNBOUNDED
    max_parallelism = 1

    def __post_init__(self) -> None:
        """Check the address."""
        checked(self.url, ("ws", "wss"))
        object.__setattr__(self, "subscribe", tuple(self.subscribe))

    def __repr__(self) -> str:
        return f"WebSocketSource({shown(self.url)!r})"

    def enumerator(self, parallelism: int) -> SplitEnumerator:
        """Make the enumerator of the one split."""
        return StaticSplits((WebSocketSplit(),), parallelism)

    def reader(self, context: ConnectorContext) -> WebSocketReader:
        """Make a reader."""
        return WebSocketReader(self, context)


class WebSocketReader(QueuedReader):
    """Gives what a thread receives."""

    def __init__(self, source: WebSocketSource, context: ConnectorContext) -> None:
        super().__init__()
        self._context = context
        self._feed = _Feed(source)
        self._fetcher = BackgroundFetcher[list[Any]]("websocket", self._fetch, context.wake, self._feed.close)
        self._messages: deque[Any] = deque()
        self._bytes = context.metrics.counter("numBytesIn")

    def open(self) -> None:
        """Connect, in a thread."""
        websockets("websockets")
        self._fetcher.start()

    def _fetch(self) -> list[list[Any]]:
        return self._feed.fetch(self._fetcher.pause)

    def poll(self, limit: int, now: int) -> Batch | Wait | NeedSplits:
        """Return what has arrived."""
        while not self._messages:
            if not self.queue:
                return NEED_SPLITS
            try:
                block = self._fetcher.take()
            except _FeedBroken as broken:
                operator = self._context.operator
                raise SourceNotReadable(f"operator {operator!r}: {broken}", operator, self._context.subtask) from broken
            if block is None:
                return Wait(None)
            if not block:
                self.end_split()
            self._messages.extend(block)
            self._bytes.inc(sum(map(_bytes_of, block)))
        taken = [self._messages.popleft() for _ in range(min(limit, len(self._messages)))]
        return Batch(taken, split=WebSocketSplit.id)

    def close(self) -> None:
        """End the thread, and with it the connection."""
        self._fetcher.stop()


def _bytes_of(message: str | bytes) -> int:
    return len(message.encode() if isinstance(message, str) and not message.isascii() else message)


class _FeedBroken(Exception):
    """There is no connection, and no more retries."""


class _Feed:
    """The connection; only the thread uses it."""

    def __init__(self, source: WebSocketSource) -> None:
        self._source = source
        self._connection: Any = None
        self._stack = ExitStack()
        self._failures, self._pause = 0, _FIRST_PAUSE_S
        self._ended = False

    def fetch(self, pause: Any) -> list[list[Any]]:
        """Return a block of messages if there are some, an empty one at the end of the feed."""
        exceptions = websockets("websockets.exceptions")
        if self._ended:
            pause(_LONGEST_PAUSE_S)
            return []
        try:
            if self._connection is None:
                self._connect()
            return self._received()
        except exceptions.ConnectionClosedOK as error:
            closed, why = True, error
        except (exceptions.WebSocketException, OSError, TimeoutError) as error:
            closed, why = False, error
        self.close()
        self._failures += 1
        if 0 <= self._source.max_retries < self._failures:
            if not closed:
                raise _FeedBroken(
                    f"{shown(self._source.url)} cannot be read: {str(why) or type(why).__name__}. Start the server, correct the "
                    "address or the headers, or pass max_retries."
                ) from why
            self._ended = True
            return [[]]
        pause(self._pause)
        self._pause = min(2 * self._pause, _LONGEST_PAUSE_S)
        return []

    def _connect(self) -> None:
        connect = websockets("websockets.sync.client").connect(
            self._source.url, additional_headers=dict(self._source.headers), open_timeout=_CONNECT_S, close_timeout=1.0,
            max_size=_MOST_BYTES,
        )  # fmt: skip
        self._connection = self._stack.enter_context(connect)
        for message in self._source.subscribe:
            self._connection.send(message)

    def _received(self) -> list[list[Any]]:
        messages: list[Any] = []
        wait = _RECEIVE_S
        try:
            while len(messages) < _MESSAGES:
                messages.append(self._connection.recv(timeout=wait))
                wait = 0.0
        except TimeoutError:
            pass
        except websockets("websockets.exceptions").ConnectionClosed:
            if not messages:
                raise  # else the next call finds it closed
        if messages:
            self._failures, self._pause = 0, _FIRST_PAUSE_S
        return [messages] if messages else []

    def close(self) -> None:
        """Close the connection."""
        self._connection = None
        self._stack.close()


def websockets(module: str) -> Any:
    """Return a module of the client; raises ``EnvironmentNotReady`` if it is not installed."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise EnvironmentNotReady(
            f"a WebSocketSource needs websockets ({error}); install it with: pip install 'funken[http]'."
        ) from error


__all__ = ["WebSocketReader", "WebSocketSource"]
