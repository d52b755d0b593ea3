"""Text from a TCP socket, for trying things out: ``nc -lk 9999`` on the other side.

A socket cannot be rewound: what was received after the last checkpoint is lost when the job fails, and what is sent
while nobody is connected, too. One subtask reads; the source ends when the peer closes the connection.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence
from typing import ClassVar

from funken.connectors.base import Boundedness, ConnectorContext, Source, SplitEnumerator, StaticSplits
from funken.connectors.reading import FeedReader, PeerClosed
from funken.dataclass import dataclass
from funken.errors import InvalidProgram, SourceNotReadable

CONNECT_TIMEOUT_S = 5.0
RETRY_DELAY_MS = 500
RECEIVE_BYTES = 1 << 18
_RECEIVE_S = 0.2


@dataclass(frozen=True, slots=True)
class SocketSplit:
    """The whole stream; it has no position."""

    id: ClassVar[str] = "socket"


@dataclass(frozen=True)
class SocketSource(Source[str]):
    r"""The text of a server, cut at a delimiter; UTF-8, with U+FFFD for other bytes.

    Connecting is tried again ``max_retries`` times (-1: without end), every 500 ms, also after the peer closed;
    whatever arrives sets the count back. After that the job fails with ``SourceNotReadable``, or the source ends if it was
    the peer that closed. With the default ``"\n"`` a ``\r`` before it is removed.

    >>> from funken import StreamExecutionEnvironment
    >>> env = StreamExecutionEnvironment.create_local_environment(parallelism=1)
    >>> with socket.create_server(("localhost", 0)) as server:
    ...     server.settimeout(10)
    ...     lines = env.from_source(SocketSource("localhost", server.getsockname()[1]))
    ...     with lines.execute_and_collect() as results:
    ...         connection, _ = server.accept()
    ...         with connection:
    ...             connection.sendall(b"to be\r\nor not")
    ...         list(results)
    ['to be', 'or not']

    A thread connects and receives, so that a poll never waits:

    >>> with socket.create_server(("localhost", 0)) as server:
    ...     source = SocketSource("localhost", server.getsockname()[1])
    ...     reader = source.reader(ConnectorContext("lines", subtask=0, parallelism=1))
    ...     reader.add_splits(source.enumerator(parallelism=1).next_splits(subtask=0))
    ...     reader.poll(100, now=0)
    ...     reader.close()
    Wait(millis=None)
    """

    host: str
    port: int
    delimiter: str = "\n"
    max_retries: int = 0
    boundedness = Boundedness.CONTINUOUS_UNBOUNDED
    max_parallelism = 1

    def __post_init__(self) -> None:
        """Refuse addresses that can never connect."""
        if not 0 < self.port < 1 << 16:
            raise InvalidProgram(f"{self.port} is no port; pass 1 to 65535.")
        if not self.delimiter:
            raise InvalidProgram("an empty delimiter separates nothing; pass at least one character.")

    def enumerator(self, parallelism: int) -> SplitEnumerator:
        """Make the enumerator of the one split."""
        return StaticSplits((SocketSplit(),), parallelism)

    def reader(self, context: ConnectorContext) -> SocketReader:
        """Make a reader."""
        return SocketReader(self, context)


class SocketReader(FeedReader):
    """Cuts arriving text at the delimiter."""

    first_pause_s = longest_pause_s = RETRY_DELAY_MS / 1000
    close_s = 0.5

    def __init__(self, source: SocketSource, context: ConnectorContext) -> None:
        super().__init__(context, source.max_retries)
        self._source = source
        self._delimiter = source.delimiter.encode()
        self._socket: socket.socket | None = None
        self._received = bytearray()  # no delimiter in it yet

    def connect(self) -> None:
        """Connect to the server."""
        self._received.clear()
        self._socket = socket.create_connection((self._source.host, self._source.port), CONNECT_TIMEOUT_S)
        self._socket.settimeout(_RECEIVE_S)

    def receive(self) -> tuple[Sequence[str], int]:
        """Wait for bytes; return the records that are complete with them."""
        assert self._socket is not None
        try:
            more = self._socket.recv(RECEIVE_BYTES)
        except TimeoutError:
            return (), 0
        if not more:
            raise PeerClosed
        searched = max(0, len(self._received) - len(self._delimiter) + 1)
        self._received += more
        if self._received.find(self._delimiter, searched) < 0:
            return (), len(more)
        rest = self._received.split(self._delimiter)[-1]
        complete = len(self._received) - len(rest) - len(self._delimiter)
        records = self._split(bytes(self._received[:complete]))
        self._received = rest
        return records, len(more)

    def rest(self) -> Sequence[str]:
        """Return the last record, which needs no delimiter."""
        return self._split(bytes(self._received)) if self._received else ()

    def _split(self, data: bytes) -> list[str]:
        text = data.decode("utf-8", "replace")
        if self._source.delimiter == "\n":
            text = (text + "\n").replace("\r\n", "\n")[:-1]
        return text.split(self._source.delimiter)

    def explain(self, error: Exception) -> Exception:
        """Return the error with the unreadable address, and the remedy."""
        if not isinstance(error, OSError):
            return error
        operator, port = self.context.operator, self._source.port
        return SourceNotReadable(
            f"{operator}: cannot read from {self._source.host}:{port} ({error}); start the server first, e.g. nc -lk {port}, "
            "or pass max_retries.",
            operator,
            self.context.subtask,
        )

    def disconnect(self) -> None:
        """Close the connection."""
        connected, self._socket = self._socket, None
        if connected is not None:
            connected.close()
