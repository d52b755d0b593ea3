"""Hash partitions on disk: how aggregation and join cut what does not fit into parts that do, as columns or as records.

Each level uses other bits of the hash, so that a partition which is too large can be cut again. Both forms of a block have the
same partitions.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence

from funken.dataset.columns.block import put_together
from funken.dataset.columns.keys import dealt_out
from funken.dataset.memory.blocks import Block, weighed
from funken.dataset.memory.manager import Share
from funken.dataset.memory.order import Column
from funken.dataset.memory.spill import Extent
from funken.state.keygroups import stable_hash

FAN_OUT = 16
MAX_LEVEL = 6
"""After so many levels the hashes have no bits left: what is together then has equal keys, or nearly so."""

_GATHERED = 4
"""The partitions together gather at most one of so many parts of their share before they write."""


def partition_of(key: Hashable, level: int) -> int:
    """Return the partition of a key at a level, independent of the one that an exchange computes from the hash.

    >>> len({partition_of(n, 0) for n in range(1000)})
    16
    """
    mixed = ((stable_hash(key) ^ 0x9E3779B9) * 0x9E3779B97F4A7C15) & 0xFFFFFFFFFFFFFFFF
    return (mixed >> (36 + 4 * level)) & 15


def cut(block: Block, keys: Column, level: int) -> Sequence[Block]:
    """Cut a block into the partitions of a level, of which some are empty.

    >>> parts = cut(list(range(1000)), lambda block: block, 0)
    >>> len(parts), sum(map(len, parts)), all(map(len, parts))
    (16, 1000, True)
    """
    dealt = dealt_out(block, keys, FAN_OUT, level)
    if dealt is not None:
        return dealt
    parts: list[Block] = [[] for _ in range(FAN_OUT)]
    for record, key in zip(block, keys(block), strict=True):
        parts[partition_of(key, level)].append(record)
    return parts


class SpilledBlocks:
    """The blocks of one partition in the spill file of a share; small ones are put together before they are written.

    >>> from funken.dataset.memory.manager import MemoryManager
    >>> from funken.dataset.memory.spill import SpillSpace
    >>> memory = MemoryManager(64 * 1024, 1, SpillSpace())
    >>> spilled = SpilledBlocks(memory.share("join"))
    >>> for start in range(0, 1000, 10):
    ...     spilled.add(list(range(start, start + 10)), 128)
    >>> [len(block) for block in spilled.blocks()][:3], spilled.records, memory.used
    ([80, 80, 80], 1000, 0)
    """

    def __init__(self, share: Share) -> None:
        self._share = share
        self._most = max(256, share.own // (_GATHERED * FAN_OUT))
        self._waiting: list[Block] = []
        self._size = 0
        self._extents: list[Extent] = []
        self.records = 0

    def add(self, block: Block, estimate: int = 0) -> None:
        """Append a block; what a list weighs is estimated."""
        size: int = getattr(block, "size", estimate)
        self._waiting.append(block)
        self._size += size
        self._share.reserve(size)
        self.records += len(block)
        if self._size >= self._most:
            self.flush()

    def flush(self) -> None:
        """Write what was gathered."""
        if self._waiting:
            file, grain = self._share.file(), self._share.grain
            self._extents += [file.write(part) for part, _ in weighed(put_together(self._waiting), grain)]
        self._waiting = []
        self._share.release(self._size)
        self._size = 0

    def blocks(self) -> Iterator[Block]:
        """Return everything, in the order in which it came."""
        self.flush()
        return self._share.file().blocks(self._extents) if self._extents else iter(())
