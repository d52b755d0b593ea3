"""The budget of a subtask: equal shares of one half for its operators, and the other half for those that need more.

A structure that would be slow on disk asks whether something ``fits`` before it reserves: then its share borrows what is
missing from the pool, and gives it back when it has dropped so much. Who comes first has it; nobody is asked to return
anything, so nobody waits, and nobody has less than its share.

Invariant: a structure reserves before it keeps, and releases when it drops; ``used`` is the sum over all shares, and
``peak`` its highest value, in serialised bytes. A share refuses nothing: the structure that holds it decides what to spill.
The limits of all shares together are the budget at most. The manager may be used by several threads; a share belongs to one
structure, which serialises access to it.
"""

from __future__ import annotations

import pickle
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from funken.errors import InvalidConfiguration
from funken.io.spill import Extent, SpillFile, SpillSpace, dump, load

# ---- Blocks of records, and what they weigh.
#
# A block is a list of records; it is what operators hand to one another. Its weight is the length of its pickle, so
# that a budget means the same in memory, in a spill file and on the network. Of columns (``columns/block.py``) it
# is the size of their arrays.


Block = list[Any]
Blocks = Iterator[Block]

BLOCK_RECORDS = 1024
"""Records in a full block."""


def weight(block: Block) -> int:
    """Return the serialised size of a block.

    >>> weight([(1, "a")]) < weight([(1, "a"), (2, "b")])
    True
    """
    size = getattr(block, "size", None)  # of columns: what their arrays have
    if size is not None:
        return int(size)
    arrays: list[pickle.PickleBuffer] = []  # not copied only to be counted
    return len(dump(block, arrays.append)) + sum(array.raw().nbytes for array in arrays)


def weighed(block: Block, most: int) -> Iterator[tuple[Block, int]]:
    """Split a block until no part is heavier than ``most`` (a single record may be); yield parts and weights.

    >>> [len(part) for part, _ in weighed([letter * 100 for letter in "abcd"], 250)]
    [2, 2]
    """
    size = weight(block)
    if size <= most or len(block) == 1:
        yield block, size
        return
    half = len(block) // 2
    yield from weighed(block[:half], most)
    yield from weighed(block[half:], most)


def blocks_of(records: Iterable[Any], size: int = BLOCK_RECORDS) -> Iterator[Block]:
    """Cut records into blocks.

    >>> list(blocks_of(range(5), 2))
    [[0, 1], [2, 3], [4]]
    """
    iterator = iter(records)
    while block := list(islice(iterator, size)):
        yield block


class PushBack:
    """Blocks of which some are put back, to be the next ones again.

    >>> blocks = PushBack(iter([[1], [2], [3]]))
    >>> first, second = next(blocks), next(blocks)
    >>> blocks.back([first, second])
    >>> list(blocks)
    [[1], [2], [3]]
    """

    def __init__(self, blocks: Blocks) -> None:
        self._blocks = blocks
        self._back: list[Block] = []

    def __iter__(self) -> PushBack:
        return self

    def __next__(self) -> Block:
        return self._back.pop() if self._back else next(self._blocks)

    def back(self, blocks: Iterable[Block]) -> None:
        """Put blocks back, the next one first."""
        self._back += reversed(list(blocks))


def records_of(blocks: Iterable[Block]) -> Iterator[Any]:
    """Return the records of blocks, one by one."""
    for block in blocks:
        yield from block


MIN_SHARE = 4 * 1024
"""With less an operator would spill every record by itself."""

_LENT = 4
"""So many grains are borrowed at least."""


class MemoryManager:
    """The managed memory of one subtask.

    >>> memory = MemoryManager(64 * 1024, consumers=2, space=SpillSpace())
    >>> share = memory.share("join")
    >>> share.reserve(1000)
    >>> share.limit, share.used, memory.used, memory.peak, memory.pool
    (16384, 1000, 1000, 1000, 32768)
    """

    def __init__(self, budget: int, consumers: int, space: SpillSpace) -> None:
        equal = budget // max(1, consumers)
        if equal < MIN_SHARE:
            raise InvalidConfiguration(
                f"execution.memory.managed is {budget:,} bytes, but the {consumers} operators of a subtask that sort, hash or "
                f"cache need {MIN_SHARE * consumers:,} at least. Raise it."
            )
        self.budget = budget
        self.limit = max(MIN_SHARE, equal // 2) if consumers > 1 else equal
        self.pool = budget - self.limit * max(1, consumers)
        self.space = space
        self.used = 0
        self.peak = 0
        self._lock = threading.Lock()

    def count(self, size: int) -> None:
        """Add to the memory in use; a negative size takes off."""
        with self._lock:
            self.used += size
            self.peak = max(self.peak, self.used)

    def lend(self, size: int, rather: int) -> int:
        """Take ``rather`` so much off the pool, ``size`` at least, or nothing; return the amount."""
        with self._lock:
            lent = min(max(size, rather), self.pool) if size <= self.pool else 0
            self.pool -= lent
            return lent

    def take_back(self, size: int) -> None:
        """Put lent memory back into the pool."""
        with self._lock:
            self.pool += size

    def share(self, operator: str) -> Share:
        """Return a share for one structure of an operator."""
        return Share(self, operator)


class Share:
    """The memory of one structure: ``limit`` bytes, of which it uses ``used``; ``own`` is the unborrowed part.

    >>> memory = MemoryManager(64 * 1024, consumers=2, space=SpillSpace())
    >>> share = memory.share("join")
    >>> share.fits(40_000), share.limit, memory.pool
    (True, 40000, 9152)
    >>> share.reserve(40_000)
    >>> memory.share("sort").fits(30_000), memory.pool
    (False, 9152)
    >>> share.release(30_000)
    >>> share.limit, memory.pool
    (16384, 32768)
    """

    __slots__ = ("_file", "_manager", "_strict", "limit", "operator", "own", "used")

    def __init__(self, manager: MemoryManager, operator: str, limit: int = 0) -> None:
        self._manager = manager
        self._file: SpillFile | None = None
        self.operator = operator
        self.own = self.limit = limit or manager.limit
        self._strict = limit > 0
        self.used = 0

    def part(self, of: int) -> Share:
        """Return a share with one ``of``-th of this one, which never borrows; its use counts for the subtask."""
        return Share(self._manager, self.operator, max(1, self.own // of))

    @property
    def grain(self) -> int:
        """The largest weight of a block that is reserved, spilled or merged at once; loans do not change it."""
        return max(512, self.own // 16)

    @property
    def in_use(self) -> bool:
        """True if it has memory or disk space to release."""
        return self.used > 0 or self._file is not None

    def fits(self, size: int) -> bool:
        """Return True if ``size`` bytes more may be kept; borrow the missing bytes, if there is so much."""
        missing = self.used + size - self.limit
        if missing > 0 and not self._strict:
            lent = self._manager.lend(missing, _LENT * self.grain)
            self.limit += lent
            missing -= lent
        return missing <= 0

    def reserve(self, size: int) -> None:
        """Count memory in use from now on."""
        self.used += size
        self._manager.count(size)

    def release(self, size: int | None = None) -> None:
        """Count off dropped memory; everything by default."""
        size = self.used if size is None else min(size, self.used)
        self.used -= size
        self._manager.count(-size)
        if self.limit > self.own and self.used <= self.own:
            self._manager.take_back(self.limit - self.own)
            self.limit = self.own

    def measure(self, size: int) -> None:
        """Set the memory in use to ``size`` bytes: the reservation was an estimate."""
        self.reserve(size - self.used) if size >= self.used else self.release(self.used - size)

    def file(self) -> SpillFile:
        """Return the spill file of this share, made when it is first needed."""
        if self._file is None:
            self._file = self._manager.space.file(self.operator)
        return self._file

    def close(self) -> None:
        """Release the memory and the disk space."""
        self.release()
        if self._file is not None:
            self._file.close()
            self._file = None


# ---- Blocks that wait: a queue that is read once, a cache that is read any number of times. Both spill beyond
# their share.
#
# The cache borrows for it first; a queue does not, as a block on disk costs it one way there and back.


class BlockQueue:
    """First in, first out. A block that is too much for the share goes to disk, and keeps its place.

    >>> from funken.dataset.memory.manager import MemoryManager
    >>> from funken.io.spill import SpillSpace
    >>> memory = MemoryManager(4096, 1, SpillSpace())
    >>> queue = BlockQueue(memory.share("exchange"))
    >>> for n in range(10):
    ...     queue.put([n] * 1000)
    >>> memory.peak <= 4096, memory.space.files
    (True, 1)
    >>> sum(sum(queue.get()) for _ in range(len(queue)))
    45000
    """

    def __init__(self, share: Share) -> None:
        self._share = share
        self._waiting: deque[tuple[Block | bytes, int] | Extent] = deque()
        self._on_disk = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, block: Block) -> None:
        """Append a block."""
        share = self._share
        for part, size in weighed(block, share.grain):
            if share.used + size > share.limit:
                self._waiting.append(share.file().write(part))
                self._on_disk += 1
            else:
                share.reserve(size)
                self._waiting.append((part, size))

    def put_serialised(self, data: bytes, records: int) -> None:
        """Append a block that is serialised already; it is kept so until it is read."""
        share = self._share
        if share.used + len(data) > share.limit:
            self._waiting.append(share.file().append(data, records))
            self._on_disk += 1
        else:
            share.reserve(len(data))
            self._waiting.append((data, len(data)))

    def get(self) -> Block:
        """Remove and return the oldest block."""
        first = self._waiting.popleft()
        if isinstance(first, Extent):
            file = self._share.file()
            found = file.read(first)
            self._on_disk -= 1
            if not self._on_disk:
                file.rewind()  # the file is never larger than what waited at a time
            return found
        block, size = first
        self._share.release(size)
        return load(block) if isinstance(block, bytes) else block

    def close(self) -> None:
        """Drop everything."""
        self._waiting.clear()
        self._share.close()


class BlockCache:
    """Blocks that are read again and again, in the order in which they came.

    >>> from funken.dataset.memory.manager import MemoryManager
    >>> from funken.io.spill import SpillSpace
    >>> cache = BlockCache(MemoryManager(4096, 1, SpillSpace()).share("cross"), [[1, 2], [3]])
    >>> list(cache), list(cache), cache.records
    ([[1, 2], [3]], [[1, 2], [3]], 3)
    """

    def __init__(self, share: Share, blocks: Iterable[Block] = ()) -> None:
        self._share = share
        self._kept: list[Block | Extent] = []
        self.records = 0
        self.size = 0
        for block in blocks:
            self.add(block)

    def add(self, block: Block) -> None:
        """Append a block."""
        share = self._share
        self.records += len(block)
        for part, size in weighed(block, share.grain) if block else ():
            self.size += size
            if not share.fits(size):
                self._kept.append(share.file().write(part))
            else:
                share.reserve(size)
                self._kept.append(part)

    def __iter__(self) -> Iterator[Block]:
        for kept in self._kept:
            yield self._share.file().read(kept) if isinstance(kept, Extent) else kept

    def clear(self) -> None:
        """Drop the blocks; the share may be used again."""
        self._kept.clear()
        self._share.release()

    def close(self) -> None:
        """Drop everything."""
        self._kept.clear()
        self._share.close()
