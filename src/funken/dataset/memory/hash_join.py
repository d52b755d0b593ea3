"""The solution set of a delta iteration: the entries of one subtask by key, within a share of the memory."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Any

from funken.dataset.memory.manager import Block, Share, blocks_of, weight
from funken.errors import StateTooLarge


class SolutionSet:
    """A table that is looked up and updated; it does not spill.

    >>> from funken.dataset.memory.manager import MemoryManager
    >>> from funken.dataset.memory.manager import SpillSpace
    >>> solution = SolutionSet(MemoryManager(4096, 1, SpillSpace()).share("solution set"))
    >>> solution.put([(1, "a"), (2, "b")], [1, 2])
    >>> solution.put([(1, "c")], [1])
    >>> solution.get(1), solution.get(3), list(solution.blocks())
    ((1, 'c'), None, [[(1, 'c'), (2, 'b')]])
    """

    def __init__(self, share: Share) -> None:
        self._share = share
        self._entries: dict[Hashable, Any] = {}
        self.get = self._entries.get

    def put(self, block: Block, keys: list[Hashable]) -> None:
        """Add or replace entries."""
        share = self._share
        size = weight(block)
        self._entries.update(zip(keys, block, strict=True))
        share.reserve(size)
        if share.used > share.limit:  # replaced entries were counted, too: measure what is there
            share.measure(sum(map(weight, self.blocks())))
            if not share.fits(0):
                raise StateTooLarge(
                    f"operator {share.operator!r}: the solution set of a subtask has {share.used:,} bytes in "
                    f"{len(self._entries):,} entries, but its share of the memory is {share.limit:,}. "
                    "Raise execution.memory.managed, or the parallelism."
                )

    def blocks(self) -> Iterator[Block]:
        """Return the entries."""
        return blocks_of(self._entries.values())

    def close(self) -> None:
        """Drop everything."""
        self._entries.clear()
        self._share.close()
