"""Hash partitions on disk: how aggregation and join cut what does not fit into parts that do.

Each level of recursion uses other bits of the hash, so that a partition which is too large can be cut again.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator

from funken.dataset.memory.blocks import Block, weighed
from funken.dataset.memory.manager import Share
from funken.dataset.memory.spill import Extent
from funken.state.keygroups import stable_hash

FAN_OUT = 16
MAX_LEVEL = 6
"""After so many levels the hashes have no bits left: what is together then has equal keys, or nearly so."""


def partition_of(key: Hashable, level: int) -> int:
    """Return the partition of a key at a level, independent of the one that an exchange computes from the hash.

    >>> len({partition_of(n, 0) for n in range(1000)})
    16
    """
    mixed = ((stable_hash(key) ^ 0x9E3779B9) * 0x9E3779B97F4A7C15) & 0xFFFFFFFFFFFFFFFF
    return (mixed >> (36 + 4 * level)) & 15


class SpilledPartition:
    """The blocks of one partition in the spill file of a share; small blocks are gathered before they are written."""

    __slots__ = ("_file_of", "_gathered", "_weight", "extents", "records", "size")

    def __init__(self, share: Share) -> None:
        self._file_of = share
        self._gathered: Block = []
        self._weight = 0
        self.extents: list[Extent] = []
        self.records = 0
        self.size = 0

    def add(self, records: Block, estimate: int) -> None:
        """Append records that weigh about ``estimate`` bytes."""
        self._gathered += records
        self._weight += estimate
        self.records += len(records)
        if self._weight * FAN_OUT * 2 >= self._file_of.grain * 8:
            self.flush()

    def flush(self) -> None:
        """Write what was gathered."""
        file, grain = self._file_of.file(), self._file_of.grain
        for part, _ in weighed(self._gathered, grain) if self._gathered else ():
            extent = file.write(part)
            self.size += extent.length
            self.extents.append(extent)
        self._gathered = []
        self._weight = 0

    def blocks(self) -> Iterator[Block]:
        """Return the blocks in the order of writing."""
        self.flush()
        return self._file_of.file().blocks(self.extents)


def split(block: Block, keys: list[Hashable], level: int) -> list[tuple[Block, list[Hashable]]]:
    """Cut a block into the parts of the partitions, each with its keys."""
    parts: list[tuple[Block, list[Hashable]]] = [([], []) for _ in range(FAN_OUT)]
    for record, key in zip(block, keys, strict=True):
        records, its_keys = parts[partition_of(key, level)]
        records.append(record)
        its_keys.append(key)
    return parts
