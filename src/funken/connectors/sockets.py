"""Text from a TCP socket, for trying things out: ``nc -lk 9999`` on the other side.

A socket cannot be rewound: what was received after the last checkpoint is lost when the job fails, and what is sent
while nobody is connected, too. One subtask reads; the source ends when the peer closes the connection.
"""

from __future__ import annotations

import socket
from concurrent.futures import Future, ThreadPoolExecutor
from typing import ClassVar

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
from funken.connectors.reading.queued_reader import QueuedReader
from funken.dataclass import dataclass
from funken.errors import InvalidProgram, SourceNotReadable

CONNECT_TIMEOUT_S = 5.0
RETRY_DELAY_MS = 500
RECEIVE_BYTES = 1 << 18


@dataclass(frozen=True, slots=True)
class SocketSplit:
    """The whole stream; it has no position."""

    id: ClassVar[str] = "socket"


@dataclass(frozen=True)
class SocketSource(Source):
    r"""The text that a server sends, cut at a delimiter; UTF-8, and what is not becomes U+FFFD.

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

    Connecting takes a thread, so that a poll never waits for it:

    >>> with socket.create_server(("localhost", 0)) as server:
    ...     source = SocketSource("localhost", server.getsockname()[1])
    ...     reader = source.reader(ConnectorContext("lines", subtask=0, parallelism=1))
    ...     reader.add_splits(source.enumerator(parallelism=1).next_splits(subtask=0))
    ...     reader.poll(100, now=0)
    ...     reader.close()
    Wait(millis=1)
    """

    host: str
    port: int
    delimiter: str = "\n"
    max_retries: int = 0
    boundedness = Boundedness.CONTINUOUS_UNBOUNDED
    max_parallelism = 1

    def __post_init__(self) -> None:
        """Refuse what can never connect."""
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


class SocketReader(QueuedReader):
    """Connects at the first poll, on a thread, since name lookup and connecting block; then reads without waiting."""

    def __init__(self, source: SocketSource, context: ConnectorContext) -> None:
        super().__init__()
        self._source = source
        self._context = context
        self._delimiter = source.delimiter.encode()
        self._dialling: Future[socket.socket] | None = None
        self._socket: socket.socket | None = None
        self._retries = source.max_retries
        self._retry_at = 0
        self._peer_closed = False  # in good order, and nothing was connected since
        self._done = False
        self._received = bytearray()  # no delimiter in it yet
        self._lines: list[str] = []
        self._bytes = context.metrics.counter("numBytesIn")

    def poll(self, limit: int, now: int) -> Batch | Wait | NeedSplits:
        """Return what has arrived."""
        if self._done and not self._lines:
            self._done = False
            self.end_split()
        if not self.queue:
            return NEED_SPLITS
        if not self._lines:
            try:
                self._advance(now)
            except OSError as error:
                self._try_again(now, error)
        if self._lines:
            lines, self._lines = self._lines[:limit], self._lines[limit:]
            return Batch(lines, split=SocketSplit.id)
        return Wait(1)

    def _advance(self, now: int) -> None:
        """Take the next step: connect, or see whether connecting is done, or receive."""
        if self._socket is not None:
            self._receive(self._socket, now)
        elif self._dialling is not None:
            if self._dialling.done():
                done, self._dialling = self._dialling, None
                self._socket = done.result()
                self._socket.setblocking(False)
                self._peer_closed = False
        elif now >= self._retry_at:
            thread = ThreadPoolExecutor(1, thread_name_prefix="funken-connect")
            address = (self._source.host, self._source.port)
            self._dialling = thread.submit(socket.create_connection, address, CONNECT_TIMEOUT_S)
            thread.shutdown(wait=False)

    def _receive(self, connected: socket.socket, now: int) -> None:
        try:
            more = connected.recv(RECEIVE_BYTES)
        except BlockingIOError:
            return
        if not more:
            if self._received:  # the last record needs no delimiter
                self._lines = self._split(bytes(self._received))
            self._peer_closed = True
            self._try_again(now, None)
            return
        self._bytes.inc(len(more))
        self._retries = self._source.max_retries
        searched = max(0, len(self._received) - len(self._delimiter) + 1)
        self._received += more
        if self._received.find(self._delimiter, searched) >= 0:
            rest = self._received.split(self._delimiter)[-1]
            complete = len(self._received) - len(rest) - len(self._delimiter)
            self._lines = self._split(bytes(self._received[:complete]))
            self._received = rest

    def _split(self, data: bytes) -> list[str]:
        text = data.decode("utf-8", "replace")
        if self._source.delimiter == "\n":
            text = (text + "\n").replace("\r\n", "\n")[:-1]
        return text.split(self._source.delimiter)

    def _try_again(self, now: int, error: OSError | None) -> None:
        """Connect anew after a while, if the peer closed the connection or it broke or was never made (``error``)."""
        self.close()
        self._received.clear()
        if self._retries != 0:
            self._retries -= 1
            self._retry_at = now + RETRY_DELAY_MS
        elif self._peer_closed:
            self._done = True
        else:
            operator, where = self._context.operator, f"{self._source.host}:{self._source.port}"
            raise SourceNotReadable(
                f"{operator}: cannot read from {where} ({error}); start the server first, "
                f"e.g. nc -lk {self._source.port}, or pass max_retries.",
                operator,
                self._context.subtask,
            ) from error

    def close(self) -> None:
        """Close the connection, also one that is being made."""
        if self._socket is not None:
            self._socket.close()
        if self._dialling is not None:
            self._dialling.add_done_callback(_close_connected)
        self._socket = self._dialling = None


def _close_connected(done: Future[socket.socket]) -> None:
    if done.exception() is None:
        done.result().close()
