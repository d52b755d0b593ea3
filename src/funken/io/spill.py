"""Spill files: serialised blocks on the local disk, in files without a name; and a queue of blocks that spills.

A file is unlinked by the system as it is made, so it is gone after ``close``, after a failure and after a kill alike.
A file belongs to one structure of one subtask and holds any number of blocks, each found by its extent.
"""

from __future__ import annotations

import errno
import os
import pickle
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import field
from typing import Any, Generic, NamedTuple, Self, TypeVar
from weakref import WeakSet

from funken.dataclass import dataclass
from funken.errors import DiskFull, InvalidConfiguration, RecordNotPicklable


class Extent(NamedTuple):
    """The place of a block in its file."""

    offset: int
    length: int
    records: int


PROTOCOL = 5


def dump(block: list[Any], apart: Callable[[pickle.PickleBuffer], Any] | None = None) -> bytes:
    """Serialise a block, large buffers ``apart`` if wanted; raise ``RecordNotPicklable`` if a record of it cannot be."""
    try:
        return pickle.dumps(block, PROTOCOL, buffer_callback=apart)
    except Exception as error:
        for record in block:
            try:
                pickle.dumps(record, PROTOCOL)
            except Exception:  # noqa: BLE001 - any object may raise anything when it is pickled
                raise RecordNotPicklable(
                    f"a record of type {type(record).__qualname__!r} cannot be pickled: {type(error).__name__}: {error}. "
                    "Records are counted and spilled as pickles: keep files, locks and lambdas out of them."
                ) from error
        raise


def load(data: bytes) -> list[Any]:
    """Return the block that was serialised."""
    block: list[Any] = pickle.loads(data)
    return block


class SpillSpace:
    """The folders that a job spills to, and the spilled bytes.

    >>> with SpillSpace() as space:
    ...     file = space.file("sort")
    ...     extent = file.append(b"sorted", 1)
    ...     file.bytes_of(extent), space.files, space.spilled
    (b'sorted', 1, 6)
    >>> with SpillSpace() as space:
    ...     file = space.file("sort")
    ...     file.read(file.write([1, 2, 3]))
    [1, 2, 3]
    """

    remedy = "raise execution.memory.managed"
    """Another remedy when the disk is full."""

    def __init__(self, directories: Iterable[str] = ()) -> None:
        self._directories = [directory for directory in directories if directory] or [tempfile.gettempdir()]
        self._open: WeakSet[SpillFile] = WeakSet()
        self._lock = threading.Lock()
        self.files = 0
        self.spilled = 0
        #: by operator
        self.spilled_by: dict[str, int] = {}

    def file(self, operator: str) -> SpillFile:
        """Make a file for an operator; the folders take turns."""
        directory = self._directories[self.files % len(self._directories)]
        try:
            handle = tempfile.TemporaryFile(dir=directory, buffering=0, prefix="funken-spill-")  # noqa: SIM115 - closed by SpillFile
        except OSError as error:
            if error.errno == errno.ENOSPC:
                raise self._full(operator, directory) from error
            raise InvalidConfiguration(
                f"operator {operator!r} cannot make a spill file in {directory!r}: {error}. "
                "Set io.tmp.dirs to folders that can be written."
            ) from error
        file = SpillFile(self, handle, operator, directory)
        with self._lock:
            self.files += 1
            self._open.add(file)
        return file

    def count(self, operator: str, size: int) -> None:
        """Count bytes that were written to a file of an operator."""
        with self._lock:
            self.spilled += size
            self.spilled_by[operator] = self.spilled_by.get(operator, 0) + size

    def _full(self, operator: str, directory: str) -> DiskFull:
        return DiskFull(
            f"operator {operator!r} cannot spill to {directory!r}: no space is left on the disk, after "
            f"{self.spilled:,} bytes spilled by this job. Free space, set io.tmp.dirs to a larger disk, or "
            f"{self.remedy}."
        )

    def close(self) -> None:
        """Close the files that are still open."""
        for file in list(self._open):
            file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class SpillFile:
    """One file of blocks; reading does not move anything, so several readers may be under way."""

    def __init__(self, space: SpillSpace, handle: Any, operator: str, directory: str) -> None:
        self._space = space
        self._handle = handle
        self._operator = operator
        self._directory = directory
        self._end = 0

    @property
    def size(self) -> int:
        """Number of bytes written since the beginning, or since the last rewind."""
        return self._end

    def append(self, data: bytes, records: int) -> Extent:
        """Append a serialised block of so many records; raise ``DiskFull`` if there is no space for it."""
        view = memoryview(data)
        start = self._end
        try:
            while view:
                written = os.pwrite(self._handle.fileno(), view, self._end)
                self._end += written
                view = view[written:]
        except OSError as error:
            if error.errno in {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}:
                raise self._space._full(self._operator, self._directory) from error
            raise
        self._space.count(self._operator, len(data))
        return Extent(start, len(data), records)

    def write(self, block: list[Any]) -> Extent:
        """Append a block; raise ``DiskFull`` if there is no space for it."""
        return self.append(dump(block), len(block))

    def read(self, extent: Extent) -> list[Any]:
        """Return the block of an extent."""
        return load(self.bytes_of(extent))

    def blocks(self, extents: Iterable[Extent]) -> Iterator[list[Any]]:
        """Return the blocks of extents, one after the other."""
        return map(self.read, extents)

    def rewind(self) -> None:
        """Write from the beginning again; no extent of before is read any more."""
        self._end = 0

    def bytes_of(self, extent: Extent) -> bytes:
        """Return the bytes of an extent."""
        parts = []
        offset, missing = extent.offset, extent.length
        while missing:
            data = os.pread(self._handle.fileno(), missing, offset)
            if not data:
                raise OSError(f"the spill file of operator {self._operator!r} ends before {extent}")
            parts.append(data)
            offset += len(data)
            missing -= len(data)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def __del__(self) -> None:
        self._handle.close()

    def close(self) -> None:
        """Release the space."""
        self._handle.close()


class SpillingQueue:
    """Serialised blocks, first in, first out; beyond ``budget`` bytes they go to disk, and keep their places.

    Both ends may be used by threads of their own. A file is given back when all that is in it was read, and no file is much
    larger than ``file_size``: so a queue that is never empty takes no more of the disk than what waits.

    >>> space = SpillSpace()
    >>> queue = SpillingQueue(10, space, "head")
    >>> for block in (b"within", b"beyond", b"in"):
    ...     queue.put(block)
    >>> space.spilled, [queue.get() for _ in range(len(queue))]
    (6, [b'within', b'beyond', b'in'])
    """

    def __init__(self, budget: int, space: SpillSpace, owner: str, file_size: int = 64 * 2**20) -> None:
        self._budget = budget
        self._space = space
        self._owner = owner
        self._file_size = file_size
        self._lock = threading.Lock()
        #: the files with how many blocks of each were not read; the last one is written to
        self._files: deque[SpillFile] = deque()
        self._unread: deque[int] = deque()
        self._waiting: deque[bytes | Extent] = deque()
        self._in_memory = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, block: bytes) -> None:
        """Append a block; raise ``DiskFull`` if there is no space for it."""
        with self._lock:
            if self._in_memory + len(block) <= self._budget:
                self._in_memory += len(block)
                self._waiting.append(block)
                return
            if not self._files or self._files[-1].size >= self._file_size:
                self._files.append(self._space.file(self._owner))
                self._unread.append(0)
            self._waiting.append(self._files[-1].append(block, 1))
            self._unread[-1] += 1

    def get(self) -> bytes:
        """Remove and return the oldest block."""
        with self._lock:
            first = self._waiting.popleft()
            if not isinstance(first, Extent):
                self._in_memory -= len(first)
                return first
            block = self._files[0].bytes_of(first)  # what is on disk is read in the order in which it was written
            self._unread[0] -= 1
            if not self._unread[0]:
                self._files.popleft().close()
                self._unread.popleft()
            return block

    def close(self) -> None:
        """Drop everything."""
        with self._lock:
            self._waiting.clear()
            self._unread.clear()
            while self._files:
                self._files.pop().close()


# ---- Which connections of a server stay when there are many: those of known clients do, and the oldest strangers
# go.
#
# A stranger is a connection whose peer has not proved anything yet: it has sent half a request, or none. It never
# keeps another one out: the newest is always taken, and an older stranger is dropped for it, first one of a peer
# that has many. A known client sends its request at once, so it is known before its turn to be dropped comes;
# ``GRACE_SECONDS`` leave it the time. Does no I/O.


GRACE_SECONDS = 0.5

C = TypeVar("C", bound=Hashable)


@dataclass(slots=True)
class Admission(Generic[C]):
    """The open connections of a server, and which of them is dropped when another one comes.

    ``capacity`` is for all of them, ``per_peer`` for the strangers of one address; where all strangers are younger than the
    time of grace, there may be twice as many.

    >>> admission = Admission[str](capacity=2, per_peer=2)
    >>> [admission.opened(name, "10.0.0.1", now) for name, now in (("a", 0.0), ("b", 1.0))]
    [None, None]
    >>> admission.know("a")
    >>> admission.opened("c", "10.0.0.1", 9.0)
    'b'
    """

    capacity: int = 128
    per_peer: int = 64
    _strangers: dict[str, dict[C, float]] = field(default_factory=dict)
    """The connections of each peer, oldest first, each with the time at which it was opened."""
    _known: dict[C, None] = field(default_factory=dict)
    """Oldest use first."""
    _peers: dict[C, str] = field(default_factory=dict)

    def __len__(self) -> int:
        """Return the number of open connections."""
        return len(self._known) + len(self._peers)

    def opened(self, connection: C, peer: str, now: float) -> C | None:
        """Take a connection; return the one that is to be closed for it, if any: it is forgotten already."""
        self._peers[connection] = peer
        self._strangers.setdefault(peer, {})[connection] = now
        of_peer = self._strangers[peer]
        if len(of_peer) <= self.per_peer and len(self) <= self.capacity:
            return None
        most = of_peer if len(of_peer) > self.per_peer else max(self._strangers.values(), key=len)
        victim, since = next(iter(most.items()))
        if victim == connection and self._known:  # all others are known
            victim, since = next(iter(self._known)), now - GRACE_SECONDS
        if now - since < GRACE_SECONDS and len(self) <= 2 * self.capacity:
            return None
        self.closed(victim)
        return victim

    def know(self, connection: C) -> None:
        """Its peer has proved who it is, with the request that it makes now."""
        if connection in self._peers or connection in self._known:
            self.closed(connection)
            self._known[connection] = None

    def closed(self, connection: C) -> None:
        """Forget a connection, if it is not forgotten yet."""
        self._known.pop(connection, None)
        peer = self._peers.pop(connection, None)
        if peer is not None:
            del self._strangers[peer][connection]
            if not self._strangers[peer]:
                del self._strangers[peer]
