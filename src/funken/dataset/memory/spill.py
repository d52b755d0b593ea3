"""Spill files of blocks of records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from funken.dataset.memory.blocks import Block, dump, load
from funken.io.spill import ByteSpill, ByteSpillSpace, Extent


class SpillSpace(ByteSpillSpace):
    """The folders that a job spills to, and how much it did.

    >>> with SpillSpace() as space:
    ...     file = space.file("sort")
    ...     extent = file.write([1, 2, 3])
    ...     file.read(extent), space.files, space.spilled > 0
    ([1, 2, 3], 1, True)
    """

    def file(self, operator: str) -> SpillFile:
        """Make a file for an operator; the folders take turns."""
        found = super().file(operator)
        assert isinstance(found, SpillFile)
        return found

    def _make(self, handle: Any, operator: str, directory: str) -> SpillFile:
        return SpillFile(self, handle, operator, directory)


class SpillFile(ByteSpill):
    """One file of blocks; reading does not move anything, so several readers may be under way."""

    def write(self, block: Block) -> Extent:
        """Append a block; raise ``DiskFull`` if there is no space for it."""
        return self.append(dump(block), len(block))

    def read(self, extent: Extent) -> Block:
        """Return the block of an extent."""
        return load(self.bytes_of(extent))

    def blocks(self, extents: Iterable[Extent]) -> Iterator[Block]:
        """Return the blocks of extents, one after the other."""
        return map(self.read, extents)


__all__ = ["Extent", "SpillFile", "SpillSpace"]
