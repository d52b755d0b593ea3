"""External merge sort: runs are sorted in memory, written when the share is full, and merged as they are read.

A merge never has more runs open than there is memory for one block of each; with more runs it goes in passes. The sort
is stable: records with equal keys come out in the order in which they went in.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator
from operator import itemgetter
from typing import Any

from funken.dataset.memory.blocks import Block, blocks_of, weighed
from funken.dataset.memory.manager import Share
from funken.dataset.memory.order import Order
from funken.dataset.memory.spill import Extent

Run = list[Extent]


class ExternalSorter:
    """Sorts any number of records in a share of memory; ``combine`` may shrink each sorted run before it is written.

    >>> from funken.dataset.memory.manager import MemoryManager
    >>> from funken.dataset.memory.spill import SpillSpace
    >>> memory = MemoryManager(8192, 1, SpillSpace())
    >>> sorter = ExternalSorter(memory.share("sort"), Order([lambda block: block], [False]))
    >>> for n in range(50):
    ...     sorter.add(list(range(n, 10_000, 50)))
    >>> [n for block in sorter.blocks() for n in block] == list(range(10_000)), memory.peak < 8192 * 1.2
    (True, True)
    >>> memory.space.files
    1
    """

    def __init__(self, share: Share, order: Order, combine: Callable[[Block], Iterable[Any]] | None = None) -> None:
        self._share = share
        self._order = order
        self._combine = combine
        self._records: Block = []
        self._runs: list[Run] = []

    def add(self, block: Block) -> None:
        """Take a block."""
        share = self._share
        for part, size in weighed(block, share.grain) if block else ():
            if self._records and not share.fits(size):
                self._spill()
            share.reserve(size)
            self._records += part

    def _sorted(self) -> Iterable[Any]:
        records = self._order.sorted(self._records)
        return records if self._combine is None else self._combine(records)

    def _spill(self) -> None:
        self._runs.append(self._write(self._sorted()))
        self._records = []
        self._share.release()

    def _write(self, records: Iterable[Any]) -> Run:
        file, grain = self._share.file(), self._share.grain
        return [file.write(part) for block in blocks_of(records) for part, _ in weighed(block, grain)]

    def blocks(self) -> Iterator[Block]:
        """Return everything in order; takes no more records afterwards."""
        if not self._runs:
            yield from blocks_of(self._sorted())
            return
        if self._records:
            self._spill()
        share = self._share
        fan_in = max(2, share.limit // share.grain - 1)
        runs = self._runs
        while len(runs) > fan_in:
            runs = [self._write(self._merge(runs[at : at + fan_in])) for at in range(0, len(runs), fan_in)]
        yield from blocks_of(self._merge(runs))

    def _merge(self, runs: list[Run]) -> Iterator[Any]:
        share = self._share
        opened = len(runs) * share.grain
        share.reserve(opened)
        try:
            yield from map(itemgetter(1), heapq.merge(*map(self._read, runs), key=itemgetter(0)))
        finally:
            share.release(opened)

    def _read(self, run: Run) -> Iterator[tuple[Any, Any]]:
        for block in self._share.file().blocks(run):
            yield from zip(self._order.keys(block), block, strict=True)

    def close(self) -> None:
        """Drop everything."""
        self._records = []
        self._runs = []
        self._share.close()
