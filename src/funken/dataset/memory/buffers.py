"""Blocks that wait: a queue that is read once, a cache that is read any number of times. Both spill beyond their share.

The cache borrows for it first; a queue does not, as a block on disk costs it one way there and back.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

from funken.dataset.memory.blocks import Block, load, weighed
from funken.dataset.memory.manager import Share
from funken.dataset.memory.spill import Extent


class BlockQueue:
    """First in, first out. A block that is too much for the share goes to disk, and keeps its place.

    >>> from funken.dataset.memory.manager import MemoryManager
    >>> from funken.dataset.memory.spill import SpillSpace
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
    >>> from funken.dataset.memory.spill import SpillSpace
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
