"""Connections between the workers of a stage: one authenticated TCP connection per ordered pair, frames of bytes on it.

A worker listens on the address at which it reaches the driver, and proves the job's key as on a control connection
(``spark/control/handshake.py``). Each inbound connection has a thread that hands every frame to ``receive``, which must not wait
for anything but memory and disk: then no sender waits for a consumer, and the connections cannot deadlock. A frame that is
damaged, and a peer that hangs up before ``close``, are given to ``failed``.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import zlib
from collections.abc import Callable, Sequence
from typing import NamedTuple

from funken.errors import MessageTooLarge, TaskLost, TransferCorrupted
from funken.spark.control.acceptor import Acceptor
from funken.spark.control.channel import LARGEST, Address
from funken.spark.control.client import connect
from funken.spark.control.credentials import Connection, Credentials

_HELLO = struct.Struct("!I")
_HEADER = struct.Struct("!BQIIII")
_BUFFER = 256 * 1024


class Frame(NamedTuple):
    """A message between workers: ``kind``, ``edge``, ``superstep`` and ``records`` mean what the program says."""

    kind: int
    edge: int
    superstep: int
    records: int
    data: bytes


Receive = Callable[[int, Frame], None]


class Peers:
    """One worker's connections. ``send`` may be called from several threads."""

    def __init__(
        self, index: int, host: str, credentials: Credentials, receive: Receive, failed: Callable[[Exception], None],
        name: Callable[[int], str] = "worker {}".format,
    ) -> None:  # fmt: skip
        self._index = index
        self._credentials = credentials
        self._receive = receive
        self._failed = failed
        self._name = name
        self._closing = False
        self._lock = threading.Lock()
        self._inbound: list[Connection] = []
        self._outbound: dict[int, tuple[Connection, threading.Lock]] = {}
        self._acceptor = Acceptor((host, 0), credentials, self._admit)
        self.address: Address = (host, self._acceptor.address[1])

    def connect(self, addresses: Sequence[Address]) -> None:
        """Connect to every other worker; raise ``TaskLost`` if one cannot be reached."""
        for peer, address in enumerate(addresses):
            if peer != self._index:
                self.connect_to(peer, address)

    def connect_to(self, peer: int, address: Address) -> None:
        """Connect to one other worker; raise ``TaskLost`` if it cannot be reached."""
        connection = connect(address, self._credentials, self._name(peer))
        with self._lock:
            self._outbound[peer] = connection, threading.Lock()
        connection.sendall(_HELLO.pack(self._index))

    def send(self, peer: int, frame: Frame) -> None:
        """Send a frame; raise ``TaskLost`` if the peer is gone."""
        if len(frame.data) > LARGEST:
            raise MessageTooLarge(
                f"a block of {len(frame.data):,} bytes cannot be sent to another worker, which takes up to {LARGEST:,}. "
                "Make smaller records."
            )
        connection, lock = self._outbound[peer]
        header = _HEADER.pack(*frame[:4], len(frame.data), zlib.crc32(frame.data))
        try:
            with lock:
                connection.sendall(header)
                if frame.data:
                    connection.sendall(frame.data)
        except OSError as error:
            raise self._lost(peer, str(error)) from error

    # ---- the threads

    def _admit(self, connection: Connection) -> None:
        with self._lock:
            if self._closing:  # meanwhile, in the TLS handshake
                connection.close()
                return
            self._inbound.append(connection)
        threading.Thread(target=self._serve, args=(connection,), name="funken-peer", daemon=True).start()

    def _serve(self, connection: Connection) -> None:
        peer = -1
        try:
            with connection.makefile("rb", _BUFFER) as stream:
                (peer,) = _HELLO.unpack(_exactly(stream.read, _HELLO.size))
                while True:
                    kind, edge, superstep, records, size, checksum = _HEADER.unpack(_exactly(stream.read, _HEADER.size))
                    data = _exactly(stream.read, min(size, LARGEST)) if size else b""
                    if zlib.crc32(data) != checksum:
                        raise TransferCorrupted(
                            f"a block of {size:,} bytes from {self._name(peer)} is not what was sent: its checksum does not fit. "
                            "Check the network and the memory of the machines."
                        )
                    self._receive(peer, Frame(kind, edge, superstep, records, data))
        except (OSError, ValueError, EOFError) as error:
            if not self._closing:
                self._failed(self._lost(peer, str(error)))
        except Exception as error:  # noqa: BLE001 - a full disk, for example: it fails the worker, not this thread alone
            self._failed(error)

    def _lost(self, peer: int, why: str) -> TaskLost:
        return TaskLost(
            f"the connection to {self._name(peer)} has ended ({why}): it has failed, was killed, or cannot be reached.",
            subtask=peer,
        )

    def close(self) -> None:
        """Hang up on everybody, and stop listening."""
        self._closing = True
        self._acceptor.close()
        with self._lock:
            everything = [*self._inbound, *(connection for connection, _ in self._outbound.values())]
        for connection in everything:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            connection.close()


def _exactly(read: Callable[[int], bytes], size: int) -> bytes:
    data = read(size)
    if len(data) < size:
        raise EOFError("the connection has ended")
    return data
