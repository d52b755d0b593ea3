"""Hash aggregation: one accumulated record per key, in a table that goes to disk in partitions when its share is full.

The weight of a table is bounded from above by what was measured last plus all that came in since. Only if the bound
reaches the limit is the table measured again; so a few keys with many records cost no more than their records.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from itertools import islice
from operator import length_hint
from typing import Any, Protocol

from funken.dataset.memory.blocks import Block, blocks_of, weighed, weight
from funken.dataset.memory.manager import Share
from funken.dataset.memory.order import Column
from funken.dataset.memory.partitions import FAN_OUT, MAX_LEVEL, SpilledPartition, partition_of
from funken.errors import FUNCTION_ERRORS, InvalidProgram

Reduce = Callable[[Any, Any], Any]


class ColumnFold(Protocol):
    """Aggregates blocks of columns in front of a table: ``columns/aggregation.py``."""

    def add(self, block: Block) -> bool:
        """Take a block, or return False."""

    def poured(self) -> Iterator[Block]:
        """Return what was aggregated, and begin anew."""

    @property
    def is_full(self) -> bool:
        """Whether the share is used up."""

    @property
    def is_whole(self) -> bool:
        """Whether every key comes once."""

    def partitions(self) -> Iterator[tuple[ColumnFold, Iterator[Block]]]:
        """Return the partitions on disk, each with what aggregates it; no key is in two of them, and none in memory."""


class ReduceFailed(Exception):
    """The function raised; ``record`` is the one that was to be added. The function's exception is the cause."""

    def __init__(self, record: Any) -> None:
        super().__init__(record)
        self.record = record


class HashTable:
    """A table of accumulated records by key, within a share."""

    def __init__(self, share: Share, keys: Column, reduce: Reduce) -> None:
        self._share = share
        self._keys = keys
        self._reduce = reduce
        self.table: dict[Hashable, Any] = {}

    def add(self, block: Block) -> None:
        """Add records to those of their keys."""
        # Hot: once per block; per record a lookup and the user's function.
        table, reduce = self.table, self._reduce
        get, absent = table.get, _ABSENT
        keys = self._keys(block)
        records = iter(block)
        fold_for = getattr(reduce, "fold_for", None)
        fold = fold_for(block) if fold_for is not None else None
        try:
            if fold is not None:
                fold(table, keys, records)
                return
            for key, record in zip(keys, records, strict=True):
                so_far = get(key, absent)
                table[key] = record if so_far is absent else reduce(so_far, record)
        except FUNCTION_ERRORS as error:
            raise ReduceFailed(block[len(block) - length_hint(records) - 1]) from error

    def has_space_for(self, size: int) -> bool:
        """Reserve for ``size`` bytes more; if they do not fit, measure, and say whether they do then."""
        share = self._share
        if share.used + size > share.limit:
            share.measure(sum(weight(block) for block in blocks_of(self.table.values())))
            if self.table and share.used + size > share.limit // 2 and not share.fits(share.used + 2 * size):
                return False
        share.reserve(size)
        return True

    def blocks(self) -> Iterator[Block]:
        """Return the accumulated records; raise ``InvalidProgram`` if one has another key than its group."""
        keys = iter(self.table)
        for block in blocks_of(self.table.values()):
            of_groups = list(islice(keys, len(block)))
            found = self._keys(block)
            if found != of_groups:
                key, own, record = next(
                    (key, own, record) for key, own, record in zip(of_groups, found, block, strict=True) if key != own
                )
                raise InvalidProgram(
                    f"operator {self._share.operator!r}: the function returned {record!r} for the group of the key {key!r}, "
                    f"but the key of that is {own!r}. Keep the key fields of the records that are reduced."
                )
            yield block

    def clear(self) -> None:
        """Drop everything."""
        self.table.clear()
        self._share.release()


_ABSENT = object()


class HashAggregation:
    """Reduces records by key; what does not fit is aggregated in partitions, one after the other.

    >>> from funken.dataset.memory.manager import MemoryManager
    >>> from funken.dataset.memory.spill import SpillSpace
    >>> memory = MemoryManager(8192, 1, SpillSpace())
    >>> add = lambda a, b: (a[0], a[1] + b[1])
    >>> keys = lambda block: [record[0] for record in block]
    >>> sums = HashAggregation(memory.share("sum"), keys, add)
    >>> for n in range(10):
    ...     sums.add([(key, n) for key in range(5000)])
    >>> result = [record for block in sums.blocks() for record in block]
    >>> sorted(result) == [(key, 45) for key in range(5000)], memory.space.files > 0, memory.peak < 8192 * 1.2
    (True, True, True)
    """

    def __init__(
        self, share: Share, keys: Column, reduce: Reduce, level: int = 0, columns: ColumnFold | None = None
    ) -> None:
        self._columns = columns
        self._share = share
        self._keys = keys
        self._reduce = reduce
        self._level = level
        self._table = HashTable(share, keys, reduce)
        self._spilled: list[SpilledPartition] = []

    def add(self, block: Block) -> None:
        """Take a block."""
        columns = self._columns
        if columns is not None:
            taken = columns.add(block)
            if taken and not columns.is_full:
                return
            self._pour()
            if taken:
                return
        self._add(block)

    def _pour(self) -> None:
        columns, self._columns = self._columns, None
        if columns is not None:
            for block in columns.poured():
                self._add(list(block))

    def _add(self, block: Block) -> None:
        share = self._share
        for part, size in weighed(block, share.grain) if block else ():
            if not self._table.has_space_for(size):
                # At the last level keys that differ have equal hashes: there is no smaller part, so they stay together.
                if self._level < MAX_LEVEL:
                    self._spill()
                share.reserve(size)
            self._table.add(part)

    def _spill(self) -> None:
        if not self._spilled:
            self._spilled = [SpilledPartition(self._share) for _ in range(FAN_OUT)]
        parts: list[Block] = [[] for _ in range(FAN_OUT)]
        level = self._level
        for key, record in self._table.table.items():
            parts[partition_of(key, level)].append(record)
        for part, partition in zip(parts, self._spilled, strict=True):
            partition.add(part, 0)
            partition.flush()
        self._table.clear()

    def blocks(self) -> Iterator[Block]:
        """Return one record per key; takes no more records afterwards."""
        if self._columns is not None:
            spilled = False
            for columns, blocks in self._columns.partitions():
                spilled = True
                yield from self._aggregated(blocks, columns)
            if spilled:
                return
            if self._columns.is_whole:
                yield from self._columns.poured()
                return
            self._pour()
        if not self._spilled:
            yield from self._table.blocks()
            return
        self._spill()
        for partition in self._spilled:
            yield from self._aggregated(partition.blocks())

    def _aggregated(self, blocks: Iterator[Block], columns: ColumnFold | None = None) -> Iterator[Block]:
        part = HashAggregation(self._share, self._keys, self._reduce, self._level + 1, columns)
        for block in blocks:
            part.add(block)
        yield from part.blocks()
        part.drop()

    def drop(self) -> None:
        """Drop the table."""
        self._table.clear()

    def close(self) -> None:
        """Drop everything."""
        self._spilled = []
        self.drop()
        self._share.close()


def combined(
    blocks: Iterable[Block], share: Share, keys: Column, reduce: Reduce, columns: ColumnFold | None = None
) -> Iterator[Block]:
    """Reduce records by key as far as memory goes: when the table is full, it is emitted and begun anew."""
    table = HashTable(share, keys, reduce)
    for block in blocks:
        if columns is not None:
            if columns.add(block):
                if columns.is_full:
                    yield from columns.poured()
                continue
            yield from columns.poured()
            columns = None
        for part, size in weighed(block, share.grain) if block else ():
            if not table.has_space_for(size):
                yield from table.blocks()
                table.clear()
                share.reserve(size)
            table.add(part)
    if columns is not None:
        yield from columns.poured()
    yield from table.blocks()
    table.clear()
