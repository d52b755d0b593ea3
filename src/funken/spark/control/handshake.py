"""Mutual authentication of a control connection: HMAC-SHA256 over random nonces, in messages of fixed size.

::

    driver -> worker   protocol name (16 bytes), nonce of the driver (32)
    worker -> driver   nonce of the worker (32), HMAC(key, "worker", both nonces) (32)
    driver -> worker   HMAC(key, "driver", both nonces) (32), or DENIED

Each side proves that it has the job's key without sending it; the two roles are part of what is signed, so that no answer
can be reflected. A peer that has not proved itself can make the driver read 64 bytes, and compute one HMAC: nothing is
unpickled, and no length is believed. ``ServerHandshake`` does no I/O: it takes bytes and returns bytes.
"""

from __future__ import annotations

import hmac
import secrets
import socket
from collections.abc import Callable
from multiprocessing import AuthenticationError

PROTOCOL = b"funken-control 1"
HANDSHAKE_SECONDS = 5.0
"""How long a handshake may take in all, on either side."""
_NONCE = 32
_PROOF = 32
GREETING = len(PROTOCOL) + _NONCE
ANSWER = _NONCE + _PROOF
DENIED = b"denied".ljust(_PROOF, b".")


class ServerHandshake:
    """The driver's side for one peer: send ``greeting``, then ``take`` what arrives until it returns an answer.

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
        """What the peer is sent first."""
        return PROTOCOL + self._nonce

    @property
    def missing(self) -> int:
        """How many bytes of the peer's answer have not arrived; never read more from it."""
        return ANSWER - len(self._received)

    def take(self, data: bytes) -> bytes | None:
        """Take bytes of the peer's answer; return what it is to be sent when all of them are there."""
        self._received += data
        if self.missing > 0:
            return None
        nonce, proof = self._received[:_NONCE], self._received[_NONCE:]
        self.accepted = hmac.compare_digest(proof, _sign(self._key, b"worker", self._nonce, nonce))
        return _sign(self._key, b"driver", self._nonce, nonce) if self.accepted else DENIED


def answer_to(greeting: bytes, key: bytes, nonce: bytes | None = None) -> tuple[bytes, bytes]:
    """Return what a worker answers to the driver's greeting, and the proof that it expects from the driver then.

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
    """Do the worker's side on a connected socket; ``left`` returns how many seconds there are for the rest of it.

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
