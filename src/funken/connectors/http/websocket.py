"""Messages of a WebSocket as a source, for feeds that cannot be read again.

What was received after the last checkpoint is lost when the job fails, and what is sent while nobody is connected, too. One
subtask reads. Where every message counts, let something that keeps them (a broker) stand before it.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import field
from typing import Any, ClassVar

from funken.connectors.base import Boundedness, Source, SplitEnumerator, StaticSplits
from funken.connectors.context import ConnectorContext
from funken.connectors.http.service import checked, shown
from funken.connectors.reading.polled_reader import FeedReader, PeerClosed
from funken.dataclass import dataclass
from funken.errors import EnvironmentNotReady

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


class WebSocketReader(FeedReader):
    """Returns the messages that arrive."""

    def __init__(self, source: WebSocketSource, context: ConnectorContext) -> None:
        self.first_pause_s, self.longest_pause_s = _FIRST_PAUSE_S, _LONGEST_PAUSE_S
        super().__init__(context, source.max_retries)
        self._source = source
        self._connection: Any = None
        self._stack = ExitStack()

    def open(self) -> None:
        """Look for the client."""
        self.broken = (websockets("websockets.exceptions").WebSocketException, OSError, TimeoutError)

    def connect(self) -> None:
        """Connect, and subscribe."""
        source = self._source
        connect = websockets("websockets.sync.client").connect(
            source.url, additional_headers=dict(source.headers), open_timeout=_CONNECT_S, close_timeout=1.0,
            max_size=_MOST_BYTES,
        )  # fmt: skip
        self._connection = self._stack.enter_context(connect)
        with self._closing():
            for message in source.subscribe:
                self._connection.send(message)

    def receive(self) -> tuple[Sequence[Any], int]:
        """Wait for a message; take those that are there, too."""
        messages: list[Any] = []
        wait = _RECEIVE_S
        with self._closing():
            try:
                while len(messages) < _MESSAGES:
                    messages.append(self._connection.recv(timeout=wait))
                    wait = 0.0
            except TimeoutError:
                pass
            except websockets("websockets.exceptions").ConnectionClosed:
                if not messages:
                    raise  # else the next call finds it closed
        return messages, sum(map(_bytes_of, messages))

    @contextmanager
    def _closing(self) -> Iterator[None]:
        try:
            yield
        except websockets("websockets.exceptions").ConnectionClosedOK as error:
            raise PeerClosed(str(error)) from error

    def explain(self, error: Exception) -> Exception:
        """Say what cannot be read, and what to do."""
        if not isinstance(error, self.broken):
            return error
        return self.failure(
            f"{shown(self._source.url)} cannot be read: {str(error) or type(error).__name__}. Start the server, correct the "
            "address or the headers, or pass max_retries."
        )

    def disconnect(self) -> None:
        """Close the connection."""
        self._connection = None
        self._stack.close()


def _bytes_of(message: str | bytes) -> int:
    return len(message.encode() if isinstance(message, str) and not message.isascii() else message)


def websockets(module: str) -> Any:
    """Return a module of the client; raises ``EnvironmentNotReady`` if it is not installed."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise EnvironmentNotReady(
            f"a WebSocketSource needs websockets ({error}); install it with: pip install 'funken[http]'."
        ) from error


__all__ = ["WebSocketReader", "WebSocketSource"]
