"""TLS on a connected socket that one thread reads and others write at the same time.

``ssl.SSLSocket`` may not be used by two threads at once before Python 3.13, and would keep a writer waiting for a reader. So the
socket stays a plain one, and an ``SSLObject`` between two memory buffers does the cryptography, under a lock that is never held
while bytes travel. ``TlsConnection`` has the methods of a socket that ``channel.py`` and the peers of a batch job use.
"""

from __future__ import annotations

import io
import socket
import ssl
import threading
from typing import TYPE_CHECKING

from funken.timing.clock import SystemClock

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

_RECORDS = 256 * 1024
"""Plain bytes that are encrypted before they are sent: sixteen records of TLS."""
_RECEIVE = 64 * 1024


class TlsConnection:
    """A connection after its TLS handshake, which the constructor does: within ``seconds``.

    ``sendall`` may be called from one thread at a time, and beside one that reads. Raises ``ssl.SSLError`` if the peer's
    certificate is not the expected one, ``TimeoutError`` and ``ConnectionResetError`` if it does not answer or hangs up.
    """

    def __init__(self, connection: socket.socket, context: ssl.SSLContext, server: bool, seconds: float) -> None:
        self._socket = connection
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=server)
        self._lock = threading.Lock()
        self._handshake(seconds)
        connection.settimeout(None)

    def _handshake(self, seconds: float) -> None:
        now = SystemClock().monotonic
        limit = now() + seconds
        while True:
            self._socket.settimeout(max(limit - now(), 0.001))
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                self._flush()
                self._fill()
            except ssl.SSLError:
                self._flush()  # the peer is told why
                raise
            else:
                self._flush()
                return

    def _flush(self) -> None:
        if data := self._outgoing.read():
            self._socket.sendall(data)

    def _fill(self) -> None:
        data = self._socket.recv(_RECEIVE)
        if not data:
            raise ConnectionResetError("the peer hung up during the TLS handshake")
        self._incoming.write(data)

    def sendall(self, data: bytes) -> None:
        """Send all of it."""
        view = memoryview(data)
        for at in range(0, len(view), _RECORDS):
            with self._lock:
                self._tls.write(view[at : at + _RECORDS])
                encrypted = self._outgoing.read()
            self._socket.sendall(encrypted)

    def recv_into(self, buffer: WriteableBuffer) -> int:
        """Read what there is, at least a byte; 0 at the end, also if the peer's process is gone."""
        while True:
            with self._lock:
                try:
                    return int(self._tls.read(len(memoryview(buffer)), buffer))
                except ssl.SSLWantReadError:
                    pass
                except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
                    return 0
            data = self._socket.recv(_RECEIVE)
            with self._lock:
                if data:
                    self._incoming.write(data)
                else:
                    self._incoming.write_eof()

    def makefile(self, mode: str, buffering: int) -> io.BufferedReader:
        """Return a buffered reader; ``mode`` is ``rb``."""
        assert mode == "rb"
        return io.BufferedReader(_Reader(self), buffering)

    # ---- the socket below

    def fileno(self) -> int:
        """Return its descriptor."""
        return self._socket.fileno()

    def getsockname(self) -> tuple[str, int]:
        """Return the address of this end."""
        name: tuple[str, int] = self._socket.getsockname()
        return name

    def setsockopt(self, level: int, name: int, value: int | bytes) -> None:
        """Set an option of the socket."""
        self._socket.setsockopt(level, name, value)

    def shutdown(self, how: int) -> None:
        """End the connection, or a direction of it; messages say their lengths, so nothing can be cut off unnoticed."""
        self._socket.shutdown(how)

    def close(self) -> None:
        """Release the descriptor."""
        self._socket.close()


class _Reader(io.RawIOBase):
    def __init__(self, connection: TlsConnection) -> None:
        self._connection = connection

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        return self._connection.recv_into(buffer)
