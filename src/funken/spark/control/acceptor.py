"""The driver's listening socket: one thread authenticates all peers, and passes on those that have the key.

Any process that reaches the port may connect, so what a peer costs before it is authenticated is bounded: no thread, at most
``MOST`` descriptors in total, 64 bytes of memory, and ``HANDSHAKE_SECONDS`` from its first byte to its last. Where there are
more peers the oldest is dropped: one that answers needs a round trip, one that does not would stay. A worker that is dropped
because of others connects again. When the process has no descriptor left, peers in handshake are dropped, and accepting
pauses until there may be one.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import selectors
import socket
import threading
from collections.abc import Callable

from funken.spark.control.channel import Address
from funken.spark.control.credentials import Connection, Credentials
from funken.spark.control.handshake import HANDSHAKE_SECONDS, ServerHandshake
from funken.timing.clock import Clock, SystemClock

logger = logging.getLogger(__name__)

MOST = 256
_AT_ONCE = 16
_BACKLOG = 4096
_PAUSE_SECONDS = 0.2
_WARN_SECONDS = 60.0
_JOIN_SECONDS = 5.0
_NO_RESOURCES = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class _Peer:
    """A connection that is not authenticated yet."""

    __slots__ = ("connection", "deadline", "handshake")

    def __init__(self, connection: socket.socket, key: bytes, deadline: float) -> None:
        self.connection = connection
        self.handshake = ServerHandshake(key)
        self.deadline = deadline


class Acceptor:
    """Listens on ``address`` in a thread of its own; ``admit`` is called there with each authenticated connection.

    Where the job has a certificate it is called in a thread of that connection, which does the TLS handshake before.
    """

    def __init__(
        self,
        address: Address,
        credentials: Credentials,
        admit: Callable[[Connection], None],
        clock: Clock | None = None,
    ) -> None:
        self._credentials = credentials
        self._admit = admit
        self._now = (clock or SystemClock()).monotonic
        self._listener = socket.create_server(address, backlog=_BACKLOG)
        self._listener.setblocking(False)
        self.address: Address = self._listener.getsockname()
        #: in the order of their deadlines
        self._peers: dict[_Peer, None] = {}
        self._paused_until: float | None = None
        self._warned = float("-inf")
        self._closing = False
        self._awake, self._wake = socket.socketpair()
        self._awake.setblocking(False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._awake, selectors.EVENT_READ)
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._run, name="funken-control", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop listening, and hang up on every peer that is not authenticated."""
        self._closing = True
        with contextlib.suppress(OSError):
            self._wake.send(b"x")
        self._thread.join(_JOIN_SECONDS)

    # ---- the thread

    def _run(self) -> None:
        try:
            while not self._closing:
                self._turn()
        finally:
            for peer in list(self._peers):
                self._drop(peer)
            self._selector.close()
            for end in (self._listener, self._awake, self._wake):
                end.close()

    def _turn(self) -> None:
        ready = self._selector.select(self._patience())
        knocking = False
        for key, _ in ready:
            if key.data is not None:
                self._read(key.data)
            knocking = knocking or key.fileobj is self._listener
        if knocking:
            self._accept()
        now = self._now()
        while self._peers and (oldest := next(iter(self._peers))).deadline <= now:
            self._drop(oldest)
        if self._paused_until is not None and self._paused_until <= now:
            self._paused_until = None
            self._selector.register(self._listener, selectors.EVENT_READ)

    def _patience(self) -> float | None:
        moments = [peer.deadline for peer in list(self._peers)[:1]]
        if self._paused_until is not None:
            moments.append(self._paused_until)
        return max(0.0, min(moments) - self._now()) if moments else None

    def _accept(self) -> None:
        """Accept a few; between them, those that have answered are read, so that they are not the ones to be dropped."""
        for _ in range(_AT_ONCE):
            try:
                connection, _ = self._listener.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in _NO_RESOURCES:
                    self._out_of_resources(error)
                    return
                continue  # this one is gone already
            peer = _Peer(connection, self._credentials.key, self._now() + HANDSHAKE_SECONDS)
            try:
                connection.setblocking(False)
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                connection.send(peer.handshake.greeting)  # the first bytes always have room
                self._selector.register(connection, selectors.EVENT_READ, peer)
            except OSError:
                connection.close()
                continue
            self._peers[peer] = None
            if len(self._peers) > MOST:
                self._drop(next(iter(self._peers)))

    def _read(self, peer: _Peer) -> None:
        if peer not in self._peers:
            return  # dropped in this very turn
        try:
            data = peer.connection.recv(peer.handshake.missing)
            answer = peer.handshake.take(data)
            if answer is not None:
                peer.connection.send(answer)
        except BlockingIOError:
            return
        except OSError:
            self._drop(peer)
            return
        if not data or (answer is not None and not peer.handshake.accepted):
            self._drop(peer)
        elif answer is not None:
            self._forget(peer)
            self._hand_on(peer.connection)

    def _hand_on(self, connection: socket.socket) -> None:
        try:
            connection.setblocking(True)
            if self._credentials.certificate:
                threading.Thread(target=self._secure, args=(connection,), name="funken-tls", daemon=True).start()
            else:
                self._admit(connection)
        except Exception:
            logger.exception("a worker that has authenticated itself could not be taken; it is to connect again")
            connection.close()

    def _secure(self, connection: socket.socket) -> None:
        try:
            self._admit(self._credentials.secure(connection, server=True))
        except OSError as error:
            logger.warning(
                "a peer that knows the job's key did not do the TLS handshake, and was dropped: %s: %s. Does something between "
                "the machines change what they send?", type(error).__name__, error,
            )  # fmt: skip
        except Exception:
            logger.exception("a worker that has authenticated itself could not be taken; it is to connect again")
            connection.close()

    def _forget(self, peer: _Peer) -> None:
        del self._peers[peer]
        self._selector.unregister(peer.connection)

    def _drop(self, peer: _Peer) -> None:
        self._forget(peer)
        peer.connection.close()

    def _out_of_resources(self, error: OSError) -> None:
        now = self._now()
        if now - self._warned >= _WARN_SECONDS:
            self._warned = now
            logger.warning(
                "the driver's control port %s:%d cannot accept connections: %s. %d of them are in handshake and half of these "
                "are dropped; accepting goes on in %g s. Raise the limit of open files (ulimit -n), or close what the program "
                "keeps open.", *self.address, error, len(self._peers), _PAUSE_SECONDS,
            )  # fmt: skip
        for peer in list(self._peers)[: (len(self._peers) + 1) // 2]:
            self._drop(peer)
        self._paused_until = now + _PAUSE_SECONDS
        self._selector.unregister(self._listener)
