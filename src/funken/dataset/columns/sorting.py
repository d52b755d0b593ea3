"""External merge sort of columns: runs are sorted in memory, written when the share is full, and merged block by block.

Invariant: what was taken is in ``runs`` and then ``waiting``, in the order in which it came, so the sort is stable. The first
block that is no columns, has other columns, or has values without an order (NaN) sends everything to the sorter of records,
run by run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from funken.dataset.columns.block import block_of, columns_in
from funken.dataset.columns.keys import OrderLeaves, ordered_columns
from funken.dataset.memory.blocks import Block, weighed, weight
from funken.dataset.memory.manager import Share
from funken.dataset.memory.order import Descending, Order
from funken.dataset.memory.sorter import ExternalSorter
from funken.dataset.memory.spill import Extent

if TYPE_CHECKING:
    from funken.columnar.kernels.columns import Columns

_EMITTED = 1 << 14
"""Records of an emitted block."""

_COPIES = 2
"""Columns are there twice while they are sorted or merged."""

_BLOCKS = 512
"""A block of a run is at most one of so many parts of the share; a quarter as many runs are merged at once."""

Run = list[tuple[Extent, Any]]
"""The blocks of a sorted run, each with the key of its last record."""


class ColumnSorter:
    """Sorts any number of records in a share of memory, as columns if all are.

    >>> from funken.expr.types import INT
    >>> from funken.columnar.kernels.columns import columns_of
    >>> from funken.dataset.memory.manager import MemoryManager
    >>> from funken.dataset.memory.spill import SpillSpace
    >>> from funken.dataset.plan.keys import SortField, order_of
    >>> memory = MemoryManager(8192, 1, SpillSpace())
    >>> sorter = ColumnSorter(memory.share("sort"), order_of((SortField(()),), "sort"))
    >>> for n in range(50):
    ...     sorter.add(block_of(columns_of(list(range(n, 10_000, 50)), INT)))
    >>> [n for block in sorter.blocks() for n in block] == list(range(10_000)), memory.peak < 8192 * 1.2, memory.space.files
    (True, True, 1)
    """

    def __init__(self, share: Share, order: Order) -> None:
        self._share = share
        self._order = order
        self._waiting: list[Columns] = []
        self._runs: list[Run] = []
        self._schema: Any = None
        self._leaves: OrderLeaves = []
        self._records: ExternalSorter | None = None

    def add(self, block: Block) -> None:
        """Take a block."""
        if self._records is None and not self._take(block):
            self._pour()
        if self._records is not None:
            self._records.add(block)

    def _take(self, block: Block) -> bool:
        found = ordered_columns(block, self._order) if len(block) else None
        if found is None or (self._leaves and found[0].schema != self._schema):
            return not len(block)
        self._schema, self._leaves = found[0].schema, found[1]
        share = self._share
        for part, size in weighed(block, share.grain):
            if self._waiting and not share.fits(_COPIES * size):
                self._spill()
            share.reserve(_COPIES * size)
            columns = columns_in(part)
            assert columns is not None
            self._waiting.append(columns)
        return True

    def _sorted(self, parts: list[Columns]) -> Columns:
        from funken.columnar.kernels.columns import joined  # noqa: PLC0415 - loads NumPy
        from funken.columnar.keyed.relational import ordered  # noqa: PLC0415 - loads NumPy

        return ordered(joined(parts), self._leaves)

    def _spill(self) -> None:
        self._runs.append(self._write([self._sorted(self._waiting)]))
        self._waiting = []
        self._share.release()

    @property
    def _block(self) -> int:
        """How heavy the blocks of runs are: small, so that many runs are merged at once."""
        return max(256, self._share.own // _BLOCKS)

    def _write(self, blocks: Iterable[Columns]) -> Run:
        file, most = self._share.file(), self._block
        run: Run = []
        for columns in blocks:
            size = weight(block_of(columns))
            step = max(1, columns.length * most // max(1, size))
            for at in range(0, columns.length, step):
                part = columns[at : at + step]
                run.append((file.write(block_of(part)), _key(part, self._leaves, part.length - 1)))
        return run

    def _pour(self) -> None:
        self._records = sorter = ExternalSorter(self._share, self._order)
        runs, waiting = self._runs, self._waiting
        self._runs, self._waiting = [], []
        self._share.release()
        for run in runs:
            for block in self._share.file().blocks(extent for extent, _ in run):
                sorter.add(list(block))
        for columns in waiting:
            sorter.add(columns.to_list())

    def blocks(self) -> Iterator[Block]:
        """Return everything in order; takes no more records afterwards."""
        if self._records is not None:
            yield from self._records.blocks()
            return
        if not self._runs:
            if self._waiting:
                whole, self._waiting = self._sorted(self._waiting), []
                yield from _cut([whole])
            return
        if self._waiting:
            self._spill()
        share = self._share
        fan_in = max(2, share.limit // (2 * _COPIES * self._block) - 1)
        runs = self._runs
        while len(runs) > fan_in:
            runs = [self._write(self._merge(runs[at : at + fan_in])) for at in range(0, len(runs), fan_in)]
        yield from _cut(self._merge(runs))

    def _merge(self, runs: list[Run]) -> Iterator[Columns]:
        """Take as many blocks as there are runs at a time, in the order of their last keys, and what others have below that."""
        opened = 2 * _COPIES * len(runs) * self._block
        self._share.reserve(opened)
        heads = [_Head(self._share, run, self._leaves) for run in runs]
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
        if self._records is not None:
            self._records.close()
        self._share.close()


def _key(columns: Columns, leaves: OrderLeaves, at: int) -> Any:
    """Return what compares as a record does."""
    from funken.columnar.keyed.relational import values_at  # noqa: PLC0415 - loads NumPy

    values = values_at(columns, [leaf for leaf, _ in leaves], at)
    flags = [descending for _, descending in leaves]
    return tuple(Descending(value) if flag else value for value, flag in zip(values, flags, strict=True))


class _Head:
    """What is not yet merged of a run; the rest of one block is in memory."""

    def __init__(self, share: Share, run: Run, leaves: OrderLeaves) -> None:
        self._share = share
        self._run = run
        self._leaves = leaves
        self._read = 0
        self._rest: Columns | None = None

    def _next(self) -> Columns:
        block = self._share.file().read(self._run[self._read][0])
        self._read += 1
        columns = columns_in(block)
        assert columns is not None
        return columns

    def take(self, whole: int, bound: Any, equal: bool) -> Iterator[Columns]:
        """Remove and return so many blocks of the run, and of the next what is below a key, or equals it if that is wanted."""
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
                self._rest = self._rest[low:] if low < self._rest.length else None

    def _below(self, columns: Columns, bound: Any, equal: bool) -> int:
        low, high = 0, columns.length
        while low < high:
            middle = (low + high) // 2
            key = _key(columns, self._leaves, middle)
            if key < bound or (equal and key == bound):
                low = middle + 1
            else:
                high = middle
        return low


def _cut(blocks: Iterable[Columns]) -> Iterator[Block]:
    for columns in blocks:
        for at in range(0, columns.length, _EMITTED):
            yield block_of(columns[at : at + _EMITTED])
