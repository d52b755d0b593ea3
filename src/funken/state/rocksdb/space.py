"""The disk that a database is on: how much of it is free, and the error if that is too little.

RocksDB writes and compacts in threads of its own. When the disk is full, they fail, and a write that waits for them would wait
for ever. So nothing is written while less is free than must stay free; whoever waits for RocksDB looks here meanwhile.
"""

from __future__ import annotations

import os

from funken.dataclass import dataclass
from funken.errors import DiskFull

LEAST_FREE = 64 * 2**20


def free_bytes(folder: str) -> int:
    """Return how much this process may still write below a folder.

    >>> free_bytes("/") > 0
    True
    """
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize


@dataclass(frozen=True, slots=True)
class DiskSpace:
    """The space below a folder, which exists; ``least`` bytes of it must stay free. ``owner`` is whose state is there.

    >>> DiskSpace("/", 2**70, "operator 'count'").check()  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    funken.errors.DiskFull: operator 'count': RocksDB cannot write to /: ... are free, 1,125,899,906,842,624.0 MiB must stay free
    (state.backend.rocksdb.min-free-space). Free some space, or set state.backend.rocksdb.localdir to a folder on a larger disk.
    """

    folder: str
    least: int = LEAST_FREE
    owner: str = "the state"

    def check(self, wanted: int = 0) -> None:
        """Raise ``DiskFull`` if ``wanted`` bytes would leave too little; costs 2 to 3 us."""
        if self.least:
            free = free_bytes(self.folder)
            if free - wanted < self.least:
                wanted_too = f" and {_mib(wanted)} are wanted," if wanted else ""
                raise self.full(f"{_mib(free)} are free,{wanted_too} {_mib(self.least)} must stay free")

    def full(self, fact: str = "") -> DiskFull:
        """Make the error for a disk that is full."""
        fact = fact or f"no space is left on the device, {_mib(free_bytes(self.folder))} are free"
        return DiskFull(
            f"{self.owner}: RocksDB cannot write to {self.folder}: {fact} (state.backend.rocksdb.min-free-space). Free some "
            "space, or set state.backend.rocksdb.localdir to a folder on a larger disk."
        )


def _mib(count: int) -> str:
    return f"{count / 2**20:,.1f} MiB"
