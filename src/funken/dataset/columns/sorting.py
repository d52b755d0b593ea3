"""External merge sort: runs are sorted in memory, written when the share is full, and merged block by block.

Blocks of columns stay columns as long as all have the same, with values that have an order (no NaN). The first other block makes
records of everything, run by run.

Invariant: what was taken is in ``runs`` and then ``waiting``, in the order in which it came, so the sort is stable. A merge never
has more runs open than there is memory for two blocks of each; with more runs it goes in passes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from funken.dataset.columns.block import OrderLeaves, block_of, columns_in, ordered_columns, put_together
from funken.dataset.memory.manager import BLOCK_RECORDS, Block, Share, weighed, weight
from funken.dataset.plan.keys import Descending, Order
from funken.io.spill import Extent

_EMITTED = 1 << 14
"""Records of an emitted block of columns."""

_BLOCKS = 128
"""A block of a run is at most one of so many parts of the share, of columns, which are there twice, of four times as many."""

Run = list[tuple[Extent, Any]]
"""The blocks of a sorted run, each with the key of its last record."""


class ExternalSorter:
    """Sorts any number of records in a share of memory; ``combine`` may shrink each sorted run before it is written.

    >>> from funken.dataset.memory.manager import MemoryManager
    >>> from funken.io.spill import SpillSpace
    >>> memory = MemoryManager(8192, 1, SpillSpace())
    >>> sorter = ExternalSorter(memory.share("sort"), Order([lambda block: block], [False]))
    >>> for n in range(50):
    ...     sorter.add(list(range(n, 10_000, 50)))
    >>> [n for block in sorter.blocks() for n in block] == list(range(10_000)), memory.peak < 8192 * 1.2, memory.space.files
    (True, True, 1)
    """

    def __init__(self, share: Share, order: Order, combine: Callable[[Block], Iterable[Any]] | None = None) -> None:
        self._share = share
        self._order = order
        self._combine = combine
        self._waiting: list[Block] = []
        self._runs: list[Run] = []
        self._schema: Any = None
        #: the columns that the order compares; none: not known yet, ``None``: records are sorted
        self._leaves: OrderLeaves | None = [] if combine is None else None

    @property
    def _copies(self) -> int:
        """Number of copies of columns while they are sorted or merged; of records there are references."""
        return 2 if self._leaves else 1

    @property
    def _block(self) -> int:
        """The weight of the blocks of runs: small, so that many runs are merged at once."""
        return max(256, self._share.own // (4 * _BLOCKS if self._leaves else _BLOCKS))

    def add(self, block: Block) -> None:
        """Take a block."""
        if not len(block):
            return
        if self._leaves is not None and not self._takes(block):
            self._to_records()
        share, copies = self._share, self._copies
        for part, size in weighed(block if self._leaves else list(block), share.grain):
            if self._waiting and not share.fits(copies * size):
                self._spill()
            share.reserve(copies * size)
            self._waiting.append(part)

    def _takes(self, block: Block) -> bool:
        found = ordered_columns(block, self._order)
        if found is None or (self._leaves and found[0].schema != self._schema):
            return False
        self._schema, self._leaves = found[0].schema, found[1]
        return True

    def _to_records(self) -> None:
        runs, waiting = self._runs, self._waiting
        self._runs, self._waiting, self._leaves = [], [], None
        self._share.release()
        for run in runs:
            for block in self._share.file().blocks(extent for extent, _ in run):
                self.add(block)
        for block in waiting:
            self.add(block)

    def _sorted(self, parts: list[Block]) -> Block:
        whole = put_together(parts)
        if not self._leaves:
            return self._order.sorted(whole)
        from funken.columnar.keyed.relational import ordered  # noqa: PLC0415 - loads NumPy

        columns = columns_in(whole)
        assert columns is not None
        return block_of(ordered(columns, self._leaves))

    def _taken(self) -> Block:
        """Remove and return waiting records, in order."""
        waiting, self._waiting = self._sorted(self._waiting), []
        return waiting if self._combine is None else list(self._combine(waiting))

    def _spill(self) -> None:
        self._runs.append(self._write([self._taken()]))
        self._share.release()

    def _write(self, blocks: Iterable[Block]) -> Run:
        file = self._share.file()
        return [(file.write(part), self._key(part, len(part) - 1)) for part in self._small(blocks)]

    def _small(self, blocks: Iterable[Block]) -> Iterator[Block]:
        """Cut into blocks of runs: of columns all that fits, or there would be more to merge."""
        most = self._block
        for block in blocks if self._leaves else _cut(blocks):
            if self._leaves:
                step = max(1, len(block) * most // max(1, weight(block)))
                yield from (block[at : at + step] for at in range(0, len(block), step))
            else:
                yield from (part for part, _ in weighed(block, most))

    def _key(self, block: Block, at: int) -> Any:
        """Return a key that compares as a record does."""
        columns = columns_in(block)
        if columns is None:
            return self._order.keys([block[at]])[0]
        from funken.columnar.keyed.relational import values_at  # noqa: PLC0415 - loads NumPy

        leaves = self._leaves or []
        values = values_at(columns, [leaf for leaf, _ in leaves], at)
        return tuple(
            Descending(value) if descending else value for value, (_, descending) in zip(values, leaves, strict=True)
        )

    def blocks(self) -> Iterator[Block]:
        """Return everything in order; takes no more records afterwards."""
        if not self._runs:
            if self._waiting:
                yield from _cut([self._taken()])
            return
        if self._waiting:
            self._spill()
        fan_in = max(2, self._share.limit // (2 * self._copies * self._block) - 1)
        runs = self._runs
        while len(runs) > fan_in:
            runs = [self._write(self._merge(runs[at : at + fan_in])) for at in range(0, len(runs), fan_in)]
        yield from _cut(self._merge(runs))

    def _merge(self, runs: list[Run]) -> Iterator[Block]:
        """Take as many blocks as there are runs at a time, in the order of last keys, and lower records of others."""
        opened = 2 * self._copies * len(runs) * self._block
        self._share.reserve(opened)
        heads = [_Head(self._share, run, self._key) for run in runs]
        order = [(last, number, place) for number, run in enumerate(runs) for place, (_, last) in enumerate(run)]
        order.sort()
        try:
            for at in range(0, len(order), len(runs)):
                whole = [0] * len(runs)
                group = order[at : at + len(runs)]
                for _, number, place in group:
                    whole[number] = place + 1
                bound, first, _ = group[-1]
                # What equals the bound in later runs waits for what is left of it in the run that has the bound.
                parts = [
                    part
                    for number, head in enumerate(heads)
                    for part in head.take(whole[number], bound, number <= first)
                ]
                if parts:
                    yield self._sorted(parts)
        finally:
            self._share.release(opened)

    def close(self) -> None:
        """Drop everything."""
        self._waiting, self._runs = [], []
        self._share.close()


class _Head:
    """The unmerged rest of a run; the rest of one block is in memory."""

    def __init__(self, share: Share, run: Run, key: Callable[[Block, int], Any]) -> None:
        self._share = share
        self._run = run
        self._key = key
        self._read = 0
        self._rest: Block | None = None

    def _next(self) -> Block:
        self._read += 1
        return self._share.file().read(self._run[self._read - 1][0])

    def take(self, whole: int, bound: Any, equal: bool) -> Iterator[Block]:
        """Remove and return so many blocks of the run, and the next one's records below (or equal to) a key."""
        if self._rest is not None and whole >= self._read:
            yield self._rest
            self._rest = None
        while self._read < whole:
            yield self._next()
        if self._rest is None and self._read < len(self._run):
            self._rest = self._next()
        if self._rest is not None:
            low = self._below(self._rest, bound, equal)
            if low:
                yield self._rest[:low]
                self._rest = self._rest[low:] if low < len(self._rest) else None

    def _below(self, block: Block, bound: Any, equal: bool) -> int:
        low, high = 0, len(block)
        while low < high:
            middle = (low + high) // 2
            key = self._key(block, middle)
            if key < bound or (equal and key == bound):
                low = middle + 1
            else:
                high = middle
        return low


def _cut(blocks: Iterable[Block]) -> Iterator[Block]:
    for block in blocks:
        step = BLOCK_RECORDS if columns_in(block) is None else _EMITTED
        yield from (block[at : at + step] for at in range(0, len(block), step))
