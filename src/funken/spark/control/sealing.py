"""Blocks that cross Spark's streaming shuffle, sealed with a key of the job: AES-256-GCM, which hides and authenticates them.

Spark 4.3 neither authenticates nor encrypts that shuffle, whatever ``spark.authenticate`` and its like say: its servers are made
without them, and listen on all addresses. Where connections are to be encrypted, nothing else leaves a worker that way.

A sealed block is the salt of its sender, a counter, and the ciphertext. Each sender has a key of its own, derived from the job's
by its salt, so that a counter is enough of a nonce. Stage and subtask of the receiver are authenticated too: a block that comes
elsewhere is refused. A filler, which is empty, stays empty.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from typing import Any

from funken.errors import EncryptionNotAvailable, TaskLost

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
                "security.ssl.internal.enabled needs the package cryptography in every worker, which seals what continuous jobs "
                "shuffle: pip install 'funken[tls]' on this machine."
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
        """Return the block; raises ``TaskLost`` for what no task of this job has sent here."""
        salt, counter = sealed[:_SALT], sealed[_SALT : _SALT + _COUNTER]
        try:
            opened: bytes = self._of(salt).decrypt(counter, sealed[_SALT + _COUNTER :], _place(stage, subtask))
        except (self._invalid, ValueError) as error:
            raise TaskLost(
                f"stage {stage}, task {subtask} got a block over Spark's shuffle that no task of this job has sealed for it: it "
                "was changed on its way, or is somebody else's."
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


__all__ = ["Sealer"]
