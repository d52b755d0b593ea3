"""Messages over an authenticated socket: pickles behind their length and a checksum (``runtime/sealed.py``).

A length is checked before it is believed, and what it announces is read piece by piece, so that a false one costs no memory.
``send`` may be called from several threads, ``receive`` from one. Sending is bounded: a peer that takes nothing for
``SEND_SECONDS`` raises ``BlockingIOError``, after which the connection is of no use, as part of a message may be on its way.
"""

from __future__ import annotations

import contextlib
import select
import socket
import struct
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from funken.errors import MessageTooLarge
from funken.runtime import sealed

if TYPE_CHECKING:
    from funken.spark.control.credentials import Connection

Address = tuple[str, int]

LARGEST = 1 << 30
"""The most bytes that a message may have."""

_PIECE = 256 * 1024
_JOINED = 16 * 1024
_BUFFER = 16 * 1024
_LENGTH = struct.Struct("!I")


class HungUp(Exception):
    """The peer has ended the connection, or its process or machine is gone."""


class Channel:
    """One end of a control connection. ``progress`` is called whenever bytes have arrived."""

    def __init__(self, connection: Connection, progress: Callable[[], None] = lambda: None) -> None:
        self._socket = connection
        self._input = connection.makefile("rb", _BUFFER)
        self._sending = threading.Lock()
        self._writable = select.poll()
        self._writable.register(connection, select.POLLOUT)
        self.progress = progress

    @property
    def host(self) -> str:
        """The address of this end."""
        return str(self._socket.getsockname()[0])

    def bound_sending(self, seconds: float) -> None:
        """Let a send that the peer takes nothing of fail after a while; receiving is not bounded."""
        bound = struct.pack("ll", int(seconds), int(seconds % 1 * 1e6))
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, bound)

    def send(self, message: Any) -> None:
        """Send a message; raises ``MessageTooLarge``, and ``OSError`` if the peer is gone or takes nothing."""
        data = _packed(message)
        with self._sending:
            self._write(data)

    def send_if_possible(self, message: Any) -> bool:
        """Send a small message unless that has to wait; return whether it was sent."""
        if not self._sending.acquire(blocking=False):
            return False
        try:
            if not self._writable.poll(0):
                return False
            self._write(_packed(message))
            return True
        finally:
            self._sending.release()

    def _write(self, data: bytes) -> None:
        if len(data) <= _JOINED:
            self._socket.sendall(_LENGTH.pack(len(data)) + data)
        else:  # a copy of a large message costs more than a call
            self._socket.sendall(_LENGTH.pack(len(data)))
            self._socket.sendall(data)

    def receive(self) -> Any:
        """Wait for a message; raises ``HungUp`` at the end, ``MessageTooLarge``, and whatever unpickling raises."""
        try:
            data = self._read()
        except (OSError, ValueError) as error:  # ValueError: closed by another thread
            raise HungUp from error
        return sealed.loads(data)

    def _read(self) -> bytes | bytearray:
        header = self._input.read(_LENGTH.size)
        if len(header) < _LENGTH.size:
            raise HungUp
        (size,) = _LENGTH.unpack(header)
        if size > LARGEST:
            raise MessageTooLarge(
                f"a message of {size} bytes was announced on a control connection, which carries up to {LARGEST}: what was sent "
                "is no message. Do the driver and the workers have the same version of Funken?"
            )
        piece = self._piece(size)
        if size <= _PIECE:
            return piece
        data = bytearray(piece)
        while len(data) < size:
            data += self._piece(size - len(data))
        return data

    def _piece(self, size: int) -> bytes:
        size = min(size, _PIECE)
        data: bytes = self._input.read(size)
        self.progress()
        if len(data) < size:
            raise HungUp
        return data

    def hang_up(self, how: int = socket.SHUT_RDWR) -> None:
        """End the connection, or one direction of it, so that threads which wait for it notice."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(how)

    def close(self) -> None:
        """Close the connection and release the descriptor, once no thread sends any more."""
        self.hang_up()
        with self._sending:
            self._input.close()
            self._socket.close()


def _packed(message: Any) -> bytes:
    data = sealed.dumps(message)
    if len(data) > LARGEST:
        raise MessageTooLarge(
            f"{type(message).__name__} has {len(data)} bytes, and the control connection carries up to {LARGEST} at once. Emit "
            "fewer or smaller records to sinks that bring them to the driver, and keep large data out of splits and "
            "committables."
        )
    return data
