"""Messages over an authenticated socket: pickles behind their length and a checksum (``runtime/messages.py``).

A length is checked before it is believed, and what it announces is read piece by piece, so that a false one costs no memory.
``send`` may be called from several threads, ``receive`` from one. Sending is bounded: a peer that takes nothing for
``SEND_SECONDS`` raises ``BlockingIOError``, after which the connection is of no use, as part of a message may be on its way.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import random
import secrets
import select
import socket
import struct
import threading
import time
from collections.abc import Callable
from multiprocessing import AuthenticationError
from typing import Any

from funken.errors import EncryptionNotAvailable, MessageTooLarge, TaskLost
from funken.runtime import messages as sealed
from funken.runtime.messages import DriverHeartbeat, TaskCommand, TaskEvent, TaskId, WorkerHeartbeat
from funken.runtime.settings import HeartbeatMonitor, HeartbeatSettings
from funken.spark.control.tls import Connection, Credentials
from funken.timing.clock import SystemClock

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
        """Wait for a message; raises ``HungUp`` at the end, ``MessageTooLarge``, and exceptions of unpickling."""
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
                f"a message of {size} bytes was announced on a control connection, which carries up to "
                f"{LARGEST}: this is no message of Funken. Do the driver and the workers have the same "
                "version of Funken?"
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


# ---- Mutual authentication of a control connection: HMAC-SHA256 over random nonces, in messages of fixed size.
#
# ::
#
#     driver -> worker   protocol name (16 bytes), nonce of the driver (32)
#     worker -> driver   nonce of the worker (32), HMAC(key, "worker", both nonces) (32)
#     driver -> worker   HMAC(key, "driver", both nonces) (32), or DENIED
#
# Each side proves that it has the job's key without sending it; the two roles are part of what is signed, so that
# no answer can be reflected. A peer that has not proved itself can make the driver read 64 bytes, and compute one
# HMAC: nothing is unpickled, and no length is believed. ``ServerHandshake`` does no I/O: it takes bytes and returns
# bytes.


PROTOCOL = b"funken-control 1"
HANDSHAKE_SECONDS = 5.0
"""The time limit (s) of a handshake in all, on either side."""
_NONCE = 32
_PROOF = 32
GREETING = len(PROTOCOL) + _NONCE
ANSWER = _NONCE + _PROOF
DENIED = b"denied".ljust(_PROOF, b".")


class ServerHandshake:
    """The driver's side for one peer: send ``greeting``, then ``take`` bytes until it returns an answer.

    >>> server = ServerHandshake(b"key")
    >>> answer, client_proof = answer_to(server.greeting, b"key", nonce=b"n" * 32)
    >>> server.take(answer[:10]), server.missing
    (None, 54)
    >>> server.take(answer[10:]) == client_proof, server.accepted
    (True, True)
    """

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._nonce = secrets.token_bytes(_NONCE)
        self._received = b""
        self.accepted = False

    @property
    def greeting(self) -> bytes:
        """The first message to the peer."""
        return PROTOCOL + self._nonce

    @property
    def missing(self) -> int:
        """Number of bytes of the peer's answer that have not arrived; never read more from it."""
        return ANSWER - len(self._received)

    def take(self, data: bytes) -> bytes | None:
        """Take bytes of the peer's answer; return the reply to it when all of them are there."""
        self._received += data
        if self.missing > 0:
            return None
        nonce, proof = self._received[:_NONCE], self._received[_NONCE:]
        self.accepted = hmac.compare_digest(proof, _sign(self._key, b"worker", self._nonce, nonce))
        return _sign(self._key, b"driver", self._nonce, nonce) if self.accepted else DENIED


def answer_to(greeting: bytes, key: bytes, nonce: bytes | None = None) -> tuple[bytes, bytes]:
    """Return a worker's answer to the driver's greeting, and the proof that it expects from the driver then.

    Raises ``AuthenticationError`` if the greeting is not of this protocol.
    """
    if not greeting.startswith(PROTOCOL):
        raise AuthenticationError(
            f"the peer speaks another protocol than {PROTOCOL.decode()!r}. Do the driver and the workers have the same version "
            "of Funken?"
        )
    nonce = nonce or secrets.token_bytes(_NONCE)
    theirs = greeting[len(PROTOCOL) :]
    return nonce + _sign(key, b"worker", theirs, nonce), _sign(key, b"driver", theirs, nonce)


def authenticate(connection: socket.socket, key: bytes, left: Callable[[], float]) -> None:
    """Do the worker's side on a connected socket; ``left`` returns the remaining time (s).

    Raises ``AuthenticationError`` if one of the two has another key, ``OSError`` if the driver disconnects or on a timeout.
    """
    answer, proof = answer_to(_receive(connection, GREETING, left), key)
    connection.settimeout(max(left(), 0.001))
    connection.sendall(answer)
    found = _receive(connection, _PROOF, left)
    if found == DENIED:
        raise AuthenticationError("the driver refused this worker: it was given the key of another job.")
    if not hmac.compare_digest(found, proof):
        raise AuthenticationError("the peer is not the driver of this job: it does not know the job's key.")


def _receive(connection: socket.socket, size: int, left: Callable[[], float]) -> bytes:
    received = b""
    while len(received) < size:
        connection.settimeout(max(left(), 0.001))
        data = connection.recv(size - len(received))
        if not data:
            raise ConnectionResetError("the driver hung up during the handshake")
        received += data
    return received


def _sign(key: bytes, role: bytes, driver: bytes, worker: bytes) -> bytes:
    return hmac.digest(key, role + driver + worker, "sha256")


# ---- A task's side of its control connection: reports up, orders down, heartbeats both ways (see ``server.py``).


_LINGER_SECONDS = 1.0
_CONNECT_SECONDS = 60.0
_RETRY_SECONDS = 0.05, 2.0
_now = SystemClock().monotonic


class ControlClient:
    """A task's side; ``send`` may be called from several threads.

    Raises ``AuthenticationError`` if one of the two has another key, ``TaskLost`` if the driver cannot be reached.
    """

    def __init__(self, address: Address, credentials: Credentials) -> None:
        self._channel = Channel(connect(address, credentials, "the driver"))
        self._listener: threading.Thread | None = None
        self._monitor: HeartbeatMonitor | None = None
        self._closed = threading.Event()

    def send(self, event: TaskEvent) -> None:
        """Send a report; waits if the driver is slow to read."""
        self._channel.send(event)

    def listen(self, take: Callable[[TaskCommand | Exception | None], None]) -> None:
        """Hand every order to ``take`` in a thread of its own, for one that does not unpickle why; ``None`` at the end."""

        def run() -> None:
            command: TaskCommand | Exception | None
            while True:
                try:
                    command = self._channel.receive()
                except HungUp:
                    command = None
                except Exception as error:  # noqa: BLE001 - whatever unpickling a user's split may raise
                    command = error
                if isinstance(command, DriverHeartbeat):
                    continue
                take(command)
                if command is None:
                    return

        self._listener = threading.Thread(target=run, name="funken-orders", daemon=True)
        self._listener.start()

    def start_heartbeats(
        self, task: TaskId, settings: HeartbeatSettings, stalled: Callable[[], float], silent: Callable[[float], None]
    ) -> None:
        """Send heartbeats from now on; ``silent`` is called with the seconds when the driver has sent none for the timeout.

        ``stalled`` returns for how long the task has been at the same step.
        """
        self._monitor = monitor = HeartbeatMonitor(settings.timeout / 1000, _now())
        driver = monitor.add(_now())
        self._channel.progress = lambda: driver.heard(_now())

        def run() -> None:
            due = 0.0
            while not self._closed.wait(settings.tick_seconds):
                now = _now()
                if monitor.tick(now):
                    silent(driver.silence(now))
                    return
                if now >= due:
                    due = now + settings.send_seconds
                    with contextlib.suppress(OSError, ValueError):  # the driver has hung up, which the listener notices
                        self._channel.send_if_possible(WorkerHeartbeat(task, stalled=stalled()))

        threading.Thread(target=run, name="funken-heartbeat", daemon=True).start()

    @property
    def host(self) -> str:
        """The address of this machine by which it reaches the driver."""
        return self._channel.host

    @property
    def was_stopped(self) -> bool:
        """True if this process has stood still for the timeout, just now: the driver has given it up."""
        return self._monitor is not None and self._monitor.was_stopped(_now())

    def close(self) -> None:
        """Hang up, once the driver has read all messages: to close with an order unread would reset the connection."""
        self._closed.set()
        self._channel.hang_up(socket.SHUT_WR)
        if self._listener is not None:
            self._listener.join(_LINGER_SECONDS)
        self._channel.close()


def connect(address: Address, credentials: Credentials, peer: str) -> Connection:
    """Return an authenticated connection; retries if the peer drops it in the handshake because it has too many."""
    limit = _now() + _CONNECT_SECONDS
    pause, longest = _RETRY_SECONDS
    while True:
        try:
            return _connect_once(address, credentials, min(limit, _now() + HANDSHAKE_SECONDS))
        except OSError as error:
            if isinstance(error, ConnectionRefusedError) or _now() + pause >= limit:
                raise TaskLost(
                    f"{peer} cannot be reached at {address[0]}:{address[1]}: {error}. Is the job over? Can this machine "
                    "connect to that one (for the driver: spark.driver.host)?"
                ) from error
        time.sleep(pause * random.uniform(0.5, 1.0))
        pause = min(2 * pause, longest)


def _connect_once(address: Address, credentials: Credentials, deadline: float) -> Connection:
    connection = socket.create_connection(address, max(deadline - _now(), 0.001))
    try:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # else events wait up to 40 ms
        authenticate(connection, credentials.key, lambda: deadline - _now())
        connection.settimeout(None)
        return credentials.secure(connection, server=False)
    except BaseException:
        connection.close()
        raise


# ---- Blocks that cross Spark's streaming shuffle, sealed with a key of the job: AES-256-GCM, which hides and
# authenticates them.
#
# Spark 4.3 neither authenticates nor encrypts that shuffle, whatever ``spark.authenticate`` and its like say: its
# servers are made without them, and listen on all addresses. Where connections are to be encrypted, nothing else
# leaves a worker that way.
#
# A sealed block is the salt of its sender, a counter, and the ciphertext. Each sender has a key of its own, derived
# from the job's by its salt, so that a counter is enough of a nonce. Stage and subtask of the receiver are
# authenticated too: a block that comes elsewhere is refused. A filler, which is empty, stays empty.


_SALT, _COUNTER = 16, 12
_LABEL = b"funken blocks "


class Sealer:
    """Seals and opens the blocks of one task.

    >>> sender, receiver = Sealer(b"key of the job"), Sealer(b"key of the job")
    >>> receiver.opened(sender.sealed(b"records", 1, 0), 1, 0)
    b'records'
    """

    def __init__(self, key: bytes) -> None:
        try:
            from cryptography.exceptions import InvalidTag  # noqa: PLC0415 - an extra
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415
        except ImportError as error:
            raise EncryptionNotAvailable(
                "security.ssl.internal.enabled needs the package cryptography in every worker, which "
                "seals the shuffled blocks of continuous jobs: pip install 'funken[tls]' on this machine."
            ) from error
        self._job, self._cipher, self._invalid = key, AESGCM, InvalidTag
        self._salt, self._sent = os.urandom(_SALT), 0
        self._ciphers: dict[bytes, Any] = {}

    def sealed(self, block: bytes, stage: int, subtask: int) -> bytes:
        """Return a block for a task, sealed."""
        if not block:
            return block
        self._sent += 1
        counter = self._sent.to_bytes(_COUNTER, "big")
        made: bytes = self._of(self._salt).encrypt(counter, block, _place(stage, subtask))
        return self._salt + counter + made

    def opened(self, sealed: bytes, stage: int, subtask: int) -> bytes:
        """Return the block; raises ``TaskLost`` for bytes that no task of this job has sent here."""
        salt, counter = sealed[:_SALT], sealed[_SALT : _SALT + _COUNTER]
        try:
            opened: bytes = self._of(salt).decrypt(counter, sealed[_SALT + _COUNTER :], _place(stage, subtask))
        except (self._invalid, ValueError) as error:
            raise TaskLost(
                f"stage {stage}, task {subtask} got a block over Spark's shuffle that no task of this job "
                "has sealed for it: it was changed on its way, or belongs to another job."
            ) from error
        return opened

    def _of(self, salt: bytes) -> Any:
        found = self._ciphers.get(salt)
        if found is None:
            key = hmac.new(self._job, _LABEL + salt, hashlib.sha256).digest()
            found = self._ciphers[salt] = self._cipher(key)
        return found


def _place(stage: int, subtask: int) -> bytes:
    return b"%d/%d" % (stage, subtask)
