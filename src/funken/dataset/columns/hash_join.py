"""Hybrid hash join of columns: the build side in a table, in partitions once it is too large; the largest go to disk.

The same as ``memory/hash_join.py`` does record by record. Probe records of partitions in memory are joined at once, those of
spilled ones are written beside them, and each such pair is joined by itself in the end, with other bits of the hash. A
partition that the hash cannot cut is joined in pieces that fit: its probe side is read once per piece.

Invariant: the partitions in memory take at most half of the share, what is gathered for the disk a quarter.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from funken.dataset.columns.block import block_of, columns_in
from funken.dataset.columns.joining import ColumnTable, as_blocks, int_leaf, poured
from funken.dataset.columns.partitions import SpilledColumns, cut_by_hash
from funken.dataset.memory.blocks import Block, Blocks, PushBack, weighed
from funken.dataset.memory.manager import Share
from funken.dataset.memory.partitions import FAN_OUT, MAX_LEVEL
from funken.dataset.plan.keys import Key

if TYPE_CHECKING:
    from funken.columnar.kernels.columns import Columns

Sides = tuple["Columns | None", "Columns | None"]
"""Build records and probe records of pairs; None for the side of which there is no partner."""


_FEWER = 8
"""The side with that many times fewer records is the one that is indexed."""


class _Partition:
    """One part of the build side: a table in memory, or columns on disk and the probe records that wait for them."""

    __slots__ = ("build", "probe", "table")

    def __init__(self, table: ColumnTable) -> None:
        self.table = table
        self.build: SpilledColumns | None = None
        self.probe: SpilledColumns | None = None


class ColumnHashJoin:
    """Joins by equal keys, which are one column of ints. ``keep_probe`` and ``keep_build`` emit what has no partner.

    After ``finish`` another probe side may ``begin``, as long as ``reusable`` is set: the build side stays.

    >>> from funken.expr.types import INT, Tuple
    >>> from funken.columnar.kernels.columns import columns_of
    >>> from funken.dataset.memory.manager import MemoryManager
    >>> from funken.dataset.memory.spill import SpillSpace
    >>> memory, key = MemoryManager(16384, 1, SpillSpace()), Key(((0,),))
    >>> join = ColumnHashJoin(memory.share("join"), key, key, keep_probe=True)
    >>> for start in range(0, 10_000, 1000):
    ...     taken = join.add(block_of(columns_of([(n, 1) for n in range(start, start + 1000)], Tuple((INT, INT)))))
    >>> join.begin()
    >>> probe = block_of(columns_of([(n, 2) for n in range(9_999, 10_002)], Tuple((INT, INT))))
    >>> pairs = [*join.probe(probe), *join.finish()]
    >>> sum(one.length for one, other in pairs if one and other), sum(other.length for one, other in pairs if one is None)
    (1, 2)
    >>> memory.space.files > 0, memory.peak < 16384 * 1.2
    (True, True)
    """

    def __init__(
        self,
        share: Share,
        build_key: Key,
        probe_key: Key,
        keep_probe: bool = False,
        keep_build: bool = False,
        reusable: bool = False,
        level: int = 0,
    ) -> None:
        self._share = share
        self._keys = build_key, probe_key
        self._keep_probe, self._keep_build = keep_probe, keep_build
        self._reusable = reusable
        self._level = level
        self._schema: Any = None
        self._whole = self._table(share)
        self._partitions: list[_Partition] = []
        self._records = 0
        self._scratch: Share | None = None

    def _table(self, share: Share) -> ColumnTable:
        return ColumnTable(share, *self._keys, self._keep_build)

    # ---- build

    def add(self, block: Block) -> bool:
        """Take a block of the build side; return False if it has to be joined record by record."""
        columns = columns_in(block)
        if columns is None or self._schema not in (None, columns.schema) or int_leaf(columns, self._keys[0]) is None:
            return False
        self._schema = columns.schema
        for part, _ in weighed(block, self._share.grain) if len(block) else ():
            self._records += len(part)
            if not self._partitions:
                if self._whole.fits(part):
                    self._whole.append(part)
                    continue
                self._split()
            self._deal(part)
        return True

    def _split(self) -> None:
        parts = self._whole.taken()
        self._partitions = [_Partition(self._table(self._share)) for _ in range(FAN_OUT)]
        while parts:
            self._deal(block_of(parts.pop(0)))

    def _deal(self, block: Block) -> None:
        columns = columns_in(block)
        assert columns is not None
        for partition, part in zip(self._partitions, cut_by_hash(columns, self._keys[0], self._level), strict=True):
            if part is None:
                continue
            if partition.build is not None:
                partition.build.add(part)
            else:
                partition.table.append(block_of(part))
        share = self._share
        while (kept := sum(each.table.size for each in self._partitions)) > share.limit // 2 and not share.fits(kept):
            self._spill(max(self._partitions, key=lambda partition: partition.table.size))

    def _spill(self, partition: _Partition) -> None:
        partition.build = SpilledColumns(self._share)
        for columns in partition.table.taken():
            partition.build.add(columns)

    def poured(self) -> Iterator[Block]:
        """Return the build side as records, with its memory given back."""
        yield from poured(self._whole.taken())
        for partition in self._partitions:
            yield from poured(partition.table.taken() if partition.build is None else partition.build.parts())
        self._partitions = []

    # ---- probe

    def can_probe(self, block: Block) -> bool:
        """Whether the records of a block are joined as columns."""
        columns = columns_in(block)
        return columns is not None and int_leaf(columns, self._keys[1]) is not None and self._records > 0

    def begin(self) -> None:
        """Begin with a probe side: no record of the build side has a partner yet."""
        self._whole.begin()
        for partition in self._partitions:
            partition.table.begin()
            if partition.build is not None:
                partition.build.flush()
                if self._scratch is None:  # a file of its own: the build side may stay, the probe side is read once
                    self._scratch = self._share.part(2)
                partition.probe = SpilledColumns(self._scratch)

    def probe(self, block: Block) -> Iterator[Sides]:
        """Join a block of columns, as far as its partners are in memory."""
        if not self._partitions:
            yield from self._joined(self._whole, block)
            return
        columns = columns_in(block)
        assert columns is not None
        for partition, part in zip(self._partitions, cut_by_hash(columns, self._keys[1], self._level), strict=True):
            if part is None:
                continue
            if partition.probe is not None:
                partition.probe.add(part)
            else:
                yield from self._joined(partition.table, block_of(part))

    def _joined(self, table: ColumnTable, block: Block) -> Iterator[Sides]:
        if not table.records:
            if self._keep_probe:
                yield None, columns_in(block)
            return
        yield from table.pairs(block)
        if self._keep_probe and (alone := table.alone(block)) is not None:
            yield None, alone

    def finish(self) -> Iterator[Sides]:
        """Join what has waited; emit what has no partner on the build side."""
        for table in (self._whole, *(partition.table for partition in self._partitions)):
            if self._keep_build and (unmatched := table.unmatched()) is not None:
                yield unmatched, None
            if not self._reusable:
                table.clear()
        spilled = [partition for partition in self._partitions if partition.probe is not None]
        for partition in spilled:
            assert partition.probe is not None
            partition.probe.flush()
        for partition in spilled:
            assert partition.build is not None
            assert partition.probe is not None
            if partition.probe.records or self._keep_build:
                yield from self._join_spilled(partition.build, partition.probe)
        self._drop_probe()

    def _join_spilled(self, build: SpilledColumns, probe: SpilledColumns) -> Iterator[Sides]:
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
            keep = self._keep_probe, self._keep_build
            part = ColumnHashJoin(left, *self._keys, *keep, level=self._level + 1)
            for block in as_blocks(build.parts()):
                part.add(block)
            part.begin()
            try:
                for block in as_blocks(probe.parts()):
                    yield from part.probe(block)
                yield from part.finish()
            finally:
                part.close()
        finally:
            left.close()

    def _the_other_way(self, share: Share, build: SpilledColumns, probe: SpilledColumns) -> Iterator[Sides]:
        """Let the build side probe tables of the probe side: so it is read, but not indexed, in each superstep."""
        built, probed = self._keys
        rest = PushBack(as_blocks(probe.parts()))
        while True:
            piece = ColumnTable(share, probed, built)
            piece.fill(rest)
            if not piece.records:
                return
            for block in as_blocks(build.parts()):
                for probes, builds in piece.pairs(block):
                    yield builds, probes
            piece.clear()

    def _in_pieces(self, share: Share, build: SpilledColumns, probe: SpilledColumns) -> Iterator[Sides]:
        built = self._keys_of(build) if self._keep_probe else None
        rest = PushBack(as_blocks(build.parts()))
        while True:
            piece = self._table(share)
            piece.fill(rest)
            if not piece.records:
                return
            for block in as_blocks(probe.parts()):
                yield from piece.pairs(block)
                if built is not None and (alone := _outside(piece.keys_of(block), built, block)) is not None:
                    yield None, alone
            if self._keep_build and (unmatched := piece.unmatched()) is not None:
                yield unmatched, None
            built = None
            piece.clear()

    def _keys_of(self, build: SpilledColumns) -> Any:
        """Return the keys of a partition, each once: few, or the hash would have cut it."""
        from funken.columnar.keyed.groups import distinct  # noqa: PLC0415 - loads NumPy

        def keys() -> Iterator[Any]:
            for columns in build.parts():
                leaf = int_leaf(columns, self._keys[0])
                assert leaf is not None
                yield columns.leaves[leaf].array(columns.length)

        return distinct(keys())

    # ---- the way to records

    def matched(self) -> set[int]:
        """Return the keys of the build side that had a partner so far."""
        tables = (self._whole, *(partition.table for partition in self._partitions))
        return set().union(*(table.matched() for table in tables))

    def waiting(self) -> Blocks:
        """Return the probe records that wait for partitions on disk; they are not joined any more then."""
        spilled = [partition.probe for partition in self._partitions if partition.probe is not None]
        for probe in spilled:
            probe.flush()
        scratch, self._scratch = self._scratch, None

        def blocks() -> Blocks:
            for probe in spilled:
                yield from poured(probe.parts())
            if scratch is not None:
                scratch.close()

        return blocks()

    def _drop_probe(self) -> None:
        for partition in self._partitions:
            partition.probe = None
        if self._scratch is not None:
            self._scratch.close()
            self._scratch = None

    def close(self) -> None:
        """Drop everything."""
        self._drop_probe()
        self._whole.clear()
        self._partitions = []
        self._share.close()


def _outside(keys: Any, known: Any, block: Block) -> Columns | None:
    from funken.columnar.keyed.groups import not_among  # noqa: PLC0415 - loads NumPy

    columns, alone = columns_in(block), not_among(keys, known)
    assert columns is not None
    return columns.take(alone) if len(alone) else None
