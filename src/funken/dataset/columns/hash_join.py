"""Hybrid hash join: the build side in a table by key, in partitions once it is too large; the largest go to disk.

A table indexes columns whose key is an int, or records in a dict; a block of another form makes records of the table that it
comes for. Probe blocks of partitions in memory are joined at once. Those of spilled ones are written beside them, and each such
pair is joined by itself in the end, with other bits of the hash. A partition that the hash cannot cut (one key has most of it) is
joined in pieces that fit: its probe side is read once per piece.

Invariant: partitions of columns in memory take at most half of the share, what is gathered for the disk a quarter.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from itertools import chain
from typing import Any

from funken.dataset.columns.block import block_of, columns_in
from funken.dataset.columns.joining import ColumnTable, Found, cost_of, int_leaf, poured
from funken.dataset.columns.lifting import lifted
from funken.dataset.columns.partitions import FAN_OUT, MAX_LEVEL, SpilledBlocks, cut
from funken.dataset.memory.blocks import BLOCK_RECORDS, Block, PushBack, blocks_of, weighed
from funken.dataset.memory.manager import Share
from funken.dataset.memory.order import Column
from funken.dataset.plan.keys import KeyColumn

_FEWER = 8
"""The side with that many times fewer records is the one that is indexed."""

Sides = tuple[Column, Column]
"""What extracts the keys of the build side and of the probe side."""


class RowTable:
    """Records of a build side by key, in a dict; ``size`` is what it has reserved of its share."""

    def __init__(self, share: Share, build_keys: Column, keep_build: bool = False) -> None:
        self._share = share
        self._keys = build_keys
        self._keep_build = keep_build
        self._table: dict[Hashable, list[Any]] = {}
        self._matched: set[Hashable] = set()
        self.records = 0
        self.size = 0

    def takes(self, block: Block) -> bool:
        """Return True: blocks of columns become records."""
        return True

    def append(self, block: Block, cost: int) -> None:
        """Take a block."""
        self._share.reserve(cost)
        self.size += cost
        self.records += len(block)
        table = self._table
        get = table.get
        for record, key in zip(block, self._keys(block), strict=True):
            partners = get(key)
            if partners is None:
                table[key] = [record]
            else:
                partners.append(record)

    def fill(self, blocks: PushBack) -> None:
        """Take blocks as long as there is memory, but one part of a block in any case."""
        for block in blocks:
            parts = list(weighed(list(block), self._share.grain))
            for at, (part, size) in enumerate(parts):
                if self.records and not self._share.fits(size):
                    blocks.back(left for left, _ in parts[at:])
                    return
                self.append(part, size)

    def taken(self) -> list[Block]:
        """Remove and return the records so far, with the memory given back."""
        blocks = list(blocks_of(chain.from_iterable(self._table.values())))
        self.clear()
        return blocks

    def begin(self) -> None:
        """Begin with a probe side: no record of the build side has a partner yet."""
        self._matched = set()

    def highest(self) -> Any:
        """Return the last key, of records that came in its order."""
        return next(reversed(self._table))

    def joined(self, block: Block, keys: Column, keep_probe: bool = False) -> Iterator[Found]:
        """Return the pairs of a block; with ``keep_probe`` also what has no partner."""
        if not self.records:
            if keep_probe:
                columns = columns_in(block)
                yield [(record, None) for record in block] if columns is None else (None, columns)
            return
        # Hot: once per block; a lookup per probe record, an append per pair.
        get, keep_build, matched = self._table.get, self._keep_build, self._matched
        pairs: list[tuple[Any, Any]] = []
        for record, key in zip(block, keys(block), strict=True):
            partners = get(key)
            if partners is not None:
                if keep_build:
                    matched.add(key)
                if len(partners) == 1:
                    pairs.append((record, partners[0]))
                else:
                    for partner in partners:
                        pairs.append((record, partner))
                        if len(pairs) >= BLOCK_RECORDS:
                            yield pairs
                            pairs = []
            elif keep_probe:
                pairs.append((record, None))
        if pairs:
            yield pairs

    def unmatched(self) -> Iterator[Found]:
        """Return the build records that no probe record has matched."""
        alone = (records for key, records in self._table.items() if key not in self._matched)
        for block in blocks_of(chain.from_iterable(alone)):
            yield [(None, record) for record in block]

    def clear(self) -> None:
        """Drop the records."""
        self._table, self._matched = {}, set()
        self._share.release(self.size)
        self.records = self.size = 0


Table = RowTable | ColumnTable


def table_of(share: Share, sides: Sides, block: Block, keep_build: bool = False) -> Table:
    """Return a table that takes a block."""
    columns, keys = columns_in(block), [side.key for side in sides if isinstance(side, KeyColumn)]
    if columns is not None and len(keys) == 2 and int_leaf(columns, keys[0]) is not None:
        return ColumnTable(share, keys[0], keys[1], keep_build)
    return RowTable(share, sides[0], keep_build)


class _Partition:
    """One part of the build side: a table in memory, or blocks on disk and the probe records that wait for them."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.build: SpilledBlocks | None = None
        self.probe: SpilledBlocks | None = None


class HashJoin:
    """Joins by equal keys. ``keep_probe`` and ``keep_build`` emit records without a partner, paired with None.

    ``probe`` may be called again with other records, as long as ``reusable`` is set: the build side stays.

    >>> from funken.dataset.memory.manager import MemoryManager
    >>> from funken.dataset.memory.spill import SpillSpace
    >>> memory = MemoryManager(16384, 1, SpillSpace())
    >>> keys = lambda block: [record[0] for record in block]
    >>> join = HashJoin(memory.share("join"), keys, keys, keep_probe=True)
    >>> for start in range(0, 10_000, 1000):
    ...     join.build([(n, "b") for n in range(start, start + 1000)])
    >>> pairs = [pair for block in join.probe([[(n, "p") for n in range(9_999, 10_002)]]) for pair in block]
    >>> sorted(pairs, key=str)
    [((10000, 'p'), None), ((10001, 'p'), None), ((9999, 'p'), (9999, 'b'))]
    >>> memory.space.files, memory.peak < 16384 * 1.2
    (2, True)
    """

    def __init__(
        self,
        share: Share,
        build_keys: Column,
        probe_keys: Column,
        keep_probe: bool = False,
        keep_build: bool = False,
        reusable: bool = False,
        level: int = 0,
    ) -> None:
        self._share = share
        self._sides: Sides = build_keys, probe_keys
        self._keep_probe, self._keep_build = keep_probe, keep_build
        self._reusable = reusable
        self._level = level
        self._whole = _Partition(RowTable(share, build_keys, keep_build))
        self._partitions: list[_Partition] = []
        self._records = 0

    # ---- build

    def build(self, block: Block) -> None:
        """Take a block of the build side; all of them come before the first probe."""
        for part, size in weighed(block, self._share.grain) if len(block) else ():
            cost = size if columns_in(part) is None else cost_of(part)
            self._records += len(part)
            if not self._partitions and not self._share.fits(cost):
                self._split()
            if not self._partitions:
                self._append(self._whole, part, cost)
                continue
            self._make_space(cost)
            for partition, own in zip(self._partitions, cut(part, self._sides[0], self._level), strict=True):
                if len(own):
                    self._append(partition, own, cost * len(own) // len(part) + 1)

    def _append(self, partition: _Partition, block: Block, cost: int) -> None:
        table = partition.table
        if partition.build is not None:
            partition.build.add(block, cost)
        elif table.records and not table.takes(block):
            self._to_records(partition)
            self._records -= len(block)
            self.build(block)
        else:
            if not table.records:
                table = partition.table = table_of(self._share, self._sides, block, self._keep_build)
            table.append(block, cost)

    def _to_records(self, partition: _Partition) -> None:
        """Make records of a partition in memory, for a block of another form comes."""
        parts = partition.table.taken()
        partition.table = RowTable(self._share, self._sides[0], self._keep_build)
        self._records -= sum(map(len, parts))
        for part in parts:
            columns = columns_in(part)
            for records in [part] if columns is None else poured([columns]):
                self.build(records)

    def _make_space(self, cost: int) -> None:
        share = self._share
        while True:
            largest = max(self._partitions, key=lambda partition: partition.table.size)
            kept = sum(each.table.size for each in self._partitions if isinstance(each.table, ColumnTable))
            if not largest.table.size or share.fits(cost if kept <= share.limit // 2 else cost + kept):
                return
            self._spill(largest)

    def _split(self) -> None:
        self._records -= self._whole.table.records
        parts = self._whole.table.taken()
        self._partitions = [_Partition(RowTable(self._share, self._sides[0])) for _ in range(FAN_OUT)]
        while parts:
            self.build(parts.pop(0))

    def _spill(self, partition: _Partition) -> None:
        size, records = partition.table.size, partition.table.records
        partition.build = SpilledBlocks(self._share)
        for block in partition.table.taken():
            partition.build.add(block, size * len(block) // records)

    # ---- probe

    def probe(self, blocks: Iterable[Block]) -> Iterator[Found]:
        """Join these records; with ``keep_build`` also emit, at the end, the build records that none of them matched."""
        every = self._partitions or [self._whole]
        spilled = [(each, each.build) for each in every if each.build is not None]
        # A file of their own: the build side may stay for many supersteps, the probe side is read once.
        scratch = self._share.part(2) if spilled else None
        for each in every:
            each.table.begin()
        for each, build in spilled:
            build.flush()
            assert scratch is not None
            each.probe = SpilledBlocks(scratch)
        lifts = any(isinstance(each.table, ColumnTable) for each in every)
        try:
            for block in blocks:
                columns = lifted(block) if lifts and columns_in(block) is None else None
                yield from self._probed(block if columns is None else block_of(columns))
            for each in every:
                if self._keep_build:
                    yield from each.table.unmatched()
                if not self._reusable:
                    each.table.clear()
            for each, _ in spilled:
                assert each.probe is not None
                each.probe.flush()
            for each, build in spilled:
                assert each.probe is not None
                if each.probe.records or self._keep_build:
                    yield from self._join_spilled(build, each.probe)
        finally:
            for each, _ in spilled:
                each.probe = None
            if scratch is not None:
                scratch.close()

    def _probed(self, block: Block) -> Iterator[Found]:
        keys, keep = self._sides[1], self._keep_probe
        if not self._partitions:
            yield from self._whole.table.joined(block, keys, keep)
            return
        whole = columns_in(block) is not None or not block
        for part, size in [(block, 0)] if whole else weighed(block, self._share.grain):
            for partition, own in zip(self._partitions, cut(part, keys, self._level), strict=True):
                if not len(own):
                    continue
                if partition.probe is not None:
                    partition.probe.add(own, size * len(own) // len(part))
                else:
                    yield from partition.table.joined(own, keys, keep)

    def _join_spilled(self, build: SpilledBlocks, probe: SpilledBlocks) -> Iterator[Found]:
        # A reusable table keeps its part of the share: what is left is for one spilled partition at a time.
        share = self._share
        left = Share(share._manager, share.operator, max(share.grain * 2, share.limit - share.used))
        try:
            if probe.records * _FEWER < build.records and not (self._keep_probe or self._keep_build):
                yield from self._the_other_way(left, build, probe)
                return
            if self._level + 1 >= MAX_LEVEL or build.records * 10 >= self._records * 9:
                yield from self._in_pieces(left, build, probe)
                return
            part = HashJoin(left, *self._sides, self._keep_probe, self._keep_build, level=self._level + 1)
            for block in build.blocks():
                part.build(block)
            yield from part.probe(probe.blocks())
        finally:
            left.close()

    def _pieces(self, share: Share, blocks: SpilledBlocks, sides: Sides) -> Iterator[Table]:
        """Return tables of parts that fit."""
        rest = PushBack(blocks.blocks())
        while (first := next(rest, None)) is not None:
            rest.back([first])
            piece = table_of(share, sides, first, self._keep_build)
            piece.fill(rest)
            yield piece
            piece.clear()

    def _the_other_way(self, share: Share, build: SpilledBlocks, probe: SpilledBlocks) -> Iterator[Found]:
        """Let the build side probe tables of the probe side: so it is read, but not indexed, in each superstep."""
        built, probed = self._sides
        for piece in self._pieces(share, probe, (probed, built)):
            for block in build.blocks():
                for found in piece.joined(block, built):
                    yield [(other, one) for one, other in found] if isinstance(found, list) else (found[1], found[0])

    def _in_pieces(self, share: Share, build: SpilledBlocks, probe: SpilledBlocks) -> Iterator[Found]:
        keep_probe = self._keep_probe
        # Few keys, or the hash would have cut it.
        known = {key for block in build.blocks() for key in keys_of(block, self._sides[0])} if keep_probe else set()
        for piece in self._pieces(share, build, self._sides):
            for block in probe.blocks():
                yield from piece.joined(block, self._sides[1])
                if keep_probe:
                    alone = [at for at, key in enumerate(keys_of(block, self._sides[1])) if key not in known]
                    columns = columns_in(block)
                    yield [(block[at], None) for at in alone] if columns is None else (None, columns.take(alone))
            if self._keep_build:
                yield from piece.unmatched()
            keep_probe = False

    def close(self) -> None:
        """Drop everything."""
        self._whole.table.clear()
        self._partitions = []
        self._share.close()


def keys_of(block: Block, keys: Column) -> Any:
    """Return the keys of a block, of which no records are made if they are a column of ints."""
    columns = columns_in(block)
    leaf = int_leaf(columns, keys.key) if columns is not None and isinstance(keys, KeyColumn) else None
    return keys(block) if columns is None or leaf is None else columns.leaves[leaf].array(columns.length)
