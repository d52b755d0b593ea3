"""Where the leaders of jobs answer requests: one small file each beside their lease, for who looks after all jobs of a storage.

::

    <storageDir>/_high-availability/<cluster id>/<job id>/rest

A file has an address and the host that it is of, never a token. It is a hint: the leader may be gone, and the next one
replaces it.
"""

from __future__ import annotations

import json
import socket
from dataclasses import asdict

from funken.dataclass import dataclass
from funken.errors import CheckpointError
from funken.io.storage import Storage, open_storage
from funken.leaderelection.election import FOLDER

_FILE = "rest"
_DEPTH = 3


@dataclass(frozen=True, slots=True)
class LeaderAddress:
    """Where the leader of a job answers, and the host name of its machine."""

    url: str
    host: str


def publish(storage: Storage, url: str) -> None:
    """Write down where this driver answers, which leads the job of this folder."""
    storage.write(_FILE, json.dumps(asdict(LeaderAddress(url, socket.gethostname()))).encode())


def withdraw(storage: Storage) -> None:
    """Remove what ``publish`` wrote; to be called by a leader that still leads."""
    storage.delete(_FILE)


def published(directory: str) -> list[LeaderAddress]:
    """Return the addresses below ``high-availability.storageDir``, sorted by cluster and job; files of others are left out.

    >>> from funken.io.storage import mounted
    >>> from funken.testing.memory_storage import MemoryStorage
    >>> storage = MemoryStorage()
    >>> publish(storage.at("_high-availability/shop/orders"), "http://10.0.0.7:8081")
    >>> with mounted("memory://ha", storage):
    ...     [address.url for address in published("memory://ha/")]
    ['http://10.0.0.7:8081']
    """
    storage = open_storage(f"{directory.rstrip('/')}/{FOLDER}")
    found = []
    for name in sorted(storage.sizes()):
        parts = name.split("/")
        if len(parts) != _DEPTH or parts[-1] != _FILE:
            continue
        try:
            read = json.loads(storage.read(name))
            found.append(LeaderAddress(str(read["url"]), str(read["host"])))
        except (CheckpointError, ValueError, KeyError, TypeError):  # gone since, or not of this version
            continue
    return found
